//! The watchdog rounds: once a second, they check every worker for requests that take too long or have exceeded their
//! time limit.
//!
//! Promises: a thread is inspected only if its request has exceeded the threshold and has not been classified, so that
//! a healthy pool costs one reading and one call of [`Probe::look`] per slot. A client learns that its time limit is
//! over even if its worker is inside a call that does not return. Refuses: it ends nothing; the worker of such a
//! request stays busy until the call returns.

use std::time::{Duration, Instant};

use crate::observe::{Event, Log, WorkerEvent};
use crate::pool::{Inspection, Probe, SlotReading, Watchdog, Workers};
use crate::sync::primitive::Arc;

use super::thread_state;

/// The watchdog and its view of the threads.
#[derive(Debug)]
pub(in crate::serve) struct WatchdogRounds(Watchdog);

impl WatchdogRounds {
    /// Reports requests that are older than `threshold`.
    pub(in crate::serve) fn new(threshold: Duration) -> Self {
        Self(Watchdog::new(threshold))
    }

    /// Checks each slot.
    pub(in crate::serve) fn look(&mut self, workers: &Workers, log: &Log, now: Instant) {
        for reading in workers.slots(now) {
            let slot = reading.slot;
            if let Some(stay) = workers.probe(slot).and_then(|probe| probe.look())
                && let Some(exchange) = workers.exchange(slot, stay)
            {
                // It may have been answered in the meantime.
                let _ = exchange.overrun();
            }
            let held = if reading.is_busy { workers.held(slot, now) } else { Vec::new() };
            let finding = self.0.look(slot, &held, &SlotThread { workers, reading: &reading });
            if finding.is_long {
                workers.note(slot, &finding);
            }
            for (stay, kind) in finding.stuck {
                let exchange = workers.exchange(slot, stay);
                let age = held.iter().find(|one| one.stay == stay).map_or(Duration::ZERO, |one| one.age);
                let request = exchange.as_ref().map(|exchange| &exchange.request);
                log.emit(&Event::Worker(WorkerEvent::Stuck {
                    slot,
                    kind,
                    age,
                    request_id: request.map_or("", |request| &request.request_id),
                    path: request.map_or(b"", |request| request.head.path_and_query().0),
                }));
            }
        }
    }
}

/// The thread of a slot.
struct SlotThread<'a> {
    workers: &'a Workers,
    reading: &'a SlotReading,
}

impl SlotThread<'_> {
    fn probe(&self) -> Option<Arc<dyn Probe>> {
        self.workers.probe(self.reading.slot)
    }
}

impl Inspection for SlotThread<'_> {
    fn is_blocked(&self) -> bool {
        thread_state::is_blocked(self.reading.thread_id)
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

#[cfg(all(test, not(loom)))]
#[path = "watchdog_tests.rs"]
mod tests;
