//! The shared state of one plugin: latest answers, health watch and inbox.
//!
//! Reads never block. While the plugin is late its metrics are absent, so that stale values are not shown as current.
//! Callbacks are called by the plugin's thread only.

use std::time::Instant;

use serde_json::{Map, Value};

use svc_types::{HealthReport, PluginAbout, PluginCall, PluginHealth};

use crate::sync::counter::Counter;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

use super::families::PluginFamily;
use super::health::HealthWatch;
use super::inbox::PluginInbox;

/// One plugin.
#[derive(Debug)]
pub(super) struct PluginHandle {
    pub(super) about: PluginAbout,
    pub(super) inbox: PluginInbox,
    /// Callbacks that returned an error or an invalid answer.
    pub(super) errors: Counter,
    /// Held only to copy or replace a field.
    state: ShortLock<PluginState>,
}

#[derive(Debug)]
struct PluginState {
    watch: HealthWatch,
    init: Option<Result<(), String>>,
    families: Arc<Vec<PluginFamily>>,
    config: Arc<Map<String, Value>>,
}

/// A snapshot of a plugin for the metrics page.
#[derive(Clone, Debug)]
pub struct PluginReading {
    /// The name.
    pub name: String,
    /// The health; `None` if the plugin does not report it.
    pub health: Option<PluginHealth>,
    /// The number of failed callbacks.
    pub errors: u64,
    /// The number of dropped request records; `None` if the plugin does not subscribe to requests.
    pub facts_lost: Option<u64>,
    /// The metrics.
    pub families: Arc<Vec<PluginFamily>>,
}

impl PluginHandle {
    /// Creates the handle of a plugin that has not been called yet.
    pub(super) fn new(about: PluginAbout) -> Self {
        let watch = HealthWatch::new(about.callbacks.has(PluginCall::Health));
        let (families, config) = (Arc::default(), Arc::default());
        let state = ShortLock::new(PluginState { watch, init: None, families, config });
        Self { about, inbox: PluginInbox::new(), errors: Counter::new(), state }
    }

    /// Returns whether the plugin is called when a request has ended.
    pub(super) fn wants_requests(&self) -> bool {
        self.about.callbacks.has(PluginCall::RequestEnded)
    }

    /// Takes a snapshot for the metrics page.
    pub(super) fn reading(&self, now: Instant) -> PluginReading {
        let state = self.state.lock();
        let families = if state.watch.is_late(now) { Arc::default() } else { Arc::clone(&state.families) };
        PluginReading {
            name: self.about.name.clone(),
            health: state.watch.report(now).map(|report| report.health),
            errors: self.errors.value(),
            facts_lost: self.wants_requests().then(|| self.inbox.lost_total()),
            families,
        }
    }

    /// Returns the health; `None` if the plugin does not report it.
    pub(super) fn health(&self, now: Instant) -> Option<PluginHealth> {
        self.state.lock().watch.report(now).map(|report| report.health)
    }

    /// Returns the health, unless the plugin has just started and not answered yet.
    pub(super) fn settled_report(&self, now: Instant) -> Option<HealthReport> {
        self.state.lock().watch.settled_report(now)
    }

    /// Returns whether a page request may wait for this plugin.
    pub(super) fn can_serve(&self, now: Instant) -> bool {
        let watch = &self.state.lock().watch;
        watch.is_started() && !watch.is_late(now)
    }

    /// Returns the plugin's entry in the configuration report.
    pub(super) fn config(&self) -> Map<String, Value> {
        let config = Arc::clone(&self.state.lock().config);
        let mut report = (*config).clone();
        report.insert("version".to_owned(), self.about.version.as_str().into());
        report.insert("path".to_owned(), self.about.path.as_str().into());
        report
    }

    /// Returns the result of `init`; `None` before it has returned.
    pub(super) fn init_result(&self) -> Option<Result<(), String>> {
        self.state.lock().init.clone()
    }

    /// Returns the callback that is running.
    pub(super) fn running(&self) -> Option<PluginCall> {
        self.state.lock().watch.running()
    }
}

/// Updates by the plugin's thread.
impl PluginHandle {
    /// Records the start of a callback.
    pub(super) fn begin(&self, call: PluginCall, now: Instant) {
        self.state.lock().watch.begin(call, now);
    }

    /// Records the return of the callback.
    pub(super) fn end(&self) {
        self.state.lock().watch.end();
    }

    /// Records the result of `init`.
    pub(super) fn initialised(&self, result: Result<(), String>) {
        self.state.lock().init = Some(result);
    }

    /// Records that `start` has returned an error.
    pub(super) fn start_failed(&self, why: String) {
        self.state.lock().watch.start_failed(why);
    }

    /// Records the reported health.
    pub(super) fn answered(&self, report: HealthReport) {
        self.state.lock().watch.answered(report);
    }

    /// Replaces the metrics.
    pub(super) fn set_families(&self, families: Vec<PluginFamily>) {
        let families = Arc::new(families);
        // Free the old value without holding the lock.
        drop(std::mem::replace(&mut self.state.lock().families, families));
    }

    /// Replaces the reported configuration.
    pub(super) fn set_config(&self, config: Map<String, Value>) {
        let config = Arc::new(config);
        drop(std::mem::replace(&mut self.state.lock().config, config));
    }
}
