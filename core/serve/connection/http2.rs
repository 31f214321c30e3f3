//! HTTP/2 on one connection: the framing is a library's, the requests are [`Stream`]s like any other.
//!
//! Promises: only streams that have something to do are looked at; what a client can make the server keep is bounded
//! by the streams it may have open, their windows and their outputs; a client that calls off more than it lets be
//! answered, that sends frames without content and no end, or that leaves a head unfinished is thrown out. At the drain
//! the client is told by GOAWAY, and what it has asked is answered. Refuses: server push, trailers, and upgrades from
//! HTTP/1.1: a client begins with the preface or agrees on `h2` by TLS.
//!
//! ```text
//!   Greeting ──preface, settings──▶ Open ──both sides done, error, deadline──▶ Over ──output flushed──▶ (closed)
//!                                                                                └──input left──▶ Lingering ──▶ (closed)
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};

use crate::http::pseudo::{Pseudo, head_of};
use crate::http::{FirstWord, FrameWatch, HeadError, HeadLimits, Parsed, RequestLine, Version};
use crate::limits::{
    FIRST_BYTE_GRACE, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_HEAD_BYTES_MAX, HTTP2_OUTPUT_BYTES_MAX,
    HTTP2_RESETS_MAX, HTTP2_RESETS_UNSEEN_MAX, HTTP2_STREAM_WINDOW_BYTES, HTTP2_STREAMS_MAX,
    LINGER_BYTES_MAX, LINGER_TIMEOUT,
};
use crate::pool::StreamKey;
use crate::sync::primitive::Arc;
use crate::time;

use super::duplex::{Duplex, LibraryEnd};
use super::http2_stream::{DrainingStream, OpenStream, Outcome};
use super::ready::ReadySet;
use super::step::ConnectionStep;
use crate::serve::io_thread::io::Io;
use crate::serve::io_thread::timers::Timers;
use crate::serve::net::output::{Flushed, Output};
use crate::serve::net::wire::{Got, Wire};
use crate::serve::request::answer::Answer;
use crate::serve::request::endpoints::Endpoints;
use crate::serve::request::meta::Began;
use crate::serve::request::stream::{Incoming, Stream};

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub(in crate::serve) struct Http2 {
    connection: u64,
    ends: Arc<Endpoints>,
    stage: Stage,
    duplex: Duplex,
    /// Boxed: a node of the tree moves its neighbours.
    streams: BTreeMap<u32, Box<OpenStream>>,
    /// Streams that were answered while their clients were still sending.
    unread: BTreeMap<u32, DrainingStream>,
    /// Who of them has something to do.
    ready: Arc<ReadySet>,
    /// What wakes the connection itself.
    waker: Waker,
    timers: Timers,
    /// What the client sends, by its frames.
    watch: FrameWatch,
    /// The frame or head that has begun and not ended, and since when it is awaited.
    unfinished: Option<(u64, Instant)>,
    /// Empty but while the books are closed on streams; here so that it is not allocated each time.
    over: Vec<u32>,
    /// Streams that the client called off, less those that it let be answered.
    resets: u32,
    /// Something waits until the client reads.
    is_held_back: bool,
    /// When output last made progress, or began to wait.
    output_since: Instant,
    /// Since when no stream is open and nothing waits to be sent.
    idle_since: Instant,
    /// The client has been told that the connection ends.
    is_leaving: bool,
    /// The connection ends because of what the client did, and it may go on doing so.
    is_cut_short: bool,
}

/// Where the connection is; see the diagram above.
enum Stage {
    Greeting(Handshake<LibraryEnd, Bytes>),
    Open(Connection<LibraryEnd, Bytes>),
    Over,
    /// Everything is sent; what the client still sends is thrown away.
    Lingering {
        /// How much was thrown away.
        bytes: u64,
    },
}

