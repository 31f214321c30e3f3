//! The time of the last event of a kind, written by many threads and read by others.
//!
//! A read returns a value that was written at some time, and may miss a concurrent write. Reads no clock.

use std::time::Instant;

use crate::time::as_micros;

use super::primitive::{AtomicU64, Ordering};

/// The time of the last event of a kind, in microseconds since a start.
///
/// # Ordering
///
/// Relaxed throughout: it orders nothing, and a slightly stale value does no harm.
#[derive(Debug)]
pub struct LastTime {
    start: Instant,
    /// The microseconds since `start` plus one; 0 means never.
    after_us: AtomicU64,
}

impl LastTime {
    /// Creates one without an event since `start`.
    pub fn new(start: Instant) -> Self {
        Self { start, after_us: AtomicU64::new(0) }
    }

    /// Records an event at `now`.
    pub fn mark(&self, now: Instant) {
        self.after_us.store(self.after(now), Ordering::Relaxed);
    }

    /// Returns whether there was no event at `moment` or later.
    pub fn is_before(&self, moment: Instant) -> bool {
        self.after_us.load(Ordering::Relaxed) < self.after(moment)
    }

    fn after(&self, now: Instant) -> u64 {
        as_micros(now.saturating_duration_since(self.start)).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn never_is_before_everything() {
        let start = crate::time::now();
        let moment = LastTime::new(start);
        assert!(moment.is_before(start));
        moment.mark(start + Duration::from_secs(1));
        assert!(!moment.is_before(start + Duration::from_secs(1)));
        assert!(moment.is_before(start + Duration::from_secs(2)));
    }
}
