//! What the server says about itself: metrics, health, log records.
//!
//! Promises: writing is cheap and never waits (sharded cells, a bounded queue of log records); reading stops nobody;
//! every figure comes from a fact. Refuses: it opens no socket and reads no setting; facts are handed in.
//!
//! | file | noun |
//! |---|---|
//! | `label` | values of labels that are fixed sets |
//! | `metrics` | what the request path counts |
//! | `names` | the families: name, type, help |
//! | `exposition` | both text formats of the metrics |
//! | `process` | what the kernel says about this process |
//! | `health` | probes and the health report |
//! | `event`, `worker_event`, `hint` | what is worth a log record |
//! | `record`, `timestamp` | one log record as a line of JSON, and its time |
//! | `log` | the queue and the thread that writes it |

pub mod event;
pub mod exposition;
pub mod health;
pub mod hint;
pub mod label;
pub mod log;
pub mod metrics;
pub mod names;
pub mod process;
pub mod record;
pub mod timestamp;
pub mod worker_event;

pub use event::{Access, Event, PhpLevel, PhpMessage};
pub use exposition::{CertificateFacts, ReloadFacts};
pub use health::{Health, Probe, ProbeFacts, WorkerFacts};
pub use hint::Hint;
pub use label::{CancelReason, StatusClass, TlsHandshake};
pub use log::Log;
pub use metrics::Metrics;
pub use worker_event::WorkerEvent;
