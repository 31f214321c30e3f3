//! The task queue, shared by all threads.
//!
//! First in, first out, except while a [sweep](TaskQueue::sweep) runs. A task that was cancelled in the queue is
//! counted when it is removed, by a thread or by a sweep. Admission is up to the accounting.

use crate::pool::JobSource;
use crate::sync::idle_workers::IdleWorkers;
use crate::sync::primitive::Arc;
use crate::sync::queue::WorkQueue;

use super::outcome::TaskOutcome;
use super::task::Task;
use super::task_accounting::TaskAccounting;

/// The queue, and the places of the threads that take from it.
#[derive(Debug)]
pub(super) struct TaskQueue {
    entries: WorkQueue<Arc<Task>>,
    accounting: Arc<TaskAccounting>,
    fibers_max: usize,
}

impl TaskQueue {
    /// Creates an empty queue with this capacity.
    pub(super) fn new(
        capacity: usize,
        seats: usize,
        fibers_max: usize,
        accounting: &Arc<TaskAccounting>,
    ) -> Self {
        Self { entries: WorkQueue::new(capacity, seats), accounting: Arc::clone(accounting), fibers_max }
    }

    /// Queues a task that the accounting has admitted, and wakes a thread.
    pub(super) fn push(&self, task: Arc<Task>) {
        // Never full: the accounting admits at most `capacity` tasks, and an entry is counted until it has been taken.
        self.requeue(task);
    }

    /// Removes the tasks that have their outcome, to free their places. A task queued during the sweep may overtake
    /// others.
    pub(super) fn sweep(&self) {
        for _ in 0..self.entries.len() {
            let Some(task) = self.entries.try_take() else { break };
            if task.outcome().is_some() {
                self.accounting.taken();
                task.leave();
            } else {
                // It is still counted in the accounting.
                self.requeue(task);
            }
        }
    }

    fn requeue(&self, task: Arc<Task>) {
        let refused = self.entries.push(task).err();
        debug_assert!(refused.is_none(), "admitted without a place");
        if let Some(task) = refused {
            self.accounting.taken();
            task.settle(TaskOutcome::Lost("the queue had no place for it"));
            task.leave();
        }
        self.entries.announce();
    }

    /// Removes all entries, and lets `end` decide the outcome of each.
    pub(super) fn clear(&self, end: impl Fn(&Task)) {
        while let Some(task) = self.try_take() {
            end(&task);
            task.leave();
        }
    }

    /// Allows threads to end once the queue is empty.
    pub(super) fn close(&self) {
        self.entries.close();
    }
}

impl JobSource<Task> for TaskQueue {
    fn try_take(&self) -> Option<Arc<Task>> {
        let task = self.entries.try_take()?;
        self.accounting.taken();
        Some(task)
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn backlog(&self) -> usize {
        self.entries.len()
    }

    fn is_queue_closed(&self) -> bool {
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
