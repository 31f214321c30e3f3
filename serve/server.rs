//! The server while it serves, and its end.
//!
//! All threads run, and the control thread ends last. The server handles no signals and does not shut down the
//! interpreter; the process does, after [`wait`](Server::wait) has reported how the pool ended.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use svc_core::config::{Executor, ListenAddr};
use svc_core::limits::THREAD_EXIT_GRACE;
use svc_core::observe::{Event, PluginEvent, ReloadReading};
use svc_core::plugins::PluginCall;
use svc_core::pool::WorkerPool;
use svc_core::sync::primitive::Arc;
use svc_core::time;

use super::lifecycle::Phase;
use super::reload_book::ReloadPool;
use super::shared::Shared;
use crate::control::control_thread::Control;
use crate::control::reload;
use crate::control::thread_handles::ThreadHandles;
use crate::export::exporters::Exporters;
use crate::io_thread::inbox::Message;

/// A server that serves, or drains. [`PreparedServer::serve`](super::PreparedServer::serve) returns it.
#[derive(Debug)]
pub struct Server {
    pub(super) handles: Arc<ThreadHandles>,
    pub(super) control: Control,
    pub(super) io_threads: Vec<JoinHandle<()>>,
    pub(super) exporters: Exporters,
    pub(super) main: Vec<ListenAddr>,
    pub(super) redirect_addr: Option<SocketAddr>,
    pub(super) ops_addr: Option<SocketAddr>,
}

impl Server {
    /// Returns the state that the server's threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.handles.shared
    }

    /// Returns the first address of the main port, with the port number that the system chose for port 0. A main port
    /// with only Unix sockets has the address 0.0.0.0:0.
    pub fn main_addr(&self) -> SocketAddr {
        let first = self.main.iter().find_map(ListenAddr::tcp);
        first.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// Returns the address of the port that redirects to HTTPS.
    pub fn redirect_addr(&self) -> Option<SocketAddr> {
        self.redirect_addr
    }

    /// Returns the address of the operations port, with the port number that the system chose for port 0.
    pub fn ops_addr(&self) -> Option<SocketAddr> {
        self.ops_addr
    }

    /// Reloads everything that can change while the server runs. `renew_code` makes requests and workers that start later
    /// run the code on disk, and returns whether there is any code. Then all workers that keep code are replaced. After
    /// the last of them, the outcome is logged and [reported](Self::reloads). Waits for disks.
    pub fn reload(&self, renew_code: impl FnOnce() -> bool) {
        let handles = &self.handles;
        self.shared().reload.lock().begin();
        handles.service_manager.reload_began();
        self.control.wake();
        let has_code = renew_code();
        self.restart_awaited();
        let notify = || handles.broadcast(|| Message::RulesChanged);
        reload::reload(self.shared(), &handles.site, has_code, notify);
        self.control.wake();
    }

    /// Returns the progress of reloads.
    pub fn reloads(&self) -> ReloadReading {
        self.shared().reload.lock().reading()
    }

    /// Replaces all workers that keep code; the reload ends afterwards.
    fn restart_awaited(&self) {
        let has_begun = |pool| move || self.shared().reload.lock().await_pool(pool);
        self.restart_tasks(has_begun(ReloadPool::Tasks));
        self.restart_persistent_workers(has_begun(ReloadPool::Workers));
    }

    /// Begins the drain; later calls have no effect.
    pub fn drain(&self) {
        let shared = &self.handles.shared;
        if shared.lifecycle.enter(Phase::Draining) {
            let (delay, timeout) = (shared.config.timeouts.drain_delay, shared.config.timeouts.drain);
            self.handles.ended.set_deadline(time::now() + delay + timeout);
            shared.log.emit(&Event::Draining { delay, timeout });
            self.handles.service_manager.stopping(delay, timeout);
            reload::abandon(shared);
        }
        self.control.wake();
    }

    /// Begins to replace all persistent workers and all threads of background tasks, each after a new one has booted, so
    /// that no request is refused. Returns whether there are any: classic workers keep no state that could be out of
    /// date, unless they drive other processes. For tests; [`reload`](Self::reload) includes it.
    pub fn restart_workers(&self) -> bool {
        let has_tasks = self.restart_tasks(|| {});
        self.restart_persistent_workers(|| {}) || has_tasks
    }

    /// Requests the restart of the task threads. Calls `begin` before the pool is notified.
    fn restart_tasks(&self, begin: impl FnOnce()) -> bool {
        let started = self.handles.shared.tasks.as_ref().filter(|tasks| tasks.workers().is_some());
        let Some(tasks) = started else { return false };
        begin();
        tasks.restart_wanted.set();
        self.control.wake();
        true
    }

    fn restart_persistent_workers(&self, begin: impl FnOnce()) -> bool {
        let shared = &self.handles.shared;
        let Some(pool) = shared.backend.pool().filter(|pool| pool.workers().is_some()) else { return false };
        let keeps_code =
            shared.config.php.worker_mode_enabled || shared.config.serving.executor == Executor::Fastcgi;
        if !keeps_code {
            return false;
        }
        begin();
        pool.restart_wanted.set();
        self.control.wake();
        true
    }

    /// Returns the time left for the drain, but at least the grace period for late threads.
    fn time_left(&self) -> Duration {
        self.handles.ended.time_left(time::now()).max(THREAD_EXIT_GRACE)
    }

    /// Stops the plugins within the time left.
    fn end_plugins(&self) {
        let shared = &self.handles.shared;
        for (plugin, call) in shared.plugins.end(self.time_left()) {
            let event = PluginEvent::LeftBehind { callback: call.map_or("", PluginCall::as_str) };
            shared.log.emit(&Event::Plugin(&plugin, event));
        }
    }

    /// Waits until the drain is over; returns whether all threads of the pool have ended. If not, the interpreter must
    /// not be shut down.
    pub fn wait(mut self) -> bool {
        let all_ended = self.handles.ended.wait();
        let shared = &self.handles.shared;
        self.handles.broadcast(|| Message::Stop);
        for thread in std::mem::take(&mut self.io_threads) {
            // A thread that panicked has reported that on standard error.
            let _ = thread.join();
        }
        self.handles.disk.close();
        let all_ended = all_ended
            && shared.backend.workers().is_none_or(WorkerPool::join)
            && shared.tasks.as_ref().is_none_or(|tasks| tasks.join());
        // No request or task is left that waits for the helpers.
        shared.helpers.close();
        // All requests have been recorded, so their spans are in the queue, and the metrics count them.
        self.exporters.finish_spans_and_metrics(time::now() + self.time_left());
        self.end_plugins();
        shared.lifecycle.enter(Phase::Stopped);
        shared.log.emit(&Event::Stopped);
        self.exporters.finish_logs(&shared.log, time::now() + self.time_left());
        self.control.stop();
        all_ended
    }
}
