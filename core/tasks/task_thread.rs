//! The thread of a task, as seen by other threads.

/// Receives the cancellation of a task that the thread runs. Implemented by the engine.
pub trait TaskThread: Send + Sync + std::fmt::Debug {
    /// Signals that the task with this number was cancelled, after its awaiters were notified. Called by any thread, at
    /// most once for each task, possibly after the task has left the thread; must be wait-free apart from one wake-up.
    fn cancel(&self, task: u64);
}
