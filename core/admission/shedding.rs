//! Shedding episodes: which log records report refusals under overload.
//!
//! The first tick that finds a refusal reports it. A gap shorter than a minute does not end an episode. There is at
//! most one repeat per minute, and only from a tick that found refusals itself. The machine ignores refusals for
//! reasons other than overload, and never changes readiness.
//!
//! ```text
//!             a tick sees refusals: started
//!   Quiet ────────────────────────────────────▶ Shedding ──┐ a minute since the last report, and
//!     ▲                                           │  ▲     │ refusals in this tick: continues
//!     └───────────────────────────────────────────┘  └─────┘
//!             a whole minute without: stopped
//! ```

use std::ops::Sub;
use std::time::{Duration, Instant};

/// Refusals by overload reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The queue was full, and waiting for a slot is disabled.
    pub queue_full: u64,
    /// The wait budget was used up.
    pub wait_timeout: u64,
    /// The waiting set was full.
    pub waiting_full: u64,
    /// The bodies of waiting requests reached their limit.
    pub waiting_bytes: u64,
}

impl Refusals {
    /// Returns the total.
    pub fn sum(&self) -> u64 {
        self.queue_full + self.wait_timeout + self.waiting_full + self.waiting_bytes
    }
}

impl Sub for Refusals {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            queue_full: self.queue_full.saturating_sub(earlier.queue_full),
            wait_timeout: self.wait_timeout.saturating_sub(earlier.wait_timeout),
            waiting_full: self.waiting_full.saturating_sub(earlier.waiting_full),
            waiting_bytes: self.waiting_bytes.saturating_sub(earlier.waiting_bytes),
        }
    }
}

/// A report to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheddingReport {
    /// Refusals have started; this tick found these.
    Started(Refusals),
    /// Refusals continue.
    Continues {
        /// The number of refusals that this tick found.
        refused: u64,
        /// The refusals since the episode began.
        episode: Refusals,
    },
    /// There were no refusals for a whole minute.
    Stopped {
        /// The refusals of the whole episode.
        episode: Refusals,
        /// The time from the first tick that found a refusal to the last.
        duration: Duration,
    },
}

/// The state machine of shedding episodes; it is called once per tick.
#[derive(Clone, Debug, Default)]
pub struct SheddingEpisodes {
    /// The totals at the last tick.
    seen: Refusals,
    episode: Option<Episode>,
}

#[derive(Clone, Copy, Debug)]
struct Episode {
    /// The totals before the episode's first refusal.
    before: Refusals,
    began: Instant,
    last_refusal: Instant,
    last_report: Instant,
}

impl SheddingEpisodes {
    /// Processes the totals since the server started and returns what to log.
    pub fn tick(&mut self, totals: Refusals, now: Instant) -> Option<SheddingReport> {
        let before = std::mem::replace(&mut self.seen, totals);
        let refused = totals - before;
        let any = refused.sum() > 0;
        let Some(episode) = &mut self.episode else {
            if any {
                self.episode = Some(Episode { before, began: now, last_refusal: now, last_report: now });
            }
            return any.then_some(SheddingReport::Started(refused));
        };
        if any {
            episode.last_refusal = now;
            if now.saturating_duration_since(episode.last_report) < REPEAT_AFTER {
                return None;
            }
            episode.last_report = now;
            return Some(SheddingReport::Continues {
                refused: refused.sum(),
                episode: totals - episode.before,
            });
        }
        if now.saturating_duration_since(episode.last_refusal) < QUIET_AFTER {
            return None;
        }
        let report = SheddingReport::Stopped {
            episode: totals - episode.before,
            duration: episode.last_refusal.saturating_duration_since(episode.began),
        };
        self.episode = None;
        Some(report)
    }

    /// Returns the refusals of the present episode if the tick at `now` found any.
    pub fn refused_lately(&self, now: Instant) -> Option<Refusals> {
        let episode = self.episode.filter(|episode| episode.last_refusal == now)?;
        Some(self.seen - episode.before)
    }
}

