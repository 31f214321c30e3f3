//! The task pool: a second thread pool with its own queue.
//!
//! A dispatch is queued or rejected immediately. While no thread can boot, dispatches are rejected and queued tasks
//! fail, so that tasks never wait for a pool without threads. Supervision and the clock are up to the caller.

use std::io;
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

use svc_types::TaskRejection;

use crate::pool::{Engine, JobSource, PoolEvents, PoolSize, RecycleReason, WorkerPool};
use crate::sync::counter::Flag;
use crate::sync::primitive::{Arc, Ordering, fence};

use super::bounds::TaskLimits;
use super::outcome::{Payload, TaskOutcome};
use super::task::{Task, TaskOrigin};
use super::task_accounting::{TaskAccounting, TaskCounts};
use super::task_events::TaskEvents;
use super::task_queue::TaskQueue;

/// The threads that run tasks, and the queue in front of them.
///
/// ```text
///   dispatch ── the accounting admits it ──▶ queue ── claim ──▶ svc-async-N ── left ──▶ counted
///      └── over a bound, closed, or no thread: TaskRejection
/// ```
///
/// Tasks may be queued before [`start`](Self::start). Afterwards, at least one thread takes tasks or is about to, or
/// the queue is empty: the call that sees the last thread fail clears the queue, and a dispatch checks again for a
/// thread after it has queued its task.
#[derive(Debug)]
pub struct TaskPool {
    accounting: Arc<TaskAccounting>,
    queue: Arc<TaskQueue>,
    limits: TaskLimits,
    /// Set when all threads should be replaced.
    pub restart_wanted: Flag,
    /// Set once, when the pool has started.
    workers: OnceLock<WorkerPool<Task>>,
}

impl TaskPool {
    /// Creates a pool; its threads are started later.
    pub fn new(limits: TaskLimits) -> Arc<Self> {
        let accounting = Arc::new(TaskAccounting::new(limits));
        let places = limits.queue_capacity.min(limits.in_flight_cap).max(1);
        // The threads have room for all tasks in flight, so a task never waits for the place of the task that awaits
        // it.
        let fibers_max = limits.fibers_max.max(1);
        let seats = Self::size_of(limits).slots();
        let queue = Arc::new(TaskQueue::new(places, seats, fibers_max, &accounting));
        let (restart_wanted, workers) = (Flag::new(), OnceLock::new());
        Arc::new(Self { accounting, queue, limits, restart_wanted, workers })
    }

    /// Starts the threads. Must be called at most once.
    ///
    /// # Errors
    ///
    /// If the system cannot create a thread. A thread that fails to boot is restarted by the supervisor.
    pub fn start(self: &Arc<Self>, engine: &Arc<dyn Engine<Task>>) -> io::Result<()> {
        let events: Arc<dyn PoolEvents<Task>> = Arc::new(ThreadEvents(Arc::downgrade(self)));
        let source: Arc<dyn JobSource<Task>> = Arc::<TaskQueue>::clone(&self.queue);
        let workers = WorkerPool::start("svc-async", self.size(), engine, source, &events)?;
        let is_first = self.workers.set(workers).is_ok();
        debug_assert!(is_first, "the pool was started twice");
        // Threads that failed before this point had no pool to report to.
        self.clear_if_dead();
        Ok(())
    }

    /// Sets the listener for detached tasks. The first call wins.
    pub fn set_events(&self, events: Arc<dyn TaskEvents>) {
        self.accounting.set_events(events);
    }

    /// Queues a task for the request in `origin`. Never waits.
    ///
    /// # Errors
    ///
    /// A [`TaskRejection`]; the input is dropped.
    pub fn dispatch(&self, input: Payload, origin: TaskOrigin<'_>) -> Result<Arc<Task>, TaskRejection> {
        if self.is_dead() {
            // A closed pool has no threads either, but they have ended regularly.
            return Err(if self.accounting.is_closed() {
                TaskRejection::Closed
            } else {
                TaskRejection::NoThread
            });
        }
        if self.accounting.is_full() {
            self.sweep();
        }
        let id = self.accounting.admit()?;
        let task = Arc::new(Task::new(id, origin, input, &self.accounting));
        self.queue.push(Arc::clone(&task));
        self.clear_if_dead();
        Ok(task)
    }

