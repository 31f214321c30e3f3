//! The outcome of a task.

use std::any::Any;

/// The payload of a task or of its result; opaque to the pool.
pub type Payload = Box<dyn Any + Send + Sync>;

/// The outcome of a task, as its awaiters get it.
#[derive(Debug)]
pub enum TaskOutcome {
    /// The task has returned this result.
    Completed(Payload),
    /// The task has failed with this error.
    Failed(Payload),
    /// The task was not run to its end, for this reason; there is no payload.
    Lost(&'static str),
    /// The task was cancelled.
    Cancelled,
}

impl TaskOutcome {
    /// Returns how a task with this outcome is counted.
    pub fn end(&self) -> TaskEnd {
        match self {
            Self::Completed(_) => TaskEnd::Completed,
            Self::Failed(_) | Self::Lost(_) => TaskEnd::Failed,
            Self::Cancelled => TaskEnd::Cancelled,
        }
    }
}

/// The outcome of a task, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// Its code has returned a result.
    Completed,
    /// Its code has failed, or was not run to its end.
    Failed,
    /// It was cancelled before it had another outcome, whatever its code did afterwards.
    Cancelled,
}
