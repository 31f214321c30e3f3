//! The outcomes of scripts.

#[cfg(feature = "php")]
use crate::bindings::{self, shim_outcome};

/// The outcome of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpOutcome {
    /// It ran to its end, or called `exit()`.
    Complete,
    /// A fatal error or an uncaught exception.
    Fatal,
    /// In worker mode: a fatal error after which the worker ends.
    Lost,
    /// `max_execution_time`.
    TimeLimit,
    /// The client was gone.
    Aborted,
    /// The script file no longer existed, and no code has run.
    NoScript,
}

/// Converts C's outcome.
#[cfg(feature = "php")]
pub(crate) fn outcome_of(raw: shim_outcome) -> PhpOutcome {
    match raw {
        bindings::shim_outcome_SHIM_COMPLETE => PhpOutcome::Complete,
        bindings::shim_outcome_SHIM_TIME_LIMIT => PhpOutcome::TimeLimit,
        bindings::shim_outcome_SHIM_ABORTED => PhpOutcome::Aborted,
        bindings::shim_outcome_SHIM_LOST => PhpOutcome::Lost,
        bindings::shim_outcome_SHIM_NO_SCRIPT => PhpOutcome::NoScript,
        _ => PhpOutcome::Fatal,
    }
}
