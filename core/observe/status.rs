//! The figures that matter at 3 a.m., as JSON: the answer of `/status`.
//!
//! A field never changes its name or its unit, and is always present: without a value, it is `null`. docs/operations.md
//! describes each. It keeps no state and reads no clock; the only text from a client is the path of a stuck request.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::episode::EpisodeEntry;
use super::facts::{BootFailure, ScrapeFacts};
use super::families::Metrics;
use super::health::ProbeFacts;
use super::history::{Latency, Window};
use super::label::{CancelReason, StatusClass};
use super::timestamp::timestamp;
use crate::admission::ShedReason;
use crate::cache::CacheOutcome;
use crate::limits::REPLIES_MEMORY_MAX;
use crate::observe::health::HealthProbe;
use crate::plugins::{PluginHealth, PluginReading};
use crate::pool::{RecycleReason, STUCK_THRESHOLD, SlotPhase, SlotReading, StuckKind, WorkerOrder};
use crate::time::{as_micros, as_millis};

/// The facts in the report, besides the metrics.
#[derive(Debug)]
pub struct StatusFacts<'a> {
    /// The facts of a scrape.
    pub scrape: ScrapeFacts<'a>,
    /// The facts behind the probes.
    pub probe: ProbeFacts,
    /// The phase of the server.
    pub phase: &'a str,
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
    /// The last seconds; `None` in the first ones.
    pub window: Option<Window>,
    /// The last episodes, the latest first.
    pub episodes: Vec<EpisodeEntry>,
}

