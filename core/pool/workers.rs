//! The threads of the pool, and the slots that outlive them.
//!
//! Promises: a worker counts as busy while it carries an unanswered exchange or runs a script, and as current while
//! its thread serves or is about to; both readings come from facts, so a thread that dies cannot stay in them. A worker
//! that asks to be replaced and carries nothing is, in its slot and without a gap. Refuses: how many there should be, who
//! stands in for one that wants to be replaced and carries something, and when one that failed is tried again, is the
//! supervisor's to decide.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rustix::thread::gettid;

use crate::limits::PHP_STACK_BYTES;
use crate::sync::idle_workers::Wake;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicU64, CachePadded, JoinHandle, Ordering, ThreadBuilder};
use crate::time;

use super::context::WorkerContext;
use super::engine::{Departure, Engine, Started};
use super::events::{PoolEvents, RecycleReason};
use super::job::Job;
use super::probe::ThreadProbe;
use super::renewal::SharedCacheFacts;
use super::slot::{Slot, SlotPhase, SlotReading, WorkerOrder};
use super::state::{Failure, JobSource, PoolSize, PoolState};
use super::stuck::{Finding, HeldJob};

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

/// The threads.
#[derive(Debug)]
pub struct WorkerPool<J> {
    shared: Arc<WorkerThreads<J>>,
}

/// What the threads share: what workers know of each other, and what starts them.
struct WorkerThreads<J> {
    state: Arc<PoolState<J>>,
    engine: Arc<dyn Engine<J>>,
    /// What the names of the threads begin with.
    name: &'static str,
    spawned: AtomicU64,
    /// Short: a handle is put in or taken out.
    threads: ShortLock<Vec<JoinHandle<()>>>,
}

impl<J> std::fmt::Debug for WorkerThreads<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.fmt(f)
    }
}

impl<J: Job> WorkerPool<J> {
    /// Starts the least number of threads, which take jobs from `source` and run them through `engine`. The threads are
    /// called `name` and the number of their slot.
    ///
    /// # Errors
    ///
    /// When the system gives no thread. A worker that does not boot is a [`Failure`] instead.
    pub fn start(
        name: &'static str,
        size: PoolSize,
        engine: &Arc<dyn Engine<J>>,
        source: Arc<dyn JobSource<J>>,
        events: &Arc<dyn PoolEvents<J>>,
    ) -> io::Result<Self> {
        let shared = Arc::new(WorkerThreads {
            state: Arc::new(PoolState::new(size, source, Arc::clone(events))),
            engine: Arc::clone(engine),
            name,
            spawned: AtomicU64::new(0),
            threads: ShortLock::default(),
        });
        let workers = Self { shared };
        for slot in 0..size.min {
            workers.spawn(slot, Probation::Waived)?;
        }
        Ok(workers)
    }

