//! How bytes reach a client: through a plain socket, or through a TLS session on one.
//!
//! Nothing blocks. `WouldBlock` means to try again later, when the poller reports it. A transport buffers nothing
//! beyond a session's buffers; see [`Output`](crate::connection::Output).

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
    /// Returns the socket, for the poller.
    pub(in crate::serve) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    /// Returns the TLS session, if there is one.
    pub(in crate::serve) fn tls(&mut self) -> Option<&mut TlsStream<TcpStream>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// Reads the bytes that have arrived; 0 when the peer has closed its side. If less than `buf` holds was read, the
    /// socket is empty.
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

    /// Returns whether the next read reports an end that no event will announce.
    pub(in crate::serve) fn is_at_end(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.is_at_end())
    }

    /// Returns whether files can be sent without passing through the process.
    pub(in crate::serve) fn can_send_files(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Returns whether bytes were accepted that the socket has not accepted yet.
    pub(in crate::serve) fn has_pending(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.has_pending())
    }

    /// Sends the bytes that were accepted but not sent; returns whether none are left.
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

    /// Limits buffering beyond the socket while memory is tight.
    pub(in crate::serve) fn set_memory_tight(&mut self, is_memory_tight: bool) {
        if let Self::Tls(tls) = self {
            tls.set_memory_tight(is_memory_tight);
        }
    }

    /// Returns roughly how many of the accepted bytes the socket has not accepted; 0 only if it has accepted all.
    pub(in crate::serve) fn held_back(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(tls) => tls.held_back(),
        }
    }

    /// Returns how many bytes the socket has accepted since the last call; `None` if it accepts exactly what was
    /// written.
    pub(in crate::serve) fn take_progress(&mut self) -> Option<usize> {
        self.tls().map(TlsStream::take_progress)
    }

    /// Returns the protocol agreed on with the client, once it is known; `None` on a plain socket, where the first
    /// bytes decide.
    pub(in crate::serve) fn protocol(&self) -> Option<WireProtocol> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) if tls.is_plain() => Some(WireProtocol::PlainHttpOnTls),
            Self::Tls(tls) if tls.agrees_on_http2() => Some(WireProtocol::Http2),
            // A client that has not negotiated a protocol speaks HTTP/1.
            Self::Tls(_) => Some(WireProtocol::Http1),
        }
    }

    /// Tells the peer that it has received everything. Must not be called after a truncated response, which the client
    /// must be able to detect.
    pub(in crate::serve) fn send_close_notify(&mut self) {
        if let Self::Tls(tls) = self {
            // If the peer has disconnected, the alert cannot be sent.
            let _ = tls.leave();
        }
    }

    /// Closes the sending side; the receiving side stays open.
    pub(in crate::serve) fn shut_down(&mut self) {
        // As above: the peer may have disconnected.
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
