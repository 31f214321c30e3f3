//! HTTP/2 on one connection: a library does the framing; requests are ordinary [`Stream`]s.
//!
//! Only streams with work to do are visited. The memory that a client can occupy is bounded by the number of its open
//! streams, their windows and their outputs. The connection is closed on a client that resets more streams than it lets
//! finish, floods it with empty frames, or leaves a head unfinished. On shutdown the client gets GOAWAY, and its open
//! requests are answered. Not supported: server push, trailers and the upgrade from HTTP/1.1; a client starts with the
//! preface or negotiates `h2` by TLS.
//!
//! ```text
//!   Greeting ──preface, settings──▶ Open ──both sides done, error, deadline──▶ Over ──output flushed──▶ Closed
//!                                                                                └──input left──▶ Lingering ──▶ Closed
//! ```
//!
//! A turn of the connection: read, advance the streams that are ready, write.
//!
//! ```text
//!   Read ──▶ Library ──▶ Streams ──▶ Library, again ──▶ Transmit ──▶ Done ──something moved──▶ Read
//! ```

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::{Builder, Connection as Library, Handshake, SendResponse};
use h2::{Reason, RecvStream};

use crate::http::{FrameWatch, HeadError, StreamFrame};
use crate::limits::{
    FIRST_BYTE_GRACE, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_HEAD_BYTES_MAX, HTTP2_OUTPUT_BYTES_MAX,
    HTTP2_RESETS_UNSEEN_MAX, HTTP2_STEPS_MAX, HTTP2_STREAMS_MAX, HTTP2_UNSENT_BYTES_MAX,
    HTTP2_WINDOW_BYTES_MAX, HTTP2_WRITE_STEPS, TIGHT_OUTPUT_BYTES,
};
use crate::sync::primitive::Arc;

use super::command::{Ask, Command, ConnectionTerms, Grant, Input, Peer, Rejection, Sent};
use super::duplex::{Duplex, LibraryEnd};
use super::http2_head::Arriving;
use super::http2_streams::Http2Streams;
use super::http2_uploads::Uploads;
use super::lingering::Lingering;
use super::output::Output;
use super::ready::ReadySet;
use super::stream::Stream;
use super::timers::{Timer, TimerTable};

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub(super) struct Http2<R> {
    stage: Http2Stage,
    turn: Http2Turn,
    /// The number of steps left in this turn.
    steps: u32,
    /// This turn made progress, so that another one is worthwhile.
    has_moved: bool,
    /// The result of the last write of this turn; `None` before it.
    sent: Option<Sent>,
    /// The connection closes once the open requests are answered.
    is_closing: bool,
    /// The memory for responses is used up.
    is_memory_tight: bool,
    duplex: Duplex,
    streams: Http2Streams<R>,
    /// A head was read; its request has not begun.
    arriving: Option<Box<Arriving>>,
    /// The flow control of request bodies.
    uploads: Uploads,
    /// Requests that the library has answered by itself.
    rejected: VecDeque<Rejection>,
    /// The woken streams, and whether the connection itself was woken.
    ready: Arc<ReadySet>,
    /// Wakes the connection itself.
    waker: Waker,
    /// Tracks the client's frames.
    watch: FrameWatch,
    /// The unfinished frame or head, and when it was first seen.
    unfinished: Option<(u64, Instant)>,
    /// Output is waiting for the client to read.
    is_held_back: bool,
    /// When output last made progress, or began to wait.
    output_since: Instant,
    /// Since when no stream is open and no output is pending; reset when GOAWAY is sent or lingering begins.
    idle_since: Instant,
    /// GOAWAY was sent.
    is_leaving: bool,
    /// The connection ends because of the client, which may still be sending.
    is_cut_short: bool,
}

/// The state of the connection; see the diagram above.
enum Http2Stage {
    Greeting(Handshake<LibraryEnd, Bytes>),
    Open(Library<LibraryEnd, Bytes>),
    Over,
    /// Everything is sent; further input is discarded.
    Lingering(Lingering),
    Closed,
}

