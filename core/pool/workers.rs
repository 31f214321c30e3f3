//! The threads of a pool, and the slots that outlive them.
//!
//! A worker counts as busy while it has an unsettled job or runs code, and as current while its thread serves or is about
//! to; both are derived from the slots, so a thread that dies cannot stay counted. A worker that asks to be replaced and
//! has nothing in flight is replaced in its slot, without a gap. The pool does not decide how many workers there should
//! be, which worker stands in for one with jobs in flight, or when a failed worker is started again; the supervisor does.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rustix::thread::gettid;

use svc_types::OpcacheFacts;

use crate::limits::PHP_STACK_BYTES;
use crate::sync::idle_workers::Wake;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicU64, CachePadded, JoinHandle, Ordering, ThreadBuilder};
use crate::time;

use super::boot_fault::BootFault;
use super::context::{WorkerCondition, WorkerContext};
use super::engine::{Engine, Started, WorkerExit};
use super::events::{PoolEvents, RecycleReason};
use super::job::Job;
use super::probe::ThreadProbe;
use super::slot::{Slot, SlotPhase, SlotReading, WorkerOrder};
use super::state::{Failure, JobSource, PoolSize, PoolState};
use super::stuck::{Finding, HeldJob};

/// A reading of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// The number of threads that serve or are about to.
    pub current: usize,
    /// The number of threads that run at least one job; never more than `current`.
    pub busy: usize,
    /// The number of threads with anything in flight, including jobs that go on after they were settled.
    pub carrying: usize,
    /// The number of threads that take no more work and end once their jobs in flight have ended, because others have
    /// taken their places.
    pub lingering: usize,
    /// The number of those whose jobs in flight are all settled.
    pub lingering_idle: usize,
    /// The configured minimum.
    pub min: usize,
    /// The configured maximum.
    pub max: usize,
    /// The number of threads started since the pool started.
    pub spawned: u64,
}

/// The threads of a pool.
#[derive(Debug)]
pub struct WorkerPool<J> {
    shared: Arc<WorkerThreads<J>>,
}

/// The state that the threads share, and what is needed to start them.
struct WorkerThreads<J> {
    state: Arc<PoolState<J>>,
    engine: Arc<dyn Engine<J>>,
    /// The prefix of the threads' names.
    name: &'static str,
    spawned: AtomicU64,
    /// Held only to insert or remove a handle.
    threads: ShortLock<Vec<JoinHandle<()>>>,
}

impl<J> std::fmt::Debug for WorkerThreads<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.fmt(f)
    }
}

impl<J: Job> WorkerPool<J> {
    /// Starts the minimum number of threads, which take jobs from `source` and run them through `engine`. A thread's name
    /// is `name` and the number of its slot.
    ///
    /// # Errors
    ///
    /// If the system creates no thread. A worker that fails to boot is a [`Failure`] instead.
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
    /// If the system creates no thread.
    pub fn spawn(&self, slot: usize, probation: Probation) -> io::Result<()> {
        self.shared.state.slots[slot].clear_order();
        if probation == Probation::Waived {
            self.shared.state.count(slot);
        }
        spawn(&self.shared, slot, time::now()).inspect_err(|_| self.shared.state.leave(slot))
    }

    /// Returns the number of workers that a slot has had.
    pub fn number(&self, slot: usize) -> u64 {
        self.shared.state.slots[slot].number()
    }

    /// Orders the worker of a slot to end once its jobs in flight have ended. Returns false if it already has an order,
    /// or has begun to end by itself.
    pub fn stop(&self, slot: usize, order: WorkerOrder) -> bool {
        if !self.shared.state.slots[slot].give_order(order) {
            return false;
        }
        self.shared.state.end_taking(slot);
        self.shared.state.source.idle_workers().wake(slot);
        true
    }

    /// Orders the worker of a slot to end once its jobs in flight have ended, and starts another worker in the vacant
    /// slot. Returns false if the worker has begun to end by itself; no other worker is started then.
    ///
    /// # Errors
    ///
    /// If the system creates no thread; the worker of `slot` ends nevertheless.
    pub fn relieve(&self, slot: usize, vacant: usize) -> io::Result<bool> {
        if !self.shared.state.slots[slot].give_order(WorkerOrder::HandOver) {
            return Ok(false);
        }
        let spawned = self.spawn(vacant, Probation::Waived);
        // Not before the other worker is counted: no job must find a pool without workers.
        self.shared.state.end_taking(slot);
        self.shared.state.source.idle_workers().wake(slot);
        spawned.map(|()| true)
    }

