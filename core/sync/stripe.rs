//! Which cell of a sharded statistic a thread writes to.
//!
//! Promises: the answer costs one thread-local read and never changes during a thread's life; the first
//! [`STRIPES`] threads all write to different cells. Refuses: it is no identity; later threads share cells.

/// The number of cells of a sharded statistic; a power of two.
pub const STRIPES: usize = if cfg!(loom) { 2 } else { 8 };

const _: () = assert!(STRIPES.is_power_of_two(), "a stripe is chosen with a mask");

/// Names the cell that the calling thread writes to.
#[cfg(not(loom))]
#[inline]
pub fn stripe() -> usize {
    use super::primitive::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) & (STRIPES - 1);
    }
    // A thread whose locals are gone already is at its end: any cell will do.
    STRIPE.try_with(|stripe| *stripe).unwrap_or(0)
}

/// Names the cell that the calling thread writes to; a model's threads alternate between them.
#[cfg(loom)]
pub fn stripe() -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};

    let mut hasher = DefaultHasher::new();
    loom::thread::current().id().hash(&mut hasher);
    usize::try_from(hasher.finish() & (STRIPES as u64 - 1)).unwrap_or(0)
}
