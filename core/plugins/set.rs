//! All plugins of the server.
//!
//! ```text
//!   empty ──install──▶ initialised ──start──▶ serving (tick, ask, request_ended) ──end──▶ ended, or left behind
//!              └──error, or a stop signal──▶ ended, or left behind
//! ```
//!
//! Only `install` and `end` wait for a plugin, and both have time limits. Names are unique. This module knows no HTTP
//! and writes no log.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use svc_types::{Plugin, PluginAbout, PluginCall, PluginHealth, RequestFacts};

use crate::config::is_plugin_name;
use crate::limits::{PLUGIN_INIT_TIMEOUT, PLUGIN_PAGE_TIMEOUT, PLUGIN_STACK_BYTES, THREAD_EXIT_GRACE};
use crate::sync::idle_workers::Wake;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, ThreadBuilder};
use crate::time::{self, Clock};

use super::handle::{PluginHandle, PluginReading};
use super::health::HealthChanges;
use super::question::{PageOutcome, PluginQuestion};
use super::signal::{OneShotEventWatch, WaitEnd, is_stop_wanted, one_shot_event};
use super::thread::{PluginEvents, PluginThread};
use super::trouble::TroubleLog;

/// All plugins; empty until they are installed.
#[derive(Debug, Default)]
pub struct PluginSet {
    installed: OnceLock<InstalledPlugins>,
    /// The plugins of a failed installation; those that were initialised have been stopped.
    abandoned: OnceLock<Vec<RunningPlugin>>,
}

#[derive(Debug)]
struct InstalledPlugins {
    plugins: Vec<RunningPlugin>,
    wants_requests: bool,
    events: Arc<dyn PluginEvents>,
    clock: Clock,
}

#[derive(Debug)]
struct RunningPlugin {
    handle: Arc<PluginHandle>,
    changes: ShortLock<HealthChanges>,
    ended: OneShotEventWatch,
}

/// Why plugins prevent the start of the server.
#[derive(Debug)]
pub enum PluginStartError {
    /// `init` has returned an error.
    Init {
        /// The name of the plugin.
        name: String,
        /// The error.
        why: String,
    },
    /// `init` has not returned in time.
    InitTimeout {
        /// The name of the plugin.
        name: String,
    },
    /// A name that is not valid in paths, settings and metrics.
    Name(String),
    /// Two plugins have the same name.
    SameName(String),
    /// The server was asked to stop during the installation.
    Stopped,
    /// The system could not create a thread or its pipes.
    System(io::Error),
}

/// The outcome of [`PluginSet::ask`].
#[derive(Debug)]
pub enum PluginAsked {
    /// There is no such plugin, or it serves no pages.
    Unknown,
    /// It is not working, has too many pending requests, or is stopping.
    Unavailable,
    /// The request is queued.
    Asked(PageTicket),
}

/// A claim to an answer; dropping it abandons the request.
#[derive(Debug)]
pub struct PageTicket {
    question: Arc<PluginQuestion>,
    handle: Arc<PluginHandle>,
    until: Instant,
}

