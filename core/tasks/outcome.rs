//! What a task comes to.

use std::any::Any;

/// What travels to a task and back. Only those at the ends know what is in it.
pub type Cargo = Box<dyn Any + Send + Sync>;

/// What awaiters get.
#[derive(Debug)]
pub enum TaskOutcome {
    /// The task's code has returned this.
    Completed(Cargo),
    /// The task's code has failed, and this says how.
    Failed(Cargo),
    /// The task was not run to its end, for this reason, of which no cargo tells.
    Lost(&'static str),
    /// The task was cancelled.
    Cancelled,
}

impl TaskOutcome {
    /// Returns what a task with this outcome is counted as.
    pub fn fate(&self) -> TaskFate {
        match self {
            Self::Completed(_) => TaskFate::Completed,
            Self::Failed(_) | Self::Lost(_) => TaskFate::Failed,
            Self::Cancelled => TaskFate::Cancelled,
        }
    }
}

/// How a task has ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskFate {
    /// Its code returned a result.
    Completed,
    /// Its code failed, or could not be run to its end.
    Failed,
    /// Its awaiters were told that it was cancelled, whatever its code did afterwards.
    Cancelled,
}