impl StatusFacts<'_> {
    /// Writes the report.
    pub fn to_json(&self, metrics: &Metrics) -> String {
        let scrape = &self.scrape;
        let report = json!({
            "version": scrape.version,
            "php_version": scrape.php_version,
            "time": time(self.at),
            "started_at": time(scrape.started_at),
            "uptime_seconds": scrape.uptime.as_secs(),
            "phase": self.phase,
            "ready": self.probe.passes(HealthProbe::Readiness),
            "conditions": self.conditions(metrics),
            "boot_failure": self.boot_failure.as_ref().map(boot_failure),
            "window_seconds": self.window.as_ref().map(|window| rounded(window.seconds)),
            "requests": self.requests(metrics),
            "latency": self.latency(),
            "connections": {
                "open": metrics.connections.value(),
                "max": self.connections_max,
                "accept_stalled": metrics.accept_stalled.is_set(),
                "accept_stalls": metrics.accept_stalls.value(),
            },
            "queue": scrape.gate.map(|gate| json!({
                "depth": gate.depth, "capacity": gate.capacity,
                "waiting": gate.waiting, "waiting_max": self.waiting_max,
            })),
            "slots": scrape.gate.map(|gate| json!({ "available": gate.slots_available, "capacity": gate.capacity })),
            "budget": scrape.gate.map(|gate| json!({
                "wait_us": as_micros(gate.wait_budget), "ceiling_us": as_micros(gate.wait_budget_ceiling),
            })),
            "refusals": self.refusals(metrics),
            "pool": self.pool(metrics),
            "workers": self.workers(),
            "tasks": self.tasks(),
            "caches": self.caches(metrics),
            "memory": self.memory(),
            "process": self.process(),
            "log": { "records_dropped": scrape.log_dropped },
            "reload": {
                "successful": scrape.reload.is_successful,
                "succeeded_at": time(scrape.reload.succeeded_at),
                "restart_required": metrics.restart_required.is_set(),
            },
            "certificates": scrape.certificates.map(|known| json!({
                "first_expiry": known.first_expiry.map(time),
            })),
            "tracing": scrape.tracing.map(|tracing| json!({
                "failed_exports": metrics.otel_export_failures.value(),
                "failed_spans": metrics.otel_export_failed_spans.value(),
                "dropped_spans": tracing.dropped,
            })),
            "plugins": self.plugins(),
            "episodes": self.episodes.iter().map(episode).collect::<Vec<_>>(),
        });
        format!("{report}\n")
    }

    /// Returns the unusual conditions that hold now, worst first.
    fn conditions(&self, metrics: &Metrics) -> Vec<&'static str> {
        let probe = self.probe;
        let goes_on =
            |kind: &str| self.episodes.iter().any(|one| one.ended_at.is_none() && one.kind.as_str() == kind);
        let has_stuck = self.scrape.slots.iter().any(|slot| worker_state(slot, Duty::Requests) == "stuck")
            || self.task_slots.iter().any(|slot| worker_state(slot, Duty::Tasks) == "stuck");
        let all = [
            (self.phase == "starting", "starting"),
            (probe.serving && !probe.workers.can_serve(), "no_workers"),
            (probe.pool_stalled, "wedged"),
            (!probe.pool_stalled && goes_on("wedge"), "wedge_suspected"),
            (probe.plugin_failed, "plugin_failed"),
            (metrics.accept_stalled.is_set(), "accept_stalled"),
            (goes_on("shedding"), "shedding"),
            (self.boot_failure.is_some() || goes_on("boot_failed"), "boot_failed"),
            (has_stuck, "stuck"),
            (metrics.opcache_restart_delayed.is_set(), "opcache_restart_delayed"),
            (goes_on("export_failed"), "export_failed"),
            (!self.scrape.reload.is_successful, "reload_failed"),
            (matches!(self.phase, "draining" | "closing" | "stopped"), "draining"),
        ];
        all.into_iter().filter_map(|(holds, name)| holds.then_some(name)).collect()
    }

    /// Returns a count of the window per second.
    fn rate(&self, of: impl Fn(&Window) -> u64) -> Option<f64> {
        self.window.as_ref().map(|window| rounded(of(window) as f64 / window.seconds))
    }

    fn requests(&self, metrics: &Metrics) -> Value {
        let responses =
            by_name(StatusClass::ALL, |class| (class.as_str(), metrics.responses.value(class).into()));
        let rates: Map<String, Value> = StatusClass::ALL
            .iter()
            .enumerate()
            .map(|(index, class)| {
                (class.as_str().to_owned(), self.rate(|window| window.responses[index]).into())
            })
            .collect();
        let cancelled =
            by_name(CancelReason::ALL, |reason| (reason.as_str(), metrics.cancelled.value(reason).into()));
        json!({
            "total": metrics.requests_by_method.total(),
            "per_second": self.rate(|window| window.requests),
            "responses": responses,
            "responses_per_second": rates,
            "pending": metrics.pending_requests.value(),
            "cancelled": cancelled,
            "dropped": metrics.dropped.value(),
            "abandoned": metrics.abandoned_total(),
            "rate_limited": metrics.rate_limited.value(),
            "blocked": metrics.php_denied.value() + metrics.path_denied.value() + metrics.builtin_denied.value(),
        })
    }

    fn latency(&self) -> Value {
        let of = |latency: fn(&Window) -> Latency| {
            self.window.as_ref().map(|window| distribution(latency(window)))
        };
        json!({
            "request": of(|window| window.request_duration),
            "queue_wait": of(|window| window.queue_wait),
            "php": of(|window| window.php_duration),
        })
    }

    fn refusals(&self, metrics: &Metrics) -> Value {
        let by_reason =
            by_name(ShedReason::ALL, |reason| (reason.as_str(), metrics.refused.value(reason).into()));
        json!({
            "overload": metrics.overload_refusals().sum(),
            "overload_per_second": self.rate(|window| window.overload_refusals),
            "by_reason": by_reason,
            "wait_wasted": metrics.wait_wasted.value(),
        })
    }

    fn pool(&self, metrics: &Metrics) -> Option<Value> {
        let pool = self.scrape.pool?;
        let recycled = by_name(RecycleReason::ALL, |reason| {
            (reason.as_str(), metrics.workers_recycled.value(reason).into())
        });
        Some(json!({
            "mode": if self.scrape.worker_mode { "worker" } else { "classic" },
            "current": pool.current,
            "busy": pool.busy,
            "idle": pool.current.saturating_sub(pool.busy),
            "lingering": pool.lingering,
            "min": pool.min,
            "max": pool.max,
            "spawned": pool.spawned,
            "retired": metrics.workers_retired.value(),
            "recycled": recycled,
            "stalled": self.probe.pool_stalled,
        }))
    }

    fn workers(&self) -> Vec<Value> {
        present(&self.scrape.slots)
            .map(|slot| worker(slot, Duty::Requests, self.scrape.worker_mode))
            .collect()
    }

    fn tasks(&self) -> Option<Value> {
        let tasks = self.scrape.tasks?;
        Some(json!({
            "dispatched": tasks.dispatched,
            "completed": tasks.completed,
            "failed": tasks.failed,
            "cancelled": tasks.cancelled,
            "rejected": tasks.rejected,
            "stranded": tasks.stranded,
            "in_flight": tasks.in_flight,
            "in_flight_max": tasks.in_flight_limit,
            "workers": present(&self.task_slots).map(|slot| worker(slot, Duty::Tasks, true)).collect::<Vec<_>>(),
        }))
    }

    fn caches(&self, metrics: &Metrics) -> Value {
        let (opcache, files) = (self.scrape.opcache, self.scrape.static_cache);
        json!({
            "opcache": self.opcache_enabled.map(|enabled| json!({
                "enabled": enabled,
                "restarts": metrics.opcache_restarts.value(),
                "restart_delayed": metrics.opcache_restart_delayed.is_set(),
                "used_bytes": opcache.map(|known| known.used_bytes),
                "free_bytes": opcache.map(|known| known.free_bytes),
                "wasted_bytes": opcache.map(|known| known.wasted_bytes),
                "scripts": opcache.map(|known| known.scripts),
                "hits": opcache.map(|known| known.hits),
                "misses": opcache.map(|known| known.misses),
            })),
            "static": {
                "hits": metrics.static_hits.value(),
                "misses": metrics.static_misses.value(),
                "files": files.files,
                "bytes": files.bytes,
                "bytes_max": files.bytes_max,
            },
            "responses": self.scrape.response_cache.map(|cache| json!({
                "hits": metrics.cache_requests.value(CacheOutcome::Hit)
                    + metrics.cache_requests.value(CacheOutcome::Collapsed)
                    + metrics.cache_requests.value(CacheOutcome::Revalidated),
                "misses": metrics.cache_requests.value(CacheOutcome::Miss),
                "stale": metrics.cache_requests.value(CacheOutcome::Stale),
                "bypassed": metrics.cache_requests.value(CacheOutcome::Bypass),
                "entries": cache.entries,
                "bytes": cache.bytes,
                "bytes_max": cache.bytes_max,
                "evictions": cache.evictions.iter().sum::<u64>(),
                "purged": cache.purged,
            })),
        })
    }

    fn memory(&self) -> Value {
        let by_workers: u64 = present(&self.scrape.slots).map(|slot| slot.heap_bytes).sum();
        json!({
            "resident_bytes": self.scrape.process.resident_bytes,
            "workers_bytes": self.scrape.worker_mode.then_some(by_workers),
            "replies_bytes": self.scrape.reply_memory_bytes,
            "replies_bytes_max": REPLIES_MEMORY_MAX,
            "spool_bytes": self.scrape.spool_bytes,
            "spool_bytes_max": self.scrape.spool_bytes_max,
        })
    }

    fn process(&self) -> Value {
        let process = &self.scrape.process;
        json!({
            "cpu_seconds": rounded(process.cpu.as_secs_f64()),
            "cpus_busy": self.window.as_ref().map(|window| rounded(window.cpu_seconds / window.seconds)),
            "open_fds": process.open_fds,
            "max_fds": process.max_fds,
            "threads": process.threads,
        })
    }

    fn plugins(&self) -> Map<String, Value> {
        let health = |plugin: &PluginReading| plugin.health.map(PluginHealth::as_str);
        self.scrape.plugins.iter().map(|plugin| (plugin.name.clone(), health(plugin).into())).collect()
    }
}

