//! An HTTP/2 stream that was answered while its client was still sending.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use h2::RecvStream;

use crate::limits::LINGER_BYTES_MAX;
use crate::sync::permits::Permit;

use super::timers::Armed;

/// A stream whose response is out while its client is still sending. The rest is discarded for a while, so that the
/// client reads the response before it gets RST_STREAM.
#[derive(Debug)]
pub(super) struct DrainingStream {
    receive: RecvStream,
    waker: Waker,
    bytes: u64,
    pub(super) armed: Armed,
    /// When to stop discarding.
    pub(super) until: Instant,
    _permit: Option<Permit>,
}

impl DrainingStream {
    /// Takes over the receiving side of a stream; `waker` is woken when data arrives.
    pub(super) fn new(receive: RecvStream, waker: Waker, until: Instant, permit: Option<Permit>) -> Self {
        Self { receive, waker, bytes: 0, armed: Armed::default(), until, _permit: permit }
    }

    /// Returns the number of received bytes that have not been discarded.
    pub(super) fn unread_bytes(&mut self) -> usize {
        self.receive.flow_control().used_capacity()
    }

    /// Discards and counts the received data; returns whether to wait for more.
    pub(super) fn advance(&mut self, received: &mut u64) -> bool {
        while let Poll::Ready(data) = self.receive.poll_data(&mut Context::from_waker(&self.waker)) {
            let Some(Ok(bytes)) = data else { return false };
            *received += bytes.len() as u64;
            self.bytes += bytes.len() as u64;
            if self.bytes > LINGER_BYTES_MAX
                || self.receive.flow_control().release_capacity(bytes.len()).is_err()
            {
                return false;
            }
        }
        true
    }
}
