//! A task on the thread that runs it.

use crate::parcel::Parcel;
use crate::task_ends::TaskEnd;

/// A task on the thread that runs it.
pub trait RunningTask {
    /// Returns the payload of the dispatch.
    fn input(&self) -> Option<&Parcel>;
    /// Records that the payload no longer refers to OPcache's memory.
    fn leave_cache(&mut self);
    /// Settles the task with its result, or its exception, which `thrown` describes for the log.
    fn settle(&mut self, answer: Parcel, thrown: Option<&[u8]>);
    /// Returns whether the task should end.
    fn is_cancelled(&self) -> bool;
    /// Returns whether `end` is the requester's end of this task.
    fn is_behind(&self, end: &dyn TaskEnd) -> bool;
}