/// Returns the slots that have a worker.
fn present(slots: &[SlotReading]) -> impl Iterator<Item = &SlotReading> {
    slots.iter().filter(|slot| slot.phase != SlotPhase::Vacant)
}

/// The kind of jobs that a worker runs.
#[derive(Clone, Copy, PartialEq)]
enum Duty {
    Requests,
    Tasks,
}

fn worker(slot: &SlotReading, duty: Duty, is_persistent: bool) -> Value {
    let state = worker_state(slot, duty);
    let request_age = slot.oldest.map(|job| job.age);
    let state_age = match state {
        "booting" => slot.uptime,
        "leaving" => slot.leaving_for.or(request_age).unwrap_or(slot.idle_for),
        _ => request_age.unwrap_or(slot.idle_for),
    };
    let in_flight = if is_persistent { slot.fibers } else { usize::from(slot.is_busy) };
    json!({
        "id": slot.slot,
        "state": state,
        "state_age_seconds": seconds(state_age),
        "request_age_seconds": request_age.map(seconds),
        "requests_in_flight": in_flight,
        "requests_handled": slot.handled,
        "uptime_seconds": slot.uptime.as_secs(),
        "memory_bytes": is_persistent.then_some(slot.heap_bytes),
        "uses_opcache": !slot.is_outsider,
        "stuck": by_name(StuckKind::ALL, |kind| (kind.as_str(), slot.stuck[kind as usize].into())),
    })
}

