//! The transport between both machines: the bytes in transit, and the state visible to the owner.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;

use svc_core::connection::{Output, Peer, Sent};
use svc_core::limits::{READ_BYTES, TLS_OUTPUT_BYTES_MAX};

use super::plan::Dice;

/// The result of a read.
pub(crate) enum Got {
    Bytes(Vec<u8>),
    End,
    Nothing,
}

/// Both directions.
#[derive(Default)]
pub(crate) struct Wire {
    /// Bytes sent by the client that have not arrived yet.
    pub(crate) on_the_way: VecDeque<u8>,
    /// Whether the client has closed its side after them.
    pub(crate) is_ending: bool,
    /// Bytes that have arrived.
    inbox: VecDeque<u8>,
    has_ended: bool,
    is_readable: bool,
    is_closed: bool,
    pub(crate) is_broken: bool,
    /// The number of bytes that the socket currently accepts.
    pub(crate) room: usize,
    /// Bytes buffered by a transport with delay.
    held: VecDeque<u8>,
    is_tls: bool,
    /// The number of bytes moved from `held` to the socket and not reported yet.
    progress: usize,
    /// Bytes in the socket that the client has not read.
    pub(crate) outbox: VecDeque<u8>,
    /// Whether the server has closed its side.
    pub(crate) is_shut: bool,
    /// Bytes that the socket has accepted since the last check.
    pub(crate) taken: Vec<u8>,
    /// If set, one in this number of file runs is not in memory.
    pub(crate) cold: Option<u64>,
    pub(crate) fed: usize,
}

impl Wire {
    pub(crate) fn new(is_tls: bool) -> Self {
        Self { is_tls, ..Self::default() }
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer {
            is_readable: self.is_readable,
            is_closed: self.is_closed,
            is_broken: self.is_broken,
            has_pending_tls_output: !self.held.is_empty(),
        }
    }

    /// Delivers up to `max` bytes of the client, followed by its end of stream.
    pub(crate) fn arrive(&mut self, max: usize) -> bool {
        let count = max.min(self.on_the_way.len());
        self.inbox.extend(self.on_the_way.drain(..count));
        let ends = self.is_ending && self.on_the_way.is_empty() && !self.has_ended;
        self.has_ended |= ends;
        self.is_closed |= ends;
        self.is_readable |= ends || count > 0;
        ends || count > 0
    }

    pub(crate) fn read(&mut self, looks_again: bool) -> Got {
        self.is_readable |= looks_again;
        self.flush();
        if !self.is_readable || self.is_broken {
            self.is_readable = false;
            return if self.is_broken { Got::End } else { Got::Nothing };
        }
        if self.inbox.is_empty() {
            self.is_readable = false;
            self.is_closed |= self.has_ended;
            return if self.has_ended { Got::End } else { Got::Nothing };
        }
        let count = self.inbox.len().min(READ_BYTES);
        self.is_readable = count == READ_BYTES || self.is_closed;
        self.fed += count;
        Got::Bytes(self.inbox.drain(..count).collect())
    }

    /// Writes like a transport; fails on a broken one.
    pub(crate) fn write(&mut self, output: &mut Output, dice: &mut Dice) -> Result<Sent, ()> {
        if self.is_broken || self.is_shut {
            return Err(());
        }
        let mut moved = 0;
        let mut room =
            if self.is_tls { TLS_OUTPUT_BYTES_MAX.saturating_sub(self.held.len()) } else { self.room };
        while !output.is_empty() && room > 0 {
            let is_cold = self.cold.is_some_and(|n| dice.one_in(n));
            if !output.is_front_ready(|run| is_cold.then_some(run.len)) {
                break;
            }
            let bytes = front(output, room.min(1 + dice.index(40_000)));
            room -= bytes.len();
            moved += bytes.len();
            if self.is_tls {
                self.held.extend(bytes);
            } else {
                self.room -= bytes.len();
                self.taken.extend_from_slice(&bytes);
                self.outbox.extend(bytes);
            }
        }
        if self.is_tls {
            self.flush();
            moved = std::mem::take(&mut self.progress);
        }
        let is_all = output.is_empty() && self.held.is_empty();
        Ok(Sent { is_all, bytes: if is_all { 0 } else { moved }, held_back: self.held.len() })
    }

    /// Moves buffered bytes to the socket.
    fn flush(&mut self) {
        let count = self.room.min(self.held.len());
        self.room -= count;
        self.progress += count;
        let bytes: Vec<u8> = self.held.drain(..count).collect();
        self.taken.extend_from_slice(&bytes);
        self.outbox.extend(bytes);
    }

    /// Returns the bytes in front of the socket, to determine the loss.
    pub(crate) fn lost(&mut self, output: &mut Output) -> Vec<u8> {
        let mut lost: Vec<u8> = self.held.iter().copied().collect();
        while !output.is_empty() {
            lost.extend(front(output, usize::MAX));
        }
        lost
    }
}

/// Takes up to `max` bytes from the front of an output, like a socket.
fn front(output: &mut Output, max: usize) -> Vec<u8> {
    let bytes = if let Some(run) = output.front_file() {
        let mut bytes = vec![0; run.len.min(max)];
        run.file.read_exact_at(&mut bytes, run.offset).expect("the file is there");
        bytes
    } else {
        let mut slices = [IoSlice::new(&[]); 3];
        let count = output.fill(&mut slices);
        let mut bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
        bytes.truncate(max);
        bytes
    };
    assert!(!bytes.is_empty(), "an output of {} bytes has nothing at its front", output.len());
    output.advance(bytes.len());
    bytes
}
