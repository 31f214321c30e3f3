//! The commands that print something and end: check, healthcheck, help, version.
//!
//! Promises: answers go to standard output, complaints to standard error with `svc: error: ` before each line; the
//! exit code says which it was. Refuses: nothing here starts a thread or an interpreter.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use svc_core::config::{Config, RawConfig, page};
use svc_core::policy::Policy;
use svc_core::time;
use svc_core::tls::Terms;

use crate::cli::{Page, Probe};
use crate::healthcheck;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Well,
    /// Something failed while running, or was stopped by force.
    Failed,
    /// The command line or a setting is wrong.
    Misused,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Well => 0,
            Exit::Failed => 1,
            Exit::Misused => 2,
        })
    }
}

/// Prints every setting with its source, or everything that is wrong with them and the files they lead to.
pub fn check(raw: &RawConfig) -> Exit {
    let config = match Config::resolve(raw) {
        Ok(config) => config,
        Err(error) => return misused(&error),
    };
    if let Err(error) = Policy::load(&config, time::now()) {
        return misused(&error);
    }
    match Terms::open(&config) {
        Ok(_) => print(&page::check(&config)),
        Err(error) => misused(&error),
    }
}

fn misused(error: &dyn Display) -> Exit {
    complain(error);
    Exit::Misused
}

/// Asks the server that runs with the same environment how it is.
///
/// A wrong address counts as a failure, not as misuse: container runtimes know 0 and 1 only.
pub fn healthcheck(raw: &RawConfig, probe: Probe) -> Exit {
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

/// Prints a page of help.
pub fn help(page: Page) -> Exit {
    print(&page.text())
}

/// Prints what this binary is, in lines written by the caller.
pub fn version(facts: &str) -> Exit {
    print(facts)
}

/// Prints what is wrong, each line of it marked as an error.
pub fn complain(error: &dyn Display) {
    let text: String = error.to_string().lines().map(|line| format!("svc: error: {line}\n")).collect();
    // Who closed standard error does not want to know.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn print(text: &str) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader who has seen enough (`svc help | head`) is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format_args!("cannot write to standard output: {error}"));
            Exit::Failed
        }
        _ => Exit::Well,
    }
}
