//! One HTTP/2 stream: its request and the library's handles.
//!
//! Output that the client's window does not yet allow waits here, up to [`HTTP2_OUTPUT_BYTES_MAX`], and stops the reply
//! meanwhile. A file is read only as far as the client's window and the connection's room allow. A body is read only as
//! fast as it can be stored, and the client's window follows. The stream does not touch the connection.
//!
//! ```text
//!   Partial ──reply has ended──▶ Handed ──library is done──▶ Written
//!      │└──broken off──▶ Breaking ──▲
//!      └──its head was all, and is out; reply has ended──▶ (finished)
//! ```

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::http::{Fields, SentPart};
use crate::limits::{DISK_SLICE_BYTES, HTTP2_OUTPUT_BYTES_MAX, LINK_STEPS_MAX};
use crate::pool::End;
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use super::command::{Announced, Ask, ConnectionTerms, Ended};
use super::draining_stream::DrainingStream;
use super::output::Output;
use super::ready::Alarm;
use super::reply::Frame;
use super::stream::{Pause, Stream, StreamProtocol};
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

/// The bytes of a stream in both directions.
#[derive(Debug)]
struct Transfer {
    alarm: Arc<Alarm>,
    waker: Waker,
    output: Output,
    output_since: Instant,
    /// The room left on the connection, in bytes.
    room: u64,
    /// The room reserved for a file slice being read or waiting in the output, in bytes.
    claimed: u64,
    /// The number of body bytes handed to the library.
    given: u64,
    /// Some output could not be sent for lack of room.
    lacks_room: bool,
    /// A file read is waiting for the client.
    holds_file_back: bool,
    /// `None` once the body is not needed.
    receive: Option<RecvStream>,
    respond: SendResponse<Bytes>,
    send: Option<SendStream<Bytes>>,
    /// END_STREAM was passed to the library.
    is_end_sent: bool,
    /// Heads, informational ones included, that the library has not yet written to the output.
    heads_unwritten: u32,
    /// Body bytes were passed to the library since the last `take_sent`.
    has_sent: bool,
    /// Body bytes received since the last `take_received`.
    received: u64,
}

/// How much of the response the library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseDelivery {
    /// A part; the reply has not ended. With `is_out`, the client has all of the response, for example the head for
    /// `HEAD`.
    Partial { is_out: bool },
    /// Everything, but the reply was broken off: the stream is reset once this is sent, because a reset makes the
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
        (receive, respond): (RecvStream, SendResponse<Bytes>),
        permit: Option<Permit>,
        now: Instant,
    ) -> Self {
        let transfer = Transfer {
            waker: alarm.waker(),
            alarm,
            output: waiting_output(),
            output_since: now,
            room: 0,
            claimed: 0,
            given: 0,
            lacks_room: false,
            holds_file_back: false,
            receive: Some(receive),
            respond,
            send: None,
            is_end_sent: false,
            heads_unwritten: 0,
            has_sent: false,
            received: 0,
        };
        Self {
            stream,
            armed: Armed::default(),
            transfer,
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

    /// Returns whether the client has the whole response while the reply continues.
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

    /// The whole reply is in the output: sends the rest as far as the client's window allows.
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
        if self.transfer.heads_unwritten == 0 && self.sent_bytes == self.stream.reply_bytes() {
            self.transfer.reset(Reason::INTERNAL_ERROR);
            self.delivery = ResponseDelivery::Handed { is_whole: false };
        }
        StreamOutcome::Open
    }
}

impl Transfer {
    /// Resets the stream.
    fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// Returns whether the client has reset the stream, or the connection is gone.
    fn is_reset(&mut self) -> bool {
        let mut context = Context::from_waker(&self.waker);
        let reset = match &mut self.send {
            Some(send) => send.poll_reset(&mut context),
            None => self.respond.poll_reset(&mut context),
        };
        reset.is_ready()
    }

    fn send_head(&mut self, head: Response<()>, is_end: bool) {
        self.is_end_sent = is_end;
        // If the stream is gone, the next step notices.
        self.send = self.respond.send_response(head, is_end).ok();
        self.heads_unwritten += u32::from(self.send.is_some());
    }

    fn send_interim(&mut self, status: u16, fields: &Fields) {
        // If the stream is gone, the interim response is not needed.
        let is_taken = self.respond.send_informational(response(status, fields)).is_ok();
        self.heads_unwritten += u32::from(is_taken);
    }

    /// Sends END_STREAM, unless it was sent; returns whether the stream is still open.
    fn send_end(&mut self) -> bool {
        if std::mem::replace(&mut self.is_end_sent, true) {
            return true;
        }
        let sent = self.send.as_mut().map(|send| send.send_data(Bytes::new(), true));
        matches!(sent, Some(Ok(())))
    }

    /// Passes as much to the library as the client's window and the room of the connection allow; with `is_last`,
    /// nothing follows. Returns whether anything was passed; `None` if the stream is gone.
    fn drain<R>(&mut self, stream: &mut Stream<R>, is_last: bool, now: Instant) -> Option<bool> {
        let mut moved = false;
        while !self.output.is_empty() {
            let room = self.room + self.claimed;
            if room == 0 {
                self.lacks_room = true;
                break;
            }
            let capacity = match self.capacity(self.output.len())? {
                0 => break,
                capacity => capacity.min(as_length(room)),
            };
            let bytes = stream.lend(self.output.take(capacity));
            let count = bytes.len() as u64;
            let ends = is_last && self.output.is_empty();
            self.send.as_mut()?.send_data(bytes, ends).ok()?;
            let claimed = self.claimed.min(count);
            self.claimed -= claimed;
            self.room -= count - claimed;
            self.given += count;
            self.is_end_sent |= ends;
            self.has_sent = true;
            self.output_since = now;
            moved = true;
        }
        if self.output.is_empty() && !stream.awaits_disk() {
            // A slice may have been shorter than requested.
            self.claimed = 0;
        }
        Some(moved)
    }

