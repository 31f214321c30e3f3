//! The commands that print something and exit: check, healthcheck, help, version.
//!
//! Promises: results go to standard output, errors to standard error with the prefix `svc: error: ` on each line, and
//! the exit code distinguishes them. Refuses: these commands start no thread and no interpreter.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use svc_core::config::{Config, RawConfig, page};
use svc_core::policy::Policy;
use svc_core::time;
use svc_core::tls::{SessionConfig, client_config};

use crate::cli::{HelpTopic, ProbeKind};
use crate::healthcheck;
use crate::plugins;
use crate::run_as;

/// How the process exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Well,
    /// Runtime failure or forced stop.
    Failed,
    /// Invalid usage or settings.
    Misused,
}

impl Exit {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Failed => 1,
            Self::Misused => 2,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Prints every setting with its source, or all errors in the settings and in the files that they name. Plugins are
/// loaded, but not initialised.
pub fn check(raw: &RawConfig) -> Exit {
    let config = match Config::resolve(raw) {
        Ok(config) => config,
        Err(error) => return misused(&error),
    };
    if let Err(error) = Policy::load(&config.clients, &config.serving.document_root, time::now()) {
        return misused(&error);
    }
    if let Some(export) = config.tracing.as_ref().and_then(|tracing| tracing.export.as_ref())
        && let Err(problem) = client_config(export)
    {
        return misused(&problem);
    }
    if let Err(error) = SessionConfig::open(&config.tls) {
        return misused(&error);
    }
    if let Err(problem) = run_as::look_up(&config) {
        return misused(&problem);
    }
    match plugins::load(&config, None) {
        Ok(_) => print(&page::check(&config)),
        Err(error) => misused(&error),
    }
}

fn misused(error: &dyn Display) -> Exit {
    complain(error);
    Exit::Misused
}

/// Queries the server that runs with the same environment.
///
/// An invalid address counts as a failure, not as invalid usage, because container runtimes only distinguish 0 and 1.
pub fn healthcheck(raw: &RawConfig, probe: ProbeKind) -> Exit {
    let address = match raw.internal_addr() {
        Ok(Some(address)) => address,
        Ok(None) => {
            complain(
                &"INTERNAL_ADDR: is not set; accepted: the address of the operations port of a running server",
            );
            return Exit::Failed;
        }
        Err(problem) => {
            complain(&problem);
            return Exit::Failed;
        }
    };
    match healthcheck::ask(address, probe) {
        Ok(()) => Exit::Well,
        Err(unwell) => {
            complain(&unwell);
            Exit::Failed
        }
    }
}

/// Prints a help topic.
pub fn help(page: HelpTopic) -> Exit {
    print(&page.text())
}

/// Prints the versions, in lines provided by the caller.
pub fn version(facts: &str) -> Exit {
    print(facts)
}

/// Prints an error, with each line marked as such.
pub fn complain(error: &dyn Display) {
    let text: String = error.to_string().lines().map(|line| format!("svc: error: {line}\n")).collect();
    // If standard error is closed, nobody reads the error.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn print(text: &str) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that stops early (`svc help | head`) is not a failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format_args!("cannot write to standard output: {error}"));
            Exit::Failed
        }
        _ => Exit::Well,
    }
}
