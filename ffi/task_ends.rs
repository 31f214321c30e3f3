//! The requester's end of tasks, as the server provides it.

use std::any::Any;

use crate::parcel::Parcel;
use crate::script_spans::TraceSeat;

/// Runs tasks.
pub trait Tasks: Send + Sync {
    /// The longest transfer in bytes; 0 if there are no threads for tasks.
    fn bytes_max(&self) -> u64;
    /// Offers a task on behalf of a request.
    ///
    /// # Errors
    ///
    /// [`TaskRefusal`] if it will not run.
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
    /// The span that it is in, if it has a trace.
    pub seat: Option<TraceSeat>,
}

/// Why a task will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRefusal {
    /// As many tasks wait for a thread as may.
    QueueFull(usize),
    /// As many tasks wait and run as may.
    CapReached(usize),
    /// No thread for tasks has booted.
    NoThread,
    /// The server is shutting down.
    Closed,
}

/// What has become of a task.
#[derive(Debug)]
pub enum TaskReading<'a> {
    /// Nothing yet.
    Open,
    /// Its result.
    Completed(&'a Parcel),
    /// What it has thrown.
    Failed(&'a Parcel),
    /// It has failed without an answer, for this reason.
    Lost(&'a str),
    /// It was cancelled.
    Cancelled,
}

/// The requester's end of a task. Dropping it changes nothing about the task.
pub trait TaskEnd: Send + Sync + Any {
    /// Another end of the same task.
    fn share(&self) -> Box<dyn TaskEnd>;
    /// What has become of it; does not change once it is not open.
    fn read(&self) -> TaskReading<'_>;
    /// Cancels it. Returns false if it was settled before.
    fn cancel(&self) -> bool;
    /// Its answer is not wanted.
    fn detach(&self);
    /// Whether the end of its request has to do with it.
    fn is_owned(&self) -> bool;
    /// Whether it is counted as stranded and is still on its thread.
    fn is_stranded(&self) -> bool;
    /// Counts it as stranded, if it has begun and is not settled.
    fn strand(&self);
}

/// When a [`TaskWatchEnd`] is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskWatchMode {
    /// When all have completed, or one has not.
    All,
    /// When one has completed, or none has.
    Any,
    /// When one is settled.
    Race,
    /// When all have left their threads.
    Left,
}

/// Several tasks that a request waits for together.
pub trait TaskWatchEnd {
    /// The index of the task that ended it; the number of tasks, or more, if none did.
    fn winner(&self) -> usize;
}
