//! Load sharing between threads of one kind: the load of each, the number of threads in use, and the share of work that
//! a busy thread should hand over to another.
//!
//! A thread reads its order from a single word. Nothing is decided here: the control thread reads the loads and gives
//! orders; the threads follow them or not, and the control thread does not wait for that.

use std::time::Duration;

use super::primitive::{AtomicU64, AtomicUsize, CachePadded, Ordering};
use crate::time::as_micros;

/// The loads of threads of one kind, and their orders.
///
/// # Ordering
///
/// Statistics and advice: everything is `Relaxed`. An order is a single word, so that it is never torn; a thread that
/// sees an outdated one follows it a moment longer.
#[derive(Debug)]
pub struct LoadSharing {
    in_use: AtomicUsize,
    threads: Box<[CachePadded<ThreadLoad>]>,
}

#[derive(Debug)]
struct ThreadLoad {
    /// The processor time that the thread had used at its last report, in microseconds. Written by the thread.
    cpu_us: AtomicU64,
    /// How long the thread had been awake at its last report, in microseconds. Written by the thread.
    awake_us: AtomicU64,
    /// The current order, packed. Written by the control thread.
    order: AtomicU64,
}

/// The load of a thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// The processor time used.
    pub cpu: Duration,
    /// How long it had work to do, including waits for a processor.
    pub awake: Duration,
}

/// The share of its idle connections that a thread should hand over. Each connection is considered once per order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoverOrder {
    /// Distinguishes an order from the previous one.
    pub round: u32,
    /// The receiving thread.
    pub to: u16,
    /// The share, in parts of [`WHOLE`](Self::WHOLE); 0 to keep all connections.
    pub share: u16,
}

impl HandoverOrder {
    /// The share that means all connections.
    pub const WHOLE: u16 = 1024;

    fn pack(self) -> u64 {
        u64::from(self.round) << 32 | u64::from(self.to) << 16 | u64::from(self.share)
    }

    fn unpack(word: u64) -> Self {
        let [round_high, round_low, to, share] =
            [48, 32, 16, 0].map(|shift| u16::try_from(word >> shift & 0xffff).unwrap_or(0));
        Self { round: u32::from(round_high) << 16 | u32::from(round_low), to, share }
    }
}

impl LoadSharing {
    /// Creates the state of `threads` threads, of which the first `in_use` are in use; each number is at least one.
    pub fn new(threads: usize, in_use: usize) -> Self {
        let load = || ThreadLoad {
            cpu_us: AtomicU64::new(0),
            awake_us: AtomicU64::new(0),
            order: AtomicU64::new(0),
        };
        let threads: Box<[_]> = (0..threads.max(1)).map(|_| CachePadded::new(load())).collect();
        Self { in_use: AtomicUsize::new(in_use.clamp(1, threads.len())), threads }
    }

    /// Returns how many of the threads, counted from the first, get new connections.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Sets how many of the threads are in use.
    pub fn use_first(&self, threads: usize) {
        debug_assert!((1..=self.threads.len()).contains(&threads), "there are no {threads} threads");
        self.in_use.store(threads, Ordering::Relaxed);
    }

    /// Records the load of a thread since it started.
    pub fn note(&self, thread: usize, done: ThreadUse) {
        let thread = &self.threads[thread];
        thread.cpu_us.store(as_micros(done.cpu), Ordering::Relaxed);
        thread.awake_us.store(as_micros(done.awake), Ordering::Relaxed);
    }

    /// Returns the last reported load of each thread.
    pub fn uses(&self) -> Vec<ThreadUse> {
        let read = |word: &AtomicU64| Duration::from_micros(word.load(Ordering::Relaxed));
        let of = |thread: &CachePadded<ThreadLoad>| ThreadUse {
            cpu: read(&thread.cpu_us),
            awake: read(&thread.awake_us),
        };
        self.threads.iter().map(of).collect()
    }

    /// Sets the order of a thread, replacing the previous one.
    pub fn order(&self, thread: usize, order: HandoverOrder) {
        self.threads[thread].order.store(order.pack(), Ordering::Relaxed);
    }

    /// Returns the order of a thread.
    pub fn order_of(&self, thread: usize) -> HandoverOrder {
        HandoverOrder::unpack(self.threads[thread].order.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given() {
        let sharing = LoadSharing::new(3, 1);
        let given = HandoverOrder { round: 0xdead_beef, to: 0x1234, share: HandoverOrder::WHOLE };
        sharing.order(2, given);
        assert_eq!(sharing.order_of(2), given);
        assert_eq!(sharing.order_of(1), HandoverOrder::default());
    }

    #[test]
    fn loads_are_those_of_their_threads() {
        let sharing = LoadSharing::new(2, 1);
        let done = ThreadUse { cpu: Duration::from_micros(1500), awake: Duration::from_micros(1700) };
        sharing.note(1, done);
        assert_eq!(sharing.uses(), [ThreadUse::default(), done]);
    }

    #[test]
    fn there_is_always_a_thread_in_use() {
        assert_eq!(LoadSharing::new(0, 0).in_use(), 1);
        assert_eq!(LoadSharing::new(2, 5).in_use(), 2);
    }
}
