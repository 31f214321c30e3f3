//! The in-memory transport that the HTTP/2 library reads from and writes to.
//!
//! The library never waits for a socket: it reads the bytes it was fed and gets `Pending` after them. The caller polls
//! the library again after feeding or draining the pipe, which wakes no task.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

/// The connection's end. The lock only satisfies the compiler: both ends stay on one thread.
#[derive(Debug, Default)]
pub(super) struct Pipe(Arc<ShortLock<PipeState>>);

/// The library's end.
#[derive(Debug)]
pub(super) struct PipeEnd(Arc<ShortLock<PipeState>>);

#[derive(Debug, Default)]
struct PipeState {
    inbound: Vec<u8>,
    /// The number of bytes already read.
    read: usize,
    is_at_end: bool,
    outbound: Vec<u8>,
}

impl Pipe {
    /// Returns the library's end of the pipe.
    pub(super) fn end_of_library(&self) -> PipeEnd {
        PipeEnd(Arc::clone(&self.0))
    }

    /// Appends received bytes.
    pub(super) fn feed(&self, bytes: &[u8]) {
        let mut state = self.0.lock();
        let read = std::mem::take(&mut state.read);
        state.inbound.drain(..read);
        state.inbound.extend_from_slice(bytes);
    }

    /// Marks the end of the stream.
    pub(super) fn end(&self) {
        self.0.lock().is_at_end = true;
    }

    /// Moves the library's output to the end of `out`; returns whether there was any.
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
        // The output is bounded by the collector's windows and by one request.
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
