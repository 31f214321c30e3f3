//! The attempts of an export.
//!
//! Spans are retried once, if the first attempt fails without a response within the window: the connection was not
//! established, reset or closed. Any response ends the export, and so does a timeout; there is no pause before the retry,
//! even if a collector asks for one.
//!
//! Metrics and log records follow OTLP's rules: an attempt without a response, and one that the collector asks to repeat,
//! is retried after a pause, which doubles each time and is at least the one that the collector has asked for, until the
//! time of the export is over. Reads no clock and counts nothing.
//!
//! ```text
//!   Attempt ──accepted, or rejected for good──▶ the end
//!      │ ▲
//!      ▼ └──── the rules allow another attempt: after its pause
//!   no response, a rejection for now ──────────▶ failed: the rules do not, or its pause is longer than the time left
//! ```

use std::time::{Duration, Instant};

use super::answer::RetryAdvice;

/// One export of a batch.
#[derive(Debug)]
pub struct Export {
    timeouts: ExportTimeouts,
    rules: RetryRules,
    began: Instant,
    /// When the current attempt began.
    attempt_began: Instant,
    /// The number of attempts that have ended.
    ended: u32,
}

/// The timeouts of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTimeouts {
    /// For each attempt; `None` means no limit.
    pub attempt: Option<Duration>,
    /// For all attempts together; `None` means no limit.
    pub export: Option<Duration>,
}

/// Which exports are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryRules {
    /// Any export that may succeed later, after pauses.
    Backoff {
        /// Spreads the pauses of processes that have lost the same collector.
        seed: u64,
    },
    /// An export whose connection is lost early, once and without a pause.
    Once,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The collector accepted the batch.
    Accepted,
    /// The connection was not established, or lost before a response.
    Lost,
    /// The collector rejected the batch.
    Refused(RetryAdvice),
    /// The time ran out.
    TimedOut,
}

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAttempt {
    /// No further attempt: the batch was delivered.
    Delivered,
    /// No further attempt: the export has failed.
    Failed {
        /// The collector asks for no export before this time.
        not_before: Option<Instant>,
    },
    /// Another attempt at this time.
    Retry(Instant),
}

impl Export {
    /// Starts the first attempt.
    pub fn begin(timeouts: ExportTimeouts, rules: RetryRules, now: Instant) -> Self {
        Self { timeouts, rules, began: now, attempt_began: now, ended: 0 }
    }

    /// Returns when the current attempt times out; `None` means no limit.
    pub fn deadline(&self) -> Option<Instant> {
        let attempt = self.timeouts.attempt.and_then(|timeout| self.attempt_began.checked_add(timeout));
        attempt.into_iter().chain(self.end()).min()
    }

    /// Handles the end of the current attempt.
    pub fn ended(&mut self, end: AttemptEnd, now: Instant) -> AfterAttempt {
        let next = match (end, self.rules) {
            (AttemptEnd::Accepted, _) => return AfterAttempt::Delivered,
            (AttemptEnd::Lost, RetryRules::Once) if self.is_early(now) => Some(now),
            (_, RetryRules::Once) | (AttemptEnd::Refused(RetryAdvice::Never), _) => None,
            (AttemptEnd::Refused(RetryAdvice::After(asked)), RetryRules::Backoff { seed }) => {
                Some(now + asked.min(PAUSE_ASKED_MAX).max(self.pause(seed)))
            }
            (_, RetryRules::Backoff { seed }) => Some(now + self.pause(seed)),
        };
        self.ended += 1;
        let has_time = |at: &Instant| self.end().is_none_or(|end| *at < end);
        match next.filter(has_time) {
            Some(at) => {
                self.attempt_began = at;
                AfterAttempt::Retry(at)
            }
            None => AfterAttempt::Failed {
                not_before: next.filter(|_| matches!(end, AttemptEnd::Refused(RetryAdvice::After(_)))),
            },
        }
    }

