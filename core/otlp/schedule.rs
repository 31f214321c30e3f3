//! Decides when metrics are exported.
//!
//! One export each interval, at the same times whatever an export takes; an interval that an export has missed is left
//! out. Reads no clock and sends nothing.

use std::time::{Duration, Instant};

/// Decides when the exporter of metrics acts.
#[derive(Debug)]
pub struct ExportSchedule {
    interval: Duration,
    due: Instant,
}

impl ExportSchedule {
    /// Creates the schedule of a process that starts now: the first export is due after an interval.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, due: now + interval }
    }

    /// Returns whether an export is due, and makes the next one due if so.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        self.due += self.interval;
        if self.due <= now {
            self.due = now + self.interval;
        }
        true
    }

    /// Returns when the next export is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Exports nothing before this time.
    pub fn hold(&mut self, until: Instant) {
        self.due = self.due.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn exports_keep_their_times_and_leave_out_those_that_they_miss() {
        let now = time::now();
        let mut schedule = ExportSchedule::new(10 * SECOND, now);
        assert!(!schedule.is_due(now + 9 * SECOND));
        assert!(schedule.is_due(now + 11 * SECOND));
        assert_eq!(schedule.due(), now + 20 * SECOND);
        assert!(schedule.is_due(now + 45 * SECOND));
        assert_eq!(schedule.due(), now + 55 * SECOND);
    }

    #[test]
    fn a_pause_delays_the_next_export() {
        let now = time::now();
        let mut schedule = ExportSchedule::new(10 * SECOND, now);
        schedule.hold(now + 5 * SECOND);
        assert_eq!(schedule.due(), now + 10 * SECOND);
        schedule.hold(now + 25 * SECOND);
        assert!(!schedule.is_due(now + 24 * SECOND));
        assert!(schedule.is_due(now + 25 * SECOND));
    }
}