impl Http2 {
    /// Starts before the preface, of which `input` has come already.
    pub(in crate::serve) fn new(connection: u64, ends: Arc<Endpoints>, input: &[u8], now: Instant) -> Self {
        let (duplex, far) = Duplex::new(input);
        let ready = Arc::new(ReadySet::default());
        ready.call();
        let mut watch = FrameWatch::default();
        watch.see(input, now);
        Self {
            connection,
            ends,
            stage: Stage::Greeting(builder().handshake(far)),
            duplex,
            streams: BTreeMap::new(),
            unread: BTreeMap::new(),
            waker: ready.connection_waker(),
            ready,
            timers: Timers::default(),
            watch,
            unfinished: None,
            over: Vec::new(),
            resets: 0,
            is_held_back: false,
            output_since: now,
            idle_since: now,
            is_leaving: false,
            is_cut_short: false,
        }
    }

    /// Lets `act` see a stream, if it is still open, and has it looked at.
    pub(in crate::serve) fn visit(&mut self, stream: u32, act: impl FnOnce(&mut Stream, &mut Output)) {
        if let Some(open) = self.streams.get_mut(&stream) {
            act(&mut open.stream, &mut open.output);
            open.alarm.ring();
        }
    }

    /// Lets `act` see every open stream.
    pub(in crate::serve) fn visit_all(&mut self, mut act: impl FnMut(&mut Stream)) {
        for open in self.streams.values_mut() {
            act(&mut open.stream);
            open.alarm.ring();
        }
    }

    /// Takes a step: bytes in, what is ready, bytes out.
    pub(in crate::serve) fn step(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        if let Stage::Lingering { .. } = self.stage {
            return self.step_linger(wire, io);
        }
        if !self.is_leaving && io.shared.lifecycle.is_closing() {
            // The poller may not have told yet what came before the closing.
            wire.is_readable = true;
            self.ready.call();
        }
        let mut has_moved = self.read(wire, io);
        has_moved |= self.poll(io);
        has_moved |= self.serve_ready(io);
        // What the streams said becomes frames.
        has_moved |= self.poll(io);
        match self.flush(wire, io) {
            None => {
                self.abort(io);
                ConnectionStep::Close
            }
            Some(Flushed::All) if matches!(self.stage, Stage::Over) => self.close(wire, io),
            Some(_) if has_moved || !self.ready.is_empty() => ConnectionStep::Again,
            Some(_) => ConnectionStep::Wait,
        }
    }

    /// When the present wait is over; `None` while the wait is for the server itself.
    pub(in crate::serve) fn deadline(&self, io: &Io) -> Option<Instant> {
        let config = &io.shared.config;
        let own = match self.stage {
            Stage::Lingering { .. } => return Some(self.idle_since + LINGER_TIMEOUT),
            _ if self.is_held_back => Some(self.output_since + config.write_timeout),
            Stage::Greeting(_) if io.shared.lifecycle.is_closing() => {
                Some(self.idle_since + config.header_timeout.min(FIRST_BYTE_GRACE))
            }
            Stage::Greeting(_) => Some(self.idle_since + config.header_timeout),
            _ if !self.streams.is_empty() => None,
            _ if self.is_leaving => Some(self.idle_since + FIRST_BYTE_GRACE),
            _ => Some(self.idle_since + config.keepalive_timeout),
        };
        [own, self.head_deadline(io), self.timers.next()].into_iter().flatten().min()
    }

    /// When a frame or head that has begun must have ended; bodies have deadlines of their own.
    fn head_deadline(&self, io: &Io) -> Option<Instant> {
        let (_, since) = self.unfinished.filter(|_| matches!(self.stage, Stage::Open(_)))?;
        // What has come and not been looked at is not the client's fault.
        self.duplex.is_drained().then(|| since + io.shared.config.header_timeout)
    }

    /// The deadline has passed: ends what is late, a stream or all.
    pub(in crate::serve) fn on_deadline(&mut self, io: &mut Io) -> ConnectionStep {
        self.end_late_streams(io);
        if self.deadline(io).is_none_or(|deadline| deadline > io.now) {
            return ConnectionStep::Again;
        }
        if self.is_held_back || matches!(self.stage, Stage::Lingering { .. }) {
            self.abort(io);
            return ConnectionStep::Close;
        }
        if self.head_deadline(io).is_some_and(|deadline| deadline <= io.now) {
            self.throw_out();
            return ConnectionStep::Again;
        }
        if let Stage::Open(_) = self.stage
            && !self.is_leaving
        {
            // Idle for long enough; one more grace to let the farewell arrive.
            self.leave(io);
            return ConnectionStep::Again;
        }
        self.abort(io);
        ConnectionStep::Close
    }