    /// Returns when the time of the export is over. Exports with pauses always have an end.
    fn end(&self) -> Option<Instant> {
        let limit = match self.rules {
            RetryRules::Backoff { .. } => Some(self.timeouts.export.unwrap_or(BACKOFF_MAX)),
            RetryRules::Once => self.timeouts.export,
        };
        limit.and_then(|limit| self.began.checked_add(limit))
    }

    /// Returns whether the first attempt has ended so early that a second one is made.
    fn is_early(&self, now: Instant) -> bool {
        let took = now.saturating_duration_since(self.attempt_began);
        let has_time = self.deadline().is_none_or(|deadline| now < deadline);
        self.ended == 0 && took <= self.timeouts.window() && has_time
    }

    /// Returns the pause after the current attempt: doubled each time, and up to a quarter shorter.
    fn pause(&self, seed: u64) -> Duration {
        let pause = PAUSE_FIRST.saturating_mul(1 << self.ended.min(16)).min(PAUSE_MAX);
        let dice = seed.wrapping_add(self.ended.into()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        pause - (pause / 4).mul_f64(dice as f64 / f64::from(u32::MAX))
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

/// The pause after the first attempt.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// The longest pause that a collector has not asked for.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The longest pause that a collector can ask for.
const PAUSE_ASKED_MAX: Duration = Duration::from_secs(300);

/// The time of an export with pauses and without a timeout.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    const SECOND: Duration = Duration::from_secs(1);
    const REFUSED: AttemptEnd = AttemptEnd::Refused(RetryAdvice::Later);
    const ACCEPTED: AttemptEnd = AttemptEnd::Accepted;
    const FAILED: AfterAttempt = AfterAttempt::Failed { not_before: None };

    fn timeouts(attempt: Duration, export: Duration) -> ExportTimeouts {
        let limit = |timeout: Duration| Some(timeout).filter(|timeout| !timeout.is_zero());
        ExportTimeouts { attempt: limit(attempt), export: limit(export) }
    }

    /// Returns the outcome of an export and its number of attempts; each attempt ends as listed, after the given time.
    fn outcome(timeouts: ExportTimeouts, ends: &[(AttemptEnd, Duration)]) -> (AfterAttempt, usize) {
        let mut now = time::now();
        let mut export = Export::begin(timeouts, RetryRules::Once, now);
        for (attempt, (end, after)) in ends.iter().enumerate() {
            now += *after;
            match export.ended(*end, now) {
                AfterAttempt::Retry(at) => now = at,
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
            (&[(REFUSED, Duration::ZERO)], (FAILED, 1)),
            (&[(AttemptEnd::TimedOut, 10 * SECOND)], (FAILED, 1)),
            (&[(AttemptEnd::Lost, late)], (FAILED, 1)),
            (&[(AttemptEnd::Lost, early), (ACCEPTED, early)], (AfterAttempt::Delivered, 2)),
            (&[(AttemptEnd::Lost, SECOND), (ACCEPTED, 9 * SECOND)], (AfterAttempt::Delivered, 2)),
            (&[(AttemptEnd::Lost, early), (AttemptEnd::Lost, early)], (FAILED, 2)),
            (&[(AttemptEnd::Lost, early), (REFUSED, early)], (FAILED, 2)),
            (&[(AttemptEnd::Lost, early), (AttemptEnd::TimedOut, 10 * SECOND)], (FAILED, 2)),
        ];
        for (ends, expected) in table {
            assert_eq!(outcome(usual, ends), expected, "{ends:?}");
        }
        let short = timeouts(SECOND, 30 * SECOND);
        assert_eq!(outcome(short, &[(AttemptEnd::Lost, SECOND * 6 / 10)]), (FAILED, 1));
    }

    #[test]
    fn both_attempts_share_the_time_for_an_export() {
        let now = time::now();
        let mut export = Export::begin(timeouts(10 * SECOND, SECOND / 2), RetryRules::Once, now);
        assert_eq!(export.deadline(), Some(now + SECOND / 2));
        assert_eq!(export.ended(AttemptEnd::Lost, now + SECOND / 4), AfterAttempt::Retry(now + SECOND / 4));
        assert_eq!(export.deadline(), Some(now + SECOND / 2));
        let mut over = Export::begin(timeouts(10 * SECOND, SECOND / 2), RetryRules::Once, now);
        assert_eq!(over.ended(AttemptEnd::Lost, now + SECOND / 2), FAILED, "no time is left");
    }

    #[test]
    fn the_second_attempt_has_the_whole_timeout_again() {
        let now = time::now();
        let mut export = Export::begin(timeouts(2 * SECOND, 30 * SECOND), RetryRules::Once, now);
        assert_eq!(export.deadline(), Some(now + 2 * SECOND));
        export.ended(AttemptEnd::Lost, now + SECOND);
        assert_eq!(export.deadline(), Some(now + 3 * SECOND));
        assert_eq!(
            Export::begin(timeouts(Duration::ZERO, Duration::ZERO), RetryRules::Once, now).deadline(),
            None
        );
    }

    const BACKOFF: RetryRules = RetryRules::Backoff { seed: 7 };

    #[test]
    fn pauses_double_and_end_with_the_time_of_the_export() {
        for end in [AttemptEnd::Lost, AttemptEnd::TimedOut, AttemptEnd::Refused(RetryAdvice::Later)] {
            let began = time::now();
            let mut now = began;
            let mut export = Export::begin(timeouts(10 * SECOND, 30 * SECOND), BACKOFF, now);
            for usual in [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND] {
                let AfterAttempt::Retry(at) = export.ended(end, now) else { panic!("after {usual:?}") };
                assert!(at - now <= usual && at - now >= usual * 3 / 4, "{usual:?}: {:?}", at - now);
                assert_eq!(export.deadline(), Some((at + 10 * SECOND).min(began + 30 * SECOND)));
                now = at;
            }
            assert_eq!(export.ended(end, began + 20 * SECOND), FAILED, "16 seconds are too long");
        }
    }

    #[test]
    fn the_pause_is_the_one_that_the_collector_asks_for() {
        let now = time::now();
        let asks = |seconds: u64| AttemptEnd::Refused(RetryAdvice::After(Duration::from_secs(seconds)));
        let export = || Export::begin(timeouts(10 * SECOND, 30 * SECOND), BACKOFF, now);
        assert_eq!(export().ended(asks(7), now), AfterAttempt::Retry(now + 7 * SECOND));
        let AfterAttempt::Retry(at) = export().ended(asks(0), now) else { panic!("there is time") };
        assert!(at >= now + SECOND * 3 / 4, "a collector cannot be asked without a pause");
        let not_before = Some(now + 40 * SECOND);
        assert_eq!(export().ended(asks(40), now), AfterAttempt::Failed { not_before });
        let not_before = Some(now + PAUSE_ASKED_MAX);
        assert_eq!(export().ended(asks(u64::MAX), now), AfterAttempt::Failed { not_before });
        let never = AttemptEnd::Refused(RetryAdvice::Never);
        assert_eq!(export().ended(never, now), FAILED);
        let mut spans = Export::begin(timeouts(10 * SECOND, 30 * SECOND), RetryRules::Once, now);
        assert_eq!(spans.ended(asks(1), now), FAILED);
    }

    #[test]
    fn without_a_timeout_the_retries_end_too() {
        let began = time::now();
        let mut now = began;
        let mut export = Export::begin(timeouts(Duration::ZERO, Duration::ZERO), BACKOFF, now);
        let mut attempts = 1;
        while let AfterAttempt::Retry(at) = export.ended(AttemptEnd::Lost, now) {
            (now, attempts) = (at, attempts + 1);
        }
        assert!(now < began + BACKOFF_MAX && (6..8).contains(&attempts), "{attempts} attempts");
    }
}
