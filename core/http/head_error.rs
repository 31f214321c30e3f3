//! The reasons for rejecting a request header, and their status codes.
//!
//! The list is closed; each error is the client's fault and has one status code. It keeps no bytes of the request, so
//! displaying it can neither leak nor inject anything.

use std::fmt;

/// Why a request header was rejected. It is always the client's fault, and the connection always ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// `Content-Length` is not a decimal number.
    ContentLengthInvalid,
    /// `Content-Length` is repeated.
    ContentLengthRepeated,
    /// A field line is malformed: its name, white space around the name, line folding, or an invalid byte in its value.
    FieldInvalid,
    /// A required `Host` is missing.
    HostMissing,
    /// `Host` is repeated.
    HostRepeated,
    /// `Host`, or the authority of the target, is not a host with an optional port.
    HostInvalid,
    /// A line ends in LF without CR, or there are too many empty lines before the request.
    LineEndInvalid,
    /// The request line is malformed.
    RequestLineInvalid,
    /// The target has none of the forms that are valid for its method.
    TargetInvalid,
    /// `Transfer-Encoding` is combined with `Content-Length`, used in HTTP/1.0, empty, or does not have `chunked`
    /// exactly once at its end.
    TransferEncodingInvalid,
    /// The target exceeds the limit.
    TargetTooLong,
    /// The request header exceeds the limit.
    TooLarge,
    /// The number of fields exceeds the limit.
    TooManyFields,
    /// `Transfer-Encoding` contains an unsupported coding.
    TransferCodingUnknown,
    /// The major version is not 1.
    VersionUnsupported,
}

impl HeadError {
    /// Returns the status code of the response.
    pub const fn status(self) -> u16 {
        match self {
            Self::ContentLengthInvalid
            | Self::ContentLengthRepeated
            | Self::FieldInvalid
            | Self::HostMissing
            | Self::HostRepeated
            | Self::HostInvalid
            | Self::LineEndInvalid
            | Self::RequestLineInvalid
            | Self::TargetInvalid
            | Self::TransferEncodingInvalid => 400,
            Self::TargetTooLong => 414,
            Self::TooLarge | Self::TooManyFields => 431,
            Self::TransferCodingUnknown => 501,
            Self::VersionUnsupported => 505,
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ContentLengthInvalid => "content-length is not a decimal number",
            Self::ContentLengthRepeated => "content-length is given more than once",
            Self::FieldInvalid => "a field line is malformed",
            Self::HostMissing => "host is missing",
            Self::HostRepeated => "host is given more than once",
            Self::HostInvalid => "host is not a name or address with an optional port",
            Self::LineEndInvalid => "a line does not end in CR LF, or there are too many empty lines",
            Self::RequestLineInvalid => "the request line is malformed",
            Self::TargetInvalid => "the request target is not valid for the method",
            Self::TransferEncodingInvalid => {
                "transfer-encoding does not delimit the body (only chunked is supported)"
            }
            Self::TargetTooLong => "the request target is too long",
            Self::TooLarge => "the request header is too large",
            Self::TooManyFields => "there are too many header fields",
            Self::TransferCodingUnknown => {
                "transfer-encoding contains an unknown coding (only chunked is supported)"
            }
            Self::VersionUnsupported => {
                "the protocol version is not supported (supported: HTTP/1.0 and HTTP/1.1)"
            }
        })
    }
}

impl std::error::Error for HeadError {}
