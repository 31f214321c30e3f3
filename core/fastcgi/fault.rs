//! The reasons to close a connection.

use crate::limits::FASTCGI_HEAD_BYTES_MAX;

/// A violation of the protocol, or the refusal of a request. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ended before the response did.
    Closed,
    /// The content of END_REQUEST is shorter than the protocol requires.
    EndTooShort(u16),
    /// The header of the response is longer than [`FASTCGI_HEAD_BYTES_MAX`].
    HeadTooLarge,
    /// The response ended within its header.
    NoHead,
    /// The responder refused the request.
    Refused(Refusal),
    /// A record of a type that only a web server sends.
    UnexpectedType(u8),
    /// A record for a request that was not sent.
    UnknownRequest(u16),
    /// Bytes after the end of a response.
    Unrequested,
    /// A record of another version of the protocol.
    UnknownVersion(u8),
}

/// How a responder refuses a request: the status of END_REQUEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It takes one request at a time, and has one.
    CannotMultiplex,
    /// It has no resources for another request.
    Overloaded,
    /// It is not a responder.
    UnknownRole,
    /// A status that the protocol does not define.
    Other(u8),
}

impl Refusal {
    /// Returns the refusal of a status; `None` if the request was completed.
    pub(super) fn of_status(status: u8) -> Option<Self> {
        match status {
            0 => None,
            1 => Some(Self::CannotMultiplex),
            2 => Some(Self::Overloaded),
            3 => Some(Self::UnknownRole),
            other => Some(Self::Other(other)),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed before the end of the response"),
            Self::EndTooShort(len) => write!(f, "END_REQUEST has {len} bytes instead of 8"),
            Self::HeadTooLarge => {
                write!(f, "the header of the response exceeds {FASTCGI_HEAD_BYTES_MAX} bytes")
            }
            Self::NoHead => f.write_str("the response ended within its header"),
            Self::Refused(Refusal::CannotMultiplex) => f.write_str("the request was refused: CANT_MPX_CONN"),
            Self::Refused(Refusal::Overloaded) => f.write_str("the request was refused: OVERLOADED"),
            Self::Refused(Refusal::UnknownRole) => f.write_str("the request was refused: UNKNOWN_ROLE"),
            Self::Refused(Refusal::Other(status)) => {
                write!(f, "the request was refused with the unknown status {status}")
            }
            Self::UnexpectedType(kind) => {
                write!(f, "a record of type {kind}, which only web servers send")
            }
            Self::UnknownRequest(id) => write!(f, "a record of request {id}, which does not exist"),
            Self::Unrequested => f.write_str("bytes after the end of a response"),
            Self::UnknownVersion(version) => write!(f, "a record of FastCGI version {version} instead of 1"),
        }
    }
}
