//! The `svc` binary: one command line, one exit code.
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::unwrap_used)]

use std::process::ExitCode;

use svc::boot;
use svc::cli::{self, Subcommand};
use svc::commands::{self, Exit};
use svc_core::config::{Activation, RawConfig};

fn main() -> ExitCode {
    let raw = RawConfig::new(std::env::vars_os());
    match cli::parse(std::env::args_os().skip(1)) {
        Ok(Subcommand::Check(overrides)) => commands::check(&overrides.apply(raw)),
        Ok(Subcommand::Healthcheck(probe)) => commands::healthcheck(&raw, probe),
        Ok(Subcommand::Help(page)) => commands::help(page),
        Ok(Subcommand::Serve(overrides)) => boot::serve(&overrides.apply(raw), &activation()),
        Ok(Subcommand::Version) => commands::version(&boot::version()),
        Err(error) => {
            commands::complain(&error);
            Exit::Misused
        }
    }
    .into()
}

/// What a service manager says of the sockets that it has passed on.
fn activation() -> Activation {
    let value = std::env::var_os;
    Activation { pid: value("LISTEN_PID"), count: value("LISTEN_FDS"), names: value("LISTEN_FDNAMES") }
}
