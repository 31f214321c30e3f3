//! The connection to one client: a plain socket or a TLS session on one, with the state that the poller has reported.
//!
//! Nothing blocks, and nothing is buffered beyond a session's buffers; see [`Output`]. After [`ReadResult::Nothing`], the socket
//! is empty, so that the next event is not missed. A write passes as many pieces as the system accepts in one call, and a
//! file's bytes go from the page cache to the socket without passing through the process. Nothing waits for the disk: a
//! part of a file that is not in memory stays in the output, and [`Output::take_cold`] reports it. The protocol above is
//! up to the caller.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::net::Shutdown;

use mio::event::Event;
use mio::net::TcpStream;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use svc_core::connection::{Output, Peer, Sent, WireProtocol};

use super::tls_stream::TlsStream;
use crate::disk::page_cache::{PageCache, page_cache, read_ahead_len};

/// The connection to one client, and its known state.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: Socket,
    /// Whether there may be more to read.
    pub(crate) is_readable: bool,
    /// Whether the peer will send nothing beyond the bytes that have already arrived.
    pub(crate) is_peer_closed: bool,
    /// Whether the connection is closed in both directions.
    pub(crate) is_broken: bool,
}

/// How bytes reach the client.
#[derive(Debug)]
enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// This many bytes are in the buffer.
    Bytes(usize),
    /// The peer has closed its side.
    End,
    /// Nothing has arrived.
    Nothing,
}

impl Transport {
    /// Starts with a plain socket, whose state is unknown.
    pub(crate) fn plain(socket: TcpStream) -> Self {
        Self::new(Socket::Plain(socket))
    }

    /// Starts with a session before its handshake.
    pub(crate) fn tls(session: TlsStream<TcpStream>) -> Self {
        Self::new(Socket::Tls(Box::new(session)))
    }

    fn new(socket: Socket) -> Self {
        Self { socket, is_readable: false, is_peer_closed: false, is_broken: false }
    }

    /// Returns the socket, for the poller.
    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        match &mut self.socket {
            Socket::Plain(socket) => socket,
            Socket::Tls(tls) => tls.socket(),
        }
    }

    /// Returns the TLS session, if there is one.
    pub(crate) fn session(&mut self) -> Option<&mut TlsStream<TcpStream>> {
        match &mut self.socket {
            Socket::Plain(_) => None,
            Socket::Tls(tls) => Some(tls),
        }
    }

    fn read_socket(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.socket {
            // Not std's read(), which would call the replacement of recv() for PHP's extensions.
            Socket::Plain(socket) => Ok(recv(socket, buf, RecvFlags::empty())?.0),
            Socket::Tls(tls) => tls.read(buf),
        }
    }

    /// Returns whether the next read reports an end that no event will announce.
    fn is_at_end(&self) -> bool {
        matches!(&self.socket, Socket::Tls(tls) if tls.is_at_end())
    }

    /// Returns whether files can be sent without passing through the process.
    pub(crate) fn can_send_files(&self) -> bool {
        matches!(self.socket, Socket::Plain(_))
    }

    /// Returns whether bytes were accepted that the socket has not accepted yet.
    fn has_pending(&self) -> bool {
        matches!(&self.socket, Socket::Tls(tls) if tls.has_pending())
    }

    /// Sends the bytes that were accepted but not sent; returns whether none are left.
    fn flush_session(&mut self) -> io::Result<bool> {
        match &mut self.socket {
            Socket::Plain(_) => Ok(true),
            Socket::Tls(tls) => tls.flush(),
        }
    }

    /// Limits buffering beyond the socket while memory is tight.
    pub(crate) fn set_memory_tight(&mut self, is_memory_tight: bool) {
        if let Socket::Tls(tls) = &mut self.socket {
            tls.set_memory_tight(is_memory_tight);
        }
    }

    /// Returns roughly how many of the accepted bytes the socket has not accepted; 0 only if it has accepted all.
    pub(crate) fn held_back(&self) -> usize {
        match &self.socket {
            Socket::Plain(_) => 0,
            Socket::Tls(tls) => tls.held_back(),
        }
    }

    /// Returns how many bytes the socket has accepted since the last call; `None` if it accepts exactly what was
    /// written.
    fn take_progress(&mut self) -> Option<usize> {
        self.session().map(TlsStream::take_progress)
    }

    /// Returns the protocol agreed on with the client, once it is known; `None` on a plain socket, where the first
    /// bytes decide.
    pub(crate) fn protocol(&self) -> Option<WireProtocol> {
        match &self.socket {
            Socket::Plain(_) => None,
            Socket::Tls(tls) if tls.is_plain() => Some(WireProtocol::PlainHttpOnTls),
            Socket::Tls(tls) if tls.agrees_on_http2() => Some(WireProtocol::Http2),
            // A client that has not negotiated a protocol speaks HTTP/1.
            Socket::Tls(_) => Some(WireProtocol::Http1),
        }
    }

    /// Tells the peer that it has received everything. Must not be called after a truncated response, which the client
    /// must be able to detect.
    pub(crate) fn send_close_notify(&mut self) {
        if let Socket::Tls(tls) = &mut self.socket {
            // If the peer has disconnected, the alert cannot be sent.
            let _ = tls.leave();
        }
    }

    /// Closes the sending side; the receiving side stays open.
    pub(crate) fn shut_down(&mut self) {
        // As above: the peer may have disconnected.
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    /// Returns the known state of the peer.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            is_readable: self.is_readable,
            is_closed: self.is_peer_closed,
            is_broken: self.is_broken,
            has_pending_tls_output: self.has_pending(),
        }
    }

    /// Records an event of the poller.
    pub(crate) fn note(&mut self, event: &Event) {
        self.is_readable |= event.is_readable() || event.is_read_closed();
        self.is_peer_closed |= event.is_read_closed();
        self.is_broken |= event.is_error() || event.is_write_closed();
    }

    /// Reads the bytes that have arrived, at most the size of `buf`.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> ReadResult {
        if self.has_pending() && self.flush_session().is_err() {
            self.is_broken = true;
            return ReadResult::End;
        }
        if !self.is_readable {
            return if self.is_broken { ReadResult::End } else { ReadResult::Nothing };
        }
        loop {
            match self.read_socket(buf) {
                Ok(0) => {
                    self.is_readable = false;
                    self.is_peer_closed = true;
                    return ReadResult::End;
                }
                Ok(count) => {
                    // A short read has emptied the socket; bytes that arrive later cause an event.
                    self.is_readable = count == buf.len() || self.is_peer_closed || self.is_at_end();
                    return ReadResult::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return ReadResult::Nothing;
                }
                Err(_) => {
                    self.is_readable = false;
                    self.is_broken = true;
                    return ReadResult::End;
                }
            }
        }
    }

    /// Writes the pending `output`, as far as the system accepts it.
    ///
    /// # Errors
    ///
    /// If the connection has failed.
    pub(crate) fn flush(&mut self, output: &mut Output) -> io::Result<Sent> {
        let flushed = flush(output, self)?;
        let is_out = flushed == Flushed::All && self.flush_session()?;
        let progress = self.take_progress();
        let written = if let Flushed::Some(count) = flushed { count } else { 0 };
        let held_back = self.held_back();
        Ok(Sent { is_all: is_out, bytes: progress.unwrap_or(written), held_back })
    }
}

