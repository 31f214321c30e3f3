//! The schedule of notifications to the service manager.
//!
//! Readiness is reported once, the status every few seconds. In worker mode, the server is ready once a worker has booted
//! the application: a deployment that does not boot is a start that does not end. Watchdog notifications come from the
//! thread that answers probes, so that they end with it. The job sends only through [`ServiceManager`].
//!
//! [`ServiceManager`]: super::service_manager::ServiceManager

use std::time::{Duration, Instant};

use svc_core::observe::Event;
use svc_core::sync::primitive::Arc;

use super::schedule::PeriodicJob;
use super::service_manager::{failed_boot, failed_reload};
use super::thread_handles::ThreadHandles;
use crate::lifecycle::Phase;
use crate::shared::Shared;

/// Reports to the service manager that the server is ready, its status, and that it is alive.
pub(super) struct ServiceManagerJob {
    handles: Arc<ThreadHandles>,
    has_failed: bool,
    beat_due: Instant,
    status_due: Instant,
    /// The last status from before the server was ready.
    first_status: String,
    retry_due: Option<Instant>,
}

impl ServiceManagerJob {
    pub(super) fn new(handles: Arc<ThreadHandles>, now: Instant) -> Self {
        let first_status = String::new();
        Self { handles, has_failed: false, beat_due: now, status_due: now, first_status, retry_due: None }
    }

    /// Queues the messages that the time and the state of the server require, once it runs.
    fn note(&mut self, now: Instant) {
        let ThreadHandles { shared, service_manager, .. } = &*self.handles;
        let is_running = shared.lifecycle.phase() == Phase::Running;
        if is_running && !service_manager.is_told_ready.is_set() {
            if is_ready(shared) {
                service_manager.is_told_ready.set();
                self.status_due = now + STATUS_PAUSE;
                service_manager.notify(&format!("READY=1\nSTATUS={}", status(shared)));
            } else {
                let status = first_status(shared);
                if status != self.first_status {
                    service_manager.notify(&format!("STATUS={status}"));
                    self.first_status = status;
                }
            }
        }
        let reloads = shared.reload.lock().reading();
        if reloads.ended == reloads.begun {
            service_manager.reload_ended(reloads.error.as_deref());
        }
        if is_running && service_manager.is_told_ready.is_set() && now >= self.status_due {
            self.status_due = now + STATUS_PAUSE;
            let failed =
                reloads.error.map(|error| format!(". {}", failed_reload(&error))).unwrap_or_default();
            service_manager.notify(&format!("STATUS={}{failed}", status(shared)));
        }
        if let Some(beat) = service_manager.beat
            && now >= self.beat_due
        {
            self.beat_due = now + beat;
            service_manager.notify("WATCHDOG=1");
        }
    }
}

impl PeriodicJob for ServiceManagerJob {
    fn run(&mut self, now: Instant) {
        if !self.handles.service_manager.is_present() {
            return;
        }
        self.note(now);
        match self.handles.service_manager.flush() {
            Ok(is_empty) => self.retry_due = (!is_empty).then(|| now + RETRY_PAUSE),
            Err(error) => {
                self.retry_due = None;
                if !std::mem::replace(&mut self.has_failed, true) {
                    let what = format!("cannot notify the service manager: {error}");
                    self.handles.shared.log.emit(&Event::Failure { what: &what });
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let beat = self.handles.service_manager.beat.map(|_| self.beat_due);
        beat.into_iter().chain(self.retry_due).min()
    }
}

/// Returns whether a worker takes requests; in worker mode, one must have booted the application.
fn is_ready(shared: &Shared) -> bool {
    let has_booted = || shared.backend.workers().is_some_and(|workers| workers.booted_total() > 0);
    shared.worker_health().can_serve() && (!shared.config.php.worker_mode_enabled || has_booted())
}

/// Returns one line for `systemctl status` while the server is not ready.
fn first_status(shared: &Shared) -> String {
    let failure = shared.boot_failure.lock().clone();
    failure.map_or_else(
        || "Waiting for a PHP worker".to_owned(),
        |failure| failed_boot(&failure.fault.to_string()),
    )
}

/// Returns one line for `systemctl status`.
fn status(shared: &Shared) -> String {
    let pool = shared.pool_facts();
    let waiting = shared.gate_facts().map_or(0, |gate| gate.depth + gate.waiting);
    format!(
        "Serving: {} connections, {} of {} PHP workers busy, {waiting} requests waiting, {} requests since the start",
        shared.metrics.connections.value(),
        pool.busy,
        pool.current,
        shared.metrics.requests_by_method.total(),
    )
}

/// The interval between two status lines.
const STATUS_PAUSE: Duration = Duration::from_secs(10);

/// The time after which a full socket is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
