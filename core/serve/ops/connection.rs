//! One connection of the operations port: bytes in, bytes out, and when it has taken too long.
//!
//! Promises: it holds at most one head and one answer at a time, whatever the client does; its deadline is absolute
//! from the first byte of a request to the last byte of its answer. Pipelined requests are answered in order.
//! Refuses: it owns no socket and reads no clock.
//!
//! ```text
//!   Reading ──head complete──▶ Answering ──all sent──▶ Reading     (kept)
//!                                  │
//!                                  └──────all sent──▶ Leaving ──client closed, or deadline──▶ Done
//! ```

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::http::method::wants_head_only;
use crate::http::{HeadLimits, HeadReader, Parsed, Persistence};
use crate::limits::{OPS_EXCHANGE_TIMEOUT, OPS_HEAD_BYTES_MAX, OPS_IDLE_TIMEOUT, OPS_LEAVE_TIMEOUT};

use super::port::{OpsResponder, OpsSource, refuse};

/// A connection's state; see the module's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Stage {
    /// It waits for a head.
    Reading,
    /// It has an answer to send.
    Answering,
    /// All is said; what still comes in is thrown away, so that the client can read the answer before the close.
    Leaving,
    /// It can be closed.
    Done,
}

/// One connection.
#[derive(Debug)]
pub(in crate::serve) struct OpsConnection {
    peer: IpAddr,
    stage: Stage,
    reader: HeadReader,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    keep: Persistence,
    input_ended: bool,
    waiting_since: Instant,
    patience: Duration,
}

/// The longest input that waits: one head and the empty lines that may come before it.
const INPUT_BYTES_MAX: usize = OPS_HEAD_BYTES_MAX + 64;

impl OpsConnection {
    /// Begins with a connection of `peer` that was just accepted.
    pub(in crate::serve) fn new(peer: IpAddr, now: Instant) -> Self {
        Self {
            peer,
            stage: Stage::Reading,
            reader: HeadReader::new(HeadLimits::ops_port()),
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            keep: Persistence::Keep,
            input_ended: false,
            waiting_since: now,
            patience: OPS_EXCHANGE_TIMEOUT,
        }
    }

    /// The state it is in.
    pub(in crate::serve) fn stage(&self) -> Stage {
        self.stage
    }

    /// When it has taken too long.
    pub(in crate::serve) fn deadline(&self) -> Instant {
        self.waiting_since + self.patience
    }

    /// When what it waits for now began: the one with the earliest is the first to be given up.
    pub(in crate::serve) fn waiting_since(&self) -> Instant {
        self.waiting_since
    }

    /// How many bytes it takes now; none while an answer is being sent.
    pub(in crate::serve) fn room(&self) -> usize {
        match self.stage {
            Stage::Reading => INPUT_BYTES_MAX.saturating_sub(self.input.len()),
            Stage::Leaving => usize::MAX,
            Stage::Answering | Stage::Done => 0,
        }
    }

    /// Takes bytes of the client, no more than there is room for.
    pub(in crate::serve) fn take(&mut self, bytes: &[u8], now: Instant) {
        if self.stage != Stage::Reading {
            return;
        }
        debug_assert!(bytes.len() <= self.room(), "more bytes than there is room for");
        if self.input.is_empty() {
            self.wait_from(now, OPS_EXCHANGE_TIMEOUT);
        }
        self.input.extend_from_slice(bytes);
    }

    /// The client will send nothing more. What it sent is still answered.
    pub(in crate::serve) fn input_ended(&mut self) {
        self.input_ended = true;
        if self.stage == Stage::Leaving {
            self.stage = Stage::Done;
        }
    }

    /// Answers the next request if its head is complete; returns whether anything changed.
    pub(in crate::serve) fn advance<S: OpsSource>(
        &mut self,
        responder: &OpsResponder<S>,
        date: &[u8],
    ) -> bool {
        if self.stage != Stage::Reading {
            return false;
        }
        match self.reader.read(&self.input) {
            Ok(Parsed::Complete { head, length, framing, keep_alive, .. }) => {
                self.input.drain(..length);
                let keep = if keep_alive { Persistence::Keep } else { Persistence::Close };
                self.keep = responder.respond(&mut self.output, &head, framing, keep, self.peer, date);
                self.stage = Stage::Answering;
            }
            Ok(Parsed::Partial) if self.input_ended => self.stage = Stage::Done,
            Ok(Parsed::Partial) => return false,
            Err(error) => {
                refuse(&mut self.output, error, wants_head_only(&self.input), date);
                self.keep = Persistence::Close;
                self.stage = Stage::Answering;
            }
        }
        true
    }

    /// The bytes that wait to be sent.
    pub(in crate::serve) fn pending(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// `count` of the pending bytes were sent.
    pub(in crate::serve) fn sent(&mut self, count: usize, now: Instant) {
        debug_assert!(self.stage == Stage::Answering, "sent without an answer");
        self.sent += count;
        if self.sent < self.output.len() {
            return;
        }
        self.output = Vec::new();
        self.sent = 0;
        self.stage = match self.keep {
            Persistence::Close if self.input_ended => Stage::Done,
            Persistence::Close => Stage::Leaving,
            Persistence::Keep => Stage::Reading,
        };
        match self.stage {
            Stage::Leaving => self.wait_from(now, OPS_LEAVE_TIMEOUT),
            _ if self.input.is_empty() => self.wait_from(now, OPS_IDLE_TIMEOUT),
            // A pipelined request is there already.
            _ => self.wait_from(now, OPS_EXCHANGE_TIMEOUT),
        }
    }

    fn wait_from(&mut self, now: Instant, patience: Duration) {
        self.waiting_since = now;
        self.patience = patience;
    }
}

#[cfg(all(test, not(loom)))]
#[path = "connection_tests.rs"]
mod tests;
