//! The watchdog rounds: once a second, they check every worker for requests that take too long or have exceeded their
//! time limit.
//!
//! A thread is inspected only when its request is too old and not classified yet, so that a healthy pool costs a
//! reading and a call of [`ThreadProbe::tick`] for each slot; a client gets the answer of its time limit even if its
//! worker is inside a call that does not return. The watchdog ends nothing; the worker of such a request stays busy
//! until the call returns.

use std::time::{Duration, Instant};

use svc_core::observe::{Event, Log, WorkerEvent};
use svc_core::pool::{Exchange, Inspection, Job, SlotReading, StuckKind, ThreadProbe, Watchdog, WorkerPool};
use svc_core::sync::primitive::Arc;
use svc_core::tasks::{Task, TaskOutcome};

use super::thread_state;

/// The watchdog and its view of the threads.
#[derive(Debug)]
pub(crate) struct WatchdogRounds(Watchdog);

impl WatchdogRounds {
    /// Reports requests that are older than `threshold`.
    pub(crate) fn new(threshold: Duration) -> Self {
        Self(Watchdog::new(threshold))
    }

    /// Checks each slot. Answers requests whose time limit has expired on behalf of their workers, and logs requests
    /// that hold up a worker.
    pub(crate) fn tick(&mut self, workers: &WorkerPool<Exchange>, log: &Log, now: Instant) {
        self.tick_each(workers, now, |found| match found {
            SlotFinding::Overdue(exchange) => {
                // The worker may just have answered it.
                let _ = exchange.overrun();
            }
            SlotFinding::Stuck { slot, kind, age, job, .. } => {
                let request = job.as_ref().map(|exchange| &exchange.request);
                log.emit(&Event::Worker(WorkerEvent::Stuck {
                    slot,
                    kind,
                    age,
                    request_id: request.map_or("", |request| &request.request_id),
                    path: request.map_or(b"", |request| request.head.path_and_query().0),
                }));
            }
        });
    }

    /// Like [`tick`](Self::tick), for the threads of background tasks. A task that waits does not hold up its thread,
    /// however old it is.
    pub(crate) fn tick_tasks(&mut self, workers: &WorkerPool<Task>, log: &Log, now: Instant) {
        self.tick_each(workers, now, |found| match found {
            SlotFinding::Overdue(task) => {
                // It may just have settled.
                let _ = task.settle(TaskOutcome::Lost("its time limit has expired"));
            }
            SlotFinding::Stuck { is_parked: true, .. } => {}
            SlotFinding::Stuck { slot, kind, age, job, .. } => {
                let (task, request_id) = job.as_ref().map_or((0, ""), |task| (task.id(), task.request_id()));
                log.emit(&Event::Worker(WorkerEvent::TaskStuck { slot, kind, age, task, request_id }));
            }
        });
    }

    /// Checks each slot, independently of the type of its jobs.
    fn tick_each<J: Job>(
        &mut self,
        workers: &WorkerPool<J>,
        now: Instant,
        mut on: impl FnMut(SlotFinding<J>),
    ) {
        for reading in workers.slots(now) {
            let slot = reading.slot;
            if let Some(serial) = workers.probe(slot).and_then(|probe| probe.tick())
                && let Some(job) = workers.job(slot, serial)
            {
                on(SlotFinding::Overdue(job));
            }
            let held = if reading.is_busy { workers.held(slot, now) } else { Vec::new() };
            let finding = self.0.tick(slot, &held, &InspectedThread { workers, reading: &reading });
            if finding.is_long {
                workers.note(slot, &finding);
            }
            for (serial, kind) in finding.stuck {
                let one = held.iter().find(|one| one.serial == serial);
                let (age, is_parked) = one.map_or((Duration::ZERO, false), |one| (one.age, one.is_parked));
                on(SlotFinding::Stuck { slot, kind, age, is_parked, job: workers.job(slot, serial) });
            }
        }
    }
}

/// The finding of a check of a slot.
enum SlotFinding<J> {
    /// The time limit of this job has expired, and its worker has not reacted.
    Overdue(Arc<J>),
    /// A job holds up its worker.
    Stuck {
        slot: usize,
        kind: StuckKind,
        age: Duration,
        is_parked: bool,
        /// The job, unless it has ended since.
        job: Option<Arc<J>>,
    },
}

/// The thread of a slot.
struct InspectedThread<'a, J> {
    workers: &'a WorkerPool<J>,
    reading: &'a SlotReading,
}

impl<J: Job> InspectedThread<'_, J> {
    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        self.workers.probe(self.reading.slot)
    }
}

impl<J: Job> Inspection for InspectedThread<'_, J> {
    fn is_blocked(&self) -> bool {
        let elsewhere = self.probe().and_then(|probe| probe.sleeps());
        elsewhere.unwrap_or_else(|| thread_state::is_blocked(self.reading.thread_id))
    }

    fn ask(&self) {
        if let Some(probe) = self.probe() {
            probe.ask();
        }
    }

    fn is_answered(&self) -> bool {
        self.probe().is_some_and(|probe| probe.is_answered())
    }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
