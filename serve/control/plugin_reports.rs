//! The events of plugins on their way to the log.
//!
//! Each event becomes a record. The caller decides how often an event is reported.

use svc_core::observe::{Event, Log, PluginEvent};
use svc_core::plugins::{HealthChange, PluginCall, PluginEvents};

/// Logs the events of plugins.
#[derive(Debug)]
pub(crate) struct PluginReports(pub(crate) Log);

impl PluginEvents for PluginReports {
    fn trouble(&self, plugin: &str, call: PluginCall, why: &str) {
        let event = PluginEvent::CallbackFailed { callback: call.as_str(), error: why };
        self.0.emit(&Event::Plugin(plugin, event));
    }

    fn health_changed(&self, plugin: &str, change: &HealthChange) {
        self.0.emit(&Event::Plugin(plugin, PluginEvent::HealthChanged(change)));
    }
}
