//! The facts behind `/status`, besides the metrics.

use std::time::SystemTime;

use serde_json::Value;

use super::episode::EpisodeEntry;
use super::facts::{BootFailure, ReloadReading, ScrapeFacts};
use super::health::ProbeFacts;
use super::history::{TrendPoint, Window};
use super::php_errors::PhpErrorEntry;
use crate::pool::SlotReading;

/// The facts in the report, besides the metrics.
#[derive(Debug)]
pub struct StatusFacts<'a> {
    /// The facts of a scrape.
    pub scrape: ScrapeFacts<'a>,
    /// The facts behind the probes.
    pub probe: ProbeFacts,
    /// The phase of the server.
    pub phase: &'a str,
    /// The name of the executor.
    pub executor: Option<Value>,
    /// The time of the report.
    pub at: SystemTime,
    /// `MAX_CONNECTIONS`.
    pub connections_max: usize,
    /// `QUEUE_MAX_WAITING`.
    pub waiting_max: usize,
    /// Whether OPcache is enabled; `None` before PHP is up, and without PHP.
    pub opcache_enabled: Option<bool>,
    /// Why persistent workers do not boot; `None` if they do.
    pub boot_failure: Option<BootFailure>,
    /// The slots of the threads for background tasks.
    pub task_slots: Vec<SlotReading>,
    /// The requests that hold busy workers.
    pub oldest_requests: Vec<OldestJob>,
    /// The background tasks that hold busy threads.
    pub oldest_tasks: Vec<OldestJob>,
    /// The progress of reloads.
    pub reload: ReloadReading,
    /// The last distinct errors of PHP, the latest first.
    pub php_errors: Vec<PhpErrorEntry>,
    /// The last seconds; `None` in the first ones.
    pub window: Option<Window>,
    /// The last minutes, the oldest first.
    pub trend: Vec<TrendPoint>,
    /// The last episodes, the latest first.
    pub episodes: Vec<EpisodeEntry>,
}

/// The job that has kept a worker busy longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestJob {
    /// The index of the worker's slot.
    pub slot: usize,
    /// The request, or the task.
    pub work: OldestWork,
    /// The ID of the request in logs, which may have dispatched the task.
    pub request_id: String,
}

/// The work of such a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldestWork {
    /// A request.
    Request {
        /// The method.
        method: String,
        /// The path as received, without the query.
        path: Vec<u8>,
    },
    /// The background task with this number.
    Task(u64),
}
