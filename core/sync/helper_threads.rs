//! Threads for blocking jobs.
//!
//! A job is run once or dropped: at once if it is refused, or when the threads are closed. Jobs start in FIFO order. A
//! job that finds no idle thread starts one, up to a limit; threads that are not needed for a while end. A running job
//! cannot be interrupted, and neither `submit` nor `close` waits for one. Reporting the end or the drop of a job to its
//! requester is up to the job.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::limits::{HELPER_IDLE, HELPER_QUEUE_MAX, HELPER_THREADS_MAX};

use super::event_count::EventCount;
use super::lock::ShortLock;
use super::primitive::{Arc, ThreadBuilder};

/// A job that blocks its thread.
pub type HelperJob = Box<dyn FnOnce() + Send>;

/// The helper threads and their job queue. No thread runs until there is a job.
///
/// ```text
///            submit: no thread is idle             takes a job
///   (none) ─────────────────────────────▶ Idle ────────────────▶ Busy
///      ▲                                   │ ▲                      │
///      └───────────────────────────────────┘ └──────────────────────┘
///        retire: spared for HELPER_IDLE, or     the job has returned,
///        closed; and the queue is empty         or panicked
/// ```
///
/// The threads own the jobs that they run; the queue owns the others. A thread that was started but has not run yet
/// counts as idle, and the system may still fail to start it.
///
/// # Ordering
///
/// All state is under one lock. What happened before `submit` happens before its job.
///
/// # Progress
///
/// `submit` starts at most one thread, and does not wait for it.
pub struct HelperThreads {
    /// Held briefly: to compare numbers, or to push or pop a job.
    state: ShortLock<HelperState>,
    /// Notified when a job was queued, or when one or all threads must end.
    work: EventCount,
    stack_bytes: usize,
}

struct HelperState {
    queue: VecDeque<HelperJob>,
    queue_max: usize,
    threads_max: usize,
    /// Jobs in the queue, and jobs about to enter it.
    demand: usize,
    /// Bit `N` for `svc-helper-N`: set while it is idle, busy, or being started.
    numbers: u64,
    /// Threads whose start the system has not confirmed yet.
    unborn: usize,
    idle: usize,
    /// The number of threads that were idle throughout since the last call of `retire`.
    spared: usize,
    /// The number of idle threads that must end.
    ending: usize,
    looked_at: Option<Instant>,
    is_closed: bool,
}

/// The next step of a thread.
enum Next {
    End,
    Run(HelperJob),
    Sleep,
}

impl HelperThreads {
    /// Creates the threads with the server's limits.
    pub fn new() -> Arc<Self> {
        Self::bounded(HELPER_THREADS_MAX, HELPER_QUEUE_MAX)
    }

    /// Creates the threads with other limits: at most 64 threads.
    pub fn bounded(threads_max: usize, queue_max: usize) -> Arc<Self> {
        Self::with_stack(threads_max, queue_max, STACK_BYTES)
    }

    fn with_stack(threads_max: usize, queue_max: usize, stack_bytes: usize) -> Arc<Self> {
        let state = HelperState {
            queue: VecDeque::with_capacity(queue_max),
            queue_max,
            threads_max: threads_max.min(NUMBERS),
            demand: 0,
            numbers: 0,
            unborn: 0,
            idle: 0,
            spared: 0,
            ending: 0,
            looked_at: None,
            is_closed: false,
        };
        Arc::new(Self { state: ShortLock::new(state), work: EventCount::new(), stack_bytes })
    }

    /// Queues a job, and starts a thread if none is idle. Returns false, and drops the job, if the queue is full, if
    /// there is no thread and the system failed to start one, or after [`close`](Self::close).
    pub fn submit(self: &Arc<Self>, job: HelperJob) -> bool {
        let number = {
            let mut state = self.state.lock();
            if !state.reserve() {
                return false;
            }
            state.enlist()
        };
        if let Some(number) = number {
            self.start(number);
        }
        {
            let mut state = self.state.lock();
            if state.is_closed || state.threads() == state.unborn {
                state.demand -= 1;
                return false;
            }
            state.queue.push_back(job);
            state.check_invariants();
        }
        self.work.notify_one();
        true
    }

