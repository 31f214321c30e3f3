//! The state that all threads of the server share.
//!
//! Nothing here is locked on the path of a request; values that are known only later read as absent until then. The state
//! has no behaviour, only readings for several threads.

use std::sync::OnceLock;
use std::time::{Instant, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use svc_core::admission::GateFacts;
use svc_core::cache::{
    CacheReading, CacheSettings, EntryOptions, FreshnessPolicy, NamePatterns, ResponseCache,
};
use svc_core::compress::{Levels, is_compressible};
use svc_core::config::{Config, Executor};
use svc_core::dev::Development;
use svc_core::http::{Head, uri};
use svc_core::limits::{HTTP2_STREAMS_BESIDE_MIN, HTTP2_WINDOW_PERMITS};
use svc_core::observe::{
    BootFailure, History, Log, Metrics, OpcacheBook, PhpErrors, StaticCacheReading, WorkerHealth,
};
use svc_core::plugins::PluginSet;
use svc_core::policy::Policy;
use svc_core::pool::{FindScript, PoolFacts, Script};
use svc_core::spool::Spool;
use svc_core::sync::helper_threads::HelperThreads;
use svc_core::sync::load_sharing::LoadSharing;
use svc_core::sync::lock::ShortLock;
use svc_core::sync::permits::Permits;
use svc_core::sync::primitive::Arc;
use svc_core::tasks::TaskPool;
use svc_core::time;
use svc_core::tls::SessionConfig;
use svc_core::trace::{TraceSink, Tracer};

use super::backend::{Backend, PoolBackend, new_tasks};
use super::lifecycle::Lifecycle;
use super::reload_book::ReloadBook;

/// The facts about the executor, known once it has started.
///
/// The operations port answers earlier, so its readers find these facts in a cell.
/// [`PreparedServer::serve`](super::PreparedServer::serve) sets it, once, after PHP has started and before any worker or
/// the main port. Until then, [`config_report`](Shared::config_report) and [`php_version`](Shared::php_version) are
/// `None`.
#[derive(Debug, Default)]
pub struct ExecutorFacts {
    /// The version of PHP, if there is an interpreter.
    pub php_version: Option<String>,
    /// The executor's part of the configuration report, besides the settings.
    pub report: Map<String, Value>,
    /// Returns free memory to the system.
    pub free_unused: Option<fn()>,
}

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
    /// The executor of requests for scripts.
    pub backend: Backend,
    /// The pool of background tasks, if there is one.
    pub tasks: Option<Arc<TaskPool>>,
    /// The plugins.
    pub plugins: PluginSet,
    /// The threads that run blocking calls on behalf of requests.
    pub helpers: Arc<HelperThreads>,
    /// Decides which requests are recorded, and takes their spans; `None` without tracing.
    pub tracer: Option<Arc<Tracer>>,
    /// The files for long bodies and responses.
    pub spool: Spool,
    /// The cache of responses of scripts, if there is one.
    pub cache: Option<Arc<ResponseCache>>,
    /// The state of a server for development; `None` in any other mode.
    pub development: Option<Arc<Development>>,
    /// The last fill level of the cache of responses; locked only to copy or replace it.
    pub cache_reading: ShortLock<CacheReading>,
    /// The permits of `MAX_CONNECTIONS`.
    pub permits: Arc<Permits>,
    /// The TLS configuration of the main port, if it uses TLS.
    pub tls: Option<SessionConfig>,
    /// The progress of reloads; locked only to note a step or to copy it.
    pub reload: ShortLock<ReloadBook>,
    /// Why workers have failed to boot since the last boot; locked only to copy or change it.
    pub boot_failure: ShortLock<Option<BootFailure>>,
    /// The queue of finished spans, if spans are exported.
    pub spans: Option<Arc<TraceSink>>,
    /// How the I/O threads share their load.
    pub io_load: LoadSharing,
    /// The permits of HTTP/2 streams beyond the first one of a connection.
    pub stream_permits: Arc<Permits>,
    /// Permits for larger receive windows of HTTP/2.
    pub window_permits: Arc<Permits>,
    /// The samples of the last seconds; locked only to add a sample or to read them.
    pub history: ShortLock<History>,
    /// OPcache's reports about its memory; locked only to record a reading or to copy the last one.
    pub opcache: ShortLock<OpcacheBook>,
    /// The last distinct errors of PHP.
    pub php_errors: PhpErrors,
    /// The last fill level of the cache of static files; locked only to copy or replace it.
    pub static_cache: ShortLock<StaticCacheReading>,
    executor: OnceLock<ExecutorFacts>,
    /// The port at which clients reach the main port over TLS.
    https_port: OnceLock<u16>,
    /// Looks up scripts.
    scripts: OnceLock<Arc<dyn FindScript>>,
    /// When the server started.
    pub started_at: Instant,
}

fn streams_beside_max(config: &Config) -> usize {
    config.admission.max_connections.max(HTTP2_STREAMS_BESIDE_MIN)
}

fn response_cache(config: &Config) -> Option<Arc<ResponseCache>> {
    let settings = config.response_cache.as_ref().filter(|_| config.serving.executor != Executor::Stub)?;
    Some(ResponseCache::new(CacheSettings {
        bytes: settings.bytes,
        object_bytes_max: settings.max_object_bytes,
        entries: EntryOptions {
            freshness: FreshnessPolicy { default_ttl: settings.default_ttl, stale: settings.stale },
            codings: Levels::new(&config.files).for_files().to_vec(),
            is_compressible,
        },
        bypass_cookies: NamePatterns::new(&settings.bypass_cookies),
        ignored_parameters: NamePatterns::new(&settings.ignore_query),
        followers_max: config.admission.queue_max_waiting,
    }))
}

