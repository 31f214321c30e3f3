//! What the server says about itself: metrics, health, log records.
//!
//! Promises: writing is cheap and never waits (sharded cells, a bounded queue of log records); reading stops nobody;
//! every figure comes from a fact. Refuses: it opens no socket and reads no setting; facts are handed in.
//!
//! | file | noun |
//! |---|---|
//! | `label` | values of labels that are fixed sets |
//! | `families` | the table of the metrics: cells, names, types, help, conditions, sources, reference |
//! | `family`, `cell` | the vocabulary of its rows |
//! | `metrics` | what happens to requests, in those cells |
//! | `facts` | what the metrics tell that nobody counts |
//! | `exporter` | what a page of metrics is written to |
//! | `exposition` | both text formats of the metrics |
//! | `reference` | the tables of docs/metrics.md |
//! | `process` | what the kernel says about this process |
//! | `processors` | how idle the processors are |
//! | `health` | probes and the health report |
//! | `status` | what matters at 3 a.m., as JSON |
//! | `history` | rates and latencies of the last seconds |
//! | `episode`, `episode_event` | the last episodes, and the events that make them |
//! | `event`, `worker_event`, `trace_event`, `plugin_event`, `hint` | what is worth a log record |
//! | `record`, `timestamp` | one log record as a line of JSON, and its time |
//! | `batch_writer` | a thread that writes what others must not wait to write |
//! | `log` | its first user |

pub mod batch_writer;
mod cell;
mod episode;
mod episode_event;
mod event;
pub mod exporter;
pub mod exposition;
mod facts;
mod families;
pub mod family;
mod health;
mod hint;
mod history;
mod label;
mod log;
mod metrics;
mod opcache;
mod plugin_event;
pub mod process;
pub mod processors;
pub mod record;
pub mod reference;
mod setting_event;
mod status;
pub mod text_line;
pub mod timestamp;
mod trace_event;
mod watch_event;
mod worker_event;

pub use episode::{EpisodeBook, EpisodeEntry, EpisodeKind, EpisodeNews, EpisodeStep};
pub use event::{Access, Event, PhpLevel, PhpMessage};
pub use facts::{
    BootFailure, CertificateFacts, OpcacheReading, ReloadFacts, ScrapeFacts, StaticCacheReading, TaskFacts,
    TraceFacts,
};
pub use families::Metrics;
pub use health::{Health, HealthProbe, ProbeFacts, WorkerHealth};
pub use hint::{Hint, INI_FILE_CHANGED};
pub use history::{History, Latency, Sample, Window};
pub use label::{CancelReason, HookObstacle, StatusClass, TlsHandshake};
pub use log::Log;
pub use opcache::OpcacheBook;
pub use plugin_event::PluginEvent;
pub use status::StatusFacts;
pub use trace_event::TraceEvent;
pub use watch_event::WatchEvent;
pub use worker_event::WorkerEvent;