impl Sink for Transport {
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (&mut self.socket, slices) {
            (Socket::Plain(socket), [only]) => Ok(send(socket, only, SendFlags::NOSIGNAL)?),
            (Socket::Plain(socket), several) => socket.write_vectored(several),
            (Socket::Tls(tls), slices) => tls.write_vectored(slices),
        }
    }

    fn send_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        let Socket::Plain(socket) = &mut self.socket else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut offset = offset;
        Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), len)?)
    }
}

/// How many pieces to write in one call.
const SLICES_MAX: usize = 16;

/// The destination: a socket that accepts what it can and reports `WouldBlock` for the rest.
trait Sink {
    /// Writes the slices in order; returns how many bytes were accepted.
    ///
    /// # Errors
    ///
    /// The error of the system; `WouldBlock` if it accepts nothing for now.
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends up to `len` bytes of `file` from `offset` on; returns how many were accepted, 0 at the end of the file.
    /// Called only for pieces given to [`Output::push_file`].
    ///
    /// # Errors
    ///
    /// As [`write_slices`](Self::write_slices).
    fn send_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize>;
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    /// Everything has been written.
    All,
    /// The system accepts no more for now, or the disk must be read first ([`Output::take_cold`]). This many bytes were
    /// written.
    Some(usize),
}

/// Writes until everything has been written or the system accepts no more.
///
/// # Errors
///
/// The error of the socket, except `WouldBlock` and `Interrupted`; also if a file is shorter than announced.
fn flush(output: &mut Output, to: &mut impl Sink) -> io::Result<Flushed> {
    let mut out = 0;
    while !output.is_empty() {
        let is_ready = output.is_front_ready(|run| match page_cache(run.file, run.offset, run.len) {
            PageCache::Cached => None,
            other => Some(read_ahead_len(other, run.len)),
        });
        if !is_ready {
            return Ok(Flushed::Some(out));
        }
        let (result, offered) = write_once(output, to);
        match result {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                output.advance(count);
                out += count;
                if count < offered {
                    return Ok(Flushed::Some(out));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flushed::Some(out)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Flushed::All)
}

/// Offers as much as one call can accept; returns how much must be accepted for another call to be worthwhile.
fn write_once(output: &Output, to: &mut impl Sink) -> (io::Result<usize>, usize) {
    if let Some(run) = output.front_file() {
        // The end of the file may be the reason for a short write: only another call can tell.
        return (to.send_file(run.file, run.offset, run.len), 0);
    }
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let count = output.fill(&mut slices);
    let offered = slices[..count].iter().map(|slice| slice.len()).sum();
    (to.write_slices(&slices[..count]), offered)
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
