//! The state of a worker, as shown to operators.

use crate::pool::{STUCK_THRESHOLD, SlotPhase, SlotReading, WorkerOrder};

/// The kind of jobs that a worker runs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum JobKind {
    Requests,
    Tasks,
}

/// Returns the state of the worker in a slot; the worst state takes precedence.
pub(super) fn worker_state(slot: &SlotReading, kind: JobKind) -> &'static str {
    // A task that waits does not hold up its worker.
    let is_old = slot
        .oldest
        .is_some_and(|job| job.age >= STUCK_THRESHOLD && !(kind == JobKind::Tasks && job.is_parked));
    match slot.phase {
        SlotPhase::Vacant => "none",
        SlotPhase::Booting => "booting",
        SlotPhase::Serving if is_old => "stuck",
        SlotPhase::Serving if slot.order != WorkerOrder::Serve || slot.leaving_for.is_some() => "leaving",
        SlotPhase::Serving if slot.is_busy => "busy",
        // All of its jobs in flight are answered.
        SlotPhase::Serving if slot.fibers > 0 => "answered",
        SlotPhase::Serving => "idle",
    }
}
