//! Log events of the worker pool.
//!
//! As for [`Event`](super::Event), of which this is a part.

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
    /// The supervisor of the threads of background tasks reports something.
    TaskThreads(SupervisorReport<'a>),
    /// A background task has occupied its thread for too long.
    TaskStuck {
        /// The index of the thread's slot.
        slot: usize,
        /// How the task blocks its thread.
        kind: StuckKind,
        /// The age of the task.
        age: Duration,
        /// The task's number.
        task: u64,
        /// The ID of the request that dispatched it.
        request_id: &'a str,
    },
    /// A detached background task has failed.
    DetachedTaskFailed {
        /// The task's number.
        task: u64,
        /// The ID of the request that dispatched it.
        request_id: &'a str,
        /// How it failed.
        reason: &'a [u8],
    },
    /// A process that svc has started for a worker has ended, or was ended.
    ProcessEnded {
        /// The index of the worker's slot.
        slot: usize,
        /// The process.
        pid: u32,
        /// The exit status or the signal.
        status: &'a str,
        /// The ID of the request that it ran; empty if it was idle.
        request_id: &'a str,
    },
    /// A FastCGI responder has broken the protocol, refused a request, or closed its connection.
    ResponderFailed {
        /// The index of the worker's slot.
        slot: usize,
        /// The responder.
        responder: &'a str,
        /// What it did.
        reason: &'a str,
        /// The ID of the request that was lost.
        request_id: &'a str,
    },
    /// Connections to an address of FastCGI responders fail.
    ResponderUnreachable {
        /// The address.
        addr: &'a str,
        /// The error reported by the system.
        error: &'a str,
    },
    /// The address can be reached again.
    ResponderReachable {
        /// The address.
        addr: &'a str,
    },
    /// Requests to the address have failed in a row, so it gets none for a while.
    ResponderAvoided {
        /// The address.
        addr: &'a str,
    },
    /// The address responds again.
    ResponderRecovered {
        /// The address.
        addr: &'a str,
    },
    /// A request has occupied a worker for too long.
    Stuck {
        /// The index of the worker's slot.
        slot: usize,
        /// How the request blocks its worker.
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
            Self::DetachedTaskFailed { .. } | Self::ResponderFailed { .. } => Level::Error,
            Self::ResponderReachable { .. } | Self::ResponderRecovered { .. } => Level::Info,
            Self::ProcessEnded { .. } | Self::ResponderAvoided { .. } | Self::ResponderUnreachable { .. } => {
                Level::Warn
            }
            Self::Stuck { .. } | Self::TaskStuck { .. } => Level::Warn,
            // Not an error: requests are served without tasks.
            Self::TaskThreads(SupervisorReport::NotBooted { .. }) => Level::Warn,
            Self::Supervised(report) | Self::TaskThreads(report) => level_of(*report),
        }
    }

    /// Adds the event to a record; `svc` begins a record with a message.
    pub(super) fn record(&self, svc: impl Fn(&str) -> Record) -> Record {
        match *self {
            Self::Supervised(report) => supervised(report, "PHP worker", svc),
            Self::TaskThreads(report) => supervised(report, "async worker", svc).text("pool", "async"),
            Self::TaskStuck { slot, kind, age, task, request_id } => svc("async worker is stuck in a task")
                .number("slot", slot as u64)
                .text("kind", kind.as_str())
                .number("age_ms", as_millis(age))
                .number("task", task)
                .text("request_id", request_id),
            Self::DetachedTaskFailed { task, request_id, reason } => svc("detached task failed")
                .number("task", task)
                .text("request_id", request_id)
                .text("reason", reason),
            Self::ProcessEnded { slot, pid, status, request_id } => svc("PHP process has ended")
                .number("worker_id", slot as u64)
                .number("pid", pid.into())
                .text("status", status)
                .text("request_id", request_id),
            Self::ResponderFailed { slot, responder, reason, request_id } => svc("FastCGI responder failed")
                .number("worker_id", slot as u64)
                .text("responder", responder)
                .text("reason", reason)
                .text("request_id", request_id),
            Self::ResponderUnreachable { addr, error } => {
                svc("FastCGI address cannot be reached").text("addr", addr).text("error", error)
            }
            Self::ResponderReachable { addr } => {
                svc("FastCGI address can be reached again").text("addr", addr)
            }
            Self::ResponderAvoided { addr } => {
                svc("FastCGI address fails: requests go to the others").text("addr", addr)
            }
            Self::ResponderRecovered { addr } => svc("FastCGI address responds again").text("addr", addr),
            Self::Stuck { slot, kind, age, request_id, path } => svc("PHP worker is stuck in a request")
                .number("worker_id", slot as u64)
                .text("kind", kind.as_str())
                .number("age_ms", as_millis(age))
                .text("request_id", request_id)
                .text("path", path),
        }
    }
}

fn level_of(report: SupervisorReport<'_>) -> Level {
    match report {
        SupervisorReport::Lost { .. } | SupervisorReport::NotBooted { .. } => Level::Error,
        SupervisorReport::RenewalDelayed { .. } | SupervisorReport::RestartStopped { .. } => Level::Warn,
        SupervisorReport::BootAgain { .. }
        | SupervisorReport::RestartStarted { .. }
        | SupervisorReport::RestartFinished { .. } => Level::Info,
    }
}

/// Makes the record of a report about workers that the log calls `who`.
fn supervised(report: SupervisorReport<'_>, who: &str, svc: impl Fn(&str) -> Record) -> Record {
    match report {
        SupervisorReport::Lost { slot, reason } => {
            svc(&format!("{who} thread was lost")).number("slot", slot as u64).text("reason", reason)
        }
        SupervisorReport::NotBooted { slot, reason, retry_after } => svc(&format!("{who} failed to boot"))
            .number("slot", slot as u64)
            .text("reason", reason)
            .number("retry_ms", as_millis(retry_after)),
        SupervisorReport::BootAgain { failures } => {
            svc(&format!("{who}s are booting again")).number("failures", failures)
        }
        SupervisorReport::RenewalDelayed { lingering } => svc(&format!(
            "OPcache restart is waiting for old {who}s to end: new workers run without OPcache until then"
        ))
        .number("lingering", lingering as u64),
        SupervisorReport::RestartStarted { workers } => {
            svc(&format!("rolling restart of {who}s started")).number("workers", workers as u64)
        }
        SupervisorReport::RestartFinished { workers } => {
            svc(&format!("rolling restart of {who}s finished")).number("workers", workers as u64)
        }
        SupervisorReport::RestartStopped { slot, reason, replaced, left } => svc(&format!(
            "rolling restart of {who}s stopped: a new worker failed to boot, and the remaining old workers keep running"
        ))
        .number("slot", slot as u64)
        .text("reason", reason)
        .number("replaced", replaced as u64)
        .number("left", left as u64),
    }
}
