//! The bounds of a pool of tasks, and what a dispatch over one of them gets.

/// The bounds of a pool of tasks.
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
        /// The number of places in the queue.
        capacity: usize,
    },
    /// The maximum number of tasks is in flight. Counted.
    InFlight {
        /// The maximum.
        cap: usize,
    },
    /// No thread of the pool has booted, although it was tried.
    NoThread,
    /// The server is shutting down.
    Closed,
}
