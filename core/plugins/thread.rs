//! The thread of a plugin, the only one that calls it.
//!
//! Callbacks run one at a time, each tracked from start to return. Answers are checked before they become visible.
//! `stop` is called once if `init` succeeded. The thread decides nothing about requests, and is joined only when the
//! server ends.

use std::time::Instant;

use svc_types::{HealthReport, Plugin, PluginCall, PluginHealth, RequestFacts};

use crate::sync::idle_workers::Wake;
use crate::sync::primitive::Arc;
use crate::time::Clock;

use super::answers::{PluginConfig, PluginPage};
use super::families::PluginMetrics;
use super::handle::PluginHandle;
use super::health::HealthChange;
use super::inbox::{PluginTurn, PluginWork};
use super::question::{PageOutcome, PluginQuestion};
use super::signal::OneShotEvent;
use super::trouble::TroubleLog;

/// Receives plugin events for the log. Called on any thread; must not block.
pub trait PluginEvents: Send + Sync + std::fmt::Debug {
    /// A callback has returned an error or an invalid answer.
    fn trouble(&self, plugin: &str, call: PluginCall, why: &str);

    /// The health of a plugin has changed.
    fn health_changed(&self, plugin: &str, change: &HealthChange);
}

/// The state of the thread.
pub(super) struct PluginThread {
    pub(super) plugin: Box<dyn Plugin>,
    pub(super) handle: Arc<PluginHandle>,
    /// The names of all plugins.
    pub(super) names: Vec<String>,
    pub(super) events: Arc<dyn PluginEvents>,
    /// Wakes the threads that wait for pages.
    pub(super) waker: Arc<dyn Wake>,
    pub(super) clock: Clock,
    pub(super) trouble: TroubleLog,
}

impl PluginThread {
    /// Initialises the plugin, drops `initialised`, and works until the inbox is closed; `_ended` is dropped at the
    /// end.
    pub(super) fn run(mut self, initialised: OneShotEvent, _ended: OneShotEvent) {
        self.handle.begin(PluginCall::Init, self.now());
        let result = self.plugin.init();
        self.handle.end();
        let has_failed = result.is_err();
        self.handle.initialised(result);
        drop(initialised);
        if has_failed {
            return;
        }
        let (mut is_started, mut turn) = (false, PluginTurn::default());
        loop {
            match self.handle.inbox.next(&mut turn) {
                PluginWork::Start => is_started = self.start(),
                PluginWork::Answer(question) if is_started => self.answer(&question),
                PluginWork::Answer(question) => self.hand_over(&question, PageOutcome::Late),
                PluginWork::Round if is_started => self.ask_round(),
                PluginWork::RequestEnded(facts) if is_started => self.request_ended(&facts),
                PluginWork::Round | PluginWork::RequestEnded(_) => {}
                PluginWork::Stop => break,
            }
        }
        self.call(PluginCall::Stop, |plugin| {
            plugin.stop();
            Ok(())
        });
    }

    fn start(&mut self) -> bool {
        self.handle.begin(PluginCall::Start, self.now());
        let result = self.plugin.start();
        if let Err(why) = &result {
            self.handle.start_failed(why.clone());
        }
        self.handle.end();
        if let Err(why) = &result {
            self.report(PluginCall::Start, why);
            return false;
        }
        // The first answers need not wait for the next second.
        self.ask_round();
        true
    }

    /// Runs the periodic callbacks.
    fn ask_round(&mut self) {
        let callbacks = self.handle.about.callbacks;
        if callbacks.has(PluginCall::Health) {
            self.ask_health();
        }
        if callbacks.has(PluginCall::Metrics) {
            self.ask_metrics();
        }
        if callbacks.has(PluginCall::Config) {
            self.ask_config();
        }
    }

    fn ask_health(&mut self) {
        let mut why = None;
        let report = self.call(PluginCall::Health, |plugin| {
            plugin.health().inspect_err(|error| why = Some(error.clone()))
        });
        let failed = || HealthReport::new(PluginHealth::Failed, why.unwrap_or_default());
        self.handle.answered(report.unwrap_or_else(failed));
    }

    fn ask_metrics(&mut self) {
        let mut metrics = PluginMetrics::new(&self.handle.about.name, &self.names);
        let is_answered = self.call(PluginCall::Metrics, |plugin| plugin.metrics(&mut metrics)).is_some();
        if !is_answered {
            return self.handle.set_families(Vec::new());
        }
        let (families, refused) = metrics.finish();
        self.handle.set_families(families);
        if let Some(why) = refused {
            self.report(PluginCall::Metrics, &why);
        }
    }

    fn ask_config(&mut self) {
        let mut config = None;
        let mut report =
            |json: &[u8]| PluginConfig::checked(json).map(|checked| config = Some(checked.into_object()));
        let is_answered = self.call(PluginCall::Config, |plugin| plugin.config(&mut report)).is_some();
        // After an error, the previous configuration stays.
        if let Some(config) = config.filter(|_| is_answered) {
            self.handle.set_config(config);
        }
    }

    fn answer(&mut self, question: &PluginQuestion) {
        if !question.is_open() {
            return;
        }
        let mut page = None;
        let mut take = |status: i32, content_type: &[u8], body: &[u8]| {
            PluginPage::checked(status, content_type, body.to_vec()).map(|checked| page = Some(checked))
        };
        let (path, query) = (&question.path, &question.query);
        let is_answered =
            self.call(PluginCall::Serve, |plugin| plugin.serve(path, query, &mut take)).is_some();
        let page = page.filter(|_| is_answered);
        self.hand_over(question, page.map_or(PageOutcome::Failed, PageOutcome::Page));
    }

    fn hand_over(&self, question: &PluginQuestion, outcome: PageOutcome) {
        if question.answer(outcome) {
            self.waker.wake();
        }
    }

    fn request_ended(&mut self, facts: &RequestFacts) {
        self.call(PluginCall::RequestEnded, |plugin| plugin.request_ended(facts));
    }

    /// Calls the plugin; counts and reports an error.
    fn call<T>(
        &mut self,
        call: PluginCall,
        act: impl FnOnce(&mut dyn Plugin) -> Result<T, String>,
    ) -> Option<T> {
        self.handle.begin(call, self.now());
        let result = act(&mut *self.plugin);
        self.handle.end();
        result.inspect_err(|why| self.report(call, why)).ok()
    }

    fn report(&mut self, call: PluginCall, why: &str) {
        self.handle.errors.incr();
        if self.trouble.is_news(call, self.now()) {
            self.events.trouble(&self.handle.about.name, call, why);
        }
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }
}
