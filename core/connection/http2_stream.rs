//! One HTTP/2 stream: its request, and how far its response has been sent.
//!
//! The stream ends once the socket has accepted its last frame. A response that breaks off ends in a reset, after all
//! before it was sent. The stream does not touch the connection.
//!
//! ```text
//!   Partial ──response has ended──▶ Handed ──library is done──▶ Written
//!      │└──broken off──▶ Breaking ──▲
//!      └──its head was all, and is out; response has ended──▶ (finished)
//! ```

use std::time::Instant;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};

use crate::http::SentPart;
use crate::limits::LINK_STEPS_MAX;
use crate::pool::End;
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use super::command::{Ask, ConnectionTerms, Ended};
use super::draining_stream::DrainingStream;
use super::http2_transfer::Transfer;
use super::ready::Alarm;
use super::stream::{Pause, Stream};
use super::timers::{Armed, Timer};

/// An open stream.
#[derive(Debug)]
pub(super) struct OpenStream<R> {
    pub(super) stream: Stream<R>,
    /// Its entry among the deadlines of the connection.
    pub(super) armed: Armed,
    transfer: Transfer,
    /// The number of steps left in its current turn.
    steps: u32,
    permit: Option<Permit>,
    delivery: ResponseDelivery,
    /// The number of body bytes that the socket has accepted.
    sent_bytes: u64,
    /// The response was aborted before its end.
    has_broken_off: bool,
}

/// How much of the response the library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseDelivery {
    /// A part; the worker has not ended it. With `is_out`, the client has all of it, for example the head for `HEAD`.
    Partial { is_out: bool },
    /// Everything, but the response was broken off: the stream is reset once this is sent, because a reset makes the
    /// library drop unsent frames.
    Breaking,
    /// Everything; with `is_whole`, the body is as long as announced.
    Handed { is_whole: bool },
    /// Everything, and it was written to the connection's output.
    Written,
}

/// The outcome of a stream's turn.
#[derive(Debug)]
pub(super) enum StreamOutcome {
    /// An action for the owner; then call [`OpenStream::go_on`].
    Ask(Ask),
    /// The response was sent.
    Finished,
    /// The client will not read the response.
    Lost,
    /// Waiting for the client, a worker or the disk.
    Open,
}

impl<R> OpenStream<R> {
    /// Opens a stream for a new request; the first stream of a connection needs no permit.
    pub(super) fn new(
        stream: Stream<R>,
        alarm: Arc<Alarm>,
        handles: (RecvStream, SendResponse<Bytes>),
        permit: Option<Permit>,
        now: Instant,
    ) -> Self {
        Self {
            stream,
            armed: Armed::default(),
            transfer: Transfer::new(alarm, handles, now),
            steps: 0,
            permit,
            delivery: ResponseDelivery::Partial { is_out: false },
            sent_bytes: 0,
            has_broken_off: false,
        }
    }

    /// Wakes the stream.
    pub(super) fn wake(&self) {
        self.transfer.alarm.wake_part();
    }

    /// Returns whether the client has the whole response, which its worker has not ended.
    pub(super) fn is_out(&self) -> bool {
        self.delivery == ResponseDelivery::Partial { is_out: true }
    }

    /// Returns the number of received body bytes that have not been read.
    pub(super) fn unread_bytes(&mut self) -> usize {
        self.transfer.receive.as_mut().map_or(0, |receive| receive.flow_control().used_capacity())
    }

    /// Returns the room of the connection that it occupies, in bytes: read from files, or in the library and unsent.
    pub(super) fn held(&self) -> u64 {
        self.transfer.claimed + (self.transfer.given - self.sent_bytes)
    }

    /// Returns whether output could not be sent for lack of room since the last call.
    pub(super) fn takes_lack_of_room(&mut self) -> bool {
        std::mem::take(&mut self.transfer.lacks_room)
    }

    /// Returns whether body bytes were passed to the library since the last call.
    pub(super) fn take_sent(&mut self) -> bool {
        std::mem::take(&mut self.transfer.has_sent)
    }

