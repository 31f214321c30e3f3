//! One request on a connection, whatever the protocol.
//!
//! Promises: it takes a step at a time and says what it needs; a body is taken only when it is wanted, and what comes of
//! it is bounded. Refuses: it knows no framing of messages, and not what the request means.
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

/// One request that is being served.
#[derive(Debug)]
pub(super) struct Stream<R> {
    /// What the connection's owner knows of it.
    pub(super) request: R,
    facts: ResponseFacts,
    phase: StreamPhase,
    /// Since when the peer is waited for.
    since: Instant,
    /// What is to be asked before the next step.
    interruption: Option<Interruption>,
    unwanted: Option<Unwanted>,
    /// It is offered although its peer has gone.
    outlives_peer: bool,
    /// Its head announces a body that is longer than granted.
    is_too_long: bool,
    /// The peer will not read an answer that is yet to be made.
    is_deserted: bool,
    /// It was refused before its body was read.
    is_cut_short: bool,
}

/// What the head of a request says about its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseFacts {
    /// The protocol of the response.
    pub(super) version: Version,
    /// Whether the response has a head only.
    pub(super) head_only: bool,
    /// Whether the connection may live on.
    pub(super) keep_alive: bool,
    /// The peer waits for `100 Continue`.
    pub(super) expects_continue: bool,
}

/// What a request is busy with; see the diagram above.
#[derive(Debug)]
enum StreamPhase {
    /// The owner finds out what answers.
    Routing(BodyReader),
    /// Its body is read.
    ReadingBody(IncomingBody),
    /// It was offered, and nothing has come of its reply. With `has_parts`, there is
    /// something to collect, as somebody has said.
    Waiting { until: Option<Instant>, has_parts: bool },
    /// The reply is being sent.
    Replying(Reply),
}

/// What came up beside the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    BodyLate { is_starved: bool },
    BodyRefused(BodyError),
    WaitOver,
}

impl StreamPhase {
    /// Nothing has come of the reply, and nobody says how long it may take.
    fn waiting() -> Self {
        Self::Waiting { until: None, has_parts: false }
    }
}

/// A body that is wanted.
#[derive(Debug)]
struct IncomingBody {
    reader: BodyReader,
    /// The owner was asked to say when there is room in the spool.
    awaits_room: bool,
}

/// A body that nobody needs.
#[derive(Debug)]
pub(super) struct Unwanted {
    pub(super) reader: BodyReader,
    /// It may or may not come: the peer has asked whether to send it, or it is refused in the middle of it.
    pub(super) is_doubtful: bool,
}

/// What a step leads to.
#[derive(Debug)]
pub(super) enum StreamStep {
    /// The owner is to do something.
    Ask(Ask),
    /// Bytes of the body, by [`Stream::take_body`].
    Bytes,
    /// The reply has ended like this and is in the output.
    End(End),
    /// An informational response is to be encoded.
    Interim(u16, Fields),
    /// Nobody is there to be answered.
    Lost,
    /// Room in the output.
    Room,
    /// Whatever the owner or the deadline brings.
    Wait,
}

impl<R> Stream<R> {
    /// Begins with a head that was read.
    pub(super) fn new(
        request: R,
        facts: ResponseFacts,
        framing: BodyFraming,
        grant: &Grant,
        now: Instant,
    ) -> Self {
        let decoder = BodyDecoder::new(framing, grant.body_bytes_max);
        let is_too_long = decoder.is_err();
        // What is refused is thrown away all the same, by its framing.
        let unbounded = || BodyDecoder::new(framing, u64::MAX).ok();
        let phase = match decoder.ok().or_else(unbounded) {
            Some(decoder) => StreamPhase::Routing(BodyReader::new(decoder)),
            None => StreamPhase::waiting(),
        };
        let outlives_peer = grant.outlives_peer;
        Self { outlives_peer, is_too_long, ..Self::in_phase(phase, request, facts, now) }
    }

    /// Begins with a request that cannot be read; the owner must answer it.
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

    /// Whether its head announces a body that is longer than granted: the owner must refuse it.
    pub(super) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// What its head says about its response.
    pub(super) fn facts(&self) -> ResponseFacts {
        self.facts
    }

    /// Nothing can follow its response on the connection.
    pub(super) fn end_connection(&mut self) {
        self.facts.keep_alive = false;
    }

    /// Whether it was refused before its body was read; the peer may still be sending.
    pub(super) fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// The body that nobody needs, once.
    pub(super) fn take_unwanted(&mut self) -> Option<Unwanted> {
        // Looked at before each step: taking moves more than looking.
        if self.unwanted.is_some() { self.unwanted.take() } else { None }
    }

    /// The owner has decided.
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

    /// Takes bytes of the body, after [`StreamStep::Bytes`]; returns how many of them belong to it, and how many body
    /// bytes they held. A body that is no good is told of at the next step.
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

    /// Something of the body is on its way that cannot be taken yet.
    pub(super) fn note_body_progress(&mut self, now: Instant) {
        if let StreamPhase::ReadingBody(_) = self.phase {
            self.since = now;
        }
    }

