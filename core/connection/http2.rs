//! HTTP/2 on one connection: the framing is a library's, the requests are [`Stream`]s like any other.
//!
//! Promises: only streams that have something to do are looked at; what a client can make the server keep is bounded
//! by the streams it may have open, their windows and their outputs; a client that calls off more than it lets be
//! answered, that sends frames without content and no end, or that leaves a head unfinished is thrown out. At the drain
//! the client is told by GOAWAY, and what it has asked is answered. Refuses: server push, trailers, and upgrades from
//! HTTP/1.1: a client begins with the preface or agrees on `h2` by TLS.
//!
//! ```text
//!   Greeting ──preface, settings──▶ Open ──both sides done, error, deadline──▶ Over ──output flushed──▶ Closed
//!                                                                                └──input left──▶ Lingering ──▶ Closed
//! ```
//!
//! A turn of the connection: bytes in, what is ready, bytes out.
//!
//! ```text
//!   Read ──▶ Library ──▶ Streams ──▶ LibraryAgain ──▶ Transmit ──▶ Done ──something moved──▶ Read
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use h2::server::{Builder, Connection as Library, Handshake, SendResponse};
use h2::{Reason, RecvStream};

use crate::http::pseudo::{Pseudo, head_of};
use crate::http::{
    BodyFraming, FirstWord, FrameWatch, Head, HeadError, HeadLimits, Parsed, RequestLine, Version,
};
use crate::limits::{
    FIRST_BYTE_GRACE, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_HEAD_BYTES_MAX, HTTP2_OUTPUT_BYTES_MAX,
    HTTP2_RESETS_MAX, HTTP2_RESETS_UNSEEN_MAX, HTTP2_STEPS_MAX, HTTP2_STREAM_WINDOW_BYTES, HTTP2_STREAMS_MAX,
    LINGER_BYTES_MAX,
};
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use super::command::{
    Announced, Command, ConnectionTerms, Ended, Grant, Incoming, Peer, Rejected, Rejection, Sent, Unreadable,
};
use super::duplex::{Duplex, LibraryEnd};
use super::http2_stream::{DrainingStream, OpenStream, StreamOutcome};
use super::output::Output;
use super::ready::ReadySet;
use super::stream::{ResponseFacts, Stream};
use super::timers::Timers;

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub(super) struct Http2<R> {
    stage: Http2Stage,
    turn: Http2Turn,
    /// How many turns are left before others have theirs.
    turns: u32,
    /// Something happened in the present turn, so that another one is worth it.
    has_moved: bool,
    /// What the last write left: `None` before it.
    sent: Option<Sent>,
    /// Connections end when what was asked is answered.
    is_closing: bool,
    duplex: Duplex,
    /// Boxed: a node of the tree moves its neighbours.
    streams: BTreeMap<u32, Box<OpenStream<R>>>,
    /// Streams that were answered while their clients were still sending.
    draining: BTreeMap<u32, DrainingStream>,
    /// A head was read, and its request has not begun.
    arriving: Option<Box<Arriving>>,
    /// What the owner is to be told first.
    notices: VecDeque<Notice<R>>,
    /// The request that ended last, until the next command.
    ended: Option<Box<OpenStream<R>>>,
    /// Which streams have something to do.
    ready: Arc<ReadySet>,
    /// What wakes the connection itself.
    waker: Waker,
    timers: Timers,
    /// What the client sends, by its frames.
    watch: FrameWatch,
    /// The frame or head that has begun and not ended, and since when it is awaited.
    unfinished: Option<(u64, Instant)>,
    /// Empty but while streams are ended whose last frames have gone out; here so that it is not allocated each time.
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
    /// Body bytes that came since they were last asked for.
    received: u64,
}

/// Where the connection is; see the diagram above.
enum Http2Stage {
    Greeting(Handshake<LibraryEnd, Bytes>),
    Open(Library<LibraryEnd, Bytes>),
    Over,
    /// Everything is sent; what the client still sends is thrown away.
    Lingering {
        /// The way to the client is closed.
        is_shut: bool,
        /// How much was thrown away.
        bytes: u64,
    },
    Closed,
}

/// Where the present turn is; see the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http2Turn {
    Read,
    /// The library is polled if it was woken; with `is_called`, it is being polled.
    Library {
        is_called: bool,
        is_first: bool,
    },
    /// So many streams may be looked at; `current` is in the middle of its own turn.
    Streams {
        left: usize,
        current: Option<u32>,
    },
    Transmit,
    Done,
}

