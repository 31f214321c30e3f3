//! A transport with the state that the poller has reported.
//!
//! After [`Got::Nothing`], the socket is empty, so that the next event is not missed. A wire is independent of the
//! protocol.

use std::io;

use mio::event::Event;

use crate::connection::{Output, Peer, Sent};

use super::flush::{Flushed, flush};
use super::transport::Transport;

/// The connection to one client, and its known state.
#[derive(Debug)]
pub(in crate::serve) struct Wire {
    pub(in crate::serve) transport: Transport,
    /// Whether there may be more to read.
    pub(in crate::serve) is_readable: bool,
    /// Whether the peer will send nothing beyond the bytes that have already arrived.
    pub(in crate::serve) is_peer_closed: bool,
    /// Whether the connection is closed in both directions.
    pub(in crate::serve) is_broken: bool,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Got {
    /// This many bytes are in the buffer.
    Bytes(usize),
    /// The peer has closed its side.
    End,
    /// Nothing has arrived.
    Nothing,
}

impl Wire {
    /// Starts with a transport whose state is unknown.
    pub(in crate::serve) fn new(transport: Transport) -> Self {
        Self { transport, is_readable: false, is_peer_closed: false, is_broken: false }
    }

    /// Returns the known state of the peer.
    pub(in crate::serve) fn peer(&self) -> Peer {
        Peer {
            is_readable: self.is_readable,
            is_closed: self.is_peer_closed,
            is_broken: self.is_broken,
            has_pending_tls_output: self.transport.has_pending(),
        }
    }

    /// Records an event of the poller.
    pub(in crate::serve) fn note(&mut self, event: &Event) {
        self.is_readable |= event.is_readable() || event.is_read_closed();
        self.is_peer_closed |= event.is_read_closed();
        self.is_broken |= event.is_error() || event.is_write_closed();
    }

    /// Reads the bytes that have arrived, at most the size of `buf`.
    pub(in crate::serve) fn read(&mut self, buf: &mut [u8]) -> Got {
        if self.transport.has_pending() && self.transport.flush().is_err() {
            self.is_broken = true;
            return Got::End;
        }
        if !self.is_readable {
            return if self.is_broken { Got::End } else { Got::Nothing };
        }
        loop {
            match self.transport.read(buf) {
                Ok(0) => {
                    self.is_readable = false;
                    self.is_peer_closed = true;
                    return Got::End;
                }
                Ok(count) => {
                    // A short read has emptied the socket; bytes that arrive later cause an event.
                    self.is_readable =
                        count == buf.len() || self.is_peer_closed || self.transport.is_at_end();
                    return Got::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
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

    /// Writes the pending `output`, as far as the system accepts it.
    ///
    /// # Errors
    ///
    /// If the connection has failed.
    pub(in crate::serve) fn flush(&mut self, output: &mut Output) -> io::Result<Sent> {
        let flushed = flush(output, &mut self.transport)?;
        let is_out = flushed == Flushed::All && self.transport.flush()?;
        let progress = self.transport.take_progress();
        let written = if let Flushed::Some(count) = flushed { count } else { 0 };
        let held_back = self.transport.held_back();
        Ok(Sent { is_all: is_out, bytes: progress.unwrap_or(written), held_back })
    }
}
