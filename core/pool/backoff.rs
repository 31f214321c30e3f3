//! The boot back-off: when a worker is started again after one failed to boot.
//!
//! Pure: the pause doubles with each failed attempt and is reset by a successful one; workers that fail together count
//! once; after a failure, only one worker is started as a trial. The back-off starts no worker and reads no clock.
//!
//! ```text
//!            failed: a pause                pause over: one is tried
//!   Clear ─────────────────────▶ Resting ──────────────────────────────▶ Trying
//!     ▲                            ▲ │ ▲                                   │ │
//!     │ booted                     └─┘ └──── failed: twice the pause ──────┘ │
//!     │                           failed: no change                          │
//!     └───────────────────────────────── booted ─────────────────────────────┘
//! ```
//!
//! New code ends a pause, and makes the next one short again.

use std::time::{Duration, Instant};

/// The pause after the first failed attempt.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The back-off of one pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    state: BackoffState,
    /// Failed attempts since the last successful one.
    failures: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum BackoffState {
    #[default]
    Clear,
    Resting {
        until: Instant,
        pause: Duration,
    },
    Trying {
        pause: Duration,
    },
}

/// How many workers may be started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnLimit {
    /// Any number.
    Any,
    /// One, to see whether it boots; the caller calls [`Backoff::tried`].
    One,
    /// None.
    None,
}

impl Backoff {
    /// Notes that a worker failed to boot. Returns the pause that begins now; `None` if one has begun already.
    pub fn failed(&mut self, now: Instant) -> Option<Duration> {
        let pause = match self.state {
            BackoffState::Clear => PAUSE_MIN,
            BackoffState::Resting { .. } => return None,
            BackoffState::Trying { pause } => (pause * 2).min(PAUSE_MAX),
        };
        self.failures += 1;
        self.state = BackoffState::Resting { until: now + pause, pause };
        Some(pause)
    }

    /// Notes that a worker has booted. Returns the number of attempts that failed before.
    pub fn booted(&mut self) -> u64 {
        self.state = BackoffState::Clear;
        std::mem::take(&mut self.failures)
    }

    /// Notes that workers now load new code, to which the failures so far do not apply.
    pub fn renewed(&mut self, now: Instant) {
        let pause = PAUSE_MIN / 2;
        match self.state {
            BackoffState::Clear => {}
            BackoffState::Resting { .. } => self.state = BackoffState::Resting { until: now, pause },
            // The trial worker may have loaded the old code.
            BackoffState::Trying { .. } => self.state = BackoffState::Trying { pause },
        }
    }

    /// Returns how many workers may be started.
    pub fn spawn_limit(&self, now: Instant) -> SpawnLimit {
        match self.state {
            BackoffState::Clear => SpawnLimit::Any,
            BackoffState::Resting { until, .. } if now >= until => SpawnLimit::One,
            BackoffState::Resting { .. } | BackoffState::Trying { .. } => SpawnLimit::None,
        }
    }

    /// Notes that the one worker that was allowed has been started.
    pub fn tried(&mut self) {
        if let BackoffState::Resting { pause, .. } = self.state {
            self.state = BackoffState::Trying { pause };
        }
    }

    /// Returns when the pause ends; `None` if there is none.
    pub fn deadline(&self) -> Option<Instant> {
        if let BackoffState::Resting { until, .. } = self.state { Some(until) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_first_any_worker_may_be_started() {
        let backoff = Backoff::default();
        assert_eq!(backoff.spawn_limit(crate::time::now()), SpawnLimit::Any);
        assert_eq!(backoff.deadline(), None);
    }

    #[test]
    fn failures_in_a_row_double_the_pause_up_to_its_bound() {
        let (mut backoff, mut now) = (Backoff::default(), crate::time::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let pause = backoff.failed(now).unwrap();
            pauses.push(pause.as_millis());
            assert_eq!(backoff.spawn_limit(now + pause - Duration::from_millis(1)), SpawnLimit::None);
            now += pause;
            assert_eq!((backoff.deadline(), backoff.spawn_limit(now)), (Some(now), SpawnLimit::One));
            backoff.tried();
            assert_eq!((backoff.deadline(), backoff.spawn_limit(now)), (None, SpawnLimit::None));
        }
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[8..], [25_600, 30_000, 30_000, 30_000]);
    }

    #[test]
    fn new_code_is_tried_at_once() {
        let (mut backoff, now) = (Backoff::default(), crate::time::now());
        backoff.renewed(now);
        assert_eq!((backoff.deadline(), backoff.spawn_limit(now)), (None, SpawnLimit::Any));
        for _ in 0..5 {
            backoff.failed(now).unwrap();
            backoff.tried();
        }
        backoff.renewed(now);
        assert_eq!(backoff.spawn_limit(now), SpawnLimit::None, "one is under way");
        assert_eq!(backoff.failed(now), Some(PAUSE_MIN));
        backoff.tried();
        assert!(backoff.failed(now) > Some(PAUSE_MIN));
        backoff.renewed(now);
        assert_eq!((backoff.deadline(), backoff.spawn_limit(now)), (Some(now), SpawnLimit::One));
        backoff.tried();
        assert_eq!(backoff.failed(now), Some(PAUSE_MIN));
        assert_eq!(backoff.booted(), 8);
    }

    #[test]
    fn several_that_fail_together_count_once() {
        let (mut backoff, now) = (Backoff::default(), crate::time::now());
        assert_eq!(backoff.failed(now), Some(PAUSE_MIN));
        assert_eq!(backoff.failed(now + Duration::from_millis(90)), None);
        assert_eq!(backoff.deadline(), Some(now + PAUSE_MIN));
    }

    #[test]
    fn one_that_boots_ends_it_from_any_state() {
        let now = crate::time::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.booted(), 0);
        backoff.failed(now);
        assert_eq!((backoff.booted(), backoff.spawn_limit(now)), (1, SpawnLimit::Any));
        backoff.failed(now);
        backoff.tried();
        backoff.failed(now);
        backoff.tried();
        assert_eq!((backoff.booted(), backoff.spawn_limit(now)), (2, SpawnLimit::Any));
        assert_eq!(backoff.failed(now), Some(PAUSE_MIN), "and is forgotten");
    }
}
