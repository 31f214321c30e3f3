//! How many I/O threads are in use, and which connections change threads.
//!
//! A thread that serves many connections wakes up seldom and does much each time; two that share them wake up twice as
//! often and take the processors from the workers. So as few threads are in use as can carry the load.
//!
//! More would help if processors are idle; or if those in use wait for processors, which others take: the system divides
//! processors among threads, so that more threads get more of them.
//!
//! Promises: it looks at one tick at a time; another thread comes into use only if those in use are busy and it would
//! help; none goes out of use before it has been dispensable for a while. Refuses: it knows no connection, and reads no
//! clock.
//!
//! ```text
//!   Steady ──those in use are busy or starved──▶ Strained ──still, and more would help──▶ Steady, with more in use
//!     │                                            └──not any more──▶ Steady
//!     └──one fewer would do, for CALM_TICKS──▶ Steady, with one fewer
//! ```

use std::time::Duration;

use crate::limits::IO_SCALING_TICK;

/// Decides about the I/O threads at each tick, [`IO_SCALING_TICK`] after the last.
#[derive(Debug)]
pub(in crate::serve) struct IoScaling {
    in_use: usize,
    is_strained: bool,
    /// For how many ticks one thread fewer would have done.
    calm_ticks: u32,
}

/// What a thread did since the last tick, as parts of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::serve) struct IoUse {
    /// It had a processor.
    pub(in crate::serve) cpu: f64,
    /// It had something to do.
    pub(in crate::serve) awake: f64,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::serve) struct IoPlan {
    /// How many threads are in use.
    pub(in crate::serve) in_use: usize,
    /// What changes threads, at most one each.
    pub(in crate::serve) moves: Vec<Move>,
}

/// A share of what a thread serves, which is to go to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::serve) struct Move {
    /// The thread that gives it up.
    pub(in crate::serve) from: usize,
    /// The thread that takes it.
    pub(in crate::serve) to: usize,
    /// The share, above 0 and at most 1.
    pub(in crate::serve) share: f64,
}

/// Threads are busy if they are awake for this much of the time.
const BUSY: f64 = 0.9;

/// Threads are starved if they are awake for this much of the time,
const STARVED_AWAKE: f64 = 0.7;

/// and have a processor for less than this much of that.
const STARVED_CPU: f64 = 0.9;

/// Another thread needs so much idle time, in processors.
const IDLE_MIN: f64 = 0.2;

/// A thread is dispensable if the others would then be awake for this much of the time.
const CALM: f64 = 0.5;

/// How long it must have been.
const CALM_TIME: Duration = Duration::from_secs(30);

/// So many ticks that takes.
#[expect(clippy::cast_possible_truncation, reason = "they are few")]
const CALM_TICKS: u32 = (CALM_TIME.as_millis() / IO_SCALING_TICK.as_millis()) as u32;

/// Two threads are uneven if one is awake for so much more of the time.
const UNEVEN: f64 = 0.3;

impl IoScaling {
    /// Starts with one thread in use.
    pub(in crate::serve) fn new() -> Self {
        Self { in_use: 1, is_strained: false, calm_ticks: 0 }
    }

    /// Returns whether the next decision may depend on how idle the processors are.
    pub(in crate::serve) fn asks_for_idle_time(&self) -> bool {
        self.is_strained
    }

    /// Looks at what each thread did since the last tick, and at how many processors were idle, which is `None` if nobody
    /// knows.
    pub(in crate::serve) fn tick(&mut self, uses: &[IoUse], idle: Option<f64>) -> IoPlan {
        let in_use = &uses[..self.in_use];
        let awake: f64 = in_use.iter().map(|one| one.awake).sum();
        let cpu: f64 = in_use.iter().map(|one| one.cpu).sum();
        let is_starved = awake >= STARVED_AWAKE * self.count() && cpu < STARVED_CPU * awake;
        let is_strained = self.in_use < uses.len() && (awake >= BUSY * self.count() || is_starved);
        let was_strained = std::mem::replace(&mut self.is_strained, is_strained);
        if was_strained && self.is_strained {
            self.grow(uses.len(), idle, is_starved);
        }
        self.shrink(awake);
        let loads: Vec<f64> = uses.iter().map(|one| one.awake).collect();
        IoPlan { in_use: self.in_use, moves: self.moves(&loads) }
    }

    /// Takes as many more threads into use as processors have time for, and at most twice as many as before; one if those
    /// in use are starved.
    fn grow(&mut self, threads: usize, idle: Option<f64>, is_starved: bool) {
        let idle = idle.unwrap_or(1.0);
        if idle >= IDLE_MIN || is_starved {
            let more = (1..=self.in_use).rev().find(|more| idle >= as_share(*more)).unwrap_or(1);
            self.in_use = threads.min(self.in_use + more);
            self.is_strained = false;
        }
    }

    /// Takes a thread out of use that has long been dispensable.
    fn shrink(&mut self, awake: f64) {
        let is_calm = self.in_use > 1 && awake <= CALM * (self.count() - 1.0);
        self.calm_ticks = if is_calm { self.calm_ticks + 1 } else { 0 };
        if self.calm_ticks >= CALM_TICKS {
            self.in_use -= 1;
            self.calm_ticks = 0;
        }
    }

    /// Threads out of use give up all that they have; of those in use, the busiest gives to the least busy, the second
    /// busiest to the second least busy, and so on.
    fn moves(&self, loads: &[f64]) -> Vec<Move> {
        let mut by_load: Vec<usize> = (0..self.in_use).collect();
        by_load.sort_by(|one, other| loads[*other].total_cmp(&loads[*one]));
        let pairs = by_load.iter().zip(by_load.iter().rev()).take(self.in_use / 2);
        let uneven = pairs.filter(|(from, to)| loads[**from] - loads[**to] >= UNEVEN);
        let share = |from: usize, to: usize| (loads[from] - loads[to]) / (2.0 * loads[from]);
        let between = uneven.map(|(from, to)| Move { from: *from, to: *to, share: share(*from, *to) });
        let out_of_use = (self.in_use..loads.len()).map(|from| {
            let to = by_load[by_load.len() - 1 - from % by_load.len()];
            Move { from, to, share: 1.0 }
        });
        between.chain(out_of_use).collect()
    }

    fn count(&self) -> f64 {
        as_share(self.in_use)
    }
}

/// A number of threads as the processors that they would use.
fn as_share(threads: usize) -> f64 {
    f64::from(u32::try_from(threads).unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "io_scaling_tests.rs"]
mod tests;
