//! `svc check`: refuses what the server would refuse at its start.
//!
//! Promises: settings, the files that they name, the spool directory, plugins, PHP's directives, ini files and extensions
//! are looked at by the code that the start uses, and all errors that do not depend on each other are told. Refuses: it
//! opens no port, runs no script, and initialises no plugin.

use svc_core::config::{Config, Executor, RawConfig, page};
use svc_core::policy::Policy;
use svc_core::spool::Spool;
use svc_core::time;
use svc_core::tls::{SessionConfig, client_config};

use crate::cli::CheckStyle;
use crate::commands::{self, Exit};
use crate::php_inspection;
use crate::php_report::PhpInspection;
use crate::plugins;
use crate::run_as;

/// Prints every setting with its source, and what PHP has loaded; or all errors.
pub fn check(raw: &RawConfig, style: CheckStyle) -> Exit {
    let (config, inspection, errors) = match Config::resolve(raw) {
        Ok(config) => {
            let mut errors = errors(&config);
            let inspection = inspect(&config, &mut errors);
            (Some(config), inspection, errors)
        }
        Err(error) => (None, None, error.to_string().lines().map(str::to_owned).collect()),
    };
    let noticed = config.iter().flat_map(|config| &config.warnings).map(ToString::to_string);
    let of_php = inspection.iter().flat_map(|inspection| inspection.warnings.clone());
    let warnings: Vec<String> = noticed.chain(of_php).collect();
    warnings.iter().for_each(|warning| commands::warn(warning));
    errors.iter().for_each(|error| commands::complain(error));
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

/// Everything but PHP.
fn errors(config: &Config) -> Vec<String> {
    let mut errors = Vec::new();
    if let Err(error) = Policy::load(&config.clients, &config.serving.document_root, time::now()) {
        errors.push(error.to_string());
    }
    if let Some(export) = config.tracing.as_ref().and_then(|tracing| tracing.export.as_ref())
        && let Err(problem) = client_config(export)
    {
        errors.push(problem.to_string());
    }
    if let Err(error) = SessionConfig::open(&config.tls) {
        errors.push(error.to_string());
    }
    let bodies = &config.bodies;
    if let Err(error) = Spool::new(bodies.spool_dir.clone(), bodies.spool_max_bytes).create() {
        errors.push(format!("SPOOL_DIR: {:?}: {error}; accepted: a writable directory", bodies.spool_dir));
    }
    if let Err(problem) = run_as::look_up(config) {
        errors.push(problem.to_string());
    }
    if let Err(error) = plugins::load(config, None) {
        errors.push(error.to_string());
    }
    errors
}

/// Starts PHP, unless no PHP would be started.
fn inspect(config: &Config, errors: &mut Vec<String>) -> Option<PhpInspection> {
    if config.serving.executor == Executor::Stub {
        return None;
    }
    match php_inspection::inspect(config) {
        Ok(inspection) => Some(inspection),
        Err(found) => {
            errors.extend(found);
            None
        }
    }
}

fn rows(config: &Config, style: CheckStyle) -> Vec<page::CheckRow> {
    let mut rows = page::check_rows(config);
    rows.retain(|row| !style.is_changed_only || !row.is_default);
    rows
}

fn text(config: &Config, inspection: Option<&PhpInspection>, style: CheckStyle) -> String {
    let settings = page::check(&rows(config, style));
    let Some(php) = inspection.filter(|_| !style.is_changed_only) else { return settings };
    let extensions: Vec<&str> = php.extensions.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!("{settings}\nPHP {}\n", php.version);
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
        "version": env!("CARGO_PKG_VERSION"), "settings": rows, "php": php, "errors": [], "warnings": warnings,
    });
    format!("{report:#}\n")
}
