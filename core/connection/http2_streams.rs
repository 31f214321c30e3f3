//! The streams of one HTTP/2 connection.
//!
//! Only woken streams take a turn, and each has its own deadline. The end of a stream is reported once; the stream
//! stays until its owner has seen it. The library's connection is not touched here: the caller polls the consequences
//! of ended streams ([`take_emptied`](Http2Streams::take_emptied),
//! [`has_too_many_resets`](Http2Streams::has_too_many_resets)).

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;

use crate::http::SentPart;
use crate::limits::{DISK_SLICE_BYTES, HTTP2_RESETS_MAX, HTTP2_UNSENT_BYTES_MAX, LINK_STEPS_MAX};
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use super::command::{Ask, ConnectionTerms, Ended};
use super::draining_stream::DrainingStream;
use super::http2_stream::{OpenStream, StreamOutcome};
use super::ready::ReadySet;
use super::stream::Stream;
use super::timers::Deadlines;

/// The streams of a connection, by ID.
#[derive(Debug)]
pub(super) struct Http2Streams<R> {
    /// Boxed, because a tree node moves its neighbours.
    open: BTreeMap<u32, Box<OpenStream<R>>>,
    /// Streams that were answered while their clients were still sending.
    draining: BTreeMap<u32, DrainingStream>,
    /// Ended streams that have not been reported.
    over: VecDeque<(Ended, Box<OpenStream<R>>)>,
    /// The stream whose end was reported last.
    ended: Option<Box<OpenStream<R>>>,
    ready: Arc<ReadySet>,
    timers: Deadlines,
    /// Scratch list for the streams whose last frames have been sent; kept to avoid an allocation each time.
    fully_sent: Vec<u32>,
    /// The number of streams that the client has reset, less those that it let finish.
    resets: u32,
    /// The last open stream has ended since the last `take_emptied`.
    has_emptied: bool,
    /// Body bytes received since the last `take_received`.
    received: u64,
    /// The maximum number of response bytes in flight.
    room: u64,
    /// The number of bytes in flight: read from files, or in the library and unsent.
    held: u64,
    /// Streams waiting for room, in order.
    crowded: VecDeque<u32>,
}

/// The outcome of a stream's turn.
#[derive(Debug)]
pub(super) struct StreamTurn {
    /// An action for the owner; then the turn continues.
    pub(super) ask: Option<Ask>,
    /// Body bytes were passed to the library.
    pub(super) has_sent: bool,
    /// The number of steps taken.
    pub(super) steps: u32,
    /// The number of body bytes read.
    pub(super) taken: u64,
    /// The number of body bytes that the stream still awaits; 0 if that is unknown.
    pub(super) awaited: u64,
}

impl<R> Http2Streams<R> {
    /// Starts without streams; new ones are woken through `ready`.
    pub(super) fn new(ready: Arc<ReadySet>) -> Self {
        Self {
            open: BTreeMap::new(),
            draining: BTreeMap::new(),
            over: VecDeque::new(),
            ended: None,
            ready,
            timers: Deadlines::default(),
            fully_sent: Vec::new(),
            resets: 0,
            has_emptied: false,
            received: 0,
            room: HTTP2_UNSENT_BYTES_MAX as u64,
            held: 0,
            crowded: VecDeque::new(),
        }
    }

    /// Sets the maximum number of response bytes in flight.
    pub(super) fn set_room(&mut self, bytes: usize) {
        self.room = bytes as u64;
    }

    /// Opens a stream and wakes it.
    pub(super) fn open(
        &mut self,
        id: u32,
        stream: Stream<R>,
        handles: (RecvStream, SendResponse<Bytes>),
        permit: Option<Permit>,
        now: Instant,
    ) {
        let alarm = self.ready.alarm(id);
        alarm.wake_part();
        self.open.insert(id, Box::new(OpenStream::new(stream, alarm, handles, permit, now)));
    }

