//! How scripts end.

use crate::bindings::{self, shim_outcome};

/// How a script has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end, or called `exit()`.
    Complete,
    /// A fatal error or an uncaught exception.
    Fatal,
    /// In worker mode: a fatal error after which the worker ends.
    Lost,
    /// `max_execution_time`.
    TimeLimit,
    /// Nobody read its output any more.
    Aborted,
}

/// Converts C's outcome.
pub(crate) fn outcome_of(raw: shim_outcome) -> Outcome {
    match raw {
        bindings::shim_outcome_SHIM_COMPLETE => Outcome::Complete,
        bindings::shim_outcome_SHIM_TIME_LIMIT => Outcome::TimeLimit,
        bindings::shim_outcome_SHIM_ABORTED => Outcome::Aborted,
        bindings::shim_outcome_SHIM_LOST => Outcome::Lost,
        _ => Outcome::Fatal,
    }
}
