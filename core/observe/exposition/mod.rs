//! The metrics as text: version 0.0.4 of the text format, and OpenMetrics.
//!
//! Promises: each family once, with its help and type before its series; a family whose condition does not hold is
//! absent; the page is written into one buffer, whose size depends on the pool's and not on traffic. Refuses: reading stops nobody,
//! so series of one page may be a few requests apart.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::admission::{GateFacts, ShedReason};
use crate::http::MethodKind;
use crate::limits::REPLIES_MEMORY_MAX;
use crate::pool::{PoolFacts, RecycleReason, SlotPhase, SlotReading, StuckKind};
use crate::time::as_micros;

use super::label::{CancelReason, StatusClass, TlsHandshake};
use super::metrics::Metrics;
use super::names;
use super::process::ProcessFacts;

mod format;
mod page;

pub use format::Format;
use page::Page;

/// What the exposition tells about; taken together when somebody asks.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
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
    /// What the request path counts.
    pub metrics: &'a Metrics,
    /// The queue; `None` for an executor that has none.
    pub gate: Option<GateFacts>,
    /// The places that a queue has, or would have.
    pub queue_capacity: usize,
    /// The pool; `None` for an executor that has none.
    pub pool: Option<PoolFacts>,
    /// The slots of the pool that workers have been in.
    pub slots: Vec<SlotReading>,
    /// Whether workers are persistent.
    pub worker_mode: bool,
    /// Whether the pool counts as stalled; `None` where that is not watched: outside worker mode, and without a pool.
    pub pool_stalled: Option<bool>,
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

/// What became of the last reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadFacts {
    /// It succeeded; so it is when there was none.
    pub is_successful: bool,
    /// When one last succeeded, or the server started.
    pub succeeded_at: SystemTime,
}

/// What is known about the certificates of the main port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// When the first of them expires; `None` if none says so.
    pub first_expiry: Option<SystemTime>,
}

/// Writes the whole exposition.
pub fn render(facts: &Facts<'_>, format: Format) -> Vec<u8> {
    let mut page = Page::new(format, facts.slots.len());
    server(&mut page, facts);
    connections(&mut page, facts.metrics);
    if let Some(certificates) = facts.certificates {
        tls(&mut page, facts.metrics, certificates);
    }
    admission(&mut page, facts);
    // Without a pool there are no workers, and that is what is said.
    workers(&mut page, &facts.pool.unwrap_or_default(), facts.metrics);
    if facts.pool.is_some() {
        supervised(&mut page, &facts.slots);
        if facts.worker_mode {
            persistent(&mut page, facts);
        }
    }
    waits(&mut page, facts);
    denials(&mut page, facts.metrics);
    page.count(&names::REPLY_MEMORY_BYTES, facts.reply_memory_bytes);
    page.count(&names::REPLY_MEMORY_LIMIT_BYTES, REPLIES_MEMORY_MAX);
    page.count(&names::SPOOL_BYTES, facts.spool_bytes);
    page.count(&names::SPOOL_LIMIT_BYTES, facts.spool_bytes_max);
    page.count(&names::LOG_RECORDS_DROPPED, facts.log_dropped);
    process(&mut page, facts);
    page.end()
}

fn server(page: &mut Page, facts: &Facts<'_>) {
    let metrics = facts.metrics;
    page.decimal(&names::UPTIME_SECONDS, facts.uptime.as_secs_f64());
    let versions = [("version", Some(facts.version)), ("php_version", facts.php_version)];
    page.info(&names::BUILD_INFO, versions.into_iter().filter_map(|(name, value)| Some((name, value?))));
    page.count(&names::LAST_RELOAD_SUCCESSFUL, u64::from(facts.reload.is_successful));
    page.decimal(&names::LAST_RELOAD_SUCCESS_TIME, unix_seconds(facts.reload.succeeded_at));
    let by_method = MethodKind::ALL.map(|method| (method.as_str(), metrics.requests_by(method)));
    // Of the values that follow, not read anew: requests may come in between.
    page.count(&names::REQUESTS, by_method.iter().map(|(_, count)| count).sum());
    page.labelled(&names::REQUESTS_BY_METHOD, "method", by_method.into_iter().filter(seen));
    let by_class = StatusClass::ALL.map(|class| (class.as_str(), metrics.responses_by(class)));
    page.labelled(&names::RESPONSES_BY_STATUS, "status", by_class.into_iter().filter(seen));
    page.count(&names::REQUEST_BYTES, metrics.request_bytes_total());
    page.count(&names::RESPONSE_BYTES, metrics.response_bytes_total());
    let cancelled = CancelReason::ALL.map(|reason| (reason.as_str(), metrics.cancelled_by(reason)));
    page.labelled(&names::REQUEST_CANCELLED, "reason", cancelled);
    page.histogram(&names::REQUEST_DURATION, &metrics.request_duration());
}

