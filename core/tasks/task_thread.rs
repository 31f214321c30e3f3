//! The thread of a task, as far as others have to know it.

/// Is told when a task that the thread runs is cancelled. An engine implements it.
pub trait TaskThread: Send + Sync + std::fmt::Debug {
    /// The task with this number was cancelled, and its awaiters were told. Called by any thread, at most once for a
    /// task, possibly after the task has left the thread; must be wait-free apart from one wake-up.
    fn cancel(&self, task: u64);
}
