//! One stream of HTTP/2: the request that is served on it, and the library's handles.
//!
//! Promises: what the client may not yet be sent waits here, within [`HTTP2_OUTPUT_BYTES_MAX`], and the reply is not
//! pumped further; a body is taken only as fast as it can be kept, and the client hears of it through its window.
//! Refuses: it does not touch the connection; the library's handles never leave the io thread.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::http::{Departed, Fields};
use crate::limits::{HTTP2_OUTPUT_BYTES_MAX, LINGER_BYTES_MAX, LINGER_TIMEOUT, LINK_STEPS_MAX};
use crate::pool::End;
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;
use crate::time;

use super::ready::Alarm;
use crate::serve::io_thread::io::Io;
use crate::serve::io_thread::timers::Armed;
use crate::serve::net::output::Output;
use crate::serve::request::reply::Frame;
use crate::serve::request::stream::{Announced, Stream, StreamStep};

/// A stream that is open.
#[derive(Debug)]
pub(in crate::serve) struct OpenStream {
    pub(in crate::serve) stream: Stream,
    /// Its entry among the deadlines of the connection.
    pub(in crate::serve) armed: Armed,
    pub(in crate::serve) alarm: Arc<Alarm>,
    pub(in crate::serve) output: Output,
    waker: Waker,
    output_since: Instant,
    permit: Option<Permit>,
    receive: RecvStream,
    respond: SendResponse<Bytes>,
    send: Option<SendStream<Bytes>>,
    /// The client has been told that nothing follows.
    is_end_sent: bool,
    delivery: Delivery,
    /// Bytes of the body that the socket has taken.
    sent_bytes: u64,
    /// Heads, informational ones included, that the library was given and has not put into the output.
    heads_unsaid: u32,
    /// Content has gone out since this was last asked.
    has_sent: bool,
}

/// How much of the response is the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// Some of it is yet to be made.
    Partial,
    /// All that there will be; the stream is called off when that is out, as the library drops what is not.
    Breaking,
    /// All; with `is_whole` it ends as its head has announced.
    Handed { is_whole: bool },
    /// All, and it is in the connection's output.
    Said,
}

/// A stream whose response is out although its client is still sending: the rest is thrown away for a while, so that
/// the client reads the answer before it hears that nobody listens.
#[derive(Debug)]
pub(in crate::serve) struct DrainingStream {
    receive: RecvStream,
    waker: Waker,
    bytes: u64,
    pub(in crate::serve) armed: Armed,
    /// When the client has had its time.
    pub(in crate::serve) until: Instant,
    _permit: Option<Permit>,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Outcome {
    /// It waits for the client, a worker or a disk.
    Open,
    /// Its response is out.
    Finished,
    /// Nobody will read its response.
    Lost,
}

impl OpenStream {
    /// Takes over a request that was just read; the first stream of a connection has no permit of its own.
    pub(in crate::serve) fn new(
        stream: Stream,
        alarm: Arc<Alarm>,
        (receive, respond): (RecvStream, SendResponse<Bytes>),
        permit: Option<Permit>,
        now: Instant,
    ) -> Self {
        Self {
            stream,
            armed: Armed::default(),
            waker: alarm.waker(),
            alarm,
            output: Output::full_at(HTTP2_OUTPUT_BYTES_MAX),
            output_since: now,
            permit,
            receive,
            respond,
            send: None,
            is_end_sent: false,
            delivery: Delivery::Partial,
            sent_bytes: 0,
            heads_unsaid: 0,
            has_sent: false,
        }
    }

    /// Whether content has gone out since this was last asked.
    pub(in crate::serve) fn take_sent(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
    }

    /// Something has gone out; returns whether that was all of the response. The library may call a stream off before.
    pub(in crate::serve) fn note_departed(&mut self, departed: Departed, now: Instant) -> bool {
        self.sent_bytes += departed.body_bytes;
        self.output_since = now;
        self.ring_if_breaking();
        departed.is_last && self.delivery != Delivery::Partial
    }

    /// The library has put a head into the output.
    pub(in crate::serve) fn note_head_said(&mut self) {
        self.heads_unsaid = self.heads_unsaid.saturating_sub(1);
        self.ring_if_breaking();
    }

    fn ring_if_breaking(&self) {
        if self.delivery == Delivery::Breaking {
            self.alarm.ring();
        }
    }

    /// The library is done, and the response is in the connection's output.
    pub(in crate::serve) fn note_said(&mut self) {
        self.delivery = Delivery::Said;
    }

    /// Nobody will read the response: closes the books.
    pub(in crate::serve) fn abort(self, io: &Io) {
        self.stream.abort(io, self.sent_bytes);
    }

