//! The server's reports about itself: metrics, health, log records.
//!
//! Writing is cheap and never waits (sharded cells, a bounded queue of log records); reading blocks no writer; every
//! figure comes from a fact. This folder opens no socket and reads no setting; callers pass the facts.
//!
//! | file | noun |
//! |---|---|
//! | `label` | values of labels that are fixed sets |
//! | `families` | the table of the metrics: cells, names, types, help, conditions, sources, reference |
//! | `family`, `cell` | the vocabulary of its rows |
//! | `metrics` | events of requests, counted in those cells |
//! | `facts` | metrics that are readings instead of counts |
//! | `exporter` | the interface to the formats of the metrics |
//! | `exposition` | both text formats of the metrics |
//! | `metric_book` | the metrics as points of OTLP: totals, or differences |
//! | `reference` | the tables of docs/metrics.md, for `make docs` |
//! | `php_errors` | the last distinct errors of PHP |
//! | `opcache` | OPcache's memory and counts, which never decrease |
//! | `process` | the kernel's facts about this process |
//! | `processors` | the idle time of the processors |
//! | `health` | probes and the health report |
//! | `status`, `status_facts`, `worker_state` | the figures that matter at 3 a.m., as JSON; what they are made from |
//! | `condition` | the unusual conditions in it |
//! | `history` | rates and latencies of the last seconds |
//! | `episode`, `episode_event` | the recent episodes, and the events that belong to them |
//! | `event`, `worker_event`, `trace_event`, `plugin_event`, `setting_event`, `watch_event`, `hint` | the events in the log |
//! | `access`, `php_message` | two of them: the end of a request, and a message from PHP |
//! | `record`, `timestamp` | one log record as a line of JSON, and its time |
//! | `batch_writer` | a thread that writes on behalf of threads that must not wait |
//! | `text_line`, `terminal_lines` | records as lines for people: of any log, and of a server for development |
//! | `log` | the log, which uses them |
//! | `log_tap` | the queue of log records that are exported |
//!
//! An *episode* is an event that an operator would look for later, from its beginning to its end: a period of shedding, a
//! stall (settings, log and docs say wedge), a reload.

mod access;
pub mod batch_writer;
mod cell;
mod condition;
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
mod log_tap;
mod metric_book;
mod metrics;
mod opcache;
mod php_errors;
mod php_message;
mod plugin_event;
pub mod process;
pub mod processors;
pub mod record;
pub mod reference;
mod setting_event;
mod status;
mod status_facts;
mod terminal_lines;
pub mod text_line;
pub mod timestamp;
mod trace_event;
mod watch_event;
mod worker_event;
mod worker_state;

pub use access::Access;
pub use episode::{EpisodeBook, EpisodeEntry, EpisodeKind, EpisodeStep, EpisodeUpdate};
pub use event::Event;
pub use facts::{
    BootFailure, CertificateFacts, ReloadFacts, ReloadReading, ScrapeFacts, StaticCacheReading, TaskFacts,
    TraceFacts,
};
pub use families::Metrics;
pub use health::{Health, HealthProbe, ProbeFacts, WorkerHealth};
pub use hint::{Hint, INI_FILE_CHANGED};
pub use history::{History, Latency, Sample, TrendPoint, Usage, Window};
pub use label::{CancelReason, StatusClass, TlsHandshake};
pub use log::Log;
pub use log_tap::{LogLine, LogTap};
pub use metric_book::MetricBook;
pub use opcache::OpcacheBook;
pub use php_errors::{PhpErrorEntry, PhpErrorLevel, PhpErrorRaised, PhpErrors};
pub use php_message::{PhpLevel, PhpMessage};
pub use plugin_event::PluginEvent;
pub use status_facts::{OldestJob, OldestWork, StatusFacts};
pub use trace_event::TraceEvent;
pub use watch_event::WatchEvent;
pub use worker_event::WorkerEvent;

pub use svc_types::{HookObstacle, OpcacheMemory};