/// What the owner is to be told.
#[derive(Debug)]
enum Notice<R> {
    Ended(Ended, Box<OpenStream<R>>),
    Rejected(Rejection),
}

/// A request on its way to its stream.
#[derive(Debug)]
struct Arriving {
    id: u32,
    facts: ResponseFacts,
    framing: BodyFraming,
    receive: RecvStream,
    respond: SendResponse<Bytes>,
}

impl<R> Http2<R> {
    /// Starts before the preface, of which `input` has come already.
    pub(super) fn new(input: &[u8], now: Instant) -> Self {
        let (duplex, far) = Duplex::new(input);
        let ready = Arc::new(ReadySet::default());
        ready.call();
        let mut watch = FrameWatch::default();
        watch.see(input, now);
        // What came with the preface may end within a frame.
        let unfinished = watch.unfinished().map(|frame| (frame, now));
        Self {
            stage: Http2Stage::Greeting(builder().handshake(far)),
            turn: Http2Turn::Read,
            turns: HTTP2_STEPS_MAX,
            has_moved: false,
            sent: None,
            is_closing: false,
            duplex,
            streams: BTreeMap::new(),
            draining: BTreeMap::new(),
            arriving: None,
            notices: VecDeque::new(),
            ended: None,
            waker: ready.connection_waker(),
            ready,
            timers: Timers::default(),
            watch,
            unfinished,
            over: Vec::new(),
            resets: 0,
            is_held_back: false,
            output_since: now,
            idle_since: now,
            is_leaving: false,
            is_cut_short: false,
            received: 0,
        }
    }

    /// The owner has come back to the connection.
    pub(super) fn begin_turn(&mut self, is_closing: bool) {
        self.is_closing = is_closing;
        self.turns = HTTP2_STEPS_MAX;
        self.turn = Http2Turn::Read;
        self.has_moved = false;
    }

    /// The streams that are open.
    pub(super) fn stream_ids(&self) -> Vec<u32> {
        self.streams.keys().copied().collect()
    }

    /// A stream, if it is still open, and the output of its response.
    pub(super) fn stream(&mut self, id: u32) -> Option<(&mut Stream<R>, &mut Output)> {
        let open = self.streams.get_mut(&id)?;
        // In the middle of its turn it goes on by itself.
        if !matches!(self.turn, Http2Turn::Streams { current: Some(current), .. } if current == id) {
            open.ring();
        }
        Some(open.parts())
    }

    /// What the owner knows of a request.
    pub(super) fn request(&mut self, id: u32) -> Option<&mut R> {
        self.streams.get_mut(&id).map(|open| &mut open.parts().0.request)
    }

    /// Lets `act` see what waits to be sent.
    pub(super) fn with_output<T>(&mut self, act: impl FnOnce(&mut Output) -> T) -> T {
        self.duplex.with_output(act)
    }

    /// Body bytes that came since this was last asked.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// The request that the last command said has ended.
    pub(super) fn ended(&mut self) -> Option<&mut R> {
        self.ended.as_mut().map(|open| &mut open.parts().0.request)
    }

    /// Says what is to be done next.
    pub(super) fn poll(&mut self, terms: &ConnectionTerms, peer: Peer, now: Instant) -> Command {
        self.ended = None;
        if peer.is_broken {
            self.abort();
        }
        loop {
            match self.notices.pop_front() {
                Some(Notice::Ended(ended, open)) => {
                    self.ended = Some(open);
                    return Command::Ended(ended);
                }
                Some(Notice::Rejected(rejection)) => return Command::Rejected(rejection),
                None => {}
            }
            match self.stage {
                Http2Stage::Closed => return Command::Close { is_whole: true },
                Http2Stage::Lingering { .. } => return self.poll_lingering(peer),
                _ => {}
            }
            if let Some(command) = self.step(terms, peer, now) {
                return command;
            }
        }
    }

