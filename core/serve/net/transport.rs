//! How bytes reach a client: a plain socket, or a TLS session on one.
//!
//! Promises: nothing blocks; "later" is an error of the kind `WouldBlock`, and the poller tells when to try again.
//! Refuses: it keeps no bytes beyond what a session holds back; see [`Output`](crate::connection::Output).

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;

use crate::connection::WireProtocol;

use super::flush::Sink;
use super::tls_stream::TlsStream;

/// The way to one client.
#[derive(Debug)]
pub(in crate::serve) enum Transport {
    /// In the clear.
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

    /// Reads what is there; 0 when the peer has closed its side. Less than `buf` holds means that no more is there.
    ///
    /// # Errors
    ///
    /// What the system says; "would block" when nothing is there.
    pub(in crate::serve) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buf),
            Self::Tls(tls) => tls.read(buf),
        }
    }

    /// Whether the next read tells of an end that no event will announce.
    pub(in crate::serve) fn is_at_end(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.is_at_end())
    }

    /// Whether files can be sent without passing through the process.
    pub(in crate::serve) fn can_send_files(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether something was taken that the socket has not.
    pub(in crate::serve) fn has_pending(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.has_pending())
    }

    /// Sends what was taken and the socket has not; returns whether nothing is left.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(in crate::serve) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(tls) => tls.flush(),
        }
    }

    /// How many of the bytes that were taken the socket has not, more or less; 0 only if it has all.
    pub(in crate::serve) fn held_back(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(tls) => tls.held_back(),
        }
    }

    /// How many bytes the socket has taken since this was last asked; `None` where it takes what it is given.
    pub(in crate::serve) fn take_progress(&mut self) -> Option<usize> {
        self.tls().map(TlsStream::take_progress)
    }

    /// What the client speaks, once it has spoken; `None` in the clear, where its first bytes tell.
    pub(in crate::serve) fn protocol(&self) -> Option<WireProtocol> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) if tls.is_plain() => Some(WireProtocol::Misled),
            Self::Tls(tls) if tls.agrees_on_http2() => Some(WireProtocol::Http2),
            // Who has agreed on nothing speaks HTTP/1 too.
            Self::Tls(_) => Some(WireProtocol::Http1),
        }
    }

    /// Tells the peer that what came was everything. Not for a response that was cut off: its client must be able to
    /// tell.
    pub(in crate::serve) fn send_close_notify(&mut self) {
        if let Self::Tls(tls) = self {
            // A peer that is gone needs no telling.
            let _ = tls.leave();
        }
    }

    /// Closes the way to the peer; the way back stays open.
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
