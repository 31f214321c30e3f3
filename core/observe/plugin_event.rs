//! Log events of plugins.
//!
//! As for [`Event`](super::Event), of which this is a part.

use super::record::Record;
use crate::config::Level;
use crate::plugins::{HealthChange, PluginHealth};

/// An event of a plugin.
#[derive(Clone, Copy, Debug)]
pub enum PluginEvent<'a> {
    /// The plugin was loaded and initialised.
    Loaded {
        /// Its version.
        version: &'a str,
        /// Its file.
        path: &'a str,
    },
    /// Its health has changed.
    HealthChanged(&'a HealthChange),
    /// A callback returned an error, or an answer that is not valid.
    CallbackFailed {
        /// The callback.
        callback: &'a str,
        /// The error.
        error: &'a str,
    },
    /// It has not stopped in time, and the server ends without it.
    LeftBehind {
        /// The callback that has not returned.
        callback: &'a str,
    },
}

impl PluginEvent<'_> {
    /// Returns the level of the event.
    pub(super) fn level(&self) -> Level {
        match self {
            Self::Loaded { .. } => Level::Info,
            Self::HealthChanged(change) => match change.to.health {
                PluginHealth::Ok => Level::Info,
                PluginHealth::Degraded => Level::Warn,
                PluginHealth::Failed => Level::Error,
            },
            Self::CallbackFailed { .. } | Self::LeftBehind { .. } => Level::Warn,
        }
    }

    /// Adds the event of `plugin` to a record; `svc` begins a record with a message.
    pub(super) fn record(&self, plugin: &str, svc: impl Fn(&str) -> Record) -> Record {
        match *self {
            Self::Loaded { version, path } => {
                svc("plugin is loaded").text("plugin", plugin).text("version", version).text("path", path)
            }
            Self::HealthChanged(change) => svc(match change.to.health {
                PluginHealth::Ok => "plugin has recovered",
                PluginHealth::Degraded => "plugin is degraded",
                PluginHealth::Failed => "plugin has failed",
            })
            .text("plugin", plugin)
            .text("before", change.from.as_str())
            .text("text", &change.to.text),
            Self::CallbackFailed { callback, error } => svc("plugin callback failed")
                .text("plugin", plugin)
                .text("callback", callback)
                .text("error", error),
            Self::LeftBehind { callback } => {
                svc("plugin did not stop in time").text("plugin", plugin).text("callback", callback)
            }
        }
    }
}
