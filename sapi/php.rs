//! Starting PHP for the server: which values of php.ini it gets, and where its messages go.

use svc_core::config::Config;
use svc_core::observe::{Event, Log};

use svc_ffi::{Facts, Php, PhpError, StartOptions};

use crate::php_engine::write_log;

/// The values of php.ini-production, where they differ from what PHP has built in: what a server on the Internet
/// wants when nobody has said otherwise. A php.ini overrides each of them.
const INI_DEFAULTS: &[(&str, &str)] = &[
    ("display_errors", "0"),
    ("display_startup_errors", "0"),
    ("error_reporting", "22527"),
    ("log_errors", "1"),
    ("max_execution_time", "30"),
    // Bodies are read before PHP starts: a limit on reading them would only start a second timer.
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
];

/// What no php.ini may change, because it would end the process.
const INI_FIXED: &[(&str, &str)] = &[
    // Ends the process when a script does not end in time; the request's own limit is max_execution_time.
    ("hard_timeout", "0"),
    // Kills processes that read the cache for too long; here they are one, and this is it.
    ("opcache.force_restart_timeout", "0"),
];

/// Starts PHP on the calling thread.
///
/// # Errors
///
/// What PHP says.
pub(crate) fn start(config: &Config, log: &Log) -> Result<Php, PhpError> {
    let sink = log.clone();
    let fixed = INI_FIXED.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let php = Php::start(StartOptions {
        ini_defaults: INI_DEFAULTS,
        ini_overrides: &config.php_ini.iter().cloned().chain(fixed).collect::<Vec<_>>(),
        log: Box::new(move |record| write_log(&sink, record, None)),
    })?;
    let facts = php.facts();
    log.emit(&Event::PhpReady { version: &facts.version, zts: facts.zts, opcache: facts.opcache_enabled });
    if !facts.opcache_enabled {
        log.emit(&Event::OpcacheOff);
    }
    Ok(php)
}

/// The facts as part of the configuration report.
pub(crate) fn report(facts: &Facts) -> serde_json::Map<String, serde_json::Value> {
    let php = serde_json::json!({
        "version": facts.version,
        "sapi": "svc",
        "zts": facts.zts,
        "debug": facts.debug,
        "zend_signals": facts.zend_signals,
        "max_execution_timers": facts.max_execution_timers,
        "opcache_enabled": facts.opcache_enabled,
        "ini_path": facts.ini_path,
    });
    [("php".to_owned(), php)].into_iter().collect()
}

/// The facts as lines of `svc version`.
pub(crate) fn lines(facts: &Facts) -> String {
    let yes = |fact: bool| if fact { "yes" } else { "no" };
    format!(
        "PHP {}\nthread-safe: {}\nZend signals: {}\nexecution timers: {}\nOPcache: {}\nphp.ini: {}\n",
        facts.version,
        yes(facts.zts),
        yes(facts.zend_signals),
        yes(facts.max_execution_timers),
        if facts.opcache_enabled { "on" } else { "off" },
        if facts.ini_path.is_empty() { "none" } else { &facts.ini_path },
    )
}
