//! The callbacks of a plugin.
//!
//! All calls come from one thread, one at a time: first `init`, then `start`, then the others in any order, and `stop`
//! last. Implementations need not limit the duration of a call; the caller tracks it.

use std::time::Duration;

use super::answers::{PluginConfig, PluginPage};
use super::families::PluginMetrics;
use super::health::HealthReport;

/// A plugin. Errors are texts for the operator.
pub trait Plugin: Send {
    /// Returns the plugin's identity and capabilities. Must always return the same value.
    fn about(&self) -> PluginAbout;

    /// Initialises the plugin.
    ///
    /// # Errors
    ///
    /// If the server must not start.
    fn init(&mut self) -> Result<(), String>;

    /// Called when the server begins to serve.
    ///
    /// # Errors
    ///
    /// If the plugin cannot work; only `stop` is called afterwards.
    fn start(&mut self) -> Result<(), String>;

    /// Returns the health.
    ///
    /// # Errors
    ///
    /// If the health cannot be determined; counts as failed.
    fn health(&mut self) -> Result<HealthReport, String>;

    /// Adds the plugin's metrics to an empty list.
    ///
    /// # Errors
    ///
    /// If the metrics cannot be collected; those added so far are dropped.
    fn metrics(&mut self, metrics: &mut PluginMetrics) -> Result<(), String>;

    /// Returns the configuration to report.
    ///
    /// # Errors
    ///
    /// If there is none; the previous one stays.
    fn config(&mut self) -> Result<PluginConfig, String>;

    /// Returns the page for a path and a query, both as sent by the client.
    ///
    /// # Errors
    ///
    /// If there is no page.
    fn serve(&mut self, path: &[u8], query: &[u8]) -> Result<PluginPage, String>;

    /// Called when a request has ended.
    ///
    /// # Errors
    ///
    /// If the plugin could not process it.
    fn request_ended(&mut self, facts: &RequestFacts) -> Result<(), String>;

    /// Called when the server stops.
    fn stop(&mut self);
}

/// Identity and capabilities of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginAbout {
    /// The name in settings, paths and metrics.
    pub name: String,
    /// The version of the plugin.
    pub version: String,
    /// The path of its library.
    pub path: String,
    /// The optional callbacks it implements.
    pub callbacks: PluginCallbacks,
}

/// The optional callbacks that a plugin implements.
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

/// The record of a request that has ended.
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
    /// The trace ID; empty if there is none.
    pub trace_id: String,
    /// Why the request was rejected; empty if it was admitted.
    pub shed_reason: String,
    /// The status code.
    pub status: u16,
    /// The number of body bytes sent.
    pub response_bytes: u64,
    /// Time from the first byte of the header to the last write.
    pub duration: Duration,
    /// Time spent waiting for a worker; `None` if no worker took it.
    pub queue_wait: Option<Duration>,
}
