//! The in-memory ends of a connection: what the HTTP/2 library reads from and writes to.
//!
//! Promises: the library never waits on a socket; it sees what was fed and says "later" behind it, and whoever feeds or
//! empties the pipe polls the library again. Refuses: it wakes nobody.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

/// The connection's end. The lock is for the compiler: both ends stay on one thread.
#[derive(Debug, Default)]
pub(super) struct Pipe(Arc<ShortLock<PipeState>>);

/// The library's end.
#[derive(Debug)]
pub(super) struct PipeEnd(Arc<ShortLock<PipeState>>);

#[derive(Debug, Default)]
struct PipeState {
    inbound: Vec<u8>,
    /// How much of it has been read.
    read: usize,
    is_at_end: bool,
    outbound: Vec<u8>,
}

impl Pipe {
    /// The library's end of the pipe.
    pub(super) fn end_of_library(&self) -> PipeEnd {
        PipeEnd(Arc::clone(&self.0))
    }

    /// Adds bytes behind what has not been read.
    pub(super) fn feed(&self, bytes: &[u8]) {
        let mut state = self.0.lock();
        let read = std::mem::take(&mut state.read);
        state.inbound.drain(..read);
        state.inbound.extend_from_slice(bytes);
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.0.lock().is_at_end = true;
    }

    /// Moves what the library has said behind `out`; returns whether that was anything.
    pub(super) fn drain_into(&self, out: &mut Vec<u8>) -> bool {
        let mut state = self.0.lock();
        let has_moved = !state.outbound.is_empty();
        out.append(&mut state.outbound);
        has_moved
    }
}

impl AsyncRead for PipeEnd {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        let rest = &state.inbound[state.read..];
        if rest.is_empty() {
            return if state.is_at_end { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        state.read += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PipeEnd {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // What is written is bounded by the windows of the collector, and by one request.
        self.0.lock().outbound.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
