//! A scripted plugin for tests.

use std::os::fd::BorrowedFd;

use svc_types::{
    ConfigSink, HealthReport, MetricSink, PageSink, Plugin, PluginAbout, PluginCall, PluginHealth,
    PluginMetricKind, RequestFacts,
};

use crate::sync::event_count::EventCount;
use crate::sync::idle_workers::Wake;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;
use crate::time;

use super::health::HealthChange;
use super::set::PluginSet;
use super::thread::PluginEvents;

/// The script of a plugin, shared with the test; also records the calls.
#[derive(Clone, Debug, Default)]
pub struct PluginScript(Arc<ScriptShared>);

#[derive(Debug, Default)]
struct ScriptShared {
    state: ShortLock<ScriptState>,
    news: EventCount,
}

#[derive(Debug, Default)]
struct ScriptState {
    calls: Vec<PluginCall>,
    fails: Vec<PluginCall>,
    holds: Vec<PluginCall>,
    troubles: Vec<(PluginCall, String)>,
    config: Vec<u8>,
    metric: Vec<u8>,
}

struct ScriptedPlugin {
    name: String,
    script: PluginScript,
}

#[derive(Debug)]
struct NoWaker;

impl Wake for NoWaker {
    fn wake(&self) {}
}

impl PluginEvents for PluginScript {
    fn trouble(&self, _plugin: &str, call: PluginCall, why: &str) {
        self.0.state.lock().troubles.push((call, why.to_owned()));
    }

    fn health_changed(&self, _plugin: &str, _change: &HealthChange) {}
}

impl PluginScript {
    /// Creates a script for a healthy plugin whose callbacks all succeed.
    pub fn new() -> Self {
        let script = Self::default();
        script.0.state.lock().config = b"{}".to_vec();
        script.0.state.lock().metric = b"answer".to_vec();
        script
    }

    /// Returns a plugin that follows this script.
    pub fn plugin(&self, name: &str) -> Box<dyn Plugin> {
        Box::new(ScriptedPlugin { name: name.to_owned(), script: self.clone() })
    }

    /// Returns a set that contains only this plugin; started, unless `start` is held.
    pub fn started(&self, name: &str) -> Arc<PluginSet> {
        let Ok(set) = self.installed(vec![self.plugin(name)]) else { panic!("the plugin {name} is refused") };
        let set = Arc::new(set);
        set.start();
        if !self.0.state.lock().holds.contains(&PluginCall::Start) {
            self.wait_for(PluginCall::Start, 1);
        }
        set
    }

    /// Returns a set of plugins that has not been started.
    pub fn installed(&self, plugins: Vec<Box<dyn Plugin>>) -> Result<PluginSet, super::PluginStartError> {
        let set = PluginSet::default();
        self.install(&set, plugins, None).map(|()| set)
    }

    /// Installs plugins; aborts once `stop` is readable.
    pub fn install(
        &self,
        set: &PluginSet,
        plugins: Vec<Box<dyn Plugin>>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<(), super::PluginStartError> {
        let (events, waker): (Arc<dyn PluginEvents>, Arc<dyn Wake>) =
            (Arc::new(self.clone()), Arc::new(NoWaker));
        set.install(plugins, &events, &waker, time::now, stop)
    }

    /// Makes this callback return errors.
    pub fn fail(&self, call: PluginCall) {
        self.0.state.lock().fails.push(call);
    }

    /// Blocks this callback until it is released.
    pub fn hold(&self, call: PluginCall) {
        self.0.state.lock().holds.push(call);
    }

    /// Releases all held callbacks, now and in future.
    pub fn release(&self) {
        self.0.state.lock().holds.clear();
        self.0.news.notify_all();
    }

    /// Releases one callback; the others stay held.
    pub fn release_one(&self, call: PluginCall) {
        self.0.state.lock().holds.retain(|held| *held != call);
        self.0.news.notify_all();
    }

    /// Sets the configuration that the plugin returns.
    pub fn configure(&self, json: &[u8]) {
        self.0.state.lock().config = json.to_vec();
    }

    /// Sets the name of the plugin's metric.
    pub fn name_metric(&self, name: &[u8]) {
        self.0.state.lock().metric = name.to_vec();
    }

    /// Returns the number of calls of this callback.
    pub fn count(&self, call: PluginCall) -> usize {
        self.calls().into_iter().filter(|one| *one == call).count()
    }

    /// Returns the calls so far.
    pub fn calls(&self) -> Vec<PluginCall> {
        self.0.state.lock().calls.clone()
    }

    /// Returns the reported errors.
    pub fn troubles(&self) -> Vec<(PluginCall, String)> {
        self.0.state.lock().troubles.clone()
    }

    /// Waits until this callback was called `count` times.
    pub fn wait_for(&self, call: PluginCall, count: usize) {
        self.wait_until(|| self.count(call) >= count);
    }

    fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let ticket = self.0.news.prepare_wait();
            if condition() {
                return self.0.news.cancel_wait(ticket);
            }
            self.0.news.wait(&ticket);
        }
    }

    /// Records the call, blocks while it is held, and fails if scripted.
    fn called(&self, call: PluginCall) -> Result<(), String> {
        self.0.state.lock().calls.push(call);
        self.0.news.notify_all();
        self.wait_until(|| !self.0.state.lock().holds.contains(&call));
        let fails = self.0.state.lock().fails.contains(&call);
        if fails { Err(format!("{} fails", call.as_str())) } else { Ok(()) }
    }
}

impl Plugin for ScriptedPlugin {
    fn about(&self) -> PluginAbout {
        let callbacks = PluginCall::ALL.into_iter().collect();
        let path = format!("/{}.so", self.name);
        PluginAbout { name: self.name.clone(), version: "1.0".to_owned(), path, callbacks }
    }

    fn init(&mut self) -> Result<(), String> {
        self.script.called(PluginCall::Init)
    }

    fn start(&mut self) -> Result<(), String> {
        self.script.called(PluginCall::Start)
    }

    fn health(&mut self) -> Result<HealthReport, String> {
        self.script.called(PluginCall::Health)?;
        Ok(HealthReport::new(PluginHealth::Ok, "well"))
    }

    fn metrics(&mut self, metrics: &mut dyn MetricSink) -> Result<(), String> {
        let name = self.script.0.state.lock().metric.clone();
        // The set reports refusals.
        let _ = metrics.add_family(PluginMetricKind::Gauge, &name, b"An answer.");
        let _ = metrics.add_sample(&[], 42.0);
        self.script.called(PluginCall::Metrics)
    }

    fn config(&mut self, report: &mut ConfigSink<'_>) -> Result<(), String> {
        self.script.called(PluginCall::Config)?;
        let json = self.script.0.state.lock().config.clone();
        report(&json).map_err(|refusal| refusal.why)
    }

    fn serve(&mut self, path: &[u8], query: &[u8], page: &mut PageSink<'_>) -> Result<(), String> {
        self.script.called(PluginCall::Serve)?;
        page(200, b"text/plain", &[path, b"?", query].concat()).map_err(|refusal| refusal.why)
    }

    fn request_ended(&mut self, _facts: &RequestFacts) -> Result<(), String> {
        self.script.called(PluginCall::RequestEnded)
    }

    fn stop(&mut self) {
        let _ = self.script.called(PluginCall::Stop);
    }
}
