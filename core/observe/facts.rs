//! What the metrics tell that nobody counts: readings of the server's parts, taken when somebody asks.

use std::time::{Duration, SystemTime};

use crate::admission::GateFacts;
use crate::plugins::PluginReading;
use crate::pool::{BootFault, PoolFacts, SlotReading};

use super::process::ProcessFacts;

/// Readings of the server's parts; taken together when somebody asks.
#[derive(Clone, Debug)]
pub struct ScrapeFacts<'a> {
    /// The server's version.
    pub version: &'a str,
    /// PHP's version; `None` before PHP is up, and without PHP.
    pub php_version: Option<&'a str>,
    /// When the process started.
    pub started_at: SystemTime,
    /// Since the process started.
    pub uptime: Duration,
    /// The last reload.
    pub reload: ReloadFacts,
    /// The certificates; `None` for a main port without TLS.
    pub certificates: Option<CertificateFacts>,
    /// The queue; `None` for an executor that has none.
    pub gate: Option<GateFacts>,
    /// The places that a queue has, or would have.
    pub queue_capacity: usize,
    /// The pool; `None` for an executor that has none.
    pub pool: Option<PoolFacts>,
    /// The slots of the pool that workers have been in.
    pub slots: Vec<SlotReading>,
    /// The I/O threads that connections are given to.
    pub io_workers_in_use: usize,
    /// Whether workers are persistent.
    pub worker_mode: bool,
    /// Whether a runtime hook is in effect.
    pub runtime_hooks: bool,
    /// The background tasks; `None` for a server without any.
    pub tasks: Option<TaskFacts>,
    /// The spans; `None` if tracing is not enabled.
    pub tracing: Option<TraceFacts>,
    /// The plugins.
    pub plugins: Vec<PluginReading>,
    /// OPcache; `None` if it is off, before PHP is up, and without PHP.
    pub opcache: Option<OpcacheReading>,
    /// The cache of static files.
    pub static_cache: StaticCacheReading,
    /// Bytes of replies in memory.
    pub reply_memory_bytes: u64,
    /// Bytes in temporary files.
    pub spool_bytes: u64,
    /// The most bytes in temporary files.
    pub spool_bytes_max: u64,
    /// Log records that were dropped.
    pub log_dropped: u64,
    /// What the kernel says.
    pub process: ProcessFacts,
}

/// What became of the background tasks, read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFacts {
    /// Those that were queued.
    pub dispatched: u64,
    /// Those that have ended with a result.
    pub completed: u64,
    /// Those that have failed.
    pub failed: u64,
    /// Those that were cancelled, and have ended.
    pub cancelled: u64,
    /// Those that were refused because a bound was reached.
    pub rejected: u64,
    /// Those that ran on when the call that waited for any of them gave up.
    pub stranded: u64,
    /// Bytes of output that went nowhere.
    pub output_discarded_bytes: u64,
    /// Those that are queued or running; `None` before their threads have started.
    pub in_flight: Option<u64>,
    /// The most that may be.
    pub in_flight_limit: u64,
}

/// What OPcache says of its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpcacheReading {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes of scripts that have been replaced; they are free after a restart.
    pub wasted_bytes: u64,
    /// Scripts in the cache.
    pub scripts: u64,
    /// Scripts that were loaded from there.
    pub hits: u64,
    /// Scripts that were not.
    pub misses: u64,
}

/// How full the cache of static files is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaticCacheReading {
    /// Its files, with those that are known but not kept in memory.
    pub files: u64,
    /// What it accounts for.
    pub bytes: u64,
    /// The most that it may; 0 if it is off.
    pub bytes_max: u64,
}

/// What became of the spans, as far as nobody else counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFacts {
    /// Those for which the queue had no room.
    pub dropped: u64,
}

/// What became of the last reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadFacts {
    /// It succeeded; so it is when there was none.
    pub is_successful: bool,
    /// When one last succeeded, or the server started.
    pub succeeded_at: SystemTime,
}

/// Why persistent workers do not boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootFailure {
    /// The last reason.
    pub fault: BootFault,
    /// The time of the first failure since the last boot.
    pub since: SystemTime,
    /// The number of failures since then.
    pub attempts: u64,
}

impl BootFailure {
    /// Adds a failure at `now` to those before it.
    pub fn after(before: Option<&Self>, fault: BootFault, now: SystemTime) -> Self {
        let (since, attempts) = before.map_or((now, 0), |before| (before.since, before.attempts));
        Self { fault, since, attempts: attempts + 1 }
    }
}

/// What is known about the certificates of the main port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// When the first of them expires; `None` if none says so.
    pub first_expiry: Option<SystemTime>,
}
