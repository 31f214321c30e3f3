//! The built-in plugin `apm`, which records calls of databases, key-value stores and HTTP servers as spans.
//!
//! An invalid setting of the plugin prevents the start. This file contains its name and its settings; the interpreter
//! side observes the calls, and their spans are treated like those of scripts.

use svc_core::config::{Config, PluginSource};
use svc_core::plugins::{ConfigSink, HealthReport, Plugin, PluginAbout, PluginCall, PluginHealth};

use svc_ffi::ClientOptions;

use crate::plugin_fault::PluginSettingFault;

/// The name of the plugin.
pub(crate) const NAME: &str = "apm";

/// Its only setting: the minimum duration of a slow query.
const SLOW_QUERY: &str = "SLOW_QUERY_MS";
const SLOW_QUERY_MS: u32 = 100;
const SLOW_QUERY_MS_MAX: u32 = 3_600_000;

/// The plugin.
#[derive(Debug)]
pub(crate) struct Apm {
    slow_query_ms: u32,
}

impl Apm {
    /// Creates the plugin from its settings in the environment; `names` are the names of all plugins.
    ///
    /// # Errors
    ///
    /// If a setting is not valid, or tracing is disabled.
    pub(crate) fn of(config: &Config, names: &[&str]) -> Result<Self, PluginSettingFault> {
        if config.tracing.is_none() {
            return Err(PluginSettingFault::new(
                NAME,
                "requires OTEL_ENABLED=true: it adds spans to the traces of requests",
            ));
        }
        let mut apm = Self { slow_query_ms: SLOW_QUERY_MS };
        for (key, value) in config.background.plugin_settings.of_plugin(NAME, names) {
            if key != SLOW_QUERY {
                let why = format!("has no setting PLUGIN_APM_{key}; accepted: PLUGIN_APM_{SLOW_QUERY}");
                return Err(PluginSettingFault::new(NAME, why));
            }
            if !value.is_empty() {
                apm.slow_query_ms = milliseconds(value)?;
            }
        }
        Ok(apm)
    }
}

fn milliseconds(value: &[u8]) -> Result<u32, PluginSettingFault> {
    let digits =
        std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok()).filter(|&number| number <= SLOW_QUERY_MS_MAX);
    number.ok_or_else(|| {
        let value = String::from_utf8_lossy(value);
        let why = format!(
            "has PLUGIN_APM_{SLOW_QUERY}: {value:?} is not a number (accepts 0 to {SLOW_QUERY_MS_MAX})"
        );
        PluginSettingFault::new(NAME, why)
    })
}

/// Returns how the interpreter observes calls, where `names` are the names of all plugins; `None` without this plugin.
/// Its settings were checked when it was loaded.
pub(crate) fn client_options(config: &Config, names: &[&str]) -> Option<ClientOptions> {
    let is_named = |source: &PluginSource| matches!(source, PluginSource::Named(name) if name == NAME);
    let sources = &config.background.plugins;
    let tracing = config.tracing.as_ref().filter(|_| sources.iter().any(is_named))?;
    let Apm { slow_query_ms } = Apm::of(config, names).ok()?;
    Some(ClientOptions { propagates: tracing.has_trace_context, slow_query_ms })
}

impl Plugin for Apm {
    fn about(&self) -> PluginAbout {
        PluginAbout {
            name: NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            path: "built-in".to_owned(),
            callbacks: [PluginCall::Health, PluginCall::Config].into_iter().collect(),
        }
    }

    fn health(&mut self) -> Result<HealthReport, String> {
        Ok(HealthReport::new(PluginHealth::Ok, "calls are observed"))
    }

    fn config(&mut self, report: &mut ConfigSink<'_>) -> Result<(), String> {
        let json = format!("{{\"slow_query_ms\":{}}}", self.slow_query_ms);
        report(json.as_bytes()).map_err(|refusal| refusal.why)
    }
}
