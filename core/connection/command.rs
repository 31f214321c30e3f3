//! What a connection asks of its owner, and what its owner tells it.
//!
//! Promises: plain values; whatever a command carries is the owner's from then on. Refuses: nothing is decided here.

use std::time::{Duration, Instant};

use crate::http::{BodyError, BodyFraming, Fields, Head, HeadError, HeadLimits, RequestLine};
use crate::pool::{Body, ReplyHead};
use crate::spool::SpoolFile;
use crate::sync::permits::{Permit, Permits};
use crate::sync::primitive::Arc;

use super::reply::Reply;
use super::source::Source;

/// What a connection may cost, in bytes and in time. One value serves all connections of a port.
#[derive(Clone, Debug)]
pub struct ConnectionTerms {
    /// The bounds of a request's head.
    pub head: HeadLimits,
    /// How long a head may take from its first byte.
    pub header_timeout: Duration,
    /// How long the peer may send nothing of a body that is wanted.
    pub body_timeout: Duration,
    /// How long the peer may read nothing of what waits for it.
    pub write_timeout: Duration,
    /// How long a connection may be idle between requests.
    pub keepalive_timeout: Duration,
    /// How long the peer may go on sending after the last response.
    pub linger_timeout: Duration,
    /// The longest time from the first byte of a request to the last byte of its response; in its place count
    /// header, body and write timeout where it is `None`.
    pub exchange_timeout: Option<Duration>,
    /// Whether the peer may speak HTTP/2.
    pub accepts_http2: bool,
    /// Permits that enlarge the receive window of an HTTP/2 connection by
    /// [`HTTP2_WINDOW_PERMIT_BYTES`](crate::limits::HTTP2_WINDOW_PERMIT_BYTES) each.
    pub window_permits: Arc<Permits>,
}

/// What the peer speaks, as far as the transport knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireProtocol {
    /// Nobody has agreed on anything; the first bytes tell.
    Unknown,
    /// HTTP/1, by agreement.
    Http1,
    /// HTTP/2, by agreement.
    Http2,
    /// Plain HTTP where TLS is expected.
    Misled,
}

/// What is known of the peer beside the bytes that it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// There may be more to read.
    pub is_readable: bool,
    /// It sends no more than what is there to be read.
    pub is_closed: bool,
    /// It is gone in both directions.
    pub is_broken: bool,
    /// The transport has bytes for it that it could not send when it had to.
    pub is_owed: bool,
}

impl Peer {
    /// Whether a read could bring anything, if only an end.
    pub(super) fn is_worth_a_read(self) -> bool {
        self.is_readable || self.is_broken || self.is_owed
    }

    /// Whether it may send and read on.
    pub(super) fn is_there(self) -> bool {
        !self.is_closed && !self.is_broken
    }
}

/// What the owner of a connection is to do now.
#[derive(Debug)]
pub enum Command {
    /// Close the connection and drop it. With `is_whole` the peer has everything it was promised, and may be told so.
    Close {
        /// Nothing of a response is missing.
        is_whole: bool,
    },
    /// Close the books on a request: [`ended`](super::Connection::ended) has it until the next command is asked for.
    Ended(Ended),
    /// Read once, then call [`receive`](super::Connection::receive), [`end_input`](super::Connection::end_input) or
    /// [`note_dry`](super::Connection::note_dry).
    Read {
        /// Ask the socket even if it has had nothing before: what it says now decides the connection's end.
        looks_again: bool,
    },
    /// Count a request that was answered without its owner.
    Rejected(Rejection),
    /// Start a request: [`begin`](super::Connection::begin) it, or [refuse](super::Connection::refuse_stream) it if
    /// there is no permit for it.
    Request(Incoming),
    /// Close the way to the peer and leave the way back open. With `is_whole` as in [`Close`](Self::Close).
    ShutDown {
        /// Nothing of a response is missing.
        is_whole: bool,
    },
    /// See to a request.
    Stream(u32, Ask),
    /// Write what waits: [`transmit`](super::Connection::transmit).
    Transmit,
    /// Start a request that cannot be read: [`begin_unreadable`](super::Connection::begin_unreadable).
    Unreadable(Unreadable),
    /// Nothing until something comes, or the [deadline](super::Connection::deadline) passes.
    Wait,
    /// Let other connections have their turn, and poll again.
    Yield,
}

