//! Settings that need a cargo feature which this build does not have.

use svc_core::config::{Config, Executor};

/// Returns an error for each setting that this build does not support.
pub(crate) fn missing(config: &Config) -> Vec<String> {
    missing_from(config, cfg!(feature = "worker"), cfg!(feature = "async"), cfg!(feature = "trace"))
}

fn missing_from(config: &Config, has_worker: bool, has_async: bool, has_trace: bool) -> Vec<String> {
    if config.serving.executor != Executor::Sapi {
        return Vec::new();
    }
    let background = &config.background;
    let hooks: Vec<_> = background.runtime_hooks.iter().map(|hook| hook.as_str()).collect();
    let is_traced = config.tracing.as_ref().is_some_and(|tracing| tracing.export.is_some());
    let workers = background.async_workers.to_string();
    let hooks_in_effect = hooks.join(",");
    [
        (config.php.worker_mode_enabled && !has_worker, "WORKER_MODE_ENABLED", "true", "worker", "false"),
        (background.async_workers > 0 && !has_async, "ASYNC_WORKERS", &workers, "async", "0"),
        (!hooks.is_empty() && !has_worker, "RUNTIME_HOOKS", &hooks_in_effect, "worker", "none"),
        (is_traced && !has_trace, "OTEL_ENABLED", "true", "trace", "false"),
    ]
    .iter()
    .filter(|(is_missing, ..)| *is_missing)
    .map(|(_, name, value, feature, accepted)| {
        format!("{name}: {value:?} needs a build with the cargo feature {feature:?}; accepted: {accepted}")
    })
    .collect()
}

#[cfg(test)]
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
        let config =
            config(&[("ASYNC_WORKERS", "2"), ("RUNTIME_HOOKS", "net,sleep"), ("OTEL_ENABLED", "true")]);
        assert_eq!(missing_from(&config, true, true, true), [""; 0]);
        assert_eq!(
            missing_from(&config, false, false, false),
            [
                r#"ASYNC_WORKERS: "2" needs a build with the cargo feature "async"; accepted: 0"#,
                r#"RUNTIME_HOOKS: "sleep,net" needs a build with the cargo feature "worker"; accepted: none"#,
                r#"OTEL_ENABLED: "true" needs a build with the cargo feature "trace"; accepted: false"#,
            ]
        );
    }

    #[test]
    fn another_executor_needs_no_feature() {
        let config = config(&[("EXECUTOR", "stub"), ("RUNTIME_HOOKS", "all")]);
        assert_eq!(missing_from(&config, false, false, false), [""; 0]);
    }
}
