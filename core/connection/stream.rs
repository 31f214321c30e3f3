//! One request on a connection of either protocol.
//!
//! The stream advances one step at a time and returns what it needs. A body is read only if it is wanted, and its
//! memory is bounded. Message framing and the meaning of the request are handled elsewhere.
//!
//! ```text
//!   Routing ──ReadBody──▶ ReadingBody ──complete──▶ Waiting ──parts──▶ Replying ──▶ (its protocol ends it)
//!      │                      └──Refuse───────────────│──────────────▶ │
//!      └──Answer, Refuse────────────────────────────Answer───────────▶ │
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::http::{BodyDecoder, BodyError, BodyFraming, Fields, Version};
use crate::pool::{End, Part};
use crate::spool::{Share, SpoolError, SpoolFile};

use super::body_reader::{BodyReader, BodyStep};
use super::command::{Ask, Decision, Grant};
use super::output::Output;
use super::reply::{Frame, Reply, ReplyStep};

/// A request being served.
#[derive(Debug)]
pub(super) struct Stream<R> {
    /// The owner's data of the request.
    pub(super) request: R,
    facts: ResponseFacts,
    phase: StreamPhase,
    /// Since when the stream has been waiting for the peer.
    since: Instant,
    /// An ask that precedes the next step.
    interruption: Option<Interruption>,
    unwanted: Option<Unwanted>,
    /// It is offered even if its peer has gone.
    outlives_peer: bool,
    /// Its head announces a body that is longer than granted.
    is_too_long: bool,
    /// The peer has closed the connection and is presumed not to read a later response.
    is_deserted: bool,
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
    /// Offered; no part of the reply has arrived. With `has_parts`, the owner has announced some.
    Waiting { until: Option<Instant>, has_parts: bool },
    /// The reply is being sent.
    Replying(Reply),
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

/// The outcome of a step.
#[derive(Debug)]
pub(super) enum StreamStep {
    /// An action for the owner.
    Ask(Ask),
    /// Feed body bytes with [`Stream::take_body`].
    Bytes,
    /// The reply has ended; all of it is in the output.
    End(End),
    /// Encode an informational response.
    Interim(u16, Fields),
    /// The peer has gone.
    Lost,
    /// Make room in the output.
    Room,
    /// Wait for the owner or the deadline.
    Wait,
}

impl<R> Stream<R> {
    /// Creates the stream of a request whose head was read.
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
        let outlives_peer = grant.outlives_peer;
        Self { outlives_peer, is_too_long, ..Self::in_phase(phase, request, facts, now) }
    }

    /// Creates the stream of a request that cannot be parsed; the owner must answer it.
    pub(super) fn unreadable(request: R, facts: ResponseFacts, now: Instant) -> Self {
        Self::in_phase(StreamPhase::waiting(), request, facts, now)
    }

    fn in_phase(phase: StreamPhase, request: R, facts: ResponseFacts, since: Instant) -> Self {
        Self {
            request,
            facts,
            phase,
            since,
            interruption: None,
            unwanted: None,
            outlives_peer: false,
            is_too_long: false,
            is_deserted: false,
            is_cut_short: false,
        }
    }