    /// Ends the threads that have been idle since the previous look, if that was at least [`HELPER_IDLE`] ago. Call it
    /// periodically; extra calls are harmless.
    pub fn retire(&self, now: Instant) {
        let has_ending = {
            let mut state = self.state.lock();
            state.check(now);
            state.check_invariants();
            state.ending > 0
        };
        if has_ending {
            self.work.notify_all();
        }
    }

    /// Refuses further jobs, drops those that have not started, and ends each thread once it is idle. Does not wait.
    pub fn close(&self) {
        let dropped = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.demand -= state.queue.len();
            std::mem::take(&mut state.queue)
        };
        self.work.notify_all();
        // Outside of the lock: dropping a job may run arbitrary code.
        drop(dropped);
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.state.lock().threads()
    }

    fn start(self: &Arc<Self>, number: u32) {
        let own = Arc::clone(self);
        let builder = ThreadBuilder::new().name(format!("svc-helper-{number}")).stack_size(self.stack_bytes);
        let started = builder.spawn(move || own.run(number));
        let mut state = self.state.lock();
        state.unborn -= 1;
        if started.is_err() {
            // The existing threads run the job.
            state.leave(number);
        }
    }

    fn run(&self, number: u32) {
        loop {
            let ticket = self.work.prepare_wait();
            let next = self.state.lock().next(number);
            match next {
                Next::Sleep => self.work.wait(&ticket),
                Next::End => return self.work.cancel_wait(ticket),
                Next::Run(job) => {
                    self.work.cancel_wait(ticket);
                    // A requester learns of a panic by the drop of the job's captures.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                    self.state.lock().idle += 1;
                }
            }
        }
    }
}

impl HelperState {
    fn threads(&self) -> usize {
        self.numbers.count_ones() as usize
    }

    /// Reserves a place for one job.
    fn reserve(&mut self) -> bool {
        let has_room = !self.is_closed && self.demand < self.queue_max;
        self.demand += usize::from(has_room);
        has_room
    }

    /// Assigns a number to a thread that must be started.
    fn enlist(&mut self) -> Option<u32> {
        if self.demand <= self.idle || self.threads() >= self.threads_max {
            return None;
        }
        let number = self.numbers.trailing_ones();
        self.numbers |= 1 << number;
        self.unborn += 1;
        self.idle += 1;
        Some(number)
    }

    /// Removes an idle thread that has ended.
    fn leave(&mut self, number: u32) {
        debug_assert!(self.numbers & 1 << number != 0, "{number}");
        self.numbers &= !(1 << number);
        self.set_idle(self.idle - 1);
    }

    fn next(&mut self, number: u32) -> Next {
        let next = if let Some(job) = self.queue.pop_front() {
            self.demand -= 1;
            self.set_idle(self.idle - 1);
            Next::Run(job)
        } else if self.is_closed || self.ending > 0 && self.idle > self.demand {
            // A job about to enter the queue relies on a thread that was idle.
            self.ending = self.ending.saturating_sub(1);
            self.leave(number);
            Next::End
        } else {
            Next::Sleep
        };
        self.check_invariants();
        next
    }

    /// Records a lower number of idle threads.
    fn set_idle(&mut self, idle: usize) {
        self.idle = idle;
        self.spared = self.spared.min(idle);
        self.ending = self.ending.min(idle);
    }

    fn check(&mut self, now: Instant) {
        if self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < HELPER_IDLE) {
            return;
        }
        // The first look starts the first period.
        let is_first = self.looked_at.replace(now).is_none();
        self.ending = if is_first { 0 } else { self.spared };
        self.spared = self.idle - self.ending;
    }

    fn check_invariants(&self) {
        debug_assert!(self.queue.len() <= self.demand && self.demand <= self.queue_max);
        debug_assert!(self.unborn <= self.threads() && self.idle <= self.threads());
        debug_assert!(self.threads() <= self.threads_max);
        debug_assert!(self.spared <= self.idle && self.ending <= self.idle);
    }
}

impl std::fmt::Debug for HelperThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelperThreads").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

/// One for each bit.
const NUMBERS: usize = u64::BITS as usize;

/// Modules of the name service switch are third-party code, which may need more stack than a resolver.
const STACK_BYTES: usize = 1024 * 1024;

const _: () = assert!(HELPER_THREADS_MAX <= NUMBERS, "each thread has a bit");

#[cfg(test)]
#[path = "helper_threads_tests.rs"]
mod tests;
