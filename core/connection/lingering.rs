//! The end of a connection whose peer may still be sending: closing with unread input would make the system reset the
//! connection, and the peer lose the last response.
//!
//! Promises: the way to the peer is closed first; what the peer still sends is thrown away, up to a bound. Refuses: it has
//! no deadline; the connection has.

use crate::limits::LINGER_BYTES_MAX;

use super::body_reader::BodyReader;
use super::command::Command;

/// What comes behind the last response.
#[derive(Debug)]
pub(super) struct Lingering {
    /// Nothing of a response is missing.
    pub(super) is_whole: bool,
    /// The way to the peer is closed.
    is_shut: bool,
    /// How much was thrown away.
    bytes: u64,
    /// The body that it belongs to, if that can be told.
    remnant: Option<BodyReader>,
}

impl Lingering {
    /// Begins; what comes belongs to `remnant` if it does to a body.
    pub(super) fn new(is_whole: bool, remnant: Option<BodyReader>) -> Self {
        Self { is_whole, is_shut: false, bytes: 0, remnant }
    }

    /// Throws bytes away; returns how many body bytes they held.
    pub(super) fn discard(&mut self, bytes: &[u8]) -> u64 {
        self.bytes += bytes.len() as u64;
        let remnant = self.remnant.as_mut();
        let taken = remnant.and_then(|remnant| remnant.discard(bytes).ok());
        taken.map_or(0, |(_, body_bytes)| body_bytes as u64)
    }

    /// Says what is to be done next; with `is_dry`, there is nothing to read for now.
    pub(super) fn poll(&mut self, has_ended: bool, is_dry: bool) -> Command {
        let is_whole = self.is_whole;
        match () {
            () if !std::mem::replace(&mut self.is_shut, true) => Command::ShutDown { is_whole },
            () if has_ended || self.bytes > LINGER_BYTES_MAX => Command::Close { is_whole },
            () if is_dry => Command::Wait,
            () => Command::Read { looks_again: false },
        }
    }
}
