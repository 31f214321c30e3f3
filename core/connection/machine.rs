//! A connection of either protocol.
//!
//! [Inputs](Input) go in, [commands](Command) come out, and a request is handled through its [`Stream`]. An input that
//! comes late has no effect. See the [module](super) for the limits of this type.
//!
//! ```text
//!   Turn ──▶ poll_command ──▶ Wait, Yield (end of the turn), Close (end of the connection)
//!                 ▲    └──▶ Read, Transmit, Request, Stream… ──▶ the input or the call that each names ──┐
//!                 └──────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use std::time::Instant;

use crate::sync::primitive::Arc;

use super::command::{Command, ConnectionTerms, Grant, Input, Peer, Sent};
use super::http1::Http1;
use super::http2::Http2;
use super::output::Output;
use super::stream::Stream;

/// One connection; `R` is the owner's data of a request.
#[derive(Debug)]
pub struct Connection<R> {
    terms: Arc<ConnectionTerms>,
    protocol: Protocol<R>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the larger one is what nearly every connection speaks")]
enum Protocol<R> {
    Http1(Http1<R>),
    Http2(Box<Http2<R>>),
}

impl<R> Connection<R> {
    /// Starts before the first byte. With `sends_files`, the transport can send file ranges.
    pub fn new(terms: Arc<ConnectionTerms>, sends_files: bool, now: Instant) -> Self {
        let protocol = Protocol::Http1(Http1::new(&terms, sends_files, now));
        Self { terms, protocol }
    }

    /// Handles an event.
    pub fn handle(&mut self, input: Input<'_>, now: Instant) {
        match &mut self.protocol {
            Protocol::Http1(http1) => {
                if http1.handle(input, &self.terms, now) {
                    self.protocol = Protocol::Http2(Box::new(http1.upgrade(now)));
                }
            }
            Protocol::Http2(http2) => http2.handle(input, &self.terms, now),
        }
    }

    /// Returns the next command.
    pub fn poll_command(&mut self, peer: Peer, now: Instant) -> Command {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.poll(peer, now),
            Protocol::Http2(http2) => http2.poll(&self.terms, peer, now),
        }
    }

    /// Passes the pending output to `write`, after [`Command::Transmit`], and records its result.
    ///
    /// # Errors
    ///
    /// Those of `write`; the connection is then [aborted](Input::Abort).
    pub fn transmit<E>(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut Output) -> Result<Sent, E>,
    ) -> Result<(), E> {
        let result = match &mut self.protocol {
            Protocol::Http1(http1) => http1.transmit(now, write),
            Protocol::Http2(http2) => http2.transmit(&self.terms, now, write),
        };
        result.inspect_err(|_| self.handle(Input::Abort, now))
    }

    /// Begins a request, after [`Command::Request`] or [`Command::Unreadable`]; returns whether its body is within the
    /// granted length. If not, the owner must [refuse](super::Decision::Refuse) it.
    #[must_use]
    pub fn begin(&mut self, request: R, grant: Grant, now: Instant) -> bool {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.begin(request, &grant, now),
            Protocol::Http2(http2) => http2.begin(request, grant, now),
        }
    }

    /// Returns a request that is being served, to be handled: its connection advances it in the next turn.
    pub fn stream(&mut self, stream: u32) -> Option<&mut Stream<R>> {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.stream(),
            Protocol::Http2(http2) => http2.stream(stream),
        }
    }

    /// Returns the stream IDs of the requests being served.
    pub fn streams(&mut self) -> Vec<u32> {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.stream().iter().map(|_| 0).collect(),
            Protocol::Http2(http2) => http2.stream_ids(),
        }
    }

    /// Returns the owner's data of the request that the last command reported as [ended](Command::Ended).
    pub fn ended(&mut self) -> Option<&mut R> {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.ended(),
            Protocol::Http2(http2) => http2.ended(),
        }
    }

    /// Returns the deadline of the current wait; `None` while waiting for the owner.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.protocol {
            Protocol::Http1(http1) => http1.timers(&self.terms).next(),
            Protocol::Http2(http2) => http2.timers(&self.terms).next(),
        }
    }

    /// Returns when the current wait began; `None` for HTTP/2.
    pub fn waiting_since(&self) -> Option<Instant> {
        match &self.protocol {
            Protocol::Http1(http1) => Some(http1.waiting_since()),
            Protocol::Http2(_) => None,
        }
    }

    /// Returns whether the connection is idle: no request, no part of one and no unsent output. At least one request
    /// was served, or the HTTP/2 greeting is complete.
    pub fn is_at_rest(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(http1) => http1.is_at_rest(),
            Protocol::Http2(http2) => http2.is_at_rest(),
        }
    }

    /// Returns whether requests are served concurrently on the connection.
    pub fn is_multiplexed(&self) -> bool {
        matches!(self.protocol, Protocol::Http2(_))
    }

    /// Returns the number of bytes that the connection itself buffers: unsent responses and unread request bodies. The
    /// buffers of responses are counted in [shares](crate::spool::Share) of the response memory.
    pub fn copied_bytes(&mut self) -> u64 {
        match &mut self.protocol {
            Protocol::Http1(_) => 0,
            Protocol::Http2(http2) => http2.copied_bytes(),
        }
    }

    /// Returns the body bytes received since the last call.
    pub fn take_received(&mut self) -> u64 {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.take_received(),
            Protocol::Http2(http2) => http2.take_received(),
        }
    }
}
