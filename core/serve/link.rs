//! One client connection: what it is busy with, and what it does next.
//!
//! Promises: requests of a connection are answered one after the other, in order; what a client sends ahead waits
//! unread, so it is bounded; every wait has a deadline but the one for what a worker or a disk is doing.
//! Refuses: it never blocks.
//!
//! ```text
//!   Head ──complete──▶ Finding ──script──▶ Body ──complete──▶ Replying ──kept──▶ Head
//!     │                   └──file, error──────────────────────▶ │
//!     └──malformed, late──────────────────────────────────────▶ │
//!                                        Lingering ◀──closing───┘
//! ```
//!
//! The steps of each phase are in `receive`, `dispatch` and `respond`.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use mio::event::Event;
use mio::net::TcpStream;

use crate::http::{HeadLimits, HeadReader};
use crate::limits::{FIRST_BYTE_GRACE, LINGER_TIMEOUT, LINK_STEPS_MAX};
use crate::pool::Script;
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;
use crate::time;

use super::accept::Arrival;
use super::disk::Done;
use super::intake::Intake;
use super::io::Io;
use super::output::Output;
use super::reply::Reply;
use super::timers::Armed;
use super::turn::Turn;

/// One client connection.
#[derive(Debug)]
pub(super) struct Link {
    /// What other threads call it.
    pub(super) key: u64,
    /// Its entry among the deadlines.
    pub(super) armed: Armed,
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// What came and has not been used.
    pub(super) input: Vec<u8>,
    pub(super) output: Output,
    pub(super) reader: HeadReader,
    pub(super) phase: Phase,
    pub(super) turn: Option<Turn>,
    /// The socket may have more to read.
    pub(super) is_readable: bool,
    /// The peer will send no more than what is there to be read.
    pub(super) is_peer_closed: bool,
    /// The connection is gone in both directions.
    pub(super) is_broken: bool,
    /// The worker has parts that were not collected.
    pub(super) has_parts: bool,
    /// The connection ends with the present response.
    pub(super) closes: bool,
    /// The client may still be sending what belongs to the present request.
    pub(super) has_unread: bool,
    /// The body of the request before, which nobody needs.
    pub(super) leftover: Option<Leftover>,
    /// At least one request was answered.
    pub(super) has_served: bool,
    /// When the first byte of the present head came.
    pub(super) began: (Instant, SystemTime),
    /// Since when the present wait lasts.
    pub(super) since: Instant,
    /// When output last made progress, or began to wait.
    pub(super) output_since: Instant,
    _permit: Permit,
}

/// What a connection is busy with; see the diagram above.
#[derive(Debug)]
pub(super) enum Phase {
    /// Between requests, or within a head.
    Head,
    /// A file thread finds out what answers.
    Finding(Pending),
    /// Reading a body for PHP.
    Body(Pending),
    /// The answer is being made or sent.
    Replying(Reply),
    /// Everything is sent; what the client still sends is thrown away.
    Lingering {
        /// How much was thrown away.
        bytes: u64,
    },
}

/// What is known about a request before it is offered to the pool.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) intake: Intake,
    /// What runs, once that has been found.
    pub(super) script: Option<Arc<Script>>,
    /// The client waits for `100 Continue`.
    pub(super) expects_continue: bool,
}

/// A body that is thrown away after the answer to its request.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) intake: Intake,
    /// How much was thrown away.
    pub(super) bytes: u64,
}

/// What a step leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Another step.
    Again,
    /// The end of the connection.
    Close,
    /// An event, a message or a deadline.
    Wait,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is to be dropped.
    Ended,
    /// It lives on.
    Lives,
}

/// What a read from the socket gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// So many bytes, in the io thread's buffer.
    Bytes(usize),
    /// The peer has closed its side.
    End,
    /// Nothing for now.
    Nothing,
}

impl Link {
    /// Takes a connection over.
    pub(super) fn new(arrival: Arrival, local: SocketAddr, key: u64, now: Instant) -> Self {
        Self {
            key,
            armed: Armed::default(),
            socket: arrival.socket,
            peer: arrival.peer,
            local,
            input: Vec::new(),
            output: Output::default(),
            reader: HeadReader::new(HeadLimits::main_port()),
            phase: Phase::Head,
            turn: None,
            is_readable: false,
            is_peer_closed: false,
            is_broken: false,
            has_parts: false,
            closes: false,
            has_unread: false,
            leftover: None,
            has_served: false,
            began: (now, SystemTime::UNIX_EPOCH),
            since: now,
            output_since: now,
            _permit: arrival.permit,
        }
    }

    /// The poller reports something.
    pub(super) fn on_event(&mut self, io: &mut Io, event: &Event) -> Fate {
        self.is_readable |= event.is_readable() || event.is_read_closed();
        self.is_peer_closed |= event.is_read_closed();
        self.is_broken |= event.is_error() || event.is_write_closed();
        self.advance(io)
    }

    /// The worker has parts of the reply.
    pub(super) fn on_reply_ready(&mut self, io: &mut Io) -> Fate {
        self.has_parts = true;
        self.advance(io)
    }

