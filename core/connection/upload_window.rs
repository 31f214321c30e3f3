//! How far ahead the client of an HTTP/2 connection may send bodies: its window grows with the product of delay and
//! bandwidth.
//!
//! A window of a fixed size holds a client to that size in each round trip. Whether it does is measured by a PING: what
//! comes between the ping and its answer came within a round trip. Promises: a client that is not held back, or whose
//! bodies are not taken as they come, gets no larger window; a few bytes cause no ping. Refuses: it sends nothing, and it
//! keeps no bound for all connections.

use crate::limits::{HTTP2_STREAM_WINDOW_BYTES, HTTP2_WINDOW_BYTES_MAX};

/// The window of each stream of a connection, and what is being measured.
#[derive(Debug)]
pub(super) struct UploadWindow {
    bytes: u32,
    /// The window that was found to be right for uploads before.
    known: u32,
    /// What has come since the ping, while its answer is awaited.
    probed: Option<u64>,
    /// What has come since the last probe.
    unprobed: u64,
}

/// By how much a window grows that is too small. It takes two round trips until a larger one is used up in turn.
const GROWTH: u32 = 8;

/// Which part of its window a client must have used before its round trip is measured.
const PROBED_PART: u32 = 4;

impl Default for UploadWindow {
    fn default() -> Self {
        Self { bytes: HTTP2_STREAM_WINDOW_BYTES, known: HTTP2_STREAM_WINDOW_BYTES, probed: None, unprobed: 0 }
    }
}

impl UploadWindow {
    /// The window, in bytes.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Body bytes have come.
    pub(super) fn note_data(&mut self, bytes: u64) {
        match &mut self.probed {
            Some(probed) => *probed += bytes,
            None => self.unprobed += bytes,
        }
    }

    /// Whether so much has come that a larger window may be of use.
    pub(super) fn is_worth_a_probe(&self) -> bool {
        let is_long = self.unprobed >= u64::from(self.bytes / PROBED_PART);
        self.probed.is_none() && is_long && self.bytes < HTTP2_WINDOW_BYTES_MAX
    }

    /// The window to begin with, if an upload before has needed it.
    pub(super) fn known(&self) -> Option<u32> {
        (self.known > self.bytes).then_some(self.known)
    }

    /// A ping was sent.
    pub(super) fn begin_probe(&mut self) {
        (self.probed, self.unprobed) = (Some(0), 0);
    }

    /// The ping was answered; with `is_taken`, bodies were taken as they came. Returns a larger window if the present one
    /// has held the client back.
    pub(super) fn end_probe(&mut self, is_taken: bool) -> Option<u32> {
        let probed = self.probed.take()?;
        let is_held_back = probed >= u64::from(self.bytes / 2);
        let next = self.bytes.saturating_mul(GROWTH).min(HTTP2_WINDOW_BYTES_MAX);
        (is_held_back && is_taken && next > self.bytes).then_some(next)
    }

    /// The client was told of another window.
    pub(super) fn set(&mut self, bytes: u32) {
        self.known = self.known.max(bytes);
        (self.bytes, self.unprobed) = (bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that sends without a pause: what its window lets through in each round trip, at most `product` bytes.
    /// Returns the windows, one per round trip.
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
        let (first, max) = (HTTP2_STREAM_WINDOW_BYTES, HTTP2_WINDOW_BYTES_MAX);
        assert_eq!(windows(u64::MAX, true, 8).last(), Some(&max));
        for product in [1, 10_000, u64::from(first / 2) - 1] {
            assert_eq!(windows(product, true, 8), [first; 8], "{product}: the window holds nobody back");
        }
        for shift in [0, 1, 2, 3] {
            let product = u64::from(first) << shift;
            let last = u64::from(*windows(product, true, 8).last().unwrap());
            assert!((product..=product * 2 * u64::from(GROWTH)).contains(&last), "{product}: {last}");
        }
    }

    #[test]
    fn it_does_not_grow_while_bodies_are_not_taken() {
        assert_eq!(windows(u64::MAX, false, 8), [HTTP2_STREAM_WINDOW_BYTES; 8]);
    }

    #[test]
    fn little_is_not_worth_a_ping_and_what_was_learned_is_kept() {
        let mut window = UploadWindow::default();
        window.note_data(u64::from(HTTP2_STREAM_WINDOW_BYTES / PROBED_PART) - 1);
        assert!(!window.is_worth_a_probe());
        window.note_data(1);
        assert!(window.is_worth_a_probe() && window.known().is_none());
        window.set(HTTP2_WINDOW_BYTES_MAX);
        assert!(window.known().is_none());
        window.set(HTTP2_STREAM_WINDOW_BYTES);
        assert_eq!(window.known(), Some(HTTP2_WINDOW_BYTES_MAX));
        assert_eq!(window.end_probe(true), None, "there was no ping");
    }
}