impl PluginSet {
    /// Starts a thread for each plugin and initialises the plugins one after the other. `waker` wakes the owner of a
    /// [`PageTicket`] when its answer is ready. Returns early once `stop` is readable. Must be called at most once.
    ///
    /// # Errors
    ///
    /// If the server must not start; the plugins initialised so far have been stopped. One whose `init` has not
    /// returned is left behind ([`end`](Self::end)).
    pub fn install(
        &self,
        plugins: Vec<Box<dyn Plugin>>,
        events: &Arc<dyn PluginEvents>,
        waker: &Arc<dyn Wake>,
        clock: Clock,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<(), PluginStartError> {
        let names: Vec<String> = plugins.iter().map(|plugin| plugin.about().name).collect();
        check_names(&names)?;
        let mut running: Vec<RunningPlugin> = Vec::new();
        let mut initialise = |plugin: Box<dyn Plugin>| {
            // Start nothing that may take long once a stop was requested.
            if is_stop_wanted(stop) {
                return Err(PluginStartError::Stopped);
            }
            let (events, waker, names) = (Arc::clone(events), Arc::clone(waker), names.clone());
            let handle = Arc::new(PluginHandle::new(plugin.about()));
            let (own, trouble) = (Arc::clone(&handle), TroubleLog::default());
            let thread = PluginThread { plugin, handle: own, names, events, waker, clock, trouble };
            let (plugin, initialised) = launch(thread, Arc::clone(&handle))?;
            running.push(plugin);
            wait_for_init(&handle, &initialised, stop)
        };
        let mut outcome = plugins.into_iter().try_for_each(&mut initialise);
        if outcome.is_ok() && is_stop_wanted(stop) {
            outcome = Err(PluginStartError::Stopped);
        }
        if let Err(error) = outcome {
            self.abandon(running, &error);
            return Err(error);
        }
        let wants_requests = running.iter().any(|plugin| plugin.handle.wants_requests());
        let events = Arc::clone(events);
        let installed = InstalledPlugins { plugins: running, wants_requests, events, clock };
        let is_first = self.installed.set(installed).is_ok();
        debug_assert!(is_first, "installed twice");
        Ok(())
    }

    /// Stops the plugins that were initialised, and keeps them all for [`end`](Self::end).
    fn abandon(&self, mut running: Vec<RunningPlugin>, error: &PluginStartError) {
        // The plugin whose `init` is still running is not waited for.
        let hangs = matches!(error, PluginStartError::InitTimeout { .. } | PluginStartError::Stopped);
        let hanging = running.pop_if(|last| hangs && last.handle.init_result().is_none());
        end(&running, THREAD_EXIT_GRACE);
        running.extend(hanging);
        let is_first = self.abandoned.set(running).is_ok();
        debug_assert!(is_first, "installed twice");
    }

    /// Returns whether there are no plugins.
    pub fn is_empty(&self) -> bool {
        self.plugins().next().is_none()
    }

    /// Starts the plugins; called when the server begins to serve.
    pub fn start(&self) {
        self.plugins().for_each(|plugin| plugin.handle.inbox.start());
    }

    /// Requests a round of callbacks from each plugin, and reports changes of health. Called once a second.
    pub fn tick(&self, now: Instant) {
        let Some(installed) = self.installed.get() else { return };
        for plugin in &installed.plugins {
            plugin.handle.inbox.order_round();
            let report = plugin.handle.settled_report(now);
            let change = plugin.changes.lock().step(report);
            if let Some(change) = change {
                installed.events.health_changed(&plugin.handle.about.name, &change);
            }
        }
    }

    /// Returns whether any plugin has a `request_ended` callback.
    #[inline]
    pub fn wants_requests(&self) -> bool {
        self.installed.get().is_some_and(|installed| installed.wants_requests)
    }

    /// Passes the record of a request to the plugins that subscribe to it.
    pub fn request_ended(&self, facts: RequestFacts) {
        let facts = Arc::new(facts);
        for plugin in self.plugins().filter(|plugin| plugin.handle.wants_requests()) {
            plugin.handle.inbox.push_facts(Arc::clone(&facts));
        }
    }

    /// Returns whether there is a plugin `name` that serves pages.
    pub fn has_pages(&self, name: &[u8]) -> bool {
        self.with_pages(name).is_some()
    }

    /// Requests a page from the plugin `name`.
    pub fn ask(&self, name: &[u8], path: &[u8], query: &[u8], now: Instant) -> PluginAsked {
        let Some(handle) = self.with_pages(name) else { return PluginAsked::Unknown };
        if !handle.can_serve(now) {
            return PluginAsked::Unavailable;
        }
        let question = Arc::new(PluginQuestion::new(path, query));
        if !handle.inbox.ask(Arc::clone(&question)) {
            return PluginAsked::Unavailable;
        }
        let until = now + PLUGIN_PAGE_TIMEOUT;
        PluginAsked::Asked(PageTicket { question, handle: Arc::clone(handle), until })
    }

    /// Returns the health of each plugin that reports it.
    pub fn health(&self) -> Vec<(String, PluginHealth)> {
        let Some(installed) = self.installed.get() else { return Vec::new() };
        let now = (installed.clock)();
        let handles = installed.plugins.iter().map(|plugin| &plugin.handle);
        handles.filter_map(|handle| Some((handle.about.name.clone(), handle.health(now)?))).collect()
    }

    /// Returns whether a plugin has failed.
    pub fn has_failed(&self) -> bool {
        self.installed.get().is_some_and(|installed| {
            let now = (installed.clock)();
            let mut healths = installed.plugins.iter().map(|plugin| plugin.handle.health(now));
            healths.any(|health| health == Some(PluginHealth::Failed))
        })
    }

    /// Takes a snapshot of each plugin for the metrics page.
    pub fn readings(&self) -> Vec<PluginReading> {
        let Some(installed) = self.installed.get() else { return Vec::new() };
        let now = (installed.clock)();
        installed.plugins.iter().map(|plugin| plugin.handle.reading(now)).collect()
    }

    /// Returns the plugins' entries in the configuration report.
    pub fn config(&self) -> Map<String, Value> {
        let handles = self.plugins().map(|plugin| &plugin.handle);
        handles.map(|handle| (handle.about.name.clone(), handle.config().into())).collect()
    }

    /// Returns name, version and path of each installed plugin.
    pub fn abouts(&self) -> impl Iterator<Item = &PluginAbout> {
        self.plugins().map(|plugin| &plugin.handle.about)
    }

    /// Stops all plugins and waits up to `timeout` for them to end; returns those still running, each with its current
    /// callback. Later calls, and calls after a failed installation, only check again.
    pub fn end(&self, timeout: Duration) -> Vec<(String, Option<PluginCall>)> {
        match (self.installed.get(), self.abandoned.get()) {
            (Some(installed), _) => end(&installed.plugins, timeout),
            (None, Some(abandoned)) => end(abandoned, Duration::ZERO),
            (None, None) => Vec::new(),
        }
    }

    fn with_pages(&self, name: &[u8]) -> Option<&Arc<PluginHandle>> {
        let mut handles = self.plugins().map(|plugin| &plugin.handle);
        handles.find(|handle| {
            handle.about.name.as_bytes() == name && handle.about.callbacks.has(PluginCall::Serve)
        })
    }

    fn plugins(&self) -> impl Iterator<Item = &RunningPlugin> {
        self.installed.get().into_iter().flat_map(|installed| &installed.plugins)
    }
}

impl PageTicket {
    /// Returns the outcome of the request; `None` while it is pending.
    pub fn poll(&self, now: Instant) -> Option<PageOutcome> {
        let answer = self.question.take();
        answer.or_else(|| (now >= self.until || !self.handle.can_serve(now)).then_some(PageOutcome::Late))
    }

