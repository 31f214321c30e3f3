//! The `svc` binary: one command line, one exit code.
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::unwrap_used)]

use std::ffi::OsString;
use std::process::ExitCode;

use svc::boot;
use svc::check;
use svc::cli::{self, Subcommand};
use svc::commands::{self, Exit};
use svc::development::DevelopmentOptions;
use svc::fastcgi::launch;
use svc::help_pages;
use svc::octane::OctaneApplication;
use svc::overrides::Overrides;
use svc::php_command;
use svc::shell_completions;
use svc::stubs;
use svc_core::config::{Activation, RawConfig};

fn main() -> ExitCode {
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(exit) = launch::run(&arguments, &environment) {
        return exit.into();
    }
    let parsed = match cli::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            commands::print_error(&error);
            return Exit::Misused.into();
        }
    };
    let exit = run(parsed, environment);
    exit.into()
}

fn run(command: Subcommand, environment: Vec<(OsString, OsString)>) -> Exit {
    match command {
        Subcommand::Check(overrides, style) => {
            with_settings(overrides, environment, |raw| check::check(raw, style))
        }
        Subcommand::Completions(shell) => commands::print(&shell_completions::script(shell)),
        Subcommand::Dev(overrides) => dev(overrides, environment),
        Subcommand::Healthcheck(probe, overrides) => {
            let exit = with_settings(overrides, environment, |raw| commands::healthcheck(raw, probe));
            // Container runtimes define no exit codes of a health check but 0 and 1.
            if exit == Exit::Well { exit } else { Exit::Failed }
        }
        Subcommand::Help(topic) => commands::print(&help_pages::help(topic)),
        Subcommand::Man => commands::print(&help_pages::manual()),
        Subcommand::Octane(overrides) => octane(overrides, environment),
        Subcommand::Php(arguments) => php_command::run(&arguments, &environment),
        Subcommand::Reload(overrides, patience) => {
            with_settings(overrides, environment, |raw| commands::reload(raw, patience))
        }
        Subcommand::Serve(overrides) => serve(overrides, environment),
        Subcommand::Stubs(dir) => stubs::write(dir.as_ref()),
        Subcommand::Stop(overrides) => with_settings(overrides, environment, commands::stop),
        Subcommand::Version => commands::print(&boot::version()),
    }
}

fn serve(overrides: Overrides, environment: Vec<(OsString, OsString)>) -> Exit {
    let is_watching = overrides.is_watching;
    with_settings(overrides, environment, |raw| boot::serve(raw, &activation(), is_watching))
}

fn dev(mut overrides: Overrides, environment: Vec<(OsString, OsString)>) -> Exit {
    let options = DevelopmentOptions::take(&mut overrides, &environment);
    with_settings(overrides, environment, |raw| match options.settings(raw) {
        // Sockets of a service manager could be public.
        Ok(raw) => boot::serve(&raw, &Activation::default(), true),
        Err(error) => {
            commands::print_error(&error);
            Exit::Misused
        }
    })
}

fn octane(mut overrides: Overrides, environment: Vec<(OsString, OsString)>) -> Exit {
    let dir = overrides.document_root.take().unwrap_or_else(|| ".".into());
    let application = match OctaneApplication::find(dir.as_ref()) {
        Ok(application) => application,
        Err(error) => {
            commands::print_error(&error);
            return Exit::Misused;
        }
    };
    application.settings(&mut overrides);
    boot::add_variables(&application.variables());
    serve(overrides, environment)
}

/// Runs a command with the settings of the environment, of the `--env-file` files, and of the options.
fn with_settings(
    overrides: Overrides,
    environment: Vec<(OsString, OsString)>,
    command: impl FnOnce(&RawConfig) -> Exit,
) -> Exit {
    if let Some((word, meant)) = overrides.misspelt_command() {
        commands::print_error(&format_args!(
            "{word:?}: is neither a command nor a directory; did you mean {meant}?"
        ));
        return Exit::Misused;
    }
    let files = match overrides.read_env_files() {
        Ok(files) => files,
        Err(error) => {
            commands::print_error(&error);
            return Exit::Misused;
        }
    };
    boot::adopt(&files);
    command(&overrides.apply(RawConfig::new(environment), &files))
}

/// Returns the variables of socket activation, unparsed.
fn activation() -> Activation {
    let value = std::env::var_os;
    Activation { pid: value("LISTEN_PID"), count: value("LISTEN_FDS"), names: value("LISTEN_FDNAMES") }
}
