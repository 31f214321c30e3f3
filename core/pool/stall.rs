//! The stalled pool: every thread is alive, and none takes jobs off the queue.
//!
//! Nothing is reported before the pool has finished its first job; one suspect tick is not enough; only a finished
//! job, or a minute in which the pool never looked stalled, ends the stall. The detector does not know why a pool is
//! stalled, and takes no action. Settings, log and docs call a stalled pool wedged.
//!
//! ```text
//!              suspect twice: warning             suspect for a minute more
//!   Normal ─────────────────────────▶ Suspected ────────────────────────────▶ Stalled
//!     ▲                                   │                                     │
//!     ├── a job was finished: recovered ────────────────────────────────────────┤
//!     └── a minute that never looked suspect (no record) ───────────────────────┘
//! ```

use std::time::{Duration, Instant};

/// The data of a tick. The counts never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallSample {
    /// The number of jobs in the queue.
    pub queued: u64,
    /// Jobs refused since the start, for any reason.
    pub refused: u64,
    /// The number of threads without a job.
    pub workers_idle: usize,
    /// Jobs that workers have finished since the start.
    pub finished: u64,
}

/// A report to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReport {
    /// Work moves again after a warning.
    Recovered,
    /// Jobs wait, workers are idle, and no job is finished.
    Warning,
}

/// Detects a stalled pool.
#[derive(Clone, Debug, Default)]
pub struct StallDetector {
    /// The sample of the last tick.
    last: Option<StallSample>,
    state: StallState,
}

#[derive(Clone, Copy, Debug, Default)]
enum StallState {
    /// The last tick saw nothing suspect.
    #[default]
    Normal,
    /// The last tick looked suspect.
    Doubtful,
    Suspected {
        /// Since when every tick has looked suspect; `None` if the last one did not.
        held_since: Option<Instant>,
        warned_at: Instant,
    },
    Stalled {
        warned_at: Instant,
        looked_stalled_at: Instant,
    },
}

impl StallDetector {
    /// Returns whether the pool counts as stalled.
    pub fn is_stalled(&self) -> bool {
        matches!(self.state, StallState::Stalled { .. })
    }

    /// Processes the data of one tick; returns a report to log.
    pub fn tick(&mut self, sample: StallSample, now: Instant) -> Option<StallReport> {
        let last = self.last.replace(sample)?;
        if sample.finished > last.finished {
            let warned = matches!(self.state, StallState::Suspected { .. } | StallState::Stalled { .. });
            self.state = StallState::Normal;
            return warned.then_some(StallReport::Recovered);
        }
        let work_waits = sample.queued > 0 || sample.refused > last.refused;
        let is_suspect = work_waits && sample.workers_idle > 0 && sample.finished > 0;
        let (state, report) = if is_suspect { self.state.suspect(now) } else { self.state.innocent(now) };
        self.state = state;
        report
    }
}

impl StallState {
    fn suspect(self, now: Instant) -> (Self, Option<StallReport>) {
        let repeat = |warned_at: Instant| now.saturating_duration_since(warned_at) >= WARNING_AFTER;
        match self {
            Self::Normal => (Self::Doubtful, None),
            Self::Doubtful => {
                (Self::Suspected { held_since: Some(now), warned_at: now }, Some(StallReport::Warning))
            }
            Self::Suspected { held_since, warned_at } => {
                let since = held_since.unwrap_or(now);
                let warns = repeat(warned_at);
                let warned_at = if warns { now } else { warned_at };
                let state = if now.saturating_duration_since(since) >= HOLD {
                    Self::Stalled { warned_at, looked_stalled_at: now }
                } else {
                    Self::Suspected { held_since: Some(since), warned_at }
                };
                (state, warns.then_some(StallReport::Warning))
            }
            Self::Stalled { warned_at, .. } => {
                let warns = repeat(warned_at);
                let warned_at = if warns { now } else { warned_at };
                (Self::Stalled { warned_at, looked_stalled_at: now }, warns.then_some(StallReport::Warning))
            }
        }
    }

    fn innocent(self, now: Instant) -> (Self, Option<StallReport>) {
        let state = match self {
            Self::Normal | Self::Doubtful => Self::Normal,
            // A lull is not a recovery, but the minute starts over.
            Self::Suspected { warned_at, .. } => Self::Suspected { held_since: None, warned_at },
            Self::Stalled { looked_stalled_at, .. }
                if now.saturating_duration_since(looked_stalled_at) >= RECOVERY =>
            {
                Self::Normal
            }
            stalled @ Self::Stalled { .. } => stalled,
        };
        (state, None)
    }
}

/// How long a suspicion must hold.
const HOLD: Duration = Duration::from_secs(60);

/// How long a stalled pool must not look stalled to count as recovered.
const RECOVERY: Duration = Duration::from_secs(60);

