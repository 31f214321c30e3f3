//! One plugin, as all other threads see it: its last answers, its watch, and its inbox.
//!
//! Promises: reading waits for nothing; what a plugin said long ago is not shown as news: while it is late, its metrics
//! are absent. Refuses: it calls nothing of the plugin; its thread does.

use std::time::Instant;

use serde_json::{Map, Value};

use crate::sync::counter::Counter;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

use super::call::PluginCall;
use super::families::PluginFamily;
use super::health::{HealthReport, HealthWatch, PluginHealth};
use super::inbox::PluginInbox;
use super::plugin::PluginAbout;

/// One plugin.
#[derive(Debug)]
pub(super) struct PluginHandle {
    pub(super) about: PluginAbout,
    pub(super) inbox: PluginInbox,
    /// Callbacks that returned an error, or an answer that is not valid.
    pub(super) errors: Counter,
    /// Locked to copy or replace what is in it.
    state: ShortLock<PluginState>,
}

#[derive(Debug)]
struct PluginState {
    watch: HealthWatch,
    init: Option<Result<(), String>>,
    families: Arc<Vec<PluginFamily>>,
    config: Arc<Map<String, Value>>,
}

/// What there is to read of a plugin at one moment.
#[derive(Clone, Debug)]
pub struct PluginReading {
    /// Its name.
    pub name: String,
    /// How it is; `None` if it does not report that.
    pub health: Option<PluginHealth>,
    /// Callbacks that failed.
    pub errors: u64,
    /// Facts about requests that were dropped; `None` if it does not want any.
    pub facts_lost: Option<u64>,
    /// Its metrics.
    pub families: Arc<Vec<PluginFamily>>,
}

impl PluginHandle {
    /// A plugin that nothing was asked of.
    pub(super) fn new(about: PluginAbout) -> Self {
        let watch = HealthWatch::new(about.callbacks.health);
        let (families, config) = (Arc::default(), Arc::default());
        let state = ShortLock::new(PluginState { watch, init: None, families, config });
        Self { about, inbox: PluginInbox::new(), errors: Counter::new(), state }
    }

    /// Reads everything for a page of metrics.
    pub(super) fn reading(&self, now: Instant) -> PluginReading {
        let state = self.state.lock();
        let families = if state.watch.is_late(now) { Arc::default() } else { Arc::clone(&state.families) };
        PluginReading {
            name: self.about.name.clone(),
            health: state.watch.report(now).map(|report| report.health),
            errors: self.errors.value(),
            facts_lost: self.about.callbacks.request_ended.then(|| self.inbox.lost_total()),
            families,
        }
    }

    /// How it is; `None` if it does not report that.
    pub(super) fn health(&self, now: Instant) -> Option<PluginHealth> {
        self.state.lock().watch.report(now).map(|report| report.health)
    }

    /// How it is, if that is worth a word.
    pub(super) fn news(&self, now: Instant) -> Option<HealthReport> {
        self.state.lock().watch.news(now)
    }

    /// Whether a request for a page may wait for it.
    pub(super) fn can_serve(&self, now: Instant) -> bool {
        let watch = &self.state.lock().watch;
        watch.is_started() && !watch.is_late(now)
    }

    /// What the configuration report shows of it.
    pub(super) fn config(&self) -> Map<String, Value> {
        let config = Arc::clone(&self.state.lock().config);
        let mut report = (*config).clone();
        report.insert("version".to_owned(), self.about.version.as_str().into());
        report.insert("path".to_owned(), self.about.path.as_str().into());
        report
    }

    /// What `init` has returned; `None` if it has not.
    pub(super) fn init_result(&self) -> Option<Result<(), String>> {
        self.state.lock().init.clone()
    }

    /// The call that runs.
    pub(super) fn running(&self) -> Option<PluginCall> {
        self.state.lock().watch.running()
    }
}

/// What the plugin's thread has to tell.
impl PluginHandle {
    /// A call begins.
    pub(super) fn begin(&self, call: PluginCall, now: Instant) {
        self.state.lock().watch.begin(call, now);
    }

    /// The call has returned.
    pub(super) fn end(&self) {
        self.state.lock().watch.end();
    }

    /// `init` has returned.
    pub(super) fn initialised(&self, result: Result<(), String>) {
        self.state.lock().init = Some(result);
    }

    /// `start` has returned an error.
    pub(super) fn start_failed(&self, why: String) {
        self.state.lock().watch.start_failed(why);
    }

    /// It has said how it is.
    pub(super) fn answered(&self, report: HealthReport) {
        self.state.lock().watch.answered(report);
    }

    /// These are its metrics.
    pub(super) fn set_families(&self, families: Vec<PluginFamily>) {
        let families = Arc::new(families);
        // What they replace is freed outside of the section.
        drop(std::mem::replace(&mut self.state.lock().families, families));
    }

    /// This is what it shows of its configuration.
    pub(super) fn set_config(&self, config: Map<String, Value>) {
        let config = Arc::new(config);
        drop(std::mem::replace(&mut self.state.lock().config, config));
    }
}
