//! Decides when spans and log records are exported.
//!
//! No item waits longer than the delay, unless the collector has asked for a pause; a full batch is exported at once, and
//! the remaining items are exported on close. Reads no clock, holds no items and sends nothing.
//!
//! ```text
//!   Sleep until an item comes ──▶ Sleep until the batch is complete, or the delay over ──▶ Export ──▶ …
//!                                                      closed and empty ──▶ End
//! ```

use std::time::{Duration, Instant};

use crate::config::BatchConfig;

/// Decides when the exporter acts.
#[derive(Debug)]
pub struct Batcher {
    delay: Duration,
    batch_items_max: usize,
    /// When the waiting items are due; `None` if there are none.
    due: Option<Instant>,
    /// The collector has asked for no export before this time.
    held_until: Option<Instant>,
}

/// The exporter's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStep {
    /// End: the queue is closed and empty.
    End,
    /// Export this number of items.
    Export(usize),
    /// Sleep until `items` items wait or `until` is reached.
    Sleep {
        /// The number of items that wakes the exporter.
        items: usize,
        /// The latest time to wake up; `None` if nothing is due.
        until: Option<Instant>,
    },
}

impl Batcher {
    /// Creates a batcher with these settings.
    pub fn new(config: &BatchConfig) -> Self {
        Self {
            delay: config.schedule_delay,
            batch_items_max: config.batch_items_max.max(1),
            due: None,
            held_until: None,
        }
    }

    /// Exports nothing before this time, except on close.
    pub fn hold(&mut self, until: Instant) {
        self.held_until = Some(until);
    }

    /// Returns the next step while `queued` items wait. Extra calls are harmless.
    pub fn next(&mut self, queued: usize, is_closed: bool, now: Instant) -> BatchStep {
        if queued == 0 {
            self.due = None;
            return if is_closed { BatchStep::End } else { BatchStep::Sleep { items: 1, until: None } };
        }
        if let Some(until) = self.held_until.filter(|until| !is_closed && now < *until) {
            return BatchStep::Sleep { items: usize::MAX, until: Some(until) };
        }
        self.held_until = None;
        let due = *self.due.get_or_insert(now + self.delay);
        if is_closed || queued >= self.batch_items_max || now >= due {
            // The delay of the remaining items starts now.
            self.due = None;
            BatchStep::Export(queued.min(self.batch_items_max))
        } else {
            BatchStep::Sleep { items: self.batch_items_max, until: Some(due) }
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
            queue_items_max: 100,
            batch_items_max: 10,
        };
        (Batcher::new(&config), time::now())
    }

    #[test]
    fn without_spans_it_sleeps_until_one_comes() {
        let (mut batcher, now) = batcher(SECOND);
        assert_eq!(batcher.next(0, false, now), BatchStep::Sleep { items: 1, until: None });
        assert_eq!(batcher.next(0, false, now + 100 * SECOND), BatchStep::Sleep { items: 1, until: None });
    }

    #[test]
    fn the_delay_begins_with_the_first_span() {
        let (mut batcher, now) = batcher(SECOND);
        let sleep = BatchStep::Sleep { items: 10, until: Some(now + SECOND) };
        assert_eq!(batcher.next(1, false, now), sleep);
        assert_eq!(batcher.next(9, false, now + SECOND / 2), sleep);
        assert_eq!(batcher.next(9, false, now + SECOND), BatchStep::Export(9));
        assert_eq!(batcher.next(0, false, now + SECOND), BatchStep::Sleep { items: 1, until: None });
    }

    #[test]
    fn a_complete_batch_does_not_wait_and_the_rest_waits_anew() {
        let (mut batcher, now) = batcher(SECOND);
        assert_eq!(batcher.next(25, false, now), BatchStep::Export(10));
        assert_eq!(batcher.next(15, false, now), BatchStep::Export(10));
        let until = Some(now + 2 * SECOND);
        assert_eq!(batcher.next(5, false, now + SECOND), BatchStep::Sleep { items: 10, until });
    }

    #[test]
    fn a_delay_of_zero_does_not_wait() {
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

    #[test]
    fn a_pause_holds_a_complete_batch_and_not_the_end() {
        let (mut batcher, now) = batcher(SECOND);
        batcher.hold(now + 9 * SECOND);
        let until = Some(now + 9 * SECOND);
        assert_eq!(batcher.next(10, false, now), BatchStep::Sleep { items: usize::MAX, until });
        assert_eq!(batcher.next(10, true, now), BatchStep::Export(10));
        batcher.hold(now + 9 * SECOND);
        assert_eq!(batcher.next(10, false, now + 9 * SECOND), BatchStep::Export(10));
    }
}
