//! `RUN_AS` in a build without PHP, which has no bindings to change the user with.

use std::path::Path;

use svc_core::config::{Config, Fault, Problem};

/// Uninhabited: no user can be looked up.
pub(crate) use std::convert::Infallible as ProcessUser;

/// Accepts settings without a user.
///
/// # Errors
///
/// If the settings name one.
pub(crate) fn prepare(config: &Config) -> Result<Option<ProcessUser>, Problem> {
    match &config.serving.run_as {
        None => Ok(None),
        Some(text) => Err(Problem {
            setting: "RUN_AS",
            value: Some(text.clone()),
            fault: Fault::Unusable("this build does not include PHP".to_owned()),
            accepted: "unset".to_owned(),
        }),
    }
}

/// Never called: `ProcessUser` has no values.
pub(crate) fn assume<'a>(user: &ProcessUser, _config: &'a Config) -> Result<Vec<&'a Path>, Problem> {
    match *user {}
}

/// Never called: `ProcessUser` has no values.
pub(crate) fn ids(user: &ProcessUser) -> (u32, u32) {
    match *user {}
}
