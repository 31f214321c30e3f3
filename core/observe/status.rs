//! The figures that matter at 3 a.m., as JSON: the answer of `/status`.
//!
//! A field never changes its name or its unit, and is always present: without a value, it is `null`. docs/operations.md
//! describes each. It keeps no state and reads no clock; the only text from a client is the method and the path of a request
//! that a worker holds.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::condition::conditions;
use super::episode::EpisodeEntry;
use super::facts::BootFailure;
use super::families::Metrics;
use super::history::{Latency, TrendPoint, Window};
use super::label::{CancelReason, StatusClass};
use super::php_errors::{PhpErrorEntry, PhpErrorLevel};
use super::status_facts::{OldestJob, OldestWork, StatusFacts};
use super::timestamp::timestamp;
use super::worker_state::{JobKind, worker_state};
use crate::admission::ShedReason;
use crate::cache::CacheOutcome;
use crate::limits::{REPLIES_MEMORY_MAX, STATUS_PATH_MAX, STATUS_TREND_POINTS, STATUS_WINDOW_SECONDS};
use crate::observe::health::HealthProbe;
use crate::plugins::{PluginHealth, PluginReading};
use crate::pool::{RecycleReason, SlotPhase, SlotReading, StuckKind};
use crate::time::{as_micros, as_millis};

impl StatusFacts<'_> {
    /// Writes the report.
    pub fn to_json(&self, metrics: &Metrics) -> String {
        let scrape = &self.scrape;
        let report = json!({
            "version": scrape.version,
            "php_version": scrape.php_version,
            "executor": self.executor,
            "time": time(self.at),
            "started_at": time(scrape.started_at),
            "uptime_seconds": scrape.uptime.as_secs(),
            "phase": self.phase,
            "ready": self.probe.passes(HealthProbe::Readiness),
            "conditions": conditions(self, metrics),
            "boot_failure": self.boot_failure.as_ref().map(boot_failure),
            "window_seconds": self.window.as_ref().map(|window| rounded(window.seconds)),
            "requests": self.requests(metrics),
            "latency": self.latency(),
            "trend": self.trend(),
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
            "php_errors": scrape.pool.filter(|_| scrape.has_interpreter).map(|_| json!({
                "by_level": by_name(PhpErrorLevel::ALL, |level| {
                    (level.as_str(), metrics.php_errors.value(level).into())
                }),
                "last": self.php_errors.iter().map(php_error).collect::<Vec<_>>(),
            })),
            "tasks": self.tasks(),
            "caches": self.caches(metrics),
            "memory": self.memory(),
            "process": self.process(),
            "log": { "records_dropped": scrape.log_dropped },
            "reload": {
                "successful": scrape.reload.is_successful,
                "succeeded_at": time(scrape.reload.succeeded_at),
                "restart_required": metrics.restart_required.is_set(),
                "under_way": self.reload.begun != self.reload.ended,
                "error": self.reload.error,
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
            "served_per_second": self.rate(|window| window.served_duration.count),
            "failed_per_second": self.rate(Window::failures),
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
            "served": of(|window| window.served_duration),
            "request": of(|window| window.request_duration),
            "queue_wait": of(|window| window.queue_wait),
            "php": of(|window| window.php_duration),
        })
    }

    /// Returns a series for each line of the page, all of the same length.
    fn trend(&self) -> Value {
        let rates = |of: fn(&Window) -> u64| -> Vec<f64> {
            let windows = self.trend.iter().map(|point| &point.window);
            windows.map(|window| rounded(of(window) as f64 / window.seconds)).collect()
        };
        let values = |of: fn(&TrendPoint) -> u64| -> Vec<u64> { self.trend.iter().map(of).collect() };
        json!({
            "step_seconds": STATUS_WINDOW_SECONDS,
            "points_max": STATUS_TREND_POINTS,
            "served_per_second": rates(|window| window.served_duration.count),
            "refused_per_second": rates(|window| window.refusals),
            "failed_per_second": rates(Window::failures),
            "p50_us": values(|point| point.window.served_duration.p50_us),
            "p99_us": values(|point| point.window.served_duration.p99_us),
            "busy_workers": values(|point| point.peak.busy),
            "waiting": values(|point| point.peak.waiting),
            "connections": values(|point| point.peak.connections),
        })
    }

    fn refusals(&self, metrics: &Metrics) -> Value {
        let by_reason =
            by_name(ShedReason::ALL, |reason| (reason.as_str(), metrics.refused.value(reason).into()));
        json!({
            "overload": metrics.overload_refusals().sum(),
            "overload_per_second": self.rate(|window| window.overload_refusals),
            "per_second": self.rate(|window| window.refusals),
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
            .map(|slot| worker(slot, JobKind::Requests, self.scrape.worker_mode, &self.oldest_requests))
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
            "workers": present(&self.task_slots).map(|slot| worker(slot, JobKind::Tasks, true, &self.oldest_tasks)).collect::<Vec<_>>(),
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
                "full": opcache.map(|known| known.is_full),
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
            "responses_bytes": self.scrape.reply_memory_bytes,
            "responses_bytes_max": REPLIES_MEMORY_MAX,
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

fn worker(slot: &SlotReading, job_kind: JobKind, is_persistent: bool, oldest: &[OldestJob]) -> Value {
    let state = worker_state(slot, job_kind);
    let request_age = slot.oldest.map(|job| job.age);
    let state_age = match state {
        "booting" => slot.uptime,
        "leaving" => slot.leaving_for.or(request_age).unwrap_or(slot.idle_for),
        _ => request_age.unwrap_or(slot.idle_for),
    };
    let in_flight = if is_persistent { slot.fibers } else { usize::from(slot.is_busy) };
    let job = oldest.iter().find(|job| job.slot == slot.slot);
    let (method, path, task) = match job.map(|job| &job.work) {
        Some(OldestWork::Request { method, path }) => (Some(method), Some(shown_path(path)), None),
        Some(OldestWork::Task(number)) => (None, None, Some(number)),
        None => (None, None, None),
    };
    json!({
        "id": slot.slot,
        "state": state,
        "state_age_seconds": seconds(state_age),
        "request_age_seconds": request_age.map(seconds),
        "method": method,
        "path": path,
        "task": task,
        "request_id": job.map(|job| &job.request_id),
        "requests_in_flight": in_flight,
        "requests_handled": slot.handled,
        "uptime_seconds": slot.uptime.as_secs(),
        "memory_bytes": is_persistent.then_some(slot.heap_bytes),
        "uses_opcache": !slot.is_uncached,
        "stuck": by_name(StuckKind::ALL, |kind| (kind.as_str(), slot.stuck[kind as usize].into())),
    })
}

/// Returns a path as text, cut at [`STATUS_PATH_MAX`] bytes.
fn shown_path(path: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&path[..path.len().min(STATUS_PATH_MAX)]).into_owned();
    if path.len() > STATUS_PATH_MAX {
        text.push('…');
    }
    text
}

fn php_error(entry: &PhpErrorEntry) -> Value {
    json!({
        "level": entry.level.as_str(),
        "message": entry.message,
        "file": (!entry.file.is_empty()).then_some(&entry.file),
        "line": (entry.line > 0).then_some(entry.line),
        "count": entry.count,
        "first_at": time(entry.first_at),
        "last_at": time(entry.last_at),
    })
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
