//! The settings by section, as on the reference page.
//!
//! Code that needs the settings of one concern takes one of these structs and sees no others. Values are checked and
//! resolved elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::hooks;
use super::id::Id;
use super::settings::Settings;
use super::{
    AbandonedRequests, AccessLog, CertificateFiles, EntryFile, Executor, FastcgiConfig, Level, ListenAddr,
    LogFormat, PluginSettings, PluginSource, RuntimeHook, TlsVersion, WorkerRange,
};

/// Addresses, files and threads.
#[derive(Clone, Debug)]
pub struct ServingConfig {
    /// Where the main port listens; never empty. With port 0, the system chooses a free port.
    pub listen_addr: Vec<ListenAddr>,
    /// The permissions of its Unix sockets.
    pub listen_unix_mode: u32,
    /// The address of the port that redirects to HTTPS; `None` disables it. If there is one, there are certificates.
    pub redirect_addr: Option<SocketAddr>,
    /// The directory to serve, as an absolute path. It was a directory when the process started.
    pub document_root: PathBuf,
    /// Whether symbolic links may point outside the document root.
    pub links_outside_root: bool,
    /// The files that handle paths that match no file, those with the longest prefix first.
    pub entry_files: Vec<EntryFile>,
    /// The handler of PHP requests.
    pub executor: Executor,
    /// The number of I/O threads, which serve connections.
    pub io_workers: usize,
    /// The number of I/O threads in use at the start: all if the number was configured, else one; others follow on
    /// demand.
    pub io_workers_at_start: usize,
    /// The user that the server becomes once its ports are bound, as `user` or `user:group`.
    pub run_as: Option<String>,
    /// The file with the process ID.
    pub pid_file: Option<PathBuf>,
}

impl ServingConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings, io_workers_at_start: usize) -> Self {
        Self {
            listen_addr: settings.listeners(Id::ListenAddr).to_vec(),
            listen_unix_mode: settings.mode(Id::ListenUnixMode),
            redirect_addr: settings.address(Id::RedirectAddr),
            document_root: settings.path(Id::DocumentRoot).unwrap_or_default(),
            links_outside_root: settings.boolean(Id::LinksOutsideRoot),
            entry_files: settings
                .text(Id::EntryFile)
                .and_then(|text| {
                    EntryFile::list(text, &settings.path(Id::DocumentRoot).unwrap_or_default()).ok()
                })
                .unwrap_or_default(),
            executor: match settings.text(Id::Executor) {
                Some("fastcgi") => Executor::Fastcgi,
                Some("stub") => Executor::Stub,
                _ => Executor::Sapi,
            },
            io_workers: settings.count(Id::IoWorkers),
            io_workers_at_start,
            run_as: settings.text(Id::RunAs).map(str::to_owned),
            pid_file: settings.path(Id::PidFile),
        }
    }
}

/// The PHP thread pool, and the environment of scripts.
#[derive(Clone, Debug)]
pub struct PhpConfig {
    /// The number of threads that run PHP.
    pub workers: WorkerRange,
    /// How long a worker of a dynamic pool may be idle before it is retired.
    pub workers_idle: Duration,
    /// Whether worker mode is enabled: scripts stay loaded and handle many requests.
    pub worker_mode_enabled: bool,
    /// The PHP heap size above which a persistent worker is restarted, or the resident memory above which a process is
    /// replaced, in MiB; 0 means no limit.
    pub worker_max_memory_mib: u64,
    /// The number of requests after which a persistent worker is restarted, or a process is replaced, on average; 0 means
    /// no limit.
    pub worker_max_requests: u64,
    /// Whether the superglobals contain the request.
    pub superglobals_enabled: bool,
    /// Variables to set in `$_SERVER` for every request; they override the server's own.
    pub server_variables: Vec<(String, String)>,
    /// The settings of the FastCGI executor; meaningless for other executors.
    pub fastcgi: FastcgiConfig,
    /// The PHP directives from the command line, in order.
    pub ini: Vec<(String, String)>,
}

