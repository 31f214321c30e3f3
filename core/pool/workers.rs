//! The threads of the pool, and the slots that outlive them.
//!
//! Promises: a worker counts as busy while it carries an unanswered exchange or runs a script, and as current while
//! its thread serves or is about to; both readings come from facts, so a thread that dies cannot stay in them. A worker
//! that asks to be replaced and carries nothing is, in its slot and without a gap. Refuses: how many there should be, who
//! stands in for one that wants to be replaced and carries something, and when one that failed is tried again, is the
//! keeper's to decide.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::gettid;

use crate::limits::{LINGERING_MIN, PHP_STACK_BYTES};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicU64, AtomicUsize, CachePadded, Ordering};
use crate::sync::roster::{Roster, Wake};
use crate::time;

use super::desk::Desk;
use super::engine::{Departure, Engine, Probe, RecycleReason, Started};
use super::exchange::Exchange;
use super::renewal::CacheFacts;
use super::slot::{Held, Order, Phase, Slot, SlotReading};
use super::supervisor::Finding;

/// Where workers get their work.
pub trait Source: Send + Sync + std::fmt::Debug + 'static {
    /// Takes the oldest exchange, if there is one.
    fn try_take(&self) -> Option<Arc<Exchange>>;

    /// Whether there is nothing to take.
    fn is_empty(&self) -> bool;

    /// Whether there will be nothing more once it is empty.
    fn is_shut(&self) -> bool;

    /// The seats on which workers wait, one for each slot.
    fn roster(&self) -> &Roster;
}

/// Told what happens on worker threads. Called on the worker's thread; must not block.
pub trait PoolEvents: Send + Sync + 'static {
    /// A worker took an exchange that waited for `waited`, and runs it; perhaps
    /// [for nobody](Exchange::runs_for_nobody).
    fn taken(&self, exchange: &Exchange, waited: Duration);
    /// A worker took an exchange off the queue that had been answered meanwhile, or was too late to run.
    fn found_answered(&self, exchange: &Exchange);
    /// A worker ran an exchange for `ran`.
    fn served(&self, exchange: &Exchange, ran: Duration);
    /// A worker did not boot, or has ended without being asked to; the pool's keeper hears why.
    fn worker_failed(&self);
    /// A persistent worker has ended and is replaced.
    fn recycled(&self, slot: usize, reason: RecycleReason);
    /// A worker has ended because it was not needed.
    fn retired(&self, slot: usize);
    /// A persistent worker was reset after a request, and goes on.
    fn soft_reset(&self, slot: usize);
}

/// A reading of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// Threads that serve or are about to.
    pub current: usize,
    /// Threads that run at least one request; never more than `current`.
    pub busy: usize,
    /// Threads that carry anything, be it only what goes on after its answer.
    pub carrying: usize,
    /// Threads that take no more work, as others have taken their places, and end with what they carry.
    pub lingering: usize,
    /// Those of them that run no request: what they carry has been answered.
    pub lingering_idle: usize,
    /// The configured minimum.
    pub min: usize,
    /// The configured maximum.
    pub max: usize,
    /// Threads started since the server started.
    pub spawned: u64,
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