    fn end_late_streams(&mut self, io: &mut Io) {
        while let Some(late) = self.timers.pop(io.now) {
            let Ok(id) = u32::try_from(late) else { continue };
            let Some(open) = self.streams.get_mut(&id) else {
                // The library tells a client that is still sending to stop.
                self.unread.remove(&id);
                continue;
            };
            open.armed.fired();
            let outcome = match open.deadline(io) {
                Some(deadline) if deadline <= io.now => open.on_deadline(io),
                _ => Outcome::Open,
            };
            self.settle(io, id, outcome);
        }
    }

    /// Tells the client that the connection ends; what it has asked is answered.
    fn leave(&mut self, io: &Io) {
        if let Stage::Open(connection) = &mut self.stage {
            connection.graceful_shutdown();
            self.ready.call();
            self.is_leaving = true;
            self.idle_since = io.now;
        }
    }

    /// Ends the connection at once, because of what the client does.
    fn throw_out(&mut self) {
        if let Stage::Open(connection) = &mut self.stage
            && !std::mem::replace(&mut self.is_cut_short, true)
        {
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            self.ready.call();
        }
    }

    /// The connection is of no more use: closes the books on what was served.
    pub(in crate::serve) fn abort(&mut self, io: &Io) {
        self.stage = Stage::Over;
        self.unread.clear();
        for open in std::mem::take(&mut self.streams).into_values() {
            open.abort(io);
        }
    }

    /// The library is done: what it has said can still go out.
    fn end(&mut self, io: &Io) {
        for (id, mut open) in std::mem::take(&mut self.streams) {
            if self.duplex.has_said_all(id) {
                open.note_said();
                self.streams.insert(id, open);
            } else {
                open.abort(io);
            }
        }
        self.stage = Stage::Over;
        self.unread.clear();
    }

    /// Feeds what came, once the library has read what was fed before; returns whether there was anything.
    fn read(&mut self, wire: &mut Wire, io: &mut Io) -> bool {
        if matches!(self.stage, Stage::Over) || !self.duplex.is_drained() {
            return false;
        }
        match wire.read(&mut io.scratch) {
            Got::Bytes(count) => {
                let bytes = &io.scratch[..count];
                self.watch.see(bytes, io.now);
                self.unfinished = self.watch.unfinished().map(|frame| match self.unfinished {
                    Some((same, since)) if same == frame => (frame, since),
                    _ => (frame, io.now),
                });
                if let Some(open) = self.watch.data_of().and_then(|id| self.streams.get_mut(&id)) {
                    // The library does not tell of a part of a frame.
                    open.stream.note_body_progress(io.now);
                }
                self.duplex.feed(bytes);
                if self.watch.is_flood() {
                    self.throw_out();
                }
            }
            Got::End => self.duplex.end(),
            Got::Nothing => return false,
        }
        self.ready.call();
        true
    }

    /// Lets the library work if there is anything to do for it; returns whether a request came or the stage changed.
    fn poll(&mut self, io: &mut Io) -> bool {
        if !self.ready.take_call() {
            return false;
        }
        let has_moved = self.poll_library(io);
        self.account_unseen(io);
        has_moved
    }

    /// Closes the books on requests that the library has answered by itself: their heads are too long for it.
    fn account_unseen(&mut self, io: &mut Io) {
        let (watch, ends, streams) = (&mut self.watch, &self.ends, &mut self.streams);
        self.duplex.hear(|word| match word {
            FirstWord::Head(id) => {
                if let Some(since) = watch.take_head(id) {
                    let key = StreamKey { connection: self.connection, stream: id };
                    let answer = (Answer::plain(HeadError::TooLarge.status()), false, None);
                    let mut stream = Stream::unreadable(io, key, ends, began_at(since), answer);
                    stream.meta.version = Version::Http2;
                    stream.answered_unseen(io);
                } else if let Some(open) = streams.get_mut(&id) {
                    open.note_head_said();
                }
            }
            FirstWord::Reset(id) => {
                // It was malformed, or one too many: nobody has looked at it.
                let _ = watch.take_head(id);
            }
        });
    }

