//! PHP's report about itself: its version, its ini files, its extensions and its time limits.
//!
//! A process runs a script for this, before the first worker starts. It loads the same ini files and extensions as the
//! processes of workers, so that a directive or an extension that cannot be loaded is found at the start.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value, json};

use svc_core::config::{Config, FastcgiTarget};
use svc_core::observe::Event;
use svc_core::time;

use super::endpoints;
use super::process::ProcessCommand;
use crate::php_report::PhpInspection;

/// The answer of a PHP.
#[derive(Clone, Debug)]
pub(crate) struct PhpSelfReport {
    inspection: PhpInspection,
    /// The limit of a request, in seconds; 0 means no limit.
    pub(super) max_execution_time: u64,
    /// How long PHP waits beyond that limit, in seconds.
    pub(super) hard_timeout: u64,
    opcache_enabled: bool,
    ini_path: String,
    is_thread_safe: bool,
    is_debug: bool,
}

impl PhpSelfReport {
    /// Returns the version.
    pub(super) fn version(&self) -> &str {
        &self.inspection.version
    }

    /// Returns the event that reports it.
    pub(super) fn ready(&self) -> Event<'_> {
        Event::PhpReady { version: self.version(), zts: self.is_thread_safe, opcache: self.opcache_enabled }
    }

    /// Returns the warnings of the start.
    pub(super) fn warnings(&self) -> &[String] {
        &self.inspection.warnings
    }

    /// Returns the facts for the configuration report.
    pub(super) fn facts(&self) -> Map<String, Value> {
        let php = json!({
            "version": self.inspection.version,
            "sapi": SAPI,
            "zts": self.is_thread_safe,
            "debug": self.is_debug,
            "opcache_enabled": self.opcache_enabled,
            "ini_path": self.ini_path,
        });
        Map::from_iter([("php".to_owned(), php)])
    }
}

/// Inspects the PHP of the settings for `svc check`; `None` if svc does not start it.
///
/// # Errors
///
/// The reasons why the server would not start.
pub(crate) fn inspect(config: &Config) -> Result<Option<PhpInspection>, Vec<String>> {
    match &config.php.fastcgi.target {
        FastcgiTarget::Command(program) => Ok(ask(program, config)?.map(|report| report.inspection)),
        FastcgiTarget::Addresses(_) => Ok(None),
    }
}

/// Returns a warning for each address that cannot be reached now, and for directives without an effect.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let FastcgiTarget::Addresses(addrs) = &config.php.fastcgi.target else { return Vec::new() };
    let unreachable = addrs.iter().filter_map(|addr| {
        let error =
            endpoints::connect(addr).err().filter(|error| error.kind() != io::ErrorKind::WouldBlock)?;
        Some(format!("FASTCGI_ADDR: {addr} cannot be reached ({error})"))
    });
    let idle = idle_directives(config).map(|(name, reason)| format!("-d: {name:?} {reason}"));
    unreachable.chain(idle).collect()
}

/// Returns the directives that have no effect on a PHP that svc does not start, and why.
pub(super) fn idle_directives(config: &Config) -> impl Iterator<Item = (&str, &'static str)> {
    let is_external = matches!(config.php.fastcgi.target, FastcgiTarget::Addresses(_));
    let of_svc = ["max_execution_time", "hard_timeout"];
    let names = config.php.ini.iter().map(|(name, _)| name.as_str());
    names
        .filter(move |name| is_external && !of_svc.contains(name))
        .map(|name| (name, "has no effect on the PHP at FASTCGI_ADDR; set it in its pool"))
}

/// Inspects the PHP that svc starts. Returns `None` for a program that is not PHP, and prints something else.
///
/// # Errors
///
/// The reasons why its requests would fail.
pub(super) fn ask(program: &Path, config: &Config) -> Result<Option<PhpSelfReport>, Vec<String>> {
    let command = ProcessCommand::new(program, config);
    let name = command.program.display();
    let printed = run(&command).map_err(|error| vec![format!("cannot start {name}: {error}")])?;
    let (noise, report) = match printed.rfind(MARK) {
        Some(at) => (&printed[..at], serde_json::from_str(&printed[at + MARK.len()..]).ok()),
        None => (&*printed, None),
    };
    let lines = noise.lines().map(str::trim).filter(|line| !line.is_empty());
    let (faults, warnings): (Vec<_>, Vec<_>) =
        lines.partition(|line| FAULTS.iter().any(|part| line.contains(part)));
    if !faults.is_empty() {
        return Err(faults.into_iter().map(|fault| format!("cannot start {name}: {fault}")).collect());
    }
    // PHP's command line would end without a request, again and again.
    let other_sapi =
        report.as_ref().and_then(|report: &Value| report["sapi"].as_str()).filter(|sapi| *sapi != SAPI);
    if let Some(sapi) = other_sapi {
        return Err(vec![format!(
            "cannot start {name}: it is PHP's {sapi:?}, and php-cgi ({SAPI:?}) is required"
        )]);
    }
    Ok(report.map(|report| read(&report, warnings.into_iter().map(str::to_owned).collect())))
}

