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
//! Promises: every rule of `include/svc_plugin.h` is kept by construction; a panic in a callback becomes its error, and
//! svc goes on. Refuses: it depends on nothing, not even on other crates of svc. With `panic = "abort"`, a panic ends the
//! process.
//!
//! | file | noun |
//! |---|---|
//! | `abi` | the header, in Rust |
//! | `host` | what svc offers at any time |
//! | `metrics` | a list of metrics |
//! | `page` | a request for a page, and its answer |
//! | `facts` | a request of the main port that has ended |
//! | `callbacks` | from C to the trait |
#![deny(clippy::expect_used, clippy::unwrap_used)]

use std::fmt;

/// The examples in Rust of the page about plugins are tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/plugins.md")]
struct PageOfPlugins;

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
/// A callback is called only if [`plugin!`] lists it; the others have defaults that are never seen.
pub trait Plugin: Sized {
    /// Reads settings and prepares. The start of svc waits for it.
    ///
    /// # Errors
    ///
    /// Why svc must not start.
    fn init(host: &Host) -> Result<Self, Error>;

    /// svc begins to serve.
    ///
    /// # Errors
    ///
    /// Why the plugin has failed; nothing but [`stop`](Self::stop) is called then.
    fn start(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// How the plugin is; asked about once a second.
    ///
    /// # Errors
    ///
    /// Why it has failed.
    fn health(&mut self) -> Result<Health, Error> {
        Err(Error::new("not implemented"))
    }

    /// Adds all metrics; asked about once a second.
    ///
    /// # Errors
    ///
    /// Why there are none.
    fn metrics(&mut self, _metrics: &mut Metrics<'_>) -> Result<(), Error> {
        Err(Error::new("not implemented"))
    }

    /// What `/config` shows of the plugin, as a JSON object; asked about once a second.
    ///
    /// # Errors
    ///
    /// Why that cannot be said.
    fn config(&mut self) -> Result<String, Error> {
        Err(Error::new("not implemented"))
    }

    /// Answers a request below `/plugins/<name>/` on the operations port.
    ///
    /// # Errors
    ///
    /// Why there is no page; the answer is 500.
    fn serve(&mut self, _request: &PageRequest<'_>) -> Result<Page, Error> {
        Err(Error::new("not implemented"))
    }

    /// A request of the main port has ended.
    ///
    /// # Errors
    ///
    /// What went wrong; it is counted and logged.
    fn request_ended(&mut self, _facts: &RequestFacts<'_>) -> Result<(), Error> {
        Err(Error::new("not implemented"))
    }

    /// svc ends.
    fn stop(self) {}
}

/// An error of a callback: a text for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Any error is one, so that `?` works; this is why the type itself is no `std::error::Error`.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// How a plugin is, and what an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    status: i32,
    text: String,
}

impl Health {
    /// All is well.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { status: abi::SVC_HEALTH_OK, text: text.into() }
    }

    /// Worth a look; svc stays ready.
    pub fn degraded(text: impl Into<String>) -> Self {
        Self { status: abi::SVC_HEALTH_DEGRADED, text: text.into() }
    }

    /// It does not work: `/health` and readiness answer 503.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { status: abi::SVC_HEALTH_FAILED, text: text.into() }
    }
}

/// Defines what svc looks for in a plugin: its type, its name, its version, and the callbacks that it has.
#[macro_export]
macro_rules! plugin {
    (
        type: $plugin:ty,
        name: $name:expr,
        version: $version:expr,
        callbacks: [$($callback:ident),* $(,)?] $(,)?
    ) => {
        /// What svc calls first.
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