/// The threads.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) slots: Box<[CachePadded<Slot>]>,
    pub(super) source: Arc<dyn Source>,
    pub(super) events: Arc<dyn PoolEvents>,
    engine: Arc<dyn Engine>,
    size: PoolSize,
    epoch: Instant,
    /// Workers that are enlisted.
    current: AtomicUsize,
    /// Those of them that take work, or are about to.
    taking: AtomicUsize,
    spawned: AtomicU64,
    /// Workers that have booted.
    booted: AtomicU64,
    /// Short: one is put in, or all are taken. There are never more than slots, whose keeper takes them.
    failures: ShortLock<Vec<Failure>>,
    /// Short: a handle is put in or taken out.
    threads: ShortLock<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("size", &self.size)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts the least number of threads, which take from `source` and run through `engine`.
    ///
    /// # Errors
    ///
    /// When the system gives no thread. A worker that does not boot is a [`Failure`] instead.
    pub fn start(
        size: PoolSize,
        engine: &Arc<dyn Engine>,
        source: Arc<dyn Source>,
        events: &Arc<dyn PoolEvents>,
    ) -> io::Result<Self> {
        debug_assert!(source.roster().seats() >= size.slots(), "a worker without a seat");
        let shared = Arc::new(Shared {
            slots: (0..size.slots()).map(|_| CachePadded::new(Slot::new())).collect(),
            source,
            events: Arc::clone(events),
            engine: Arc::clone(engine),
            size,
            epoch: time::now(),
            current: AtomicUsize::new(0),
            taking: AtomicUsize::new(0),
            spawned: AtomicU64::new(0),
            booted: AtomicU64::new(0),
            failures: ShortLock::default(),
            threads: ShortLock::default(),
        });
        let workers = Self { shared };
        for slot in 0..size.min {
            workers.hire(slot, Trust::Full)?;
        }
        Ok(workers)
    }

    /// Starts a worker in a vacant slot.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn hire(&self, slot: usize, trust: Trust) -> io::Result<()> {
        self.shared.slots[slot].invite();
        if trust == Trust::Full {
            self.shared.enlist(slot);
        }
        Shared::spawn(&self.shared, slot, time::now()).inspect_err(|_| self.shared.leave(slot))
    }

    /// How many workers the slot has had.
    pub fn number(&self, slot: usize) -> u64 {
        self.shared.slots[slot].number()
    }

    /// Tells the worker of a slot to end with what it carries. False: it has its order, or has begun to end by itself.
    pub fn dismiss(&self, slot: usize, order: Order) -> bool {
        if !self.shared.slots[slot].give(order) {
            return false;
        }
        self.shared.end_taking(slot);
        self.shared.source.roster().wake(slot);
        true
    }

    /// Tells the worker of a slot to end with what it carries, and starts another one in the vacant slot. False: it has
    /// begun to end by itself, and nobody was started.
    ///
    /// # Errors
    ///
    /// When the system gives no thread; the worker ends all the same.
    pub fn relieve(&self, slot: usize, vacant: usize) -> io::Result<bool> {
        if !self.shared.slots[slot].give(Order::HandOver) {
            return Ok(false);
        }
        let hired = self.hire(vacant, Trust::Full);
        // Not before the other one counts: no request is to find a pool without workers.
        self.shared.end_taking(slot);
        self.shared.source.roster().wake(slot);
        hired.map(|()| true)
    }

    /// Sets who is woken when workers are needed, have booted, or have failed.
    pub fn set_keeper(&self, waker: Arc<dyn Wake>) {
        self.shared.source.roster().set_help(waker);
    }

    /// Wakes the keeper.
    pub fn call_keeper(&self) {
        self.shared.source.roster().call_help();
    }

    /// Lets the keeper be woken when work comes and nobody is idle. Work that came before is the caller's to look for.
    pub fn want_help(&self) {
        self.shared.source.roster().want_help();
    }

    /// How often workers have booted.
    pub fn booted_total(&self) -> u64 {
        self.shared.booted.load(Ordering::Relaxed)
    }

    /// Takes the news of workers that have ended without being asked to.
    pub fn take_failures(&self) -> Vec<Failure> {
        std::mem::take(&mut *self.shared.failures.lock())
    }

    /// Counts what a look at the worker of a slot found.
    pub fn note(&self, slot: usize, finding: &Finding) {
        self.shared.slots[slot].note(finding);
    }

    /// Reads the pool. The readings are taken one after the other, `busy` first, and made consistent.
    pub fn facts(&self) -> PoolFacts {
        let shared = &self.shared;
        let busy = shared.slots.iter().filter(|slot| slot.is_busy()).count();
        let carrying = shared.slots.iter().filter(|slot| slot.fibers.load(Ordering::Relaxed) > 0).count();
        let is_lingering = |slot: &&CachePadded<Slot>| slot.is_lingering();
        let lingering = shared.slots.iter().filter(is_lingering).count();
        let lingering_idle =
            shared.slots.iter().filter(|slot| slot.is_lingering() && !slot.is_busy()).count();
        let current = shared.current.load(Ordering::Relaxed);
        let spawned = shared.spawned.load(Ordering::Relaxed);
        let (min, max) = (shared.size.min, shared.size.max);
        PoolFacts { current, busy: busy.min(current), carrying, lingering, lingering_idle, min, max, spawned }
    }

    /// Reads each slot that a worker has been in.
    pub fn slots(&self, now: Instant) -> Vec<SlotReading> {
        let slots = self.shared.slots.iter().enumerate().filter(|(_, slot)| slot.is_used());
        slots.map(|(index, slot)| slot.reading(index, self.shared.epoch, now)).collect()
    }

    /// What keeps the worker of a slot busy, the oldest first.
    pub fn held(&self, slot: usize, now: Instant) -> Vec<Held> {
        self.shared.slots[slot].held(self.shared.epoch, now)
    }

    /// The lowest slot without a worker.
    pub fn vacant_slot(&self) -> Option<usize> {
        self.shared.slots.iter().position(|slot| slot.phase() == Phase::Vacant)
    }

    /// What tells whether the worker of a slot runs scripts.
    pub fn probe(&self, slot: usize) -> Option<Arc<dyn Probe>> {
        self.shared.slots[slot].probe()
    }

    /// The exchange of this number, while the worker of a slot has it.
    pub fn exchange(&self, slot: usize, stay: u64) -> Option<Arc<Exchange>> {
        self.shared.slots[slot].exchange(stay)
    }

    /// The number of threads that take work or are about to: the current ones without those that linger.
    pub fn taking(&self) -> usize {
        self.shared.taking.load(Ordering::Relaxed)
    }

    /// What there is to know of the cache that persistent workers share; `None`: they share none.
    pub fn cache(&self) -> Option<CacheFacts> {
        self.shared.engine.cache()
    }

    /// Whoever starts from now on is to find code as it is on disk. Returns whether that makes a difference.
    pub fn refresh(&self) -> bool {
        self.shared.engine.refresh()
    }

    /// Waits until every thread has ended; the source must have ended. Returns whether all ended in order.
    pub fn join(&self) -> bool {
        let mut in_order = true;
        loop {
            // One that starts another says so before it ends.
            let Some(thread) = self.shared.threads.lock().pop() else { return in_order };
            // Every one is waited for, also behind one that failed.
            in_order &= thread.join().is_ok();
        }
    }

    /// Forgets the threads that have ended.
    pub fn reap(&self) {
        self.shared.threads.lock().retain(|thread| !thread.is_finished());
    }

    /// The number of threads that have not ended.
    pub fn unfinished(&self) -> usize {
        self.shared.threads.lock().iter().filter(|thread| !thread.is_finished()).count()
    }
}