    /// Returns whether jobs in flight may wait for jobs that no worker has taken.
    pub fn has_jobs_that_await_jobs(&self) -> bool {
        self.shared.state.source.has_jobs_that_await_jobs()
    }

    /// Makes the worker of a slot take work although it has asked to be replaced, while it has jobs in flight and no
    /// order.
    pub fn carry_on(&self, slot: usize) {
        if self.shared.state.slots[slot].carry_on() {
            self.shared.state.source.idle_workers().wake(slot);
        }
    }

    /// Sets the waker that is called when workers are needed, have booted, or have failed.
    pub fn set_supervisor(&self, waker: Arc<dyn Wake>) {
        self.shared.state.source.idle_workers().set_fallback(waker);
    }

    /// Wakes the supervisor.
    pub fn call_supervisor(&self) {
        self.shared.state.source.idle_workers().wake_fallback();
    }

    /// Wakes the supervisor once, when work arrives and no worker is idle. The caller checks for work that arrived
    /// before.
    pub fn arm_supervisor(&self) {
        self.shared.state.source.idle_workers().arm_fallback();
    }

    /// Returns whether the queue is closed: workers end once it is empty.
    pub fn is_queue_closed(&self) -> bool {
        self.shared.state.source.is_queue_closed()
    }

    /// Returns the number of offered jobs that no worker has taken.
    pub fn backlog(&self) -> usize {
        self.shared.state.source.backlog()
    }

    /// Returns the number of boots so far.
    pub fn booted_total(&self) -> u64 {
        self.shared.state.booted.load(Ordering::Relaxed)
    }

    /// Takes the list of workers that ended unexpectedly since the last call.
    pub fn take_failures(&self) -> Vec<Failure> {
        std::mem::take(&mut *self.shared.state.failures.lock())
    }

    /// Counts the findings of a tick about the worker of a slot.
    pub fn note(&self, slot: usize, finding: &Finding) {
        self.shared.state.slots[slot].note(finding);
    }

    /// Reads the state of the pool. The values are read one after the other, `busy` first, and adjusted to be consistent.
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

    /// Reads each slot that has had a worker.
    pub fn slots(&self, now: Instant) -> Vec<SlotReading> {
        let slots = self.shared.state.slots.iter().enumerate().filter(|(_, slot)| slot.is_used());
        slots.map(|(index, slot)| slot.reading(index, self.shared.state.epoch, now)).collect()
    }

    /// Returns the jobs that keep the worker of a slot busy, oldest first.
    pub fn held(&self, slot: usize, now: Instant) -> Vec<HeldJob> {
        self.shared.state.slots[slot].held(self.shared.state.epoch, now)
    }

    /// Returns the lowest slot without a worker.
    pub fn vacant_slot(&self) -> Option<usize> {
        self.shared.state.slots.iter().position(|slot| slot.phase() == SlotPhase::Vacant)
    }

    /// Returns the probe of the worker of a slot.
    pub fn probe(&self, slot: usize) -> Option<Arc<dyn ThreadProbe>> {
        self.shared.state.slots[slot].probe()
    }

    /// Returns the job with this serial number while the worker of a slot has it.
    pub fn job(&self, slot: usize, serial: u64) -> Option<Arc<J>> {
        self.shared.state.slots[slot].job(serial)
    }

    /// Returns the number of threads that take work or are about to: the current ones without those that linger.
    pub fn taking(&self) -> usize {
        self.shared.state.taking.load(Ordering::Relaxed)
    }

    /// Returns the state of the cache that persistent workers share; `None` if they share none.
    pub fn cache(&self) -> Option<OpcacheFacts> {
        self.shared.engine.cache()
    }

    /// Waits until every thread has ended; the queue must be closed. Returns whether none of them panicked.
    pub fn join(&self) -> bool {
        let mut in_order = true;
        loop {
            // A thread that starts another one adds its handle before it ends.
            let Some(thread) = self.shared.threads.lock().pop() else { return in_order };
            // Join all threads, even if one has panicked.
            in_order &= thread.join().is_ok();
        }
    }

