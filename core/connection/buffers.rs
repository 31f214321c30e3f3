//! The input and output of an HTTP/1 connection, and the state of its socket in the current turn.
//!
//! Input that arrives early waits here; empty buffers hold no memory. This type does no I/O and enforces no limit: its
//! owner reads only after the input has been used.

use std::time::Instant;

use crate::http::encode::{self, Framing, Persistence, ResponseHead};
use crate::http::{Fields, Version};

use super::command::{Announced, Sent};
use super::output::Output;
use super::response::Frame;
use super::spares;
use super::stream::{Pause, Stream, StreamProtocol};

/// Input and output.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Input that has not been used.
    input: Vec<u8>,
    pub(super) output: Output,
    /// When output last made progress, or began to wait.
    output_since: Instant,
    /// Bytes taken from the output that the socket has not accepted yet.
    held_back: usize,
    /// The last write was incomplete.
    is_held_back: bool,
    /// The peer has closed its sending side.
    has_ended: bool,
    /// A read would block, as seen in this turn.
    would_block: bool,
    /// A write would block, as seen in this turn.
    is_blocked: bool,
    /// Something was written in this turn.
    is_flushed: bool,
    /// The connection closes after the current request.
    is_closing: bool,
    /// Body bytes received since the last `take_received`.
    pub(super) received: u64,
}

impl Buffers {
    /// Creates empty buffers; with `sends_files`, the output accepts file ranges.
    pub(super) fn new(sends_files: bool, now: Instant) -> Self {
        let mut output = Output::default();
        output.set_sends_files(sends_files);
        Self {
            input: Vec::new(),
            output,
            output_since: now,
            held_back: 0,
            is_held_back: false,
            has_ended: false,
            would_block: false,
            is_blocked: false,
            is_flushed: false,
            is_closing: false,
            received: 0,
        }
    }

    /// Begins a turn: forgets what the socket reported before.
    pub(super) fn begin_turn(&mut self, is_closing: bool) {
        self.is_closing = is_closing;
        self.would_block = false;
        self.is_blocked = false;
        self.is_flushed = false;
    }

    /// Returns whether the connection closes after the current request.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns the input that has not been used.
    pub(super) fn input(&self) -> &[u8] {
        &self.input
    }

    /// Returns whether there is unused input.
    pub(super) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Takes the unused input, for another protocol.
    pub(super) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Appends input.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        if self.input.capacity() == 0 {
            self.input = spares::take_buffer();
        }
        self.input.extend_from_slice(bytes);
    }

    /// Removes `count` used bytes from the input; releases its memory once it is empty.
    pub(super) fn consume(&mut self, count: usize) {
        self.input.drain(..count);
        if self.input.is_empty() {
            spares::give_buffer(std::mem::take(&mut self.input));
        }
    }

    /// Records that the peer has closed its sending side.
    pub(super) fn end_input(&mut self) {
        self.has_ended = true;
    }

    /// Returns whether the peer has closed its sending side.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records that a read would block.
    pub(super) fn note_would_block(&mut self) {
        self.would_block = true;
    }

    /// Returns whether a read would block.
    pub(super) fn would_block(&self) -> bool {
        self.would_block
    }

    /// Records a write.
    pub(super) fn note_sent(&mut self, sent: Sent, now: Instant) {
        self.is_held_back = !sent.is_all;
        self.is_blocked = !sent.is_all;
        self.is_flushed = true;
        self.held_back = sent.held_back;
        // While the socket is full, nothing more is read from disk.
        self.output.set_slice_room(if sent.is_all { usize::MAX } else { 0 });
        if !sent.is_all && sent.bytes > 0 {
            self.output_since = now;
        }
    }

    /// Returns whether a write would block in this turn.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Returns whether the socket has accepted all output.
    pub(super) fn is_out(&self) -> bool {
        self.output.is_empty() && !self.is_held_back
    }

    /// Returns whether output is waiting for the peer to read.
    pub(super) fn waits_for_reader(&self) -> bool {
        !self.is_out()
    }

    /// Returns whether a write is due before the connection waits; with `has_pending_tls_output`, the transport itself has
    /// pending bytes.
    pub(super) fn wants_flush(&self, has_pending_tls_output: bool) -> bool {
        let waits =
            !self.output.is_empty() || (!self.is_flushed && (has_pending_tls_output || self.is_held_back));
        waits && !self.is_blocked
    }

    /// Returns when output last made progress, or began to wait.
    pub(super) fn output_since(&self) -> Instant {
        self.output_since
    }

    /// Returns the number of bytes that the socket has not accepted.
    pub(super) fn unsent(&self) -> u64 {
        (self.output.len() + self.held_back) as u64
    }
}

impl<R> StreamProtocol<R> for Buffers {
    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn note_step(&mut self, now: Instant) {
        if !self.waits_for_reader() {
            self.output_since = now;
        }
    }

    fn feed_body(&mut self, stream: &mut Stream<R>, now: Instant) -> Option<Pause> {
        if self.has_input() {
            let (used, body_bytes) = stream.take_body(&self.input, now);
            self.consume(used);
            self.received += body_bytes as u64;
            return None;
        }
        if self.has_ended {
            return Some(Pause::Lost);
        }
        if !self.would_block {
            return Some(Pause::Read);
        }
        if stream.takes_continue() && stream.facts().version != Version::Http10 {
            self.output.append(|out| out.extend_from_slice(encode::CONTINUE));
            self.output_since = now;
        }
        Some(Pause::Blocked)
    }

    fn interim(&mut self, stream: &Stream<R>, status: u16, fields: &Fields) {
        if stream.facts().version != Version::Http10 {
            self.output.append(|out| encode::encode_interim(out, status, fields));
        }
    }

    fn head(&mut self, stream: &mut Stream<R>, announced: Announced) {
        let Announced { status, reason, fields, length, has_body, page, date } = announced;
        let facts = stream.facts();
        let framing = Framing::choose(status, length, facts.version, facts.head_only);
        let keeps = facts.keep_alive && framing != Framing::UntilClose && !self.is_closing;
        self.output.append(|out| {
            let head = ResponseHead { status, reason: reason.as_deref(), fields: &fields };
            let connection = if keeps { Persistence::Keep } else { Persistence::Close };
            encode::encode_head(out, &head, framing, connection, facts.version, &date);
        });
        if !keeps {
            stream.end_connection();
        }
        let frame = match framing {
            _ if !has_body => Frame::Absent,
            Framing::None => Frame::Absent,
            Framing::Length(left) => Frame::Length { left },
            Framing::Chunked => Frame::Chunked,
            Framing::UntilClose => Frame::Bare,
        };
        stream.begin_body(frame, page);
    }

    fn make_room(&mut self, _: &mut Stream<R>, _: Instant) -> Option<Pause> {
        Some(if self.is_blocked { Pause::Blocked } else { Pause::Transmit })
    }
}
