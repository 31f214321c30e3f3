//! Plugins: third-party code on dedicated threads.
//!
//! Serving never waits for a plugin. Each plugin has one thread, which runs all of its callbacks one at a time. Other
//! threads read its latest answers and the running time of its current callback, and queue work in its bounded inbox.
//! Every answer is checked before it becomes visible.
//!
//! `sapi/plugins.rs` finds the plugins of a start; loading and calling one is up to the implementation of [`Plugin`],
//! `ffi/plugin`. This module writes no log records (see [`PluginEvents`]) and knows no HTTP.
//!
//! | file | content |
//! |---|---|
//! | `health` | the health of a plugin; time is an argument |
//! | `families` | its metrics, reduced to a valid page |
//! | `answers` | its configuration and its pages, checked |
//! | `trouble` | rate limit for error records |
//! | `question` | a page request |
//! | `inbox` | the work queue of the plugin's thread |
//! | `handle` | the shared state of one plugin |
//! | `thread` | the thread |
//! | `signal` | a one-shot event: init or stop has finished |
//! | `set` | all plugins |
//!
//! - *One thread each.* The thread of a plugin is also the only one that waits for its callbacks. Health is computed on
//!   request from a watch that knows the running callback and its start, so that no thread has to detect a plugin that
//!   hangs. A plugin is *late* if its current callback has not returned for more than five seconds.
//! - *The inbox.* The tick of the control thread orders a *round*, the callbacks once a second; the operations port queues
//!   requests for pages, and I/O threads queue facts about ended requests.
//! - *A page* is sent by the control thread, which must not wait. Its connection holds a *ticket*, the right to the page,
//!   and checks it whenever a plugin has answered, and once a second. Its deadline excludes the time that the plugin
//!   takes. Dropping the ticket gives the page up; the plugin is then not called.
//! - *Metrics* are checked as they are added, so that the page is valid in both formats whatever a plugin does.
//! - *The end.* The inboxes are closed after the last request has been recorded; each thread is then joined within the time
//!   left for the drain (`serve/server.rs`). If a thread is left, the process ends without exit handlers.

mod answers;
mod families;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
mod handle;
mod health;
mod inbox;
mod question;
mod set;
mod signal;
mod thread;
mod trouble;

pub use answers::{PluginConfig, PluginPage};
pub use families::{MetricRefusal, PluginFamily, PluginMetrics, PluginSample};
pub use handle::PluginReading;
pub use health::HealthChange;
pub use inbox::{PluginInbox, PluginTurn, PluginWork};
pub use question::{PageOutcome, PluginQuestion};
pub use set::{PageTicket, PluginAsked, PluginSet, PluginStartError};
pub use thread::PluginEvents;

pub use svc_types::{
    AnswerRefusal, ConfigSink, HealthReport, MetricSink, PageSink, Plugin, PluginAbout, PluginCall,
    PluginCallbacks, PluginHealth, PluginMetricKind, RequestFacts,
};