    /// Starts a worker in a vacant slot.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn spawn(&self, slot: usize, probation: Probation) -> io::Result<()> {
        self.shared.state.slots[slot].invite();
        if probation == Probation::Waived {
            self.shared.state.count(slot);
        }
        spawn(&self.shared, slot, time::now()).inspect_err(|_| self.shared.state.leave(slot))
    }

    /// How many workers the slot has had.
    pub fn number(&self, slot: usize) -> u64 {
        self.shared.state.slots[slot].number()
    }

    /// Tells the worker of a slot to end with what it carries. False: it has its order, or has begun to end by itself.
    pub fn stop(&self, slot: usize, order: WorkerOrder) -> bool {
        if !self.shared.state.slots[slot].give(order) {
            return false;
        }
        self.shared.state.end_taking(slot);
        self.shared.state.source.idle_workers().wake(slot);
        true
    }

    /// Tells the worker of a slot to end with what it carries, and starts another one in the vacant slot. False: it has
    /// begun to end by itself, and nobody was started.
    ///
    /// # Errors
    ///
    /// When the system gives no thread; the worker ends all the same.
    pub fn relieve(&self, slot: usize, vacant: usize) -> io::Result<bool> {
        if !self.shared.state.slots[slot].give(WorkerOrder::HandOver) {
            return Ok(false);
        }
        let spawned = self.spawn(vacant, Probation::Waived);
        // Not before the other one counts: no request is to find a pool without workers.
        self.shared.state.end_taking(slot);
        self.shared.state.source.idle_workers().wake(slot);
        spawned.map(|()| true)
    }

    /// Sets who is woken when workers are needed, have booted, or have failed.
    pub fn set_supervisor(&self, waker: Arc<dyn Wake>) {
        self.shared.state.source.idle_workers().set_help(waker);
    }

    /// Wakes the supervisor.
    pub fn call_supervisor(&self) {
        self.shared.state.source.idle_workers().call_help();
    }

    /// Lets the supervisor be woken when work comes and nobody is idle. Work that came before is the caller's to look for.
    pub fn want_help(&self) {
        self.shared.state.source.idle_workers().want_help();
    }

    /// Returns whether the source is shut: workers end once nothing is left to take.
    pub fn is_shut(&self) -> bool {
        self.shared.state.source.is_shut()
    }

    /// Returns how many jobs were offered that no worker has taken.
    pub fn backlog(&self) -> usize {
        self.shared.state.source.backlog()
    }

    /// How often workers have booted.
    pub fn booted_total(&self) -> u64 {
        self.shared.state.booted.load(Ordering::Relaxed)
    }

    /// Takes the news of workers that have ended without being asked to.
    pub fn take_failures(&self) -> Vec<Failure> {
        std::mem::take(&mut *self.shared.state.failures.lock())
    }

    /// Counts what a look at the worker of a slot found.
    pub fn note(&self, slot: usize, finding: &Finding) {
        self.shared.state.slots[slot].note(finding);
    }

    /// Reads the pool. The readings are taken one after the other, `busy` first, and made consistent.
    pub fn facts(&self) -> PoolFacts {
        let (shared, state) = (&self.shared, &self.shared.state);
        let busy = state.slots.iter().filter(|slot| slot.is_busy()).count();
        let carrying = state.slots.iter().filter(|slot| slot.fibers.load(Ordering::Relaxed) > 0).count();
        let is_lingering = |slot: &&CachePadded<Slot<J>>| slot.is_lingering();
        let lingering = state.slots.iter().filter(is_lingering).count();
        let lingering_idle = state.slots.iter().filter(|slot| slot.is_lingering() && !slot.is_busy()).count();
        let current = state.current.load(Ordering::Relaxed);
        let spawned = shared.spawned.load(Ordering::Relaxed);
        let (min, max) = (state.size.min, state.size.max);
        PoolFacts { current, busy: busy.min(current), carrying, lingering, lingering_idle, min, max, spawned }
    }

    /// Reads each slot that a worker has been in.
    pub fn slots(&self, now: Instant) -> Vec<SlotReading> {
        let slots = self.shared.state.slots.iter().enumerate().filter(|(_, slot)| slot.is_used());
        slots.map(|(index, slot)| slot.reading(index, self.shared.state.epoch, now)).collect()
    }

    /// What keeps the worker of a slot busy, the oldest first.
    pub fn held(&self, slot: usize, now: Instant) -> Vec<HeldJob> {
        self.shared.state.slots[slot].held(self.shared.state.epoch, now)
    }

    /// The lowest slot without a worker.
    pub fn vacant_slot(&self) -> Option<usize> {
        self.shared.state.slots.iter().position(|slot| slot.phase() == SlotPhase::Vacant)
    }

    /// What tells whether the worker of a slot runs scripts.
    pub fn probe(&self, slot: usize) -> Option<Arc<dyn ThreadProbe>> {
        self.shared.state.slots[slot].probe()
    }

    /// Returns the job with this serial number while the worker of a slot has it.
    pub fn job(&self, slot: usize, serial: u64) -> Option<Arc<J>> {
        self.shared.state.slots[slot].job(serial)
    }

    /// The number of threads that take work or are about to: the current ones without those that linger.
    pub fn taking(&self) -> usize {
        self.shared.state.taking.load(Ordering::Relaxed)
    }

    /// What there is to know of the cache that persistent workers share; `None`: they share none.
    pub fn cache(&self) -> Option<SharedCacheFacts> {
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

/// Whether a new worker has to boot before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probation {
    /// It is current from its start.
    Waived,
    /// Its like has failed before: it is current once it has booted.
    Required,
}

