//! The process on its machine: installation, start, reload, rights, end.

mod compose;
mod deployments;
#[cfg(feature = "worker")]
mod failed_deployments;
mod install;
mod kubernetes;
mod lifecycle;
mod machines;
mod php_build;
mod run_as;
mod service_manager;