/// What a request needs of the connection's owner.
#[derive(Debug)]
pub enum Ask {
    /// Complete the head of the response, then call [`announce`](super::Connection::announce) at once.
    Announce {
        /// The head.
        head: ReplyHead,
        /// The length of the body, if it is known.
        length: Option<u64>,
        /// The request was `HEAD`.
        head_only: bool,
    },
    /// Say when there may be room in the spool again: [`retry_spool`](super::Connection::retry_spool).
    AwaitSpoolRoom,
    /// Answer: the peer has sent nothing of the body for too long. [`Decision::Refuse`] is meant.
    BodyLate {
        /// It was not the peer's fault: the spool had no room.
        is_starved: bool,
    },
    /// Answer: the body is malformed or too long. [`Decision::Refuse`] is meant.
    BodyRefused(BodyError),
    /// Take the parts of the reply that are ready: [`collect`](super::Connection::collect).
    Collect,
    /// Offer the request with its body: [`Decision::Await`] the reply, or [`Decision::Answer`].
    Offer {
        /// The whole body.
        body: Body,
        /// The peer has gone already.
        is_deserted: bool,
    },
    /// Answer with the file that the head names: [`Decision::Answer`]. The reply that named it waits until then.
    SendFile(ReplyHead),
    /// Append these bytes to this file, or to a new one; then [`spooled`](super::Connection::spooled) or
    /// [`spool_refused`](super::Connection::spool_refused).
    Spool(Option<SpoolFile>, Vec<u8>),
    /// Read this many bytes of the source, from this offset; then [`sliced`](super::Connection::sliced).
    Slice(Source, u64, usize),
    /// The wait for the reply is over. It goes on if nothing is decided.
    WaitOver,
}

/// What the owner decides about a request.
#[derive(Debug)]
pub enum Decision {
    /// This answers it. What is left of its body is thrown away.
    Answer(Reply),
    /// Its reply will come: [`note_reply`](super::Connection::note_reply).
    Await {
        /// When [`Ask::WaitOver`] is to be said.
        until: Option<Instant>,
    },
    /// Its body is wanted.
    ReadBody,
    /// This answers it, and the connection ends with it: nobody waits for the rest of its body.
    Refuse(Reply),
}

/// A request whose head has been read.
#[derive(Debug)]
pub struct Incoming {
    /// Its number on the connection; 0 where a connection carries one at a time.
    pub stream: u32,
    /// The head.
    pub head: Head,
    /// How its body is framed.
    pub framing: BodyFraming,
    /// When its first byte came.
    pub began: Instant,
    /// It is beside others on its connection, and needs a permit of its own.
    pub needs_permit: bool,
}

/// A request that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Its number on the connection.
    pub stream: u32,
    /// Why.
    pub error: Rejected,
    /// Its first line, if that could be read.
    pub line: Option<RequestLine>,
    /// When its first byte came.
    pub began: Instant,
    /// As of [`Incoming::needs_permit`].
    pub needs_permit: bool,
}

/// Why a request cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Its head is malformed or too large.
    Head(HeadError),
    /// Its head did not come in time.
    Late,
    /// It came in the clear where TLS is expected.
    Misled,
}

/// A request that was answered without its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its number on the connection.
    pub stream: u32,
    /// The status of the answer.
    pub status: u16,
    /// When its first byte came.
    pub began: Instant,
}

/// What a request may cost, and what belongs to it.
#[derive(Debug)]
pub struct Grant {
    /// The longest body.
    pub body_bytes_max: u64,
    /// It is to be offered although its peer has gone, if it has come whole.
    pub outlives_peer: bool,
    /// The permit of a request that needs one; given back when nothing of it is left on the connection.
    pub permit: Option<Permit>,
}

/// The head of a response, framing aside.
#[derive(Debug)]
pub struct Announced {
    /// The status code, 200 to 999.
    pub status: u16,
    /// A phrase of the script's own.
    pub reason: Option<Vec<u8>>,
    /// The fields, without those of the connection.
    pub fields: Fields,
    /// The length of the body, or of the one that a `GET` would have; `None` when it is not known.
    pub length: Option<u64>,
    /// Whether the body's bytes follow.
    pub has_body: bool,
    /// The body, if it takes the place of the reply's own.
    pub page: Option<Vec<u8>>,
    /// The value of the `Date` field, unless there is one among `fields`.
    pub date: [u8; 29],
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its number on the connection.
    pub stream: u32,
    /// How many bytes of the response's body the socket has taken.
    pub sent_bytes: u64,
    /// Its response is not out, and will not be.
    pub is_lost: bool,
    /// Its response is out as a whole: it is not lost, and was not broken off.
    pub is_whole: bool,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Everything is out.
    pub is_all: bool,
    /// How many bytes went out.
    pub bytes: usize,
    /// How many bytes the transport has taken and not yet given to the socket.
    pub held_back: usize,
}
