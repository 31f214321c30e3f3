//! The command line.

mod check;
mod commands;
mod config;
mod features;
#[cfg(feature = "php")]
mod php_extensions;
mod settings;
#[cfg(feature = "php")]
mod watch;
