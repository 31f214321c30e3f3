//! HTTP/1 on one connection (RFC 9112): reads requests, and delimits their responses.
//!
//! Requests are answered one after the other, in order; a pipelined request stays unparsed until its turn, so that its
//! memory is bounded. A body is read, and `100 Continue` is sent, only once the owner wants the body; a client that is
//! refused gets the refusal instead.
//!
//! ```text
//!   Head ──complete──▶ Arriving ──begin──▶ Serving ──kept──▶ Head, by way of Skipping if a body is left
//!    └──malformed, late──▶ Refusing ──▶ ▲     ├──closing──▶ Lingering, if the peer may be sending ──▶ Over
//!                                             └──peer gone──▶ Aborting ──▶ Over
//! ```

use std::time::{Duration, Instant};

use crate::http::{
    BodyFraming, HeadReader, MethodKind, Parsed, RequestLine, Version, preface, wants_head_only,
};
use crate::limits::{FIRST_BYTE_GRACE, LINGER_BYTES_MAX, LINK_STEPS_MAX};
use crate::pool::End;
use crate::sync::primitive::Arc;

use super::body_reader::BodyReader;
use super::buffers::Buffers;
use super::command::{
    Command, ConnectionTerms, Ended, Grant, Incoming, Input, Peer, Rejected, Sent, Unreadable, WireProtocol,
};
use super::http2::Http2;
use super::lingering::Lingering;
use super::output::Output;
use super::stream::{Pause, ResponseFacts, Stream, Unwanted};
use super::timers::{Timer, TimerTable};

/// A connection that speaks HTTP/1.
#[derive(Debug)]
pub(super) struct Http1<R> {
    state: Http1State<R>,
    /// The request that ended last, until the next command.
    ended: Option<Box<Stream<R>>>,
    buffers: Buffers,
    reader: HeadReader,
    /// The protocol of the peer, as known to the transport.
    protocol: WireProtocol,
    /// At least one request was answered.
    has_served: bool,
    /// When the first byte of the current head arrived.
    began: Instant,
    /// When the current wait began.
    since: Instant,
    /// The steps left in the current turn.
    steps: u32,
    /// The peer may still be sending input of the current request.
    has_unread: bool,
    /// The unread rest of its body, if it is not needed and its end can be found.
    leftover: Option<Box<BodyReader>>,
}

/// The state of the connection; see the diagram above.
#[derive(Debug)]
enum Http1State<R> {
    /// The request is lost; its end has not been reported.
    Aborting(Box<Stream<R>>),
    /// A head was read, or found to be malformed; its request has not begun.
    Arriving { facts: ResponseFacts, framing: BodyFraming, is_readable: bool },
    /// Reading a head, or idle between requests.
    Head,
    /// Everything is sent; further input is discarded.
    Lingering(Box<Lingering>),
    /// Closed; with `is_whole`, no response is incomplete.
    Over { is_whole: bool },
    /// A head cannot be parsed; this has not been reported.
    Refusing(Rejected),
    /// A request is being served.
    Serving(Box<Stream<R>>),
    /// Discarding the rest of a body that was not needed.
    Skipping(Box<Skipping>),
}

/// A body that is discarded.
#[derive(Debug)]
struct Skipping {
    reader: BodyReader,
    /// The number of bytes discarded.
    bytes: u64,
}

/// The ID of the only stream.
const STREAM: u32 = 0;

impl<R> Http1<R> {
    /// Starts before the first byte; with `sends_files`, the output accepts file ranges.
    pub(super) fn new(terms: &ConnectionTerms, sends_files: bool, now: Instant) -> Self {
        Self {
            state: Http1State::Head,
            ended: None,
            buffers: Buffers::new(sends_files, now),
            reader: HeadReader::new(terms.head),
            protocol: if terms.accepts_http2 { WireProtocol::Unknown } else { WireProtocol::Http1 },
            has_served: false,
            began: now,
            since: now,
            steps: 0,
            has_unread: false,
            leftover: None,
        }
    }