/// Returns the state of the worker in a slot; the worst state takes precedence.
fn worker_state(slot: &SlotReading, duty: Duty) -> &'static str {
    // A task that waits does not hold up its worker.
    let is_old =
        slot.oldest.is_some_and(|job| job.age >= STUCK_THRESHOLD && !(duty == Duty::Tasks && job.is_parked));
    match slot.phase {
        SlotPhase::Vacant => "none",
        SlotPhase::Booting => "booting",
        SlotPhase::Serving if is_old => "stuck",
        SlotPhase::Serving if slot.order != WorkerOrder::Serve || slot.leaving_for.is_some() => "leaving",
        SlotPhase::Serving if slot.is_busy => "busy",
        // All of its jobs in flight are answered.
        SlotPhase::Serving if slot.fibers > 0 => "answered",
        SlotPhase::Serving => "idle",
    }
}

fn boot_failure(failure: &BootFailure) -> Value {
    let (file, line) = failure.fault.place.as_ref().map(|(file, line)| (file, line)).unzip();
    json!({
        "message": failure.fault.message,
        "file": file,
        "line": line,
        "since": time(failure.since),
        "attempts": failure.attempts,
    })
}

fn episode(one: &EpisodeEntry) -> Value {
    json!({
        "kind": one.kind.as_str(),
        "subject": (!one.subject.is_empty()).then_some(&one.subject),
        "began_at": time(one.began_at),
        "last_at": time(one.last_at),
        "ended_at": one.ended_at.map(time),
        "count": one.count,
        "detail": one.detail,
    })
}

fn distribution(latency: Latency) -> Value {
    json!({
        "count": latency.count,
        "mean_us": latency.mean_us,
        "p50_us": latency.p50_us,
        "p90_us": latency.p90_us,
        "p99_us": latency.p99_us,
    })
}

fn by_name<T, const N: usize>(all: [T; N], entry: impl Fn(T) -> (&'static str, Value)) -> Map<String, Value> {
    all.into_iter().map(entry).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn time(at: SystemTime) -> String {
    timestamp(at).iter().map(|byte| char::from(*byte)).collect()
}

/// Rounds to milliseconds.
fn seconds(duration: Duration) -> f64 {
    as_millis(duration) as f64 / 1000.0
}

/// Rounds to two decimal places.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
