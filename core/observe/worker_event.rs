//! Log events of the worker pool.
//!
//! Promises: the same as [`Event`](super::Event), which it is part of.

use std::time::Duration;

use super::record::Record;
use crate::config::Level;
use crate::pool::{StuckKind, SupervisorReport};
use crate::time::as_millis;

/// An event of the worker pool.
#[derive(Clone, Copy, Debug)]
pub enum WorkerEvent<'a> {
    /// The supervisor reports something.
    Supervised(SupervisorReport<'a>),
    /// A request has occupied a worker for too long.
    Stuck {
        /// The index of the worker's slot.
        slot: usize,
        /// What the request is doing.
        kind: StuckKind,
        /// The age of the request.
        age: Duration,
        /// The request ID.
        request_id: &'a str,
        /// The path of the request.
        path: &'a [u8],
    },
}

impl WorkerEvent<'_> {
    /// Returns the level of the event.
    pub(super) fn level(&self) -> Level {
        match self {
            Self::Stuck { .. } => Level::Warn,
            Self::Supervised(report) => match report {
                SupervisorReport::Lost { .. } | SupervisorReport::NotBooted { .. } => Level::Error,
                SupervisorReport::RenewalDelayed { .. } | SupervisorReport::RestartStopped { .. } => {
                    Level::Warn
                }
                SupervisorReport::BootAgain { .. }
                | SupervisorReport::RestartStarted { .. }
                | SupervisorReport::RestartFinished { .. } => Level::Info,
            },
        }
    }

    /// Adds the event to a record; `svc` begins a record with a message.
    pub(super) fn record(&self, svc: impl Fn(&str) -> Record) -> Record {
        match *self {
            Self::Supervised(report) => supervised(report, svc),
            Self::Stuck { slot, kind, age, request_id, path } => svc("PHP worker is stuck in a request")
                .number("worker_id", slot as u64)
                .text("kind", kind.as_str())
                .number("age_ms", as_millis(age))
                .text("request_id", request_id)
                .text("path", path),
        }
    }
}

fn supervised(report: SupervisorReport<'_>, svc: impl Fn(&str) -> Record) -> Record {
    match report {
            SupervisorReport::Lost { slot, reason } => {
                svc("PHP worker thread was lost").number("slot", slot as u64).text("reason", reason)
            }
            SupervisorReport::NotBooted { slot, reason, retry_after } => svc("PHP worker failed to boot")
                .number("slot", slot as u64)
                .text("reason", reason)
                .number("retry_ms", as_millis(retry_after)),
            SupervisorReport::BootAgain { failures } => svc("PHP workers are booting again").number("failures", failures),
            SupervisorReport::RenewalDelayed { lingering } => svc(
                "OPcache restart is waiting for old PHP workers to end: new workers run without OPcache until then",
            )
            .number("lingering", lingering as u64),
            SupervisorReport::RestartStarted { workers } => {
                svc("rolling restart of PHP workers started").number("workers", workers as u64)
            }
            SupervisorReport::RestartFinished { workers } => {
                svc("rolling restart of PHP workers finished").number("workers", workers as u64)
            }
            SupervisorReport::RestartStopped { slot, reason, replaced, left } => {
                svc("rolling restart of PHP workers stopped: a new worker failed to boot, and the remaining old workers keep running")
                    .number("slot", slot as u64)
                    .text("reason", reason)
                    .number("replaced", replaced as u64)
                    .number("left", left as u64)
            }
    }
}