/// The minimum time between two warnings.
const WARNING_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    struct StallScene {
        detector: StallDetector,
        sample: StallSample,
        now: Instant,
    }

    impl StallScene {
        /// A pool that has finished one request; work waits while a worker is idle.
        fn stuck() -> Self {
            let sample = StallSample { queued: 3, refused: 0, workers_idle: 1, finished: 1 };
            let mut scene = Self { detector: StallDetector::default(), sample, now: crate::time::now() };
            assert_eq!(scene.second(), None, "the first tick has nothing to compare with");
            scene
        }

        fn suspected() -> Self {
            let mut scene = Self::stuck();
            assert_eq!(scene.second(), None);
            assert_eq!(scene.second(), Some(StallReport::Warning));
            scene
        }

        fn stalled() -> Self {
            let mut scene = Self::suspected();
            scene.seconds(60);
            assert!(scene.detector.is_stalled());
            scene
        }

        fn second(&mut self) -> Option<StallReport> {
            self.now += Duration::from_secs(1);
            self.detector.tick(self.sample, self.now)
        }

        fn seconds(&mut self, count: u32) {
            for _ in 0..count {
                self.second();
            }
        }
    }

    #[test]
    fn normal_to_suspected_needs_two_ticks_in_a_row() {
        let mut scene = StallScene::stuck();
        for _ in 0..10 {
            assert_eq!(scene.second(), None);
            scene.sample.queued = 0;
            assert_eq!(scene.second(), None);
            scene.sample.queued = 3;
        }
        assert_eq!(scene.second(), None);
        assert_eq!(scene.second(), Some(StallReport::Warning));
    }

    #[test]
    fn nothing_is_said_before_the_first_finished_request() {
        let mut scene = StallScene::stuck();
        scene.detector = StallDetector::default();
        scene.sample.finished = 0;
        assert!((0..200).all(|_| scene.second().is_none()));
        assert!(!scene.detector.is_stalled());
    }

    #[test]
    fn a_pool_without_an_idle_worker_or_without_waiting_work_is_not_suspect() {
        for (queued, workers_idle) in [(3, 0), (0, 4)] {
            let mut scene = StallScene::stuck();
            (scene.sample.queued, scene.sample.workers_idle) = (queued, workers_idle);
            assert!((0..200).all(|_| scene.second().is_none()));
        }
    }

    #[test]
    fn climbing_refusals_count_as_waiting_work() {
        let mut scene = StallScene::stuck();
        scene.sample.queued = 0;
        scene.sample.refused += 1;
        assert_eq!(scene.second(), None);
        scene.sample.refused += 1;
        assert_eq!(scene.second(), Some(StallReport::Warning));
    }

    #[test]
    fn suspected_to_stalled_takes_a_minute_more() {
        let mut scene = StallScene::suspected();
        scene.seconds(59);
        assert!(!scene.detector.is_stalled());
        scene.second();
        assert!(scene.detector.is_stalled());
    }

    #[test]
    fn a_lull_starts_the_minute_anew_and_is_no_recovery() {
        let mut scene = StallScene::suspected();
        scene.seconds(50);
        scene.sample.queued = 0;
        assert_eq!(scene.second(), None);
        scene.sample.queued = 3;
        scene.seconds(60);
        assert!(!scene.detector.is_stalled());
        scene.second();
        assert!(scene.detector.is_stalled());
    }

    #[test]
    fn a_finished_request_ends_the_stall_and_reports_it() {
        for mut scene in [StallScene::suspected(), StallScene::stalled()] {
            scene.sample.finished += 1;
            assert_eq!(scene.second(), Some(StallReport::Recovered));
            assert!(!scene.detector.is_stalled());
            scene.sample.finished += 1;
            assert_eq!(scene.second(), None, "said once");
        }
    }

    #[test]
    fn a_quiet_minute_clears_the_state_without_a_record() {
        let mut scene = StallScene::stalled();
        scene.sample.queued = 0;
        assert!((0..59).all(|_| scene.second().is_none()));
        assert!(scene.detector.is_stalled());
        assert_eq!(scene.second(), None);
        assert!(!scene.detector.is_stalled());
    }

    #[test]
    fn a_glimpse_of_the_stall_keeps_it() {
        let mut scene = StallScene::stalled();
        for _ in 0..5 {
            scene.sample.queued = 0;
            scene.seconds(59);
            scene.sample.queued = 1;
            scene.second();
            assert!(scene.detector.is_stalled());
        }
    }

    #[test]
    fn the_warning_repeats_once_a_minute() {
        let mut scene = StallScene::suspected();
        let warnings = (0..600).filter(|_| scene.second() == Some(StallReport::Warning)).count();
        assert_eq!(warnings, 10);
    }
}
