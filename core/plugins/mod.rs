//! Plugins: code that somebody else has written, on threads of its own.
//!
//! Promises: nothing of the server waits for a plugin while it serves. A plugin has one thread, on which all of its
//! callbacks run, one at a time; everybody else reads what its last answers were, for how long its present callback has
//! been running, and puts questions into its bounded inbox. Whatever a plugin answers is checked before anybody
//! sees it.
//!
//! Refuses: it does not know how a plugin is loaded or called; whoever does implements [`Plugin`]. It writes no log
//! records ([`PluginEvents`] does) and no HTTP.
//!
//! | file | noun |
//! |---|---|
//! | `plugin`, `call` | what the server asks of a plugin; the names of that |
//! | `health` | how a plugin is, with time as an argument |
//! | `families` | its metrics, as far as they make a valid page |
//! | `answers` | its configuration and its pages, checked |
//! | `trouble` | how often an error is worth a record |
//! | `question` | a request for a page |
//! | `inbox` | what waits for the plugin's thread |
//! | `handle` | one plugin, as all other threads see it |
//! | `thread` | the thread |
//! | `signal` | the one moment that a thread may be waited for |
//! | `set` | all plugins |

mod answers;
mod call;
mod families;
#[cfg(test)]
pub(crate) mod fixture;
mod handle;
mod health;
mod inbox;
mod plugin;
mod question;
mod set;
mod signal;
mod thread;
mod trouble;

pub use answers::{AnswerRefusal, PluginConfig, PluginPage};
pub use call::PluginCall;
pub use families::{MetricRefusal, PluginFamily, PluginMetricKind, PluginMetrics, PluginSample};
pub use handle::PluginReading;
pub use health::{HealthChange, HealthReport, PluginHealth};
pub use inbox::{PluginInbox, PluginTurn, PluginWork};
pub use plugin::{Plugin, PluginAbout, PluginCallbacks, RequestFacts};
pub use question::{PageOutcome, PluginQuestion};
pub use set::{PageTicket, PluginAsked, PluginSet, PluginStartError};
pub use thread::PluginEvents;
