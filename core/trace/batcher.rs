//! Decides when spans are exported.
//!
//! No span waits longer than the delay, a full batch is exported at once, and the remaining spans are exported on
//! close. Reads no clock, holds no spans and sends nothing.
//!
//! ```text
//!   Sleep until a span comes ──▶ Sleep until the batch is complete, or the delay over ──▶ Export ──▶ …
//!                                                      closed and empty ──▶ End
//! ```

use std::time::{Duration, Instant};

use crate::config::BatchConfig;

/// Decides when the exporter acts.
#[derive(Debug)]
pub struct Batcher {
    delay: Duration,
    batch_spans_max: usize,
    /// When the waiting spans are due; `None` if there are none.
    due: Option<Instant>,
}

/// The exporter's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStep {
    /// End: the queue is closed and empty.
    End,
    /// Export this number of spans.
    Export(usize),
    /// Sleep until `spans` spans wait or `until` is reached.
    Sleep {
        /// The number of spans that wakes the exporter.
        spans: usize,
        /// The latest time to wake up; `None` if nothing is due.
        until: Option<Instant>,
    },
}

impl Batcher {
    /// Creates a batcher with these settings.
    pub fn new(config: &BatchConfig) -> Self {
        Self { delay: config.schedule_delay, batch_spans_max: config.batch_spans_max.max(1), due: None }
    }

    /// Returns the next step while `queued` spans wait. Extra calls are harmless.
    pub fn next(&mut self, queued: usize, is_closed: bool, now: Instant) -> BatchStep {
        if queued == 0 {
            self.due = None;
            return if is_closed { BatchStep::End } else { BatchStep::Sleep { spans: 1, until: None } };
        }
        let due = *self.due.get_or_insert(now + self.delay);
        if is_closed || queued >= self.batch_spans_max || now >= due {
            // The delay of the remaining spans starts now.
            self.due = None;
            BatchStep::Export(queued.min(self.batch_spans_max))
        } else {
            BatchStep::Sleep { spans: self.batch_spans_max, until: Some(due) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    const SECOND: Duration = Duration::from_secs(1);

    fn batcher(delay: Duration) -> (Batcher, Instant) {
        let config = BatchConfig {
            schedule_delay: delay,
            export_timeout: None,
            queue_spans_max: 100,
            batch_spans_max: 10,
        };
        (Batcher::new(&config), time::now())
    }

    #[test]
    fn without_spans_it_sleeps_until_one_comes() {
        let (mut batcher, now) = batcher(SECOND);
        assert_eq!(batcher.next(0, false, now), BatchStep::Sleep { spans: 1, until: None });
        assert_eq!(batcher.next(0, false, now + 100 * SECOND), BatchStep::Sleep { spans: 1, until: None });
    }

    #[test]
    fn the_delay_begins_with_the_first_span() {
        let (mut batcher, now) = batcher(SECOND);
        let sleep = BatchStep::Sleep { spans: 10, until: Some(now + SECOND) };
        assert_eq!(batcher.next(1, false, now), sleep);
        assert_eq!(batcher.next(9, false, now + SECOND / 2), sleep);
        assert_eq!(batcher.next(9, false, now + SECOND), BatchStep::Export(9));
        assert_eq!(batcher.next(0, false, now + SECOND), BatchStep::Sleep { spans: 1, until: None });
    }

    #[test]
    fn a_complete_batch_does_not_wait_and_the_rest_waits_anew() {
        let (mut batcher, now) = batcher(SECOND);
        assert_eq!(batcher.next(25, false, now), BatchStep::Export(10));
        assert_eq!(batcher.next(15, false, now), BatchStep::Export(10));
        let until = Some(now + 2 * SECOND);
        assert_eq!(batcher.next(5, false, now + SECOND), BatchStep::Sleep { spans: 10, until });
    }

    #[test]
    fn a_delay_of_zero_waits_for_nobody() {
        let (mut batcher, now) = batcher(Duration::ZERO);
        assert_eq!(batcher.next(1, false, now), BatchStep::Export(1));
    }

    #[test]
    fn at_the_end_everything_goes_and_then_it_ends() {
        let (mut batcher, now) = batcher(SECOND);
        assert_eq!(batcher.next(12, true, now), BatchStep::Export(10));
        assert_eq!(batcher.next(2, true, now), BatchStep::Export(2));
        assert_eq!(batcher.next(0, true, now), BatchStep::End);
    }
}