/// Runs the script; returns the program's output on both streams.
fn run(command: &ProcessCommand) -> io::Result<String> {
    let (mut output, printed) = io::pipe()?;
    let mut inspected = Command::new(&command.program);
    for name in CGI_VARIABLES {
        inspected.env_remove(name);
    }
    let mut child = inspected
        .args(command.arguments())
        .args(["-q", "-d", "display_errors=0", "-d", "html_errors=0", "-d", "log_errors=0"])
        .args(["-d", "display_startup_errors=1"])
        // They are for requests.
        .args(["-d", "auto_prepend_file=", "-d", "auto_append_file="])
        .env("PHP_FCGI_CHILDREN", "0")
        .stdin(Stdio::piped())
        .stdout(printed.try_clone()?)
        .stderr(printed)
        .spawn()?;
    // It holds an end of the pipe, which is read to its end.
    drop(inspected);
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read it prints no report.
        let _ = input.write_all(SCRIPT.as_bytes());
    }
    let text = read_up_to(&mut output, time::now() + PATIENCE);
    if text.is_err() {
        // It is not PHP, which would exit after the script.
        child.kill()?;
    }
    child.wait()?;
    Ok(String::from_utf8_lossy(&text?).into_owned())
}

/// Reads to the end, which must come before `deadline`.
fn read_up_to(output: &mut io::PipeReader, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(time::now());
        let wait = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        if left.is_zero() || text.len() > TEXT_BYTES_MAX {
            return Err(io::Error::other("it does not run a script and end"));
        }
        if poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&wait))? > 0 {
            let mut bytes = [0; 4096];
            match output.read(&mut bytes)? {
                0 => return Ok(text),
                count => text.extend_from_slice(&bytes[..count]),
            }
        }
    }
}

/// How long the program may take to run the script.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum length of the program's output.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

fn read(report: &Value, warnings: Vec<String>) -> PhpSelfReport {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |name: &str| report[name].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    let extensions = report["extensions"].as_object().into_iter().flatten();
    PhpSelfReport {
        inspection: PhpInspection {
            version: text(&report["version"]),
            ini_files: report["ini_files"].as_array().into_iter().flatten().map(text).collect(),
            extensions: extensions.map(|(name, version)| (name.clone(), text(version))).collect(),
            warnings,
        },
        max_execution_time: number("max_execution_time"),
        hard_timeout: number("hard_timeout"),
        opcache_enabled: report["opcache"].as_bool().unwrap_or(false),
        ini_path: text(&report["ini_files"][0]),
        is_thread_safe: report["zts"].as_bool().unwrap_or(false),
        is_debug: report["debug"].as_bool().unwrap_or(false),
    }
}

/// The name that PHP has for the program.
const SAPI: &str = "cgi-fcgi";

/// Precedes the answer.
const MARK: &str = "svc-report:";

/// Parts of messages about extensions that cannot be loaded, and about ini files that cannot be parsed.
const FAULTS: [&str; 3] = ["Unable to load dynamic library", "Failed loading ", "syntax error, unexpected"];

/// Variables that make php-cgi expect a request.
const CGI_VARIABLES: [&str; 4] = ["SERVER_SOFTWARE", "SERVER_NAME", "GATEWAY_INTERFACE", "REQUEST_METHOD"];

/// The script. php-cgi reports a limit of 0 for itself only if it was set.
const SCRIPT: &str = r#"<?php
$scanned = array_filter(array_map('trim', explode(',', (string) php_ini_scanned_files())));
$names = get_loaded_extensions();
echo "svc-report:", json_encode([
    'version' => PHP_VERSION,
    'sapi' => PHP_SAPI,
    'ini_files' => array_values(array_filter([php_ini_loaded_file(), ...$scanned])),
    'extensions' => (object) array_combine($names, array_map(fn ($name) => (string) phpversion($name), $names)),
    'max_execution_time' => ini_get('max_execution_time'),
    'hard_timeout' => ini_get('hard_timeout'),
    'opcache' => extension_loaded('Zend OPcache') && (bool) ini_get('opcache.enable'),
    'zts' => (bool) PHP_ZTS,
    'debug' => (bool) PHP_DEBUG,
]);
"#;