/// Series of methods and classes appear with their first request.
fn seen(series: &(&str, u64)) -> bool {
    series.1 > 0
}

fn connections(page: &mut Page, metrics: &Metrics) {
    page.count(&names::ACTIVE_CONNECTIONS, metrics.connections.value());
    page.count(&names::ACCEPT_STALLED, u64::from(metrics.accept_stalled.is_set()));
    page.count(&names::ACCEPT_STALLS, metrics.accept_stalls_total());
    page.count(&names::STREAMS_REFUSED, metrics.streams_refused_total());
}

fn tls(page: &mut Page, metrics: &Metrics, certificates: CertificateFacts) {
    let handshakes = TlsHandshake::ALL.map(|outcome| (outcome.as_str(), metrics.tls_handshakes_by(outcome)));
    page.labelled(&names::TLS_HANDSHAKES, "result", handshakes);
    if let Some(expiry) = certificates.first_expiry {
        page.decimal(&names::TLS_CERTIFICATE_EXPIRY, unix_seconds(expiry));
    }
}

fn unix_seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn admission(page: &mut Page, facts: &Facts<'_>) {
    let metrics = facts.metrics;
    page.count(&names::PENDING_REQUESTS, metrics.pending_requests.value());
    page.count(&names::DROPPED_REQUESTS, metrics.dropped_total());
    let refused = ShedReason::ALL.map(|reason| (reason.as_str(), metrics.refused_by(reason)));
    page.labelled(&names::ADMISSION_REFUSED, "reason", refused);
    page.count(&names::ADMISSION_WAIT_WASTED, metrics.wait_wasted_total());
    if let Some(gate) = facts.gate {
        page.count(&names::QUEUE_DEPTH, gate.depth as u64);
    }
    page.count(&names::QUEUE_CAPACITY, facts.queue_capacity as u64);
    // Without a queue nobody holds a place in it.
    let slots_available = facts.gate.map_or(facts.queue_capacity, |gate| gate.slots_available);
    page.count(&names::ADMISSION_SLOTS_AVAILABLE, slots_available as u64);
    if let Some(gate) = facts.gate {
        page.count(&names::ADMISSION_WAIT_BUDGET, as_micros(gate.wait_budget));
        page.count(&names::ADMISSION_WAIT_BUDGET_CEILING, as_micros(gate.wait_budget_ceiling));
    }
    page.count(&names::ABANDONED_WORK, metrics.abandoned_total());
    if let Some(stalled) = facts.pool_stalled {
        page.count(&names::POOL_STALLED, u64::from(stalled));
    }
}

fn workers(page: &mut Page, pool: &PoolFacts, metrics: &Metrics) {
    page.count(&names::WORKERS_CURRENT, pool.current as u64);
    page.count(&names::WORKERS_MIN, pool.min as u64);
    page.count(&names::WORKERS_MAX, pool.max as u64);
    page.count(&names::WORKERS_IDLE, pool.current.saturating_sub(pool.busy) as u64);
    page.count(&names::BUSY_WORKERS, pool.busy as u64);
    page.count(&names::WORKERS_SPAWNED, pool.spawned);
    page.count(&names::WORKERS_RETIRED, metrics.workers_retired_total());
}

