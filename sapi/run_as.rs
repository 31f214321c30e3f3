//! `RUN_AS`: the user that the server switches to once its ports are bound, before any code of plugins or scripts runs.
//!
//! An unknown user, or a process that may not switch, is detected before the ports are bound. The system calls are in
//! the bindings.

use std::fs::File;
use std::path::Path;

use svc_core::config::{Config, Fault, Problem};
use svc_ffi::process_user::is_superuser;

pub(crate) use svc_ffi::process_user::ProcessUser;

/// Looks up the user of the settings, if there is one.
fn look_up(config: &Config) -> Result<Option<ProcessUser>, Problem> {
    let Some(text) = &config.serving.run_as else { return Ok(None) };
    let found = ProcessUser::look_up(text);
    found
        .map(Some)
        .map_err(|error| problem(text, error.to_string(), "user or user:group, as names or numbers"))
}

/// Looks up the user that the process will switch to, if the settings name one.
///
/// # Errors
///
/// If there is no such user, or the process may not switch to another one.
pub(crate) fn prepare(config: &Config) -> Result<Option<ProcessUser>, Problem> {
    let user = look_up(config)?;
    match &config.serving.run_as {
        Some(text) if !is_superuser() => {
            let why = "only root can become another user".to_owned();
            Err(problem(text, why, "unset, or a server that root starts"))
        }
        _ => Ok(user),
    }
}

/// Switches to that user, on all threads. Returns the certificate files that it cannot read.
///
/// # Errors
///
/// If the system refuses.
pub(crate) fn assume<'a>(user: &ProcessUser, config: &'a Config) -> Result<Vec<&'a Path>, Problem> {
    let text = config.serving.run_as.as_deref().unwrap_or_default();
    user.assume().map_err(|error| {
        problem(text, format!("the system does not allow it: {error}"), "unset, or what the system allows")
    })?;
    let files = config.tls.certificates.iter().flat_map(|files| [&*files.cert, &*files.key]);
    Ok(files.filter(|path| File::open(path).is_err()).collect())
}

/// Returns the user ID and the primary group ID.
pub(crate) fn ids(user: &ProcessUser) -> (u32, u32) {
    user.ids()
}

fn problem(text: &str, why: String, accepted: &str) -> Problem {
    Problem {
        setting: "RUN_AS",
        value: Some(text.to_owned()),
        fault: Fault::Unusable(why),
        accepted: accepted.to_owned(),
    }
}
