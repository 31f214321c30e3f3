//! The inputs and commands of a connection, and the decisions of its owner.
//!
//! Plain values without logic; the owner takes whatever a command carries.

use std::time::{Duration, Instant};

use crate::http::{BodyError, BodyFraming, Fields, Head, HeadError, HeadLimits, RequestLine};
use crate::pool::{Body, ResponseHead};
use crate::spool::SpoolFile;
use crate::sync::permits::{Permit, Permits};
use crate::sync::primitive::Arc;

use super::response::Response;
use super::source::Source;

/// The limits of a connection, in bytes and in time. Shared by all connections of a port.
#[derive(Clone, Debug)]
pub struct ConnectionTerms {
    /// The limits of a request head.
    pub head: HeadLimits,
    /// The time limit of a head from its first byte.
    pub header_timeout: Duration,
    /// The longest pause of the peer while it sends a body.
    pub body_timeout: Duration,
    /// The longest pause of the peer while it reads pending output.
    pub write_timeout: Duration,
    /// The longest idle time between requests.
    pub keepalive_timeout: Duration,
    /// The longest time that the peer may keep sending after the last response.
    pub linger_timeout: Duration,
    /// The time limit from the first byte of a request to the last byte of its response; `None` to apply the header,
    /// body and write timeouts instead.
    pub exchange_timeout: Option<Duration>,
    /// Whether HTTP/2 is accepted.
    pub accepts_http2: bool,
    /// Permits that enlarge the receive window of an HTTP/2 connection by
    /// [`HTTP2_WINDOW_PERMIT_BYTES`](crate::limits::HTTP2_WINDOW_PERMIT_BYTES) each.
    pub window_permits: Arc<Permits>,
}

/// The protocol of the peer, as known to the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireProtocol {
    /// Not negotiated; the first bytes tell.
    Unknown,
    /// HTTP/1, negotiated.
    Http1,
    /// HTTP/2, negotiated.
    Http2,
    /// Plain HTTP on a TLS port.
    PlainHttpOnTls,
}

/// The state of the peer's side of the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// There may be more to read.
    pub is_readable: bool,
    /// It sends nothing beyond what is left to read.
    pub is_closed: bool,
    /// It is gone in both directions.
    pub is_broken: bool,
    /// The transport has pending bytes for it, which it could not send earlier.
    pub has_pending_tls_output: bool,
}

impl Peer {
    /// Returns whether a read could return data or an end of stream.
    pub(super) fn is_worth_a_read(self) -> bool {
        self.is_readable || self.is_broken || self.has_pending_tls_output
    }

    /// Returns whether both directions are open.
    pub(super) fn is_there(self) -> bool {
        !self.is_closed && !self.is_broken
    }
}

/// An event for [`Connection::handle`](super::Connection::handle).
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The connection is lost, or no longer wanted: all requests on it end.
    Abort,
    /// Bytes from the peer, after [`Command::Read`].
    Bytes(&'a [u8]),
    /// The file range returned by [`Output::take_cold`](super::Output::take_cold) was read.
    Cached,
    /// The peer has closed its sending side.
    End,
    /// The protocol that the transport has negotiated; before the first byte.
    Protocol(WireProtocol),
    /// The request of [`Command::Request`] or [`Command::Unreadable`] needs a permit, and there is none.
    Refuse,
    /// The [deadline](super::Connection::deadline) may have passed.
    Timeout,
    /// A turn begins: the socket and all pending work are tried again.
    Turn {
        /// The connection closes once its open requests are answered.
        is_closing: bool,
        /// Less is buffered for a peer that does not read.
        is_memory_tight: bool,
    },
    /// A read would block, for the rest of the turn.
    WouldBlock,
}

/// The next action for the owner of a connection.
#[derive(Debug)]
pub enum Command {
    /// Close the connection and drop it. With `is_whole`, all responses were sent completely, and TLS may say so with
    /// close_notify.
    Close {
        /// No response is incomplete.
        is_whole: bool,
    },
    /// A request has ended; [`ended`](super::Connection::ended) returns its data until the next command is polled.
    Ended(Ended),
    /// Read once, then pass [`Input::Bytes`], [`Input::End`] or [`Input::WouldBlock`].
    Read {
        /// Read even if the socket was not readable: the result decides whether the connection ends.
        looks_again: bool,
    },
    /// Count a request that was answered without the owner.
    Rejected(Rejection),
    /// Start a request: [`begin`](super::Connection::begin) it, or [refuse](Input::Refuse) it if it needs a permit and
    /// there is none.
    Request(Incoming),
    /// Shut down the sending side, and keep reading. `is_whole` as in [`Close`](Self::Close).
    ShutDown {
        /// No response is incomplete.
        is_whole: bool,
    },
    /// Handle a [request](super::Connection::stream).
    Stream(u32, Ask),
    /// Write the pending output: [`transmit`](super::Connection::transmit).
    Transmit,
    /// Start a request that cannot be parsed, as in [`Request`](Self::Request), and [answer](Decision::Respond) it.
    Unreadable(Unreadable),
    /// Wait for an event or the [deadline](super::Connection::deadline).
    Wait,
    /// Serve other connections, then poll again.
    Yield,
}

