//! What the log tells of the pool's workers.
//!
//! Promises: as [`Event`](super::Event) does, of which it is a part.

use std::time::Duration;

use super::record::Record;
use crate::config::Level;
use crate::pool::StuckKind;
use crate::time::as_millis;

/// Something in the life of the pool's workers.
#[derive(Clone, Copy, Debug)]
pub enum WorkerEvent<'a> {
    /// One has ended without being asked to.
    Lost {
        /// Its place in the pool.
        slot: usize,
        /// Why.
        reason: &'a str,
    },
    /// One did not boot; others that failed with it are not told of.
    NotBooted {
        /// Its place in the pool.
        slot: usize,
        /// Why.
        reason: &'a str,
        /// When the next one is tried.
        retry_after: Duration,
    },
    /// One has booted after others had not.
    BootAgain {
        /// How many attempts were in vain.
        failures: u64,
    },
    /// OPcache cannot restart before old ones have ended.
    CacheHeld {
        /// How many take no more work and have not ended.
        lingering: usize,
    },
    /// All persistent ones are to be replaced.
    RollStarted {
        /// How many.
        workers: usize,
    },
    /// All persistent ones have been replaced.
    RollFinished {
        /// How many.
        workers: usize,
    },
    /// A replacement did not boot; the old ones that are left go on.
    RollStopped {
        /// The replacement's place in the pool.
        slot: usize,
        /// Why.
        reason: &'a str,
        /// How many were replaced before.
        replaced: usize,
        /// How many go on.
        left: usize,
    },
    /// One request has held one up for too long.
    Stuck {
        /// The worker's place in the pool.
        slot: usize,
        /// By what.
        kind: StuckKind,
        /// For how long.
        age: Duration,
        /// The request's name.
        request_id: &'a str,
        /// Its path.
        path: &'a [u8],
    },
}

impl WorkerEvent<'_> {
    /// How important it is.
    pub(super) fn level(&self) -> Level {
        match self {
            Self::Lost { .. } | Self::NotBooted { .. } => Level::Error,
            Self::CacheHeld { .. } | Self::RollStopped { .. } | Self::Stuck { .. } => Level::Warn,
            Self::BootAgain { .. } | Self::RollStarted { .. } | Self::RollFinished { .. } => Level::Info,
        }
    }

    /// Writes it, with `svc` to begin the record of a message.
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
            Self::RollStarted { workers } => {
                svc("rolling restart of PHP workers started").number("workers", workers as u64)
            }
            Self::RollFinished { workers } => {
                svc("rolling restart of PHP workers finished").number("workers", workers as u64)
            }
            Self::RollStopped { slot, reason, replaced, left } => {
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
