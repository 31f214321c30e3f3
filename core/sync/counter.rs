//! Counters and gauges, written by many threads and read by a scrape.
//!
//! A write touches a cell that few threads share, and a read blocks no thread. A counter never decreases, and a
//! population is never negative. A read does not synchronize, and the cells are not read atomically as a whole.

use super::primitive::{AtomicBool, AtomicU64, CachePadded, Ordering};
use super::stripe::{Cell, STRIPES, thread_stripe};

/// A counter. It wraps after 2^64.
///
/// # Ordering
///
/// Relaxed throughout: a statistic that orders nothing.
///
/// # Progress
///
/// `incr` and `add` are wait-free. Cells are padded because threads with different seats write them.
#[derive(Debug)]
pub struct Counter {
    cells: [CachePadded<Cell>; STRIPES],
}

impl Counter {
    /// Starts at 0.
    pub fn new() -> Self {
        Self { cells: std::array::from_fn(|_| CachePadded::new(Cell::new())) }
    }

    /// Adds one.
    #[inline]
    pub fn incr(&self) {
        self.add(1);
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        let own = thread_stripe();
        self.cells[own.index].add(own, n, Ordering::Relaxed);
    }

    /// Reads the sum of all cells.
    pub fn value(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.wrapping_add(cell.value(Ordering::Relaxed)))
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

/// A counter of rare events: a single word shared by all threads. It wraps after 2^64.
///
/// # Ordering
///
/// Relaxed throughout: a statistic that orders nothing.
///
/// # Progress
///
/// Wait-free.
#[derive(Debug, Default)]
pub struct RareCounter(AtomicU64);

impl RareCounter {
    /// Adds one.
    pub fn incr(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A population: the number of entries minus the number of leaves.
///
/// # Ordering
///
/// `leave` is Release, and a read sums the leaves first, with Acquire: for each leave that it sees, it also sees the
/// matching enter. A read may therefore be too high by concurrent entries, but never negative.
#[derive(Debug)]
pub struct UpDown {
    entered: Counter,
    left: [CachePadded<Cell>; STRIPES],
}

impl UpDown {
    /// Starts empty.
    pub fn new() -> Self {
        Self { entered: Counter::new(), left: std::array::from_fn(|_| CachePadded::new(Cell::new())) }
    }

    /// Counts an entry. Each call needs one call of [`leave`](Self::leave), on any thread.
    #[inline]
    pub fn enter(&self) {
        self.entered.incr();
    }

    /// Counts a leave.
    #[inline]
    pub fn leave(&self) {
        let own = thread_stripe();
        // Release: pairs with the Acquire in `value`.
        self.left[own.index].add(own, 1, Ordering::Release);
    }

    /// Reads the population.
    pub fn value(&self) -> u64 {
        // Acquire: pairs with the Release in `leave`.
        let left = self.left.iter().fold(0u64, |sum, cell| sum.wrapping_add(cell.value(Ordering::Acquire)));
        let inside = self.entered.value().wrapping_sub(left);
        debug_assert!(inside <= i64::MAX as u64, "more left than entered");
        inside
    }
}

impl Default for UpDown {
    fn default() -> Self {
        Self::new()
    }
}

/// A gauge that is 0 or 1.
///
/// # Ordering
///
/// Relaxed: a statistic that orders nothing.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Starts cleared.
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Sets it to 1.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sets it to 0.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns whether it is 1.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_of_any_thread_is_lost() {
        let counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| (0..1000).for_each(|_| counter.incr()));
            }
        });
        counter.add(5);
        assert_eq!(counter.value(), 2 * STRIPES as u64 * 1000 + 5);
    }

    #[test]
    fn one_that_enters_here_may_leave_on_any_thread() {
        let population = UpDown::new();
        population.enter();
        assert_eq!(population.value(), 1);
        std::thread::scope(|scope| scope.spawn(|| population.leave()).join().unwrap());
        assert_eq!(population.value(), 0);
    }

    #[test]
    fn a_reading_is_never_negative_while_others_come_and_go() {
        let population = UpDown::new();
        let done = Flag::new();
        let visit = || {
            population.enter();
            population.leave();
        };
        std::thread::scope(|scope| {
            let visitors: Vec<_> =
                (0..3).map(|_| scope.spawn(|| (0..20_000).for_each(|_| visit()))).collect();
            let reader = scope.spawn(|| {
                while !done.is_set() {
                    assert!(population.value() <= u64::from(u32::MAX));
                }
            });
            visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
            done.set();
            reader.join().unwrap();
        });
        assert_eq!(population.value(), 0);
    }

    #[test]
    fn a_flag_is_set_and_cleared() {
        let flag = Flag::new();
        assert!(!flag.is_set());
        flag.set();
        assert!(flag.is_set());
        flag.clear();
        assert!(!flag.is_set());
    }
}