/// The minimum time between two reports that shedding continues.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// How long there must be no refusals before an episode ends.
const QUIET_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_reported_only_when_there_are_new_ones() {
        let (mut episodes, start) = (SheddingEpisodes::default(), crate::time::now());
        let mut seen = Vec::new();
        for (second, queue_full) in [(0, 0), (1, 3), (2, 3), (3, 8)] {
            let now = start + Duration::from_secs(second);
            episodes.tick(Refusals { queue_full, ..Refusals::default() }, now);
            seen.push(episodes.refused_lately(now).map(|refused| refused.sum()));
        }
        assert_eq!(seen, [None, Some(3), None, Some(8)]);
    }

    /// The state machine with totals and a clock that tests control.
    struct SheddingScene {
        episodes: SheddingEpisodes,
        totals: Refusals,
        now: Instant,
    }

    impl SheddingScene {
        fn new() -> Self {
            Self {
                episodes: SheddingEpisodes::default(),
                totals: Refusals::default(),
                now: crate::time::now(),
            }
        }

        /// Advances the clock by one second, in which this many requests are refused because the queue is full.
        fn second(&mut self, refused: u64) -> Option<SheddingReport> {
            self.now += Duration::from_secs(1);
            self.totals.queue_full += refused;
            self.episodes.tick(self.totals, self.now)
        }
    }

    fn full(queue_full: u64) -> Refusals {
        Refusals { queue_full, ..Refusals::default() }
    }

    #[test]
    fn quiet_says_nothing() {
        let mut scene = SheddingScene::new();
        assert!((0..200).all(|_| scene.second(0).is_none()));
    }

    #[test]
    fn the_first_scan_with_refusals_starts_an_episode() {
        let mut scene = SheddingScene::new();
        assert_eq!(scene.second(5), Some(SheddingReport::Started(full(5))));
        assert_eq!(scene.second(7), None);
    }

    #[test]
    fn the_first_scan_of_all_reports_everything_before_it() {
        let mut scene = SheddingScene::new();
        scene.totals = Refusals { queue_full: 1, wait_timeout: 2, waiting_full: 3, waiting_bytes: 4 };
        let Some(SheddingReport::Started(refused)) = scene.second(0) else { panic!("nothing was reported") };
        assert_eq!((refused, refused.sum()), (scene.totals, 10));
    }

    #[test]
    fn an_episode_repeats_once_a_minute_with_this_scan_and_all() {
        let mut scene = SheddingScene::new();
        scene.second(1);
        assert!((1..60).all(|_| scene.second(2).is_none()));
        let expected = SheddingReport::Continues { refused: 3, episode: full(1 + 59 * 2 + 3) };
        assert_eq!(scene.second(3), Some(expected));
        assert!((1..60).all(|_| scene.second(1).is_none()));
        assert!(matches!(scene.second(1), Some(SheddingReport::Continues { refused: 1, .. })));
    }

    #[test]
    fn a_scan_without_refusals_does_not_repeat() {
        let mut scene = SheddingScene::new();
        scene.second(1);
        assert!((0..50).all(|_| scene.second(1).is_none()));
        assert!((0..30).all(|_| scene.second(0).is_none()), "the minute passes in a lull");
        assert!(matches!(scene.second(1), Some(SheddingReport::Continues { .. })));
    }

    #[test]
    fn a_gap_below_a_minute_belongs_to_the_episode() {
        let mut scene = SheddingScene::new();
        scene.second(1);
        assert!((0..59).all(|_| scene.second(0).is_none()));
        assert!(
            matches!(scene.second(1), Some(SheddingReport::Continues { episode, .. }) if episode == full(2))
        );
    }

    #[test]
    fn a_quiet_minute_ends_it_and_the_duration_runs_to_the_last_refusal() {
        let mut scene = SheddingScene::new();
        scene.second(1);
        for _ in 0..10 {
            scene.second(2);
        }
        assert!((0..59).all(|_| scene.second(0).is_none()));
        let expected = SheddingReport::Stopped { episode: full(21), duration: Duration::from_secs(10) };
        assert_eq!(scene.second(0), Some(expected));
        assert_eq!(scene.second(0), None);
        assert_eq!(
            scene.second(4),
            Some(SheddingReport::Started(full(4))),
            "the next one starts from nothing"
        );
    }
}
