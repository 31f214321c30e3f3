//! The file threads: whatever may wait for a disk, so that io threads never do.
//!
//! Promises: jobs start in the order they came; each is done once, and its result goes to the inbox of the io thread
//! that asked. Refuses: it does not bound the number of jobs; a link has at most one at a time, so connections do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use crate::limits::FILE_THREADS;
use crate::pool::StreamKey;
use crate::sync::park::Bell;
use crate::sync::primitive::{Arc, AtomicBool, Ordering, SegQueue};

use super::inbox::{Inbox, Message};

pub(super) use super::file_job::{Done, Job};

/// The queue of the file threads.
#[derive(Debug, Default)]
pub(super) struct Disk {
    orders: SegQueue<Order>,
    bell: Bell,
    closed: AtomicBool,
}

/// A job and who wants its result.
#[derive(Debug)]
struct Order {
    job: Job,
    key: StreamKey,
    inbox: Arc<Inbox>,
}

impl Disk {
    /// Starts the file threads.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<Vec<JoinHandle<()>>> {
        (0..FILE_THREADS)
            .map(|index| {
                let disk = Arc::clone(self);
                thread::Builder::new().name(format!("svc-file-{index}")).spawn(move || disk.run())
            })
            .collect()
    }

    /// Asks for `job`; its result goes to `inbox` for the stream with `key`.
    pub(super) fn order(&self, job: Job, key: StreamKey, inbox: &Arc<Inbox>) {
        self.orders.push(Order { job, key, inbox: Arc::clone(inbox) });
        self.bell.notify_one();
    }

    /// Lets the threads end once no job is left.
    pub(super) fn close(&self) {
        // Release: pairs with the Acquire in `take`.
        self.closed.store(true, Ordering::Release);
        self.bell.notify_all();
    }

    fn run(&self) {
        while let Some(Order { job, key, inbox }) = self.take() {
            // A job that panicked still owes its link an answer.
            let done = catch_unwind(AssertUnwindSafe(|| job.run())).unwrap_or(Done::Failed);
            inbox.send(Message::Disk(key, done));
        }
    }

    fn take(&self) -> Option<Order> {
        loop {
            if let Some(order) = self.orders.pop() {
                return Some(order);
            }
            let ticket = self.bell.ticket();
            if let Some(order) = self.orders.pop() {
                self.bell.cancel(ticket);
                return Some(order);
            }
            // Acquire: pairs with the Release in `close`.
            if self.closed.load(Ordering::Acquire) {
                self.bell.cancel(ticket);
                return self.orders.pop();
            }
            self.bell.sleep(&ticket);
        }
    }
}
