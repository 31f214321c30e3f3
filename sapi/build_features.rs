//! The cargo features of this build, and the settings that need one which it lacks.

#[cfg(feature = "php")]
use svc_core::config::{Config, Executor, page};

/// Every feature, and whether this build has it.
const FEATURES: [(&str, bool); 4] = [
    ("php", cfg!(feature = "php")),
    ("worker", cfg!(feature = "worker")),
    ("async", cfg!(feature = "async")),
    ("trace", cfg!(feature = "trace")),
];

/// Returns the features of this build.
pub(crate) fn names() -> Vec<&'static str> {
    FEATURES.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect()
}

/// Returns the features of this build as a line of text.
pub(crate) fn line() -> String {
    let names = names();
    format!("features: {}\n", if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

/// Returns an error for each setting that this build does not support.
#[cfg(feature = "php")]
pub(crate) fn missing(config: &Config) -> Vec<String> {
    missing_from(config, &names())
}

#[cfg(feature = "php")]
fn missing_from(config: &Config, features: &[&str]) -> Vec<String> {
    if config.serving.executor != Executor::Sapi {
        return Vec::new();
    }
    // The rows have hooks that have no effect, too.
    let rows = page::check_rows(config);
    let exports_no_spans = config.tracing.as_ref().is_none_or(|tracing| tracing.export.is_none());
    [
        ("WORKER_MODE_ENABLED", "worker", "false", "false"),
        ("ASYNC_WORKERS", "async", "0", "0"),
        ("RUNTIME_HOOKS", "worker", "none", "none"),
        ("OTEL_ENABLED", "trace", "false", "false, or true with OTEL_TRACES_EXPORTER=none"),
    ]
    .iter()
    .filter(|(variable, feature, ..)| {
        !(features.contains(feature) || *variable == "OTEL_ENABLED" && exports_no_spans)
    })
    .filter_map(|(variable, feature, off, accepted)| {
        let value = &rows.iter().find(|row| row.name == *variable && row.value != *off)?.value;
        let name = config.written_name(variable);
        Some(format!(
            "{name}: {value:?} needs a build with the cargo feature {feature:?}; accepted: {accepted}"
        ))
    })
    .collect()
}

#[cfg(test)]
#[cfg(feature = "php")]
mod tests {
    use svc_core::config::RawConfig;

    use super::*;

    fn config(settings: &[(&str, &str)]) -> Config {
        let root = std::env::temp_dir();
        let root = ("DOCUMENT_ROOT", root.to_str().unwrap());
        Config::resolve(&RawConfig::new(settings.iter().copied().chain([root]))).unwrap()
    }

    #[test]
    fn a_setting_names_the_feature_that_it_needs() {
        let settings = [("SVC_ASYNC_WORKERS", "2"), ("RUNTIME_HOOKS", "net,sleep"), ("OTEL_ENABLED", "true")];
        let config = config(&settings);
        assert_eq!(missing_from(&config, &["php", "worker", "async", "trace"]), [""; 0]);
        assert_eq!(
            missing_from(&config, &["php"]),
            [
                r#"SVC_ASYNC_WORKERS: "2" needs a build with the cargo feature "async"; accepted: 0"#,
                r#"RUNTIME_HOOKS: "sleep,net" needs a build with the cargo feature "worker"; accepted: none"#,
                r#"OTEL_ENABLED: "true" needs a build with the cargo feature "trace"; accepted: false, or true with OTEL_TRACES_EXPORTER=none"#,
            ]
        );
        assert_eq!(missing_from(&config, &["php", "worker", "trace"]).len(), 1);
    }

    #[test]
    fn metrics_and_logs_are_exported_without_the_feature_of_traces() {
        let config = config(&[("OTEL_ENABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")]);
        assert_eq!(missing_from(&config, &["php"]), [""; 0]);
    }

    #[test]
    fn another_executor_needs_no_feature() {
        let config = config(&[("EXECUTOR", "stub"), ("RUNTIME_HOOKS", "all")]);
        assert_eq!(missing_from(&config, &[]), [""; 0]);
    }
}
