//! A connection of either protocol.
//!
//! One method for each event, and one ([`Connection::poll_command`]) for all actions. A call that comes late, or for a
//! request that has ended, has no effect. See the [module](super) for the limits of this type.
//!
//! ```text
//!   begin_turn ──▶ poll_command ──▶ Wait, Yield (end of the turn), Close (end of the connection)
//!                      ▲    └──▶ Read, Transmit, Request, Stream… ──▶ the call that each names ──┐
//!                      └─────────────────────────────────────────────────────────────────────────┘
//! ```

use std::collections::VecDeque;
use std::time::Instant;

use crate::pool::Part;
use crate::spool::{Share, SpoolError, SpoolFile};
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use super::command::{Announced, Command, ConnectionTerms, Decision, Grant, Peer, Sent, WireProtocol};
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

    /// Begins a turn: the socket and all pending work are tried again. With `is_closing`, the connection closes once
    /// its open requests are answered; with `is_memory_tight`, less is buffered for a peer that does not read.
    pub fn begin_turn(&mut self, is_closing: bool, is_memory_tight: bool) {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.begin_turn(is_closing),
            Protocol::Http2(http2) => http2.begin_turn(is_closing, is_memory_tight),
        }
    }

    /// Returns the number of bytes that the connection itself buffers: unsent responses and unread request bodies. The
    /// buffers of replies are counted in [shares](Share) of the reply memory.
    pub fn copied_bytes(&mut self) -> u64 {
        match &mut self.protocol {
            Protocol::Http1(_) => 0,
            Protocol::Http2(http2) => http2.copied_bytes(),
        }
    }

    /// Returns the next command.
    pub fn poll_command(&mut self, peer: Peer, now: Instant) -> Command {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.poll(peer, now),
            Protocol::Http2(http2) => http2.poll(&self.terms, peer, now),
        }
    }

    /// Returns the owner's data of the request that the last command reported as [ended](Command::Ended).
    pub fn ended(&mut self) -> Option<&mut R> {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.ended(),
            Protocol::Http2(http2) => http2.ended(),
        }
    }

    /// Sets the protocol that the transport has negotiated. Must be called before the first byte.
    pub fn note_protocol(&mut self, protocol: WireProtocol) {
        if let Protocol::Http1(http1) = &mut self.protocol {
            http1.note_protocol(protocol);
        }
    }

    /// Takes input, after [`Command::Read`].
    pub fn receive(&mut self, bytes: &[u8], now: Instant) {
        match &mut self.protocol {
            Protocol::Http1(http1) => {
                if http1.receive(bytes, now) {
                    let mut http2 = Box::new(Http2::new(&http1.take_input(), now));
                    http2.begin_turn(http1.is_closing(), false);
                    self.protocol = Protocol::Http2(http2);
                }
            }
            Protocol::Http2(http2) => http2.receive(bytes, now),
        }
    }

    /// Records that the peer has closed its sending side.
    pub fn end_input(&mut self) {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.end_input(),
            Protocol::Http2(http2) => http2.end_input(),
        }
    }

    /// Records that a read would block, for the rest of the turn.
    pub fn note_dry(&mut self) {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.note_dry(),
            Protocol::Http2(http2) => http2.note_dry(),
        }
    }

    /// Passes the pending output to `write`, after [`Command::Transmit`], and records its result.
    ///
    /// # Errors
    ///
    /// Those of `write`; the connection is then [aborted](Self::abort).
    pub fn transmit<E>(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut Output) -> Result<Sent, E>,
    ) -> Result<(), E> {
        let result = match &mut self.protocol {
            Protocol::Http1(http1) => write(http1.output()).map(|sent| http1.note_sent(sent, now)),
            Protocol::Http2(http2) => {
                let (had_room, sent) = http2.with_output(|output| (!output.is_full(), write(output)));
                sent.map(|sent| http2.note_sent(&self.terms, sent, had_room, now))
            }
        };
        result.inspect_err(|_| self.abort())
    }

    /// Records that the file range returned by [`Output::take_cold`] was read.
    pub fn note_warmed(&mut self) {
        if let Protocol::Http1(http1) = &mut self.protocol {
            http1.output().warmed();
        }
    }

    /// Begins a request, after [`Command::Request`]; returns whether its body is within the granted length. If not, the
    /// owner must [refuse](Decision::Refuse) it.
    #[must_use]
    pub fn begin(&mut self, request: R, grant: Grant, now: Instant) -> bool {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.begin(request, &grant, now),
            Protocol::Http2(http2) => http2.begin(request, grant, now),
        }
    }

    /// Begins a request, after [`Command::Unreadable`]; the owner must [answer](Decision::Answer) it.
    pub fn begin_unreadable(&mut self, request: R, permit: Option<Permit>, now: Instant) {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.begin_unreadable(request, now),
            Protocol::Http2(http2) => http2.begin_unreadable(request, permit, now),
        }
    }

    /// Refuses a request that needs a permit, after [`Command::Request`] or [`Command::Unreadable`].
    pub fn refuse_stream(&mut self) {
        if let Protocol::Http2(http2) = &mut self.protocol {
            http2.refuse_stream();
        }
    }

    /// Returns the stream IDs of the requests being served.
    pub fn streams(&mut self) -> Vec<u32> {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.stream().iter().map(|_| 0).collect(),
            Protocol::Http2(http2) => http2.stream_ids(),
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

    /// Returns the owner's data of a request.
    pub fn request(&mut self, stream: u32) -> Option<&mut R> {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.stream().map(|(stream, _)| &mut stream.request),
            Protocol::Http2(http2) => http2.request(stream),
        }
    }

    /// Takes the owner's decision about a request.
    pub fn decide(&mut self, stream: u32, decision: Decision, now: Instant) {
        self.visit(stream, |stream, _| stream.decide(decision, now));
    }

    /// Takes the head of a response, after [`Ask::Announce`](super::Ask::Announce).
    pub fn announce(&mut self, stream: u32, announced: Announced) {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.announce(announced),
            Protocol::Http2(http2) => http2.announce(stream, announced),
        }
    }

    /// Announces parts of the reply to a request; [`Ask::Collect`](super::Ask::Collect) will ask for them.
    pub fn note_reply(&mut self, stream: u32) {
        self.visit(stream, |stream, _| stream.note_reply());
    }

    /// Lets `take` append parts of the reply to a request; `take` returns their share of the reply memory.
    pub fn collect(&mut self, stream: u32, take: impl FnOnce(&mut VecDeque<Part>) -> Share) {
        self.visit(stream, |stream, _| stream.collect(take));
    }

    /// Returns whether a request has a reply: the head of its response was sent, or is pending.
    pub fn has_reply(&mut self, stream: u32) -> bool {
        self.stream(stream).is_some_and(|(stream, _)| stream.has_reply())
    }

    /// Returns whether a request was offered, and no part of its reply has arrived.
    pub fn is_waiting(&mut self, stream: u32) -> bool {
        self.stream(stream).is_some_and(|(stream, _)| stream.is_waiting())
    }

    /// Takes the file and the buffer back after a piece of a body was written.
    pub fn spooled(&mut self, stream: u32, file: SpoolFile, buffer: Vec<u8>, now: Instant) {
        self.visit(stream, |stream, _| stream.spooled(file, buffer, now));
    }

    /// Takes a refused piece of a body back; returns whether a retry may succeed. If not, the owner must
    /// [refuse](Decision::Refuse) the request.
    #[must_use]
    pub fn spool_refused(
        &mut self,
        stream: u32,
        file: Option<SpoolFile>,
        bytes: Vec<u8>,
        error: &SpoolError,
    ) -> bool {
        let refused = |(stream, _): (&mut Stream<R>, _)| stream.spool_refused(file, bytes, error);
        self.stream(stream).is_none_or(refused)
    }

    /// Retries to spool a body, after room became available.
    pub fn retry_spool(&mut self, stream: u32) {
        self.visit(stream, |stream, _| stream.retry_spool());
    }

    /// Takes a slice of a reply; an empty one means that the source ended early, which breaks the reply off.
    pub fn sliced(&mut self, stream: u32, bytes: Vec<u8>) {
        self.visit(stream, |stream, output| stream.sliced(bytes, output));
    }

    /// Breaks a reply off because its rest is not available.
    pub fn fail_reply(&mut self, stream: u32) {
        self.visit(stream, |stream, _| stream.fail_reply());
    }

    /// Returns the deadline of the current wait; `None` while waiting for the owner.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.protocol {
            Protocol::Http1(http1) => http1.deadline(&self.terms),
            Protocol::Http2(http2) => http2.deadline(&self.terms),
        }
    }

    /// Ends what is late, if the deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.on_deadline(&self.terms, now),
            Protocol::Http2(http2) => http2.on_deadline(&self.terms, now),
        }
    }

    /// Returns when the current wait began; `None` for HTTP/2.
    pub fn waiting_since(&self) -> Option<Instant> {
        match &self.protocol {
            Protocol::Http1(http1) => Some(http1.waiting_since()),
            Protocol::Http2(_) => None,
        }
    }

    /// Returns the body bytes received since the last call.
    pub fn take_received(&mut self) -> u64 {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.take_received(),
            Protocol::Http2(http2) => http2.take_received(),
        }
    }

    /// Aborts the connection: all requests on it end.
    pub fn abort(&mut self) {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.abort(),
            Protocol::Http2(http2) => http2.abort(),
        }
    }

    fn stream(&mut self, stream: u32) -> Option<(&mut Stream<R>, &mut Output)> {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.stream(),
            Protocol::Http2(http2) => http2.stream(stream),
        }
    }

    fn visit(&mut self, stream: u32, act: impl FnOnce(&mut Stream<R>, &mut Output)) {
        if let Some((stream, output)) = self.stream(stream) {
            act(stream, output);
        }
    }
}
