//! The settings: what an operator may say, and what the server makes of it.
//!
//! Why: one table ([`keys::KEYS`]) says each setting's name, form, default and place in the report; parsing, help,
//! `svc check`, the reference page and `/config` are all read off it, so that they cannot disagree.
//!
//! Promises: a [`Config`] that exists is valid. Whatever is wrong is found in one pass and reported in one go, a line
//! for each variable. A setting whose feature this version lacks can only have its inactive value.
//!
//! Refuses: it reads no environment (the caller hands the variables over) and changes nothing after start-up.

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

/// The resolved settings of one process; made by [`Config::resolve`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The address of the main port; port 0 lets the system choose.
    pub listen_addr: SocketAddr,
    /// The directory that is served, absolute; a directory when the process started.
    pub document_root: PathBuf,
    /// Whether links in the document root may lead out of it.
    pub links_outside_root: bool,
    /// The file, relative to the document root and without a leading slash, that gets what no file answers.
    pub entry_file: Option<String>,
    /// What runs the requests for PHP.
    pub executor: Executor,
    /// How many threads run PHP.
    pub php_workers: Workers,
    /// How long a thread of a dynamic pool stays without work.
    pub php_workers_idle: Duration,
    /// How many io threads serve connections.
    pub io_workers: usize,
    /// How many connections the main port has open at once.
    pub max_connections: usize,
    /// How many requests the work queue holds.
    pub queue_capacity: usize,
    /// How many requests may wait for a place in the queue.
    pub queue_max_waiting: usize,
    /// How many bytes of request bodies may wait for a place in the queue.
    pub queue_max_waiting_bytes: u64,
    /// How long a request may wait for a worker, at most; zero refuses at once when the queue is full.
    pub queue_wait_timeout: Duration,
    /// Which requests run although their clients have left.
    pub abandoned_requests: AbandonedRequests,
    /// The longest request body, in bytes.
    pub max_body_bytes: u64,
    /// The longest body of a request with the method QUERY, in bytes.
    pub max_query_body: u64,
    /// Where spool files live; a directory when the process started.
    pub spool_dir: PathBuf,
    /// What all spool files together may take, in bytes.
    pub spool_max_bytes: u64,
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// How long the body of a request may pause.
    pub body_timeout: Duration,
    /// How long a connection may stay open between requests.
    pub keepalive_timeout: Duration,
    /// How long a client may read nothing of its reply.
    pub write_timeout: Duration,
    /// How long requests may go on once the drain has begun.
    pub drain_timeout: Duration,
    /// How long service goes on as usual after the signal, before the drain begins.
    pub drain_delay: Duration,
    /// Whether scripts stay loaded and handle many requests.
    pub worker_mode_enabled: bool,
    /// The PHP heap above which a persistent worker starts anew, in MiB; 0 means no bound.
    pub worker_max_memory_mib: u64,
    /// Whether the superglobals are filled.
    pub superglobals_enabled: bool,
    /// Variables to set in `$_SERVER` for every request; they override the server's own.
    pub server_variables: Vec<(String, String)>,
    /// The `max-age` of static files; zero: none is told.
    pub static_max_age: Duration,
    /// Whether the disk is looked at again for static files in memory.
    pub static_revalidate: bool,
    /// The memory for static files, in bytes; 0 keeps none.
    pub static_cache_bytes: u64,
    /// The level of the Brotli coding; 0 withdraws it.
    pub brotli_level: u32,
    /// The level of the zstd coding; 0 withdraws it.
    pub zstd_level: u32,
    /// The level of the gzip coding; 0 withdraws it.
    pub gzip_level: u32,
    /// The certificates of the main port, the one for unknown names first; none serves plain HTTP.
    pub tls: Vec<Tls>,
    /// The lowest version of TLS that is spoken.
    pub tls_min_version: TlsVersion,
    /// How many requests a client may make in one window; 0 is off.
    pub rate_limit: u64,
    /// The length of the rate limiter's window.
    pub rate_window: Duration,
    /// The proxies whose word on the client's address is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The URL paths at which no PHP runs.
    pub php_deny_paths: Vec<String>,
    /// Where the pages of errors live.
    pub error_pages_dir: Option<PathBuf>,
    /// Which requests are logged.
    pub access_log: AccessLog,
    /// The least important level that is logged.
    pub log_level: Level,
    /// Whether trace contexts are taken over and passed on.
    pub trace_context: bool,
    /// Whether spans are exported.
    pub otel_enabled: bool,
    /// How many threads run background tasks.
    pub async_workers: usize,
    /// How many tasks one such thread carries.
    pub async_max_fibers: usize,
    /// How many tasks wait for such a thread.
    pub async_queue_capacity: usize,
    /// Which blocking calls give way to other requests.
    pub runtime_hooks: Vec<String>,
    /// Which plugins are loaded.
    pub plugins: Vec<String>,
    /// The address of the operations port; `None` means that there is none.
    pub internal_addr: Option<SocketAddr>,
    /// Who may read metrics and configuration; `None` means everybody.
    pub internal_allow_ips: Option<Vec<IpNet>>,
    /// The PHP directives of the command line, in their order.
    pub php_ini: Vec<(String, String)>,
    /// Each setting's resolved value and source, in the table's order.
    pub(crate) settings: Vec<Setting>,
}

/// What runs the requests for PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// The PHP interpreter, on a pool of threads behind the queue.
    Sapi,
    /// A fixed page, without PHP and without a queue.
    Stub,
}

/// Which requests run although their clients leave while they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonedRequests {
    /// None.
    Drop,
    /// All.
    Run,
    /// Those whose methods may change something.
    RunUnsafe,
}

/// How many threads run PHP, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// What the pool starts with and never falls below.
    pub min: usize,
    /// What the pool never exceeds; equal to `min` in a pool of fixed size.
    pub max: usize,
}

/// A certificate and its key, by absolute paths.
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
    /// Every one.
    All,
    /// Those with a status of 400 or more.
    Error,
    /// None.
    Off,
}

/// How important a log record is, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed, and somebody should look.
    Error,
    /// Something may fail soon, or was refused.
    Warn,
    /// Something changed in the life of the server.
    Info,
    /// Something that only its developers ask for.
    Debug,
}

impl Executor {
    /// Names it as the setting does.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sapi => "sapi",
            Self::Stub => "stub",
        }
    }
}

impl Level {
    /// Names it as log records do.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        }
    }
}
