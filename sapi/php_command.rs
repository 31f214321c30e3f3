//! `svc php`: the command-line PHP of the same build.
//!
//! The process becomes that PHP, with its arguments, streams, signals and exit code. It reads the same ini files as the
//! server's PHP. No other PHP is used, because its extensions might differ.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::commands::{Exit, print_error};
use crate::installation::Installation;

/// Replaces the process, which has this environment; returns only on failure.
pub fn run(arguments: &[OsString], environment: &[(OsString, OsString)]) -> Exit {
    let installation = Installation::of_this_binary();
    let Some(php) = binary(installation.as_ref()) else {
        print_error(&"php: is not available in this build, which does not include PHP");
        return Exit::Misused;
    };
    let mut command = Command::new(&php);
    command.args(arguments);
    for (name, path) in installation.iter().flat_map(Installation::environment) {
        // Keep variables that the operator has set.
        if !environment.iter().any(|(other, _)| other == name) {
            command.env(name, path);
        }
    }
    let error = command.exec();
    print_error(&format_args!("php: cannot execute {}: {error}", php.display()));
    Exit::Failed
}

/// Returns the command-line PHP of the same build.
pub(crate) fn binary(installation: Option<&Installation>) -> Option<PathBuf> {
    installation.map(Installation::php).or_else(|| built_with().map(PathBuf::from))
}

/// Returns the command-line PHP installed with the libphp of the build.
fn built_with() -> Option<&'static str> {
    #[cfg(feature = "php")]
    return svc_ffi::CLI_BINARY;
    #[cfg(not(feature = "php"))]
    return None;
}
