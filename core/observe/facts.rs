//! Metrics that are not counters: readings of the server's parts, taken at each scrape.

use std::time::{Duration, SystemTime};

use svc_types::OpcacheMemory;

use crate::admission::GateFacts;
use crate::cache::CacheReading;
use crate::plugins::PluginReading;
use crate::pool::{BootFault, PoolFacts, SlotReading};

use super::process::ProcessFacts;

/// Readings of the server's parts, taken together at each scrape.
#[derive(Clone, Debug)]
pub struct ScrapeFacts<'a> {
    /// The server's version.
    pub version: &'a str,
    /// PHP's version; `None` before PHP is up, and without PHP.
    pub php_version: Option<&'a str>,
    /// When the process started.
    pub started_at: SystemTime,
    /// The time since the process started.
    pub uptime: Duration,
    /// The last reload.
    pub reload: ReloadFacts,
    /// The certificates; `None` for a main port without TLS.
    pub certificates: Option<CertificateFacts>,
    /// The queue; `None` for an executor that has none.
    pub gate: Option<GateFacts>,
    /// The capacity of the queue; the configured one if there is no queue.
    pub queue_capacity: usize,
    /// The pool; `None` for an executor that has none.
    pub pool: Option<PoolFacts>,
    /// The slots of the pool that have had a worker.
    pub slots: Vec<SlotReading>,
    /// The number of I/O threads that connections are distributed to.
    pub io_workers_in_use: usize,
    /// Whether PHP runs in the process of svc.
    pub has_interpreter: bool,
    /// Whether workers are persistent.
    pub worker_mode: bool,
    /// Whether a runtime hook is in effect.
    pub runtime_hooks: bool,
    /// The background tasks; `None` for a server without background tasks.
    pub tasks: Option<TaskFacts>,
    /// The exporters; `None` if tracing is not enabled.
    pub tracing: Option<TraceFacts>,
    /// The plugins.
    pub plugins: Vec<PluginReading>,
    /// OPcache; `None` if it is off, before PHP is up, and without PHP.
    pub opcache: Option<OpcacheMemory>,
    /// The cache of static files.
    pub static_cache: StaticCacheReading,
    /// The response cache; `None` if it is off.
    pub response_cache: Option<CacheReading>,
    /// Bytes of responses in memory.
    pub reply_memory_bytes: u64,
    /// Bytes in temporary files.
    pub spool_bytes: u64,
    /// The maximum number of bytes in temporary files.
    pub spool_bytes_max: u64,
    /// Log records that were dropped.
    pub log_dropped: u64,
    /// The kernel's facts about the process.
    pub process: ProcessFacts,
}

/// The counts of the background tasks, read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFacts {
    /// Tasks that were queued.
    pub dispatched: u64,
    /// Tasks that ended with a result.
    pub completed: u64,
    /// Tasks that failed.
    pub failed: u64,
    /// Tasks that were cancelled and have ended.
    pub cancelled: u64,
    /// Tasks that were refused because a limit was reached.
    pub rejected: u64,
    /// Tasks that kept running after the call that waited for any of them gave up.
    pub stranded: u64,
    /// Bytes of output that were discarded.
    pub output_discarded_bytes: u64,
    /// Tasks that are queued or running; `None` before their threads have started.
    pub in_flight: Option<u64>,
    /// The maximum of `in_flight`.
    pub in_flight_limit: u64,
}

/// The fill level of the cache of static files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaticCacheReading {
    /// The number of its files, including those that are known but not kept in memory.
    pub files: u64,
    /// The number of bytes that it accounts for.
    pub bytes: u64,
    /// The maximum of `bytes`; 0 if the cache is off.
    pub bytes_max: u64,
}

/// The counts of the exporters that no other part keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFacts {
    /// Spans for which the queue had no room.
    pub dropped: u64,
    /// Log records for which the queue had no room.
    pub records_dropped: u64,
}

/// The outcome of the last reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadFacts {
    /// Whether it succeeded; true if there was no reload.
    pub is_successful: bool,
    /// When a reload last succeeded, or the server started.
    pub succeeded_at: SystemTime,
}

/// The progress and the outcome of reloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadReading {
    /// The number of reloads begun.
    pub begun: u64,
    /// The number of the last reload that has ended; equal to `begun` if none is under way.
    pub ended: u64,
    /// Why that reload failed; `None` if it succeeded.
    pub error: Option<String>,
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

/// The facts about the certificates of the main port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// When the first of them expires; `None` if no expiry is known.
    pub first_expiry: Option<SystemTime>,
}
