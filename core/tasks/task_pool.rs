//! The pool of tasks: a second pool of threads behind a queue of its own.
//!
//! Promises: a dispatch is queued or refused at once; while no thread can boot, dispatches are refused and queued tasks
//! fail, so that nobody waits for a pool that is not there. Refuses: it supervises nothing and reads no clock.

use std::io;
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::pool::{Engine, JobSource, PoolEvents, PoolSize, RecycleReason, WorkerPool};
use crate::sync::counter::Flag;
use crate::sync::primitive::{Arc, Ordering, fence};

use super::bounds::{TaskLimits, TaskRejection};
use super::outcome::{Cargo, TaskOutcome};
use super::task::{Task, TaskOrigin};
use super::task_books::{TaskBooks, TaskCounts};
use super::task_events::TaskEvents;
use super::task_queue::TaskQueue;

/// The threads that run tasks, and the queue in front of them.
///
/// ```text
///   dispatch ── the books admit it ──▶ queue ── claim ──▶ svc-async-N ── left ──▶ counted
///      └── over a bound, closed, or no thread: TaskRejection
/// ```
///
/// Before [`start`](Self::start), tasks may queue. From then on, at least one thread takes tasks, or is about to, or
/// the queue is empty: whoever sees the last thread fail clears the queue, and whoever queues a task looks once more
/// whether there is a thread.
#[derive(Debug)]
pub struct TaskPool {
    books: Arc<TaskBooks>,
    queue: Arc<TaskQueue>,
    limits: TaskLimits,
    /// Set when all threads are to be replaced.
    pub restart_wanted: Flag,
    /// Set once, when the pool has started.
    workers: OnceLock<WorkerPool<Task>>,
}

impl TaskPool {
    /// Makes a pool whose threads have not started.
    pub fn new(limits: TaskLimits) -> Arc<Self> {
        let books = Arc::new(TaskBooks::new(limits));
        let places = limits.queue_capacity.min(limits.in_flight_cap).max(1);
        // The threads have a place for each task in flight, so a task never waits for the place of the task that awaits it.
        let fibers_max = limits.fibers_max.max(1);
        let seats = Self::size_of(limits).slots();
        let queue = Arc::new(TaskQueue::new(places, seats, fibers_max, &books));
        let (restart_wanted, workers) = (Flag::new(), OnceLock::new());
        Arc::new(Self { books, queue, limits, restart_wanted, workers })
    }

    /// Starts the threads. To be called once.
    ///
    /// # Errors
    ///
    /// If the system creates no thread. One that fails to boot is started again by the supervisor.
    pub fn start(self: &Arc<Self>, engine: &Arc<dyn Engine<Task>>) -> io::Result<()> {
        let events: Arc<dyn PoolEvents<Task>> = Arc::new(ThreadEvents(Arc::downgrade(self)));
        let source: Arc<dyn JobSource<Task>> = Arc::<TaskQueue>::clone(&self.queue);
        let workers = WorkerPool::start("svc-async", self.size(), engine, source, &events)?;
        let is_first = self.workers.set(workers).is_ok();
        debug_assert!(is_first, "the pool was started twice");
        // Threads that have failed by now could not find the pool.
        self.clear_if_dead();
        Ok(())
    }

    /// Sets who is told about detached tasks. The first call counts.
    pub fn set_events(&self, events: Arc<dyn TaskEvents>) {
        self.books.set_events(events);
    }

    /// Queues a task for this request. Never waits.
    ///
    /// # Errors
    ///
    /// [`TaskRejection`], and the input is dropped.
    pub fn dispatch(&self, input: Cargo, origin: TaskOrigin<'_>) -> Result<Arc<Task>, TaskRejection> {
        if self.is_dead() {
            // The threads of a pool that was closed have ended as they should.
            return Err(if self.books.is_closed() { TaskRejection::Closed } else { TaskRejection::NoThread });
        }
        if self.books.is_full() {
            self.sweep();
        }
        let id = self.books.admit()?;
        let task = Arc::new(Task::new(id, origin, input, &self.books));
        self.queue.push(Arc::clone(&task));
        self.clear_if_dead();
        Ok(task)
    }

    /// Takes tasks off the queue that have their outcome, so that their places are free. To be called about once a
    /// second, as threads may be busy.
    pub fn sweep(&self) {
        if self.books.take_stale() {
            self.queue.sweep();
        }
    }

    /// Reads the books.
    pub fn counts(&self) -> TaskCounts {
        self.books.counts()
    }

    /// Counts output of tasks that went nowhere.
    pub fn discard_output(&self, bytes: u64) {
        self.books.discard_output(bytes);
    }

    /// Returns the bounds.
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

    /// Returns the threads, once they have started.
    pub fn workers(&self) -> Option<&WorkerPool<Task>> {
        self.workers.get()
    }

    /// Refuses all dispatches from now on. Tasks that are queued or running go on.
    pub fn close(&self) {
        self.books.close();
    }

    /// Cancels all tasks, queued and running, after [`close`](Self::close). To be called again until none is in flight:
    /// it misses one that is being claimed.
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

    /// Lets the threads end once the queue is empty; what they still run then is lost.
    pub fn shut(&self) {
        self.close();
        self.queue.shut();
    }

    /// Waits until every thread has ended, after [`shut`](Self::shut); what is left in the queue is cancelled. Returns
    /// whether no thread panicked.
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
        // SeqCst: whoever queues a task looks for a thread afterwards, and the last thread counts itself off before it
        // looks for tasks; at least one of them sees the other.
        fence(Ordering::SeqCst);
        if self.is_dead() {
            self.queue.clear(|task| {
                task.settle(TaskOutcome::Lost("no thread for tasks boots"));
            });
        }
    }
}

/// Hears of the threads.
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
