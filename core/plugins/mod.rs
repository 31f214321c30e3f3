//! Plugins: third-party code on dedicated threads.
//!
//! Serving never waits for a plugin. Each plugin has one thread, which runs all of its callbacks one at a time. Other
//! threads read its latest answers and the running time of its current callback, and queue work in its bounded inbox.
//! Every answer is checked before it becomes visible.
//!
//! Loading and calling a plugin is up to the implementation of [`Plugin`]. This module writes no log records (see
//! [`PluginEvents`]) and knows no HTTP.
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

mod answers;
mod families;
#[cfg(test)]
pub(crate) mod fixture;
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