impl PhpConfig {
    /// Copies its settings, which are already valid. `ini` holds the directives of the command line.
    pub(super) fn of(settings: &Settings, ini: Vec<(String, String)>) -> Self {
        Self {
            workers: settings.workers(),
            workers_idle: settings.duration(Id::PhpWorkersIdleSeconds),
            worker_mode_enabled: settings.boolean(Id::WorkerModeEnabled),
            worker_max_memory_mib: settings.integer(Id::WorkerMaxMemoryMib),
            worker_max_requests: settings.integer(Id::WorkerMaxRequests),
            superglobals_enabled: settings.boolean(Id::SuperglobalsEnabled),
            server_variables: settings.variables(Id::ServerVariables),
            fastcgi: FastcgiConfig::of(settings),
            ini,
        }
    }
}

/// Connections, the queue and waiting.
#[derive(Clone, Debug)]
pub struct AdmissionConfig {
    /// The maximum number of open connections on the main port.
    pub max_connections: usize,
    /// The maximum number of requests in the worker queue.
    pub queue_capacity: usize,
    /// The maximum number of requests that wait for a queue slot.
    pub queue_max_waiting: usize,
    /// The maximum total size of the bodies of requests that wait for a queue slot, in bytes.
    pub queue_max_waiting_bytes: u64,
    /// The maximum time a request waits for a worker. Zero refuses requests immediately when the queue is full.
    pub queue_wait_timeout: Duration,
    /// Which requests still run after their client disconnected.
    pub abandoned_requests: AbandonedRequests,
}

impl AdmissionConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            max_connections: settings.count(Id::MaxConnections),
            queue_capacity: settings.count(Id::QueueCapacity),
            queue_max_waiting: settings.count(Id::QueueMaxWaiting),
            queue_max_waiting_bytes: settings.integer(Id::QueueMaxWaitingBytes),
            queue_wait_timeout: settings.duration(Id::QueueWaitTimeoutMs),
            abandoned_requests: abandoned_requests(settings),
        }
    }
}

/// Request bodies, and temporary files for bodies that do not fit into memory.
#[derive(Clone, Debug)]
pub struct BodyConfig {
    /// The maximum size of a request body, in bytes.
    pub max_body_bytes: u64,
    /// The maximum size of the body of a QUERY request, in bytes.
    pub max_query_body: u64,
    /// The directory for temporary files. It was a directory when the process started.
    pub spool_dir: PathBuf,
    /// The maximum total size of all temporary files, in bytes.
    pub spool_max_bytes: u64,
}

impl BodyConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            max_body_bytes: settings.integer(Id::MaxBodyBytes),
            max_query_body: settings.integer(Id::MaxQueryBody),
            spool_dir: settings.path(Id::SpoolDir).unwrap_or_default(),
            spool_max_bytes: settings.integer(Id::SpoolMaxBytes),
        }
    }
}

/// Time limits.
#[derive(Clone, Debug)]
pub struct TimeoutConfig {
    /// The timeout for receiving a request header.
    pub header: Duration,
    /// The timeout between two successive reads of a request body.
    pub body: Duration,
    /// How long an idle connection stays open between requests.
    pub keepalive: Duration,
    /// How long a client may read none of its response before it is disconnected.
    pub write: Duration,
    /// How long requests in progress may take once the drain has begun.
    pub drain: Duration,
    /// How long the server keeps serving as usual after the signal, before the drain begins.
    pub drain_delay: Duration,
}

impl TimeoutConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            header: settings.duration(Id::HeaderTimeoutSeconds),
            body: settings.duration(Id::BodyTimeoutSeconds),
            keepalive: settings.duration(Id::KeepaliveTimeoutSeconds),
            write: settings.duration(Id::WriteTimeoutSeconds),
            drain: settings.duration(Id::DrainTimeoutSeconds),
            drain_delay: settings.duration(Id::DrainDelaySeconds),
        }
    }
}

