//! One request on a connection of either protocol.
//!
//! The stream takes its steps until it needs its owner, its protocol or its peer. A body is read only if it is wanted: in
//! memory while it is short, then spooled to disk piece by piece, and no more is read while a piece is on its way. Message
//! framing is up to the [`StreamProtocol`], the meaning of the request up to the owner. Both protocols advance a stream
//! in the same way, so that code is here.
//!
//! ```text
//!   Routing ──ReadBody──▶ ReadingBody ──complete──▶ Waiting ──parts──▶ Responding ──▶ (its protocol ends it)
//!      │                      └──Refuse───────────────│──────────────▶ │
//!      └──Respond, Refuse───────────────────────────Respond──────────▶ │
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::http::{BodyDecoder, BodyError, BodyFraming, Fields, Version};
use crate::pool::{End, Part};
use crate::spool::{Share, SpoolError, SpoolFile};

use super::body_reader::{BodyReader, BodyStep};
use super::command::{Announced, Ask, Decision, Grant};
use super::output::Output;
use super::response::{Frame, Response, ResponseStep};
use super::timers::Timer;

/// A request being served. Calls that come late, for a phase that is over, have no effect.
#[derive(Debug)]
pub struct Stream<R> {
    /// The owner's data of the request.
    pub request: R,
    facts: ResponseFacts,
    phase: StreamPhase,
    /// The head of the response, until its protocol encodes it.
    announced: Option<Announced>,
    /// Since when the stream has been waiting for the peer.
    since: Instant,
    /// An ask that precedes the next step.
    interruption: Option<Interruption>,
    unwanted: Option<Unwanted>,
    /// It is offered even if its peer has gone.
    outlives_client: bool,
    /// Its head announces a body that is longer than granted.
    is_too_long: bool,
    /// The peer has closed the connection and is presumed not to read a later response.
    client_gone: bool,
    /// It was refused before its body was read.
    is_cut_short: bool,
}

/// The facts of a request head that determine its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseFacts {
    /// The protocol of the response.
    pub(super) version: Version,
    /// Whether the response has a head only.
    pub(super) head_only: bool,
    /// Whether the connection may be kept alive.
    pub(super) keep_alive: bool,
    /// The peer expects `100 Continue`.
    pub(super) expects_continue: bool,
}

/// The state of a request; see the diagram above.
#[derive(Debug)]
enum StreamPhase {
    /// The owner chooses the responder.
    Routing(BodyReader),
    /// The body is being read.
    ReadingBody(IncomingBody),
    /// Offered; no part of the response has arrived. With `has_parts`, the owner has announced some.
    Waiting { until: Option<Instant>, has_parts: bool },
    /// The response is being sent.
    Responding(Response),
}

/// An event that interrupts the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    BodyLate { is_starved: bool },
    BodyRefused(BodyError),
    WaitOver,
}

impl StreamPhase {
    /// Returns the waiting state without a time limit.
    fn waiting() -> Self {
        Self::Waiting { until: None, has_parts: false }
    }
}

/// A body that is wanted.
#[derive(Debug)]
struct IncomingBody {
    reader: BodyReader,
    /// The owner is waiting for room in the spool.
    awaits_room: bool,
}

/// A body that is not needed.
#[derive(Debug)]
pub(super) struct Unwanted {
    pub(super) reader: BodyReader,
    /// The peer may not send it: it expects `100 Continue`, or the body was refused half-way.
    pub(super) is_doubtful: bool,
}

/// The part of a protocol that carries a request. Where it returns a [`Pause`], no other step is possible.
pub(super) trait StreamProtocol<R> {
    /// Returns the output of the response.
    fn output(&mut self) -> &mut Output;

    /// Restarts the write timeout, if no output is pending.
    fn note_step(&mut self, now: Instant);

    /// Feeds received bytes to the body.
    fn feed_body(&mut self, stream: &mut Stream<R>, now: Instant) -> Option<Pause>;

    /// Encodes an informational response.
    fn interim(&mut self, stream: &Stream<R>, status: u16, fields: &Fields);

    /// Encodes the head of the response, and [begins](Stream::begin_body) the body.
    fn head(&mut self, stream: &mut Stream<R>, announced: Announced);

    /// Makes room in the output.
    fn make_room(&mut self, stream: &mut Stream<R>, now: Instant) -> Option<Pause>;
}

/// Why a stream takes no further step.
#[derive(Debug)]
pub(super) enum Pause {
    /// An action for the owner; then the turn continues.
    Ask(Ask),
    /// Wait for the owner, the peer or the deadline.
    Blocked,
    /// The response has ended; all of it is in the output.
    End(End),
    /// The peer has gone.
    Lost,
    /// Read from the socket; then the turn continues.
    Read,
    /// Write the output; then the turn continues.
    Transmit,
    /// All steps of the turn are used up.
    Yield,
}

