//! What is wrong with a plugin that the settings name.

use std::fmt;

/// A plugin cannot be loaded: which one, and why.
#[derive(Debug)]
pub(crate) struct PluginSettingFault {
    plugin: String,
    why: String,
}

impl PluginSettingFault {
    /// The entry of the setting, or the file that it leads to; why it cannot be used.
    pub(crate) fn new(plugin: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { plugin: plugin.to_string(), why: why.to_string() }
    }
}

impl fmt::Display for PluginSettingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PLUGINS: {:?} {}", self.plugin, self.why)
    }
}
