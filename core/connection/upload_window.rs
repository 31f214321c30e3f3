//! The receive window for uploads on an HTTP/2 connection, which grows with the bandwidth-delay product.
//!
//! A fixed window limits a client to its size in each round trip. A PING measures whether it does: bytes received
//! between the PING and its acknowledgement arrived within a round trip. The window is not enlarged for a client that
//! it does not limit, or while bodies are not read as they arrive; a few bytes cause no PING. This type does no I/O,
//! and does not limit the total over all connections.

use crate::limits::{HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_WINDOW_BYTES_MAX};

/// The window of a connection, and the current measurement.
#[derive(Debug)]
pub(super) struct UploadWindow {
    bytes: u32,
    /// The largest window that earlier uploads needed.
    known: u32,
    /// Bytes received since the PING, while its acknowledgement is pending.
    probed: Option<u64>,
    /// Bytes received since the last measurement.
    unprobed: u64,
}

/// The growth factor of a window that is too small. It takes two round trips to use up the larger window in turn.
const GROWTH: u32 = 8;

/// A measurement starts once the client has used this fraction (1/n) of its window.
const PROBED_PART: u32 = 4;

impl Default for UploadWindow {
    fn default() -> Self {
        let bytes = HTTP2_CONNECTION_WINDOW_BYTES;
        Self { bytes, known: bytes, probed: None, unprobed: 0 }
    }
}

impl UploadWindow {
    /// Returns the window, in bytes.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Records received body bytes.
    pub(super) fn note_data(&mut self, bytes: u64) {
        match &mut self.probed {
            Some(probed) => *probed += bytes,
            None => self.unprobed += bytes,
        }
    }

    /// Returns whether enough was received for a larger window to help.
    pub(super) fn is_worth_a_probe(&self) -> bool {
        let is_long = self.unprobed >= u64::from(self.bytes / PROBED_PART);
        self.probed.is_none() && is_long && self.bytes < HTTP2_WINDOW_BYTES_MAX
    }

    /// Returns a larger window to begin with, if an earlier upload needed it.
    pub(super) fn known(&self) -> Option<u32> {
        (self.known > self.bytes).then_some(self.known)
    }

    /// Records that a PING was sent.
    pub(super) fn begin_probe(&mut self) {
        (self.probed, self.unprobed) = (Some(0), 0);
    }

    /// Records the acknowledgement; with `is_taken`, bodies were read as they arrived. Returns a larger window if the
    /// current one has limited the client.
    pub(super) fn end_probe(&mut self, is_taken: bool) -> Option<u32> {
        let probed = self.probed.take()?;
        let is_held_back = probed >= u64::from(self.bytes / 2);
        let next = self.bytes.saturating_mul(GROWTH).min(HTTP2_WINDOW_BYTES_MAX);
        (is_held_back && is_taken && next > self.bytes).then_some(next)
    }

    /// Records that the client was sent another window.
    pub(super) fn set(&mut self, bytes: u32) {
        self.known = self.known.max(bytes);
        (self.bytes, self.unprobed) = (bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a client that sends without a pause, limited by its window and by `product` bytes in each round trip.
    /// Returns the window of each round trip.
    fn windows(product: u64, is_taken: bool, trips: usize) -> Vec<u32> {
        let mut window = UploadWindow::default();
        let mut windows = Vec::new();
        for _ in 0..trips {
            let sent = u64::from(window.bytes()).min(product);
            if window.is_worth_a_probe() {
                window.begin_probe();
            }
            window.note_data(sent);
            if let Some(next) = window.end_probe(is_taken) {
                window.set(next);
            }
            windows.push(window.bytes());
        }
        windows
    }

    #[test]
    fn it_grows_up_to_the_product_of_delay_and_bandwidth() {
        let (first, max) = (HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_WINDOW_BYTES_MAX);
        assert_eq!(windows(u64::MAX, true, 8).last(), Some(&max));
        for product in [1, 10_000, u64::from(first / 2) - 1] {
            assert_eq!(windows(product, true, 8), [first; 8], "{product}: the window is no limit");
        }
        for shift in [0, 1, 2, 3] {
            let product = u64::from(first) << shift;
            let last = u64::from(*windows(product, true, 8).last().unwrap());
            assert!((product..=product * 2 * u64::from(GROWTH)).contains(&last), "{product}: {last}");
        }
    }

    #[test]
    fn it_does_not_grow_while_bodies_are_not_taken() {
        assert_eq!(windows(u64::MAX, false, 8), [HTTP2_CONNECTION_WINDOW_BYTES; 8]);
    }

    #[test]
    fn few_bytes_cause_no_ping_and_the_window_is_kept() {
        let mut window = UploadWindow::default();
        window.note_data(u64::from(HTTP2_CONNECTION_WINDOW_BYTES / PROBED_PART) - 1);
        assert!(!window.is_worth_a_probe());
        window.note_data(1);
        assert!(window.is_worth_a_probe() && window.known().is_none());
        window.set(HTTP2_WINDOW_BYTES_MAX);
        assert!(window.known().is_none());
        window.set(HTTP2_CONNECTION_WINDOW_BYTES);
        assert_eq!(window.known(), Some(HTTP2_WINDOW_BYTES_MAX));
        assert_eq!(window.end_probe(true), None, "there was no ping");
    }
}
