//! Plugins for svc in safe Rust.
//!
//! A plugin is a library of the crate type `cdylib` with one implementation of [`Plugin`] and one [`plugin!`]:
//!
//! ```
//! use svc_plugin::{Error, Health, Host, Plugin};
//!
//! struct Clock;
//!
//! impl Plugin for Clock {
//!     fn init(_host: &Host) -> Result<Self, Error> {
//!         Ok(Self)
//!     }
//!
//!     fn health(&mut self) -> Result<Health, Error> {
//!         Ok(Health::ok("it ticks"))
//!     }
//! }
//!
//! svc_plugin::plugin! {
//!     type: Clock,
//!     name: "clock",
//!     version: env!("CARGO_PKG_VERSION"),
//!     callbacks: [health],
//! }
//! ```
//!
//! The crate keeps every rule of `include/svc_plugin.h` by construction; a panic in a callback becomes its error, and svc
//! continues. It has no dependencies, not even on other crates of svc. With `panic = "abort"`, a panic ends the process.
//!
//! | file | noun |
//! |---|---|
//! | `abi` | the header, in Rust |
//! | `host` | the functions that svc offers at any time |
//! | `metrics` | a list of metrics |
//! | `page` | a request for a page, and its answer |
//! | `facts`, `request_facts_table` | a request of the main port that has ended, and the table of its facts |
//! | `callbacks` | adapters from C callbacks to the trait |
#![deny(clippy::expect_used, clippy::unwrap_used)]

use std::fmt;

/// The Rust examples of the page about plugins, as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/plugins.md")]
struct PageOfPlugins;

#[macro_use]
mod request_facts_table;

#[doc(hidden)]
pub mod abi;
#[doc(hidden)]
pub mod callbacks;
mod facts;
mod host;
mod metrics;
mod page;

pub use facts::RequestFacts;
pub use host::{Host, Level};
pub use metrics::{Metrics, Refused};
pub use page::{Page, PageRequest};

/// A plugin. All methods are called on one thread, one at a time.
///
/// A callback is called only if [`plugin!`] lists it; the default implementations of the others are never called.
pub trait Plugin: Sized {
    /// Reads settings and prepares the plugin. The start of svc waits for it.
    ///
    /// # Errors
    ///
    /// If svc must not start, with the reason.
    fn init(host: &Host) -> Result<Self, Error>;

    /// Starts the plugin: svc begins to serve.
    ///
    /// # Errors
    ///
    /// If the plugin has failed; then only [`stop`](Self::stop) is called.
    fn start(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the health of the plugin; called about once a second.
    ///
    /// # Errors
    ///
    /// If the plugin has failed, with the reason.
    fn health(&mut self) -> Result<Health, Error> {
        Err(Error::new("not implemented"))
    }

    /// Adds all metrics; called about once a second.
    ///
    /// # Errors
    ///
    /// If the metrics are not available, with the reason.
    fn metrics(&mut self, _metrics: &mut Metrics<'_>) -> Result<(), Error> {
        Err(Error::new("not implemented"))
    }

    /// Returns the plugin's part of `/config`, a JSON object; called about once a second.
    ///
    /// # Errors
    ///
    /// If the object is not available.
    fn config(&mut self) -> Result<String, Error> {
        Err(Error::new("not implemented"))
    }

    /// Answers a request below `/plugins/<name>/` on the operations port.
    ///
    /// # Errors
    ///
    /// If there is no page; the response is a 500.
    fn serve(&mut self, _request: &PageRequest<'_>) -> Result<Page, Error> {
        Err(Error::new("not implemented"))
    }

    /// Handles the end of a request of the main port.
    ///
    /// # Errors
    ///
    /// If the handling fails; the error is counted and logged.
    fn request_ended(&mut self, _facts: &RequestFacts<'_>) -> Result<(), Error> {
        Err(Error::new("not implemented"))
    }

    /// Stops the plugin: svc shuts down.
    fn stop(self) {}
}

/// An error of a callback: a text for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// Creates an error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Converts any error, so that `?` works; for that, the type itself must not implement `std::error::Error`.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The health of a plugin, with a text for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    status: i32,
    text: String,
}

impl Health {
    /// Creates the status `ok`.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { status: abi::SVC_HEALTH_OK, text: text.into() }
    }

    /// Creates the status `degraded`: worth a look; svc stays ready.
    pub fn degraded(text: impl Into<String>) -> Self {
        Self { status: abi::SVC_HEALTH_DEGRADED, text: text.into() }
    }

    /// Creates the status `failed`: `/health` and readiness answer 503.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { status: abi::SVC_HEALTH_FAILED, text: text.into() }
    }
}

/// Defines the symbol that svc looks up in a plugin, from its type, its name, its version, and its callbacks.
#[macro_export]
macro_rules! plugin {
    (
        type: $plugin:ty,
        name: $name:expr,
        version: $version:expr,
        callbacks: [$($callback:ident),* $(,)?] $(,)?
    ) => {
        /// The first function that svc calls.
        #[unsafe(no_mangle)]
        extern "C" fn svc_plugin_entry(
            host: *const $crate::abi::svc_host_api,
            plugin: *mut $crate::abi::svc_plugin,
        ) -> i32 {
            #[allow(unused_mut, clippy::allow_attributes_without_reason, clippy::allow_attributes)]
            let mut offers = $crate::callbacks::Offers::default();
            $(offers.$callback = true;)*
            // SAFETY: svc calls this once, with pointers that follow its header.
            unsafe { $crate::callbacks::enter::<$plugin>(host, plugin, $name, $version, offers) }
        }
    };
}