fn development(config: &Config) -> Option<Arc<Development>> {
    let since_epoch = time::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Development::new(config.development.as_ref()?, time::as_micros(since_epoch)))
}

fn tracer(config: &Config, spans: Option<&Arc<TraceSink>>) -> Option<Arc<Tracer>> {
    let tracing = config.tracing.clone()?;
    Some(Arc::new(Tracer::new(tracing, spans.cloned())))
}

impl Shared {
    /// Creates the state of a server that has not started serving.
    pub fn new(
        config: Arc<Config>,
        policy: Policy,
        tls: Option<SessionConfig>,
        log: Log,
        spans: Option<Arc<TraceSink>>,
    ) -> Arc<Self> {
        let started_at = time::now();
        Arc::new(Self {
            policy: Arc::new(policy),
            metrics: Metrics::default(),
            log,
            lifecycle: Lifecycle::default(),
            backend: Backend::new(&config, started_at),
            tasks: new_tasks(&config.background),
            plugins: PluginSet::default(),
            helpers: HelperThreads::new(),
            tracer: tracer(&config, spans.as_ref()),
            spool: Spool::new(config.bodies.spool_dir.clone(), config.bodies.spool_max_bytes),
            cache: response_cache(&config),
            development: development(&config),
            cache_reading: ShortLock::default(),
            permits: Permits::new(config.admission.max_connections),
            tls,
            reload: ShortLock::new(ReloadBook::new(time::wall())),
            boot_failure: ShortLock::default(),
            spans,
            io_load: LoadSharing::new(config.serving.io_workers, config.serving.io_workers_at_start),
            window_permits: Permits::new(HTTP2_WINDOW_PERMITS),
            stream_permits: Permits::new(streams_beside_max(&config)),
            history: ShortLock::default(),
            opcache: ShortLock::default(),
            php_errors: PhpErrors::default(),
            static_cache: ShortLock::default(),
            executor: OnceLock::new(),
            https_port: OnceLock::new(),
            scripts: OnceLock::new(),
            started_at,
            config,
        })
    }

    /// Sets the facts about the executor, which has started. Must be called once.
    pub(super) fn set_executor(&self, facts: ExecutorFacts) {
        let is_first = self.executor.set(facts).is_ok();
        debug_assert!(is_first, "the executor was started twice");
    }

    /// Sets the lookup of scripts. Must be called once.
    pub(super) fn set_scripts(&self, scripts: Arc<dyn FindScript>) {
        let is_first = self.scripts.set(scripts).is_ok();
        debug_assert!(is_first, "the site was created twice");
    }

    /// Looks up the script of a request again; `None` if its path no longer leads to a script. Waits for the disk.
    pub fn find_script(&self, head: &Head) -> Option<Arc<Script>> {
        let path = uri::normalise(head.path_and_query().0).ok()?;
        self.scripts.get()?.find_script(&path.path)
    }

    /// Sets the port for HTTPS, once the ports are bound. Must be called once.
    pub(super) fn set_https_port(&self, port: u16) {
        let is_first = self.https_port.set(port).is_ok();
        debug_assert!(is_first, "the ports were bound twice");
    }

    /// Returns the port at which clients reach the main port over TLS.
    pub fn https_port(&self) -> u16 {
        self.https_port.get().copied().unwrap_or(443)
    }

    /// Returns the version of PHP; `None` until PHP has started, and without PHP.
    pub fn php_version(&self) -> Option<&str> {
        self.executor.get()?.php_version.as_deref()
    }

    /// Returns whether OPcache is enabled; `None` until PHP has started, and without PHP.
    pub fn opcache_enabled(&self) -> Option<bool> {
        self.executor.get()?.report.get("php")?["opcache_enabled"].as_bool()
    }

    /// Returns the number of HTTP/2 streams beyond the first one of each connection.
    pub(super) fn streams_beside(&self) -> u64 {
        streams_beside_max(&self.config).saturating_sub(self.stream_permits.free()) as u64
    }

    /// Returns the function that returns free memory to the system, if there is one.
    pub(super) fn free_unused(&self) -> Option<fn()> {
        self.executor.get()?.free_unused
    }

    /// Returns the configuration report; `None` until the executor has started.
    pub fn config_report(&self) -> Option<String> {
        let mut extra = self.executor.get()?.report.clone();
        extra.insert("deny_file".to_owned(), json!({ "loaded": self.policy.rules().deny.is_loaded() }));
        extra.insert("headers_file".to_owned(), json!({ "loaded": self.policy.rules().headers.is_loaded() }));
        extra.insert("plugins".to_owned(), self.plugins.config().into());
        Some(Value::Object(self.config.report(extra)).to_string())
    }

    /// Reads the state of the pool; all zero before the pool has started.
    pub fn pool_facts(&self) -> PoolFacts {
        self.backend.pool().map(PoolBackend::facts).unwrap_or_default()
    }

    /// Returns which threads could run a request now.
    pub fn worker_health(&self) -> WorkerHealth {
        match &self.backend {
            Backend::Stub => WorkerHealth::NotNeeded,
            Backend::Pool(pool) => match pool.workers() {
                None => WorkerHealth::NotStarted,
                Some(workers) => WorkerHealth::Running(workers.taking()),
            },
        }
    }

    /// Reads the state of the gate; `None` for an executor without a queue.
    pub fn gate_facts(&self) -> Option<GateFacts> {
        self.backend.pool().map(|pool| pool.gate.facts())
    }
}
