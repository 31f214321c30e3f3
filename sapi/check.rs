//! `svc check`: reports the errors that would prevent the start of the server.
//!
//! Settings, the files that they name, ports, the spool directory, plugins, PHP's directives, ini files and extensions
//! are checked by the code of the start, in the same order; all independent errors are reported. The command keeps no
//! port or file, runs no script, and initialises no plugin.

use svc_core::config::{Config, Executor, RawConfig, page};
use svc_core::policy::Policy;
use svc_core::spool::Spool;
use svc_core::time;
use svc_core::tls::{SessionConfig, client_config};
use svc_serve::{notices, unavailable_ports};

use crate::build_features;
use crate::cli::CheckStyle;
use crate::commands::{self, Exit};
use crate::fastcgi;
use crate::php_inspection;
use crate::php_report::PhpInspection;
use crate::pid_file::{self, PidFileError};
use crate::plugins;
use crate::run_as;
use crate::running_instance::RunningInstance;

/// The findings.
#[derive(Debug, Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// Prints every setting with its source, and what PHP has loaded; or all errors.
pub fn check(raw: &RawConfig, style: CheckStyle) -> Exit {
    let mut found = Findings::default();
    let (config, inspection) = match Config::resolve(raw) {
        Ok(config) => {
            found.warnings.extend(config.warnings.iter().map(ToString::to_string));
            found.check_resources(&config);
            let inspection = found.inspect(&config);
            (Some(config), inspection)
        }
        Err(error) => {
            found.errors.extend(error.to_string().lines().map(str::to_owned));
            (None, None)
        }
    };
    let Findings { errors, warnings } = found;
    warnings.iter().for_each(|warning| commands::warn(warning));
    errors.iter().for_each(|error| commands::print_error(error));
    let shown = match config.filter(|_| errors.is_empty()) {
        Some(config) if style.is_json => json(&config, inspection.as_ref(), &warnings, style),
        Some(config) => text(&config, inspection.as_ref(), style),
        None if style.is_json => {
            format!("{:#}\n", serde_json::json!({ "errors": errors, "warnings": warnings }))
        }
        None => String::new(),
    };
    let printed = commands::print(&shown);
    if errors.is_empty() { printed } else { Exit::Misused }
}

impl Findings {
    /// Checks everything except PHP.
    fn check_resources(&mut self, config: &Config) {
        let user = run_as::prepare(config);
        let policy = self.note(Policy::load(&config.clients, &config.serving.document_root, time::now()));
        if let Some(export) = config.tracing.as_ref().and_then(|tracing| tracing.export.as_ref()) {
            self.note(client_config(export));
        }
        let tls = self.note(SessionConfig::open(&config.tls)).flatten();
        if let Some(policy) = policy {
            notices(config, policy, tls.as_ref(), &mut |event| self.warnings.push(event.to_line()));
        }
        self.check_exclusive_resources(config);
        // From here on, the start runs as the configured user.
        if let Some(user) = self.note(user).flatten()
            && let Some(unreadable) = self.note(run_as::assume(&user, config))
        {
            self.warnings.extend(unreadable.iter().map(|path| {
                format!("RUN_AS: the user cannot read {path:?}, so that reloading certificates will fail")
            }));
        }
        let bodies = &config.bodies;
        if let Err(error) = Spool::new(bodies.spool_dir.clone(), bodies.spool_max_bytes).create() {
            let dir = &bodies.spool_dir;
            self.errors.push(format!("SPOOL_DIR: {dir:?}: {error}; accepted: a writable directory"));
        }
        self.note(plugins::load(config, None, &|_| {}));
    }

    /// Checks the resources that only one server can hold. A conflict is a warning if their holder is the server that
    /// will be reloaded or replaced.
    fn check_exclusive_resources(&mut self, config: &Config) {
        let unavailable = unavailable_ports(config);
        if !unavailable.is_empty() {
            let running_instance = RunningInstance::find(config);
            for error in unavailable {
                match running_instance.explain(&error) {
                    Some(explanation) => self.warnings.push(explanation),
                    None => self.errors.push(error.to_string()),
                }
            }
        }
        match config.serving.pid_file.as_deref().map(pid_file::try_out) {
            Some(Err(taken @ PidFileError::Taken(..))) => self.warnings.push(taken.to_string()),
            Some(Err(error)) => self.errors.push(error.to_string()),
            Some(Ok(())) | None => {}
        }
    }

    /// Starts PHP, unless the executor runs without it.
    fn inspect(&mut self, config: &Config) -> Option<PhpInspection> {
        let inspected = match config.serving.executor {
            Executor::Fastcgi => {
                self.warnings.extend(fastcgi::inspection::warnings(config));
                fastcgi::inspection::inspect(config)
            }
            Executor::Sapi => php_inspection::inspect(config).map(Some),
            Executor::Stub => Ok(None),
        };
        match inspected {
            Ok(inspection) => {
                self.warnings.extend(inspection.iter().flat_map(|php| php.warnings.iter().cloned()));
                inspection
            }
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    fn note<T, E: ToString>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.errors.push(error.to_string())).ok()
    }
}

fn rows(config: &Config, style: CheckStyle) -> Vec<page::CheckRow> {
    let mut rows = page::check_rows(config);
    rows.retain(|row| !style.is_changed_only || !row.is_default);
    rows
}

fn text(config: &Config, inspection: Option<&PhpInspection>, style: CheckStyle) -> String {
    let settings = page::check(&rows(config, style));
    if style.is_changed_only {
        return settings;
    }
    settings + "\n" + &inspection.map(php_text).unwrap_or_default() + &build_features::line()
}

fn php_text(php: &PhpInspection) -> String {
    let extensions: Vec<&str> = php.extensions.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!("PHP {}\n", php.version);
    for file in &php.ini_files {
        text = text + "ini file: " + file + "\n";
    }
    for line in page::wrapped(&format!("extensions: {}", extensions.join(", ")), 100) {
        text = text + &line + "\n";
    }
    text
}

fn json(
    config: &Config,
    inspection: Option<&PhpInspection>,
    warnings: &[String],
    style: CheckStyle,
) -> String {
    let rows = rows(config, style).into_iter();
    let rows: Vec<_> = rows
        .map(|row| {
            serde_json::json!({
                "name": row.name, "value": row.value, "source": row.source, "is_default": row.is_default,
            })
        })
        .collect();
    let php = inspection.map(|php| {
        let extensions: serde_json::Map<_, _> =
            php.extensions.iter().map(|(name, version)| (name.clone(), version.clone().into())).collect();
        serde_json::json!({ "version": php.version, "ini_files": php.ini_files, "extensions": extensions })
    });
    let report = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"), "features": build_features::names(), "settings": rows, "php": php, "errors": [], "warnings": warnings,
    });
    format!("{report:#}\n")
}
