//! Adapts loaded plugins to the core's interface.
//!
//! Answers of plugins reach the core unchanged, and the core's verdict on them reaches the plugin. The only knowledge
//! about plugins here is where a named one is installed.

use std::path::{Path, PathBuf};

use svc_core::config::{Config, Level, PluginSource, is_plugin_name};
use svc_core::limits::PLUGIN_NAME_BYTES_MAX;
use svc_core::observe::{Event, Log};
use svc_core::plugins::{
    AnswerRefusal, HealthReport, MetricRefusal, Plugin, PluginAbout, PluginCallbacks, PluginConfig,
    PluginHealth, PluginMetricKind, PluginMetrics, PluginPage, RequestFacts,
};
use svc_ffi::plugin::{
    AnswerFault, EndedRequest, HealthStatus, LoadedPlugin, MetricSink, MetricType, PluginLevel,
    PluginServices, SinkRefusal,
};

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
    let services: &'static Services = Box::leak(Box::new(Services {
        log: log.cloned(),
        names: std::sync::OnceLock::new(),
        settings: config.background.plugin_settings.clone(),
    }));
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
    let names: Vec<String> = loaded.iter().map(|plugin| name_of(plugin.as_ref()).to_owned()).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let plugins = loaded.into_iter().map(|plugin| -> Result<Box<dyn Plugin>, _> {
        Ok(match plugin {
            Some(plugin) => Box::new(CalledPlugin(plugin)),
            None => Box::new(Apm::of(config, &all)?),
        })
    });
    let plugins = plugins.collect::<Result<_, _>>();
    // Set once, before any plugin reads it.
    let _ = services.names.set(names);
    plugins
}

/// Returns the name of a plugin; `None` stands for the built-in one.
fn name_of(plugin: Option<&LoadedPlugin>) -> &str {
    plugin.map_or(apm::NAME, LoadedPlugin::name)
}

/// Loads one plugin; returns `None` for the built-in one.
fn load_one(
    source: &PluginSource,
    services: &'static Services,
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

/// The services that plugins can request from the server.
struct Services {
    /// `None` in `svc check`.
    log: Option<Log>,
    names: std::sync::OnceLock<Vec<String>>,
    settings: svc_core::config::PluginSettings,
}

impl PluginServices for Services {
    fn log(&self, plugin: &str, level: PluginLevel, message: &[u8]) {
        let Some(log) = &self.log else { return };
        let level = match level {
            PluginLevel::Error => Level::Error,
            PluginLevel::Warn => Level::Warn,
            PluginLevel::Info => Level::Info,
            PluginLevel::Debug => Level::Debug,
        };
        log.emit(&Event::PluginMessage { plugin, level, message });
    }

    fn settings(&self, plugin: &str) -> Vec<(String, Vec<u8>)> {
        let names: Vec<&str> = self.names.get().into_iter().flatten().map(String::as_str).collect();
        let own = self.settings.of_plugin(plugin, &names);
        own.into_iter().map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
    }
}

/// Implements the core's interface for a loaded plugin.
struct CalledPlugin(LoadedPlugin);

impl Plugin for CalledPlugin {
    fn about(&self) -> PluginAbout {
        let [health, metrics, config, serve, request_ended] = self.0.callbacks();
        PluginAbout {
            name: self.0.name().to_owned(),
            version: self.0.version().to_owned(),
            path: self.0.path().to_string_lossy().into_owned(),
            callbacks: PluginCallbacks { health, metrics, config, serve, request_ended },
        }
    }

    fn init(&mut self) -> Result<(), String> {
        self.0.init()
    }

    fn start(&mut self) -> Result<(), String> {
        self.0.start()
    }

    fn health(&mut self) -> Result<HealthReport, String> {
        let answer = self.0.health()?;
        let health = match answer.status {
            HealthStatus::Ok => PluginHealth::Ok,
            HealthStatus::Degraded => PluginHealth::Degraded,
            HealthStatus::Failed => PluginHealth::Failed,
        };
        Ok(HealthReport::new(health, answer.text))
    }

    fn metrics(&mut self, metrics: &mut PluginMetrics) -> Result<(), String> {
        self.0.metrics(&mut Collected(metrics))
    }

    fn config(&mut self) -> Result<PluginConfig, String> {
        self.0.config(|json| PluginConfig::checked(json).map_err(fault))
    }

    fn serve(&mut self, path: &[u8], query: &[u8]) -> Result<PluginPage, String> {
        self.0.serve(path, query, |status, content_type, body| {
            PluginPage::checked(status.into(), content_type, body.to_vec()).map_err(fault)
        })
    }

    fn request_ended(&mut self, facts: &RequestFacts) -> Result<(), String> {
        self.0.request_ended(&EndedRequest {
            method: &facts.method,
            path: &facts.path,
            protocol: &facts.protocol,
            client: &facts.client,
            request_id: &facts.request_id,
            trace_id: &facts.trace_id,
            shed_reason: &facts.shed_reason,
            status: facts.status,
            response_bytes: facts.response_bytes,
            duration: facts.duration,
            queue_wait: facts.queue_wait,
        })
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

/// Passes metrics on to the core.
struct Collected<'a>(&'a mut PluginMetrics);

impl MetricSink for Collected<'_> {
    fn family(&mut self, kind: MetricType, name: &[u8], help: &[u8]) -> Result<(), SinkRefusal> {
        let kind = match kind {
            MetricType::Counter => PluginMetricKind::Counter,
            MetricType::Gauge => PluginMetricKind::Gauge,
        };
        self.0.add_family(kind, name, help).map_err(refusal)
    }

    fn sample(&mut self, labels: &[(&[u8], &[u8])], value: f64) -> Result<(), SinkRefusal> {
        self.0.add_sample(labels, value).map_err(refusal)
    }
}

fn fault(refusal: AnswerRefusal) -> AnswerFault {
    match refusal {
        AnswerRefusal::Invalid(why) => AnswerFault { refusal: SinkRefusal::Invalid, why },
        AnswerRefusal::TooLarge(why) => AnswerFault { refusal: SinkRefusal::TooLarge, why },
    }
}

fn refusal(refusal: MetricRefusal) -> SinkRefusal {
    match refusal {
        MetricRefusal::Duplicate => SinkRefusal::Duplicate,
        MetricRefusal::NoFamily => SinkRefusal::NotNow,
        MetricRefusal::TooLarge => SinkRefusal::TooLarge,
        MetricRefusal::Help
        | MetricRefusal::Label
        | MetricRefusal::Name
        | MetricRefusal::NotOwn
        | MetricRefusal::Value => SinkRefusal::Invalid,
    }
}
