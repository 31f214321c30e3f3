//! The facts behind the answers of the operations port.
//!
//! Each fact is read from its owner at each request; the status report is made at most once a second, however many
//! clients read it. Between two answers, only that report and the start time of the process are kept.

use std::cell::RefCell;
use std::time::{Instant, SystemTime};

use svc_core::config::Executor;
use svc_core::limits::STATUS_KEPT_FOR;
use svc_core::observe::exposition::{Format, render};
use svc_core::observe::process::ProcessFacts;
use svc_core::observe::{
    CertificateFacts, Health, OldestJob, OldestWork, ProbeFacts, ScrapeFacts, StatusFacts, TaskFacts,
    TraceFacts,
};
use svc_core::plugins::PluginAsked;
use svc_core::pool::{Exchange, Job, SlotReading, WorkerPool};
use svc_core::sync::primitive::Arc;
use svc_core::tasks::{Task, TaskPool};
use svc_core::time;

use super::port::OpsSource;
use crate::lifecycle::Phase;
use crate::shared::Shared;

/// Reads the server's state.
#[derive(Debug)]
pub(crate) struct OpsFacts {
    shared: Arc<Shared>,
    started_at: SystemTime,
    /// The last status report, and when it was made.
    status: RefCell<Option<(Instant, Arc<str>)>>,
}

impl OpsFacts {
    /// Reads from `shared`.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let uptime = time::now().saturating_duration_since(shared.started_at);
        let now = time::wall();
        Self { started_at: now.checked_sub(uptime).unwrap_or(now), shared, status: RefCell::default() }
    }
}

/// The facts that an answer reads together.
impl OpsFacts {
    pub(crate) fn scrape_facts(&self) -> ScrapeFacts<'_> {
        let shared = &self.shared;
        let gate = shared.gate_facts();
        ScrapeFacts {
            version: env!("CARGO_PKG_VERSION"),
            php_version: shared.php_version(),
            started_at: self.started_at,
            uptime: time::now().saturating_duration_since(shared.started_at),
            reload: shared.reload.lock().facts(),
            certificates: shared
                .tls
                .as_ref()
                .map(|terms| CertificateFacts { first_expiry: terms.first_expiry() }),
            gate,
            queue_capacity: gate.map_or(shared.config.admission.queue_capacity, |gate| gate.capacity),
            slots: shared.backend.workers().map(|workers| workers.slots(time::now())).unwrap_or_default(),
            io_workers_in_use: shared.io_load.in_use(),
            has_interpreter: shared.config.serving.executor == Executor::Sapi,
            worker_mode: shared.config.php.worker_mode_enabled,
            runtime_hooks: !shared.config.background.runtime_hooks.is_empty(),
            pool: gate.map(|_| shared.pool_facts()),
            tasks: shared.tasks.as_ref().map(|tasks| task_facts(tasks)),
            tracing: shared.config.tracing.as_ref().map(|_| TraceFacts {
                dropped: shared.spans.as_ref().map_or(0, |sink| sink.dropped_total()),
                records_dropped: shared.log.tap().map_or(0, |tap| tap.dropped_total()),
            }),
            plugins: shared.plugins.readings(),
            opcache: shared.opcache.lock().reading(),
            static_cache: *shared.static_cache.lock(),
            response_cache: shared.cache.as_ref().map(|_| *shared.cache_reading.lock()),
            reply_memory_bytes: shared.spool.memory_bytes(),
            spool_bytes: shared.spool.bytes(),
            spool_bytes_max: shared.config.bodies.spool_max_bytes,
            log_dropped: shared.log.dropped_total(),
            process: ProcessFacts::read(),
        }
    }

    fn status_facts(&self) -> StatusFacts<'_> {
        let shared = &self.shared;
        let tasks = shared.tasks.as_ref().and_then(|tasks| tasks.workers());
        let scrape = self.scrape_facts();
        let task_slots = tasks.map(|workers| workers.slots(time::now())).unwrap_or_default();
        let oldest_requests =
            shared.backend.workers().map(|workers| oldest_jobs(workers, &scrape.slots, request_of));
        let oldest_tasks = tasks.map(|workers| oldest_jobs(workers, &task_slots, task_of));
        let (window, trend) = {
            let history = shared.history.lock();
            (history.window(), history.trend())
        };
        StatusFacts {
            scrape,
            probe: self.probe_facts(),
            reload: shared.reload.lock().reading(),
            executor: shared.config.reported("executor_type"),
            phase: shared.lifecycle.phase().as_str(),
            at: time::wall(),
            connections_max: shared.config.admission.max_connections,
            waiting_max: shared.config.admission.queue_max_waiting,
            opcache_enabled: shared.opcache_enabled(),
            boot_failure: shared.boot_failure.lock().clone(),
            oldest_requests: oldest_requests.unwrap_or_default(),
            oldest_tasks: oldest_tasks.unwrap_or_default(),
            php_errors: shared.php_errors.last(),
            task_slots,
            window,
            trend,
            episodes: shared.log.episodes(),
        }
    }
}