    /// The body has ended, in a protocol that tells so by itself.
    pub(super) fn end_body(&mut self) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.reader.end();
        }
    }

    /// Whether the peer is to be told that its body is wanted; true once.
    pub(super) fn takes_continue(&mut self) -> bool {
        matches!(self.phase, StreamPhase::ReadingBody(_)) && std::mem::take(&mut self.facts.expects_continue)
    }

    /// The peer will not read an answer that is yet to be made.
    pub(super) fn set_deserted(&mut self, is_deserted: bool) {
        self.is_deserted = is_deserted;
    }

    /// Whether it goes on until it is offered although its peer has gone. What is missing of its body does not come,
    /// which ends it.
    pub(super) fn goes_on_alone(&self) -> bool {
        matches!(self.phase, StreamPhase::Routing(_) | StreamPhase::ReadingBody(_)) && self.outlives_peer
    }

    /// A piece of the body is on disk; its buffer comes back.
    pub(super) fn spooled(&mut self, file: SpoolFile, buffer: Vec<u8>, now: Instant) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.reader.spooled(file, buffer);
            self.since = now;
        }
    }

    /// A piece of the body was not taken and comes back; returns whether it may be another time.
    pub(super) fn spool_refused(
        &mut self,
        file: Option<SpoolFile>,
        bytes: Vec<u8>,
        error: &SpoolError,
    ) -> bool {
        let StreamPhase::ReadingBody(body) = &mut self.phase else { return true };
        body.reader.refused(file, bytes, error)
    }

    /// There may be room in the spool again.
    pub(super) fn retry_spool(&mut self) {
        if let StreamPhase::ReadingBody(body) = &mut self.phase {
            body.awaits_room = false;
            body.reader.retry();
        }
    }

    /// Parts of its reply may be ready.
    pub(super) fn note_reply(&mut self) {
        match &mut self.phase {
            StreamPhase::Waiting { has_parts, .. } => *has_parts = true,
            StreamPhase::Replying(reply) => reply.note_more(),
            StreamPhase::Routing(_) | StreamPhase::ReadingBody(_) => {}
        }
    }

    /// Lets `take` add parts of its reply. If there are none, the wait goes on: the call was meant for another.
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

    /// Whether a head of its response went out, or waits to.
    pub(super) fn has_reply(&self) -> bool {
        matches!(&self.phase, StreamPhase::Replying(reply) if reply.has_begun() || reply.has_head())
    }

    /// Whether it was offered, and nothing has come of its reply.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, StreamPhase::Waiting { .. })
    }

    /// Bytes of its reply were read; none at the end of their source.
    pub(super) fn sliced(&mut self, bytes: Vec<u8>, output: &mut Output) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            reply.sliced(bytes, output);
        }
    }

    /// Returns whether bytes of its reply are being read from a disk.
    pub(super) fn awaits_disk(&self) -> bool {
        matches!(&self.phase, StreamPhase::Replying(reply) if reply.awaits_disk())
    }

    /// The rest of its reply cannot be had.
    pub(super) fn fail_reply(&mut self) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            reply.fail();
        }
    }

    /// The head has been encoded; the body goes out like this, or `page` in its place.
    pub(super) fn begin_body(&mut self, frame: Frame, page: Option<Vec<u8>>) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            if let Some(page) = page {
                reply.replace_body(page);
            }
            reply.begin_body(frame);
        }
    }

    /// The output has so many bytes left that have not been sent.
    pub(super) fn note_unsent(&mut self, output_bytes: usize) {
        if let StreamPhase::Replying(reply) = &mut self.phase {
            reply.note_unsent(output_bytes);
        }
    }

    /// Bytes from the output go to somebody who keeps them for a while.
    pub(super) fn lend(&mut self, bytes: Bytes) -> Bytes {
        if let StreamPhase::Replying(reply) = &mut self.phase { reply.lend(bytes) } else { bytes }
    }

    /// Bytes of the body that have gone into the output.
    pub(super) fn reply_bytes(&self) -> u64 {
        if let StreamPhase::Replying(reply) = &self.phase { reply.body_bytes() } else { 0 }
    }

    /// When the wait for its reply is over, if it waits for one.
    pub(super) fn wait_deadline(&self) -> Option<Instant> {
        if let StreamPhase::Waiting { until, .. } = self.phase { until } else { None }
    }

    /// When the present wait is over; `None` while the wait is for the owner, or for the output to be read.
    pub(super) fn deadline(&self, body_timeout: Duration) -> Option<Instant> {
        match &self.phase {
            _ if self.interruption.is_some() => None,
            StreamPhase::ReadingBody(body) if !body.reader.is_spooling() => Some(self.since + body_timeout),
            StreamPhase::ReadingBody(_) | StreamPhase::Routing(_) | StreamPhase::Replying(_) => None,
            StreamPhase::Waiting { until, .. } => *until,
        }
    }

    /// The deadline has passed.
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

    /// A request of HTTP/1 that was offered, and waits for its reply for five seconds.
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
        // Somebody speaks late, of the request before this one.
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
