//! Types that the engine (`core`) and the bindings to PHP and to plugins (`ffi`) both use.
//!
//! Neither of the two depends on the other; both depend on this crate, so that a type that one passes to the other is
//! defined once and needs no conversion. The crate depends on nothing and has no state.
//!
//! | file | content |
//! |---|---|
//! | `named` | enums whose variants have names |
//! | `hook` | runtime hooks, and why a call with a hook blocks |
//! | `level` | levels of log records |
//! | `opcache` | readings of OPcache |
//! | `task` | why a task is rejected, and what ends the wait for several tasks |
//! | `span`, `attribute` | the kind, the status and the attributes of spans |
//! | `client_call` | calls of databases, key-value stores and HTTP servers |
//! | `plugin` | the callbacks of a plugin |
//! | `plugin_answer` | answers of plugins, and refusals of them |
//! | `request_facts` | a request that has ended, as plugins see it |
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::unwrap_used)]

#[macro_use]
mod named;

mod attribute;
mod client_call;
mod hook;
mod level;
mod opcache;
mod plugin;
mod plugin_answer;
mod request_facts;
mod span;
mod task;

pub use attribute::AttributeValue;
pub use client_call::{ClientCall, ClientEnd, ClientKind};
pub use hook::{HookObstacle, RuntimeHook};
pub use level::Level;
pub use opcache::{OpcacheFacts, OpcacheMemory};
pub use plugin::{ConfigSink, PageSink, Plugin, PluginAbout, PluginCall, PluginCallbacks};
pub use plugin_answer::{
    AnswerRefusal, HealthReport, MetricSink, PluginHealth, PluginMetricKind, RefusalCode,
};
pub use request_facts::RequestFacts;
pub use span::{SpanKind, SpanStatus};
pub use task::{TaskRejection, WatchMode};
