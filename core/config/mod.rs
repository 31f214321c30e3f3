//! The settings of the server.
//!
//! One table ([`keys::KEYS`]) defines the name, type, default and report field of each setting. Parsing, help,
//! `svc check`, the reference page and `/config` all use it, so they cannot disagree.
//!
//! A [`Config`] that exists is valid. All invalid values are found in one pass and reported together, one line per
//! variable. A setting whose feature is not available in this version accepts only its inactive value. The environment
//! is not read here (the caller passes the variables in), and the settings do not change after startup.

use std::path::PathBuf;

mod activation;
mod development;
mod directive;
mod entries;
mod entry_file;
mod env_file;
mod fastcgi;
mod fastcgi_addr;
mod files;
pub mod glob;
mod hooks;
mod id;
pub mod key;
pub mod keys;
mod listen_addr;
mod machine;
pub mod page;
mod plugins;
mod problem;
mod raw;
mod report;
mod resolve;
mod sections;
mod service_manager;
mod settings;
pub mod spelling;
mod tracing;
pub mod value;
mod warning;

pub use activation::{ACTIVATION_VARIABLES, Activation, PassedSocket};
pub use development::DevelopmentConfig;
pub use entry_file::EntryFile;
pub use env_file::{EnvFile, EnvFileError, LineFault};
pub use fastcgi::{FastcgiConfig, FastcgiTarget};
pub use fastcgi_addr::FastcgiAddr;
pub use listen_addr::ListenAddr;
pub use machine::Machine;
pub use plugins::{PluginSettings, PluginSource, is_plugin_name};
pub use problem::{ConfigError, Fault, Problem};
pub use raw::{PREFIX, RawConfig, ValueSource};
pub use sections::{
    AdmissionConfig, BackgroundConfig, BodyConfig, ClientConfig, FileConfig, LogConfig, OperationsConfig,
    PhpConfig, ResponseCacheConfig, ServingConfig, TimeoutConfig, TlsConfig,
};
pub use service_manager::ServiceManagerConfig;
pub use settings::Setting;
pub use tracing::{
    AttributeLimits, BatchConfig, ExportConfig, ExportEndpoint, ExportProtocol, ExportSignal,
    LogExportConfig, MetricExportConfig, PemFile, RootSampler, Sampler, SpanLimits, TemporalityPreference,
    TraceConfig,
};
pub use warning::Warning;

pub use svc_types::{Level, RuntimeHook};

/// The resolved settings of a process, created by [`Config::resolve`]: one field for each section of the reference page.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses, files and threads.
    pub serving: ServingConfig,
    /// The PHP thread pool, and the environment of scripts.
    pub php: PhpConfig,
    /// Connections, the queue and waiting.
    pub admission: AdmissionConfig,
    /// Request bodies, and temporary files for bodies that do not fit into memory.
    pub bodies: BodyConfig,
    /// Time limits.
    pub timeouts: TimeoutConfig,
    /// Static files and compression.
    pub files: FileConfig,
    /// The response cache; `None` if it is off.
    pub response_cache: Option<ResponseCacheConfig>,
    /// TLS on the main port.
    pub tls: TlsConfig,
    /// Client permissions and trusted proxies.
    pub clients: ClientConfig,
    /// Logs and trace context.
    pub logs: LogConfig,
    /// Background tasks and plugins.
    pub background: BackgroundConfig,
    /// The operations port.
    pub operations: OperationsConfig,
    /// Tracing, and exported metrics and logs; `None` with `OTEL_ENABLED=false`.
    pub tracing: Option<TraceConfig>,
    /// Development; `None` unless the command line asks for it. It is not a setting.
    pub development: Option<DevelopmentConfig>,
    /// The interface of the service manager, which is not a setting.
    pub service_manager: ServiceManagerConfig,
    /// Warnings, which do not stop the start.
    pub warnings: Vec<Warning>,
    /// The resolved value and the source of each setting, in the order of the table.
    pub(crate) settings: Vec<Setting>,
}

/// The handler of PHP requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// PHP in other processes, driven by a pool of threads behind the queue.
    Fastcgi,
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
    /// Requests with an unsafe method, which may change state.
    RunUnsafe,
}

/// The minimum and maximum number of threads that run PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRange {
    /// The initial size of the pool, below which it never shrinks.
    pub min: usize,
    /// The maximum size of the pool; equal to `min` in a pool of fixed size.
    pub max: usize,
}

/// A certificate and its key, as absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
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

/// The form of log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// A JSON object per line.
    Json,
    /// Text for people.
    Text,
}

impl Executor {
    /// Returns the name used by the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fastcgi => "fastcgi",
            Self::Sapi => "sapi",
            Self::Stub => "stub",
        }
    }
}
