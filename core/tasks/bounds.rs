//! The limits of a task pool.

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