    /// The response is out: closes the books. What the client is still sending is left.
    pub(in crate::serve) fn finish(self, io: &Io) -> Option<DrainingStream> {
        self.stream.finish(io, self.sent_bytes);
        (!self.receive.is_end_stream()).then_some(DrainingStream {
            receive: self.receive,
            waker: self.waker,
            bytes: 0,
            armed: Armed::default(),
            until: io.now + LINGER_TIMEOUT,
            _permit: self.permit,
        })
    }

    /// When the present wait is over.
    pub(in crate::serve) fn deadline(&self, io: &Io) -> Option<Instant> {
        if self.waits_for_reader() {
            Some(self.output_since + io.shared.config.write_timeout)
        } else {
            self.stream.deadline(io)
        }
    }

    /// The deadline has passed.
    pub(in crate::serve) fn on_deadline(&mut self, io: &mut Io) -> Outcome {
        if !self.waits_for_reader() {
            self.stream.on_deadline(io);
            return self.advance(io);
        }
        self.reset(Reason::CANCEL);
        Outcome::Lost
    }

    /// Whether something of the response waits until the client reads.
    fn waits_for_reader(&self) -> bool {
        !self.output.is_empty() || self.delivery != Delivery::Partial
    }

    /// Ends the stream before its time.
    fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// Makes all steps that can be made now.
    pub(in crate::serve) fn advance(&mut self, io: &mut Io) -> Outcome {
        match self.delivery {
            Delivery::Partial => {}
            Delivery::Breaking => {
                return if self.is_reset() { Outcome::Lost } else { self.break_off() };
            }
            // What is not out when the client calls the stream off goes nowhere.
            Delivery::Handed { is_whole: true } => {
                return if self.is_reset() { Outcome::Lost } else { Outcome::Open };
            }
            Delivery::Handed { is_whole: false } | Delivery::Said => return Outcome::Open,
        }
        if self.is_reset() {
            if !self.stream.goes_on_alone(io) {
                return Outcome::Lost;
            }
            self.stream.is_deserted = true;
        }
        for _ in 0..LINK_STEPS_MAX {
            // What is not read now is thrown away behind the response; see `DrainingStream`.
            self.stream.unwanted = None;
            let was_empty = self.output.is_empty();
            let next = self.stream.step(io, &mut self.output);
            if was_empty {
                self.output_since = io.now;
            }
            let goes_on = match next {
                StreamStep::Again => true,
                StreamStep::Announce(announced) => self.announce(io, &announced),
                StreamStep::Bytes => match self.take_body(io) {
                    Some(goes_on) => goes_on,
                    None => return Outcome::Lost,
                },
                StreamStep::End(end) => return self.end(io, end),
                StreamStep::Interim(status, fields) => {
                    self.interim(status, &fields);
                    true
                }
                StreamStep::Lost => return Outcome::Lost,
                StreamStep::Room => match self.drain(io, false) {
                    Some(moved) => moved && !self.output.is_full(),
                    None => return Outcome::Lost,
                },
                StreamStep::Wait => false,
            };
            if !goes_on {
                return if self.drain(io, false).is_some() { Outcome::Open } else { Outcome::Lost };
            }
        }
        // The others first.
        self.alarm.ring();
        Outcome::Open
    }

    /// Whether the client has called the stream off, or the connection is gone.
    fn is_reset(&mut self) -> bool {
        let mut context = Context::from_waker(&self.waker);
        let reset = match &mut self.send {
            Some(send) => send.poll_reset(&mut context),
            None => self.respond.poll_reset(&mut context),
        };
        reset.is_ready()
    }

    /// Takes what came of the body; returns whether anything did, `None` when nothing will any more.
    fn take_body(&mut self, io: &Io) -> Option<bool> {
        match self.receive.poll_data(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(Some(Ok(bytes))) => {
                if self.stream.take_body(io, &bytes) == 0 {
                    // It is refused here, and received all the same.
                    io.shared.metrics.request_bytes_received(bytes.len() as u64);
                }
                // Fails only when the stream is gone, and then nobody counts.
                let _ = self.receive.flow_control().release_capacity(bytes.len());
                Some(true)
            }
            Poll::Ready(None) => {
                self.stream.end_body();
                Some(true)
            }
            Poll::Ready(Some(Err(_))) => None,
            Poll::Pending => {
                if self.stream.takes_continue() {
                    self.interim(100, &Fields::new());
                }
                Some(false)
            }
        }
    }