/// The state of the current turn; see the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http2Turn {
    Read,
    /// Polls the library if it was woken; with `is_called`, a poll is in progress.
    Library {
        is_called: bool,
        is_first: bool,
    },
    /// `left` more streams may be visited; `current` has not finished its turn.
    Streams {
        left: usize,
        current: Option<u32>,
    },
    Transmit,
    Done,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http2TurnEnd {
    /// Run another turn, or end the connection.
    Again,
    /// Wait for an event.
    Wait,
    /// Serve other connections first.
    Yield,
}

impl<R> Http2<R> {
    /// Starts before the preface, in the turn of its first byte; `input` was already received.
    pub(super) fn new(input: &[u8], is_closing: bool, now: Instant) -> Self {
        let (duplex, far) = Duplex::new(input);
        let ready = Arc::new(ReadySet::default());
        ready.wake_connection();
        let mut watch = FrameWatch::default();
        watch.see(input, now);
        // The input behind the preface may end within a frame.
        let unfinished = watch.unfinished().map(|frame| (frame, now));
        Self {
            stage: Http2Stage::Greeting(builder().handshake(far)),
            turn: Http2Turn::Read,
            steps: HTTP2_STEPS_MAX,
            has_moved: false,
            sent: None,
            is_closing,
            is_memory_tight: false,
            duplex,
            streams: Http2Streams::new(Arc::clone(&ready)),
            arriving: None,
            uploads: Uploads::default(),
            rejected: VecDeque::new(),
            waker: ready.connection_waker(),
            ready,
            watch,
            unfinished,
            is_held_back: false,
            output_since: now,
            idle_since: now,
            is_leaving: false,
            is_cut_short: false,
        }
    }

    /// Handles an event.
    pub(super) fn handle(&mut self, input: Input<'_>, terms: &ConnectionTerms, now: Instant) {
        match input {
            Input::Abort => self.abort(),
            Input::Bytes(bytes) => self.receive(bytes, now),
            Input::End => self.end_input(),
            Input::Refuse => self.refuse(),
            Input::Timeout => self.on_timeout(terms, now),
            Input::Turn { is_closing, is_memory_tight } => self.begin_turn(is_closing, is_memory_tight),
            Input::WouldBlock => {
                if let Http2Stage::Lingering(_) = self.stage {
                    self.turn = Http2Turn::Done;
                }
            }
            // The protocol is settled, and the output has no file ranges.
            Input::Cached | Input::Protocol(_) => {}
        }
    }

    fn begin_turn(&mut self, is_closing: bool, is_memory_tight: bool) {
        self.is_closing = is_closing;
        if std::mem::replace(&mut self.is_memory_tight, is_memory_tight) != is_memory_tight {
            let bytes = if is_memory_tight { TIGHT_OUTPUT_BYTES } else { HTTP2_UNSENT_BYTES_MAX };
            self.streams.set_room(bytes);
            self.duplex.with_output(|output| output.set_full_at(bytes));
            self.ready.wake_connection();
        }
        self.steps = HTTP2_STEPS_MAX;
        self.turn = Http2Turn::Read;
        self.has_moved = false;
    }