    /// Handles an event; returns whether the peer speaks HTTP/2, and the connection must be
    /// [upgraded](Self::upgrade).
    #[must_use]
    pub(super) fn handle(&mut self, input: Input<'_>, terms: &ConnectionTerms, now: Instant) -> bool {
        match input {
            Input::Abort => self.abort(),
            Input::Bytes(bytes) => return self.receive(bytes, now),
            Input::Cached => self.buffers.output.warmed(),
            Input::End => self.buffers.end_input(),
            Input::Protocol(protocol) => self.protocol = protocol,
            Input::Timeout => {
                if let Some(timer) = self.timers(terms).expired(now) {
                    self.on_timeout(timer);
                }
            }
            Input::Turn { is_closing, .. } => {
                self.steps = LINK_STEPS_MAX;
                self.buffers.begin_turn(is_closing);
            }
            Input::Refuse => debug_assert!(false, "refused for lack of a permit, which it does not need"),
            Input::WouldBlock => self.buffers.note_would_block(),
        }
        false
    }

    /// Continues in HTTP/2 with the unused input.
    pub(super) fn upgrade(&mut self, now: Instant) -> Http2<R> {
        Http2::new(&self.buffers.take_input(), self.buffers.is_closing(), now)
    }

    /// Returns whether the connection is idle after a request, without pending input or output.
    pub(super) fn is_at_rest(&self) -> bool {
        let buffers = &self.buffers;
        matches!(self.state, Http1State::Head)
            && self.has_served
            && !(buffers.is_closing() || buffers.has_input() || buffers.has_ended())
            && buffers.output.is_empty()
    }

    fn receive(&mut self, bytes: &[u8], now: Instant) -> bool {
        self.take(bytes, now);
        match (&self.state, self.protocol) {
            // HTTP/2 reports a missing preface.
            (Http1State::Head, WireProtocol::Http2) => true,
            (Http1State::Head, WireProtocol::Unknown) => {
                !self.has_served && preface::is_preface(self.buffers.input())
            }
            _ => false,
        }
    }

    fn take(&mut self, bytes: &[u8], now: Instant) {
        let mut rest = bytes;
        match &mut self.state {
            Http1State::Head if !self.buffers.has_input() => {
                self.began = now;
                self.since = now;
            }
            Http1State::Lingering(lingering) => return self.buffers.received += lingering.discard(bytes),
            Http1State::Serving(stream) if !self.buffers.has_input() => {
                // Bypasses the input buffer, which keeps only what belongs to the next request.
                let (used, body_bytes) = stream.take_body(bytes, now);
                self.buffers.received += body_bytes as u64;
                rest = &bytes[used..];
            }
            _ => {}
        }
        self.buffers.receive(rest);
    }