    fn announce(&mut self, io: &mut Io, announced: &Announced) -> bool {
        let mut head = response(announced.status, &announced.fields);
        let fields = head.headers_mut();
        if !fields.contains_key(http::header::DATE)
            && let Ok(date) = HeaderValue::from_bytes(io.date.at(time::wall()))
        {
            // Fails where a list was cut.
            let _ = fields.try_insert(http::header::DATE, date);
        }
        if let Some(length) = announced.length
            && !crate::http::status::is_bodiless(announced.status)
        {
            let _ = fields.try_insert(http::header::CONTENT_LENGTH, length.into());
        }
        let is_empty = !announced.has_body || announced.length == Some(0);
        self.stream.begin_body(match announced.length {
            _ if is_empty => Frame::Absent,
            Some(left) => Frame::Length { left },
            None => Frame::Bare,
        });
        self.is_end_sent = is_empty;
        // A stream that is gone says so at the next step.
        self.send = self.respond.send_response(head, is_empty).ok();
        self.heads_unsaid += u32::from(self.send.is_some());
        true
    }

    fn interim(&mut self, status: u16, fields: &Fields) {
        // A client that has gone needs no hints.
        let is_taken = self.respond.send_informational(response(status, fields)).is_ok();
        self.heads_unsaid += u32::from(is_taken);
    }

    /// The reply is all in the output: sends the rest if the client takes it.
    fn end(&mut self, io: &Io, end: End) -> Outcome {
        let is_whole = end == End::Complete;
        if self.drain(io, is_whole).is_none() {
            return Outcome::Lost;
        }
        if !self.output.is_empty() {
            return Outcome::Open;
        }
        self.output_since = io.now;
        if !is_whole {
            self.delivery = Delivery::Breaking;
            return self.break_off();
        }
        if !self.is_end_sent {
            let sent = self.send.as_mut().map(|send| send.send_data(Bytes::new(), true));
            self.is_end_sent = true;
            if !matches!(sent, Some(Ok(()))) {
                return Outcome::Lost;
            }
        }
        self.delivery = Delivery::Handed { is_whole };
        Outcome::Open
    }

    /// Calls the stream off once all that was said before is out.
    fn break_off(&mut self) -> Outcome {
        if self.heads_unsaid == 0 && self.sent_bytes == self.stream.reply_bytes() {
            self.reset(Reason::INTERNAL_ERROR);
            self.delivery = Delivery::Handed { is_whole: false };
        }
        Outcome::Open
    }

    /// Gives the library what the client's window lets through; with `is_last`, nothing follows. Returns whether
    /// anything was given, `None` when the stream is gone.
    fn drain(&mut self, io: &Io, is_last: bool) -> Option<bool> {
        let mut moved = false;
        while !self.output.is_empty() {
            let send = self.send.as_mut()?;
            send.reserve_capacity(self.output.len());
            let capacity = match send.capacity() {
                0 => match send.poll_capacity(&mut Context::from_waker(&self.waker)) {
                    Poll::Ready(Some(Ok(0))) => continue,
                    Poll::Ready(Some(Ok(capacity))) => capacity,
                    Poll::Ready(Some(Err(_)) | None) => return None,
                    Poll::Pending => break,
                },
                capacity => capacity,
            };
            let bytes = self.stream.lend(self.output.take(capacity));
            let ends = is_last && self.output.is_empty();
            send.send_data(bytes, ends).ok()?;
            self.is_end_sent |= ends;
            self.has_sent = true;
            self.output_since = io.now;
            moved = true;
        }
        Some(moved)
    }
}

impl DrainingStream {
    /// Throws away what came; returns whether more is waited for.
    pub(in crate::serve) fn advance(&mut self, io: &Io) -> bool {
        while let Poll::Ready(data) = self.receive.poll_data(&mut Context::from_waker(&self.waker)) {
            let Some(Ok(bytes)) = data else { return false };
            io.shared.metrics.request_bytes_received(bytes.len() as u64);
            self.bytes += bytes.len() as u64;
            if self.bytes > LINGER_BYTES_MAX
                || self.receive.flow_control().release_capacity(bytes.len()).is_err()
            {
                return false;
            }
        }
        true
    }
}

/// How many fields a response has as a rule, with room to spare.
const FIELDS_TYPICAL: usize = 12;

/// Makes the library's head of ours; a field that HTTP/2 cannot carry is left out.
fn response(status: u16, fields: &Fields) -> Response<()> {
    let mut head = Response::new(());
    *head.headers_mut() = HeaderMap::with_capacity(FIELDS_TYPICAL);
    *head.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            // A list that is too long for the library is cut.
            let _ = head.headers_mut().try_append(name, value);
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

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