    /// Takes a step of the present turn.
    fn step(&mut self, terms: &ConnectionTerms, peer: Peer, now: Instant) -> Option<Command> {
        match self.turn {
            Http2Turn::Read => {
                self.turn = Http2Turn::Library { is_called: false, is_first: true };
                let is_last_look = !self.is_leaving && self.is_closing;
                if is_last_look {
                    self.ready.call();
                }
                let reads = !matches!(self.stage, Http2Stage::Over) && self.duplex.is_drained();
                reads.then_some(Command::Read { looks_again: is_last_look })
            }
            Http2Turn::Library { is_called, is_first } => {
                if (is_called || self.ready.take_call())
                    && let Some(command) = self.poll_library(terms, now)
                {
                    self.turn = Http2Turn::Library { is_called: true, is_first };
                    return Some(command);
                }
                // Whoever rings again meanwhile has the next turn.
                let left = self.streams.len() + self.draining.len() + 1;
                self.turn =
                    if is_first { Http2Turn::Streams { left, current: None } } else { Http2Turn::Transmit };
                None
            }
            Http2Turn::Streams { left, current } => self.step_streams(terms, left, current, now),
            Http2Turn::Transmit => {
                self.turn = Http2Turn::Done;
                self.sent = None;
                Some(Command::Transmit)
            }
            Http2Turn::Done => self.end_turn(peer, now),
        }
    }

    fn end_turn(&mut self, peer: Peer, now: Instant) -> Option<Command> {
        let is_out = self.sent.is_some_and(|sent| sent.is_all);
        if is_out && matches!(self.stage, Http2Stage::Over) && !(peer.is_there() && self.awaits_replies()) {
            self.close(peer, now);
            return None;
        }
        if !std::mem::take(&mut self.has_moved) && self.ready.is_empty() {
            return Some(Command::Wait);
        }
        self.turn = Http2Turn::Read;
        match self.turns.checked_sub(1) {
            Some(left) => {
                self.turns = left;
                None
            }
            None => Some(Command::Yield),
        }
    }

    /// Whether replies go on whose clients have all that they get.
    fn awaits_replies(&self) -> bool {
        self.streams.values().any(|open| open.is_out())
    }

    /// Lets the streams take their turns that have something to do.
    fn step_streams(
        &mut self,
        terms: &ConnectionTerms,
        left: usize,
        current: Option<u32>,
        now: Instant,
    ) -> Option<Command> {
        let next = current.or_else(|| if left > 0 { self.ready.take() } else { None });
        let Some(id) = next else {
            self.turn = Http2Turn::Library { is_called: false, is_first: false };
            return None;
        };
        self.has_moved = true;
        let left = if current.is_some() { left } else { left - 1 };
        self.turn = Http2Turn::Streams { left, current: None };
        if let Some(open) = self.streams.get_mut(&id) {
            let outcome = if current.is_some() { open.go_on(now) } else { open.advance(now) };
            if open.take_sent() {
                self.watch.note_content();
            }
            self.received += open.take_received();
            if let StreamOutcome::Ask(ask) = outcome {
                self.turn = Http2Turn::Streams { left, current: Some(id) };
                return Some(Command::Stream(id, ask));
            }
            self.settle(terms, id, &outcome, now);
        } else if let Some(draining) = self.draining.get_mut(&id)
            && !draining.advance(&mut self.received)
        {
            self.timers.disarm(u64::from(id), &mut draining.armed);
            self.draining.remove(&id);
        }
        None
    }

    /// Sees to a stream's deadline or its end.
    fn settle(&mut self, terms: &ConnectionTerms, id: u32, outcome: &StreamOutcome, now: Instant) {
        let Some(open) = self.streams.get_mut(&id) else { return };
        if let StreamOutcome::Open | StreamOutcome::Ask(_) = outcome {
            let deadline = open.deadline(terms);
            return self.timers.arm(u64::from(id), &mut open.armed, deadline);
        }
        self.timers.disarm(u64::from(id), &mut open.armed);
        let Some(mut open) = self.streams.remove(&id) else { return };
        let is_lost = !matches!(outcome, StreamOutcome::Finished);
        let ended = open.ended(id, is_lost);
        if !is_lost {
            self.resets = self.resets.saturating_sub(1);
            if let Some(mut draining) = open.take_draining(now + terms.linger_timeout)
                && draining.advance(&mut self.received)
            {
                self.timers.arm(u64::from(id), &mut draining.armed, Some(draining.until));
                self.draining.insert(id, draining);
            }
        } else {
            self.resets += 1;
            if self.resets > HTTP2_RESETS_MAX {
                self.throw_out();
            }
        }
        self.notices.push_back(Notice::Ended(ended, open));
        if self.streams.is_empty() {
            self.idle_since = now;
        }
    }

