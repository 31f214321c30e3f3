//! Uploads on an HTTP/2 connection: its receive window, and body bytes received but not read.
//!
//! The window grows as soon as the beginning of a body with a known length has been read, while at least half of the
//! permits are free, and otherwise with each round trip that it was too small for. All connections together let clients
//! send no further ahead than their initial windows and the permits for larger ones. A connection without open streams
//! keeps only the permits for bytes that its client may still send, since a window cannot be taken back. Bodies are read
//! elsewhere.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::Connection as Library;
use h2::{Ping, PingPong};

use crate::limits::{
    HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_WINDOW_BYTES_MAX, HTTP2_WINDOW_PERMIT_BYTES, HTTP2_WINDOW_PERMITS,
};
use crate::sync::permits::{Permit, Permits};
use crate::sync::primitive::Arc;

use super::duplex::LibraryEnd;
use super::upload_window::UploadWindow;

/// The receive window of a connection.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    window: UploadWindow,
    /// Each permit enlarges the connection's window by [`HTTP2_WINDOW_PERMIT_BYTES`].
    permits: Vec<Permit>,
    /// The library's PING handle; `None` until it is needed.
    pings: Option<PingPong>,
    /// Upper bound of the connection's window beyond its initial size that the client may still use.
    excess: u64,
    /// Upper bound of the body bytes received but not read.
    unread: u64,
    /// The window that the body of a stream needs, at most the largest one; 0 once the window was adapted to it.
    awaited: u64,
}

impl Uploads {
    /// Records received body bytes.
    pub(super) fn note_data(&mut self, bytes: u64) {
        self.window.note_data(bytes);
        self.unread += bytes;
        // An enlarged window reopens as bodies are read; only after the reset does received data use it up.
        if self.window.bytes() == HTTP2_CONNECTION_WINDOW_BYTES {
            self.excess = self.excess.saturating_sub(bytes);
        }
    }

    /// Records body bytes that were read from a stream which still awaits `awaited` bytes. Returns whether a larger window
    /// would help; [`poll`](Self::poll) must be called then.
    #[must_use]
    pub(super) fn note_taken(&mut self, bytes: u64, awaited: u64) -> bool {
        self.unread = self.unread.saturating_sub(bytes);
        let wanted = awaited.min(HTTP2_WINDOW_BYTES_MAX.into());
        if bytes > 0 && wanted > self.window.bytes().into() {
            self.awaited = wanted;
        }
        self.awaited > 0
    }

    /// Returns the body bytes received but not read. The library does not report when it drops those of an ended
    /// stream, so a large value is corrected by `count`.
    pub(super) fn unread(&mut self, count: impl FnOnce() -> u64) -> u64 {
        if self.unread > COUNTED_FROM {
            self.unread = count();
        }
        self.unread
    }

    /// Measures, and enlarges the windows if that helps. Returns whether the library has something to send.
    pub(super) fn poll(
        &mut self,
        library: &mut Library<LibraryEnd, Bytes>,
        permits: &Arc<Permits>,
        context: &mut Context<'_>,
        count: impl FnOnce() -> u64,
    ) -> bool {
        let awaited = std::mem::take(&mut self.awaited);
        if awaited > self.window.bytes().into() && permits.free() > HTTP2_WINDOW_PERMITS / 2 {
            return self.widen(library, permits, awaited.try_into().unwrap_or(HTTP2_WINDOW_BYTES_MAX));
        }
        if self.window.is_worth_a_probe() {
            if let Some(known) = self.window.known() {
                return self.widen(library, permits, known);
            }
            self.pings = self.pings.take().or_else(|| library.ping_pong());
            let is_sent = self.pings.as_mut().is_some_and(|pings| pings.send_ping(Ping::opaque()).is_ok());
            self.window.begin_probe();
            return is_sent;
        }
        let Some(pings) = &mut self.pings else { return false };
        if !matches!(pings.poll_pong(context), Poll::Ready(Ok(_))) {
            return false;
        }
        let is_taken = self.unread(count) <= u64::from(self.window.bytes() / 2);
        let next = self.window.end_probe(is_taken);
        next.is_some_and(|next| self.widen(library, permits, next))
    }

    /// Enlarges the window to at least `bytes`, or as far as there are permits; returns whether it was enlarged.
    fn widen(
        &mut self,
        library: &mut Library<LibraryEnd, Bytes>,
        permits: &Arc<Permits>,
        bytes: u32,
    ) -> bool {
        let wanted = bytes.saturating_sub(HTTP2_CONNECTION_WINDOW_BYTES).div_ceil(HTTP2_WINDOW_PERMIT_BYTES);
        while self.permits.len() < wanted as usize
            && let Some(permit) = permits.try_acquire()
        {
            self.permits.push(permit);
        }
        let granted = u32::try_from(self.permits.len()).unwrap_or(0) * HTTP2_WINDOW_PERMIT_BYTES;
        let bytes = HTTP2_CONNECTION_WINDOW_BYTES + granted;
        if bytes <= self.window.bytes() {
            // Restart the measurement, so that the next attempt is not immediate.
            self.window.begin_probe();
            self.window.end_probe(false);
            return false;
        }
        library.set_target_window_size(bytes);
        self.window.set(bytes);
        self.excess = self.excess.max(u64::from(granted));
        true
    }

    /// Resets the window when no stream is open, and returns the permits that the client can no longer use. Returns
    /// whether the library has something to send.
    pub(super) fn rest(&mut self, library: &mut Library<LibraryEnd, Bytes>) -> bool {
        (self.unread, self.awaited) = (0, 0);
        let is_larger = self.window.bytes() > HTTP2_CONNECTION_WINDOW_BYTES;
        if is_larger {
            library.set_target_window_size(HTTP2_CONNECTION_WINDOW_BYTES);
            self.window.set(HTTP2_CONNECTION_WINDOW_BYTES);
        }
        self.give_permits_back();
        is_larger
    }

    fn give_permits_back(&mut self) {
        let needed = self.excess.div_ceil(u64::from(HTTP2_WINDOW_PERMIT_BYTES));
        self.permits.truncate(usize::try_from(needed).unwrap_or(usize::MAX));
    }
}

/// Above this many bytes, the unread ones are counted exactly.
const COUNTED_FROM: u64 = HTTP2_CONNECTION_WINDOW_BYTES as u64 / 4;
