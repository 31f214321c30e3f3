//! The command that becomes the program of a process: `svc __launch PARENT PROGRAM ARGUMENTS…`.
//!
//! PHP must end with the server, even if that crashes. Only the child can request this (PR_SET_PDEATHSIG), and code between
//! fork and exec is unsafe in a process with threads. So a second svc starts, requests it, unblocks the signals that it has
//! inherited as blocked, and executes the program.
//!
//! The program does not get variables whose names begin with `HTTP_`: php-cgi would add them to those of each request, as if
//! clients had sent these fields.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use svc_ffi::signals;

use crate::commands::{Exit, print_error};

/// The name of this command, which is not part of the documented command line.
const NAME: &str = "__launch";

/// Returns the command that starts `program` as a child of the calling thread, and ends it with that thread.
pub(super) fn command(program: &OsStr) -> Command {
    // Also names the running binary after another one has been installed over it.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("svc").arg(NAME).arg(std::process::id().to_string()).arg(program);
    command
}

/// Becomes the program if `arguments` are those of this command; returns only if they are not, or on failure.
pub fn run(arguments: &[OsString], environment: &[(OsString, OsString)]) -> Option<Exit> {
    let [name, parent, program, rest @ ..] = arguments else { return None };
    if name != NAME {
        return None;
    }
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        print_error(&format_args!("cannot end {} with svc: {error}", program.display()));
        return Some(Exit::Failed);
    }
    // The parent may have ended before the call.
    let is_orphan = getppid().map(|pid| pid.as_raw_nonzero().to_string()).as_deref() != parent.to_str();
    if is_orphan {
        return Some(Exit::Failed);
    }
    // Otherwise SIGTERM would not reach PHP, and PHP would pass this state on to the programs that it starts.
    signals::restore();
    let mut command = Command::new(program);
    for (name, _) in environment.iter().filter(|(name, _)| name.as_bytes().starts_with(b"HTTP_")) {
        command.env_remove(name);
    }
    let error = command.args(rest).exec();
    print_error(&format_args!("cannot execute {}: {error}", program.display()));
    Some(Exit::Failed)
}
