//! The file threads, which wait for the disk so that I/O threads never do.
//!
//! Jobs start in the order of their arrival; each is done once, and its result is sent to the requester. The queue
//! does not bound the number of jobs. A stream has at most one at a time, and a cached file at most one job of each
//! kind, so the number of connections and the cache bound them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use svc_core::limits::FILE_THREADS;
use svc_core::pool::StreamKey;
use svc_core::sync::event_count::EventCount;
use svc_core::sync::primitive::{Arc, AtomicBool, Ordering, SegQueue};

use super::file_job::{BackgroundJob, Done, FileJob};

/// The requester of a job.
pub(crate) trait JobClient: Send + Sync + std::fmt::Debug {
    /// Delivers the result of the job that the stream with `key` requested.
    fn job_done(&self, key: StreamKey, done: Done);
}

/// The queue of the file threads.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    orders: SegQueue<DiskOrder>,
    /// Background jobs that run while there are no orders. Only one thread runs them, so that the others stay free for orders.
    long_jobs: SegQueue<BackgroundJob>,
    event_count: EventCount,
    closed: AtomicBool,
}

/// An order to the file threads.
#[derive(Debug)]
enum DiskOrder {
    /// Work without a result.
    Background(BackgroundJob),
    /// A job and its requester.
    FileJob(FileJob, StreamKey, Arc<dyn JobClient>),
}

impl Disk {
    /// Starts the file threads.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<Vec<JoinHandle<()>>> {
        (0..FILE_THREADS)
            .map(|index| {
                let disk = Arc::clone(self);
                let does_long_jobs = index == 0;
                thread::Builder::new()
                    .name(format!("svc-file-{index}"))
                    .spawn(move || disk.run(does_long_jobs))
            })
            .collect()
    }

    /// Queues `job`; its result is sent to `client` for the stream with `key`.
    pub(crate) fn order(&self, job: FileJob, key: StreamKey, client: Arc<dyn JobClient>) {
        self.orders.push(DiskOrder::FileJob(job, key, client));
        self.event_count.notify_one();
    }

    /// Queues `job`.
    pub(crate) fn order_background(&self, job: BackgroundJob) {
        if job.takes_long() {
            self.long_jobs.push(job);
            // If only one thread were woken, it might not be the one that runs long background jobs.
            self.event_count.notify_all();
        } else {
            self.orders.push(DiskOrder::Background(job));
            self.event_count.notify_one();
        }
    }

    /// Returns the number of orders that no thread has taken.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.orders.len()
    }

    /// Ends the threads after the last job.
    pub(crate) fn close(&self) {
        // Release: pairs with the Acquire in `take`.
        self.closed.store(true, Ordering::Release);
        self.event_count.notify_all();
    }

    fn run(&self, does_long_jobs: bool) {
        while let Some(order) = self.take(does_long_jobs) {
            match order {
                DiskOrder::FileJob(job, key, client) => {
                    // If a job panics, its stream still gets a result.
                    let done = catch_unwind(AssertUnwindSafe(|| job.run())).unwrap_or(Done::Failed);
                    client.job_done(key, done);
                }
                // A job that panics is requested again later.
                DiskOrder::Background(job) => drop(catch_unwind(AssertUnwindSafe(|| job.run()))),
            }
        }
    }

    fn take(&self, does_long_jobs: bool) -> Option<DiskOrder> {
        let pop = || {
            let long = || if does_long_jobs { self.long_jobs.pop().map(DiskOrder::Background) } else { None };
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