    /// Removes the handles of threads that have ended.
    pub fn reap(&self) {
        self.shared.threads.lock().retain(|thread| !thread.is_finished());
    }

    /// Returns the number of threads that have not ended.
    pub fn unfinished(&self) -> usize {
        self.shared.threads.lock().iter().filter(|thread| !thread.is_finished()).count()
    }
}

/// Whether a new worker must boot before it counts as current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probation {
    /// It counts from its start.
    Waived,
    /// Workers have failed to boot before it: it counts once it has booted.
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

/// How a thread's work ended.
enum ThreadEnd {
    Stopped,
    Failed(BootFault),
    Recycled(RecycleReason),
}

fn failed(reason: &str) -> ThreadEnd {
    ThreadEnd::Failed(reason.to_owned().into())
}

/// Runs the life of one worker.
fn work<J: Job>(shared: &Arc<WorkerThreads<J>>, index: usize) {
    let slot = &shared.state.slots[index];
    slot.set_thread(gettid().as_raw_nonzero().get().unsigned_abs());
    // A worker that panicked is not used again: its state on this thread may be inconsistent.
    let end = catch_unwind(AssertUnwindSafe(|| run(shared, index)))
        .unwrap_or_else(|_| failed("the engine panicked"));
    slot.set_probe(None);
    let idle_workers = shared.state.source.idle_workers();
    idle_workers.unpark(index);
    idle_workers.set_waker(index, None);
    let (order, had_booted) = (slot.close_orders(), slot.phase() == SlotPhase::Serving);
    let end = match end {
        // A replacement would boot and end in an endless loop.
        ThreadEnd::Recycled(_) if slot.handled() == 0 && order == WorkerOrder::Serve => {
            failed("the application ended before it served a request")
        }
        other => other,
    };
    slot.stop_running();
    match (end, order) {
        (ThreadEnd::Failed(fault), _) => shared.state.fail(index, had_booted, fault),
        (ThreadEnd::Recycled(reason), WorkerOrder::Serve) => {
            shared.state.events.recycled(index, reason);
            // The slot stays taken and counted, because its next worker is about to start.
            if shared.state.source.is_queue_closed() {
                shared.state.leave(index);
            } else if let Err(error) = spawn(shared, index, time::now()) {
                shared.state.fail(index, true, format!("cannot create a thread: {error}").into());
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
    // The worker may have been notified of a job that it has not taken.
    if !shared.state.source.is_empty() {
        idle_workers.notify_one();
    }
    idle_workers.wake_fallback();
}

/// Starts the engine and works until the end; drops all of the engine's state on this thread.
fn run<J: Job>(shared: &Arc<WorkerThreads<J>>, index: usize) -> ThreadEnd {
    let context = WorkerContext::new(Arc::clone(&shared.state), index);
    match shared.engine.start(index) {
        Err(error) => ThreadEnd::Failed(error.to_string().into()),
        Ok(Started::Classic(mut worker)) => {
            shared.state.slots[index].set_probe(worker.probe());
            context.booted();
            let serve = |job: &Arc<J>| match catch_unwind(AssertUnwindSafe(|| worker.serve(job))) {
                Ok(()) if worker.is_spent() => WorkerCondition::Spent,
                Ok(()) => WorkerCondition::Sound,
                Err(_) => WorkerCondition::Broken,
            };
            match context.serve_each(serve) {
                WorkerCondition::Sound => ThreadEnd::Stopped,
                WorkerCondition::Spent => ThreadEnd::Recycled(RecycleReason::Error),
                WorkerCondition::Broken => failed("the engine panicked"),
            }
        }
        Ok(Started::Persistent(mut worker)) => {
            shared.state.source.idle_workers().set_waker(index, Some(worker.waker()));
            shared.state.slots[index].set_probe(worker.probe());
            match worker.run(&context) {
                WorkerExit::Stopped => ThreadEnd::Stopped,
                WorkerExit::NotBooted(fault) => ThreadEnd::Failed(fault),
                WorkerExit::Lost(reason) => ThreadEnd::Failed(reason.into()),
                WorkerExit::Recycled(reason) => ThreadEnd::Recycled(reason),
            }
        }
    }
}
