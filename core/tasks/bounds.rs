//! The limits of a task pool, and the errors of a dispatch beyond them.

/// The limits of a task pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// The number of threads.
    pub workers: usize,
    /// The maximum number of tasks that one thread runs at a time.
    pub fibers_max: usize,
    /// The maximum number of tasks in the queue.
    pub queue_capacity: usize,
    /// The maximum number of tasks in flight.
    pub in_flight_cap: usize,
}

/// Why a task was not dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRejection {
    /// The queue is full. Counted.
    Queue {
        /// The capacity of the queue.
        capacity: usize,
    },
    /// The maximum number of tasks is in flight. Counted.
    InFlight {
        /// The limit.
        cap: usize,
    },
    /// The boot of all threads has failed.
    NoThread,
    /// The server is shutting down.
    Closed,
}
