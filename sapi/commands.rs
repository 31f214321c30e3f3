//! The commands that print something or talk to a running server, and exit.
//!
//! Results go to standard output, errors to standard error with the prefix `svc: error: ` on each line; the exit code
//! tells them apart. These commands start no thread and no interpreter.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use svc_core::config::RawConfig;
use svc_core::observe::INI_FILE_CHANGED;
use svc_core::time;

use crate::cli::ProbeKind;
use crate::healthcheck;
use crate::pid_file::{PidFileError, RunningServer};
use crate::reload_report::{ReloadReport, ReportedReloads, beside};

/// The result of the process.
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
    /// Returns the exit code.
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
/// An invalid address counts as a failure, not as invalid usage, because container runtimes only distinguish 0 and 1.
/// An invalid word on the command line is invalid usage, which its author notices at once.
pub fn healthcheck(raw: &RawConfig, probe: ProbeKind) -> Exit {
    let address = match raw.internal_addr() {
        Ok(Some(address)) => address,
        Ok(None) => {
            print_error(
                &"INTERNAL_ADDR: is not set; accepted: the address of the operations port of a running server",
            );
            return Exit::Failed;
        }
        Err(problem) => {
            print_error(&problem);
            return Exit::Failed;
        }
    };
    match healthcheck::ask(address, probe) {
        Ok(()) => Exit::Well,
        Err(unwell) => {
            print_error(&unwell);
            Exit::Failed
        }
    }
}

/// Makes a running server reload, and waits up to `patience` for the outcome; `None` does not wait.
pub fn reload(raw: &RawConfig, patience: Option<Duration>) -> Exit {
    let pid_file = raw.pid_file();
    let found = RunningServer::find(pid_file.clone());
    let before = found.as_ref().ok().zip(pid_file.as_deref());
    let before = before.and_then(|((_, pid), pid_file)| ReloadReport::read(pid_file, *pid));
    let (server, pid) = match found.and_then(|found| signal(found, Signal::HUP)) {
        Ok(server) => server,
        Err(error) => return refused(&error),
    };
    let (Some(patience), Some(pid_file)) = (patience, pid_file) else { return Exit::Well };
    let Some(before) = before else {
        let path = beside(&pid_file);
        print_error(&format_args!(
            "the server (process {}) reloads, but the outcome is unknown: {path:?} is not its report, or cannot be read",
            pid.as_raw_pid()
        ));
        return Exit::Failed;
    };
    match outcome(&server, &pid_file, pid, &before, patience) {
        Ok(after) => {
            if after.needs_restart {
                warn(&INI_FILE_CHANGED);
            }
            Exit::Well
        }
        Err(why) => {
            print_error(&why);
            Exit::Failed
        }
    }
}

/// Waits for the end of a reload that began after `before` was read, and so has read the current files.
fn outcome(
    server: &RunningServer,
    pid_file: &Path,
    pid: Pid,
    before: &ReportedReloads,
    patience: Duration,
) -> Result<ReportedReloads, String> {
    let deadline = time::now() + patience;
    loop {
        let report = ReloadReport::read(pid_file, pid);
        if let Some(report) = report {
            match &report.reloads.error {
                _ if report.reloads.ended <= before.reloads.begun => {}
                None => return Ok(report),
                Some(error) => return Err(format!("the reload failed: {error}")),
            }
            if report.is_stopping {
                return Err("the reload was abandoned: the server is stopping".to_owned());
            }
        }
        let now = time::now();
        if now >= deadline {
            return Err(format!(
                "the reload has not ended within {} s (--timeout): it continues, and the log records the outcome",
                patience.as_secs()
            ));
        }
        match server.wait_up_to(REPORT_PAUSE.min(deadline - now)) {
            Ok(true) => return Err("the server has ended before the reload".to_owned()),
            Ok(false) => {}
            Err(error) => return Err(format!("cannot wait for the server: {error}")),
        }
    }
}

/// The interval between reads of the report.
const REPORT_PAUSE: Duration = Duration::from_millis(20);

/// Stops a running server, and waits for its end.
pub fn stop(raw: &RawConfig) -> Exit {
    let signalled = RunningServer::find(raw.pid_file()).and_then(|found| signal(found, Signal::TERM));
    match signalled.map(|(server, _)| server.wait()) {
        Ok(Ok(())) => Exit::Well,
        Ok(Err(error)) => {
            print_error(&format_args!("cannot wait for the server: {error}"));
            Exit::Failed
        }
        Err(error) => refused(&error),
    }
}

fn signal(found: (RunningServer, Pid), signal: Signal) -> Result<(RunningServer, Pid), PidFileError> {
    let (server, pid) = found;
    match server.signal(signal) {
        Ok(()) => Ok((server, pid)),
        Err(error) => Err(PidFileError::Signal(pid, error)),
    }
}

fn refused(error: &PidFileError) -> Exit {
    print_error(error);
    if matches!(error, PidFileError::Unset) { Exit::Misused } else { Exit::Failed }
}

/// Prints an error, with each line marked as such.
pub fn print_error(error: &dyn Display) {
    put_error("error", error);
}

/// Prints a warning, in the same way.
pub fn warn(warning: &dyn Display) {
    put_error("warning", warning);
}

fn put_error(kind: &str, error: &dyn Display) {
    let text: String = error.to_string().lines().map(|line| format!("svc: {kind}: {line}\n")).collect();
    // If standard error is closed, there is no reader to inform.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a text.
pub fn print(text: &str) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that stops early (`svc help | head`) is not a failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_error(&format_args!("cannot write to standard output: {error}"));
            Exit::Failed
        }
        _ => Exit::Well,
    }
}
