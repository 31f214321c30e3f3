//! The gate in front of the pool.
//!
//! Promises: an offer is queued or refused at once. Refuses: nobody waits in front of a full queue.

use crate::sync::primitive::{Arc, AtomicBool, Ordering};
use crate::sync::queue::WorkQueue;

/// Why a request was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// No worker thread is left.
    PoolUnavailable,
    /// The queue is full, and nobody waits in front of it.
    QueueFull,
    /// The server drains.
    ShuttingDown,
    /// Parked bodies fill their limit.
    WaitingBytes,
    /// The waiting set is full.
    WaitingFull,
    /// The whole wait budget passed.
    WaitTimeout,
}

impl ShedReason {
    /// Every reason, in the order of the exposition.
    pub const ALL: [Self; 6] = [
        Self::WaitTimeout,
        Self::WaitingFull,
        Self::WaitingBytes,
        Self::QueueFull,
        Self::ShuttingDown,
        Self::PoolUnavailable,
    ];

    /// The reason's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PoolUnavailable => "pool_unavailable",
            Self::QueueFull => "queue_full",
            Self::ShuttingDown => "shutting_down",
            Self::WaitingBytes => "waiting_bytes",
            Self::WaitingFull => "waiting_full",
            Self::WaitTimeout => "wait_timeout",
        }
    }

    /// The status that a request refused for this reason is answered with.
    pub fn status(self) -> u16 {
        match self {
            Self::PoolUnavailable => 500,
            Self::ShuttingDown => 503,
            Self::QueueFull | Self::WaitingBytes | Self::WaitingFull | Self::WaitTimeout => 529,
        }
    }
}

/// The verdict on an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// In the queue; a worker will take it.
    Queued,
    /// Not admitted; the caller answers.
    Refused(ShedReason),
}

/// A reading of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateFacts {
    /// Entries in the queue, answered ones included.
    pub depth: usize,
    /// Places in the queue.
    pub capacity: usize,
    /// Places that nobody holds.
    pub slots_available: usize,
}

/// The gate: admits to the queue while it has room and the server is not draining.
#[derive(Debug)]
pub struct Gate<T> {
    queue: Arc<WorkQueue<T>>,
    closed: AtomicBool,
}

impl<T> Gate<T> {
    /// Makes an open gate in front of `queue`.
    pub fn new(queue: Arc<WorkQueue<T>>) -> Self {
        Self { queue, closed: AtomicBool::new(false) }
    }

    /// Admits `entry` or says why not. `workers_running` is how many threads could take it. Once the caller has
    /// offered all that it has at hand, it calls [`announce`](Self::announce).
    pub fn offer(&self, entry: T, workers_running: usize) -> Offer {
        if self.closed.load(Ordering::Relaxed) {
            return Offer::Refused(ShedReason::ShuttingDown);
        }
        if workers_running == 0 {
            return Offer::Refused(ShedReason::PoolUnavailable);
        }
        match self.queue.push_unannounced(entry) {
            Ok(()) => Offer::Queued,
            Err(_) => Offer::Refused(ShedReason::QueueFull),
        }
    }

    /// Tells the workers that something was admitted.
    pub fn announce(&self) {
        self.queue.announce();
    }

    /// Admits nothing from now on. What is queued stays queued.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Reads the gate.
    pub fn facts(&self) -> GateFacts {
        let (depth, capacity) = (self.queue.len(), self.queue.capacity());
        GateFacts { depth, capacity, slots_available: capacity - depth.min(capacity) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn gate(capacity: usize) -> Gate<u32> {
        Gate::new(Arc::new(WorkQueue::new(capacity)))
    }

    #[test]
    fn a_full_queue_refuses() {
        let gate = gate(1);
        assert_eq!(gate.offer(1, 1), Offer::Queued);
        assert_eq!(gate.offer(2, 1), Offer::Refused(ShedReason::QueueFull));
        assert_eq!(gate.facts(), GateFacts { depth: 1, capacity: 1, slots_available: 0 });
    }

    #[test]
    fn a_closed_gate_refuses_with_503() {
        let gate = gate(1);
        gate.close();
        assert_eq!(gate.offer(1, 1), Offer::Refused(ShedReason::ShuttingDown));
        assert_eq!(ShedReason::ShuttingDown.status(), 503);
    }

    #[test]
    fn a_pool_without_threads_refuses_with_500() {
        assert_eq!(gate(1).offer(1, 0), Offer::Refused(ShedReason::PoolUnavailable));
        assert_eq!(ShedReason::PoolUnavailable.status(), 500);
    }
}