    /// Returns the deadline of the request.
    pub fn until(&self) -> Instant {
        self.until
    }
}

impl Drop for PageTicket {
    fn drop(&mut self) {
        self.question.give_up();
    }
}

impl fmt::Display for PluginStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Init { name, why } => write!(f, "plugin {name}: init failed: {why}"),
            Self::InitTimeout { name } => {
                write!(f, "plugin {name}: init has not returned within {} s", PLUGIN_INIT_TIMEOUT.as_secs())
            }
            Self::Name(name) => {
                write!(f, "plugin {name:?}: this is not a name of lower-case letters, digits and underscores")
            }
            Self::SameName(name) => write!(f, "plugin {name}: another plugin has the same name"),
            Self::Stopped => f.write_str("the server is to stop"),
            Self::System(error) => write!(f, "cannot create the thread of a plugin: {error}"),
        }
    }
}

impl std::error::Error for PluginStartError {}

impl From<io::Error> for PluginStartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn check_names(names: &[String]) -> Result<(), PluginStartError> {
    for (index, name) in names.iter().enumerate() {
        if !is_plugin_name(name) {
            return Err(PluginStartError::Name(name.clone()));
        }
        if names[..index].contains(name) {
            return Err(PluginStartError::SameName(name.clone()));
        }
    }
    Ok(())
}

/// Starts the plugin's thread, which initialises it.
fn launch(
    thread: PluginThread,
    handle: Arc<PluginHandle>,
) -> Result<(RunningPlugin, OneShotEventWatch), PluginStartError> {
    let (initialising, initialised) = one_shot_event()?;
    let (ending, ended) = one_shot_event()?;
    ThreadBuilder::new()
        .name(format!("svc-plugin-{}", handle.about.name))
        .stack_size(PLUGIN_STACK_BYTES)
        .spawn(move || thread.run(initialising, ending))?;
    Ok((RunningPlugin { handle, changes: ShortLock::default(), ended }, initialised))
}

/// Waits until the plugin is initialised or `stop` is readable.
fn wait_for_init(
    handle: &PluginHandle,
    initialised: &OneShotEventWatch,
    stop: Option<BorrowedFd<'_>>,
) -> Result<(), PluginStartError> {
    let name = handle.about.name.clone();
    match initialised.wait_unless(stop, PLUGIN_INIT_TIMEOUT) {
        WaitEnd::Come => {}
        WaitEnd::GivenUp => return Err(PluginStartError::Stopped),
        WaitEnd::Late => return Err(PluginStartError::InitTimeout { name }),
    }
    match handle.init_result() {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => Err(PluginStartError::Init { name, why }),
        None => Err(PluginStartError::Init { name, why: "it panicked".to_owned() }),
    }
}

/// Stops the plugins; `timeout` limits the wait for all of them together.
fn end(plugins: &[RunningPlugin], timeout: Duration) -> Vec<(String, Option<PluginCall>)> {
    plugins.iter().for_each(|plugin| plugin.handle.inbox.close());
    let until = time::now().checked_add(timeout);
    let left = || until.map_or(Duration::MAX, |until| until.saturating_duration_since(time::now()));
    let is_left = |plugin: &&RunningPlugin| !plugin.ended.wait(left());
    let left = plugins.iter().filter(is_left).map(|plugin| &plugin.handle);
    left.map(|handle| (handle.about.name.clone(), handle.running())).collect()
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
