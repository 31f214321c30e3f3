//! PHP for `svc check`: started like the server's, and stopped again.

use std::sync::Arc;

use svc_core::config::Config;
use svc_core::observe::{Event, Hint};
use svc_core::sync::lock::ShortLock;

use svc_ffi::{Php, PhpLog, StartOptions};

use crate::build_features;
use crate::installation::Installation;
use crate::php::{self, StartupFaults};
use crate::php_report::PhpInspection;
use crate::runtime::ServerRuntime;

/// Starts PHP with the directives of the settings, and stops it.
///
/// # Errors
///
/// The reasons why the server would not start.
pub(crate) fn inspect(config: &Config) -> Result<PhpInspection, Vec<String>> {
    let missing = build_features::missing(config);
    if !missing.is_empty() {
        return Err(missing);
    }
    let faults = StartupFaults::default();
    let warnings: Arc<ShortLock<Vec<String>>> = Arc::default();
    let (own_faults, own_warnings) = (faults.clone(), Arc::clone(&warnings));
    let log = move |record: &PhpLog<'_>| {
        let text = String::from_utf8_lossy(record.message).into_owned();
        if !own_faults.note(&text) {
            own_warnings.lock().push(text);
        }
    };
    let has_workers = config.php.worker_mode_enabled || config.background.async_workers > 0;
    let installation = Installation::of_this_binary();
    let extensions = installation.as_ref().map(Installation::extensions);
    let php = Php::start::<ServerRuntime>(StartOptions {
        ini_defaults: &php::ini_defaults(extensions.as_deref()),
        ini_overrides: &php::ini_overrides(&config.php, has_workers),
        environment: &installation.as_ref().map(Installation::environment).unwrap_or_default(),
        command_line: crate::php_command::binary(installation.as_ref()),
        superglobals: config.php.superglobals_enabled,
        boots: false,
        hooks: &[],
        traces: false,
        reports_failures: false,
        clients: None,
        log: Box::new(log),
        errors: Box::new(|_| {}),
        restarts: Box::new(|_| {}),
    });
    let php = php.map_err(|error| {
        // The rest of a message is the trace.
        let first_line = |text: &String| text.lines().next().unwrap_or_default().to_owned();
        let mut said: Vec<String> = warnings.lock().iter().map(first_line).collect();
        said.push(format!("cannot start PHP: {error}"));
        said
    })?;
    let mut errors = faults.end();
    errors.extend(installation.as_ref().and_then(Installation::fault));
    if has_workers && let Err(error) = php::fit_for_workers(&php) {
        errors.push(error.to_string());
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut noticed = std::mem::take(&mut *warnings.lock());
    php::report_warnings(&php, &config.php, has_workers, &mut |event| {
        noticed.push(match event {
            Event::Hint(Hint::IdleDirective { name, reason }) => format!("-d: {name:?} {reason}"),
            other => other.to_line(),
        });
    });
    Ok(PhpInspection {
        version: php.facts().version,
        ini_files: php.ini_files(),
        extensions: php.extensions(),
        warnings: noticed,
    })
}
