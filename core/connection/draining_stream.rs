//! A stream of HTTP/2 that was answered while its client was still sending.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use h2::RecvStream;

use crate::limits::LINGER_BYTES_MAX;
use crate::sync::permits::Permit;

use super::timers::Armed;

/// A stream whose response is out although its client is still sending: the rest is thrown away for a while, so that
/// the client reads the answer before it hears that nobody listens.
#[derive(Debug)]
pub(super) struct DrainingStream {
    receive: RecvStream,
    waker: Waker,
    bytes: u64,
    pub(super) armed: Armed,
    /// When the client has had its time.
    pub(super) until: Instant,
    _permit: Option<Permit>,
}

impl DrainingStream {
    /// Takes over what the client sends; `waker` is woken by it.
    pub(super) fn new(receive: RecvStream, waker: Waker, until: Instant, permit: Option<Permit>) -> Self {
        Self { receive, waker, bytes: 0, armed: Armed::default(), until, _permit: permit }
    }

    /// Returns how many received bytes have not been discarded.
    pub(super) fn unread_bytes(&mut self) -> usize {
        self.receive.flow_control().used_capacity()
    }

    /// Throws away what came, and counts it; returns whether more is waited for.
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