    /// Returns whether its head announces a body that is longer than granted; the owner must refuse it.
    pub(super) fn is_too_long(&self) -> bool {
        self.is_too_long
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
    pub(super) fn decide(&mut self, decision: Decision, now: Instant) {
        self.interruption = None;
        match decision {
            Decision::Answer(reply) => {
                if let StreamPhase::Routing(reader) | StreamPhase::ReadingBody(IncomingBody { reader, .. }) =
                    std::mem::replace(&mut self.phase, StreamPhase::Replying(reply))
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
            Decision::Refuse(reply) => {
                self.end_connection();
                self.is_cut_short = true;
                if let StreamPhase::Routing(reader) | StreamPhase::ReadingBody(IncomingBody { reader, .. }) =
                    std::mem::replace(&mut self.phase, StreamPhase::Replying(reply))
                {
                    self.unwanted = Some(Unwanted { reader: reader.unwanted(), is_doubtful: true });
                }
            }
        }
    }

    /// Takes a step.
    pub(super) fn step(&mut self, output: &mut Output) -> StreamStep {
        if let Some(interruption) = self.interruption.take() {
            return StreamStep::Ask(match interruption {
                Interruption::BodyLate { is_starved } => Ask::BodyLate { is_starved },
                Interruption::BodyRefused(error) => Ask::BodyRefused(error),
                Interruption::WaitOver => Ask::WaitOver,
            });
        }
        match &mut self.phase {
            StreamPhase::Routing(_) => StreamStep::Wait,
            StreamPhase::ReadingBody(_) => self.step_body(),
            StreamPhase::Waiting { has_parts: has_parts @ true, .. } => {
                *has_parts = false;
                StreamStep::Ask(Ask::Collect)
            }
            StreamPhase::Waiting { .. } if self.is_deserted => StreamStep::Lost,
            StreamPhase::Waiting { .. } => StreamStep::Wait,
            StreamPhase::Replying(reply) => match reply.pump(output) {
                ReplyStep::Disk => StreamStep::Wait,
                ReplyStep::End(end) => StreamStep::End(end),
                ReplyStep::File(head) => StreamStep::Ask(Ask::SendFile(head)),
                ReplyStep::Head(head, length) => {
                    StreamStep::Ask(Ask::Announce { head, length, head_only: self.facts.head_only })
                }
                ReplyStep::Interim(status, fields) => StreamStep::Interim(status, fields),
                ReplyStep::Parts if reply.takes_more() => StreamStep::Ask(Ask::Collect),
                ReplyStep::Parts if self.is_deserted => StreamStep::Lost,
                ReplyStep::Parts => StreamStep::Wait,
                ReplyStep::Room => StreamStep::Room,
                ReplyStep::Slice(source, offset, len) => StreamStep::Ask(Ask::Slice(source, offset, len)),
            },
        }
    }

    fn step_body(&mut self) -> StreamStep {
        let StreamPhase::ReadingBody(body) = &mut self.phase else { return StreamStep::Wait };
        match body.reader.next() {
            BodyStep::Bytes => StreamStep::Bytes,
            BodyStep::Disk => StreamStep::Wait,
            BodyStep::Nothing(body) => {
                self.phase = StreamPhase::waiting();
                let is_deserted = self.is_deserted;
                if is_deserted && !self.outlives_peer {
                    return StreamStep::Lost;
                }
                StreamStep::Ask(Ask::Offer { body, is_deserted })
            }
            BodyStep::Room if std::mem::replace(&mut body.awaits_room, true) => StreamStep::Wait,
            BodyStep::Room => StreamStep::Ask(Ask::AwaitSpoolRoom),
            BodyStep::Spool(file, bytes) => StreamStep::Ask(Ask::Spool(file, bytes)),
        }
    }

    /// Takes body bytes, after [`StreamStep::Bytes`]; returns the bytes consumed and the body bytes decoded from them.
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
    pub(super) fn set_deserted(&mut self, is_deserted: bool) {
        self.is_deserted = is_deserted;
    }

    /// Returns whether the request continues until it is offered although its peer has gone. If its body is incomplete,
    /// the missing bytes end it.
    pub(super) fn goes_on_alone(&self) -> bool {
        matches!(self.phase, StreamPhase::Routing(_) | StreamPhase::ReadingBody(_)) && self.outlives_peer
    }

    /// Takes the file and the buffer back after a piece of the body was written.
    pub(super) fn spooled(&mut self, file: SpoolFile, buffer: Vec<u8>, now: Instant) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.reader.spooled(file, buffer);
            self.since = now;
        }
    }

    /// Takes a refused piece of the body back; returns whether a retry may succeed.
    pub(super) fn spool_refused(
        &mut self,
        file: Option<SpoolFile>,
        bytes: Vec<u8>,
        error: &SpoolError,
    ) -> bool {
        let StreamPhase::ReadingBody(body) = &mut self.phase else { return true };
        body.reader.refused(file, bytes, error)
    }

