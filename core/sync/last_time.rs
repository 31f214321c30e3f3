//! The last time at which something happened, written by many threads and read by others.
//!
//! Promises: a value that is read was written at some time; a reader may miss a concurrent write. Refuses: it reads no
//! clock.

use std::time::Instant;

use crate::time::as_micros;

use super::primitive::{AtomicU64, Ordering};

/// The last time at which something happened, in microseconds after a start.
///
/// # Ordering
///
/// Relaxed throughout: it orders nothing, and a slightly stale value does no harm.
#[derive(Debug)]
pub struct LastTime {
    start: Instant,
    /// One more than the microseconds after `start`; 0 means never.
    after_us: AtomicU64,
}

impl LastTime {
    /// Makes one to which nothing has happened since `start`.
    pub fn new(start: Instant) -> Self {
        Self { start, after_us: AtomicU64::new(0) }
    }

    /// Notes that it happens `now`.
    pub fn mark(&self, now: Instant) {
        self.after_us.store(self.after(now), Ordering::Relaxed);
    }

    /// Returns whether it has not happened at `moment` or later.
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