/// Static files and compression.
#[derive(Clone, Debug)]
pub struct FileConfig {
    /// The `max-age` of static files; with zero, no `Cache-Control` is sent.
    pub max_age: Duration,
    /// Whether cached static files are checked for changes on disk.
    pub revalidate: bool,
    /// The size of the memory cache for static files, in bytes; 0 disables it.
    pub cache_bytes: u64,
    /// The Brotli compression level; 0 disables Brotli.
    pub brotli_level: u32,
    /// The zstd compression level; 0 disables zstd.
    pub zstd_level: u32,
    /// The gzip compression level; 0 disables gzip.
    pub gzip_level: u32,
    /// The directories from which scripts may send files, as absolute paths. They were directories when the process
    /// started.
    pub sendfile_roots: Vec<PathBuf>,
}

impl FileConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            max_age: settings.duration(Id::StaticMaxAge),
            revalidate: settings.boolean(Id::StaticRevalidate),
            cache_bytes: settings.integer(Id::StaticCacheBytes),
            brotli_level: settings.integer(Id::BrotliLevel) as u32,
            zstd_level: settings.integer(Id::ZstdLevel) as u32,
            gzip_level: settings.integer(Id::GzipLevel) as u32,
            sendfile_roots: settings.paths(Id::SendfileRoots).to_vec(),
        }
    }
}

/// The cache of responses of scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseCacheConfig {
    /// The maximum memory of the stored responses, in bytes; above 0.
    pub bytes: u64,
    /// The maximum length of a body that is stored.
    pub max_object_bytes: u64,
    /// The freshness lifetime of a response that states none.
    pub default_ttl: Duration,
    /// How long beyond its freshness a response may answer in place of a refusal or an error.
    pub stale: Duration,
    /// Patterns of the cookies whose requests are not answered from the cache.
    pub bypass_cookies: Vec<String>,
    /// Patterns of the query parameters that are not in the key.
    pub ignore_query: Vec<String>,
}

impl ResponseCacheConfig {
    /// Copies its settings, which are already valid; `None` if the cache is off.
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        let bytes = settings.integer(Id::ResponseCacheBytes);
        (bytes > 0).then(|| Self {
            bytes,
            max_object_bytes: settings.integer(Id::ResponseCacheMaxObjectBytes),
            default_ttl: settings.duration(Id::ResponseCacheDefaultTtlMs),
            stale: settings.duration(Id::ResponseCacheStaleSeconds),
            bypass_cookies: settings.list(Id::ResponseCacheBypassCookies),
            ignore_query: settings.list(Id::ResponseCacheIgnoreQuery),
        })
    }
}

/// TLS on the main port.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The certificates of the main port, the default certificate first. If empty, the port serves plain HTTP.
    pub certificates: Vec<CertificateFiles>,
    /// The minimum TLS version.
    pub min_version: TlsVersion,
    /// The value of `Strict-Transport-Security` in responses over TLS.
    pub hsts: Option<String>,
}

impl TlsConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            certificates: certificates(settings),
            min_version: match settings.text(Id::TlsMinVersion) {
                Some("1.3") => TlsVersion::Tls13,
                _ => TlsVersion::Tls12,
            },
            hsts: settings.text(Id::Hsts).map(str::to_owned),
        }
    }
}

/// Client permissions and trusted proxies.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The number of requests a client may make in one window; 0 disables the limit.
    pub rate_limit: u64,
    /// The length of the rate limiter's window.
    pub rate_window: Duration,
    /// The proxies whose header fields about the client are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Patterns of URL paths at which PHP is not executed.
    pub php_deny_paths: Vec<String>,
    /// The directory with custom error pages.
    pub error_pages_dir: Option<PathBuf>,
}

impl ClientConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            rate_limit: settings.integer(Id::RateLimit),
            rate_window: settings.duration(Id::RateWindowSeconds),
            trusted_proxies: settings.networks(Id::TrustedProxies).unwrap_or_default(),
            php_deny_paths: settings.list(Id::PhpDenyPaths),
            error_pages_dir: settings.path(Id::ErrorPagesDir),
        }
    }
}

/// Logs and trace context.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Which requests are logged.
    pub access: AccessLog,
    /// The minimum level of log records that are written.
    pub level: Level,
    /// The form of log records.
    pub format: LogFormat,
    /// Whether W3C Trace Context is enabled.
    pub trace_context: bool,
}

