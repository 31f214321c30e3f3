//! The conversion of a request head from the library's type.

use std::time::Instant;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;

use crate::http::pseudo::{Pseudo, head_of};
use crate::http::{BodyFraming, Head, HeadError, HeadLimits, Parsed, RequestLine, Version};
use crate::sync::primitive::Arc;

use super::command::{Command, Incoming, Rejected, Unreadable};
use super::stream::ResponseFacts;

/// A request whose head was read and which has not begun.
#[derive(Debug)]
pub(super) struct Arriving {
    /// The stream ID.
    pub(super) id: u32,
    pub(super) facts: ResponseFacts,
    pub(super) framing: BodyFraming,
    pub(super) receive: RecvStream,
    pub(super) respond: SendResponse<Bytes>,
}

impl Arriving {
    /// Reads a head that began at `began`; returns it with the command for the owner, whether it is valid or not.
    pub(super) fn read(
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        began: Instant,
        needs_permit: bool,
        limits: HeadLimits,
    ) -> (Self, Command) {
        let stream = respond.stream_id().as_u32();
        let (parts, receive) = request.into_parts();
        let head_only = parts.method == http::Method::HEAD;
        let version = Version::Http2;
        let mut facts = ResponseFacts { version, head_only, keep_alive: false, expects_continue: false };
        let (framing, command) = match read_head(&parts, limits, receive.is_end_stream()) {
            Ok((head, framing, expects_continue)) => {
                facts.expects_continue = expects_continue;
                let head = Arc::new(head);
                let incoming = Incoming { stream, head, framing, began, needs_permit };
                (framing, Command::Request(incoming))
            }
            Err(error) => {
                let path = parts.uri.path().as_bytes();
                let line = RequestLine::of(parts.method.as_str().as_bytes(), path).map(Box::new);
                let unreadable =
                    Unreadable { stream, error: Rejected::Head(error), line, began, needs_permit };
                (BodyFraming::None, Command::Unreadable(unreadable))
            }
        };
        (Self { id: stream, facts, framing, receive, respond }, command)
    }
}

/// Reads a head; with `is_bodiless`, no body follows. Returns the head, the framing of its body, and whether the client
/// expects `100 Continue`.
///
/// # Errors
///
/// If the head is malformed or too large.
fn read_head(
    parts: &http::request::Parts,
    limits: HeadLimits,
    is_bodiless: bool,
) -> Result<(Head, BodyFraming, bool), HeadError> {
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let target = match parts.uri.path_and_query() {
        Some(target) => target.as_str().as_bytes(),
        None => authority.unwrap_or_default(),
    };
    let method = parts.method.as_str();
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let request = Pseudo { method, target, authority, is_bodiless };
    match head_of(request, fields, limits)? {
        Parsed::Partial => Err(HeadError::RequestLineInvalid),
        Parsed::Complete { head, framing, expect_continue, .. } => Ok((head, framing, expect_continue)),
    }
}