    /// When the present wait is over; `None` while the wait is for the owner.
    pub(super) fn deadline(&self, terms: &ConnectionTerms) -> Option<Instant> {
        let own = match self.stage {
            Http2Stage::Lingering { .. } => return Some(self.idle_since + terms.linger_timeout),
            Http2Stage::Closed => return None,
            _ if self.is_held_back => Some(self.output_since + terms.write_timeout),
            Http2Stage::Greeting(_) if self.is_closing => {
                Some(self.idle_since + terms.header_timeout.min(FIRST_BYTE_GRACE))
            }
            Http2Stage::Greeting(_) => Some(self.idle_since + terms.header_timeout),
            _ if !self.streams.is_empty() => None,
            _ if self.is_leaving => Some(self.idle_since + FIRST_BYTE_GRACE),
            _ => Some(self.idle_since + terms.keepalive_timeout),
        };
        [own, self.head_deadline(terms), self.timers.next()].into_iter().flatten().min()
    }

    /// When a frame or head that has begun must have ended; bodies have deadlines of their own.
    fn head_deadline(&self, terms: &ConnectionTerms) -> Option<Instant> {
        let (_, since) = self.unfinished.filter(|_| matches!(self.stage, Http2Stage::Open(_)))?;
        // What has come and not been looked at is not the client's fault.
        self.duplex.is_drained().then(|| since + terms.header_timeout)
    }

    /// The deadline has passed: ends what is late, a stream or all.
    pub(super) fn on_deadline(&mut self, terms: &ConnectionTerms, now: Instant) {
        self.end_late_streams(terms, now);
        if self.deadline(terms).is_none_or(|deadline| deadline > now) {
            return;
        }
        if self.is_held_back || matches!(self.stage, Http2Stage::Lingering { .. }) {
            return self.abort();
        }
        if self.head_deadline(terms).is_some_and(|deadline| deadline <= now) {
            return self.throw_out();
        }
        if let Http2Stage::Open(_) = self.stage
            && !self.is_leaving
        {
            // Idle for long enough; one more grace to let the farewell arrive.
            return self.leave(now);
        }
        self.abort();
    }

    fn end_late_streams(&mut self, terms: &ConnectionTerms, now: Instant) {
        while let Some(late) = self.timers.pop(now) {
            let Ok(id) = u32::try_from(late) else { continue };
            let Some(open) = self.streams.get_mut(&id) else {
                // The library tells a client that is still sending to stop.
                self.draining.remove(&id);
                continue;
            };
            open.armed.fired();
            let is_late = open.deadline(terms).is_some_and(|deadline| deadline <= now);
            let outcome =
                if is_late && open.on_deadline() { StreamOutcome::Lost } else { StreamOutcome::Open };
            self.settle(terms, id, &outcome, now);
        }
    }

    /// Tells the client that the connection ends; what it has asked is answered.
    fn leave(&mut self, now: Instant) {
        if let Http2Stage::Open(library) = &mut self.stage {
            library.graceful_shutdown();
            self.ready.call();
            self.is_leaving = true;
            self.idle_since = now;
        }
    }

    /// Ends the connection at once, because of what the client does.
    fn throw_out(&mut self) {
        if let Http2Stage::Open(library) = &mut self.stage
            && !std::mem::replace(&mut self.is_cut_short, true)
        {
            library.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            self.ready.call();
        }
    }

    /// The connection is of no more use.
    pub(super) fn abort(&mut self) {
        self.stage = Http2Stage::Closed;
        self.arriving = None;
        self.draining.clear();
        let lost = std::mem::take(&mut self.streams).into_iter();
        self.notices.extend(lost.map(|(id, open)| Notice::Ended(open.ended(id, true), open)));
    }

    /// The library is done: what it has said can still go out.
    fn end(&mut self) {
        for (id, mut open) in std::mem::take(&mut self.streams) {
            if self.duplex.has_said_all(id) {
                open.note_said();
                self.streams.insert(id, open);
            } else if open.is_out() {
                // The library takes it for over; the reply goes on to its end unless the client leaves.
                self.streams.insert(id, open);
            } else {
                self.notices.push_back(Notice::Ended(open.ended(id, true), open));
            }
        }
        self.stage = Http2Stage::Over;
        self.draining.clear();
    }

