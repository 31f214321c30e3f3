//! The state that the workers of a pool share: their slots, the source of their jobs, and the counts of workers.
//!
//! A worker is counted once, however it starts and ends. The state starts no thread and does not depend on the
//! engine.

use std::time::{Duration, Instant};

use crate::limits::{LINGERING_MIN, REQUEST_FIBERS_MAX};
use crate::sync::idle_workers::IdleWorkers;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicU64, AtomicUsize, CachePadded, Ordering};
use crate::time;

use super::boot_fault::BootFault;
use super::events::PoolEvents;
use super::job::Job;
use super::slot::{Slot, WorkerOrder};

/// Where workers get their jobs.
pub trait JobSource<J>: Send + Sync + std::fmt::Debug + 'static {
    /// Takes the oldest job, if there is one.
    fn try_take(&self) -> Option<Arc<J>>;

    /// Returns whether the queue is empty.
    fn is_empty(&self) -> bool;

    /// Returns the number of offered jobs that no worker has taken, including those that must still wait.
    fn backlog(&self) -> usize;

    /// Returns whether no more jobs will come once it is empty.
    fn is_queue_closed(&self) -> bool;

    /// Returns the seats on which workers wait, one for each slot.
    fn idle_workers(&self) -> &IdleWorkers;

    /// Returns the maximum number of jobs in flight on one persistent worker, at least 1.
    fn fibers_max(&self) -> usize {
        REQUEST_FIBERS_MAX
    }

    /// Returns whether jobs in flight may wait for jobs that no worker has taken. If so, a worker that wants to be
    /// replaced takes more work while no other worker does.
    fn has_jobs_that_await_jobs(&self) -> bool {
        false
    }
}

/// A worker that ended unexpectedly and has not been replaced yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The index of its slot.
    pub slot: usize,
    /// Whether it had booted.
    pub had_booted: bool,
    /// The reason.
    pub fault: BootFault,
}

/// The number of workers that a pool may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// The minimum, with which the pool starts.
    pub min: usize,
    /// The maximum.
    pub max: usize,
}

impl PoolSize {
    /// Returns the number of slots, and thus of seats, that a pool of this size needs.
    pub fn slots(self) -> usize {
        self.max + self.lingering_max()
    }

    /// Returns the maximum number of workers that may linger after other workers have replaced them.
    pub fn lingering_max(self) -> usize {
        self.max.max(LINGERING_MIN)
    }
}

/// The state that the workers of a pool share.
pub(super) struct PoolState<J> {
    pub(super) slots: Box<[CachePadded<Slot<J>>]>,
    pub(super) source: Arc<dyn JobSource<J>>,
    pub(super) events: Arc<dyn PoolEvents<J>>,
    pub(super) size: PoolSize,
    /// The start of the time stamps.
    pub(super) epoch: Instant,
    /// The number of workers that are counted as current.
    pub(super) current: AtomicUsize,
    /// The number of those that take work or are about to.
    pub(super) taking: AtomicUsize,
    /// How often a worker has booted.
    pub(super) booted: AtomicU64,
    /// Held only to insert one failure, or to take all. There are never more than slots, because the supervisor takes
    /// them before it starts a worker in a slot again.
    pub(super) failures: ShortLock<Vec<Failure>>,
}

impl<J> std::fmt::Debug for PoolState<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolState")
            .field("size", &self.size)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl<J: Job> PoolState<J> {
    /// Makes the state of a pool whose slots are vacant.
    pub(super) fn new(size: PoolSize, source: Arc<dyn JobSource<J>>, events: Arc<dyn PoolEvents<J>>) -> Self {
        debug_assert!(source.idle_workers().seats() >= size.slots(), "a worker without a seat");
        Self {
            slots: (0..size.slots()).map(|_| CachePadded::new(Slot::new())).collect(),
            source,
            events,
            size,
            epoch: time::now(),
            current: AtomicUsize::new(0),
            taking: AtomicUsize::new(0),
            booted: AtomicU64::new(0),
            failures: ShortLock::default(),
        }
    }

    /// Returns `at` in microseconds after the start of the pool.
    pub(super) fn stamp(&self, at: Instant) -> u64 {
        time::as_micros(at.saturating_duration_since(self.epoch)).min(u64::MAX - 1)
    }

    /// Notes that the worker of a slot takes work from now on.
    pub(super) fn booted(&self, slot: usize, now: Instant) {
        if self.slots[slot].boot(self.stamp(now)) {
            self.count(slot);
            self.booted.fetch_add(1, Ordering::Relaxed);
            self.source.idle_workers().wake_fallback();
        }
    }

    /// Counts a job that a worker ran for `ran`, and settles it if it is not settled.
    #[inline]
    pub(super) fn finish(&self, slot: &Slot<J>, job: &J, ran: Duration) {
        slot.count_handled();
        self.events.served(job, ran);
        job.fail();
    }

    /// Notes that a worker ended unexpectedly.
    pub(super) fn fail(&self, slot: usize, had_booted: bool, fault: BootFault) {
        // Before the slot becomes vacant, so that a thread that sees it vacant can find the reason.
        self.failures.lock().push(Failure { slot, had_booted, fault });
        self.leave(slot);
        self.events.worker_failed();
    }

    /// Notes that a worker has ended and no other worker takes its slot immediately.
    pub(super) fn leave(&self, slot: usize) {
        self.uncount(slot);
        self.slots[slot].vacate();
    }

    pub(super) fn count(&self, slot: usize) {
        if self.slots[slot].count() {
            self.current.fetch_add(1, Ordering::Relaxed);
        }
        if self.slots[slot].order() == WorkerOrder::Serve && self.slots[slot].begin_taking() {
            self.taking.fetch_add(1, Ordering::Relaxed);
        }
        // It may have been ordered to end meanwhile.
        if self.slots[slot].order() != WorkerOrder::Serve {
            self.end_taking(slot);
        }
    }

    pub(super) fn uncount(&self, slot: usize) {
        self.end_taking(slot);
        if self.slots[slot].uncount() {
            self.current.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn end_taking(&self, slot: usize) {
        if self.slots[slot].end_taking() {
            self.taking.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
