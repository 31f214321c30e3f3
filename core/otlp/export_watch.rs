//! Decides which export results are logged, so that an unreachable collector does not fill the log.
//!
//! Reports the first failure and the first success after it at once; in between, sums up the failures once a minute.
//! Writes no log and counts no metric.

use std::time::{Duration, Instant};

/// Tracks the results of exports.
#[derive(Debug, Default)]
pub struct ExportWatch {
    /// The failures since the last success.
    failing: Option<Failing>,
    warnings: Pause,
    dropped: Pause,
    dropped_reported: u64,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    exports: u64,
    items: u64,
    pause: Pause,
}

/// A result worth a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportEvent {
    /// An export failed after a success.
    Failed,
    /// Exports keep failing: the totals so far.
    StillFailing {
        /// The number of exports.
        exports: u64,
        /// The number of their items.
        items: u64,
    },
    /// An export succeeded again: the totals of the failures.
    Recovered {
        /// The number of exports.
        exports: u64,
        /// The number of their items.
        items: u64,
    },
}

impl ExportWatch {
    /// Records the failure of an export of `items` spans, data points or log records.
    pub fn failed(&mut self, items: u64, now: Instant) -> Option<ExportEvent> {
        let Some(failing) = &mut self.failing else {
            let mut pause = Pause::default();
            pause.is_over(now);
            self.failing = Some(Failing { exports: 1, items, pause });
            return Some(ExportEvent::Failed);
        };
        failing.exports += 1;
        failing.items += items;
        let Failing { exports, items, .. } = *failing;
        failing.pause.is_over(now).then_some(ExportEvent::StillFailing { exports, items })
    }

    /// Records a successful export.
    pub fn delivered(&mut self) -> Option<ExportEvent> {
        self.failing.take().map(|Failing { exports, items, .. }| ExportEvent::Recovered { exports, items })
    }

    /// Records a warning of a collector; returns whether to log it.
    pub fn warned(&mut self, now: Instant) -> bool {
        self.warnings.is_over(now)
    }

    /// Records the total of dropped items; returns the number to log, if any.
    pub fn dropped(&mut self, total: u64, now: Instant) -> Option<u64> {
        let count = total.saturating_sub(self.dropped_reported);
        if count == 0 || !self.dropped.is_over(now) {
            return None;
        }
        self.dropped_reported = total;
        Some(count)
    }
}

/// The pause between two reports of the same kind.
#[derive(Clone, Copy, Debug, Default)]
struct Pause(Option<Instant>);

impl Pause {
    /// Returns whether the pause is over, and restarts it if so.
    fn is_over(&mut self, now: Instant) -> bool {
        let is_over = self.0.is_none_or(|reported| now.saturating_duration_since(reported) >= PAUSE);
        if is_over {
            self.0 = Some(now);
        }
        is_over
    }
}

const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    #[test]
    fn failures_are_reported_at_once_then_each_minute_and_at_their_end() {
        let (mut watch, now) = (ExportWatch::default(), time::now());
        assert_eq!(watch.delivered(), None);
        assert_eq!(watch.failed(5, now), Some(ExportEvent::Failed));
        assert_eq!(watch.failed(5, now + PAUSE / 2), None);
        let still = ExportEvent::StillFailing { exports: 3, items: 12 };
        assert_eq!(watch.failed(2, now + PAUSE), Some(still));
        assert_eq!(watch.failed(1, now + PAUSE * 3 / 2), None);
        assert_eq!(watch.delivered(), Some(ExportEvent::Recovered { exports: 4, items: 13 }));
        assert_eq!(watch.delivered(), None);
        assert_eq!(watch.failed(1, now + PAUSE * 3 / 2), Some(ExportEvent::Failed));
    }

    #[test]
    fn warnings_and_dropped_items_are_reported_each_minute() {
        let (mut watch, now) = (ExportWatch::default(), time::now());
        assert_eq!([now, now + PAUSE / 2, now + PAUSE].map(|now| watch.warned(now)), [true, false, true]);
        assert_eq!(watch.dropped(0, now), None);
        assert_eq!(watch.dropped(7, now), Some(7));
        assert_eq!(watch.dropped(9, now + PAUSE / 2), None);
        assert_eq!(watch.dropped(9, now + PAUSE), Some(2));
        assert_eq!(watch.dropped(9, now + 2 * PAUSE), None);
    }
}
