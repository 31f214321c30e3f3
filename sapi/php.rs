//! Starts PHP for the server: its default directives, and the destination of its messages.

use std::path::Path;
use std::sync::Arc;

use svc_core::config::PhpConfig;
use svc_core::observe::{Event, Hint};
use svc_core::sync::lock::ShortLock;
use svc_serve::Shared;

use svc_ffi::{ExtensionMismatch, Php, PhpError, PhpFacts, RestartEvent, StartOptions};

use crate::apm;
use crate::installation::Installation;
use crate::php_errors;
use crate::running_request::{RecordOrigin, write_log};
use crate::runtime::ServerRuntime;

/// The values of php.ini-production where they differ from PHP's built-in ones: sensible defaults for a server on the
/// Internet. A php.ini overrides them.
pub(crate) const INI_DEFAULTS: &[(&str, &str)] = &[
    ("display_errors", "0"),
    ("display_startup_errors", "0"),
    ("error_reporting", "22527"),
    ("log_errors", "1"),
    ("max_execution_time", "30"),
    // Request bodies are read before PHP starts, so this limit would only start a second timer.
    ("max_input_time", "-1"),
    ("mysqlnd.collect_memory_statistics", "0"),
    ("output_buffering", "4096"),
    ("register_argc_argv", "0"),
    ("request_order", "GP"),
    ("session.gc_divisor", "1000"),
    ("short_open_tag", "0"),
    ("variables_order", "GPCS"),
    ("zend.assertions", "-1"),
    ("zend.exception_ignore_args", "1"),
    ("zend.exception_string_param_max_len", "0"),
    // Smaller than the stack of a thread, because the engine's own recursion (freeing deep structures) is not
    // checked, and an overflow would end the process.
    ("zend.max_allowed_stack_size", "8M"),
];

/// Directives that no php.ini may change, because they could end the process.
const INI_FIXED: &[(&str, &str)] = &[
    // It ends the process if a script does not stop in time; max_execution_time limits a request.
    ("hard_timeout", "0"),
    // It kills processes that read the cache for too long, and svc is a single process.
    ("opcache.force_restart_timeout", "0"),
    // It write-protects the cache for all threads whenever one thread has finished writing.
    ("opcache.protect_memory", "0"),
];

/// Further directives that are fixed in worker mode.
const INI_FIXED_FOR_WORKERS: &[(&str, &str)] = &[
    // It lets `file_exists()` and similar functions use the cache even while a worker runs without it during a restart.
    ("opcache.enable_file_override", "0"),
];

/// Startup errors of PHP that would make requests fail: an extension that cannot be loaded, and directives that PHP
/// could not parse. PHP would apply the lines before a syntax error and skip the rest of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartupFaults(Arc<ShortLock<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    faults: Vec<String>,
    /// The start is over: scripts may cause the same messages later.
    is_over: bool,
}

impl StartupFaults {
    /// Records a message about such an error; returns whether it is one.
    pub(crate) fn note(&self, message: &str) -> bool {
        let is_malformed = message.starts_with(MALFORMED);
        if !is_malformed && !FAULTS.iter().any(|part| message.contains(part)) {
            return false;
        }
        let mut noted = self.0.lock();
        if !noted.is_over {
            // PHP parses the directives of the command line as one text, and calls its file "Unknown".
            let known = message.split_once(" in Unknown on line ").filter(|_| is_malformed);
            let named = known.map(|(what, _)| format!("{what} in the directives of -d"));
            noted.faults.push(named.unwrap_or_else(|| message.to_owned()));
        }
        true
    }

    /// Ends the recording; returns the messages.
    pub(crate) fn end(&self) -> Vec<String> {
        let mut noted = self.0.lock();
        noted.is_over = true;
        std::mem::take(&mut noted.faults)
    }
}

/// The beginnings of such messages, after PHP's prefix.
const FAULTS: [&str; 2] = ["Unable to load dynamic library", "Failed loading "];

/// The prefix of messages about malformed ini files (c/php/sapi/errors.c).
const MALFORMED: &str = "malformed directives: ";

/// Why PHP cannot start for the server.
#[derive(Debug)]
pub(crate) enum PhpStartError {
    /// Directives that PHP cannot apply, as reported by PHP.
    Directives(Vec<String>),
    /// An error of PHP itself, or of the shim.
    Php(PhpError),
}