impl<R> Stream<R> {
    /// Creates the stream of a request whose head was read.
    #[inline]
    pub(super) fn new(
        request: R,
        facts: ResponseFacts,
        framing: BodyFraming,
        grant: &Grant,
        now: Instant,
    ) -> Self {
        let decoder = BodyDecoder::new(framing, grant.body_bytes_max);
        let is_too_long = decoder.is_err();
        // A refused body is still discarded according to its framing.
        let unbounded = || BodyDecoder::new(framing, u64::MAX).ok();
        let phase = match decoder.ok().or_else(unbounded) {
            Some(decoder) => StreamPhase::Routing(BodyReader::new(decoder)),
            None => StreamPhase::waiting(),
        };
        Self {
            request,
            facts,
            phase,
            announced: None,
            since: now,
            interruption: None,
            unwanted: None,
            outlives_client: grant.outlives_client,
            is_too_long,
            client_gone: false,
            is_cut_short: false,
        }
    }

    /// Returns whether its head announces a body that is longer than granted; the owner must refuse it.
    pub(super) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Returns the number of bytes of its body that the owner still awaits; 0 if that is unknown.
    pub(super) fn awaited_body_bytes(&self) -> u64 {
        match &self.phase {
            StreamPhase::ReadingBody(body) => body.reader.remaining().unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns the facts of its head that determine the response.
    pub(super) fn facts(&self) -> ResponseFacts {
        self.facts
    }

    /// Closes the connection after the response.
    pub(super) fn end_connection(&mut self) {
        self.facts.keep_alive = false;
    }

    /// Returns whether it was refused before its body was read; the peer may still be sending.
    pub(super) fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Takes the body that is not needed, if there is one.
    pub(super) fn take_unwanted(&mut self) -> Option<Unwanted> {
        // Called before each step: checking is cheaper than moving the value.
        if self.unwanted.is_some() { self.unwanted.take() } else { None }
    }

    /// Takes the owner's decision.
    pub fn decide(&mut self, decision: Decision, now: Instant) {
        (self.interruption, self.announced) = (None, None);
        match decision {
            Decision::Respond(response) => {
                if let StreamPhase::Routing(reader) | StreamPhase::ReadingBody(IncomingBody { reader, .. }) =
                    std::mem::replace(&mut self.phase, StreamPhase::Responding(response))
                    && !reader.is_read()
                {
                    let is_doubtful = self.facts.expects_continue;
                    self.unwanted = Some(Unwanted { reader, is_doubtful });
                }
            }
            Decision::Await { until: wanted } => {
                if let StreamPhase::Waiting { until, .. } = &mut self.phase {
                    *until = wanted;
                }
            }
            Decision::ReadBody => match std::mem::replace(&mut self.phase, StreamPhase::waiting()) {
                StreamPhase::Routing(reader) => {
                    self.since = now;
                    self.phase = StreamPhase::ReadingBody(IncomingBody { reader, awaits_room: false });
                }
                other => self.phase = other,
            },
            Decision::Refuse(response) => {
                self.end_connection();
                self.is_cut_short = true;
                if let StreamPhase::Routing(reader) | StreamPhase::ReadingBody(IncomingBody { reader, .. }) =
                    std::mem::replace(&mut self.phase, StreamPhase::Responding(response))
                {
                    self.unwanted = Some(Unwanted { reader: reader.unwanted(), is_doubtful: true });
                }
            }
        }
    }

    /// Takes up to `steps` steps.
    pub(super) fn advance(
        &mut self,
        protocol: &mut impl StreamProtocol<R>,
        steps: &mut u32,
        now: Instant,
    ) -> Pause {
        while let Some(left) = steps.checked_sub(1) {
            *steps = left;
            protocol.note_step(now);
            if let Some(pause) = self.step(protocol, now) {
                return pause;
            }
        }
        Pause::Yield
    }

    fn step(&mut self, protocol: &mut impl StreamProtocol<R>, now: Instant) -> Option<Pause> {
        if let Some(interruption) = self.interruption.take() {
            return Some(Pause::Ask(match interruption {
                Interruption::BodyLate { is_starved } => Ask::BodyLate { is_starved },
                Interruption::BodyRefused(error) => Ask::BodyRefused(error),
                Interruption::WaitOver => Ask::WaitOver,
            }));
        }
        match &mut self.phase {
            StreamPhase::ReadingBody(_) => self.step_body(protocol, now),
            StreamPhase::Waiting { has_parts: has_parts @ true, .. } => {
                *has_parts = false;
                Some(Pause::Ask(Ask::Collect))
            }
            StreamPhase::Waiting { .. } if self.client_gone => Some(Pause::Lost),
            StreamPhase::Routing(_) | StreamPhase::Waiting { .. } => Some(Pause::Blocked),
            StreamPhase::Responding(_) => self.step_response(protocol, now),
        }
    }

    fn step_body(&mut self, protocol: &mut impl StreamProtocol<R>, now: Instant) -> Option<Pause> {
        let StreamPhase::ReadingBody(body) = &mut self.phase else { return None };
        match body.reader.next() {
            BodyStep::Bytes => protocol.feed_body(self, now),
            BodyStep::Disk => Some(Pause::Blocked),
            BodyStep::Nothing(body) => {
                self.phase = StreamPhase::waiting();
                let client_gone = self.client_gone;
                if client_gone && !self.outlives_client {
                    return Some(Pause::Lost);
                }
                Some(Pause::Ask(Ask::Offer { body, client_gone }))
            }
            BodyStep::Room if std::mem::replace(&mut body.awaits_room, true) => Some(Pause::Blocked),
            BodyStep::Room => Some(Pause::Ask(Ask::AwaitSpoolRoom)),
            BodyStep::Spool(file, bytes) => Some(Pause::Ask(Ask::Spool(file, bytes))),
        }
    }

    fn step_response(&mut self, protocol: &mut impl StreamProtocol<R>, now: Instant) -> Option<Pause> {
        if let Some(announced) = self.announced.take() {
            protocol.head(self, announced);
        }
        let StreamPhase::Responding(response) = &mut self.phase else { return None };
        match response.pump(protocol.output()) {
            ResponseStep::Disk => Some(Pause::Blocked),
            ResponseStep::End(end) => Some(Pause::End(end)),
            ResponseStep::File(head) => Some(Pause::Ask(Ask::SendFile(head))),
            ResponseStep::Head(head, length) => {
                let head_only = self.facts.head_only;
                Some(Pause::Ask(Ask::Announce { head, length, head_only }))
            }
            ResponseStep::Interim(status, fields) => {
                protocol.interim(self, status, &fields);
                None
            }
            ResponseStep::Parts if response.takes_more() => Some(Pause::Ask(Ask::Collect)),
            ResponseStep::Parts if self.client_gone => Some(Pause::Lost),
            ResponseStep::Parts => Some(Pause::Blocked),
            ResponseStep::Room => protocol.make_room(self, now),
            ResponseStep::Slice(source, offset, len) => Some(Pause::Ask(Ask::Slice(source, offset, len))),
        }
    }

    /// Takes body bytes; returns the bytes consumed and the body bytes decoded from them.
    /// The next step reports an invalid body.
    pub(super) fn take_body(&mut self, bytes: &[u8], now: Instant) -> (usize, usize) {
        let StreamPhase::ReadingBody(body) = &mut self.phase else { return (0, 0) };
        match body.reader.take(bytes) {
            Ok(taken) => {
                self.facts.expects_continue = false;
                self.since = now;
                taken
            }
            Err(error) => {
                self.interruption = Some(Interruption::BodyRefused(error));
                (0, 0)
            }
        }
    }

    /// Records progress of the body by bytes that cannot be taken yet.
    pub(super) fn note_body_progress(&mut self, now: Instant) {
        if let StreamPhase::ReadingBody(_) = self.phase {
            self.since = now;
        }
    }

    /// Records the end of the body, in a protocol that signals it separately.
    pub(super) fn end_body(&mut self) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.reader.end();
        }
    }

