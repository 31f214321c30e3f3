//! The requester's end of tasks, implemented by the server.

use std::any::Any;

use crate::parcel::Parcel;
use crate::script_spans::TraceSeat;

/// Runs tasks.
pub trait Tasks: Send + Sync {
    /// Returns the maximum size of a payload in bytes; 0 if there are no task threads.
    fn bytes_max(&self) -> u64;
    /// Dispatches a task on behalf of a request.
    ///
    /// # Errors
    ///
    /// A [`TaskRefusal`] if it will not run.
    fn dispatch(
        &self,
        input: Parcel,
        requester: TaskRequester<'_>,
    ) -> Result<(u64, Box<dyn TaskEnd>), TaskRefusal>;
}

/// The request that dispatches a task.
#[derive(Default)]
pub struct TaskRequester<'a> {
    /// Its ID in logs.
    pub request_id: &'a [u8],
    /// The span that it is in, if it is traced.
    pub seat: Option<TraceSeat>,
}

/// Why a task will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRefusal {
    /// The maximum number of tasks is waiting for a thread.
    QueueFull(usize),
    /// The maximum number of tasks is in flight.
    CapReached(usize),
    /// The boot of all task threads has failed.
    NoThread,
    /// The server is shutting down.
    Closed,
}

/// The state of a task.
#[derive(Debug)]
pub enum TaskReading<'a> {
    /// Not settled.
    Open,
    /// The result.
    Completed(&'a Parcel),
    /// The exception.
    Failed(&'a Parcel),
    /// It has failed without a result, for this reason.
    Lost(&'a str),
    /// It was cancelled.
    Cancelled,
}

/// The requester's end of a task. Dropping it changes nothing about the task.
pub trait TaskEnd: Send + Sync + Any {
    /// Returns another end of the same task.
    fn share(&self) -> Box<dyn TaskEnd>;
    /// Returns the state of the task; does not change once it is settled.
    fn read(&self) -> TaskReading<'_>;
    /// Cancels the task. Returns false if it was settled before.
    fn cancel(&self) -> bool;
    /// Detaches the task: its result is not wanted.
    fn detach(&self);
    /// Returns whether the end of its request affects the task.
    fn is_owned(&self) -> bool;
    /// Returns whether the task is counted as stranded and still on its thread.
    fn is_stranded(&self) -> bool;
    /// Counts the task as stranded, if it has begun and is not settled.
    fn strand(&self);
}

/// The condition that ends a [`TaskWatchEnd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskWatchMode {
    /// All have completed, or one has ended otherwise.
    All,
    /// One has completed, or all have ended otherwise.
    Any,
    /// One is settled.
    Race,
    /// All have left their threads.
    Left,
}

/// Several tasks that a request awaits together.
pub trait TaskWatchEnd {
    /// Returns the index of the task that ended it; the number of tasks, or more, if none did alone.
    fn winner(&self) -> usize;
}
