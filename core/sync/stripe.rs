//! The assignment of threads to the cells of a sharded statistic.
//!
//! Each of the first [`STRIPES`] counting threads owns a cell and adds to it without a locked instruction; a thread
//! that ends passes its cell on. All later threads share cells, which only costs a little time. A stripe does not
//! identify a thread.

use super::primitive::{AtomicU64, Ordering};

/// The number of cells of a sharded statistic.
pub const STRIPES: usize = if cfg!(loom) { 2 } else { 16 };

/// The cell that the calling thread writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStripe {
    /// The index of its cell, below [`STRIPES`].
    pub index: usize,
    is_owner: bool,
}

impl ThreadStripe {
    const SHARED: Self = Self { index: 0, is_owner: false };
}

/// One cell: a word for its owner, and one for all other threads.
///
/// # Ordering
///
/// The caller chooses the ordering; `Release` and `Acquire` pair in either word. A new owner sees all writes of the
/// previous owner (see `real::HeldStripe`).
#[derive(Debug)]
pub struct Cell {
    owned: AtomicU64,
    shared: AtomicU64,
}

impl Cell {
    /// Starts at 0.
    pub fn new() -> Self {
        Self { owned: AtomicU64::new(0), shared: AtomicU64::new(0) }
    }

    /// Adds `n`; the stripe must be that of the calling thread.
    #[inline]
    pub fn add(&self, stripe: ThreadStripe, n: u64, ordering: Ordering) {
        if stripe.is_owner {
            // Only this thread writes the word, so the load and the store need not be one atomic operation.
            self.owned.store(self.owned.load(Ordering::Relaxed).wrapping_add(n), ordering);
        } else {
            self.shared.fetch_add(n, ordering);
        }
    }

    /// Returns the sum of both words.
    #[inline]
    pub fn value(&self, ordering: Ordering) -> u64 {
        self.owned.load(ordering).wrapping_add(self.shared.load(ordering))
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the stripe of the calling thread.
#[inline]
pub fn thread_stripe() -> ThreadStripe {
    real::thread_stripe()
}

#[cfg(not(loom))]
mod real {
    use super::{STRIPES, ThreadStripe};
    use crate::sync::primitive::{AtomicU32, AtomicUsize, Ordering};

    const _: () = assert!(STRIPES <= u32::BITS as usize, "one bit for each owner");

    /// One bit for each owned cell.
    static OWNED: AtomicU32 = AtomicU32::new(0);
    /// Distributes the threads that found no free cell.
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    /// A stripe for the life of a thread.
    pub(super) struct HeldStripe(pub(super) ThreadStripe);

    impl HeldStripe {
        pub(super) fn take() -> Self {
            let free = |owned: u32| {
                let stripe = owned.trailing_ones();
                ((stripe as usize) < STRIPES).then(|| owned | 1 << stripe)
            };
            // Acquire: pairs with the Release in `drop`, so that counting continues from the last owner's figures.
            match OWNED.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
                Ok(owned) => Self(ThreadStripe { index: owned.trailing_ones() as usize, is_owner: true }),
                Err(_) => Self(ThreadStripe {
                    index: NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES,
                    is_owner: false,
                }),
            }
        }
    }

    impl Drop for HeldStripe {
        fn drop(&mut self) {
            if self.0.is_owner {
                // Release: pairs with the Acquire in `take`.
                OWNED.fetch_and(!(1 << self.0.index), Ordering::Release);
            }
        }
    }

    thread_local! {
        static HELD: HeldStripe = HeldStripe::take();
    }

    #[inline]
    pub(super) fn thread_stripe() -> ThreadStripe {
        // A thread whose thread-locals are destroyed is ending and uses the shared stripe.
        HELD.try_with(|held| held.0).unwrap_or(ThreadStripe::SHARED)
    }
}

#[cfg(loom)]
mod real {
    use super::{STRIPES, ThreadStripe};

    /// Returns the stripe of a model's thread: the first threads own the cells, the later ones share them.
    pub(super) fn thread_stripe() -> ThreadStripe {
        // The name contains the thread's number in its model; a hash would also depend on the run.
        let name = format!("{:?}", loom::thread::current().id());
        let digits = name.bytes().filter(u8::is_ascii_digit);
        let number = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
        let shared = ThreadStripe { index: number % STRIPES, ..ThreadStripe::SHARED };
        if number < STRIPES { ThreadStripe { is_owner: true, ..shared } } else { shared }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_live_at_once_never_own_the_same_cell() {
        let count = 2 * STRIPES;
        let all_seated = Barrier::new(count);
        let stripes: Vec<ThreadStripe> = std::thread::scope(|scope| {
            let sit = || {
                let stripe = thread_stripe();
                all_seated.wait();
                assert_eq!(stripe, super::thread_stripe(), "a stripe never changes");
                stripe
            };
            let threads: Vec<_> = (0..count).map(|_| scope.spawn(sit)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut owners: Vec<_> =
            stripes.iter().filter(|stripe| stripe.is_owner).map(|stripe| stripe.index).collect();
        let owners_count = owners.len();
        owners.sort_unstable();
        owners.dedup();
        assert_eq!(owners.len(), owners_count);
        assert!(owners_count <= STRIPES && stripes.iter().all(|stripe| stripe.index < STRIPES));
    }

    #[test]
    fn figures_survive_their_owners() {
        let cells: [Cell; STRIPES] = std::array::from_fn(|_| Cell::new());
        for _ in 0..10 * STRIPES {
            std::thread::scope(|scope| {
                scope.spawn(|| cells[thread_stripe().index].add(thread_stripe(), 1, Ordering::Relaxed));
            });
        }
        let sum: u64 = cells.iter().map(|cell| cell.value(Ordering::Relaxed)).sum();
        assert_eq!(sum, 10 * STRIPES as u64);
    }
}
