//! Loads the plugins of the settings.
//!
//! The installation directory is all that this module knows about plugins.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use svc_core::config::{Config, PluginSource, is_plugin_name};
use svc_core::limits::PLUGIN_NAME_BYTES_MAX;
use svc_core::observe::{Event, Log};
use svc_core::plugins::Plugin;
use svc_ffi::plugin::{LoadedPlugin, PluginServices};

use crate::apm::{self, Apm};
use crate::plugin_fault::PluginSettingFault;

/// Loads the plugins of the settings in order; passes the name or the file of each one to `begin` first. Does not
/// initialise them.
///
/// # Errors
///
/// For the first plugin that cannot be loaded.
pub(crate) fn load(
    config: &Config,
    log: Option<&Log>,
    begin: &dyn Fn(&str),
) -> Result<Vec<Box<dyn Plugin>>, PluginSettingFault> {
    let sources = &config.background.plugins;
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    // Plugins are never unloaded, so their services must live forever.
    let names: &'static OnceLock<Vec<String>> = Box::leak(Box::default());
    let services: &'static PluginServices = Box::leak(Box::new(services(config, log, names)));
    let mut loaded: Vec<Option<LoadedPlugin>> = Vec::new();
    for source in sources {
        match source {
            PluginSource::File(path) => begin(&path.to_string_lossy()),
            PluginSource::Named(name) => begin(name),
        }
        let plugin = load_one(source, services)?;
        let name = name_of(plugin.as_ref());
        let path = || plugin.as_ref().map_or(Path::new(name), LoadedPlugin::path).display();
        if !is_plugin_name(name) {
            let why = format!(
                "calls itself {name:?}; accepted: up to {PLUGIN_NAME_BYTES_MAX} lower-case letters, digits and \
                 underscores, a letter first"
            );
            return Err(PluginSettingFault::new(path(), why));
        }
        if loaded.iter().any(|other| name_of(other.as_ref()) == name) {
            let why = format!("calls itself {name:?}, as another plugin does");
            return Err(PluginSettingFault::new(path(), why));
        }
        loaded.push(plugin);
    }
    // Set once, before any plugin reads its settings.
    let names =
        names.get_or_init(|| loaded.iter().map(|plugin| name_of(plugin.as_ref()).to_owned()).collect());
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let plugins = loaded.into_iter().map(|plugin| -> Result<Box<dyn Plugin>, _> {
        Ok(match plugin {
            Some(plugin) => Box::new(plugin),
            None => Box::new(Apm::of(config, &all)?),
        })
    });
    plugins.collect()
}

/// Creates the services for plugins, whose `names` are known once all of them are loaded. `log` is `None` in `svc check`.
fn services(config: &Config, log: Option<&Log>, names: &'static OnceLock<Vec<String>>) -> PluginServices {
    let (log, settings) = (log.cloned(), config.background.plugin_settings.clone());
    PluginServices {
        log: Box::new(move |plugin, level, message| {
            if let Some(log) = &log {
                log.emit(&Event::PluginMessage { plugin, level, message });
            }
        }),
        settings: Box::new(move |plugin| {
            let names: Vec<&str> = names.get().into_iter().flatten().map(String::as_str).collect();
            let own = settings.of_plugin(plugin, &names);
            own.into_iter().map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
        }),
    }
}

/// Returns the name of a plugin; `None` stands for the built-in one.
fn name_of(plugin: Option<&LoadedPlugin>) -> &str {
    plugin.map_or(apm::NAME, LoadedPlugin::name)
}

/// Loads one plugin; returns `None` for the built-in one.
fn load_one(
    source: &PluginSource,
    services: &'static PluginServices,
) -> Result<Option<LoadedPlugin>, PluginSettingFault> {
    let (path, name) = match source {
        PluginSource::File(path) => (path.clone(), None),
        PluginSource::Named(name) if name == apm::NAME => return Ok(None),
        PluginSource::Named(name) => (path_of(name), Some(name.as_str())),
    };
    let fault = |fault| PluginSettingFault::new(path.display(), fault);
    LoadedPlugin::load(&path, name, services).map(Some).map_err(fault)
}

/// Returns the path of a plugin given by name.
fn path_of(name: &str) -> PathBuf {
    let binary = std::env::current_exe().unwrap_or_default();
    let beside = binary.parent().and_then(Path::parent).unwrap_or_else(|| Path::new("/"));
    beside.join("lib/svc/plugins").join(format!("{name}.so"))
}