impl OpsSource for OpsFacts {
    fn probe_facts(&self) -> ProbeFacts {
        ProbeFacts {
            serving: self.shared.lifecycle.phase() == Phase::Running,
            workers: self.shared.worker_health(),
            pool_stalled: self.shared.metrics.pool_stalled.is_set(),
            plugin_failed: self.shared.plugins.has_failed(),
        }
    }

    fn health(&self) -> Health {
        Health {
            uptime: time::now().saturating_duration_since(self.shared.started_at),
            total_requests: self.shared.metrics.requests_by_method.total(),
            active_connections: self.shared.metrics.connections.value(),
            workers: self.shared.worker_health(),
            pool_stalled: self.shared.metrics.pool_stalled.is_set(),
            plugins: self.shared.plugins.health(),
        }
    }

    fn metrics(&self, format: Format) -> Vec<u8> {
        render(&self.shared.metrics, &self.scrape_facts(), format)
    }

    fn status(&self, now: Instant) -> Arc<str> {
        let mut kept = self.status.borrow_mut();
        if let Some((_, report)) = kept.as_ref().filter(|(at, _)| now < *at + STATUS_KEPT_FOR) {
            return Arc::clone(report);
        }
        let report: Arc<str> = self.status_facts().to_json(&self.shared.metrics).into();
        *kept = Some((now, Arc::clone(&report)));
        report
    }

    fn config_report(&self) -> Option<String> {
        self.shared.config_report()
    }

    fn has_pages(&self, plugin: &[u8]) -> bool {
        self.shared.plugins.has_pages(plugin)
    }

    fn ask_plugin(&self, name: &[u8], path: &[u8], query: &[u8], now: Instant) -> PluginAsked {
        self.shared.plugins.ask(name, path, query, now)
    }
}

/// Returns the job that has kept each busy worker longest; `name` returns its work and the ID of its request.
fn oldest_jobs<J: Job>(
    workers: &WorkerPool<J>,
    slots: &[SlotReading],
    name: impl Fn(&J) -> (OldestWork, String),
) -> Vec<OldestJob> {
    let oldest = |slot: &SlotReading| {
        let job = workers.job(slot.slot, slot.oldest?.serial)?;
        let (work, request_id) = name(&job);
        Some(OldestJob { slot: slot.slot, work, request_id })
    };
    slots.iter().filter_map(oldest).collect()
}

/// Names a request by its method and its path.
fn request_of(exchange: &Exchange) -> (OldestWork, String) {
    let (head, id) = (&exchange.request.head, exchange.request.request_id.to_string());
    let (method, path) = (head.method().to_owned(), head.path_and_query().0.to_vec());
    (OldestWork::Request { method, path }, id)
}

/// Names a task by its number, and the request that has dispatched it.
fn task_of(task: &Task) -> (OldestWork, String) {
    (OldestWork::Task(task.id()), task.request_id().to_owned())
}

/// Reads the counts of the background tasks.
fn task_facts(tasks: &TaskPool) -> TaskFacts {
    let is_wired = tasks.workers().is_some();
    let counts = tasks.counts();
    TaskFacts {
        dispatched: counts.dispatched,
        completed: counts.completed,
        failed: counts.failed,
        cancelled: counts.cancelled,
        rejected: counts.rejected,
        stranded: counts.stranded,
        output_discarded_bytes: counts.output_discarded_bytes,
        in_flight: is_wired.then(|| counts.in_flight()),
        in_flight_limit: counts.cap,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use svc_core::config::{AccessLog, Config, Level, RawConfig};
    use svc_core::observe::Log;
    use svc_core::policy::Policy;

    fn facts() -> OpsFacts {
        let settings = [("EXECUTOR", "stub"), ("DOCUMENT_ROOT", "/")];
        let config = Config::resolve(&RawConfig::new(settings)).unwrap();
        let log = Log::start(Level::Error, AccessLog::Off, io::sink()).unwrap();
        OpsFacts::new(Shared::new(Arc::new(config), Policy::default(), None, log, None))
    }

    #[test]
    fn the_status_is_made_once_a_second_for_all_viewers() {
        let facts = facts();
        let now = time::now();
        let first = facts.status(now);
        for millis in [0, 500, 999] {
            assert!(
                Arc::ptr_eq(&first, &facts.status(now + Duration::from_millis(millis))),
                "{millis} ms later"
            );
        }
        let later = now + Duration::from_secs(1);
        let second = facts.status(later);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &facts.status(later + Duration::from_millis(999))));
    }
}
