//! What the server asks of a plugin.
//!
//! Promises: all calls come from one thread, one at a time, in the order of the methods, `stop` at the end. Refuses: how
//! long a call takes is for others to watch.

use std::time::Duration;

use super::answers::{PluginConfig, PluginPage};
use super::families::PluginMetrics;
use super::health::HealthReport;

/// A plugin. An error is a text for an operator.
pub trait Plugin: Send {
    /// Who it is. Always the same.
    fn about(&self) -> PluginAbout;

    /// Prepares it.
    ///
    /// # Errors
    ///
    /// Why the server must not start.
    fn init(&mut self) -> Result<(), String>;

    /// The server begins to serve.
    ///
    /// # Errors
    ///
    /// Why it is of no use; nothing but `stop` is called then.
    fn start(&mut self) -> Result<(), String>;

    /// How it is.
    ///
    /// # Errors
    ///
    /// Why that cannot be said; it counts as failed.
    fn health(&mut self) -> Result<HealthReport, String>;

    /// Adds its metrics to an empty list.
    ///
    /// # Errors
    ///
    /// Why there are none; those that were added are dropped.
    fn metrics(&mut self, metrics: &mut PluginMetrics) -> Result<(), String>;

    /// What it shows of its configuration.
    ///
    /// # Errors
    ///
    /// Why there is nothing new to show.
    fn config(&mut self) -> Result<PluginConfig, String>;

    /// Its page for a path and a query, as a client wrote them.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn serve(&mut self, path: &[u8], query: &[u8]) -> Result<PluginPage, String>;

    /// A request has ended.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn request_ended(&mut self, facts: &RequestFacts) -> Result<(), String>;

    /// The server ends.
    fn stop(&mut self);
}

/// Who a plugin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginAbout {
    /// Its name, by which settings, paths and metrics know it.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Where it was loaded from.
    pub path: String,
    /// What it can be asked.
    pub callbacks: PluginCallbacks,
}

/// Which of the callbacks a plugin has that it need not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of names")]
pub struct PluginCallbacks {
    /// [`Plugin::health`].
    pub health: bool,
    /// [`Plugin::metrics`].
    pub metrics: bool,
    /// [`Plugin::config`].
    pub config: bool,
    /// [`Plugin::serve`].
    pub serve: bool,
    /// [`Plugin::request_ended`].
    pub request_ended: bool,
}

/// What there is to know of a request that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The method as sent by the client; empty if it could not be read.
    pub method: String,
    /// The path as sent by the client, without the query; likewise.
    pub path: Vec<u8>,
    /// The protocol version.
    pub protocol: String,
    /// The client's address.
    pub client: String,
    /// The request ID.
    pub request_id: String,
    /// The ID of the trace; empty if there is none.
    pub trace_id: String,
    /// Why it was not admitted; empty if it was.
    pub shed_reason: String,
    /// The status code.
    pub status: u16,
    /// The number of body bytes sent.
    pub response_bytes: u64,
    /// From the first byte of the header to the last write.
    pub duration: Duration,
    /// How long it waited for a worker; `None` if none took it.
    pub queue_wait: Option<Duration>,
}