    /// Feeds bytes of the client to the library, which has read what was fed before.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Instant) {
        if let Http2Stage::Lingering { bytes: count, .. } = &mut self.stage {
            *count += bytes.len() as u64;
            return;
        }
        self.has_moved = true;
        self.watch.see(bytes, now);
        self.unfinished = self.watch.unfinished().map(|frame| match self.unfinished {
            Some((same, since)) if same == frame => (frame, since),
            _ => (frame, now),
        });
        if let Some(open) = self.watch.data_of().and_then(|id| self.streams.get_mut(&id)) {
            // The library does not tell of a part of a frame.
            open.parts().0.note_body_progress(now);
        }
        self.duplex.feed(bytes);
        if self.watch.is_flood() {
            self.throw_out();
        }
        self.ready.call();
    }

    /// The client sends nothing more.
    pub(super) fn end_input(&mut self) {
        if let Http2Stage::Lingering { .. } = self.stage {
            self.stage = Http2Stage::Closed;
            return;
        }
        self.has_moved = true;
        self.duplex.end();
        self.ready.call();
    }

    /// There is nothing to read for now.
    pub(super) fn note_dry(&mut self) {
        if let Http2Stage::Lingering { .. } = self.stage {
            self.turn = Http2Turn::Done;
        }
    }

    /// Lets the library work, until there is something for the owner to do.
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
                        self.is_cut_short |= end.is_some();
                        self.end();
                    }
                    Poll::Pending => break,
                },
                Http2Stage::Over | Http2Stage::Lingering { .. } | Http2Stage::Closed => break,
            }
            self.has_moved = true;
        }
        self.note_unseen();
        None
    }

    /// Tells of requests that the library has answered by itself: their heads are too long for it.
    fn note_unseen(&mut self) {
        let (watch, streams, notices) = (&mut self.watch, &mut self.streams, &mut self.notices);
        self.duplex.hear(|word| match word {
            FirstWord::Head(stream) => {
                if let Some(began) = watch.take_head(stream) {
                    let status = HeadError::TooLarge.status();
                    notices.push_back(Notice::Rejected(Rejection { stream, status, began }));
                } else if let Some(open) = streams.get_mut(&stream) {
                    open.note_head_said();
                }
            }
            FirstWord::Reset(id) => {
                // It was malformed, or one too many: nobody has looked at it.
                let _ = watch.take_head(id);
            }
        });
    }

    /// A head has come.
    fn accept(
        &mut self,
        terms: &ConnectionTerms,
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        now: Instant,
    ) -> Command {
        let id = respond.stream_id().as_u32();
        let began = self.watch.take_head(id).unwrap_or(now);
        let (parts, receive) = request.into_parts();
        let head_only = parts.method == http::Method::HEAD;
        let mut facts =
            ResponseFacts { version: Version::Http2, head_only, keep_alive: false, expects_continue: false };
        let needs_permit = !(self.streams.is_empty() && self.draining.is_empty());
        let (framing, command) = match read_head(&parts, terms.head, receive.is_end_stream()) {
            Ok((head, framing, expects_continue)) => {
                facts.expects_continue = expects_continue;
                let incoming = Incoming { stream: id, head, framing, began, needs_permit };
                (framing, Command::Request(incoming))
            }
            Err(error) => {
                let path = parts.uri.path().as_bytes();
                let line = RequestLine::of(parts.method.as_str().as_bytes(), path);
                let unreadable =
                    Unreadable { stream: id, error: Rejected::Head(error), line, began, needs_permit };
                (BodyFraming::None, Command::Unreadable(unreadable))
            }
        };
        self.arriving = Some(Box::new(Arriving { id, facts, framing, receive, respond }));
        command
    }

    /// Begins the request whose head was read; returns whether its body is within bounds.
    pub(super) fn begin(&mut self, request: R, grant: Grant, now: Instant) -> bool {
        let Some(arriving) = self.arriving.take() else { return true };
        let (stream, verdict) = Stream::new(request, arriving.facts, arriving.framing, &grant, now);
        self.open(*arriving, stream, grant.permit, now);
        verdict.is_ok()
    }

    /// Begins the request that cannot be read.
    pub(super) fn begin_unreadable(&mut self, request: R, permit: Option<Permit>, now: Instant) {
        let Some(arriving) = self.arriving.take() else { return };
        let stream = Stream::unreadable(request, arriving.facts, now);
        self.open(*arriving, stream, permit, now);
    }

    fn open(&mut self, arriving: Arriving, stream: Stream<R>, permit: Option<Permit>, now: Instant) {
        let Arriving { id, receive, respond, .. } = arriving;
        let alarm = self.ready.alarm(id);
        alarm.ring();
        let open = OpenStream::new(stream, alarm, (receive, respond), permit, now);
        self.streams.insert(id, Box::new(open));
    }

    /// There is no permit for the request whose head was read: the client may ask again.
    pub(super) fn refuse_stream(&mut self) {
        if let Some(mut arriving) = self.arriving.take() {
            arriving.respond.send_reset(Reason::REFUSED_STREAM);
        }
    }

    /// Hands the head of a response to the library.
    pub(super) fn announce(&mut self, id: u32, announced: Announced) {
        if let Some(open) = self.streams.get_mut(&id) {
            open.announce(announced);
        }
    }

    /// Something was written.
    pub(super) fn note_sent(&mut self, terms: &ConnectionTerms, sent: Sent, had_room: bool, now: Instant) {
        self.sent = Some(sent);
        let was_held_back = std::mem::replace(&mut self.is_held_back, !sent.is_all);
        if sent.is_all || sent.bytes > 0 || !was_held_back {
            self.output_since = now;
        }
        if !had_room && !self.duplex.with_output(|output| output.is_full()) {
            self.ready.call();
        }
        self.note_departed(terms, sent.held_back, now);
        if was_held_back && !self.is_held_back && self.streams.is_empty() {
            self.idle_since = now;
        }
    }

    /// Ends the streams whose last frames have gone out.
    fn note_departed(&mut self, terms: &ConnectionTerms, held_back: usize, now: Instant) {
        let mut over = std::mem::take(&mut self.over);
        let streams = &mut self.streams;
        self.duplex.hear_departed(held_back, |departed| {
            if let Some(open) = streams.get_mut(&departed.stream)
                && open.note_departed(departed, now)
            {
                over.push(departed.stream);
            }
        });
        over.drain(..).for_each(|id| self.settle(terms, id, &StreamOutcome::Finished, now));
        self.over = over;
    }

    /// All is said: closes, but not before the client has had the time to read it. Closing with unread input would
    /// make the system reset the connection, and the client lose the last answers.
    fn close(&mut self, peer: Peer, now: Instant) {
        if peer.is_closed || !(peer.is_readable || self.is_cut_short) {
            return self.abort();
        }
        self.idle_since = now;
        self.turn = Http2Turn::Read;
        self.stage = Http2Stage::Lingering { is_shut: false, bytes: 0 };
    }

    /// Throws away what the client still sends.
    fn poll_lingering(&mut self, peer: Peer) -> Command {
        let Http2Stage::Lingering { is_shut, bytes } = &mut self.stage else { return Command::Wait };
        if !std::mem::replace(is_shut, true) {
            return Command::ShutDown { is_whole: true };
        }
        if *bytes > LINGER_BYTES_MAX || peer.is_broken {
            return Command::Close { is_whole: true };
        }
        // At the end of the turn there was nothing to read.
        if self.turn == Http2Turn::Done { Command::Wait } else { Command::Read { looks_again: false } }
    }
}