impl LogConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            access: match settings.text(Id::AccessLog) {
                Some("all") => AccessLog::All,
                Some("error") => AccessLog::Error,
                _ => AccessLog::Off,
            },
            level: match settings.text(Id::LogLevel) {
                Some("error") => Level::Error,
                Some("warn") => Level::Warn,
                Some("debug") => Level::Debug,
                _ => Level::Info,
            },
            format: match settings.text(Id::LogFormat) {
                Some("auto") => LogFormat::Auto,
                Some("text") => LogFormat::Text,
                _ => LogFormat::Json,
            },
            trace_context: settings.boolean(Id::TraceContext),
        }
    }
}

/// Background tasks and plugins.
#[derive(Clone, Debug)]
pub struct BackgroundConfig {
    /// The number of threads for background tasks.
    pub async_workers: usize,
    /// The maximum number of tasks in flight per thread.
    pub async_max_fibers: usize,
    /// The maximum number of tasks that wait for a thread.
    pub async_queue_capacity: usize,
    /// The script that each thread for tasks runs once, as an absolute path. It was a readable file when the process
    /// started.
    pub async_entry_file: Option<PathBuf>,
    /// The maximum size of a task's input, and of its result, in bytes.
    pub async_max_value_bytes: u64,
    /// The calls that let other requests run while they wait; empty without worker mode and without task threads.
    pub runtime_hooks: Vec<RuntimeHook>,
    /// Whether configured hooks have no effect.
    pub has_idle_hooks: bool,
    /// The plugins to load.
    pub plugins: Vec<PluginSource>,
    /// The settings of plugins.
    pub plugin_settings: PluginSettings,
}

impl BackgroundConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings, plugin_settings: &PluginSettings) -> Self {
        let hooks = hooks::named(&settings.list(Id::RuntimeHooks));
        let has_fibers = settings.text(Id::Executor) == Some("sapi")
            && (settings.boolean(Id::WorkerModeEnabled) || settings.count(Id::AsyncWorkers) > 0);
        Self {
            async_workers: settings.count(Id::AsyncWorkers),
            async_max_fibers: settings.count(Id::AsyncMaxFibers),
            async_queue_capacity: settings.count(Id::AsyncQueueCapacity),
            async_entry_file: settings.path(Id::AsyncEntryFile),
            async_max_value_bytes: settings.integer(Id::AsyncMaxValueBytes),
            has_idle_hooks: !has_fibers && !hooks.is_empty(),
            runtime_hooks: if has_fibers { hooks } else { Vec::new() },
            plugins: PluginSource::of_list(&settings.list(Id::Plugins)),
            plugin_settings: plugin_settings.clone(),
        }
    }

    /// Returns the maximum number of tasks in flight.
    pub fn async_in_flight_cap(&self) -> usize {
        self.async_max_fibers * self.async_workers
    }
}

/// The operations port.
#[derive(Clone, Debug)]
pub struct OperationsConfig {
    /// The address of the operations port; `None` disables it.
    pub addr: Option<SocketAddr>,
    /// The peers that may read metrics and configuration; `None` allows all.
    pub allow_ips: Option<Vec<IpNet>>,
}

impl OperationsConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        Self { addr: settings.address(Id::InternalAddr), allow_ips: settings.networks(Id::InternalAllowIps) }
    }
}

fn abandoned_requests(settings: &Settings) -> AbandonedRequests {
    match settings.text(Id::AbandonedRequests) {
        Some("run") => AbandonedRequests::Run,
        Some("drop") => AbandonedRequests::Drop,
        _ => AbandonedRequests::RunUnsafe,
    }
}

fn certificates(settings: &Settings) -> Vec<CertificateFiles> {
    // Absolute, because the files are read again at each reload, and the working directory may change.
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let pairs = settings.paths(Id::TlsCert).iter().zip(settings.paths(Id::TlsKey));
    pairs.map(|(cert, key)| CertificateFiles { cert: absolute(cert), key: absolute(key) }).collect()
}
