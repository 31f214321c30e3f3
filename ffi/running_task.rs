//! A task on the thread that runs it.

use crate::parcel::Parcel;
use crate::task_ends::TaskEnd;

/// A task on the thread that runs it.
pub trait RunningTask {
    /// What was dispatched.
    fn input(&self) -> Option<&Parcel>;
    /// What was dispatched does not lead into OPcache's memory any more.
    fn leave_cache(&mut self);
    /// Its function has returned, or thrown, which `thrown` describes for a log.
    fn settle(&mut self, answer: Parcel, thrown: Option<&[u8]>);
    /// Whether it is to end.
    fn is_cancelled(&self) -> bool;
    /// Returns whether `end` is the other end of this task.
    fn is_behind(&self, end: &dyn TaskEnd) -> bool;
}