/// Starts the thread of a slot.
fn spawn<J: Job>(shared: &Arc<WorkerThreads<J>>, slot: usize, now: Instant) -> io::Result<()> {
    let state = &shared.state;
    state.slots[slot].start(state.stamp(now));
    let own = Arc::clone(shared);
    let thread = ThreadBuilder::new()
        .name(format!("{}-{slot}", shared.name))
        .stack_size(PHP_STACK_BYTES)
        .spawn(move || work(&own, slot))?;
    shared.spawned.fetch_add(1, Ordering::Relaxed);
    shared.threads.lock().push(thread);
    Ok(())
}

/// How the work of a thread has ended.
enum ThreadEnd {
    Stopped,
    Failed(String),
    Recycled(RecycleReason),
}

/// The life of one worker.
fn work<J: Job>(shared: &Arc<WorkerThreads<J>>, index: usize) {
    let slot = &shared.state.slots[index];
    slot.set_thread(gettid().as_raw_nonzero().get().unsigned_abs());
    // A worker that panicked is not used again: what it held on this thread may be half done.
    let end = catch_unwind(AssertUnwindSafe(|| run(shared, index)))
        .unwrap_or_else(|_| ThreadEnd::Failed("the engine panicked".to_owned()));
    slot.set_probe(None);
    let idle_workers = shared.state.source.idle_workers();
    idle_workers.unpark(index);
    idle_workers.set_waker(index, None);
    let (order, had_booted) = (slot.settle(), slot.phase() == SlotPhase::Serving);
    let end = match end {
        // It would only boot and end for ever.
        ThreadEnd::Recycled(_) if slot.handled() == 0 && order == WorkerOrder::Serve => {
            ThreadEnd::Failed("the application ended before it served a request".to_owned())
        }
        other => other,
    };
    slot.rest();
    match (end, order) {
        (ThreadEnd::Failed(reason), _) => shared.state.fail(index, had_booted, reason),
        (ThreadEnd::Recycled(reason), WorkerOrder::Serve) => {
            shared.state.events.recycled(index, reason);
            // It still counts, and its slot is taken: the next one is on its way.
            if shared.state.source.is_shut() {
                shared.state.leave(index);
            } else if let Err(error) = spawn(shared, index, time::now()) {
                shared.state.fail(index, true, format!("cannot create a thread: {error}"));
            }
        }
        (ThreadEnd::Recycled(reason), _) => {
            shared.state.leave(index);
            shared.state.events.recycled(index, reason);
        }
        (ThreadEnd::Stopped, order) => {
            shared.state.leave(index);
            match order {
                WorkerOrder::Serve => {}
                WorkerOrder::Retire => shared.state.events.retired(index),
                WorkerOrder::HandOver => shared.state.events.recycled(index, RecycleReason::Scheduled),
            }
        }
    }
    // It may have been called for work that it has not taken.
    if !shared.state.source.is_empty() {
        idle_workers.notify_one();
    }
    idle_workers.call_help();
}

/// Starts the engine and works until it is over; nothing of the engine is left on the thread afterwards.
fn run<J: Job>(shared: &Arc<WorkerThreads<J>>, index: usize) -> ThreadEnd {
    let context = WorkerContext::new(Arc::clone(&shared.state), index);
    match shared.engine.start(index) {
        Err(error) => ThreadEnd::Failed(error.to_string()),
        Ok(Started::Classic(mut worker)) => {
            shared.state.slots[index].set_probe(worker.probe());
            context.booted();
            let serve = |job: &Arc<J>| catch_unwind(AssertUnwindSafe(|| worker.serve(job))).is_ok();
            if context.serve_each(serve) {
                ThreadEnd::Stopped
            } else {
                ThreadEnd::Failed("the engine panicked".to_owned())
            }
        }
        Ok(Started::Persistent(mut worker)) => {
            shared.state.source.idle_workers().set_waker(index, Some(worker.waker()));
            shared.state.slots[index].set_probe(worker.probe());
            match worker.run(&context) {
                Departure::Stopped => ThreadEnd::Stopped,
                Departure::NotBooted(reason) => ThreadEnd::Failed(reason),
                Departure::Recycled(reason) => ThreadEnd::Recycled(reason),
            }
        }
    }
}
