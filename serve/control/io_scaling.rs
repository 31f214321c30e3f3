//! How many I/O threads are in use, and which connections move between threads.
//!
//! A thread that serves many connections wakes up seldom and does much each time; two threads that share them wake up
//! twice as often and take processor time from the workers. Therefore as few threads are in use as can carry the load.
//!
//! More threads help if processors are idle, or if those in use wait for processors that others occupy: the system
//! divides processors among threads, so more threads get more of them.
//!
//! The machine considers one tick at a time; another thread comes into use only if those in use are busy and it would
//! help; a thread goes out of use only after it has been superfluous for a while. It does not select connections, and
//! reads no clock.
//!
//! ```text
//!   Steady ──those in use are busy or starved──▶ Strained ──still so, and more would help──▶ Steady, with more in use
//!     │                                            └──no longer──▶ Steady
//!     └──one fewer would do, for CALM_TICKS──▶ Steady, with one fewer
//! ```
//!
//! There are as many I/O threads as CPUs. A thread is *in use* while it is given connections. A thread with work reports
//! every 25 ms how long it was awake, and how much of that time it had a processor (`core/sync/load_sharing.rs`); the
//! control thread runs the machine twice a second.

use std::time::Duration;

use svc_core::limits::IO_SCALING_TICK;

/// Decides about the I/O threads at each tick, [`IO_SCALING_TICK`] after the previous one.
#[derive(Debug)]
pub(crate) struct IoScaling {
    in_use: usize,
    is_strained: bool,
    /// The number of ticks for which one thread fewer would have sufficed.
    calm_ticks: u32,
}

/// The activity of a thread since the last tick, as fractions of that time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct IoUse {
    /// Its time on a processor.
    pub(crate) cpu: f64,
    /// The time during which it had something to do.
    pub(crate) awake: f64,
}

/// The decision of a tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IoPlan {
    /// The number of threads in use.
    pub(crate) in_use: usize,
    /// The transfers of connections, at most one from each thread.
    pub(crate) moves: Vec<Move>,
}

/// A share of a thread's connections, which moves to another thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Move {
    /// The thread that gives it up.
    pub(crate) from: usize,
    /// The thread that takes it.
    pub(crate) to: usize,
    /// The share, above 0 and at most 1.
    pub(crate) share: f64,
}

/// Threads are busy if they are awake for this fraction of the time.
const BUSY: f64 = 0.9;

/// Threads are starved if they are awake for this fraction of the time,
const STARVED_AWAKE: f64 = 0.7;

/// and have a processor for less than this fraction of that.
const STARVED_CPU: f64 = 0.9;

/// The idle time that another thread requires, in processors.
const IDLE_MIN: f64 = 0.2;

/// A thread is superfluous if the others would then be awake for this fraction of the time.
const CALM: f64 = 0.5;

/// How long a thread must have been superfluous.
const CALM_TIME: Duration = Duration::from_secs(30);

/// The same, in ticks.
#[expect(clippy::cast_possible_truncation, reason = "they are few")]
const CALM_TICKS: u32 = (CALM_TIME.as_millis() / IO_SCALING_TICK.as_millis()) as u32;

/// Two threads are uneven if their awake fractions differ by this much.
const UNEVEN: f64 = 0.3;

impl IoScaling {
    /// Starts with one thread in use.
    pub(crate) fn new() -> Self {
        Self { in_use: 1, is_strained: false, calm_ticks: 0 }
    }

    /// Returns whether the next decision may depend on how idle the processors are.
    pub(crate) fn asks_for_idle_time(&self) -> bool {
        self.is_strained
    }

    /// Processes the activity of each thread since the last tick, and the number of idle processors, which is `None` if
    /// unknown.
    pub(crate) fn tick(&mut self, uses: &[IoUse], idle: Option<f64>) -> IoPlan {
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

    /// Takes as many more threads into use as idle processors allow, but at most doubles their number; only one if those
    /// in use are starved.
    fn grow(&mut self, threads: usize, idle: Option<f64>, is_starved: bool) {
        let idle = idle.unwrap_or(1.0);
        if idle >= IDLE_MIN || is_starved {
            let more = (1..=self.in_use).rev().find(|more| idle >= as_share(*more)).unwrap_or(1);
            self.in_use = threads.min(self.in_use + more);
            self.is_strained = false;
        }
    }

    /// Takes a thread out of use that has been superfluous for long enough.
    fn shrink(&mut self, awake: f64) {
        let is_calm = self.in_use > 1 && awake <= CALM * (self.count() - 1.0);
        self.calm_ticks = if is_calm { self.calm_ticks + 1 } else { 0 };
        if self.calm_ticks >= CALM_TICKS {
            self.in_use -= 1;
            self.calm_ticks = 0;
        }
    }

    /// Threads out of use give up all connections; among those in use, the busiest gives to the least busy, the second
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

/// Converts a number of threads to the number of processors that they would use.
fn as_share(threads: usize) -> f64 {
    f64::from(u32::try_from(threads).unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "io_scaling_tests.rs"]
mod tests;
