//! The bytes of an HTTP/1 connection in both directions, and what is known of its socket in the present turn.
//!
//! Promises: what the peer sends ahead waits here; without input or output, no memory is held for it. Refuses: it reads
//! and writes nothing, and it keeps no bound; its owner asks for more only when what is here has been used.

use std::time::Instant;

use crate::http::{Fields, Version, encode};

use super::command::Sent;
use super::output::Output;
use super::spares;
use super::stream::Stream;
use super::turn::{Carrier, CarrierProgress};

/// Input and output.
#[derive(Debug)]
pub(super) struct Buffers {
    /// What came and has not been used.
    input: Vec<u8>,
    pub(super) output: Output,
    /// When output last made progress, or began to wait.
    output_since: Instant,
    /// How much of what left the output the socket has not.
    held_back: usize,
    /// The last write did not take all.
    is_held_back: bool,
    /// The peer sends nothing more.
    has_ended: bool,
    /// In this turn, there was nothing to read.
    is_dry: bool,
    /// In this turn, the socket took no more.
    is_blocked: bool,
    /// In this turn, something was written.
    is_flushed: bool,
    /// Body bytes that were fed since they were last asked for.
    received: u64,
}

impl Buffers {
    /// Starts empty; with `sends_files`, runs of files can wait in the output.
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
            is_dry: false,
            is_blocked: false,
            is_flushed: false,
            received: 0,
        }
    }

    /// A turn begins: the socket is asked anew.
    pub(super) fn begin_turn(&mut self) {
        self.is_dry = false;
        self.is_blocked = false;
        self.is_flushed = false;
    }

    /// What came and has not been used.
    pub(super) fn input(&self) -> &[u8] {
        &self.input
    }

    /// Whether something came that has not been used.
    pub(super) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// The same, for another protocol.
    pub(super) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Adds what came.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        if self.input.capacity() == 0 {
            self.input = spares::take_buffer();
        }
        self.input.extend_from_slice(bytes);
    }

    /// Cuts `count` used bytes off the input, and gives its memory back once it is empty.
    pub(super) fn consume(&mut self, count: usize) {
        self.input.drain(..count);
        if self.input.is_empty() {
            spares::give_buffer(std::mem::take(&mut self.input));
        }
    }

    /// The peer sends nothing more.
    pub(super) fn end_input(&mut self) {
        self.has_ended = true;
    }

    /// Whether the peer sends nothing more.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// There is nothing to read for now.
    pub(super) fn note_dry(&mut self) {
        self.is_dry = true;
    }

    /// Whether there is nothing to read for now.
    pub(super) fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// Something was written.
    pub(super) fn note_sent(&mut self, sent: Sent, now: Instant) {
        self.is_held_back = !sent.is_all;
        self.is_blocked = !sent.is_all;
        self.is_flushed = true;
        self.held_back = sent.held_back;
        // While the socket is full, nothing more is read from a disk.
        self.output.set_slice_room(if sent.is_all { usize::MAX } else { 0 });
        if !sent.is_all && sent.bytes > 0 {
            self.output_since = now;
        }
    }

    /// Whether the socket takes no more in this turn.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Whether the socket has all.
    pub(super) fn is_out(&self) -> bool {
        self.output.is_empty() && !self.is_held_back
    }

    /// Whether something waits until the peer reads.
    pub(super) fn waits_for_reader(&self) -> bool {
        !self.is_out()
    }

    /// Whether a write is due before the connection waits; with `is_owed`, the transport has bytes of its own to send.
    pub(super) fn wants_flush(&self, is_owed: bool) -> bool {
        let waits = !self.output.is_empty() || (!self.is_flushed && (is_owed || self.is_held_back));
        waits && !self.is_blocked
    }

    /// When output last made progress, or began to wait.
    pub(super) fn output_since(&self) -> Instant {
        self.output_since
    }

    /// How many bytes the socket has not.
    pub(super) fn unsent(&self) -> u64 {
        (self.output.len() + self.held_back) as u64
    }

    /// Body bytes that were fed since this was last asked.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }
}

impl<R> Carrier<R> for Buffers {
    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn note_step(&mut self, now: Instant) {
        if !self.waits_for_reader() {
            self.output_since = now;
        }
    }

    fn feed_body(&mut self, stream: &mut Stream<R>, now: Instant) -> CarrierProgress {
        if self.has_input() {
            let (used, body_bytes) = stream.take_body(&self.input, now);
            self.consume(used);
            self.received += body_bytes as u64;
            return CarrierProgress::Moved;
        }
        if self.has_ended {
            return CarrierProgress::Gone;
        }
        if !self.is_dry {
            return CarrierProgress::Read;
        }
        if stream.takes_continue() && stream.facts().version != Version::Http10 {
            self.output.append(|out| out.extend_from_slice(encode::CONTINUE));
            self.output_since = now;
        }
        CarrierProgress::Blocked
    }

    fn interim(&mut self, stream: &Stream<R>, status: u16, fields: &Fields) {
        if stream.facts().version != Version::Http10 {
            self.output.append(|out| encode::encode_interim(out, status, fields));
        }
    }

    fn make_room(&mut self, _: &mut Stream<R>, _: Instant) -> CarrierProgress {
        if self.is_blocked { CarrierProgress::Blocked } else { CarrierProgress::Transmit }
    }
}