    /// Passes the pending output to `write`, and records its result.
    pub(super) fn transmit<E>(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut Output) -> Result<Sent, E>,
    ) -> Result<(), E> {
        let sent = write(&mut self.buffers.output)?;
        self.steps = self.steps.saturating_sub(self.buffers.output.take_effort());
        self.buffers.note_sent(sent, now);
        if let Http1State::Serving(stream) = &mut self.state {
            stream.note_unsent(self.buffers.output.len());
        }
        Ok(())
    }

    /// Returns the body bytes received since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.buffers.received)
    }

    /// Returns the request being served.
    pub(super) fn stream(&mut self) -> Option<&mut Stream<R>> {
        match &mut self.state {
            Http1State::Serving(stream) => Some(stream),
            _ => None,
        }
    }

    /// Begins the request whose head was read; returns whether its body is within the limit. Inlined so that the large
    /// stream is moved only once.
    #[inline(always)]
    pub(super) fn begin(&mut self, request: R, grant: &Grant, now: Instant) -> bool {
        let Http1State::Arriving { facts, framing, is_readable } = self.state else {
            debug_assert!(false, "begun without a head");
            return true;
        };
        // Built where it stays: it is large.
        let stream = Box::write(Box::new_uninit(), Stream::new(request, facts, framing, grant, now));
        let fits = !stream.is_too_long();
        self.has_unread = !is_readable;
        self.state = Http1State::Serving(stream);
        fits
    }

    /// Returns the request that the last command reported as ended.
    pub(super) fn ended(&mut self) -> Option<&mut R> {
        self.ended.as_mut().map(|stream| &mut stream.request)
    }

    /// Returns the next command.
    pub(super) fn poll(&mut self, peer: Peer, now: Instant) -> Command {
        self.ended = None;
        if peer.is_broken && !self.continues_without_client() {
            self.abort();
        }
        while let Some(left) = self.steps.checked_sub(1) {
            self.steps = left;
            if let Some(command) = self.step(peer, now) {
                return command;
            }
        }
        Command::Yield
    }

    fn step(&mut self, peer: Peer, now: Instant) -> Option<Command> {
        match &mut self.state {
            Http1State::Head => self.step_head(peer, now),
            Http1State::Serving(_) => self.step_serving(peer, now),
            Http1State::Skipping(_) => self.step_skipping(now),
            Http1State::Lingering(lingering) => {
                Some(lingering.poll(self.buffers.has_ended(), self.buffers.would_block()))
            }
            Http1State::Aborting(_) => self.step_aborting(),
            Http1State::Refusing(error) => {
                let error = *error;
                Some(self.refuse(error))
            }
            Http1State::Over { is_whole } => Some(Command::Close { is_whole: *is_whole }),
            Http1State::Arriving { .. } => {
                debug_assert!(false, "a request was not begun");
                Some(Command::Wait)
            }
        }
    }

    /// Parses a head, and requests more input if it is incomplete. Not inlined, or each return would store the fields of
    /// a command one by one.
    #[inline(never)]
    fn step_head(&mut self, peer: Peer, now: Instant) -> Option<Command> {
        let has_begun = self.buffers.has_input();
        if has_begun && self.protocol == WireProtocol::PlainHttpOnTls {
            return self.refuse_at_next_step(Rejected::PlainHttpOnTls);
        }
        let may_upgrade = !self.has_served && self.protocol == WireProtocol::Unknown;
        let input = self.buffers.input();
        if has_begun && !(may_upgrade && preface::is_preface_or_part(input)) {
            match self.reader.read(input) {
                Ok(Parsed::Partial) => {}
                Ok(Parsed::Complete { head, length, framing, keep_alive, expect_continue }) => {
                    self.buffers.consume(length);
                    let (version, method) = (head.version(), head.method_kind());
                    let head_only = method == MethodKind::Head;
                    let facts =
                        ResponseFacts { version, head_only, keep_alive, expects_continue: expect_continue };
                    self.state = Http1State::Arriving { facts, framing, is_readable: true };
                    let (stream, head, began) = (STREAM, Arc::new(head), self.began);
                    let incoming = Incoming { stream, head, framing, began, needs_permit: false };
                    return Some(Command::Request(incoming));
                }
                Err(error) => return self.refuse_at_next_step(Rejected::Head(error)),
            }
        }
        let is_ending = !has_begun && self.buffers.is_closing();
        if self.buffers.has_ended() {
            return self.end(true);
        }
        if !self.buffers.would_block() && (is_ending || peer.is_worth_a_read()) {
            return Some(Command::Read { looks_again: is_ending });
        }
        if is_ending && (self.has_served || now >= self.since + FIRST_BYTE_GRACE) {
            return self.end(true);
        }
        Some(Command::Wait)
    }

    fn refuse_at_next_step(&mut self, error: Rejected) -> Option<Command> {
        self.state = Http1State::Refusing(error);
        None
    }

    fn refuse(&mut self, error: Rejected) -> Command {
        let input = self.buffers.input();
        let (head_only, line) = (wants_head_only(input), RequestLine::find(input).map(Box::new));
        let facts =
            ResponseFacts { version: Version::Http11, head_only, keep_alive: false, expects_continue: false };
        self.state = Http1State::Arriving { facts, framing: BodyFraming::None, is_readable: false };
        Command::Unreadable(Unreadable {
            stream: STREAM,
            error,
            line,
            began: self.began,
            needs_permit: false,
        })
    }

    /// Discards the rest of a body; closes the connection if there is too much of it.
    fn step_skipping(&mut self, now: Instant) -> Option<Command> {
        if !self.buffers.has_input() {
            return match () {
                () if self.buffers.has_ended() => self.end(true),
                () if self.buffers.would_block() => Some(Command::Wait),
                () => Some(Command::Read { looks_again: false }),
            };
        }
        let Http1State::Skipping(skipping) = &mut self.state else { return None };
        let Ok((used, body_bytes)) = skipping.reader.discard(self.buffers.input()) else {
            return self.end(true);
        };
        self.buffers.consume(used);
        self.buffers.received += body_bytes as u64;
        self.since = now;
        skipping.bytes += body_bytes as u64;
        if skipping.bytes > LINGER_BYTES_MAX {
            return self.end(true);
        }
        if skipping.reader.is_read() {
            self.state = Http1State::Head;
            self.began = now;
        }
        None
    }

    /// Advances the current request. Not inlined, for the same reason as [`Self::step_head`].
    #[inline(never)]
    fn step_serving(&mut self, peer: Peer, now: Instant) -> Option<Command> {
        let Http1State::Serving(stream) = &mut self.state else { return None };
        stream.set_client_gone(peer.is_closed || peer.is_broken);
        if let Some(unwanted) = stream.take_unwanted() {
            self.skip_body(unwanted);
        }
        let Http1State::Serving(stream) = &mut self.state else { return None };
        match stream.advance(&mut self.buffers, &mut self.steps, now) {
            Pause::Ask(ask) => Some(Command::Stream(STREAM, ask)),
            Pause::Blocked if self.buffers.wants_flush(peer.has_pending_tls_output) => {
                Some(Command::Transmit)
            }
            Pause::Blocked => Some(Command::Wait),
            Pause::End(end) if self.buffers.is_out() => Some(self.finish(peer, end, now)),
            Pause::End(_) if self.buffers.is_blocked() => Some(Command::Wait),
            Pause::End(_) | Pause::Transmit => Some(Command::Transmit),
            Pause::Lost => {
                self.abort();
                None
            }
            Pause::Read => Some(Command::Read { looks_again: false }),
            Pause::Yield => Some(Command::Yield),
        }
    }

    /// Ends the request after its response, and closes the connection if necessary.
    fn finish(&mut self, peer: Peer, end: End, now: Instant) -> Command {
        let is_whole = end == End::Complete;
        let Http1State::Serving(stream) = std::mem::replace(&mut self.state, Http1State::Over { is_whole })
        else {
            return Command::Wait;
        };
        let leftover = self.leftover.take();
        self.since = now;
        if self.buffers.has_input() {
            // The next request was pipelined; it begins now.
            self.began = now;
        }
        self.has_served = true;
        let may_send = self.has_unread
            || stream.is_cut_short()
            || peer.is_readable
            || self.buffers.has_input()
            || leftover.is_some();
        if stream.facts().keep_alive && is_whole {
            self.state = match leftover {
                Some(reader) => Http1State::Skipping(Box::new(Skipping { reader: *reader, bytes: 0 })),
                None => Http1State::Head,
            };
        } else if may_send && (peer.is_readable || !peer.is_closed) {
            self.state = Http1State::Lingering(Box::new(Lingering::new(is_whole, leftover)));
        }
        let sent_bytes = stream.response_bytes();
        self.ended = Some(stream);
        Command::Ended(Ended { stream: STREAM, sent_bytes, is_lost: false, is_whole })
    }

    fn step_aborting(&mut self) -> Option<Command> {
        let over = Http1State::Over { is_whole: false };
        let Http1State::Aborting(stream) = std::mem::replace(&mut self.state, over) else { return None };
        let sent_bytes = stream.response_bytes().saturating_sub(self.buffers.unsent());
        self.ended = Some(stream);
        Some(Command::Ended(Ended { stream: STREAM, sent_bytes, is_lost: true, is_whole: false }))
    }

    /// Enters the final state.
    fn end<T>(&mut self, is_whole: bool) -> Option<T> {
        self.state = Http1State::Over { is_whole };
        None
    }

    fn abort(&mut self) {
        let over = Http1State::Over { is_whole: false };
        self.state = match std::mem::replace(&mut self.state, over) {
            Http1State::Serving(stream) => Http1State::Aborting(stream),
            Http1State::Aborting(stream) => Http1State::Aborting(stream),
            _ => Http1State::Over { is_whole: false },
        };
    }

    /// Returns whether the request continues until it is offered although its peer has gone.
    fn continues_without_client(&self) -> bool {
        matches!(&self.state, Http1State::Serving(stream) if stream.continues_without_client())
    }

    /// Returns the timers of the current wait; none while waiting for the owner. Inlined so that a caller that asks only
    /// for the next one builds no table.
    #[inline]
    pub(super) fn timers(&self, terms: &ConnectionTerms) -> TimerTable {
        let mut timers = TimerTable::default();
        let is_within_exchange = match self.state {
            Http1State::Head => self.buffers.has_input(),
            Http1State::Serving(_) | Http1State::Skipping(_) => true,
            _ => false,
        };
        if let Some(timeout) = terms.exchange_timeout.filter(|_| is_within_exchange) {
            timers.set(Timer::Exchange, self.began + timeout);
            return timers;
        }
        let has_unread_output = self.buffers.waits_for_reader();
        if has_unread_output {
            timers.set(Timer::Write, self.buffers.output_since() + terms.write_timeout);
        }
        match &self.state {
            Http1State::Serving(stream) => {
                // Unread output, such as `100 Continue`, must not extend the wait for the response: the peer may have sent
                // its body without reading it.
                if let Some((timer, at)) = stream.timer(terms.body_timeout)
                    && (timer == Timer::Response || !has_unread_output)
                {
                    timers.set(timer, at);
                }
            }
            _ if has_unread_output => {}
            Http1State::Head if self.buffers.has_input() => {
                timers.set(Timer::Header, self.since + terms.header_timeout);
            }
            Http1State::Head => timers.set(Timer::Idle, self.since + self.idle_timeout(terms)),
            Http1State::Skipping(_) => timers.set(Timer::Body, self.since + terms.body_timeout),
            Http1State::Lingering(_) => timers.set(Timer::Linger, self.since + terms.linger_timeout),
            _ => {}
        }
        timers
    }

    /// Returns how long to wait for the first byte of a request.
    fn idle_timeout(&self, terms: &ConnectionTerms) -> Duration {
        match self.has_served {
            false if self.buffers.is_closing() => terms.header_timeout.min(FIRST_BYTE_GRACE),
            false => terms.header_timeout,
            true => terms.keepalive_timeout,
        }
    }

    /// Returns when the current wait began.
    pub(super) fn waiting_since(&self) -> Instant {
        match self.state {
            Http1State::Serving(_) => self.began,
            _ => self.since,
        }
    }

    /// Handles the expired timer.
    fn on_timeout(&mut self, timer: Timer) {
        match (timer, &mut self.state) {
            (Timer::Exchange | Timer::Write, _) => self.abort(),
            (Timer::Body | Timer::Response, Http1State::Serving(stream)) => stream.on_timeout(),
            (Timer::Header, _) => self.state = Http1State::Refusing(Rejected::Late),
            (Timer::Linger, Http1State::Lingering(lingering)) => {
                self.state = Http1State::Over { is_whole: lingering.is_whole };
            }
            _ => self.state = Http1State::Over { is_whole: true },
        }
    }

    /// Discards the part of an unneeded body that is here. The rest is discarded after the response, unless it is
    /// uncertain whether the peer sends it; then the connection closes.
    fn skip_body(&mut self, unwanted: Unwanted) {
        let Http1State::Serving(stream) = &mut self.state else { return };
        let mut reader = unwanted.reader;
        let discarded = reader.discard(self.buffers.input());
        let is_read = reader.is_read();
        if discarded.is_err() || (!is_read && unwanted.is_doubtful) {
            stream.end_connection();
            self.has_unread = true;
        }
        let Ok((used, body_bytes)) = discarded else { return };
        self.leftover = (!is_read).then(|| Box::new(reader));
        self.buffers.consume(used);
        self.buffers.received += body_bytes as u64;
    }
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