    /// Removes tasks with an outcome from the queue, to free their places. Should be called about once a second, as all
    /// threads may be busy.
    pub fn sweep(&self) {
        if self.accounting.take_stale() {
            self.queue.sweep();
        }
    }

    /// Takes a snapshot of the accounting.
    pub fn counts(&self) -> TaskCounts {
        self.accounting.counts()
    }

    /// Counts discarded output.
    pub fn discard_output(&self, bytes: u64) {
        self.accounting.discard_output(bytes);
    }

    /// Returns the limits.
    pub fn limits(&self) -> TaskLimits {
        self.limits
    }

    /// Returns the size of the pool.
    pub fn size(&self) -> PoolSize {
        Self::size_of(self.limits)
    }

    fn size_of(limits: TaskLimits) -> PoolSize {
        PoolSize { min: limits.workers, max: limits.workers }
    }

    /// Returns the threads, once they are started.
    pub fn workers(&self) -> Option<&WorkerPool<Task>> {
        self.workers.get()
    }

    /// Rejects all further dispatches. Queued and running tasks continue.
    pub fn close(&self) {
        self.accounting.close();
    }

    /// Cancels all tasks, queued and running, and [closes](Self::close) the pool. Must be repeated until none is in
    /// flight, because it can miss a task that is being claimed.
    pub fn cancel_all(&self, now: Instant) {
        self.close();
        self.queue.clear(|task| {
            task.cancel();
        });
        let Some(workers) = self.workers() else { return };
        for slot in workers.slots(now) {
            for held in workers.held(slot.slot, now) {
                if let Some(task) = workers.job(slot.slot, held.serial) {
                    task.cancel();
                }
            }
        }
    }

    /// Lets the threads end once the queue is empty; tasks still running then are lost.
    pub fn close_queue(&self) {
        self.close();
        self.queue.close();
    }

    /// Waits until all threads have ended, after [`close_queue`](Self::close_queue), and cancels the tasks left in the
    /// queue. Returns whether no thread panicked.
    pub fn join(&self) -> bool {
        let in_order = self.workers().is_none_or(WorkerPool::join);
        self.queue.clear(|task| {
            task.cancel();
        });
        in_order
    }

    /// Returns whether no thread takes tasks or is about to.
    fn is_dead(&self) -> bool {
        self.workers().is_some_and(|workers| workers.taking() == 0)
    }

    fn clear_if_dead(&self) {
        // SeqCst: a dispatch queues its task before it looks for a thread, and the last thread counts itself off before
        // it looks for tasks; at least one of them sees the other.
        fence(Ordering::SeqCst);
        if self.is_dead() {
            self.queue.clear(|task| {
                task.settle(TaskOutcome::Lost("no thread for tasks boots"));
            });
        }
    }
}

/// Receives the events of the threads.
struct ThreadEvents(Weak<TaskPool>);

impl PoolEvents<Task> for ThreadEvents {
    fn claimed(&self, _task: &Task, _now: Instant) {}

    fn skipped(&self, _task: &Task) {}

    fn served(&self, _task: &Task, _ran: Duration) {}

    fn worker_failed(&self) {
        if let Some(pool) = self.0.upgrade() {
            pool.clear_if_dead();
        }
    }

    fn recycled(&self, _slot: usize, _reason: RecycleReason) {}

    fn retired(&self, _slot: usize) {}

    fn soft_reset(&self, _slot: usize) {}
}

#[cfg(test)]
#[path = "task_pool_tests.rs"]
mod tests;
