//! Scaling: how many workers a pool should have.
//!
//! Pure: the number of workers stays between minimum and maximum; the pool grows when jobs wait and no worker is idle,
//! by as many workers as are needed, so that a burst is not met one worker at a time; it shrinks when workers have been
//! idle for long. The rules start and stop no worker, and read no clock.
//!
//! ```text
//!            below the minimum: spawn the missing
//!            jobs wait, none idle, room: spawn for what waits
//!   as it is ─────────────────────────────────────────────────▶ as it is
//!            nothing waits, idle for long, above the minimum: retire
//! ```

use std::time::Duration;

use super::state::PoolSize;

/// The state of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalingSample {
    /// The number of workers that were not ordered to end, including those that boot.
    pub active: usize,
    /// The number of those that boot.
    pub booting: usize,
    /// The workers that could take work now.
    pub idle: Vec<IdleWorker>,
    /// The number of jobs that no worker has taken.
    pub waiting: usize,
}

/// A worker with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleWorker {
    /// Its slot.
    pub slot: usize,
    /// How long it has been idle.
    pub idle_for: Duration,
}

/// The decision of [`Scaling`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// The number of workers to start.
    pub spawn: usize,
    /// The slots of the workers to retire.
    pub retire: Vec<usize>,
}

/// The scaling rules of one pool.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    size: PoolSize,
    idle_max: Duration,
}

impl Scaling {
    /// Makes the rules of a pool of this size, in which workers may be idle for `idle_max`.
    pub fn new(size: PoolSize, idle_max: Duration) -> Self {
        Self { size, idle_max }
    }

    /// Returns whether the pool could grow.
    pub fn has_room(&self, active: usize) -> bool {
        active < self.size.max
    }

    /// Returns the decision for the state of the pool.
    pub fn decide(&self, sample: &ScalingSample) -> Scale {
        let PoolSize { min, max } = self.size;
        if sample.active < min {
            return Scale { spawn: min - sample.active, retire: Vec::new() };
        }
        if sample.waiting > 0 {
            // The workers that boot will take the oldest jobs.
            let uncovered = sample.waiting.saturating_sub(sample.booting);
            let room = max.saturating_sub(sample.active);
            let spawn = if sample.idle.is_empty() { uncovered.min(room) } else { 0 };
            return Scale { spawn, retire: Vec::new() };
        }
        let mut idle_for_long: Vec<_> =
            sample.idle.iter().filter(|worker| worker.idle_for >= self.idle_max).copied().collect();
        idle_for_long.sort_unstable_by_key(|worker| std::cmp::Reverse((worker.idle_for, worker.slot)));
        idle_for_long.truncate(sample.active - min);
        Scale { spawn: 0, retire: idle_for_long.into_iter().map(|worker| worker.slot).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_MAX: Duration = Duration::from_secs(30);

    fn scaling() -> Scaling {
        Scaling::new(PoolSize { min: 2, max: 8 }, IDLE_MAX)
    }

    fn idle(slot: usize, seconds: u64) -> IdleWorker {
        IdleWorker { slot, idle_for: Duration::from_secs(seconds) }
    }

    fn busy(active: usize, booting: usize, waiting: usize) -> ScalingSample {
        ScalingSample { active, booting, idle: Vec::new(), waiting }
    }

    #[test]
    fn missing_workers_are_spawned_whatever_waits() {
        assert_eq!(scaling().decide(&busy(0, 0, 0)).spawn, 2);
        assert_eq!(scaling().decide(&busy(1, 0, 50)).spawn, 1);
    }

    #[test]
    fn a_burst_brings_as_many_as_it_needs_at_once_and_no_more_than_there_may_be() {
        assert_eq!(scaling().decide(&busy(2, 0, 3)).spawn, 3);
        assert_eq!(scaling().decide(&busy(2, 0, 100)).spawn, 6);
        assert_eq!(scaling().decide(&busy(8, 0, 100)).spawn, 0);
    }

    #[test]
    fn booting_workers_count_towards_the_size() {
        assert_eq!(scaling().decide(&busy(4, 2, 2)).spawn, 0);
        assert_eq!(scaling().decide(&busy(4, 2, 3)).spawn, 1);
    }

    #[test]
    fn work_that_an_idle_worker_will_take_brings_no_worker() {
        let sample = ScalingSample { idle: vec![idle(1, 0)], ..busy(2, 0, 5) };
        assert_eq!(scaling().decide(&sample), Scale::default());
    }

    #[test]
    fn those_idle_for_long_retire_the_longest_first_down_to_the_least_number() {
        let idle = vec![idle(0, 31), idle(1, 40), idle(2, 29), idle(3, 31), idle(4, 100)];
        let sample = ScalingSample { active: 5, booting: 0, idle, waiting: 0 };
        assert_eq!(scaling().decide(&sample).retire, [4, 1, 3]);
    }

    #[test]
    fn no_worker_retires_while_work_waits_or_at_the_least_number() {
        let sample = ScalingSample { active: 3, booting: 0, idle: vec![idle(2, 100)], waiting: 1 };
        assert_eq!(scaling().decide(&sample), Scale::default());
        let sample = ScalingSample { active: 2, waiting: 0, ..sample };
        assert_eq!(scaling().decide(&sample), Scale::default());
    }

    #[test]
    fn a_pool_of_fixed_size_replaces_missing_workers_only() {
        let fixed = Scaling::new(PoolSize { min: 4, max: 4 }, Duration::ZERO);
        assert!(!fixed.has_room(4));
        assert_eq!(fixed.decide(&busy(4, 0, 9)), Scale::default());
        let sample = ScalingSample { active: 4, booting: 0, idle: vec![idle(0, 9); 4], waiting: 0 };
        assert_eq!(fixed.decide(&sample), Scale::default());
        assert_eq!(fixed.decide(&busy(3, 0, 0)).spawn, 1);
    }
}