    /// Returns the IDs of the open streams.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    /// Returns whether no stream is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the number of streams, including those whose clients are still sending.
    pub(super) fn count(&self) -> usize {
        self.open.len() + self.draining.len()
    }

    /// Returns an open stream; with `is_woken`, wakes it.
    pub(super) fn get(&mut self, id: u32, is_woken: bool) -> Option<&mut Stream<R>> {
        let open = self.open.get_mut(&id)?;
        if is_woken {
            open.wake();
        }
        Some(&mut open.stream)
    }

    /// Returns whether a client has the whole response, which its worker has not ended.
    pub(super) fn await_responses(&self) -> bool {
        self.open.values().any(|open| open.is_out())
    }

    /// Returns the body bytes received since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Returns whether the last open stream has ended since the last call.
    pub(super) fn take_emptied(&mut self) -> bool {
        std::mem::take(&mut self.has_emptied)
    }

    /// Returns whether the client has reset too many streams.
    pub(super) fn has_too_many_resets(&self) -> bool {
        self.resets > HTTP2_RESETS_MAX
    }

    /// Takes the oldest end that was not reported.
    pub(super) fn next_ended(&mut self) -> Option<Ended> {
        let (ended, open) = self.over.pop_front()?;
        self.ended = Some(open);
        Some(ended)
    }

    /// Returns the owner's data of the request whose end was reported last.
    pub(super) fn ended(&mut self) -> Option<&mut R> {
        self.ended.as_mut().map(|open| &mut open.stream.request)
    }

    /// Drops the request whose end was reported last.
    pub(super) fn forget_ended(&mut self) {
        self.ended = None;
    }

    /// Returns the earliest deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Runs the turn of a woken stream, or continues it.
    pub(super) fn step(
        &mut self,
        terms: &ConnectionTerms,
        id: u32,
        goes_on: bool,
        steps: u32,
        now: Instant,
    ) -> StreamTurn {
        let mut turn = StreamTurn { ask: None, has_sent: false, steps: 1, taken: 0, awaited: 0 };
        let received = self.received;
        if let Some(open) = self.open.get_mut(&id) {
            let room = self.room.saturating_sub(self.held);
            let before = if goes_on { open.steps_left() } else { steps.min(LINK_STEPS_MAX) };
            let held = open.held();
            let outcome = if goes_on { open.go_on(room, now) } else { open.advance(steps, room, now) };
            turn.steps = before.saturating_sub(open.steps_left()).max(1);
            self.held = self.held - held + open.held();
            if open.takes_lack_of_room() && !self.crowded.contains(&id) {
                self.crowded.push_back(id);
            }
            turn.has_sent = open.take_sent();
            turn.awaited = open.stream.awaited_body_bytes();
            self.received += open.take_received();
            match outcome {
                StreamOutcome::Ask(ask) => turn.ask = Some(ask),
                StreamOutcome::Finished => self.end_one(terms, id, false, now),
                StreamOutcome::Lost => self.end_one(terms, id, true, now),
                StreamOutcome::Open => self.arm(terms, id),
            }
        } else if let Some(draining) = self.draining.get_mut(&id)
            && !draining.advance(&mut self.received)
        {
            self.timers.disarm(u64::from(id), &mut draining.armed);
            self.draining.remove(&id);
        }
        self.wake_crowded();
        turn.taken = self.received - received;
        turn
    }

    /// Returns the number of received body bytes that no stream has read.
    pub(super) fn unread_bytes(&mut self) -> u64 {
        let open = self.open.values_mut().map(|open| open.unread_bytes());
        let draining = self.draining.values_mut().map(DrainingStream::unread_bytes);
        open.chain(draining).sum::<usize>() as u64
    }

    /// Wakes as many waiting streams as the free room allows.
    fn wake_crowded(&mut self) {
        let mut room = self.room.saturating_sub(self.held);
        while room > 0
            && let Some(id) = self.crowded.pop_front()
        {
            if let Some(open) = self.open.get(&id) {
                open.wake();
                room = room.saturating_sub(DISK_SLICE_BYTES as u64);
            }
        }
    }