impl<R> Drop for Http2<R> {
    fn drop(&mut self) {
        // Before the library is dropped, which may wake its streams.
        self.ready.close();
    }
}

impl std::fmt::Debug for Http2Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Greeting(_) => "Greeting",
            Self::Open(_) => "Open",
            Self::Over => "Over",
            Self::Lingering { .. } => "Lingering",
            Self::Closed => "Closed",
        })
    }
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

#[cfg(test)]
mod tests {
    use super::{Arc, Http2};
    use crate::connection::harness::{Bench, Rest, answer, frame, greeting, request, seconds};
    use crate::connection::{Ask, Decision};

    const DATA: u8 = 0;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;

    /// A connection on which both sides have greeted.
    fn open() -> Bench {
        let mut bench = Bench::new();
        assert_eq!(bench.send(&greeting()), Rest::Wait);
        assert!(bench.connection.is_multiplexed());
        bench
    }

    /// The kinds and streams of the frames that the peer has been sent since the last call.
    fn frames(bench: &mut Bench) -> Vec<(u8, u32)> {
        let (mut rest, mut seen) = (&std::mem::take(&mut bench.taken)[..], Vec::new());
        while let [a, b, c, kind, _, s, t, u, v, ..] = *rest {
            seen.push((kind, u32::from_be_bytes([s, t, u, v])));
            rest = &rest[9 + u32::from_be_bytes([0, a, b, c]) as usize..];
        }
        seen
    }

