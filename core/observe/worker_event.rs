//! Log events of the worker pool.
//!
//! Promises: the same as [`Event`](super::Event), which it is part of.

use std::time::Duration;

use super::record::Record;
use crate::config::Level;
use crate::pool::StuckKind;
use crate::time::as_millis;

/// An event of the worker pool.
#[derive(Clone, Copy, Debug)]
pub enum WorkerEvent<'a> {
    /// A worker ended unexpectedly.
    Lost {
        /// The index of its slot.
        slot: usize,
        /// The reason.
        reason: &'a str,
    },
    /// A worker failed to boot. Others that fail together with it are not logged.
    NotBooted {
        /// The index of its slot.
        slot: usize,
        /// The reason.
        reason: &'a str,
        /// How long until the next attempt.
        retry_after: Duration,
    },
    /// A worker booted after others had failed to.
    BootAgain {
        /// The number of failed attempts.
        failures: u64,
    },
    /// An OPcache restart is waiting for old workers to end.
    CacheHeld {
        /// The number of workers that take no more work and have not ended.
        lingering: usize,
    },
    /// A rolling restart of the persistent workers has started.
    RollingRestartStarted {
        /// The number of workers.
        workers: usize,
    },
    /// The rolling restart has finished.
    RollingRestartFinished {
        /// The number of workers.
        workers: usize,
    },
    /// A replacement failed to boot; the remaining old workers keep running.
    RollingRestartStopped {
        /// The index of the replacement's slot.
        slot: usize,
        /// The reason.
        reason: &'a str,
        /// The number of workers replaced before.
        replaced: usize,
        /// The number of old workers that keep running.
        left: usize,
    },
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
            Self::Lost { .. } | Self::NotBooted { .. } => Level::Error,
            Self::CacheHeld { .. } | Self::RollingRestartStopped { .. } | Self::Stuck { .. } => Level::Warn,
            Self::BootAgain { .. }
            | Self::RollingRestartStarted { .. }
            | Self::RollingRestartFinished { .. } => Level::Info,
        }
    }

    /// Adds the event to a record; `svc` begins a record with a message.
    pub(super) fn record(&self, svc: impl Fn(&str) -> Record) -> Record {
        match *self {
            Self::Lost { slot, reason } => {
                svc("PHP worker thread was lost").number("slot", slot as u64).text("reason", reason)
            }
            Self::NotBooted { slot, reason, retry_after } => svc("PHP worker failed to boot")
                .number("slot", slot as u64)
                .text("reason", reason)
                .number("retry_ms", as_millis(retry_after)),
            Self::BootAgain { failures } => svc("PHP workers are booting again").number("failures", failures),
            Self::CacheHeld { lingering } => svc(
                "OPcache restart is waiting for old PHP workers to end: new workers run without OPcache until then",
            )
            .number("lingering", lingering as u64),
            Self::RollingRestartStarted { workers } => {
                svc("rolling restart of PHP workers started").number("workers", workers as u64)
            }
            Self::RollingRestartFinished { workers } => {
                svc("rolling restart of PHP workers finished").number("workers", workers as u64)
            }
            Self::RollingRestartStopped { slot, reason, replaced, left } => {
                svc("rolling restart of PHP workers stopped: a new worker failed to boot, and the remaining old workers keep running")
                    .number("slot", slot as u64)
                    .text("reason", reason)
                    .number("replaced", replaced as u64)
                    .number("left", left as u64)
            }
            Self::Stuck { slot, kind, age, request_id, path } => svc("PHP worker is stuck in a request")
                .number("worker_id", slot as u64)
                .text("kind", kind.as_str())
                .number("age_ms", as_millis(age))
                .text("request_id", request_id)
                .text("path", path),
        }
    }
}
