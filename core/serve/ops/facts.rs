//! The facts behind the answers of the operations port.
//!
//! Promises: each fact is read from its owner when it is asked for. Refuses: between two answers, it keeps nothing but
//! the start time of the process.

use std::time::{Instant, SystemTime};

use crate::observe::exposition::{Format, render};
use crate::observe::process::ProcessFacts;
use crate::observe::{CertificateFacts, Health, ProbeFacts, ScrapeFacts, TaskFacts, TraceFacts};
use crate::plugins::PluginAsked;
use crate::sync::primitive::Arc;
use crate::tasks::TaskPool;
use crate::time;

use super::port::OpsSource;
use crate::serve::lifecycle::Phase;
use crate::serve::shared::Shared;

/// Reads the server's state.
#[derive(Debug)]
pub(in crate::serve) struct OpsFacts {
    shared: Arc<Shared>,
    started_at: SystemTime,
}

impl OpsFacts {
    /// Reads from `shared`.
    pub(in crate::serve) fn new(shared: Arc<Shared>) -> Self {
        let uptime = time::now().saturating_duration_since(shared.started_at);
        let now = time::wall();
        Self { started_at: now.checked_sub(uptime).unwrap_or(now), shared }
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
        let shared = &self.shared;
        let gate = shared.gate_facts();
        let facts = ScrapeFacts {
            version: env!("CARGO_PKG_VERSION"),
            php_version: shared.php_version(),
            started_at: self.started_at,
            uptime: time::now().saturating_duration_since(shared.started_at),
            reload: *shared.reload.lock(),
            certificates: shared
                .tls
                .as_ref()
                .map(|terms| CertificateFacts { first_expiry: terms.first_expiry() }),
            gate,
            queue_capacity: gate.map_or(shared.config.admission.queue_capacity, |gate| gate.capacity),
            slots: shared.backend.workers().map(|workers| workers.slots(time::now())).unwrap_or_default(),
            worker_mode: shared.config.php.worker_mode_enabled,
            runtime_hooks: !shared.config.background.runtime_hooks.is_empty(),
            pool: gate.map(|_| shared.pool_facts()),
            tasks: shared.tasks.as_ref().map(|tasks| task_facts(tasks)),
            tracing: shared.config.tracing.as_ref().map(|_| TraceFacts {
                dropped: shared.spans.as_ref().map_or(0, |sink| sink.dropped_total()),
            }),
            plugins: shared.plugins.readings(),
            reply_memory_bytes: shared.spool.memory_bytes(),
            spool_bytes: shared.spool.bytes(),
            spool_bytes_max: shared.config.bodies.spool_max_bytes,
            log_dropped: shared.log.dropped_total(),
            process: ProcessFacts::read(),
        };
        render(&shared.metrics, &facts, format)
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

/// Reads the books of the background tasks.
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
