//! Bodies on their way to the server on an HTTP/2 connection: the windows of their clients, and what of them is here and
//! was not taken.
//!
//! Promises: all connections together let clients send no more ahead than their first windows and the permits for larger
//! ones; a connection without open streams keeps only permits for what its client may still send, since a window cannot be
//! taken back. Refuses: it takes no body.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::Connection as Library;
use h2::{Ping, PingPong};

use crate::limits::{HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_STREAM_WINDOW_BYTES, HTTP2_WINDOW_PERMIT_BYTES};
use crate::sync::permits::{Permit, Permits};
use crate::sync::primitive::Arc;

use super::duplex::LibraryEnd;
use super::upload_window::UploadWindow;

/// The windows of a connection.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    window: UploadWindow,
    /// Each lets the client send some more ahead.
    permits: Vec<Permit>,
    /// The library has given it away; `None` before it is needed.
    pings: Option<PingPong>,
    /// How much of the window of the connection that is beyond the first one its client may still use: no less than it has.
    excess: u64,
    /// Body bytes that have come and were not taken: no fewer than there are.
    unread: u64,
    /// The windows are to be as they were once the client has confirmed the settings before.
    is_resting: bool,
}

impl Uploads {
    /// Body bytes have come.
    pub(super) fn note_data(&mut self, bytes: u64) {
        self.window.note_data(bytes);
        self.unread += bytes;
        // While the window is larger than the first one on purpose, what is taken opens it again.
        if self.window.bytes() == HTTP2_STREAM_WINDOW_BYTES {
            self.excess = self.excess.saturating_sub(bytes);
        }
        self.is_resting &= bytes == 0;
    }

    /// Body bytes were taken.
    pub(super) fn note_taken(&mut self, bytes: u64) {
        self.unread = self.unread.saturating_sub(bytes);
    }

    /// Body bytes that have come and were not taken. The library does not say when it drops those of a stream that is
    /// over: `count` is asked once there seem to be many.
    pub(super) fn unread(&mut self, count: impl FnOnce() -> u64) -> u64 {
        if self.unread > COUNTED_FROM {
            self.unread = count();
        }
        self.unread
    }

    /// Measures, and lets the client send further ahead if that is of use. Returns whether the library has something to
    /// send.
    pub(super) fn poll(
        &mut self,
        library: &mut Library<LibraryEnd, Bytes>,
        permits: &Arc<Permits>,
        context: &mut Context<'_>,
        count: impl FnOnce() -> u64,
    ) -> bool {
        if self.is_resting {
            return self.rest(library);
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

    /// Opens windows of so many bytes, or as large as there are permits for; returns whether they have become larger.
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
        let all = HTTP2_CONNECTION_WINDOW_BYTES + granted;
        let bytes = bytes.min(all);
        // Fails while the client has not confirmed the settings before.
        if bytes <= self.window.bytes() || library.set_initial_window_size(bytes).is_err() {
            // Not at once again.
            self.window.begin_probe();
            self.window.end_probe(false);
            return false;
        }
        library.set_target_window_size(all);
        self.window.set(bytes);
        self.excess = self.excess.max(u64::from(granted));
        true
    }

    /// No stream is open: the windows are to be as they were, and others have the permits that the client can no longer use.
    /// Returns whether the library has something to send.
    pub(super) fn rest(&mut self, library: &mut Library<LibraryEnd, Bytes>) -> bool {
        self.unread = 0;
        if self.window.bytes() == HTTP2_STREAM_WINDOW_BYTES {
            self.give_permits_back();
            return false;
        }
        self.is_resting = library.set_initial_window_size(HTTP2_STREAM_WINDOW_BYTES).is_err();
        if self.is_resting {
            return false;
        }
        library.set_target_window_size(HTTP2_CONNECTION_WINDOW_BYTES);
        self.window.set(HTTP2_STREAM_WINDOW_BYTES);
        self.give_permits_back();
        true
    }

    fn give_permits_back(&mut self) {
        let needed = self.excess.div_ceil(u64::from(HTTP2_WINDOW_PERMIT_BYTES));
        self.permits.truncate(usize::try_from(needed).unwrap_or(usize::MAX));
    }
}

/// From so many bytes on, those that were not taken are counted.
const COUNTED_FROM: u64 = HTTP2_STREAM_WINDOW_BYTES as u64;
