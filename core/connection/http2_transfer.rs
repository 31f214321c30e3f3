//! The bytes of one HTTP/2 stream in both directions, and the library's handles.
//!
//! Output that the client's window does not yet allow waits here, up to [`HTTP2_OUTPUT_BYTES_MAX`], and stops the response
//! meanwhile. A file is read only as far as the client's window and the connection's room allow. A body is read only as
//! fast as it can be stored, and the client's window follows.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::http::Fields;
use crate::limits::{DISK_SLICE_BYTES, HTTP2_OUTPUT_BYTES_MAX};
use crate::sync::primitive::Arc;

use super::command::Announced;
use super::output::Output;
use super::ready::Alarm;
use super::response::Frame;
use super::stream::{Pause, Stream, StreamProtocol};

/// The bytes of a stream in both directions.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) alarm: Arc<Alarm>,
    pub(super) waker: Waker,
    pub(super) output: Output,
    pub(super) output_since: Instant,
    /// The room left on the connection, in bytes.
    pub(super) room: u64,
    /// The room reserved for a file slice being read or waiting in the output, in bytes.
    pub(super) claimed: u64,
    /// The number of body bytes handed to the library.
    pub(super) given: u64,
    /// Some output could not be sent for lack of room.
    pub(super) lacks_room: bool,
    /// A file read is waiting for the client.
    holds_file_back: bool,
    /// `None` once the body is not needed.
    pub(super) receive: Option<RecvStream>,
    respond: SendResponse<Bytes>,
    send: Option<SendStream<Bytes>>,
    /// END_STREAM was passed to the library.
    pub(super) is_end_sent: bool,
    /// Heads, informational ones included, that the library has not yet written to the output.
    pub(super) heads_unwritten: u32,
    /// Body bytes were passed to the library since the last `take_sent`.
    pub(super) has_sent: bool,
    /// Body bytes received since the last `take_received`.
    pub(super) received: u64,
}

impl Transfer {
    /// Starts with the library's handles of a new stream.
    pub(super) fn new(
        alarm: Arc<Alarm>,
        (receive, respond): (RecvStream, SendResponse<Bytes>),
        now: Instant,
    ) -> Self {
        Self {
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
        }
    }

    /// Resets the stream.
    pub(super) fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// Returns whether the client has reset the stream, or the connection is gone.
    pub(super) fn is_reset(&mut self) -> bool {
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
    pub(super) fn send_end(&mut self) -> bool {
        if std::mem::replace(&mut self.is_end_sent, true) {
            return true;
        }
        let sent = self.send.as_mut().map(|send| send.send_data(Bytes::new(), true));
        matches!(sent, Some(Ok(())))
    }

    /// Passes as much to the library as the client's window and the room of the connection allow; with `is_last`,
    /// nothing follows. Returns whether anything was passed; `None` if the stream is gone.
    pub(super) fn drain<R>(&mut self, stream: &mut Stream<R>, is_last: bool, now: Instant) -> Option<bool> {
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
    pub(super) fn claim(&mut self, len: usize) {
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
    pub(super) fn waits_for_reader(&self) -> bool {
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
