//! What is worth a log record about exports: a collector that is gone must not fill the log.
//!
//! Promises: the first failure is told at once, and so is the first success after it; in between, what failed is summed up
//! once a minute. Refuses: it writes nothing and counts no metric.

use std::time::{Duration, Instant};

/// Watches how exports end.
#[derive(Debug, Default)]
pub struct ExportWatch {
    /// Exports that have failed since the last success, and their spans.
    failing: Option<Failing>,
    warnings: Pause,
    dropped: Pause,
    dropped_told: u64,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    exports: u64,
    spans: u64,
    pause: Pause,
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportNews {
    /// An export has failed, and the one before had not.
    Failed,
    /// So many have failed by now, with so many spans.
    StillFailing {
        /// Exports.
        exports: u64,
        /// Their spans.
        spans: u64,
    },
    /// So many had failed.
    Recovered {
        /// Exports.
        exports: u64,
        /// Their spans.
        spans: u64,
    },
}

impl ExportWatch {
    /// An export of so many spans has failed.
    pub fn failed(&mut self, spans: u64, now: Instant) -> Option<ExportNews> {
        let Some(failing) = &mut self.failing else {
            let mut pause = Pause::default();
            pause.is_over(now);
            self.failing = Some(Failing { exports: 1, spans, pause });
            return Some(ExportNews::Failed);
        };
        failing.exports += 1;
        failing.spans += spans;
        let Failing { exports, spans, .. } = *failing;
        failing.pause.is_over(now).then_some(ExportNews::StillFailing { exports, spans })
    }

    /// An export was successful.
    pub fn delivered(&mut self) -> Option<ExportNews> {
        self.failing.take().map(|Failing { exports, spans, .. }| ExportNews::Recovered { exports, spans })
    }

    /// A collector has a warning; returns whether to tell it.
    pub fn warned(&mut self, now: Instant) -> bool {
        self.warnings.is_over(now)
    }

    /// So many spans were dropped by now; returns how many to tell.
    pub fn dropped(&mut self, total: u64, now: Instant) -> Option<u64> {
        let count = total.saturating_sub(self.dropped_told);
        if count == 0 || !self.dropped.is_over(now) {
            return None;
        }
        self.dropped_told = total;
        Some(count)
    }
}

/// The time in which something is told once.
#[derive(Clone, Copy, Debug, Default)]
struct Pause(Option<Instant>);

impl Pause {
    /// Whether it is over; then it begins anew.
    fn is_over(&mut self, now: Instant) -> bool {
        let is_over = self.0.is_none_or(|told| now.saturating_duration_since(told) >= PAUSE);
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
    fn failures_are_told_at_once_then_once_a_minute_and_so_is_their_end() {
        let (mut watch, now) = (ExportWatch::default(), time::now());
        assert_eq!(watch.delivered(), None);
        assert_eq!(watch.failed(5, now), Some(ExportNews::Failed));
        assert_eq!(watch.failed(5, now + PAUSE / 2), None);
        let still = ExportNews::StillFailing { exports: 3, spans: 12 };
        assert_eq!(watch.failed(2, now + PAUSE), Some(still));
        assert_eq!(watch.failed(1, now + PAUSE * 3 / 2), None);
        assert_eq!(watch.delivered(), Some(ExportNews::Recovered { exports: 4, spans: 13 }));
        assert_eq!(watch.delivered(), None);
        assert_eq!(watch.failed(1, now + PAUSE * 3 / 2), Some(ExportNews::Failed));
    }

    #[test]
    fn warnings_and_dropped_spans_are_told_once_a_minute() {
        let (mut watch, now) = (ExportWatch::default(), time::now());
        assert_eq!([now, now + PAUSE / 2, now + PAUSE].map(|now| watch.warned(now)), [true, false, true]);
        assert_eq!(watch.dropped(0, now), None);
        assert_eq!(watch.dropped(7, now), Some(7));
        assert_eq!(watch.dropped(9, now + PAUSE / 2), None);
        assert_eq!(watch.dropped(9, now + PAUSE), Some(2));
        assert_eq!(watch.dropped(9, now + 2 * PAUSE), None);
    }
}
