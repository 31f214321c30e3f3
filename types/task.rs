//! Background tasks.

/// Why a task was not dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRejection {
    /// The queue is full.
    Queue {
        /// The capacity of the queue.
        capacity: usize,
    },
    /// The maximum number of tasks is in flight.
    InFlight {
        /// The limit.
        cap: usize,
    },
    /// There are no threads for tasks, or the boot of all of them has failed.
    NoThread,
    /// The server is shutting down.
    Closed,
}

/// The condition that ends the wait for several tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// All tasks have completed, or one has ended otherwise.
    All,
    /// One task has completed, or all have ended otherwise.
    Any,
    /// One task has an outcome.
    Race,
    /// All tasks have left their threads.
    Left,
}