    /// Returns whether no stream is open, and no input or output is pending.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.stage, Http2Stage::Open(_))
            && self.turn == Http2Turn::Done
            && !(self.is_closing || self.is_leaving || self.is_cut_short || self.is_held_back)
            && self.arriving.is_none()
            && self.unfinished.is_none()
            && self.rejected.is_empty()
            && self.streams.is_empty()
            && self.ready.is_empty()
            && self.duplex.is_drained()
            && self.duplex.with_output(|output| output.is_empty())
    }

    /// Returns the IDs of the open streams.
    pub(super) fn stream_ids(&self) -> Vec<u32> {
        self.streams.ids()
    }

    /// Returns a stream, if it is open, and wakes it.
    pub(super) fn stream(&mut self, id: u32) -> Option<&mut Stream<R>> {
        // A stream in the middle of its turn continues without being woken.
        let is_current =
            matches!(self.turn, Http2Turn::Streams { current: Some(current), .. } if current == id);
        self.streams.get(id, !is_current)
    }

    /// Returns the number of bytes buffered: unsent responses and unread request bodies.
    pub(super) fn copied_bytes(&mut self) -> u64 {
        let streams = &mut self.streams;
        let unread = self.uploads.unread(|| streams.unread_bytes());
        self.duplex.with_output(|output| output.len()) as u64 + unread
    }

    /// Passes the pending output to `write`, and records its result.
    pub(super) fn transmit<E>(
        &mut self,
        terms: &ConnectionTerms,
        now: Instant,
        write: impl FnOnce(&mut Output) -> Result<Sent, E>,
    ) -> Result<(), E> {
        let (had_room, sent) = self.duplex.with_output(|output| (!output.is_full(), write(output)));
        sent.map(|sent| self.note_sent(terms, sent, had_room, now))
    }

    /// Returns the body bytes received since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        self.streams.take_received()
    }

    /// Returns the request that the last command reported as ended.
    pub(super) fn ended(&mut self) -> Option<&mut R> {
        self.streams.ended()
    }

    /// Returns the next command.
    pub(super) fn poll(&mut self, terms: &ConnectionTerms, peer: Peer, now: Instant) -> Command {
        self.streams.forget_ended();
        if peer.is_broken {
            self.abort();
        }
        loop {
            if let Some(ended) = self.streams.next_ended() {
                return Command::Ended(ended);
            }
            if let Some(rejection) = self.rejected.pop_front() {
                return Command::Rejected(rejection);
            }
            match &mut self.stage {
                Http2Stage::Closed => return Command::Close { is_whole: true },
                Http2Stage::Lingering(_) if peer.is_broken => return Command::Close { is_whole: true },
                // At the end of the turn, the socket had nothing to read.
                Http2Stage::Lingering(lingering) => {
                    return lingering.poll(false, self.turn == Http2Turn::Done);
                }
                _ => {}
            }
            // Loop instead of returning to the owner after each step.
            match self.turn {
                Http2Turn::Read => {
                    let is_last_look = !self.is_leaving && self.is_closing;
                    if self.begin_reading(peer, is_last_look) {
                        return Command::Read { looks_again: is_last_look };
                    }
                }
                Http2Turn::Library { is_called, is_first } => {
                    if (is_called || self.ready.take_connection_wake())
                        && let Some(command) = self.poll_library(terms, now)
                    {
                        self.turn = Http2Turn::Library { is_called: true, is_first };
                        return command;
                    }
                    // Streams that are woken again meanwhile run in the next turn.
                    let left = self.streams.count() + 1;
                    self.turn = if is_first {
                        Http2Turn::Streams { left, current: None }
                    } else {
                        Http2Turn::Transmit
                    };
                }
                Http2Turn::Streams { left, current } => {
                    if let Some((stream, ask)) = self.step_streams(terms, left, current, now) {
                        return Command::Stream(stream, ask);
                    }
                }
                Http2Turn::Transmit => {
                    self.turn = Http2Turn::Done;
                    if !self.has_nothing_to_send(peer) {
                        self.sent = None;
                        return Command::Transmit;
                    }
                    self.sent = Some(Sent { is_all: true, bytes: 0, held_back: 0 });
                    self.output_since = now;
                }
                Http2Turn::Done => match self.end_turn(peer, now) {
                    Http2TurnEnd::Again => {}
                    Http2TurnEnd::Wait => return Command::Wait,
                    Http2TurnEnd::Yield => return Command::Yield,
                },
            }
        }
    }

    /// Begins a turn; returns whether to read from the socket.
    fn begin_reading(&mut self, peer: Peer, is_last_look: bool) -> bool {
        self.turn = Http2Turn::Library { is_called: false, is_first: true };
        if is_last_look {
            self.ready.wake_connection();
        }
        let brings_something = is_last_look || peer.is_worth_a_read();
        brings_something && !matches!(self.stage, Http2Stage::Over) && self.duplex.is_drained()
    }

    /// Returns whether the socket has accepted all output, and the transport holds none back.
    fn has_nothing_to_send(&self, peer: Peer) -> bool {
        let has_all = self.sent.is_some_and(|sent| sent.is_all && sent.held_back == 0);
        has_all && !peer.has_pending_tls_output && self.duplex.with_output(|output| output.is_empty())
    }

    fn end_turn(&mut self, peer: Peer, now: Instant) -> Http2TurnEnd {
        let is_out = self.sent.is_some_and(|sent| sent.is_all);
        if is_out
            && matches!(self.stage, Http2Stage::Over)
            && !(peer.is_there() && self.streams.await_responses())
        {
            self.close(peer, now);
            return Http2TurnEnd::Again;
        }
        if !std::mem::take(&mut self.has_moved) && self.ready.is_empty() {
            return Http2TurnEnd::Wait;
        }
        self.turn = Http2Turn::Read;
        match self.steps.checked_sub(1) {
            Some(left) => {
                self.steps = left;
                Http2TurnEnd::Again
            }
            None => Http2TurnEnd::Yield,
        }
    }

    /// Runs the turns of the streams that are ready.
    fn step_streams(
        &mut self,
        terms: &ConnectionTerms,
        left: usize,
        current: Option<u32>,
        now: Instant,
    ) -> Option<(u32, Ask)> {
        // The remaining streams follow in the next turn of the connection.
        let may_begin = left > 0 && self.steps > 0;
        let next = current.or_else(|| if may_begin { self.ready.take() } else { None });
        let Some(id) = next else {
            self.turn = Http2Turn::Library { is_called: false, is_first: false };
            return None;
        };
        self.has_moved = true;
        let left = if current.is_some() { left } else { left - 1 };
        self.turn = Http2Turn::Streams { left, current: None };
        let step = self.streams.step(terms, id, current.is_some(), self.steps, now);
        if self.uploads.note_taken(step.taken, step.awaited) {
            self.ready.wake_connection();
        }
        self.steps = self.steps.saturating_sub(step.steps);
        if step.has_sent {
            self.watch.note_content();
        }
        self.look_after_streams(now);
        let ask = step.ask?;
        self.turn = Http2Turn::Streams { left, current: Some(id) };
        Some((id, ask))
    }

    /// Handles the consequences of ended streams for the connection.
    fn look_after_streams(&mut self, now: Instant) {
        if self.streams.take_emptied() {
            self.idle_since = now;
            if let Http2Stage::Open(library) = &mut self.stage
                && self.uploads.rest(library)
            {
                self.ready.wake_connection();
            }
        }
        if self.streams.has_too_many_resets() {
            self.enhance_your_calm();
        }
    }

    /// Returns the timers of the current wait; none while waiting for the owner.
    pub(super) fn timers(&self, terms: &ConnectionTerms) -> TimerTable {
        let mut timers = TimerTable::default();
        match self.stage {
            Http2Stage::Lingering(_) => {
                timers.set(Timer::Linger, self.idle_since + terms.linger_timeout);
                return timers;
            }
            Http2Stage::Closed => return timers,
            Http2Stage::Greeting(_) | Http2Stage::Open(_) | Http2Stage::Over => {}
        }
        let (head, write) = (self.head_deadline(terms), self.output_since + terms.write_timeout);
        if self.is_held_back {
            // A client that does not read cannot be told what is wrong with its head.
            timers.set(Timer::Write, head.map_or(write, |head| head.min(write)));
        } else {
            if let Some(head) = head {
                timers.set(Timer::Header, head);
            }
            if let Some(timeout) = self.idle_timeout(terms) {
                timers.set(Timer::Idle, self.idle_since + timeout);
            }
        }
        if let Some(at) = self.streams.deadline() {
            timers.set(Timer::Stream, at);
        }
        timers
    }

    /// Returns how long the connection may be idle, if it is.
    fn idle_timeout(&self, terms: &ConnectionTerms) -> Option<Duration> {
        match self.stage {
            Http2Stage::Greeting(_) if self.is_closing => Some(terms.header_timeout.min(FIRST_BYTE_GRACE)),
            Http2Stage::Greeting(_) => Some(terms.header_timeout),
            _ if !self.streams.is_empty() => None,
            _ if self.is_leaving => Some(FIRST_BYTE_GRACE),
            _ => Some(terms.keepalive_timeout),
        }
    }

    /// Returns the deadline of an unfinished frame or head; bodies have their own deadlines.
    fn head_deadline(&self, terms: &ConnectionTerms) -> Option<Instant> {
        let (_, since) = self.unfinished.filter(|_| matches!(self.stage, Http2Stage::Open(_)))?;
        // Unread input in the duplex is not the client's delay.
        self.duplex.is_drained().then(|| since + terms.header_timeout)
    }

    /// Ends the late streams, or the connection, if a timer has expired.
    fn on_timeout(&mut self, terms: &ConnectionTerms, now: Instant) {
        if self.timers(terms).expired(now).is_none() {
            return;
        }
        self.streams.end_late(terms, now);
        self.look_after_streams(now);
        match self.timers(terms).expired(now) {
            Some(Timer::Header) => self.enhance_your_calm(),
            // GOAWAY gets a grace period to arrive.
            Some(Timer::Idle) if matches!(self.stage, Http2Stage::Open(_)) && !self.is_leaving => {
                self.leave(now);
            }
            Some(_) => self.abort(),
            None => {}
        }
    }

    /// Sends GOAWAY; open requests are still answered.
    fn leave(&mut self, now: Instant) {
        if let Http2Stage::Open(library) = &mut self.stage {
            library.graceful_shutdown();
            self.ready.wake_connection();
            self.is_leaving = true;
            self.idle_since = now;
        }
    }

    /// Closes the connection on a misbehaving client.
    fn enhance_your_calm(&mut self) {
        if let Http2Stage::Open(library) = &mut self.stage
            && !std::mem::replace(&mut self.is_cut_short, true)
        {
            library.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            self.ready.wake_connection();
        }
    }

    fn abort(&mut self) {
        self.stage = Http2Stage::Closed;
        self.arriving = None;
        self.streams.abort();
    }

    /// The library has finished; its remaining output can still be sent.
    fn end(&mut self) {
        self.streams.end(|id| self.duplex.has_unsent_end(id));
        self.stage = Http2Stage::Over;
    }

    /// Feeds input to the library, which has read all earlier input.
    fn receive(&mut self, bytes: &[u8], now: Instant) {
        if let Http2Stage::Lingering(lingering) = &mut self.stage {
            // Frames are no longer parsed, so these are not counted as body bytes.
            let _ = lingering.discard(bytes);
            return;
        }
        self.has_moved = true;
        self.watch.see(bytes, now);
        self.uploads.note_data(self.watch.take_data_bytes());
        self.unfinished = self.watch.unfinished().map(|frame| match self.unfinished {
            Some((same, since)) if same == frame => (frame, since),
            _ => (frame, now),
        });
        if let Some(stream) = self.watch.data_of().and_then(|id| self.streams.get(id, false)) {
            // The library does not report a partial DATA frame.
            stream.note_body_progress(now);
        }
        self.duplex.feed(bytes);
        if self.watch.is_flood() {
            self.enhance_your_calm();
        }
        self.ready.wake_connection();
    }

    /// Records that the client has closed its sending side.
    fn end_input(&mut self) {
        if let Http2Stage::Lingering(_) = self.stage {
            self.stage = Http2Stage::Closed;
            return;
        }
        self.has_moved = true;
        self.duplex.end();
        self.ready.wake_connection();
    }

    /// Polls the library until there is a command for the owner.
    fn poll_library(&mut self, terms: &ConnectionTerms, now: Instant) -> Option<Command> {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        loop {
            match &mut self.stage {
                Http2Stage::Greeting(handshake) => match Pin::new(handshake).poll(&mut context) {
                    Poll::Ready(Ok(library)) => {
                        self.stage = Http2Stage::Open(library);
                        self.idle_since = now;
                    }
                    Poll::Ready(Err(_)) => self.stage = Http2Stage::Over,
                    Poll::Pending => break,
                },
                Http2Stage::Open(_) if !self.is_leaving && self.is_closing => self.leave(now),
                Http2Stage::Open(library) => match library.poll_accept(&mut context) {
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        self.has_moved = true;
                        return Some(self.accept(terms, request, respond, now));
                    }
                    Poll::Ready(end) => {
                        if matches!(&end, Some(Err(error)) if error.reason() == Some(Reason::PROTOCOL_ERROR))
                        {
                            self.duplex.correct_goaway(self.watch.fault());
                        }
                        self.is_cut_short |= end.is_some();
                        self.end();
                    }
                    Poll::Pending => {
                        self.watch.settle();
                        let streams = &mut self.streams;
                        let count = || streams.unread_bytes();
                        if !self.uploads.poll(library, &terms.window_permits, &mut context, count) {
                            break;
                        }
                    }
                },
                Http2Stage::Over | Http2Stage::Lingering(_) | Http2Stage::Closed => break,
            }
            self.has_moved = true;
        }
        self.note_unseen();
        None
    }

    /// Reports requests that the library has answered by itself because their heads were too large.
    fn note_unseen(&mut self) {
        let (watch, streams, rejected) = (&mut self.watch, &mut self.streams, &mut self.rejected);
        self.duplex.take_frames(|frame| match frame {
            StreamFrame::Head(stream) => {
                if let Some(began) = watch.take_head(stream) {
                    let status = HeadError::TooLarge.status();
                    rejected.push_back(Rejection { stream, status, began });
                } else {
                    streams.note_head_written(stream);
                }
            }
            StreamFrame::Reset(id) => {
                // The head was malformed, or over the limit of streams; the library did not pass it on.
                let _ = watch.take_head(id);
            }
        });
    }

    /// Handles a new head.
    fn accept(
        &mut self,
        terms: &ConnectionTerms,
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        now: Instant,
    ) -> Command {
        let began = self.watch.take_head(respond.stream_id().as_u32()).unwrap_or(now);
        let needs_permit = self.streams.count() > 0;
        let (arriving, command) = Arriving::read(request, respond, began, needs_permit, terms.head);
        self.arriving = Some(Box::new(arriving));
        command
    }

    /// Begins the request whose head was read; returns whether its body is within the limit.
    pub(super) fn begin(&mut self, request: R, grant: Grant, now: Instant) -> bool {
        let Some(arriving) = self.arriving.take() else { return true };
        let stream = Stream::new(request, arriving.facts, arriving.framing, &grant, now);
        let fits = !stream.is_too_long();
        let Arriving { id, receive, respond, .. } = *arriving;
        self.streams.open(id, stream, (receive, respond), grant.permit, now);
        fits
    }

    /// Refuses the request whose head was read, for lack of a permit: the client may retry it.
    fn refuse(&mut self) {
        if let Some(mut arriving) = self.arriving.take() {
            arriving.respond.send_reset(Reason::REFUSED_STREAM);
        }
    }

    fn note_sent(&mut self, terms: &ConnectionTerms, sent: Sent, had_room: bool, now: Instant) {
        self.sent = Some(sent);
        let effort = self.duplex.with_output(Output::take_effort);
        self.steps = self.steps.saturating_sub(effort * HTTP2_WRITE_STEPS);
        let was_held_back = std::mem::replace(&mut self.is_held_back, !sent.is_all);
        if sent.is_all || sent.bytes > 0 || !was_held_back {
            self.output_since = now;
        }
        if !had_room && !self.duplex.with_output(|output| output.is_full()) {
            self.ready.wake_connection();
        }
        let duplex = &self.duplex;
        self.streams.note_sent(terms, |act| duplex.take_sent(sent.held_back, act), now);
        self.look_after_streams(now);
        if was_held_back && !self.is_held_back && self.streams.is_empty() {
            self.idle_since = now;
        }
    }

    /// Closes after all output was sent, but gives the client time to read it. Closing a socket with unread input makes
    /// the system send RST, which can destroy the last responses before the client reads them.
    fn close(&mut self, peer: Peer, now: Instant) {
        if peer.is_closed || !(peer.is_readable || self.is_cut_short) {
            return self.abort();
        }
        self.idle_since = now;
        self.turn = Http2Turn::Read;
        self.stage = Http2Stage::Lingering(Lingering::new(true, None));
    }
}

impl<R> Drop for Http2<R> {
    fn drop(&mut self) {
        // Must precede the drop of the library, which may wake its streams.
        self.ready.close();
    }
}

impl std::fmt::Debug for Http2Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Greeting(_) => "Greeting",
            Self::Open(_) => "Open",
            Self::Over => "Over",
            Self::Lingering(_) => "Lingering",
            Self::Closed => "Closed",
        })
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(HTTP2_HEAD_BYTES_MAX)
        .initial_window_size(HTTP2_WINDOW_BYTES_MAX)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_pending_accept_reset_streams(HTTP2_RESETS_UNSEEN_MAX)
        .max_send_buffer_size(HTTP2_OUTPUT_BYTES_MAX);
    builder
}

#[cfg(test)]
#[path = "http2_tests.rs"]
mod tests;