    /// Returns whether to send `100 Continue` now; true once.
    pub(super) fn takes_continue(&mut self) -> bool {
        matches!(self.phase, StreamPhase::ReadingBody(_)) && std::mem::take(&mut self.facts.expects_continue)
    }

    /// Sets whether the peer has closed the connection and is presumed not to read a later response.
    pub(super) fn set_client_gone(&mut self, client_gone: bool) {
        self.client_gone = client_gone;
    }

    /// Returns whether the request continues until it is offered although its peer has gone. If its body is incomplete,
    /// the missing bytes end it.
    pub(super) fn continues_without_client(&self) -> bool {
        matches!(self.phase, StreamPhase::Routing(_) | StreamPhase::ReadingBody(_)) && self.outlives_client
    }

    /// Takes the file and the buffer back after a piece of the body was written.
    pub fn spooled(&mut self, file: SpoolFile, buffer: Vec<u8>, now: Instant) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.reader.spooled(file, buffer);
            self.since = now;
        }
    }

    /// Takes a refused piece of the body back; returns whether a retry may succeed. If not, the owner must
    /// [refuse](Decision::Refuse) the request.
    #[must_use]
    pub fn spool_refused(&mut self, file: Option<SpoolFile>, bytes: Vec<u8>, error: &SpoolError) -> bool {
        let StreamPhase::ReadingBody(body) = &mut self.phase else { return true };
        body.reader.refused(file, bytes, error)
    }

    /// Retries to spool the body, after room became available.
    pub fn retry_spool(&mut self) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.awaits_room = false;
            body.reader.retry();
        }
    }

    /// Announces parts of the response.
    pub fn note_response(&mut self) {
        match &mut self.phase {
            StreamPhase::Waiting { has_parts, .. } => *has_parts = true,
            StreamPhase::Responding(response) => response.note_more(),
            StreamPhase::Routing(_) | StreamPhase::ReadingBody(_) => {}
        }
    }

    /// Lets `take` append parts of the response to the request; `take` returns their share of the response memory. If there
    /// are none, the wait continues: the announcement was for another request.
    pub fn collect(&mut self, take: impl FnOnce(&mut R, &mut VecDeque<Part>) -> Share) {
        let take = |parts: &mut _| take(&mut self.request, parts);
        match &mut self.phase {
            StreamPhase::Waiting { .. } => {
                let mut response = Response::default();
                response.collect(take);
                if response.has_parts() {
                    self.phase = StreamPhase::Responding(response);
                }
            }
            StreamPhase::Responding(response) => response.collect(take),
            StreamPhase::Routing(_) | StreamPhase::ReadingBody(_) => {}
        }
    }

    /// Takes the head of the response, after [`Ask::Announce`].
    pub fn announce(&mut self, announced: Announced) {
        if let StreamPhase::Responding(_) = self.phase {
            self.announced = Some(announced);
        }
    }

    /// Returns whether the head of its response was sent, or is pending.
    pub fn has_response(&self) -> bool {
        let has_head =
            |response: &Response| response.has_begun() || response.has_head() || self.announced.is_some();
        matches!(&self.phase, StreamPhase::Responding(response) if has_head(response))
    }

    /// Returns whether it was offered, and no part of its response has arrived.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, StreamPhase::Waiting { .. })
    }

    /// Takes a slice of the response; an empty one means that the source ended early, which breaks the response off.
    pub fn sliced(&mut self, bytes: Vec<u8>) {
        if let StreamPhase::Responding(response) = &mut self.phase {
            response.sliced(bytes);
        }
    }

    /// Returns whether bytes of its response are being read from a disk.
    pub(super) fn awaits_disk(&self) -> bool {
        matches!(&self.phase, StreamPhase::Responding(response) if response.awaits_disk())
    }

    /// Breaks the response off because its rest is not available.
    pub fn fail_response(&mut self) {
        if let StreamPhase::Responding(response) = &mut self.phase {
            response.fail();
        }
    }

    /// Sets the framing of the body after the head was encoded; `page` replaces the body.
    pub(super) fn begin_body(&mut self, frame: Frame, page: Option<Vec<u8>>) {
        if let StreamPhase::Responding(response) = &mut self.phase {
            if let Some(page) = page {
                response.replace_body(page);
            }
            response.begin_body(frame);
        }
    }

    /// Releases the memory of what was sent; the output has `output_bytes` left.
    pub(super) fn note_unsent(&mut self, output_bytes: usize) {
        if let StreamPhase::Responding(response) = &mut self.phase {
            response.note_unsent(output_bytes);
        }
    }

    /// Passes the share of `bytes` on with them, for a recipient that keeps them for a while.
    pub(super) fn lend(&mut self, bytes: Bytes) -> Bytes {
        if let StreamPhase::Responding(response) = &mut self.phase { response.lend(bytes) } else { bytes }
    }

    /// Returns the number of body bytes passed to the output.
    pub(super) fn response_bytes(&self) -> u64 {
        if let StreamPhase::Responding(response) = &self.phase { response.body_bytes() } else { 0 }
    }

    /// Returns the timer of the current wait; `None` while waiting for the owner, or for output to be read.
    pub(super) fn timer(&self, body_timeout: Duration) -> Option<(Timer, Instant)> {
        match &self.phase {
            _ if self.interruption.is_some() => None,
            StreamPhase::ReadingBody(body) if !body.reader.is_spooling() => {
                Some((Timer::Body, self.since + body_timeout))
            }
            StreamPhase::ReadingBody(_) | StreamPhase::Routing(_) | StreamPhase::Responding(_) => None,
            StreamPhase::Waiting { until, .. } => until.map(|until| (Timer::Response, until)),
        }
    }

    /// Handles the expired timer.
    pub(super) fn on_timeout(&mut self) {
        match &mut self.phase {
            StreamPhase::ReadingBody(body) => {
                self.interruption = Some(Interruption::BodyLate { is_starved: body.reader.is_starved() });
            }
            StreamPhase::Waiting { until, .. } => {
                *until = None;
                self.interruption = Some(Interruption::WaitOver);
            }
            StreamPhase::Routing(_) | StreamPhase::Responding(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