/// A slot that a worker has left keeps its series: counters must not vanish.
fn supervised(page: &mut Page, slots: &[SlotReading]) {
    let age = |slot: &SlotReading| slot.oldest.map_or(0.0, |oldest| oldest.age.as_secs_f64());
    page.by_slot(&names::WORKER_REQUEST_AGE, "worker_id", slots.iter().map(|slot| (slot.slot, age(slot))));
    page.by_slot(
        &names::WORKER_LONG_RUNNING,
        "worker_id",
        slots.iter().map(|slot| (slot.slot, slot.long_running)),
    );
    let kinds = slots.iter().flat_map(|slot| {
        StuckKind::ALL.map(|kind| (slot.slot, ("kind", kind.as_str()), slot.stuck[kind as usize]))
    });
    page.by_slot_and(&names::WORKER_STUCK, "worker_id", kinds);
}

fn persistent(page: &mut Page, facts: &Facts<'_>) {
    let metrics = facts.metrics;
    page.count(&names::WORKER_MODE_ENABLED, 1);
    page.count(&names::WORKERS_LINGERING, facts.pool.map_or(0, |pool| pool.lingering as u64));
    let durations = metrics.worker_request_duration();
    page.count(&names::WORKER_REQUESTS_HANDLED, durations.count());
    let recycles = RecycleReason::ALL.map(|reason| (reason.as_str(), metrics.workers_recycled_by(reason)));
    // Of the values that follow, not read anew.
    page.count(&names::WORKER_RECYCLES, recycles.iter().map(|(_, count)| count).sum());
    page.labelled(&names::WORKER_RECYCLES_BY_REASON, "reason", recycles);
    page.count(&names::WORKER_SOFT_RESETS, metrics.soft_resets_total());
    let present = || facts.slots.iter().filter(|slot| slot.phase != SlotPhase::Vacant);
    page.by_slot(&names::WORKER_MEMORY, "worker", present().map(|slot| (slot.slot, slot.heap_bytes)));
    let uptime = present().map(|slot| (slot.slot, slot.uptime.as_secs_f64()));
    page.by_slot(&names::WORKER_UPTIME, "worker", uptime);
    page.by_slot(&names::WORKER_REQUESTS, "worker", present().map(|slot| (slot.slot, slot.handled)));
    page.by_slot(&names::WORKER_REQUEST_FIBERS, "worker", present().map(|slot| (slot.slot, slot.fibers)));
    page.histogram(&names::WORKER_REQUEST_DURATION, &durations);
}

fn waits(page: &mut Page, facts: &Facts<'_>) {
    page.histogram(&names::QUEUE_WAIT, &facts.metrics.queue_wait());
    if facts.pool.is_some() {
        let metrics = facts.metrics;
        page.histogram_in_seconds(&names::PHP_REQUEST_DURATION, &metrics.php_duration());
        page.count(&names::OPCACHE_RESTARTS, metrics.opcache_restarts.value());
        let is_delayed = metrics.opcache_restart_delayed.is_set();
        page.count(&names::OPCACHE_RESTART_DELAYED, u64::from(is_delayed));
    }
}

fn denials(page: &mut Page, metrics: &Metrics) {
    page.count(&names::RATE_LIMITED, metrics.rate_limited_total());
    page.count(&names::PHP_DENY, metrics.php_denied_total());
    page.count(&names::PATH_DENY, metrics.path_denied_total());
    page.count(&names::BUILTIN_DENY, metrics.builtin_denied_total());
    page.count(&names::STATIC_CACHE_HITS, metrics.static_hits_total());
    page.count(&names::STATIC_CACHE_MISSES, metrics.static_misses_total());
    page.count(&names::COMPRESSED_RESPONSES, metrics.responses_coded_total());
    page.count(&names::COMPRESSION_BYTES_SAVED, metrics.coding_saved_total());
}

fn process(page: &mut Page, facts: &Facts<'_>) {
    let process = &facts.process;
    page.decimal(&names::PROCESS_CPU, process.cpu.as_secs_f64());
    let gauges = [
        (&names::PROCESS_RESIDENT_MEMORY, process.resident_bytes),
        (&names::PROCESS_OPEN_FDS, process.open_fds),
        (&names::PROCESS_MAX_FDS, process.max_fds),
        (&names::PROCESS_THREADS, process.threads),
    ];
    for (family, value) in gauges {
        if let Some(value) = value {
            page.count(family, value);
        }
    }
    let started = facts.started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    page.decimal(&names::PROCESS_START_TIME, started.as_secs_f64());
}

#[cfg(all(test, not(loom)))]
mod tests;