/// An action that a request needs from the connection's owner.
#[derive(Debug)]
pub enum Ask {
    /// Complete the head of the response, then call [`announce`](super::Stream::announce) at once.
    Announce {
        /// The head.
        head: ResponseHead,
        /// The length of the body, if it is known.
        length: Option<u64>,
        /// The request was `HEAD`.
        head_only: bool,
    },
    /// Wait for room in the spool, then call [`retry_spool`](super::Stream::retry_spool).
    AwaitSpoolRoom,
    /// Respond: the peer paused for too long while sending the body. Expects [`Decision::Refuse`].
    BodyLate {
        /// The spool had no room, which is not the peer's fault.
        is_starved: bool,
    },
    /// Respond: the body is malformed or too long. Expects [`Decision::Refuse`].
    BodyRefused(BodyError),
    /// Take the available parts of the response: [`collect`](super::Stream::collect).
    Collect,
    /// Queue the request with its body; then [`Decision::Await`] the response, or [`Decision::Respond`].
    Offer {
        /// The complete body.
        body: Body,
        /// The peer has gone already.
        client_gone: bool,
    },
    /// Respond with the file named in the head: [`Decision::Respond`]. Until then, the current response is on hold.
    SendFile(ResponseHead),
    /// Append these bytes to this file, or to a new one; then [`spooled`](super::Stream::spooled) or
    /// [`spool_refused`](super::Stream::spool_refused).
    Spool(Option<SpoolFile>, Vec<u8>),
    /// Read this many bytes of the source at this offset; then call [`sliced`](super::Stream::sliced).
    Slice(Source, u64, usize),
    /// The time limit for the response has passed. The wait continues unless the owner decides otherwise.
    WaitOver,
}

/// The owner's decision about a request.
#[derive(Debug)]
pub enum Decision {
    /// Send this response. The unread rest of the body is discarded.
    Respond(Response),
    /// Wait for the response; its parts are announced by [`note_response`](super::Stream::note_response).
    Await {
        /// When to send [`Ask::WaitOver`].
        until: Option<Instant>,
    },
    /// Read the body.
    ReadBody,
    /// Send this response without waiting for the rest of the body; an HTTP/1 connection closes after it.
    Refuse(Response),
}

/// A request whose head was read.
#[derive(Debug)]
pub struct Incoming {
    /// The stream ID; 0 in HTTP/1.
    pub stream: u32,
    /// The head; its request shares it with other threads.
    pub head: Arc<Head>,
    /// The framing of its body.
    pub framing: BodyFraming,
    /// When its first byte arrived.
    pub began: Instant,
    /// Other requests are open on the connection, so this one needs a permit.
    pub needs_permit: bool,
}

/// A request that cannot be parsed.
#[derive(Debug)]
pub struct Unreadable {
    /// The stream ID.
    pub stream: u32,
    /// The reason.
    pub error: Rejected,
    /// Its request line, if that could be parsed.
    pub line: Option<Box<RequestLine>>,
    /// When its first byte arrived.
    pub began: Instant,
    /// As in [`Incoming::needs_permit`].
    pub needs_permit: bool,
}

/// Why a request cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Its head is malformed or too large.
    Head(HeadError),
    /// Its head timed out.
    Late,
    /// Plain HTTP on a TLS port.
    PlainHttpOnTls,
}

/// A request that was answered without the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The stream ID.
    pub stream: u32,
    /// The status of the response.
    pub status: u16,
    /// When its first byte arrived.
    pub began: Instant,
}

/// The limits and the permit of a request.
#[derive(Debug, Default)]
pub struct Grant {
    /// The maximum body length.
    pub body_bytes_max: u64,
    /// Offer it even if its peer has gone, provided that its body is complete.
    pub outlives_client: bool,
    /// Its permit, if it needs one; released with the last part of the request that the connection holds.
    pub permit: Option<Permit>,
}

/// The head of a response without framing.
#[derive(Debug)]
pub struct Announced {
    /// The status code, 200 to 999.
    pub status: u16,
    /// A custom reason phrase.
    pub reason: Option<Vec<u8>>,
    /// The fields, without connection-specific ones.
    pub fields: Fields,
    /// The length of the body, or of the one that `GET` would return; `None` if unknown.
    pub length: Option<u64>,
    /// Whether the body's bytes follow.
    pub has_body: bool,
    /// A body that replaces the body of the response.
    pub page: Option<Vec<u8>>,
    /// The value of `Date`, used unless `fields` contains one.
    pub date: [u8; 29],
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The stream ID.
    pub stream: u32,
    /// The number of response body bytes that the socket has accepted.
    pub sent_bytes: u64,
    /// The response was not sent, and will not be.
    pub is_lost: bool,
    /// The response was sent completely: neither lost nor broken off.
    pub is_whole: bool,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Everything was written.
    pub is_all: bool,
    /// The number of bytes written.
    pub bytes: usize,
    /// The number of bytes that the transport has accepted but not yet passed to the socket.
    pub held_back: usize,
}
