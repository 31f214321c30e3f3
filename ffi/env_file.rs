//! Adds the variables of a file to the environment of the process, which PHP and its child processes inherit.

use std::ffi::OsStr;

/// Adds variables, except those that are set and not empty. Must be called on the main thread while no other thread
/// runs.
pub fn add<'a>(variables: impl IntoIterator<Item = (&'a str, &'a OsStr)>) {
    for (name, value) in variables {
        if std::env::var_os(name).is_none_or(|present| present.is_empty()) {
            // SAFETY: no other thread runs that could read the environment.
            unsafe { std::env::set_var(name, value) }
        }
    }
}
