//! The server: command line, boot, and PHP as the engine of the pool.
//!
//! Promises: everything that joins the core (which knows no PHP) to the interpreter (which knows no HTTP) stands here.
//! Refuses: no `unsafe`, and no logic that either side could own.
#![forbid(unsafe_code)]

pub mod boot;
#[cfg(feature = "php")]
mod cgi;
pub mod cli;
#[cfg(feature = "php")]
mod coded_body;
pub mod commands;
pub mod healthcheck;
#[cfg(feature = "php")]
mod invocation;
#[cfg(feature = "php")]
mod php;
#[cfg(feature = "php")]
mod php_engine;
#[cfg(feature = "php")]
mod php_persistent_worker;
#[cfg(feature = "php")]
mod probe;
#[cfg(feature = "php")]
mod reply_head;
#[cfg(feature = "php")]
mod response;
#[cfg(feature = "php")]
mod variables;
