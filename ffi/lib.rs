//! PHP, and plugins, behind safe handles.
//!
//! All other crates forbid `unsafe`; this one makes that possible. `c/shim.h` is the contract, `bindings` is generated
//! from it, and the types here enforce its rules by construction.
//!
//! There is one [`Php`] per process, and one [`Interpreter`] per thread, which never leaves it. A panic in a host's
//! callback ends the request and never crosses into C. OPcache restarts only while no other request runs
//! (`restart_barrier`). Plugins are loaded and called in [`plugin`]. HTTP and the pool are unknown here; the [`Host`]
//! implements a request.
#![deny(clippy::expect_used, clippy::unwrap_used)]

pub mod allocator;
mod callbacks;
mod client_spans;
mod completion;
pub mod env_file;
pub mod environment;
mod helper;
mod hook;
mod host;
pub mod inherited;
mod interpreter;
mod interrupter;
mod outcome;
mod payload;
mod php;
pub mod plugin;
pub mod process_user;
mod request;
mod request_handle;
mod restart_barrier;
mod runtime;
mod script_spans;
pub mod signals;
mod spans;
mod tasks;
mod view;
mod worker;

/// The command-line PHP installed with the libphp of the build.
pub const CLI_BINARY: Option<&str> = option_env!("SHIM_PHP_BINARY");

pub use completion::WAITER_GROUPS;
pub use helper::HelperCall;
pub use host::{
    CachePurge, Host, LogSource, Pairs, PhpHead, PhpLog, ScriptLevel, WorkerHost, WorkerRequest,
    WorkerRequests,
};
pub use interpreter::{Interpreter, WorkerInfo};
pub use interrupter::Interrupter;
pub use outcome::PhpOutcome;
pub use payload::Payload;
pub use php::{
    ClientOptions, Php, PhpError, PhpFacts, StartOptions, Threads, TravellingPart, Unfit, exit_now,
    travelling,
};
pub use request::PhpRequest;
pub use restart_barrier::RestartNews;
pub use runtime::{Runtime, TaskReading, TaskRequester};
pub use script_spans::{ScriptAttribute, ScriptFailure, ScriptSpans, TraceContext};
pub use worker::{PhpWorkerFacts, RequestProgress, Waker};

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