    /// Returns the body bytes received since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.transfer.received)
    }

    /// Records sent output; returns whether the response is complete. The library may reset the stream before that.
    pub(super) fn note_sent(&mut self, part: SentPart, now: Instant) -> bool {
        self.sent_bytes = (self.sent_bytes + part.body_bytes).min(self.transfer.given);
        self.transfer.output_since = now;
        self.wake_if_breaking();
        match &mut self.delivery {
            ResponseDelivery::Partial { is_out } => {
                *is_out |= part.is_last && self.transfer.is_end_sent;
                false
            }
            ResponseDelivery::Breaking | ResponseDelivery::Handed { .. } | ResponseDelivery::Written => {
                part.is_last
            }
        }
    }

    /// Records that the library has written a head to the output.
    pub(super) fn note_head_written(&mut self) {
        self.transfer.heads_unwritten = self.transfer.heads_unwritten.saturating_sub(1);
        self.wake_if_breaking();
    }

    fn wake_if_breaking(&self) {
        if self.delivery == ResponseDelivery::Breaking {
            self.wake();
        }
    }

    /// Records that the library has finished and the response is in the connection's output.
    pub(super) fn note_written(&mut self) {
        self.delivery = ResponseDelivery::Written;
    }

    /// Returns the outcome of the request.
    pub(super) fn ended(&self, stream: u32, is_lost: bool) -> Ended {
        let is_whole = !is_lost && !self.has_broken_off;
        Ended { stream, sent_bytes: self.sent_bytes, is_lost, is_whole }
    }

    /// After the response, takes the receiving side if the client is still sending; its input is discarded until
    /// `until`.
    pub(super) fn take_draining(&mut self, until: Instant) -> Option<DrainingStream> {
        let receive = self.transfer.receive.take().filter(|receive| !receive.is_end_stream())?;
        Some(DrainingStream::new(receive, self.transfer.waker.clone(), until, self.permit.take()))
    }

    /// Returns the timer of the current wait.
    pub(super) fn timer(&self, terms: &ConnectionTerms) -> Option<(Timer, Instant)> {
        if self.waits_for_reader() {
            Some((Timer::Write, self.transfer.output_since + terms.write_timeout))
        } else {
            self.stream.timer(terms.body_timeout)
        }
    }

    /// Handles the expired timer; returns whether the stream is lost.
    pub(super) fn on_timeout(&mut self, timer: Timer) -> bool {
        if timer == Timer::Write {
            self.transfer.reset(Reason::CANCEL);
            return true;
        }
        self.stream.on_timeout();
        self.wake();
        false
    }

    /// Returns whether a part of the response is waiting for the client to read.
    fn waits_for_reader(&self) -> bool {
        self.transfer.waits_for_reader() || !matches!(self.delivery, ResponseDelivery::Partial { .. })
    }

    /// Begins a turn of at most `steps` steps, which sends at most `room` bytes.
    pub(super) fn advance(&mut self, steps: u32, room: u64, now: Instant) -> StreamOutcome {
        self.steps = steps.min(LINK_STEPS_MAX);
        match self.delivery {
            ResponseDelivery::Partial { .. } => {}
            ResponseDelivery::Breaking => {
                return if self.transfer.is_reset() { StreamOutcome::Lost } else { self.break_off() };
            }
            // Output that is unsent when the client resets the stream will not be sent.
            ResponseDelivery::Handed { is_whole: true } => {
                return if self.transfer.is_reset() { StreamOutcome::Lost } else { StreamOutcome::Open };
            }
            ResponseDelivery::Handed { is_whole: false } | ResponseDelivery::Written => {
                return StreamOutcome::Open;
            }
        }
        if self.transfer.is_reset() {
            if !self.stream.continues_without_client() {
                return StreamOutcome::Lost;
            }
            self.stream.set_client_gone(true);
        }
        self.go_on(room, now)
    }

    /// Returns the number of steps left in the turn.
    pub(super) fn steps_left(&self) -> u32 {
        self.steps
    }

    /// Continues a turn.
    pub(super) fn go_on(&mut self, room: u64, now: Instant) -> StreamOutcome {
        self.transfer.room = room;
        // The unread rest is discarded after the response; see `DrainingStream`.
        drop(self.stream.take_unwanted());
        match self.stream.advance(&mut self.transfer, &mut self.steps, now) {
            Pause::Ask(ask) => {
                if let Ask::Slice(_, _, len) = &ask {
                    self.transfer.claim(*len);
                }
                StreamOutcome::Ask(ask)
            }
            Pause::Blocked if self.transfer.drain(&mut self.stream, false, now).is_none() => {
                StreamOutcome::Lost
            }
            Pause::Blocked | Pause::Read | Pause::Transmit => StreamOutcome::Open,
            Pause::End(end) => self.end(end, now),
            Pause::Lost => StreamOutcome::Lost,
            Pause::Yield => {
                // Let the other streams run first.
                self.wake();
                StreamOutcome::Open
            }
        }
    }

    /// The whole response is in the output: sends the rest as far as the client's window allows.
    fn end(&mut self, end: End, now: Instant) -> StreamOutcome {
        if self.is_out() {
            return StreamOutcome::Finished;
        }
        let is_whole = end == End::Complete;
        if self.transfer.drain(&mut self.stream, is_whole, now).is_none() {
            return StreamOutcome::Lost;
        }
        if !self.transfer.output.is_empty() {
            return StreamOutcome::Open;
        }
        self.transfer.output_since = now;
        if !is_whole {
            self.delivery = ResponseDelivery::Breaking;
            self.has_broken_off = true;
            return self.break_off();
        }
        if !self.transfer.send_end() {
            return StreamOutcome::Lost;
        }
        self.delivery = ResponseDelivery::Handed { is_whole };
        StreamOutcome::Open
    }

    /// Resets the stream once everything before was sent.
    fn break_off(&mut self) -> StreamOutcome {
        if self.transfer.heads_unwritten == 0 && self.sent_bytes == self.stream.response_bytes() {
            self.transfer.reset(Reason::INTERNAL_ERROR);
            self.delivery = ResponseDelivery::Handed { is_whole: false };
        }
        StreamOutcome::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Decision;
    use crate::connection::harness::{Bench, Rest, end, greeting, head, request};

    /// A request with its body read, which a worker is processing.
    fn waiting(method: &str) -> Bench {
        let mut bench = Bench::new();
        bench.send(&[greeting(), request(1, method, true)].concat());
        bench.decide(1, Decision::ReadBody);
        assert!(matches!(bench.asked.pop(), Some((1, Ask::Offer { .. }))));
        bench.decide(1, Decision::Await { until: None });
        bench
    }

    #[test]
    fn partial_is_out_before_its_response_has_ended() {
        // The client has the whole response, a head, long before the script ends.
        for last in [End::Complete, End::Broken] {
            let mut bench = waiting("HEAD");
            assert_eq!(bench.give(1, vec![head(None)]), Rest::Wait);
            assert!(bench.ended.is_empty(), "the script runs on");
            bench.give(1, vec![crate::pool::Part::End(last)]);
            assert!(
                matches!(
                    bench.ended[..],
                    [Ended { stream: 1, sent_bytes: 0, is_lost: false, is_whole: true }]
                ),
                "{last:?}"
            );
        }
        let mut bench = waiting("HEAD");
        bench.give(1, vec![head(None)]);
        bench.is_closing = true;
        assert_eq!(bench.turn(), Rest::Wait, "the drain waits for the script");
        assert!(bench.ended.is_empty());
        bench.give(1, vec![end()]);
        assert!(matches!(bench.ended[..], [Ended { stream: 1, is_lost: false, .. }]));
        let mut bench = waiting("HEAD");
        bench.give(1, vec![head(None), end()]);
        assert!(matches!(bench.ended[..], [Ended { stream: 1, is_lost: false, .. }]));
    }
}
