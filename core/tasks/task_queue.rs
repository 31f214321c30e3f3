//! The queue of the tasks: one for all threads.
//!
//! Promises: first come, first served; a task that was cancelled while it waited is counted when it is taken off, by a
//! thread or by a [sweep](TaskQueue::sweep).
//! Refuses: it admits nobody; the books do.

use crate::pool::JobSource;
use crate::sync::idle_workers::IdleWorkers;
use crate::sync::primitive::Arc;
use crate::sync::queue::WorkQueue;

use super::outcome::TaskOutcome;
use super::task::Task;
use super::task_books::TaskBooks;

/// The queue, and the seats of the threads that take from it.
#[derive(Debug)]
pub(super) struct TaskQueue {
    entries: WorkQueue<Arc<Task>>,
    books: Arc<TaskBooks>,
    fibers_max: usize,
}

impl TaskQueue {
    /// Makes an empty queue of so many places.
    pub(super) fn new(capacity: usize, seats: usize, fibers_max: usize, books: &Arc<TaskBooks>) -> Self {
        Self { entries: WorkQueue::new(capacity, seats), books: Arc::clone(books), fibers_max }
    }

    /// Queues a task that the books have admitted, and wakes a thread for it.
    pub(super) fn push(&self, task: Arc<Task>) {
        // The books admit no more than there are places, and an entry gives its place back when it has been taken.
        self.requeue(task);
    }

    /// Takes those off that have their outcome, so that they hold no places. Tasks that are queued meanwhile may overtake
    /// others.
    pub(super) fn sweep(&self) {
        for _ in 0..self.entries.len() {
            let Some(task) = self.entries.try_take() else { break };
            if task.outcome().is_some() {
                self.books.taken();
                task.leave();
            } else {
                // It has kept its place in the books.
                self.requeue(task);
            }
        }
    }

    fn requeue(&self, task: Arc<Task>) {
        let refused = self.entries.push(task).err();
        debug_assert!(refused.is_none(), "admitted without a place");
        if let Some(task) = refused {
            self.books.taken();
            task.settle(TaskOutcome::Lost("the queue had no place for it"));
            task.leave();
        }
        self.entries.announce();
    }

    /// Takes all entries off, and gives each its end.
    pub(super) fn clear(&self, end: impl Fn(&Task)) {
        while let Some(task) = self.try_take() {
            end(&task);
            task.leave();
        }
    }

    /// Allows threads to end once the queue is empty.
    pub(super) fn shut(&self) {
        self.entries.close();
    }
}

impl JobSource<Task> for TaskQueue {
    fn try_take(&self) -> Option<Arc<Task>> {
        let task = self.entries.try_take()?;
        self.books.taken();
        Some(task)
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn backlog(&self) -> usize {
        self.entries.len()
    }

    fn is_shut(&self) -> bool {
        self.entries.is_closed()
    }

    fn idle_workers(&self) -> &IdleWorkers {
        self.entries.idle_workers()
    }

    fn fibers_max(&self) -> usize {
        self.fibers_max
    }

    fn has_jobs_that_await_jobs(&self) -> bool {
        true
    }
}
