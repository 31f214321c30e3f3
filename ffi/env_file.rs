//! Variables of a file, in the environment of the process, which PHP and the programs that it starts inherit.

use std::ffi::OsStr;

/// Adds variables, except those that the environment has already. Called on the main thread while no other thread runs.
pub fn add<'a>(variables: impl IntoIterator<Item = (&'a str, &'a OsStr)>) {
    for (name, value) in variables {
        if std::env::var_os(name).is_none_or(|present| present.is_empty()) {
            // SAFETY: no other thread runs, so that nobody reads the environment meanwhile.
            unsafe { std::env::set_var(name, value) }
        }
    }
}
