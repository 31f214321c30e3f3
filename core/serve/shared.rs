//! The state that all threads of the server share.
//!
//! Promises: nothing here is locked on the path of a request; what is set once is set before it is read. Refuses: it has no
//! behaviour, only readings that several threads need.

use std::sync::OnceLock;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::admission::{Gate, GateFacts, WaitingLimits};
use crate::config::{Config, Executor};
use crate::limits::HTTP2_STREAMS_BESIDE_MIN;
use crate::observe::{Log, Metrics, ReloadFacts};
use crate::policy::Policy;
use crate::pool::{Exchange, PoolFacts, PoolSize, WorkerPool};
use crate::spool::Spool;
use crate::sync::counter::Flag;
use crate::sync::last_time::LastTime;
use crate::sync::lock::ShortLock;
use crate::sync::permits::Permits;
use crate::sync::primitive::Arc;
use crate::time;
use crate::tls::SessionConfig;

use super::lifecycle::Lifecycle;

/// The state of one server process.
#[derive(Debug)]
pub struct Shared {
    /// The resolved settings.
    pub config: Arc<Config>,
    /// The rules for clients.
    pub policy: Arc<Policy>,
    /// The metrics.
    pub metrics: Metrics,
    /// The log.
    pub log: Log,
    /// The phase of the server.
    pub lifecycle: Lifecycle,
    /// The gate in front of the pool; `None` for an executor without a queue.
    pub gate: Option<Arc<Gate<Arc<Exchange>>>>,
    /// When a worker last claimed a request.
    pub last_claim: LastTime,
    /// The pool, once it has been started.
    pub workers: OnceLock<WorkerPool<Exchange>>,
    /// Set when all persistent workers are to be replaced.
    pub restart_wanted: Flag,
    /// The files for long bodies and replies.
    pub spool: Spool,
    /// The permits of `MAX_CONNECTIONS`.
    pub permits: Arc<Permits>,
    /// The TLS configuration of the main port; empty without TLS.
    pub tls: OnceLock<SessionConfig>,
    /// The result of the last reload; locked only to copy or replace it.
    pub reload: ShortLock<ReloadFacts>,
    /// The permits of HTTP/2 streams beyond the first one of a connection.
    pub stream_permits: Arc<Permits>,
    /// What the configuration report contains besides the settings; set when the server is about to serve.
    pub report_extra: OnceLock<Map<String, Value>>,
    /// The version of PHP, if there is an interpreter.
    pub php_version: OnceLock<String>,
    /// When the server started.
    pub started_at: Instant,
}

impl Shared {
    /// Creates the state of a server that has not started serving.
    pub fn new(config: Arc<Config>, policy: Policy, log: Log) -> Arc<Self> {
        let started_at = time::now();
        let limits = WaitingLimits {
            count_max: config.admission.queue_max_waiting,
            bytes_max: config.admission.queue_max_waiting_bytes,
        };
        let size = PoolSize { min: config.php.workers.min, max: config.php.workers.max };
        let (capacity, ceiling) =
            (config.admission.queue_capacity.max(1), config.admission.queue_wait_timeout);
        let gate = || Arc::new(Gate::new(capacity, size.slots(), limits, ceiling));
        Arc::new(Self {
            policy: Arc::new(policy),
            metrics: Metrics::default(),
            log,
            lifecycle: Lifecycle::default(),
            gate: (config.serving.executor == Executor::Sapi).then(gate),
            last_claim: LastTime::new(started_at),
            workers: OnceLock::new(),
            restart_wanted: Flag::new(),
            spool: Spool::new(config.bodies.spool_dir.clone(), config.bodies.spool_max_bytes),
            permits: Permits::new(config.admission.max_connections),
            tls: OnceLock::new(),
            reload: ShortLock::new(ReloadFacts { is_successful: true, succeeded_at: time::wall() }),
            stream_permits: Permits::new(config.admission.max_connections.max(HTTP2_STREAMS_BESIDE_MIN)),
            report_extra: OnceLock::new(),
            php_version: OnceLock::new(),
            started_at,
            config,
        })
    }

    /// The configuration report; `None` until it is complete.
    pub fn config_report(&self) -> Option<String> {
        let mut extra = self.report_extra.get()?.clone();
        extra.insert("deny_file".to_owned(), json!({ "loaded": self.policy.rules().deny.is_loaded() }));
        Some(Value::Object(self.config.report(extra)).to_string())
    }

    /// Reads the state of the pool; all zero before the pool has started.
    pub fn pool_facts(&self) -> PoolFacts {
        self.workers.get().map(WorkerPool::facts).unwrap_or_default()
    }

    /// Reads the state of the gate; `None` for an executor without a queue.
    pub fn gate_facts(&self) -> Option<GateFacts> {
        self.gate.as_ref().map(|gate| gate.facts())
    }
}