    /// A file thread has done its job.
    pub(super) fn on_disk(&mut self, io: &mut Io, done: Done) -> Fate {
        match self.take_disk(io, done) {
            Step::Close => Fate::Ended,
            Step::Again | Step::Wait => self.advance(io),
        }
    }

    /// Makes all steps that can be made now.
    pub(super) fn advance(&mut self, io: &mut Io) -> Fate {
        if self.is_broken {
            self.lose(io);
            return Fate::Ended;
        }
        for _ in 0..LINK_STEPS_MAX {
            let step = match &self.phase {
                Phase::Head => self.step_head(io),
                Phase::Finding(_) => Step::Wait,
                Phase::Body(_) => self.step_body(io),
                Phase::Replying(_) => self.step_reply(io),
                Phase::Lingering { .. } => self.step_linger(io),
            };
            match step {
                Step::Again => {}
                Step::Close => return Fate::Ended,
                Step::Wait => return Fate::Lives,
            }
        }
        // The others first.
        io.again.push(self.key);
        Fate::Lives
    }

    /// When the present wait is over; `None` while the wait is for the server itself.
    pub(super) fn deadline(&self, io: &Io) -> Option<Instant> {
        let config = &io.shared.config;
        if !self.output.is_empty() {
            return Some(self.output_since + config.write_timeout);
        }
        match &self.phase {
            Phase::Head if self.leftover.is_some() => Some(self.since + config.body_timeout),
            Phase::Head if self.is_silent() && io.shared.lifecycle.is_closing() => {
                Some(self.since + config.header_timeout.min(FIRST_BYTE_GRACE))
            }
            Phase::Head if self.has_begun() || !self.has_served => Some(self.since + config.header_timeout),
            Phase::Head => Some(self.since + config.keepalive_timeout),
            Phase::Body(pending) if !pending.intake.is_spooling() => Some(self.since + config.body_timeout),
            Phase::Body(_) | Phase::Finding(_) => None,
            Phase::Replying(_) => {
                let exchange = self.turn.as_ref().and_then(Turn::exchange)?;
                exchange.deadline.filter(|_| exchange.is_unclaimed())
            }
            Phase::Lingering { .. } => Some(self.since + LINGER_TIMEOUT),
        }
    }

    /// The entry among the deadlines has come up; the deadline itself may have moved since.
    pub(super) fn on_deadline(&mut self, io: &mut Io) -> Fate {
        self.armed.fired();
        if self.deadline(io).is_none_or(|deadline| deadline > io.now) {
            return Fate::Lives;
        }
        if !self.output.is_empty() {
            self.lose(io);
            return Fate::Ended;
        }
        match &self.phase {
            Phase::Head if self.leftover.is_some() => return Fate::Ended,
            Phase::Head if self.has_begun() => self.refuse_unread(io, 408),
            Phase::Body(pending) => {
                let status = if pending.intake.is_starved() { 503 } else { 408 };
                self.refuse(status);
            }
            Phase::Head | Phase::Lingering { .. } => return Fate::Ended,
            Phase::Replying(_) => self.on_wait_over(io),
            Phase::Finding(_) => {}
        }
        self.advance(io)
    }

    /// Reads what is there, up to the size of the io thread's buffer.
    pub(super) fn read(&mut self, io: &mut Io) -> Got {
        if !self.is_readable {
            return Got::Nothing;
        }
        loop {
            match self.socket.read(&mut io.scratch) {
                Ok(0) => {
                    self.is_readable = false;
                    self.is_peer_closed = true;
                    return Got::End;
                }
                Ok(count) => {
                    // A short read has emptied the socket; what comes later brings its own event.
                    self.is_readable = count == io.scratch.len() || self.is_peer_closed;
                    return Got::Bytes(count);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return Got::Nothing;
                }
                Err(_) => {
                    self.is_readable = false;
                    self.is_broken = true;
                    return Got::End;
                }
            }
        }
    }

    /// Whether a part of a head is there.
    pub(super) fn has_begun(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether nothing at all has come.
    fn is_silent(&self) -> bool {
        !self.has_begun() && !self.has_served
    }

    /// Cuts `count` used bytes off the input, and gives memory back once it is empty.
    pub(super) fn consume(&mut self, count: usize) {
        self.input.drain(..count);
        if self.input.is_empty() && self.input.capacity() > INPUT_SPARE_BYTES {
            self.input = Vec::new();
        }
    }

    /// Throws away what the client still sends, so that it can read the answer before it sees the end.
    fn step_linger(&mut self, io: &mut Io) -> Step {
        let got = self.read(io);
        let Phase::Lingering { bytes } = &mut self.phase else { return Step::Close };
        match got {
            Got::Bytes(count) => {
                *bytes += count as u64;
                if *bytes > crate::limits::LINGER_BYTES_MAX { Step::Close } else { Step::Again }
            }
            Got::End => Step::Close,
            Got::Nothing => Step::Wait,
        }
    }
}

/// Input buffers up to this size are kept between requests, in bytes.
const INPUT_SPARE_BYTES: usize = 4096;

/// Reads both clocks.
pub(super) fn clocks() -> (Instant, SystemTime) {
    (time::now(), time::wall())
}
