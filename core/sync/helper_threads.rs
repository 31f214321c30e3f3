//! Helper threads: they do what blocks, so that the threads that ask for it need not.
//!
//! Promises: a job is run once, or dropped: at once if it is refused, or when the threads are closed. Jobs begin in the order of their arrival.
//! A thread is started when a job finds none idle, up to a bound, and ends after it was not needed for a while. Refuses: it
//! does not know what a job does, cannot interrupt one, and waits for none: neither whoever submits nor whoever closes.
//! How a job tells its requester that it is done, or that it was dropped, is the job's own business.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::limits::{HELPER_IDLE, HELPER_QUEUE_MAX, HELPER_THREADS_MAX};

use super::event_count::EventCount;
use super::lock::ShortLock;
use super::primitive::{Arc, ThreadBuilder};

/// Something that blocks its thread.
pub type HelperJob = Box<dyn FnOnce() + Send>;

/// The helper threads, and the queue that they take jobs from. Nothing runs until there is a job.
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
/// The threads own the jobs that they run; the queue owns the others. A thread that was started and has not run yet counts
/// as idle, and the system may still refuse it.
///
/// # Ordering
///
/// All state is under one lock. What happened before `submit` happens before its job.
///
/// # Progress
///
/// `submit` starts a thread at most, and does not wait for it.
pub struct HelperThreads {
    /// Short: numbers are compared, a job enters or leaves the queue.
    books: ShortLock<Books>,
    /// Notified when a job was queued, a thread is to end, or all are.
    work: EventCount,
    stack_bytes: usize,
}

struct Books {
    queue: VecDeque<HelperJob>,
    queue_max: usize,
    threads_max: usize,
    /// Jobs in the queue, and those that are about to enter it.
    demand: usize,
    /// Bit `N` for `svc-helper-N`: idle, busy, or being started.
    numbers: u64,
    /// Threads that the system has not yet agreed to.
    unborn: usize,
    idle: usize,
    /// How many threads were idle all the time since the last look.
    spared: usize,
    /// How many of the idle threads are to end.
    ending: usize,
    looked_at: Option<Instant>,
    is_closed: bool,
}

/// What a thread does next.
enum Next {
    End,
    Run(HelperJob),
    Sleep,
}

impl HelperThreads {
    /// Creates them as the server uses them.
    pub fn new() -> Arc<Self> {
        Self::bounded(HELPER_THREADS_MAX, HELPER_QUEUE_MAX)
    }

    /// Creates them with bounds of their own: at most 64 threads.
    pub fn bounded(threads_max: usize, queue_max: usize) -> Arc<Self> {
        Self::with_stack(threads_max, queue_max, STACK_BYTES)
    }

    fn with_stack(threads_max: usize, queue_max: usize, stack_bytes: usize) -> Arc<Self> {
        let books = Books {
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
        Arc::new(Self { books: ShortLock::new(books), work: EventCount::new(), stack_bytes })
    }

    /// Queues a job for a thread, and starts one if none is idle. Returns false, and drops the job, if as many wait as may,
    /// if there is no thread and the system has refused one, or after [`close`](Self::close).
    pub fn submit(self: &Arc<Self>, job: HelperJob) -> bool {
        let number = {
            let mut books = self.books.lock();
            if !books.reserve() {
                return false;
            }
            books.enlist()
        };
        if let Some(number) = number {
            self.start(number);
        }
        {
            let mut books = self.books.lock();
            if books.is_closed || books.threads() == books.unborn {
                books.demand -= 1;
                return false;
            }
            books.queue.push_back(job);
            books.check_invariants();
        }
        self.work.notify_one();
        true
    }

    /// Ends the threads that were idle all the time since the last look, if that was [`HELPER_IDLE`] ago. To be called now
    /// and then, however often.
    pub fn retire(&self, now: Instant) {
        let has_ending = {
            let mut books = self.books.lock();
            books.look(now);
            books.check_invariants();
            books.ending > 0
        };
        if has_ending {
            self.work.notify_all();
        }
    }

    /// Takes no more jobs, drops those that have not begun, and ends each thread when it is idle. Waits for none.
    pub fn close(&self) {
        let dropped = {
            let mut books = self.books.lock();
            books.is_closed = true;
            books.demand -= books.queue.len();
            std::mem::take(&mut books.queue)
        };
        self.work.notify_all();
        // Outside of the lock: what a job does when it is dropped is not known here.
        drop(dropped);
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.books.lock().threads()
    }

    fn start(self: &Arc<Self>, number: u32) {
        let own = Arc::clone(self);
        let builder = ThreadBuilder::new().name(format!("svc-helper-{number}")).stack_size(self.stack_bytes);
        let started = builder.spawn(move || own.run(number));
        let mut books = self.books.lock();
        books.unborn -= 1;
        if started.is_err() {
            // Those that are there do the work.
            books.leave(number);
        }
    }

    fn run(&self, number: u32) {
        loop {
            let ticket = self.work.prepare_wait();
            let next = self.books.lock().next(number);
            match next {
                Next::Sleep => self.work.wait(&ticket),
                Next::End => return self.work.cancel_wait(ticket),
                Next::Run(job) => {
                    self.work.cancel_wait(ticket);
                    // Whoever waits for a job that panics learns of it by what the job drops.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                    self.books.lock().idle += 1;
                }
            }
        }
    }
}

impl Books {
    fn threads(&self) -> usize {
        self.numbers.count_ones() as usize
    }

    /// Makes room for one job.
    fn reserve(&mut self) -> bool {
        let has_room = !self.is_closed && self.demand < self.queue_max;
        self.demand += usize::from(has_room);
        has_room
    }

    /// Gives a number to a thread that has to be started.
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

    /// A thread is no more; it was idle.
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
            // A job that is about to enter the queue counts on a thread that was idle.
            self.ending = self.ending.saturating_sub(1);
            self.leave(number);
            Next::End
        } else {
            Next::Sleep
        };
        self.check_invariants();
        next
    }

    /// Fewer are idle than before.
    fn set_idle(&mut self, idle: usize) {
        self.idle = idle;
        self.spared = self.spared.min(idle);
        self.ending = self.ending.min(idle);
    }

    fn look(&mut self, now: Instant) {
        if self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < HELPER_IDLE) {
            return;
        }
        // The first look begins the first period.
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

/// As many as there are bits.
const NUMBERS: usize = u64::BITS as usize;

/// Modules of the name service switch are code of others, which may use more than a resolver does.
const STACK_BYTES: usize = 1024 * 1024;

const _: () = assert!(HELPER_THREADS_MAX <= NUMBERS, "each thread has a bit");

#[cfg(test)]
#[path = "helper_threads_tests.rs"]
mod tests;
