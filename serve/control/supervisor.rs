//! The supervision of the PHP pool on the control thread: the reports of the [`Supervisor`] are logged and counted.
//!
//! The supervisor is called when work finds no idle worker, when a worker has booted, and when one has failed. It
//! decides nothing; the pool's state machines do.

use std::time::{Duration, Instant};

use svc_core::config::PhpConfig;
use svc_core::observe::{BootFailure, Event, WorkerEvent};
use svc_core::pool::{PoolSize, Supervisor, SupervisorEvents, SupervisorReport};
use svc_core::time;

use super::reload;
use crate::reload_book::ReloadPool;
use crate::shared::Shared;

/// The supervisor, and the destination of its reports.
#[derive(Debug)]
pub(crate) struct Supervision(Supervisor);

impl Supervision {
    /// Makes the supervisor that `config` requires.
    pub(crate) fn new(config: &PhpConfig) -> Self {
        let size = PoolSize { min: config.workers.min, max: config.workers.max };
        Self(Supervisor::new(size, config.workers_idle))
    }

    /// Takes the actions that the state of the pool requires; returns when to call again, if that is known.
    pub(crate) fn tend(&mut self, shared: &Shared, now: Instant) -> Option<Instant> {
        let pool = shared.backend.pool()?;
        let workers = pool.workers()?;
        if pool.restart_wanted.is_set() {
            pool.restart_wanted.clear();
            shared.reload.lock().pool_begins(ReloadPool::Workers);
            self.0.want_restart();
        }
        let due = self.0.tend(workers, &mut |report| record(shared, report), now);
        let events = self.0.take_events();
        if shared.config.php.worker_mode_enabled {
            note_boots(shared, &events);
        }
        if let Some(outcome) = events.restart {
            reload::pool_replaced(shared, ReloadPool::Workers, outcome);
        }
        due
    }
}

/// The supervisor of the threads of background tasks, and the destination of its reports.
#[derive(Debug)]
pub(crate) struct TaskSupervision(Supervisor);

impl TaskSupervision {
    /// Makes the supervisor of a pool of this size, which never shrinks.
    pub(crate) fn new(size: PoolSize) -> Self {
        Self(Supervisor::new(size, Duration::MAX))
    }

    /// Takes the actions that the state of the pool requires; returns when to call again, if that is known.
    pub(crate) fn tend(&mut self, shared: &Shared, now: Instant) -> Option<Instant> {
        let tasks = shared.tasks.as_ref()?;
        let workers = tasks.workers()?;
        if tasks.restart_wanted.is_set() {
            tasks.restart_wanted.clear();
            shared.reload.lock().pool_begins(ReloadPool::Tasks);
            self.0.want_restart();
        }
        tasks.sweep();
        let log = |report: SupervisorReport<'_>| {
            note_delay(shared, report);
            shared.log.emit(&Event::Worker(WorkerEvent::TaskThreads(report)));
        };
        let due = self.0.tend(workers, &mut |report| log(report), now);
        if let Some(outcome) = self.0.take_events().restart {
            reload::pool_replaced(shared, ReloadPool::Tasks, outcome);
        }
        due
    }
}

/// Logs a report, and sets the gauge for a delayed renewal.
fn record(shared: &Shared, report: SupervisorReport<'_>) {
    note_delay(shared, report);
    shared.log.emit(&Event::Worker(WorkerEvent::Supervised(report)));
}

/// Notes whether persistent workers boot. Failures count as later than boots in the same `events`.
fn note_boots(shared: &Shared, events: &SupervisorEvents) {
    let mut known = shared.boot_failure.lock();
    if events.has_booted {
        *known = None;
        shared.metrics.worker_boot_failing.clear();
    }
    for fault in &events.failures {
        *known = Some(BootFailure::after(known.as_ref(), fault.clone(), time::wall()));
        shared.metrics.worker_boot_failures.incr();
        shared.metrics.worker_boot_failing.set();
    }
}

fn note_delay(shared: &Shared, report: SupervisorReport<'_>) {
    if let SupervisorReport::RenewalDelayed { .. } = report {
        shared.metrics.opcache_restart_delayed.set();
    }
}
