//! Plugins in a build that cannot load them.

use svc_core::config::Config;
use svc_core::observe::Log;
use svc_core::plugins::Plugin;

use crate::plugin_fault::PluginSettingFault;

/// Loads nothing.
///
/// # Errors
///
/// If the settings name a plugin.
pub(crate) fn load(
    config: &Config,
    _log: Option<&Log>,
    _begin: &dyn Fn(&str),
) -> Result<Vec<Box<dyn Plugin>>, PluginSettingFault> {
    match config.background.plugins.first() {
        None => Ok(Vec::new()),
        Some(source) => {
            let why = "is not available in this build, which does not include PHP";
            Err(PluginSettingFault::new(format_args!("{source:?}"), why))
        }
    }
}