    fn poll_library(&mut self, io: &mut Io) -> bool {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        let mut has_moved = false;
        loop {
            match &mut self.stage {
                Stage::Greeting(handshake) => match Pin::new(handshake).poll(&mut context) {
                    Poll::Ready(Ok(connection)) => {
                        self.stage = Stage::Open(connection);
                        self.idle_since = io.now;
                    }
                    Poll::Ready(Err(_)) => self.stage = Stage::Over,
                    Poll::Pending => return has_moved,
                },
                Stage::Open(_) if !self.is_leaving && io.shared.lifecycle.is_closing() => self.leave(io),
                Stage::Open(connection) => match connection.poll_accept(&mut context) {
                    Poll::Ready(Some(Ok((request, respond)))) => self.accept(io, request, respond),
                    Poll::Ready(end) => {
                        self.is_cut_short |= end.is_some();
                        self.end(io);
                    }
                    Poll::Pending => return has_moved,
                },
                Stage::Over | Stage::Lingering { .. } => return has_moved,
            }
            has_moved = true;
        }
    }

    fn accept(&mut self, io: &mut Io, request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let id = respond.stream_id().as_u32();
        let since = self.watch.take_head(id).unwrap_or_else(time::now);
        let is_first = self.streams.is_empty() && self.unread.is_empty();
        let permit = if is_first { None } else { io.shared.stream_permits.try_acquire() };
        if permit.is_none() && !is_first {
            io.shared.metrics.stream_refused();
            // Nobody has looked at it, so the client may ask again.
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        let key = StreamKey { connection: self.connection, stream: id };
        let began = began_at(since);
        let (parts, receive) = request.into_parts();
        let stream = match read_head(&parts, receive.is_end_stream()) {
            Ok(incoming) => Stream::begin(io, key, &self.ends, began, incoming),
            Err(error) => {
                let path = parts.uri.path().as_bytes();
                let line = RequestLine::of(parts.method.as_str().as_bytes(), path);
                let answer = (Answer::plain(error.status()), parts.method == http::Method::HEAD, line);
                let mut stream = Stream::unreadable(io, key, &self.ends, began, answer);
                stream.meta.version = Version::Http2;
                stream
            }
        };
        let alarm = self.ready.alarm(id);
        alarm.ring();
        let open = OpenStream::new(stream, alarm, (receive, respond), permit, io.now);
        self.streams.insert(id, Box::new(open));
    }

    /// Lets the streams take their steps that have something to do; returns whether there were any.
    fn serve_ready(&mut self, io: &mut Io) -> bool {
        let mut has_moved = false;
        // Whoever rings again meanwhile has the next meta.
        for _ in 0..=self.streams.len() + self.unread.len() {
            let Some(part) = self.ready.take() else { break };
            has_moved = true;
            if let Some(open) = self.streams.get_mut(&part) {
                let outcome = open.advance(io);
                if open.take_sent() {
                    self.watch.note_content();
                }
                self.settle(io, part, outcome);
            } else if let Some(unread) = self.unread.get_mut(&part)
                && !unread.advance(io)
            {
                self.timers.disarm(u64::from(part), &mut unread.armed);
                self.unread.remove(&part);
            }
        }
        has_moved
    }

    /// Sees to a stream's deadline or its end.
    fn settle(&mut self, io: &Io, id: u32, outcome: Outcome) {
        let Some(open) = self.streams.get_mut(&id) else { return };
        if outcome == Outcome::Open {
            let deadline = open.deadline(io);
            return self.timers.arm(u64::from(id), &mut open.armed, deadline);
        }
        self.timers.disarm(u64::from(id), &mut open.armed);
        let Some(open) = self.streams.remove(&id) else { return };
        if outcome == Outcome::Finished {
            self.resets = self.resets.saturating_sub(1);
            if let Some(mut unread) = open.finish(io)
                && unread.advance(io)
            {
                self.timers.arm(u64::from(id), &mut unread.armed, Some(unread.until));
                self.unread.insert(id, unread);
            }
        } else {
            open.abort(io);
            self.resets += 1;
            if self.resets > HTTP2_RESETS_MAX {
                self.throw_out();
            }
        }
        if self.streams.is_empty() {
            self.idle_since = io.now;
        }
    }

    /// Writes what waits, as far as the system takes it; `None` when the connection is of no more use.
    fn flush(&mut self, wire: &mut Wire, io: &Io) -> Option<Flushed> {
        let (flushed, has_room_again) = self.duplex.with_output(|output| {
            let was_full = output.is_full();
            (wire.flush(output), was_full && !output.is_full())
        });
        let flushed = flushed.ok()?;
        let was_held_back = std::mem::replace(&mut self.is_held_back, flushed != Flushed::All);
        if flushed != Flushed::Some(0) || !was_held_back {
            self.output_since = io.now;
        }
        if has_room_again {
            self.ready.call();
        }
        self.note_departed(wire.transport.held_back(), io);
        if was_held_back && !self.is_held_back && self.streams.is_empty() {
            self.idle_since = io.now;
        }
        Some(flushed)
    }

    /// Closes the books on the streams whose last frames have gone out.
    fn note_departed(&mut self, held_back: usize, io: &Io) {
        let mut over = std::mem::take(&mut self.over);
        let streams = &mut self.streams;
        self.duplex.hear_departed(held_back, |departed| {
            if let Some(open) = streams.get_mut(&departed.stream)
                && open.note_departed(departed, io.now)
            {
                over.push(departed.stream);
            }
        });
        over.drain(..).for_each(|stream| self.settle(io, stream, Outcome::Finished));
        self.over = over;
    }

    /// All is said: closes, but not before the client has had the time to read it. Closing with unread input would
    /// make the system reset the connection, and the client lose the last answers.
    fn close(&mut self, wire: &mut Wire, io: &Io) -> ConnectionStep {
        if wire.is_peer_closed || !(wire.is_readable || self.is_cut_short) {
            return ConnectionStep::Close;
        }
        wire.transport.send_close_notify();
        wire.transport.shut_down();
        self.idle_since = io.now;
        self.stage = Stage::Lingering { bytes: 0 };
        ConnectionStep::Again
    }

    /// Throws away what the client still sends.
    fn step_linger(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        let Stage::Lingering { bytes } = &mut self.stage else { return ConnectionStep::Close };
        match wire.read(&mut io.scratch) {
            Got::Bytes(count) => {
                *bytes += count as u64;
                if *bytes > LINGER_BYTES_MAX { ConnectionStep::Close } else { ConnectionStep::Again }
            }
            Got::End => ConnectionStep::Close,
            Got::Nothing => ConnectionStep::Wait,
        }
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Greeting(_) => "Greeting",
            Self::Open(_) => "Open",
            Self::Over => "Over",
            Self::Lingering { .. } => "Lingering",
        })
    }
}

/// Both clocks when a head began.
fn began_at(since: Instant) -> Began {
    let (now, wall) = (time::now(), time::wall());
    (since, wall.checked_sub(now.saturating_duration_since(since)).unwrap_or(wall))
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(HTTP2_HEAD_BYTES_MAX)
        .initial_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_pending_accept_reset_streams(HTTP2_RESETS_UNSEEN_MAX)
        .max_send_buffer_size(HTTP2_OUTPUT_BYTES_MAX);
    builder
}

fn read_head(parts: &http::request::Parts, is_bodiless: bool) -> Result<Incoming, HeadError> {
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let target = match parts.uri.path_and_query() {
        Some(target) => target.as_str().as_bytes(),
        None => authority.unwrap_or_default(),
    };
    let method = parts.method.as_str();
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let request = Pseudo { method, target, authority, is_bodiless };
    match head_of(request, fields, HeadLimits::main_port())? {
        Parsed::Partial => Err(HeadError::RequestLineInvalid),
        Parsed::Complete { head, framing, keep_alive, expect_continue, .. } => {
            Ok(Incoming { head, framing, keep_alive, expects_continue: expect_continue })
        }
    }
}
