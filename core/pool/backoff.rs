//! When a worker is tried again after one did not boot.
//!
//! Promises: pure; the pause doubles with each attempt in vain and is forgotten after one that succeeded; several that
//! fail together count once; while in doubt one worker is tried, not all. Refuses: it starts nobody and reads no clock.
//!
//! ```text
//!            failed: a pause                pause over: one is tried
//!   Clear ─────────────────────▶ Resting ──────────────────────────────▶ Trying
//!     ▲                            ▲ │ ▲                                   │ │
//!     │ booted                     └─┘ └──── failed: twice the pause ──────┘ │
//!     │                           failed: no change                          │
//!     └───────────────────────────────── booted ─────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

/// The pause after the first attempt in vain.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    state: BackoffState,
    /// Attempts in vain since the last one that succeeded.
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
    /// As many as are wanted.
    Any,
    /// One, to see whether it boots; [`Backoff::tried`] is to be called.
    One,
    /// None.
    Nobody,
}

impl Backoff {
    /// A worker did not boot. Returns the pause that begins with it; `None` if there is one already.
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

    /// A worker has booted. Returns how many attempts had been in vain.
    pub fn booted(&mut self) -> u64 {
        self.state = BackoffState::Clear;
        std::mem::take(&mut self.failures)
    }

    /// Says how many workers may be started.
    pub fn spawn_limit(&self, now: Instant) -> SpawnLimit {
        match self.state {
            BackoffState::Clear => SpawnLimit::Any,
            BackoffState::Resting { until, .. } if now >= until => SpawnLimit::One,
            BackoffState::Resting { .. } | BackoffState::Trying { .. } => SpawnLimit::Nobody,
        }
    }

    /// The one that was allowed has been started.
    pub fn tried(&mut self) {
        if let BackoffState::Resting { pause, .. } = self.state {
            self.state = BackoffState::Trying { pause };
        }
    }

    /// When the pause is over; `None` without one.
    pub fn deadline(&self) -> Option<Instant> {
        if let BackoffState::Resting { until, .. } = self.state { Some(until) } else { None }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn at_first_anybody_may_be_started() {
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
            assert_eq!(backoff.spawn_limit(now + pause - Duration::from_millis(1)), SpawnLimit::Nobody);
            now += pause;
            assert_eq!((backoff.deadline(), backoff.spawn_limit(now)), (Some(now), SpawnLimit::One));
            backoff.tried();
            assert_eq!((backoff.deadline(), backoff.spawn_limit(now)), (None, SpawnLimit::Nobody));
        }
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[8..], [25_600, 30_000, 30_000, 30_000]);
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
