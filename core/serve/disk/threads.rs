//! The file threads: whatever may wait for a disk, so that io threads never do.
//!
//! Promises: jobs start in the order they came; each is done once, and its result goes to who asked. Refuses: it does not bound the number of jobs; a stream has at most one at a time, and a file that is
//! kept ready at most one chore of a kind, so connections and memory do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use crate::limits::FILE_THREADS;
use crate::pool::StreamKey;
use crate::sync::event_count::EventCount;
use crate::sync::primitive::{Arc, AtomicBool, Ordering, SegQueue};

use super::file_job::{Chore, Done, Job};

/// Who wants the results of jobs.
pub(in crate::serve) trait JobClient: Send + Sync + std::fmt::Debug {
    /// A job that the stream with `key` has asked for is done.
    fn job_done(&self, key: StreamKey, done: Done);
}

/// The queue of the file threads.
#[derive(Debug, Default)]
pub(in crate::serve) struct Disk {
    orders: SegQueue<DiskOrder>,
    /// What is done when there is no order, by one thread alone: the others are there for orders.
    long_chores: SegQueue<Chore>,
    event_count: EventCount,
    closed: AtomicBool,
}

/// What is to be done.
#[derive(Debug)]
enum DiskOrder {
    /// Something that nobody waits for.
    Chore(Chore),
    /// A job, and who wants its result.
    Job(Job, StreamKey, Arc<dyn JobClient>),
}

impl Disk {
    /// Starts the file threads.
    pub(in crate::serve) fn start(self: &Arc<Self>) -> io::Result<Vec<JoinHandle<()>>> {
        (0..FILE_THREADS)
            .map(|index| {
                let disk = Arc::clone(self);
                let does_long_chores = index == 0;
                thread::Builder::new()
                    .name(format!("svc-file-{index}"))
                    .spawn(move || disk.run(does_long_chores))
            })
            .collect()
    }

    /// Asks for `job`; its result goes to `client` for the stream with `key`.
    pub(in crate::serve) fn order(&self, job: Job, key: StreamKey, client: Arc<dyn JobClient>) {
        self.orders.push(DiskOrder::Job(job, key, client));
        self.event_count.notify_one();
    }

    /// Asks for `chore`.
    pub(in crate::serve) fn order_chore(&self, chore: Chore) {
        if chore.takes_long() {
            self.long_chores.push(chore);
            // The one who does them may not be the one who would wake.
            self.event_count.notify_all();
        } else {
            self.orders.push(DiskOrder::Chore(chore));
            self.event_count.notify_one();
        }
    }

    /// Orders that no thread has taken.
    #[cfg(all(test, not(loom)))]
    pub(in crate::serve) fn waiting(&self) -> usize {
        self.orders.len()
    }

    /// Lets the threads end once no job is left.
    pub(in crate::serve) fn close(&self) {
        // Release: pairs with the Acquire in `take`.
        self.closed.store(true, Ordering::Release);
        self.event_count.notify_all();
    }

    fn run(&self, does_long_chores: bool) {
        while let Some(order) = self.take(does_long_chores) {
            match order {
                DiskOrder::Job(job, key, client) => {
                    // A job that panicked still owes its stream an answer.
                    let done = catch_unwind(AssertUnwindSafe(|| job.run())).unwrap_or(Done::Failed);
                    client.job_done(key, done);
                }
                // What a panic left undone is asked for again.
                DiskOrder::Chore(chore) => drop(catch_unwind(AssertUnwindSafe(|| chore.run()))),
            }
        }
    }

    fn take(&self, does_long_chores: bool) -> Option<DiskOrder> {
        let pop = || {
            let long = || if does_long_chores { self.long_chores.pop().map(DiskOrder::Chore) } else { None };
            self.orders.pop().or_else(long)
        };
        loop {
            if let Some(order) = pop() {
                return Some(order);
            }
            let ticket = self.event_count.prepare_wait();
            if let Some(order) = pop() {
                self.event_count.cancel_wait(ticket);
                return Some(order);
            }
            // Acquire: pairs with the Release in `close`.
            if self.closed.load(Ordering::Acquire) {
                self.event_count.cancel_wait(ticket);
                return self.orders.pop();
            }
            self.event_count.wait(&ticket);
        }
    }
}