    #[test]
    fn greeting_waits_for_its_rest() {
        let mut bench = Bench::new();
        for byte in greeting() {
            assert_eq!(bench.send(&[byte]), Rest::Wait);
        }
        assert!(frames(&mut bench).contains(&(SETTINGS, 0)));
        assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(40)), "it is open, and idle");
    }

    #[test]
    fn greeting_that_ends_within_a_frame_is_late_like_a_head() {
        let mut bench = Bench::new();
        bench.send(&greeting()[..26]);
        assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(10)));
        assert_eq!(bench.time_out(), Rest::Wait, "it is thrown out, and lingers");
        assert!(frames(&mut bench).contains(&(GOAWAY, 0)));
        assert!(matches!(bench.time_out(), Rest::Close { .. }));
    }

    #[test]
    fn open_answers_streams_as_their_replies_come() {
        let mut bench = open();
        bench.send(&[request(1, "GET", true), request(3, "GET", true)].concat());
        frames(&mut bench);
        bench.decide(3, Decision::Answer(answer("three")));
        assert_eq!(frames(&mut bench), [(1, 3), (DATA, 3)]);
        bench.decide(1, Decision::Answer(answer("one")));
        assert_eq!(frames(&mut bench), [(1, 1), (DATA, 1)]);
        let ends: Vec<_> = bench.ended.iter().map(|it| (it.stream, it.sent_bytes, it.is_lost)).collect();
        assert_eq!(ends, [(3, 5, false), (1, 3, false)]);
    }

    #[test]
    fn open_loses_what_its_peer_calls_off() {
        let mut bench = open();
        bench.send(&request(1, "POST", false));
        bench.decide(1, Decision::ReadBody);
        bench.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
        assert!(matches!(bench.ended[..], [ended] if ended.stream == 1 && ended.is_lost));
        bench.decide(1, Decision::Answer(answer("late")));
        assert_eq!(bench.ended.len(), 1, "what comes late changes nothing");
    }

    #[test]
    fn open_says_goodbye_when_it_is_idle_for_too_long() {
        let mut bench = open();
        frames(&mut bench);
        assert_eq!(bench.time_out(), Rest::Wait);
        assert!(frames(&mut bench).contains(&(GOAWAY, 0)));
        assert!(matches!(bench.time_out(), Rest::Close { .. }));
    }

    #[test]
    fn open_leads_to_over_when_the_drain_is_done() {
        let mut bench = open();
        bench.send(&request(1, "GET", true));
        bench.is_closing = true;
        assert_eq!(bench.turn(), Rest::Wait);
        bench.decide(1, Decision::Answer(answer("last")));
        assert!(matches!(bench.ended[..], [ended] if !ended.is_lost));
        assert!(matches!(bench.send_end(), Rest::Close { .. }));
    }

    #[test]
    fn over_leads_to_lingering_where_the_peer_was_thrown_out() {
        let mut bench = open();
        bench.send(&request(1, "POST", false));
        frames(&mut bench);
        assert_eq!(bench.send(&[0xff; 30]), Rest::Wait, "it lingers");
        assert!(frames(&mut bench).contains(&(GOAWAY, 0)));
        assert!(matches!(bench.ended[..], [ended] if ended.is_lost));
        assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(2)));
        assert!(matches!(bench.time_out(), Rest::Close { .. }));
    }

    #[test]
    fn nothing_is_left_of_a_connection_whose_streams_were_woken() {
        let http2 = Http2::<u32>::new(&greeting(), crate::time::now());
        let (alarm, set) = (http2.ready.alarm(1), Arc::downgrade(&http2.ready));
        alarm.ring();
        drop(http2);
        alarm.ring();
        drop(alarm);
        assert!(set.upgrade().is_none());
    }

    #[test]
    fn every_stream_ends_once_when_the_connection_is_aborted() {
        let mut bench = open();
        bench.send(&[request(1, "GET", true), request(3, "POST", false)].concat());
        bench.decide(3, Decision::ReadBody);
        assert!(!bench.asked.iter().any(|(_, ask)| matches!(ask, Ask::Offer { .. })));
        bench.connection.abort();
        bench.connection.abort();
        assert!(matches!(bench.turn(), Rest::Close { .. }));
        assert_eq!(
            bench.ended.iter().map(|ended| (ended.stream, ended.is_lost)).collect::<Vec<_>>(),
            [(1, true), (3, true)]
        );
    }
}
