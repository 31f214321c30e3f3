//! Errors of the plugins in the settings.

use std::fmt;

/// A plugin that cannot be loaded, and the reason.
#[derive(Debug)]
pub(crate) struct PluginSettingFault {
    plugin: String,
    why: String,
}

impl PluginSettingFault {
    /// Creates the error of a plugin, named by its entry in the setting or by its file.
    pub(crate) fn new(plugin: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { plugin: plugin.to_string(), why: why.to_string() }
    }
}

impl fmt::Display for PluginSettingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PLUGINS: {:?} {}", self.plugin, self.why)
    }
}