/// What a new worker is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is current from its start.
    Full,
    /// Its like has failed before: it is current once it has booted.
    Probation,
}

impl Shared {
    /// Microseconds after the pool's start.
    pub(super) fn stamp(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_micros()).unwrap_or(u64::MAX - 1)
    }

    /// The worker of a slot takes work from now on.
    pub(super) fn booted(&self, slot: usize, now: Instant) {
        if self.slots[slot].boot(self.stamp(now)) {
            self.enlist(slot);
            self.booted.fetch_add(1, Ordering::Relaxed);
            self.source.roster().call_help();
        }
    }

    /// A worker is done with an exchange.
    #[inline]
    pub(super) fn close_books(&self, slot: &Slot, exchange: &Exchange, ran: Duration) {
        slot.count_handled();
        self.events.served(exchange, ran);
        exchange.fail();
    }

    /// A worker has ended without being asked to.
    fn fail(&self, slot: usize, had_booted: bool, reason: String) {
        // Before the slot is seen as vacant: whoever sees it knows why.
        self.failures.lock().push(Failure { slot, had_booted, reason });
        self.leave(slot);
        self.events.worker_failed();
    }

    /// A worker is no more, and nobody takes its place at once.
    fn leave(&self, slot: usize) {
        self.discharge(slot);
        self.slots[slot].vacate();
    }

    fn enlist(&self, slot: usize) {
        if self.slots[slot].enlist() {
            self.current.fetch_add(1, Ordering::Relaxed);
        }
        if self.slots[slot].order() == Order::Stay && self.slots[slot].begin_taking() {
            self.taking.fetch_add(1, Ordering::Relaxed);
        }
        // It may have been told to end meanwhile.
        if self.slots[slot].order() != Order::Stay {
            self.end_taking(slot);
        }
    }

    fn discharge(&self, slot: usize) {
        self.end_taking(slot);
        if self.slots[slot].discharge() {
            self.current.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn end_taking(&self, slot: usize) {
        if self.slots[slot].end_taking() {
            self.taking.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Starts the thread of a slot.
    fn spawn(shared: &Arc<Self>, slot: usize, now: Instant) -> io::Result<()> {
        shared.slots[slot].engage(shared.stamp(now));
        let own = Arc::clone(shared);
        let thread = thread::Builder::new()
            .name(format!("svc-php-{slot}"))
            .stack_size(PHP_STACK_BYTES)
            .spawn(move || work(&own, slot))?;
        shared.spawned.fetch_add(1, Ordering::Relaxed);
        shared.threads.lock().push(thread);
        Ok(())
    }
}

/// How the work of a thread has ended.
enum End {
    Dismissed,
    Failed(String),
    Recycled(RecycleReason),
}

/// The life of one worker.
fn work(shared: &Arc<Shared>, index: usize) {
    let slot = &shared.slots[index];
    slot.set_thread(gettid().as_raw_nonzero().get().unsigned_abs());
    // A worker that panicked is not used again: what it held on this thread may be half done.
    let end = catch_unwind(AssertUnwindSafe(|| run(shared, index)))
        .unwrap_or_else(|_| End::Failed("the engine panicked".to_owned()));
    slot.set_probe(None);
    let roster = shared.source.roster();
    roster.stand(index);
    roster.set_waker(index, None);
    let (order, had_booted) = (slot.settle(), slot.phase() == Phase::Serving);
    let end = match end {
        // It would only boot and end for ever.
        End::Recycled(_) if slot.handled() == 0 && order == Order::Stay => {
            End::Failed("the application ended before it had served a request".to_owned())
        }
        other => other,
    };
    slot.rest();
    match (end, order) {
        (End::Failed(reason), _) => shared.fail(index, had_booted, reason),
        (End::Recycled(reason), Order::Stay) => {
            shared.events.recycled(index, reason);
            // It stays enlisted, and its slot taken: the next one is on its way.
            if shared.source.is_shut() {
                shared.leave(index);
            } else if let Err(error) = Shared::spawn(shared, index, time::now()) {
                shared.fail(index, true, format!("the system gives no thread: {error}"));
            }
        }
        (End::Recycled(reason), _) => {
            shared.leave(index);
            shared.events.recycled(index, reason);
        }
        (End::Dismissed, order) => {
            shared.leave(index);
            match order {
                Order::Stay => {}
                Order::Retire => shared.events.retired(index),
                Order::HandOver => shared.events.recycled(index, RecycleReason::Scheduled),
            }
        }
    }
    // It may have been called for work that it has not taken.
    if !shared.source.is_empty() {
        roster.call_one();
    }
    roster.call_help();
}

/// Starts the engine and works until it is over; nothing of the engine is left on the thread afterwards.
fn run(shared: &Arc<Shared>, index: usize) -> End {
    let desk = Desk::new(Arc::clone(shared), index);
    match shared.engine.start(index) {
        Err(error) => End::Failed(error.to_string()),
        Ok(Started::Classic(mut worker)) => {
            shared.slots[index].set_probe(worker.probe());
            desk.booted();
            let serve =
                |exchange: &Arc<Exchange>| catch_unwind(AssertUnwindSafe(|| worker.serve(exchange))).is_ok();
            if desk.serve_each(serve) {
                End::Dismissed
            } else {
                End::Failed("the engine panicked".to_owned())
            }
        }
        Ok(Started::Persistent(mut resident)) => {
            shared.source.roster().set_waker(index, Some(resident.waker()));
            shared.slots[index].set_probe(resident.probe());
            match resident.run(&desk) {
                Departure::Dismissed => End::Dismissed,
                Departure::NotBooted(reason) => End::Failed(reason),
                Departure::Recycled(reason) => End::Recycled(reason),
            }
        }
    }
}
