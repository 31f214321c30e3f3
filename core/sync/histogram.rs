//! Distributions over fixed bounds.
//!
//! Recording a value is two additions to cells that few threads share, without a lock or an allocation. The count of a
//! snapshot is the sum of its buckets, so that the two never disagree. Bounds never change.

use super::primitive::{CachePadded, Ordering};
use super::stripe::{Cell, STRIPES, thread_stripe};

/// The maximum number of bounds. There is one more bucket, above the last bound.
pub const BOUNDS_MAX: usize = 15;

const BUCKETS: usize = BOUNDS_MAX + 1;

/// A histogram over fixed upper bounds, inclusive, in ascending order.
///
/// # Ordering
///
/// Relaxed throughout: a statistic that orders nothing. A snapshot reads the sums before the buckets.
///
/// # Progress
///
/// `record` is wait-free. Stripes are padded because the threads with different seats write them.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    stripes: [CachePadded<Stripe>; STRIPES],
}

#[derive(Debug)]
struct Stripe {
    buckets: [Cell; BUCKETS],
    sum: Cell,
}

/// The values of a histogram at one time; the default has no bounds and no values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The upper bounds.
    pub bounds: &'static [u64],
    buckets: [u64; BUCKETS],
    /// The sum of the values.
    pub sum: u64,
}

impl Histogram {
    /// Creates an empty histogram.
    ///
    /// # Panics
    ///
    /// If there are more than [`BOUNDS_MAX`] bounds or they do not ascend.
    pub fn new(bounds: &'static [u64]) -> Self {
        assert!(bounds.len() <= BOUNDS_MAX, "too many bounds");
        assert!(bounds.is_sorted_by(|low, high| low < high), "bounds must ascend");
        let stripe =
            |_| CachePadded::new(Stripe { buckets: std::array::from_fn(|_| Cell::new()), sum: Cell::new() });
        Self { bounds, stripes: std::array::from_fn(stripe) }
    }

    /// Records `value`.
    #[inline]
    pub fn record(&self, value: u64) {
        let own = thread_stripe();
        let stripe = &self.stripes[own.index];
        stripe.buckets[self.bucket_of(value)].add(own, 1, Ordering::Relaxed);
        stripe.sum.add(own, value, Ordering::Relaxed);
    }

    /// Returns the current distribution.
    pub fn snapshot(&self) -> Snapshot {
        let sum =
            self.stripes.iter().fold(0u64, |sum, one| sum.wrapping_add(one.sum.value(Ordering::Relaxed)));
        let bucket = |index: usize| {
            self.stripes.iter().map(|one| one.buckets[index].value(Ordering::Relaxed)).sum::<u64>()
        };
        Snapshot { bounds: self.bounds, buckets: std::array::from_fn(bucket), sum }
    }

    /// Returns the number of bounds below `value`. All are compared, so that no branch depends on the value.
    #[inline]
    fn bucket_of(&self, value: u64) -> usize {
        self.bounds.iter().map(|bound| usize::from(value > *bound)).sum::<usize>().min(BOUNDS_MAX)
    }
}

impl Snapshot {
    /// Returns the number of values in each bucket (not cumulative); the last bucket is above all bounds.
    pub fn buckets(&self) -> &[u64] {
        &self.buckets[..=self.bounds.len()]
    }

    /// Returns the number of values, the sum of all buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_is_below_it() {
        let histogram = Histogram::new(&[10, 20]);
        for value in [0, 10, 11, 20, 21, 1_000_000] {
            histogram.record(value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.buckets(), [2, 2, 2]);
        assert_eq!((snapshot.count(), snapshot.sum), (6, 1_000_062));
    }

    #[test]
    fn no_value_of_any_thread_is_lost() {
        let histogram = Histogram::new(&[100]);
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| (0..1000).for_each(|value| histogram.record(value)));
            }
        });
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count(), 2 * STRIPES as u64 * 1000);
        assert_eq!(snapshot.sum, 2 * STRIPES as u64 * 499_500);
        assert_eq!(snapshot.buckets()[0], 2 * STRIPES as u64 * 101);
    }

    #[test]
    #[should_panic(expected = "bounds must ascend")]
    fn bounds_that_do_not_ascend_are_refused() {
        let _ = Histogram::new(&[2, 2]);
    }
}
