//! The state that all threads of the server share.
//!
//! Promises: nothing here is locked on the path of a request; what is set once is set before it is read. Refuses: it has no
//! behaviour, only readings that several threads need.

use std::sync::OnceLock;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::admission::GateFacts;
use crate::config::Config;
use crate::limits::HTTP2_STREAMS_BESIDE_MIN;
use crate::observe::{Log, Metrics, ReloadFacts};
use crate::policy::Policy;
use crate::pool::PoolFacts;
use crate::spool::Spool;
use crate::sync::lock::ShortLock;
use crate::sync::permits::Permits;
use crate::sync::primitive::Arc;
use crate::time;
use crate::tls::SessionConfig;

use super::backend::{Backend, PoolBackend};
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
    /// What runs requests for scripts.
    pub backend: Backend,
    /// The files for long bodies and replies.
    pub spool: Spool,
    /// The permits of `MAX_CONNECTIONS`.
    pub permits: Arc<Permits>,
    /// The TLS configuration of the main port, if it uses TLS.
    pub tls: Option<SessionConfig>,
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
    pub fn new(config: Arc<Config>, policy: Policy, tls: Option<SessionConfig>, log: Log) -> Arc<Self> {
        let started_at = time::now();
        Arc::new(Self {
            policy: Arc::new(policy),
            metrics: Metrics::default(),
            log,
            lifecycle: Lifecycle::default(),
            backend: Backend::new(&config, started_at),
            spool: Spool::new(config.bodies.spool_dir.clone(), config.bodies.spool_max_bytes),
            permits: Permits::new(config.admission.max_connections),
            tls,
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
        self.backend.pool().map(PoolBackend::facts).unwrap_or_default()
    }

    /// Reads the state of the gate; `None` for an executor without a queue.
    pub fn gate_facts(&self) -> Option<GateFacts> {
        self.backend.pool().map(|pool| pool.gate.facts())
    }
}
