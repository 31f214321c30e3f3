//! The commands that print something or talk to a running server, and exit.
//!
//! Promises: results go to standard output, errors to standard error with the prefix `svc: error: ` on each line, and
//! the exit code distinguishes them. Refuses: these commands start no thread and no interpreter.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use rustix::process::Signal;

use svc_core::config::RawConfig;

use crate::cli::ProbeKind;
use crate::healthcheck;
use crate::pid_file::{PidFileError, RunningServer};

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

/// Queries the server that runs with the same settings.
///
/// An invalid address counts as a failure, not as invalid usage, because container runtimes only distinguish 0 and 1. A
/// wrong word on the command line is invalid usage: whoever writes it sees that at once.
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

/// Makes a running server reload.
pub fn reload(raw: &RawConfig) -> Exit {
    signalled(raw, Signal::HUP).map_or_else(|exit| exit, |_| Exit::Well)
}

/// Stops a running server, and waits for its end.
pub fn stop(raw: &RawConfig) -> Exit {
    match signalled(raw, Signal::TERM).map(|server| server.wait()) {
        Ok(Ok(())) => Exit::Well,
        Ok(Err(error)) => {
            complain(&format_args!("cannot wait for the server: {error}"));
            Exit::Failed
        }
        Err(exit) => exit,
    }
}

fn signalled(raw: &RawConfig, signal: Signal) -> Result<RunningServer, Exit> {
    let sent = RunningServer::find(raw.pid_file()).and_then(|(server, pid)| match server.signal(signal) {
        Ok(()) => Ok(server),
        Err(error) => Err(PidFileError::Signal(pid, error)),
    });
    sent.map_err(|error| {
        complain(&error);
        if matches!(error, PidFileError::Unset) { Exit::Misused } else { Exit::Failed }
    })
}

/// Prints an error, with each line marked as such.
pub fn complain(error: &dyn Display) {
    put_error("error", error);
}

/// Prints a warning, in the same way.
pub fn warn(warning: &dyn Display) {
    put_error("warning", warning);
}

fn put_error(kind: &str, error: &dyn Display) {
    let text: String = error.to_string().lines().map(|line| format!("svc: {kind}: {line}\n")).collect();
    // If standard error is closed, nobody reads the error.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a text.
pub fn print(text: &str) -> Exit {
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
