//! The attempts of an export: one, rarely two.
//!
//! An export is retried once if the first attempt fails without a response within the window: the connection was not
//! established, reset or closed. Any response ends the export, and so does a timeout. There is no pause before the
//! retry, even if a collector asks for one. Reads no clock and counts nothing.
//!
//! ```text
//!   First ──answered─────────────▶ accepted, or refused
//!     │ ──lost within the window──▶ Second ──answered──▶ accepted, or refused
//!     │                               └──lost, timed out──▶ failed
//!     └──lost later, timed out────▶ failed
//! ```

use std::time::{Duration, Instant};

/// One export of a batch.
#[derive(Debug)]
pub struct Export {
    timeouts: ExportTimeouts,
    began: Instant,
    /// When the current attempt began.
    attempt_began: Instant,
    is_second: bool,
}

/// The timeouts of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTimeouts {
    /// For each attempt; `None` means no limit.
    pub attempt: Option<Duration>,
    /// For both attempts together; `None` means no limit.
    pub export: Option<Duration>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The collector responded.
    Answered {
        /// Whether it accepted the batch.
        is_accepted: bool,
    },
    /// The connection was not established, or lost before a response.
    Lost,
    /// The time ran out.
    TimedOut,
}

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAttempt {
    /// No further attempt: the batch was delivered.
    Delivered,
    /// No further attempt: the export has failed.
    Failed,
    /// A second attempt.
    Retry,
}

impl Export {
    /// Starts the first attempt.
    pub fn begin(timeouts: ExportTimeouts, now: Instant) -> Self {
        Self { timeouts, began: now, attempt_began: now, is_second: false }
    }

    /// Returns when the current attempt times out; `None` means no limit.
    pub fn deadline(&self) -> Option<Instant> {
        let attempt = self.timeouts.attempt.and_then(|timeout| self.attempt_began.checked_add(timeout));
        let export = self.timeouts.export.and_then(|timeout| self.began.checked_add(timeout));
        attempt.into_iter().chain(export).min()
    }

    /// Handles the end of the current attempt.
    pub fn ended(&mut self, end: AttemptEnd, now: Instant) -> AfterAttempt {
        match end {
            AttemptEnd::Answered { is_accepted: true } => AfterAttempt::Delivered,
            AttemptEnd::Answered { is_accepted: false } | AttemptEnd::TimedOut => AfterAttempt::Failed,
            AttemptEnd::Lost => {
                let took = now.saturating_duration_since(self.attempt_began);
                let has_time = self.deadline().is_none_or(|deadline| now < deadline);
                if self.is_second || took > self.timeouts.window() || !has_time {
                    return AfterAttempt::Failed;
                }
                self.is_second = true;
                self.attempt_began = now;
                AfterAttempt::Retry
            }
        }
    }
}

impl ExportTimeouts {
    /// Returns how soon the first attempt must fail to be retried.
    pub fn window(&self) -> Duration {
        self.attempt.map_or(WINDOW_MAX, |timeout| (timeout / 2).min(WINDOW_MAX))
    }
}

/// The upper bound of the window.
const WINDOW_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    const SECOND: Duration = Duration::from_secs(1);
    const REFUSED: AttemptEnd = AttemptEnd::Answered { is_accepted: false };
    const ACCEPTED: AttemptEnd = AttemptEnd::Answered { is_accepted: true };

    fn timeouts(attempt: Duration, export: Duration) -> ExportTimeouts {
        let limit = |timeout: Duration| Some(timeout).filter(|timeout| !timeout.is_zero());
        ExportTimeouts { attempt: limit(attempt), export: limit(export) }
    }

    /// Returns the outcome of an export and its number of attempts; each attempt ends as listed, after the given time.
    fn outcome(timeouts: ExportTimeouts, ends: &[(AttemptEnd, Duration)]) -> (AfterAttempt, usize) {
        let mut now = time::now();
        let mut export = Export::begin(timeouts, now);
        for (attempt, (end, after)) in ends.iter().enumerate() {
            now += *after;
            match export.ended(*end, now) {
                AfterAttempt::Retry => {}
                done => return (done, attempt + 1),
            }
        }
        panic!("a third attempt was wanted: {ends:?}");
    }

    #[test]
    fn the_window_is_half_of_the_timeout_and_a_second_at_most() {
        let window = |attempt| timeouts(attempt, Duration::ZERO).window();
        assert_eq!(window(10 * SECOND), SECOND);
        assert_eq!(window(2 * SECOND), SECOND);
        assert_eq!(window(SECOND), SECOND / 2);
        assert_eq!(window(Duration::ZERO), SECOND, "no timeout at all");
    }

    #[test]
    fn only_a_connection_that_fails_fast_is_tried_again_and_only_once() {
        let usual = timeouts(10 * SECOND, 30 * SECOND);
        let (early, late) = (SECOND * 9 / 10, SECOND * 11 / 10);
        let table = [
            (&[(ACCEPTED, early)][..], (AfterAttempt::Delivered, 1)),
            (&[(REFUSED, Duration::ZERO)], (AfterAttempt::Failed, 1)),
            (&[(AttemptEnd::TimedOut, 10 * SECOND)], (AfterAttempt::Failed, 1)),
            (&[(AttemptEnd::Lost, late)], (AfterAttempt::Failed, 1)),
            (&[(AttemptEnd::Lost, early), (ACCEPTED, early)], (AfterAttempt::Delivered, 2)),
            (&[(AttemptEnd::Lost, SECOND), (ACCEPTED, 9 * SECOND)], (AfterAttempt::Delivered, 2)),
            (&[(AttemptEnd::Lost, early), (AttemptEnd::Lost, early)], (AfterAttempt::Failed, 2)),
            (&[(AttemptEnd::Lost, early), (REFUSED, early)], (AfterAttempt::Failed, 2)),
            (&[(AttemptEnd::Lost, early), (AttemptEnd::TimedOut, 10 * SECOND)], (AfterAttempt::Failed, 2)),
        ];
        for (ends, expected) in table {
            assert_eq!(outcome(usual, ends), expected, "{ends:?}");
        }
        let short = timeouts(SECOND, 30 * SECOND);
        assert_eq!(outcome(short, &[(AttemptEnd::Lost, SECOND * 6 / 10)]), (AfterAttempt::Failed, 1));
    }

    #[test]
    fn both_attempts_share_the_time_for_an_export() {
        let now = time::now();
        let mut export = Export::begin(timeouts(10 * SECOND, SECOND / 2), now);
        assert_eq!(export.deadline(), Some(now + SECOND / 2));
        assert_eq!(export.ended(AttemptEnd::Lost, now + SECOND / 4), AfterAttempt::Retry);
        assert_eq!(export.deadline(), Some(now + SECOND / 2));
        let mut over = Export::begin(timeouts(10 * SECOND, SECOND / 2), now);
        assert_eq!(over.ended(AttemptEnd::Lost, now + SECOND / 2), AfterAttempt::Failed, "no time is left");
    }

    #[test]
    fn the_second_attempt_has_the_whole_timeout_again() {
        let now = time::now();
        let mut export = Export::begin(timeouts(2 * SECOND, 30 * SECOND), now);
        assert_eq!(export.deadline(), Some(now + 2 * SECOND));
        export.ended(AttemptEnd::Lost, now + SECOND);
        assert_eq!(export.deadline(), Some(now + 3 * SECOND));
        assert_eq!(Export::begin(timeouts(Duration::ZERO, Duration::ZERO), now).deadline(), None);
    }
}