/// Formats such errors, one a line.
pub(crate) fn fault_lines(faults: &[String]) -> String {
    faults.iter().map(|fault| format!("cannot start PHP: {fault}\n")).collect()
}

impl From<PhpError> for PhpStartError {
    fn from(error: PhpError) -> Self {
        Self::Php(error)
    }
}

/// Returns the directives that php.ini overrides, including the extension directory of an installed server.
pub(crate) fn ini_defaults(extensions: Option<&Path>) -> Vec<(&str, &str)> {
    let of_tree = extensions.and_then(Path::to_str).map(|path| ("extension_dir", path));
    INI_DEFAULTS.iter().copied().chain(of_tree).collect()
}

/// Returns the directives that override php.ini: those of the command line, and the fixed ones.
pub(crate) fn ini_overrides(config: &PhpConfig, has_workers: bool) -> Vec<(String, String)> {
    let for_workers = if has_workers { INI_FIXED_FOR_WORKERS } else { &[] };
    let fixed = INI_FIXED.iter().chain(for_workers).map(|&(name, value)| (name.to_owned(), value.to_owned()));
    config.ini.iter().cloned().chain(fixed).collect()
}

/// Reports warnings about a running PHP. They apply for its lifetime.
pub(crate) fn report_warnings(
    php: &Php,
    config: &PhpConfig,
    has_workers: bool,
    report: &mut dyn FnMut(&Event<'_>),
) {
    let facts = php.facts();
    if !facts.opcache_enabled {
        report(&Event::OpcacheOff);
    }
    if !facts.umask_per_thread {
        report(&Event::UmaskShared);
    }
    let for_workers = if has_workers { INI_FIXED_FOR_WORKERS } else { &[] };
    for (name, value) in &config.ini {
        let fixed = INI_FIXED.iter().chain(for_workers).find(|(fixed, _)| fixed == name);
        let reason = match fixed {
            Some((_, fixed)) if fixed == value => continue,
            Some((_, fixed)) => format!("is set by svc to {fixed}"),
            None if php.has_directive(name) || LOADING.contains(&name.as_str()) => continue,
            None => "is not a directive of PHP or its extensions".to_owned(),
        };
        report(&Event::Hint(Hint::IdleDirective { name, reason: &reason }));
    }
    if has_workers {
        // An extension that wraps a library risks only a last error or a connection.
        for mismatch in php.mismatched_extensions().iter().filter(|mismatch| !mismatch.has_header) {
            report(&Event::ExtensionUnknown { extension: &mismatch.extension });
        }
    }
}

/// Directives that load extensions; PHP's table does not contain them.
const LOADING: [&str; 2] = ["extension", "zend_extension"];

/// Starts PHP on the calling thread.
///
/// # Errors
///
/// As reported by PHP.
pub(crate) fn start(config: &PhpConfig, shared: &Arc<Shared>) -> Result<Php, PhpStartError> {
    let log = &shared.log;
    let (sink, books, raised) = (log.clone(), Arc::clone(shared), Arc::clone(shared));
    let has_workers = config.worker_mode_enabled || shared.tasks.is_some();
    let installation = Installation::of_this_binary();
    if let Some(fault) = installation.as_ref().and_then(Installation::fault) {
        return Err(PhpStartError::Directives(vec![fault]));
    }
    let extensions = installation.as_ref().map(Installation::extensions);
    let plugins: Vec<&str> = shared.plugins.abouts().map(|about| about.name.as_str()).collect();
    let traces = shared.tracer.as_ref().is_some_and(|tracer| tracer.is_recording());
    let faults = StartupFaults::default();
    let noted = faults.clone();
    let php = Php::start::<ServerRuntime>(StartOptions {
        ini_defaults: &ini_defaults(extensions.as_deref()),
        ini_overrides: &ini_overrides(config, has_workers),
        environment: &installation.as_ref().map(Installation::environment).unwrap_or_default(),
        command_line: crate::php_command::binary(installation.as_ref()),
        superglobals: config.superglobals_enabled,
        boots: has_workers,
        hooks: &shared.config.background.runtime_hooks,
        traces,
        reports_failures: shared.development.is_some() && cfg!(feature = "trace"),
        clients: apm::client_options(&shared.config, &plugins).filter(|_| traces),
        log: Box::new(move |record| {
            noted.note(&String::from_utf8_lossy(record.message));
            write_log(&sink, record, RecordOrigin::default());
        }),
        errors: Box::new(move |error| php_errors::note(&raised, error)),
        restarts: Box::new(move |event| note_restart(&books, event)),
    })?;
    let faults = faults.end();
    if !faults.is_empty() {
        return Err(PhpStartError::Directives(faults));
    }
    if let Some(tasks) = &shared.tasks {
        ServerRuntime::set_tasks(tasks, shared.config.background.async_max_value_bytes, log);
    }
    let helpers = Arc::clone(&shared.helpers);
    php.set_helpers(Box::new(move |call| {
        // If it is refused, the call itself informs its caller.
        let _ = helpers.submit(Box::new(move || call.run()));
    }));
    let facts = php.facts();
    log.emit(&Event::PhpReady { version: &facts.version, zts: facts.zts, opcache: facts.opcache_enabled });
    report_warnings(&php, config, has_workers, &mut |event| log.emit(event));
    if !shared.config.background.runtime_hooks.is_empty() {
        for library in &php.libraries_out_of_reach() {
            log.emit(&Event::Hint(Hint::HooksOutOfReach { library }));
        }
    }
    if has_workers {
        fit_for_workers(&php)?;
    }
    Ok(php)
}

/// Returns an error if this PHP differs from the one that svc was built with, as far as worker mode depends on it:
/// requests are isolated using what svc knows about extensions. If PHP's own extensions differ from the headers that
/// svc was built with, this knowledge is unreliable.
pub(crate) fn fit_for_workers(php: &Php) -> Result<(), PhpError> {
    match php.mismatched_extensions().into_iter().find(|mismatch| mismatch.has_header) {
        None => Ok(()),
        Some(ExtensionMismatch { extension, .. }) => Err(PhpError::NotStarted(format!(
            "PHP's {extension} extension differs from the one that svc was built with, so worker mode cannot isolate \
             requests; rebuild svc with this PHP"
        ))),
    }
}

fn note_restart(shared: &Shared, event: RestartEvent) {
    let metrics = &shared.metrics;
    match event {
        RestartEvent::Wanted => {
            if let Some(workers) = shared.backend.workers() {
                workers.call_supervisor();
            }
            if let Some(threads) = shared.tasks.as_ref().and_then(|tasks| tasks.workers()) {
                threads.call_supervisor();
            }
        }
        RestartEvent::Delayed => {
            metrics.opcache_restart_delayed.set();
            shared.log.emit(&Event::OpcacheRestartDelayed);
        }
        RestartEvent::Done { was_delayed } => {
            let was_delayed = was_delayed || metrics.opcache_restart_delayed.is_set();
            metrics.opcache_restarts.incr();
            metrics.opcache_restart_delayed.clear();
            if was_delayed {
                shared.log.emit(&Event::OpcacheRestarted);
            }
        }
    }
}

/// Returns the facts for the configuration report.
pub(crate) fn report(facts: &PhpFacts) -> serde_json::Map<String, serde_json::Value> {
    let php = serde_json::json!({
        "version": facts.version,
        "source": facts.source,
        "sapi": "svc",
        "zts": facts.zts,
        "debug": facts.debug,
        "zend_signals": facts.zend_signals,
        "max_execution_timers": facts.max_execution_timers,
        "opcache_enabled": facts.opcache_enabled,
        "umask_per_thread": facts.umask_per_thread,
        "ini_path": facts.ini_path,
    });
    [("php".to_owned(), php)].into_iter().collect()
}

/// Returns the facts as lines of `svc version`.
pub(crate) fn lines(facts: &PhpFacts) -> String {
    let yes = |fact: bool| if fact { "yes" } else { "no" };
    format!(
        "PHP {}\nbuilt from: {}\nthread-safe: {}\nZend signals: {}\nexecution timers: {}\nOPcache: {}\nphp.ini: {}\n",
        facts.version,
        facts.source.unwrap_or("unknown sources"),
        yes(facts.zts),
        yes(facts.zend_signals),
        yes(facts.max_execution_timers),
        if facts.opcache_enabled { "on" } else { "off" },
        if facts.ini_path.is_empty() { "none" } else { &facts.ini_path },
    )
}
