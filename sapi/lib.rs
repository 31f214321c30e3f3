//! The server: command line, boot, and PHP as the engine of the pool.
//!
//! All code that connects the core (which does not know PHP) to the interpreter (which does not know HTTP) is here. It
//! contains no `unsafe`, and no logic that could belong to either side.
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::unwrap_used)]

mod activation;
#[cfg(feature = "php")]
mod apm;
pub mod boot;
#[cfg(feature = "php")]
mod boot_messages;
mod build_features;
mod cgi;
pub mod check;
pub mod cli;
#[cfg(feature = "php")]
mod client_spans;
mod coded_body;
pub mod command_table;
pub mod commands;
pub mod development;
mod early_stop;
pub mod fastcgi;
pub mod healthcheck;
pub mod help_pages;
#[cfg(feature = "php")]
mod ini_files;
pub mod installation;
pub mod octane;
pub mod overrides;
#[cfg(feature = "php")]
mod php;
pub mod php_command;
#[cfg(feature = "php")]
mod php_engine;
#[cfg(feature = "php")]
mod php_errors;
#[cfg_attr(not(feature = "php"), path = "no_php_inspection.rs")]
mod php_inspection;
#[cfg(feature = "php")]
mod php_persistent_worker;
mod php_report;
#[cfg(feature = "php")]
mod php_task_worker;
pub mod pid_file;
mod plugin_fault;
#[cfg_attr(not(feature = "php"), path = "no_plugins.rs")]
mod plugins;
#[cfg(feature = "php")]
mod probe;
#[cfg(feature = "php")]
mod purge;
pub mod reload_report;
mod response;
mod response_copy;
mod response_head;
mod run_as;
mod running_instance;
#[cfg(feature = "php")]
mod running_request;
#[cfg(feature = "php")]
mod running_task;
#[cfg(feature = "php")]
mod runtime;
#[cfg(feature = "php")]
mod script_spans;
#[cfg(feature = "php")]
mod serve_loop;
pub mod shell_completions;
#[cfg(feature = "php")]
mod span_text;
pub mod stubs;
#[cfg(feature = "php")]
mod task_answer;
mod thread_context;
#[cfg(feature = "php")]
mod thread_waker;
mod variables;
mod watch;