    fn arm(&mut self, terms: &ConnectionTerms, id: u32) {
        if let Some(open) = self.open.get_mut(&id) {
            let deadline = open.timer(terms).map(|(_, at)| at);
            self.timers.arm(u64::from(id), &mut open.armed, deadline);
        }
    }

    fn end_one(&mut self, terms: &ConnectionTerms, id: u32, is_lost: bool, now: Instant) {
        let Some(mut open) = self.open.remove(&id) else { return };
        self.held -= open.held();
        self.timers.disarm(u64::from(id), &mut open.armed);
        if is_lost {
            self.resets += 1;
        } else {
            self.resets = self.resets.saturating_sub(1);
            if let Some(mut draining) = open.take_draining(now + terms.linger_timeout)
                && draining.advance(&mut self.received)
            {
                self.timers.arm(u64::from(id), &mut draining.armed, Some(draining.until));
                self.draining.insert(id, draining);
            }
        }
        self.over.push_back((open.ended(id, is_lost), open));
        self.has_emptied |= self.open.is_empty();
    }

    /// Ends the streams whose deadlines have expired.
    pub(super) fn end_late(&mut self, terms: &ConnectionTerms, now: Instant) {
        while let Some(late) = self.timers.pop(now) {
            let Ok(id) = u32::try_from(late) else { continue };
            let Some(open) = self.open.get_mut(&id) else {
                // Dropping the handle makes the library reset the stream.
                self.draining.remove(&id);
                continue;
            };
            open.armed.fired();
            let expired = open.timer(terms).filter(|(_, at)| *at <= now);
            if expired.is_some_and(|(timer, _)| open.on_timeout(timer)) {
                self.end_one(terms, id, true, now);
            } else {
                self.arm(terms, id);
            }
        }
        self.wake_crowded();
    }

    /// Records that the library has written a head to the connection's output.
    pub(super) fn note_head_written(&mut self, id: u32) {
        if let Some(open) = self.open.get_mut(&id) {
            open.note_head_written();
        }
    }

    /// Ends the streams whose last frames were sent, as reported by `take_sent`.
    pub(super) fn note_sent(
        &mut self,
        terms: &ConnectionTerms,
        take_sent: impl FnOnce(&mut dyn FnMut(SentPart)),
        now: Instant,
    ) {
        let mut over = std::mem::take(&mut self.fully_sent);
        let (open, held) = (&mut self.open, &mut self.held);
        take_sent(&mut |part| {
            let Some(open) = open.get_mut(&part.stream) else { return };
            let before = open.held();
            if open.note_sent(part, now) {
                over.push(part.stream);
            }
            *held -= before - open.held();
        });
        over.drain(..).for_each(|id| self.end_one(terms, id, false, now));
        self.fully_sent = over;
        self.wake_crowded();
    }

    /// Ends all streams because the connection is aborted.
    pub(super) fn abort(&mut self) {
        self.draining.clear();
        self.crowded.clear();
        self.held = 0;
        let lost = std::mem::take(&mut self.open).into_iter();
        self.over.extend(lost.map(|(id, open)| (open.ended(id, true), open)));
    }

    /// The library has finished: ends the streams, except those for whose responses `has_unsent_end` returns true.
    pub(super) fn end(&mut self, has_unsent_end: impl Fn(u32) -> bool) {
        self.draining.clear();
        for (id, mut open) in std::mem::take(&mut self.open) {
            if has_unsent_end(id) {
                open.note_written();
                self.open.insert(id, open);
            } else if open.is_out() {
                // The library considers the stream finished; the worker continues unless the client leaves.
                self.open.insert(id, open);
            } else {
                self.held -= open.held();
                self.over.push_back((open.ended(id, true), open));
            }
        }
    }
}
