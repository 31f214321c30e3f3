//! How bytes reach a client: a plain socket, or a TLS session on one.
//!
//! Promises: nothing blocks. `WouldBlock` means later, and the poller reports when to try again. Refuses: it buffers
//! nothing beyond what a session does; see [`Output`](crate::connection::Output).

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;

use crate::connection::WireProtocol;

use super::flush::Sink;
use super::tls_stream::TlsStream;

/// The connection to one client.
#[derive(Debug)]
pub(in crate::serve) enum Transport {
    /// Plain.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// The socket, for the poller.
    pub(in crate::serve) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    /// The TLS session, if there is one.
    pub(in crate::serve) fn tls(&mut self) -> Option<&mut TlsStream<TcpStream>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// Reads what has arrived; 0 when the peer has closed its side. If less than `buf` holds was read, the socket is
    /// empty.
    ///
    /// # Errors
    ///
    /// The error of the system; `WouldBlock` if nothing has arrived.
    pub(in crate::serve) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buf),
            Self::Tls(tls) => tls.read(buf),
        }
    }

    /// Whether the next read reports an end that no event will announce.
    pub(in crate::serve) fn is_at_end(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.is_at_end())
    }

    /// Whether files can be sent without passing through the process.
    pub(in crate::serve) fn can_send_files(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether bytes were accepted that the socket has not accepted yet.
    pub(in crate::serve) fn has_pending(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.has_pending())
    }

    /// Sends the bytes that were accepted but not sent; returns whether nothing is left.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(in crate::serve) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(tls) => tls.flush(),
        }
    }

    /// While memory is tight, little is buffered beyond the socket.
    pub(in crate::serve) fn set_memory_tight(&mut self, is_memory_tight: bool) {
        if let Self::Tls(tls) = self {
            tls.set_memory_tight(is_memory_tight);
        }
    }

    /// Roughly how many of the accepted bytes the socket has not accepted; 0 only if it has accepted all.
    pub(in crate::serve) fn held_back(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(tls) => tls.held_back(),
        }
    }

    /// How many bytes the socket has accepted since this was last asked; `None` if it accepts exactly what was written.
    pub(in crate::serve) fn take_progress(&mut self) -> Option<usize> {
        self.tls().map(TlsStream::take_progress)
    }

    /// The protocol agreed on with the client, once that is known; `None` on a plain socket, where the first bytes
    /// decide.
    pub(in crate::serve) fn protocol(&self) -> Option<WireProtocol> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) if tls.is_plain() => Some(WireProtocol::Misled),
            Self::Tls(tls) if tls.agrees_on_http2() => Some(WireProtocol::Http2),
            // A client that has agreed on nothing speaks HTTP/1.
            Self::Tls(_) => Some(WireProtocol::Http1),
        }
    }

    /// Tells the peer that it has received everything. Not to be used after a truncated response: the client must be
    /// able to tell.
    pub(in crate::serve) fn send_close_notify(&mut self) {
        if let Self::Tls(tls) = self {
            // If the peer has disconnected, there is nobody to tell.
            let _ = tls.leave();
        }
    }

    /// Closes the sending side; the receiving side stays open.
    pub(in crate::serve) fn shut_down(&mut self) {
        // As above.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

impl Sink for Transport {
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, slices) {
            (Self::Plain(socket), [only]) => socket.write(only),
            (Self::Plain(socket), several) => socket.write_vectored(several),
            (Self::Tls(tls), slices) => tls.write_vectored(slices),
        }
    }

    fn send_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        let Self::Plain(socket) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut offset = offset;
        Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), len)?)
    }
}
