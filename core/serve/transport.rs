//! How bytes reach a client: a plain socket.
//!
//! Promises: nothing blocks; "later" is an error of the kind `WouldBlock`, and the poller tells when to try again.
//! Refuses: it keeps no bytes; see [`Output`](super::output::Output).

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;

use super::output::Sink;

/// The way to one client.
#[derive(Debug)]
pub(super) enum Transport {
    /// In the clear.
    Plain(TcpStream),
}

impl Transport {
    /// The socket, for the poller.
    pub(super) fn socket(&mut self) -> &mut TcpStream {
        let Self::Plain(socket) = self;
        socket
    }

    /// Reads what is there; 0 when the peer has closed its side.
    ///
    /// # Errors
    ///
    /// What the system says; "would block" when nothing is there.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Self::Plain(socket) = self;
        socket.read(buf)
    }

    /// Whether files can be sent without passing through the process.
    pub(super) fn can_send_files(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Tells the peer that nothing more will come.
    pub(super) fn shut_down(&mut self) {
        let Self::Plain(socket) = self;
        // A peer that is gone needs no telling.
        let _ = socket.shutdown(Shutdown::Write);
    }
}

impl Sink for Transport {
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Self::Plain(socket) = self;
        match slices {
            [only] => socket.write(only),
            several => socket.write_vectored(several),
        }
    }

    fn send_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        let Self::Plain(socket) = self;
        let mut offset = offset;
        Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), len)?)
    }
}
