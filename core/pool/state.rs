//! What the workers of a pool share: their slots, where work comes from, and who counts among them.
//!
//! Promises: a worker is counted once, however it comes and goes. Refuses: it starts no thread and knows no engine.

use std::time::{Duration, Instant};

use crate::limits::LINGERING_MIN;
use crate::sync::idle_workers::IdleWorkers;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicU64, AtomicUsize, CachePadded, Ordering};
use crate::time;

use super::events::PoolEvents;
use super::job::Job;
use super::slot::{Slot, WorkerOrder};

/// Where workers get their jobs.
pub trait JobSource<J>: Send + Sync + std::fmt::Debug + 'static {
    /// Takes the oldest job, if there is one.
    fn try_take(&self) -> Option<Arc<J>>;

    /// Returns whether there is nothing to take.
    fn is_empty(&self) -> bool;

    /// Returns how many jobs were offered that no worker has taken, including those that may not be taken yet.
    fn backlog(&self) -> usize;

    /// Whether there will be nothing more once it is empty.
    fn is_shut(&self) -> bool;

    /// The seats on which workers wait, one for each slot.
    fn idle_workers(&self) -> &IdleWorkers;
}

/// A worker that has ended without being asked to, and is not replaced yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its slot.
    pub slot: usize,
    /// Whether it had booted before.
    pub had_booted: bool,
    /// Why it ended.
    pub reason: String,
}

/// How many workers a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// It starts with so many, and never wants fewer.
    pub min: usize,
    /// It never wants more.
    pub max: usize,
}

impl PoolSize {
    /// The slots, and so the seats, that such a pool needs.
    pub fn slots(self) -> usize {
        self.max + self.lingering_max()
    }

    /// The most workers that may linger while others have taken their places.
    pub fn lingering_max(self) -> usize {
        self.max.max(LINGERING_MIN)
    }
}

/// See the module.
pub(super) struct PoolState<J> {
    pub(super) slots: Box<[CachePadded<Slot<J>>]>,
    pub(super) source: Arc<dyn JobSource<J>>,
    pub(super) events: Arc<dyn PoolEvents<J>>,
    pub(super) size: PoolSize,
    /// What stamps count from.
    pub(super) epoch: Instant,
    /// Workers that are counted.
    pub(super) current: AtomicUsize,
    /// Those of them that take work, or are about to.
    pub(super) taking: AtomicUsize,
    /// Workers that have booted.
    pub(super) booted: AtomicU64,
    /// Short: one is put in, or all are taken. There are never more than slots, whose supervisor takes them.
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
    /// Starts with vacant slots.
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

    /// Microseconds after the pool's start.
    pub(super) fn stamp(&self, at: Instant) -> u64 {
        time::as_micros(at.saturating_duration_since(self.epoch)).min(u64::MAX - 1)
    }

    /// The worker of a slot takes work from now on.
    pub(super) fn booted(&self, slot: usize, now: Instant) {
        if self.slots[slot].boot(self.stamp(now)) {
            self.count(slot);
            self.booted.fetch_add(1, Ordering::Relaxed);
            self.source.idle_workers().call_help();
        }
    }

    /// Counts a job that a worker has run for `ran`, and settles it if it is not settled.
    #[inline]
    pub(super) fn finish(&self, slot: &Slot<J>, job: &J, ran: Duration) {
        slot.count_handled();
        self.events.served(job, ran);
        job.fail();
    }

    /// A worker has ended without being asked to.
    pub(super) fn fail(&self, slot: usize, had_booted: bool, reason: String) {
        // Before the slot is seen as vacant: whoever sees it knows why.
        self.failures.lock().push(Failure { slot, had_booted, reason });
        self.leave(slot);
        self.events.worker_failed();
    }

    /// A worker is no more, and nobody takes its place at once.
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
        // It may have been told to end meanwhile.
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