    /// Returns how many of `wanted` bytes the client's window allows; `None` if the stream is gone. If the window is
    /// empty, the stream is woken when it opens.
    fn capacity(&mut self, wanted: usize) -> Option<usize> {
        let send = self.send.as_mut()?;
        send.reserve_capacity(wanted);
        loop {
            match send.capacity() {
                0 => match send.poll_capacity(&mut Context::from_waker(&self.waker)) {
                    Poll::Ready(Some(Ok(0))) => {}
                    Poll::Ready(Some(Ok(capacity))) => return Some(capacity),
                    Poll::Ready(Some(Err(_)) | None) => return None,
                    Poll::Pending => return Some(0),
                },
                capacity => return Some(capacity),
            }
        }
    }

    /// Reserves room for a slice of this many bytes that is being read.
    fn claim(&mut self, len: usize) {
        self.holds_file_back = false;
        self.claimed += len as u64;
        self.room = self.room.saturating_sub(len as u64);
        self.output.set_slice_room(0);
    }

    /// Determines how much of a file may be read; returns whether it is more than zero, `None` if the stream is gone.
    fn look_for_slice_room(&mut self) -> Option<bool> {
        let capacity = match self.room {
            0 => {
                self.lacks_room = true;
                0
            }
            room => self.capacity(DISK_SLICE_BYTES)?.min(as_length(room)),
        };
        self.output.set_slice_room(capacity);
        self.holds_file_back = capacity == 0;
        Some(capacity > 0)
    }

    /// Returns whether anything is waiting for the client to read.
    fn waits_for_reader(&self) -> bool {
        !self.output.is_empty() || self.holds_file_back
    }
}

impl<R> StreamProtocol<R> for Transfer {
    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn note_step(&mut self, now: Instant) {
        if !self.waits_for_reader() {
            self.output_since = now;
        }
    }

    fn feed_body(&mut self, stream: &mut Stream<R>, now: Instant) -> Option<Pause> {
        let Some(receive) = &mut self.receive else { return Some(Pause::Lost) };
        match receive.poll_data(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(Some(Ok(bytes))) => {
                let (used, body_bytes) = stream.take_body(&bytes, now);
                // Bytes that are refused here were received nevertheless.
                self.received += if used == 0 { bytes.len() } else { body_bytes } as u64;
                // Fails only if the stream is gone, when its window does not matter.
                let _ = receive.flow_control().release_capacity(bytes.len());
                None
            }
            Poll::Ready(None) => {
                stream.end_body();
                None
            }
            Poll::Ready(Some(Err(_))) => Some(Pause::Lost),
            Poll::Pending => {
                if stream.takes_continue() {
                    self.send_interim(100, &Fields::new());
                }
                Some(Pause::Blocked)
            }
        }
    }

    fn interim(&mut self, _: &Stream<R>, status: u16, fields: &Fields) {
        self.send_interim(status, fields);
    }

    fn head(&mut self, stream: &mut Stream<R>, announced: Announced) {
        let Announced { status, fields, length, has_body, page, date, .. } = announced;
        let mut head = response(status, &fields);
        let fields = head.headers_mut();
        if !fields.contains_key(http::header::DATE)
            && let Ok(date) = HeaderValue::from_bytes(&date)
        {
            // Fails if the field list was truncated.
            let _ = fields.try_insert(http::header::DATE, date);
        }
        if let Some(length) = length
            && !crate::http::status::is_bodiless(status)
        {
            let _ = fields.try_insert(http::header::CONTENT_LENGTH, length.into());
        }
        let is_empty = !has_body || length == Some(0);
        let frame = match length {
            _ if is_empty => Frame::Absent,
            Some(left) => Frame::Length { left },
            None => Frame::Bare,
        };
        stream.begin_body(frame, page);
        self.send_head(head, is_empty);
    }

    fn make_room(&mut self, stream: &mut Stream<R>, now: Instant) -> Option<Pause> {
        let has_room = match self.drain(stream, false, now) {
            Some(true) => Some(!self.output.is_full()),
            // The output is empty, so the room is available for a file.
            Some(false) if self.output.is_empty() => self.look_for_slice_room(),
            Some(false) => Some(false),
            None => None,
        };
        match has_room {
            Some(true) => None,
            Some(false) => Some(Pause::Blocked),
            None => Some(Pause::Lost),
        }
    }
}

/// Creates the output of a stream whose head has not been sent: no file is read yet.
fn waiting_output() -> Output {
    let mut output = Output::full_at(HTTP2_OUTPUT_BYTES_MAX);
    output.set_slice_room(0);
    output
}

fn as_length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The usual number of response fields, with some to spare.
const FIELDS_TYPICAL: usize = 12;

/// Converts a response head; drops fields that HTTP/2 cannot carry.
fn response(status: u16, fields: &Fields) -> Response<()> {
    let mut head = Response::new(());
    *head.headers_mut() = HeaderMap::with_capacity(FIELDS_TYPICAL);
    *head.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            // A list too long for the library is truncated.
            let _ = head.headers_mut().try_append(name, value);
        }
    }
    head
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
    fn partial_is_out_before_its_reply_has_ended() {
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

    #[test]
    fn a_list_of_fields_beyond_all_measure_is_cut() {
        let mut fields = Fields::new();
        for index in 0..40_000 {
            fields.push(format!("X-{index}").as_bytes(), b"1").unwrap();
        }
        let head = response(200, &fields);
        assert!(head.headers().len() > 20_000 && head.headers().contains_key("x-0"));
    }
}
