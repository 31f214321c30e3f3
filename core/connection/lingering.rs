//! The end of a connection whose peer may still be sending. Closing a socket with unread input makes the system send
//! RST, which can destroy the last response before the peer reads it.
//!
//! The sending side is shut down first; further input is discarded, up to a limit. The deadline is up to the
//! connection.

use crate::limits::LINGER_BYTES_MAX;

use super::body_reader::BodyReader;
use super::command::Command;

/// The input after the last response.
#[derive(Debug)]
pub(super) struct Lingering {
    /// No response is incomplete.
    pub(super) is_whole: bool,
    /// The sending side is shut down.
    is_shut: bool,
    /// The number of bytes discarded.
    bytes: u64,
    /// The body that the input belongs to, if known.
    rest: Option<Box<BodyReader>>,
}

impl Lingering {
    /// Begins to linger; `rest` is the body that the input continues, if any.
    pub(super) fn new(is_whole: bool, rest: Option<Box<BodyReader>>) -> Self {
        Self { is_whole, is_shut: false, bytes: 0, rest }
    }

    /// Discards input; returns the number of body bytes in it.
    pub(super) fn discard(&mut self, bytes: &[u8]) -> u64 {
        self.bytes += bytes.len() as u64;
        let rest = self.rest.as_mut();
        let taken = rest.and_then(|rest| rest.discard(bytes).ok());
        taken.map_or(0, |(_, body_bytes)| body_bytes as u64)
    }

    /// Returns the next command; with `would_block`, a read would block.
    pub(super) fn poll(&mut self, has_ended: bool, would_block: bool) -> Command {
        let is_whole = self.is_whole;
        match () {
            () if !std::mem::replace(&mut self.is_shut, true) => Command::ShutDown { is_whole },
            () if has_ended || self.bytes > LINGER_BYTES_MAX => Command::Close { is_whole },
            () if would_block => Command::Wait,
            () => Command::Read { looks_again: false },
        }
    }
}
