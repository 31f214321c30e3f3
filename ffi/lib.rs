//! PHP, and plugins, behind safe handles.
//!
//! All other crates forbid `unsafe`; this one makes that possible. `c/shim.h` is the contract, `bindings` is generated
//! from it, and the types here enforce its rules by construction.
//!
//! There is one [`Php`] per process, and one [`Interpreter`] per thread, which never leaves it. A panic in a host's
//! callback ends the request and never crosses into C. OPcache restarts only while no other request runs
//! (`restart_barrier`). Plugins are loaded and called in `plugin`. HTTP and the pool are unknown here; the [`Host`]
//! implements a request. A build without the feature `php` has no C: what remains is what the server needs of the system.
#![deny(clippy::expect_used, clippy::unwrap_used)]

pub mod allocator;
#[cfg(feature = "php")]
mod callbacks;
#[cfg(feature = "php")]
mod client_spans;
#[cfg(feature = "php")]
mod code_renewal;
#[cfg(feature = "php")]
mod completion;
pub mod env_file;
pub mod environment;
mod exit;
mod head;
#[cfg(feature = "php")]
mod helper;
#[cfg(feature = "php")]
mod hook;
#[cfg(feature = "php")]
mod host;
pub mod inherited;
mod ini_line;
#[cfg(feature = "php")]
mod interpreter;
#[cfg(feature = "php")]
mod interrupter;
pub mod local_time;
mod outcome;
mod pairs;
#[cfg(feature = "php")]
mod payload;
#[cfg(feature = "php")]
mod php;
#[cfg(feature = "php")]
pub mod plugin;
pub mod process_user;
#[cfg(feature = "php")]
mod request;
#[cfg(feature = "php")]
mod request_handle;
#[cfg(feature = "php")]
mod restart_barrier;
#[cfg(feature = "php")]
mod runtime;
#[cfg(feature = "php")]
mod script_spans;
pub mod signals;
#[cfg(feature = "php")]
mod spans;
#[cfg(feature = "php")]
mod tasks;
#[cfg(feature = "php")]
mod view;
#[cfg(feature = "php")]
mod worker;

/// The command-line PHP installed with the libphp of the build.
#[cfg(feature = "php")]
pub const CLI_BINARY: Option<&str> = option_env!("SHIM_PHP_BINARY");

#[cfg(feature = "php")]
pub use completion::WAITER_GROUPS;
pub use exit::exit_now;
pub use head::PhpHead;
#[cfg(feature = "php")]
pub use helper::HelperCall;
#[cfg(feature = "php")]
pub use host::{CachePurge, Host, LogSource, PhpLog, ScriptLevel, WorkerHost, WorkerRequest, WorkerRequests};
pub use ini_line::ini_line;
#[cfg(feature = "php")]
pub use interpreter::{Interpreter, WorkerInfo};
#[cfg(feature = "php")]
pub use interrupter::Interrupter;
pub use outcome::PhpOutcome;
pub use pairs::Pairs;
#[cfg(feature = "php")]
pub use payload::Payload;
#[cfg(feature = "php")]
pub use php::{
    ClientOptions, ExtensionMismatch, Php, PhpError, PhpFacts, StartOptions, SwitchedRange, Threads,
    travelling,
};
#[cfg(feature = "php")]
pub use request::PhpRequest;
#[cfg(feature = "php")]
pub use restart_barrier::RestartEvent;
#[cfg(feature = "php")]
pub use runtime::{Runtime, TaskReading, TaskRequester};
#[cfg(feature = "php")]
pub use script_spans::{ScriptAttribute, ScriptFailure, ScriptSpans, TraceContext};
#[cfg(feature = "php")]
pub use worker::{PhpWorkerFacts, RequestProgress, Waker};

#[cfg(feature = "php")]
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    reason = "made by bindgen from c/shim.h, which documents it"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/shim.rs"));
}
