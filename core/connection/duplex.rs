//! The in-memory transport of the HTTP/2 library.
//!
//! The library never waits for a socket: it reads the bytes fed so far and gets `Poll::Pending` after them. The duplex
//! wakes no task; its user polls the library again after feeding or draining it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::{ConnectionFault, ResponseWatch, SentPart, StreamFrame};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

use super::output::Output;

/// The connection's end of a duplex. The lock only satisfies the compiler: both ends stay on one I/O thread.
#[derive(Debug)]
pub(super) struct Duplex(Arc<ShortLock<DuplexState>>);

/// The library's end.
#[derive(Debug)]
pub(super) struct LibraryEnd(Arc<ShortLock<DuplexState>>);

#[derive(Debug, Default)]
struct DuplexState {
    inbound: Vec<u8>,
    /// The number of inbound bytes read so far.
    read: usize,
    is_at_end: bool,
    outbound: Output,
    watch: ResponseWatch,
    /// The heads and resets that the library has written since the last `take_frames`.
    frames: Vec<StreamFrame>,
}

impl Duplex {
    /// Creates both ends; `inbound` has already been received.
    pub(super) fn new(inbound: &[u8]) -> (Self, LibraryEnd) {
        let inner = DuplexState { inbound: inbound.to_vec(), ..DuplexState::default() };
        let inner = Arc::new(ShortLock::new(inner));
        (Self(Arc::clone(&inner)), LibraryEnd(inner))
    }

    /// Returns whether the library has read everything.
    pub(super) fn is_drained(&self) -> bool {
        let inner = self.0.lock();
        inner.read == inner.inbound.len()
    }

    /// Appends inbound bytes.
    pub(super) fn feed(&self, bytes: &[u8]) {
        let mut inner = self.0.lock();
        inner.compact();
        inner.inbound.extend_from_slice(bytes);
    }

    /// Records the end of the input.
    pub(super) fn end(&self) {
        self.0.lock().is_at_end = true;
    }

    /// Calls `act` with the heads and resets that the library has written since the last time.
    pub(super) fn take_frames(&self, act: impl FnMut(StreamFrame)) {
        self.0.lock().frames.drain(..).for_each(act);
    }

    /// Calls `act` with the parts of streams that were sent since the last time; the socket has not accepted the last
    /// `held_back` bytes taken from the output.
    pub(super) fn take_sent(&self, held_back: usize, act: impl FnMut(SentPart)) {
        let mut inner = self.0.lock();
        let left = inner.outbound.len() + held_back;
        inner.watch.sent_but(left as u64, act);
    }

    /// Returns whether the last frame of a stream was written and has not been sent.
    pub(super) fn has_unsent_end(&self, stream: u32) -> bool {
        self.0.lock().watch.has_unsent_end(stream)
    }

    /// Replaces PROTOCOL_ERROR by the code of `fault`, if the last bytes written by the library are a GOAWAY with that
    /// code.
    pub(super) fn correct_goaway(&self, fault: ConnectionFault) {
        let mut inner = self.0.lock();
        let Some(frame) = inner.outbound.last_bytes::<GOAWAY_BYTES>() else { return };
        let (head, code) = (GOAWAY_HEAD, ConnectionFault::Protocol.code().to_be_bytes());
        if frame.starts_with(&head) && frame.ends_with(&code) {
            frame[GOAWAY_BYTES - code.len()..].copy_from_slice(&fault.code().to_be_bytes());
        }
    }

    /// Passes the pending output to `act`.
    pub(super) fn with_output<T>(&self, act: impl FnOnce(&mut Output) -> T) -> T {
        act(&mut self.0.lock().outbound)
    }
}

impl DuplexState {
    /// Appends bytes written by the library to the output.
    fn send(&mut self, bytes: &[u8]) {
        let Self { outbound, watch, frames, .. } = self;
        watch.see(bytes, |frame| frames.push(frame));
        outbound.append(|out| out.extend_from_slice(bytes));
    }

    /// Releases the space of the bytes read.
    fn compact(&mut self) {
        if self.read == self.inbound.len() {
            self.inbound.clear();
            if self.inbound.capacity() > INBOUND_SPARE_BYTES {
                self.inbound = Vec::new();
            }
        } else {
            self.inbound.drain(..self.read);
        }
        self.read = 0;
    }
}

/// The length of a GOAWAY frame without debug data, and its first bytes: length 8, type 7, flags 0, stream 0.
const GOAWAY_BYTES: usize = 17;
const GOAWAY_HEAD: [u8; 9] = [0, 0, 8, 7, 0, 0, 0, 0, 0];

/// The maximum capacity of an empty buffer that is kept.
const INBOUND_SPARE_BYTES: usize = 1024;

impl AsyncRead for LibraryEnd {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        let rest = &inner.inbound[inner.read..];
        if rest.is_empty() {
            return if inner.is_at_end { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        inner.read += count;
        if inner.read == inner.inbound.len() {
            inner.compact();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LibraryEnd {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.0.lock();
        if inner.outbound.is_full() {
            return Poll::Pending;
        }
        inner.send(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.lock();
        if inner.outbound.is_full() {
            return Poll::Pending;
        }
        slices.iter().for_each(|slice| inner.send(slice));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn read(far: &mut LibraryEnd, buf: &mut [u8]) -> Option<usize> {
        let mut buf = ReadBuf::new(buf);
        match Pin::new(far).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf) {
            Poll::Ready(result) => {
                result.unwrap();
                Some(buf.filled().len())
            }
            Poll::Pending => None,
        }
    }

    #[test]
    fn bytes_are_read_in_order_and_then_reads_would_block() {
        let (duplex, mut far) = Duplex::new(b"abc");
        let mut buf = [0; 2];
        assert_eq!((read(&mut far, &mut buf), buf), (Some(2), *b"ab"));
        duplex.feed(b"d");
        assert!(!duplex.is_drained());
        assert_eq!((read(&mut far, &mut buf), buf), (Some(2), *b"cd"));
        assert!(duplex.is_drained());
        assert_eq!(read(&mut far, &mut buf), None);
        duplex.end();
        assert_eq!(read(&mut far, &mut buf), Some(0));
    }

    #[test]
    fn a_full_output_takes_no_more() {
        let (duplex, mut far) = Duplex::new(b"");
        let mut context = Context::from_waker(Waker::noop());
        let bytes = vec![0; crate::limits::OUTPUT_BYTES_MAX];
        assert!(Pin::new(&mut far).poll_write(&mut context, &bytes).is_ready());
        assert!(Pin::new(&mut far).poll_write(&mut context, b"a").is_pending());
        duplex.with_output(|output| output.take(usize::MAX));
        assert!(Pin::new(&mut far).poll_write(&mut context, b"a").is_ready());
    }
}
