//! The command line.

mod check;
mod commands;
mod config;
mod features;
mod settings;
#[cfg(feature = "php")]
mod watch;
