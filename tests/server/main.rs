//! The tests that start the real binary, and the tests of the repository itself: one program, so that only one is linked.
//!
//! A folder is an area and a file a topic: `cargo test --test server -- worker::limits` runs one file. Two programs are
//! separate: `php_suite`, which keeps the machine busy for minutes, and `chaos`, which has separate modules.

#[cfg(feature = "trace")]
mod apm;
mod applications;
#[cfg(feature = "async")]
mod r#async;
mod cache;
mod cli;
mod dev;
mod fastcgi;
mod files;
// In requests and in tasks.
#[cfg(feature = "async")]
mod hooks;
mod http;
mod ops;
#[cfg(feature = "php")]
mod php;
#[cfg(feature = "php")]
mod plugins;
mod policy;
mod pool;
mod process;
mod repository;
mod settings;
mod trace;
#[cfg(feature = "worker")]
mod worker;