    /// Retries to spool the body, after room became available.
    pub(super) fn retry_spool(&mut self) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.awaits_room = false;
            body.reader.retry();
        }
    }

    /// Announces parts of the reply.
    pub(super) fn note_reply(&mut self) {
        match &mut self.phase {
            StreamPhase::Waiting { has_parts, .. } => *has_parts = true,
            StreamPhase::Replying(reply) => reply.note_more(),
            StreamPhase::Routing(_) | StreamPhase::ReadingBody(_) => {}
        }
    }

    /// Lets `take` append parts of the reply. If there are none, the wait continues: the announcement was for another
    /// request.
    pub(super) fn collect(&mut self, take: impl FnOnce(&mut VecDeque<Part>) -> Share) {
        match &mut self.phase {
            StreamPhase::Waiting { .. } => {
                let mut reply = Reply::default();
                reply.collect(take);
                if reply.has_parts() {
                    self.phase = StreamPhase::Replying(reply);
                }
            }
            StreamPhase::Replying(reply) => reply.collect(take),
            StreamPhase::Routing(_) | StreamPhase::ReadingBody(_) => {}
        }
    }

    /// Returns whether the head of its response was sent, or is pending.
    pub(super) fn has_reply(&self) -> bool {
        matches!(&self.phase, StreamPhase::Replying(reply) if reply.has_begun() || reply.has_head())
    }

    /// Returns whether it was offered, and no part of its reply has arrived.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, StreamPhase::Waiting { .. })
    }

    /// Takes a slice of the reply; an empty one means that the source ended early.
    pub(super) fn sliced(&mut self, bytes: Vec<u8>, output: &mut Output) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            reply.sliced(bytes, output);
        }
    }

    /// Returns whether bytes of its reply are being read from a disk.
    pub(super) fn awaits_disk(&self) -> bool {
        matches!(&self.phase, StreamPhase::Replying(reply) if reply.awaits_disk())
    }

    /// Breaks the reply off because its rest is not available.
    pub(super) fn fail_reply(&mut self) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            reply.fail();
        }
    }

    /// Sets the framing of the body after the head was encoded; `page` replaces the body.
    pub(super) fn begin_body(&mut self, frame: Frame, page: Option<Vec<u8>>) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            if let Some(page) = page {
                reply.replace_body(page);
            }
            reply.begin_body(frame);
        }
    }

    /// Releases the memory of what was sent; the output has `output_bytes` left.
    pub(super) fn note_unsent(&mut self, output_bytes: usize) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            reply.note_unsent(output_bytes);
        }
    }

    /// Passes the share of `bytes` on with them, for a recipient that keeps them for a while.
    pub(super) fn lend(&mut self, bytes: Bytes) -> Bytes {
        if let StreamPhase::Replying(reply) = &mut self.phase { reply.lend(bytes) } else { bytes }
    }

    /// Returns the number of body bytes passed to the output.
    pub(super) fn reply_bytes(&self) -> u64 {
        if let StreamPhase::Replying(reply) = &self.phase { reply.body_bytes() } else { 0 }
    }

    /// Returns the deadline of the wait for its reply, if it is waiting for one.
    pub(super) fn wait_deadline(&self) -> Option<Instant> {
        if let StreamPhase::Waiting { until, .. } = self.phase { until } else { None }
    }

    /// Returns the deadline of the current wait; `None` while waiting for the owner, or for output to be read.
    pub(super) fn deadline(&self, body_timeout: Duration) -> Option<Instant> {
        match &self.phase {
            _ if self.interruption.is_some() => None,
            StreamPhase::ReadingBody(body) if !body.reader.is_spooling() => Some(self.since + body_timeout),
            StreamPhase::ReadingBody(_) | StreamPhase::Routing(_) | StreamPhase::Replying(_) => None,
            StreamPhase::Waiting { until, .. } => *until,
        }
    }

    /// Handles the expired deadline.
    pub(super) fn on_deadline(&mut self) {
        match &mut self.phase {
            StreamPhase::ReadingBody(body) => {
                self.interruption = Some(Interruption::BodyLate { is_starved: body.reader.is_starved() });
            }
            StreamPhase::Waiting { until, .. } => {
                *until = None;
                self.interruption = Some(Interruption::WaitOver);
            }
            StreamPhase::Routing(_) | StreamPhase::Replying(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Ended;
    use crate::connection::harness::{Bench, Rest, data, end, head, seconds};

    /// Creates an HTTP/1 request that was offered, and waits up to five seconds for its reply.
    fn waiting() -> Bench {
        let mut bench = Bench::new();
        bench.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        bench.decide(0, Decision::ReadBody);
        assert!(matches!(bench.asked.pop(), Some((0, Ask::Offer { is_deserted: false, .. }))));
        let until = Some(bench.now + seconds(5));
        assert_eq!(bench.decide(0, Decision::Await { until }), Rest::Wait);
        assert_eq!(bench.connection.deadline(), until);
        bench
    }

    #[test]
    fn waiting_goes_on_where_nothing_is_collected() {
        // A late announcement for the previous request.
        let mut bench = waiting();
        let until = bench.connection.deadline();
        bench.give(0, Vec::new());
        assert!(bench.connection.is_waiting(0) && bench.connection.deadline() == until);
        bench.time_out();
        assert!(matches!(bench.asked.pop(), Some((0, Ask::WaitOver))));
    }

    #[test]
    fn waiting_becomes_replying_with_the_first_part() {
        let mut bench = waiting();
        bench.give(0, vec![head(None), data("abc")]);
        assert!(!bench.connection.is_waiting(0) && bench.connection.has_reply(0));
        bench.give(0, vec![end()]);
        assert!(bench.text().ends_with("3\r\nabc\r\n0\r\n\r\n"));
        assert!(matches!(
            bench.ended[..],
            [Ended { stream: 0, sent_bytes: 3, is_lost: false, is_whole: true }]
        ));
    }

    #[test]
    fn waiting_ends_with_its_peer() {
        let mut bench = waiting();
        assert_eq!(bench.send_end(), Rest::Close { is_whole: false });
        assert!(matches!(
            bench.ended[..],
            [Ended { stream: 0, sent_bytes: 0, is_lost: true, is_whole: false }]
        ));
    }
}
