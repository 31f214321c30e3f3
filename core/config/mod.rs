//! The settings of the server.
//!
//! Why: one table ([`keys::KEYS`]) defines the name, type, default and report field of each setting. Parsing, help,
//! `svc check`, the reference page and `/config` all use it, so they cannot disagree.
//!
//! Promises: a [`Config`] that exists is valid. All invalid values are found in one pass and reported together, one
//! line per variable. A setting whose feature is not available in this version accepts only its inactive value.
//!
//! Refuses: it does not read the environment (the caller passes the variables in), and nothing changes after startup.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

pub mod glob;
mod id;
pub mod key;
pub mod keys;
pub mod page;
pub mod problem;
pub mod raw;
pub mod report;
pub mod resolve;
pub mod value;

pub use problem::{ConfigError, Problem};
pub use raw::{RawConfig, Source};
pub use resolve::Setting;

/// The resolved settings of a process, created by [`Config::resolve`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The address of the main port. With port 0, the system chooses a free port.
    pub listen_addr: SocketAddr,
    /// The directory to serve, as an absolute path. It was a directory when the process started.
    pub document_root: PathBuf,
    /// Whether symbolic links may point outside the document root.
    pub links_outside_root: bool,
    /// The file that handles paths that match no file, relative to the document root and without a leading slash.
    pub entry_file: Option<String>,
    /// What handles PHP requests.
    pub executor: Executor,
    /// The number of threads that run PHP.
    pub php_workers: Workers,
    /// How long a worker of a dynamic pool may be idle before it is retired.
    pub php_workers_idle: Duration,
    /// The number of I/O threads, which serve connections.
    pub io_workers: usize,
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
    /// The maximum size of a request body, in bytes.
    pub max_body_bytes: u64,
    /// The maximum size of the body of a QUERY request, in bytes.
    pub max_query_body: u64,
    /// The directory for temporary files. It was a directory when the process started.
    pub spool_dir: PathBuf,
    /// The maximum total size of all temporary files, in bytes.
    pub spool_max_bytes: u64,
    /// The timeout for receiving a request header.
    pub header_timeout: Duration,
    /// The timeout between two successive reads of a request body.
    pub body_timeout: Duration,
    /// How long an idle connection stays open between requests.
    pub keepalive_timeout: Duration,
    /// How long a client may receive nothing of its response before it is disconnected.
    pub write_timeout: Duration,
    /// How long requests in progress may take once the drain has begun.
    pub drain_timeout: Duration,
    /// How long the server keeps serving as usual after the signal, before the drain begins.
    pub drain_delay: Duration,
    /// Whether worker mode is enabled: scripts stay loaded and handle many requests.
    pub worker_mode_enabled: bool,
    /// The PHP heap size above which a persistent worker is restarted, in MiB; 0 means no limit.
    pub worker_max_memory_mib: u64,
    /// Whether the superglobals contain the request.
    pub superglobals_enabled: bool,
    /// Variables to set in `$_SERVER` for every request; they override the server's own.
    pub server_variables: Vec<(String, String)>,
    /// The `max-age` of static files; with zero, no `Cache-Control` is sent.
    pub static_max_age: Duration,
    /// Whether cached static files are checked for changes on disk.
    pub static_revalidate: bool,
    /// The size of the memory cache for static files, in bytes; 0 disables it.
    pub static_cache_bytes: u64,
    /// The Brotli compression level; 0 disables Brotli.
    pub brotli_level: u32,
    /// The zstd compression level; 0 disables zstd.
    pub zstd_level: u32,
    /// The gzip compression level; 0 disables gzip.
    pub gzip_level: u32,
    /// The certificates of the main port, the default certificate first. If empty, the port serves plain HTTP.
    pub tls: Vec<Tls>,
    /// The minimum TLS version.
    pub tls_min_version: TlsVersion,
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
    /// Which requests are logged.
    pub access_log: AccessLog,
    /// The minimum level of log records that are written.
    pub log_level: Level,
    /// Whether W3C Trace Context is enabled.
    pub trace_context: bool,
    /// Whether spans are exported.
    pub otel_enabled: bool,
    /// The number of threads for background tasks.
    pub async_workers: usize,
    /// The maximum number of concurrent tasks per thread.
    pub async_max_fibers: usize,
    /// The maximum number of tasks that wait for a thread.
    pub async_queue_capacity: usize,
    /// The blocking calls that let other requests run while they wait.
    pub runtime_hooks: Vec<String>,
    /// The plugins to load.
    pub plugins: Vec<String>,
    /// The address of the operations port; `None` disables it.
    pub internal_addr: Option<SocketAddr>,
    /// The peers that may read metrics and configuration; `None` allows all.
    pub internal_allow_ips: Option<Vec<IpNet>>,
    /// The PHP directives from the command line, in order.
    pub php_ini: Vec<(String, String)>,
    /// The resolved value and the source of each setting, in the order of the table.
    pub(crate) settings: Vec<Setting>,
}

/// What handles PHP requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// The PHP interpreter, on a pool of threads behind the queue.
    Sapi,
    /// A fixed page, without PHP and without a queue.
    Stub,
}

/// Which requests still run if their client disconnects while they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonedRequests {
    /// None.
    Drop,
    /// All.
    Run,
    /// Those whose method may change something.
    RunUnsafe,
}

/// The minimum and maximum number of threads that run PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// The initial size of the pool, below which it never shrinks.
    pub min: usize,
    /// The maximum size of the pool; equal to `min` in a pool of fixed size.
    pub max: usize,
}

/// A certificate and its key, as absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The file with the certificate chain.
    pub cert: PathBuf,
    /// The file with the private key.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Which requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// All requests.
    All,
    /// Those with a status of 400 or more.
    Error,
    /// None.
    Off,
}

/// The level of a log record, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed and needs attention.
    Error,
    /// Something may fail soon, or was refused.
    Warn,
    /// The state of the server changed.
    Info,
    /// Details for developers.
    Debug,
}

impl Executor {
    /// Returns the name used by the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sapi => "sapi",
            Self::Stub => "stub",
        }
    }
}

impl Level {
    /// Returns the name used in log records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        }
    }
}
