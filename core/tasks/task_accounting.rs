//! The counters of the tasks: dispatched, and ended in each way.
//!
//! A reading, by any thread at any time, satisfies the laws below. The accounting does not refer to the tasks.

use std::sync::OnceLock;

use svc_types::TaskRejection;

use crate::sync::counter::Flag;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

use super::bounds::TaskLimits;
use super::outcome::TaskEnd;
use super::task_events::TaskEvents;

/// A snapshot of the accounting.
///
/// # Laws
///
/// At any time:
/// - `in_flight()` = `dispatched` − `completed` − `failed` − `cancelled`, never negative and never above `cap`;
/// - `stranded` ≤ `cancelled` + `in_flight()`;
/// - no counter decreases.
///
/// At rest, when no task is in flight: `dispatched` = `completed` + `failed` + `cancelled`, and `stranded` ≤
/// `cancelled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Tasks that were queued.
    pub dispatched: u64,
    /// Tasks that have left their thread with a result.
    pub completed: u64,
    /// Tasks that have left their thread, or the queue, without a result.
    pub failed: u64,
    /// Tasks that have left their thread, or the queue, after they were cancelled.
    pub cancelled: u64,
    /// Dispatches that were rejected because a limit was reached.
    pub rejected: u64,
    /// Tasks that were still running when the call that awaited them gave up.
    pub stranded: u64,
    /// Bytes of output printed by tasks, all discarded.
    pub output_discarded_bytes: u64,
    /// The maximum number of tasks in flight.
    pub cap: u64,
}

impl TaskCounts {
    /// Returns the number of tasks that are queued or running.
    pub fn in_flight(&self) -> u64 {
        self.dispatched - self.completed - self.failed - self.cancelled
    }

    /// Returns the law that the snapshot violates, if any.
    pub fn broken_law(&self) -> Option<&'static str> {
        let ended = self.completed + self.failed + self.cancelled;
        if ended > self.dispatched {
            Some("more have ended than were dispatched")
        } else if self.in_flight() > self.cap {
            Some("more are in flight than may be")
        } else if self.stranded > self.cancelled + self.in_flight() {
            Some("a stranded task has ended otherwise than cancelled")
        } else {
            None
        }
    }
}

/// The state shared by all tasks of a pool: the accounting, its limits, and the listener for detached tasks.
///
/// One lock protects all counters that the laws relate, so that no snapshot contains half of a change.
#[derive(Debug)]
pub struct TaskAccounting {
    /// Held only to compare and change, or to copy, a few numbers.
    ledger: ShortLock<Ledger>,
    queue_capacity: u64,
    /// Set when a queued task gets its outcome; cleared when the queue is swept.
    stale: Flag,
    /// Set once, before the first task that could be reported.
    events: OnceLock<Arc<dyn TaskEvents>>,
}

#[derive(Debug)]
struct Ledger {
    counts: TaskCounts,
    /// Tasks in the queue, or about to be pushed.
    queued: u64,
    is_closed: bool,
}

impl TaskAccounting {
    /// Records that a queued task has its outcome.
    pub(super) fn note_stale(&self) {
        self.stale.set();
    }

    /// Returns whether such a task was recorded, and clears the record.
    pub(super) fn take_stale(&self) -> bool {
        let is_stale = self.stale.is_set();
        // Cleared before the sweep: a task recorded from now on sets it again.
        self.stale.clear();
        is_stale
    }

    /// Creates the accounting of a pool.
    pub(super) fn new(limits: TaskLimits) -> Self {
        let counts = TaskCounts { cap: limits.in_flight_cap as u64, ..TaskCounts::default() };
        Self {
            ledger: ShortLock::new(Ledger { counts, queued: 0, is_closed: false }),
            queue_capacity: limits.queue_capacity as u64,
            stale: Flag::new(),
            events: OnceLock::new(),
        }
    }

    /// Takes a snapshot.
    pub fn counts(&self) -> TaskCounts {
        self.ledger.lock().counts
    }

    /// Counts a task that is about to be queued; returns its number, from 1. Counts it as rejected instead if it
    /// exceeds a limit.
    pub(super) fn admit(&self) -> Result<u64, TaskRejection> {
        let mut ledger = self.ledger.lock();
        if ledger.is_closed {
            return Err(TaskRejection::Closed);
        }
        let cap = ledger.counts.cap;
        if ledger.counts.in_flight() >= cap {
            ledger.counts.rejected += 1;
            return Err(TaskRejection::InFlight { cap: cap as usize });
        }
        if ledger.queued >= self.queue_capacity {
            ledger.counts.rejected += 1;
            return Err(TaskRejection::Queue { capacity: self.queue_capacity as usize });
        }
        ledger.queued += 1;
        ledger.counts.dispatched += 1;
        Ok(ledger.counts.dispatched)
    }

    /// Returns whether a task would be rejected now.
    pub(super) fn is_full(&self) -> bool {
        let ledger = self.ledger.lock();
        ledger.counts.in_flight() >= ledger.counts.cap || ledger.queued >= self.queue_capacity
    }

    /// Records that a task was taken off the queue.
    pub(super) fn taken(&self) {
        let mut ledger = self.ledger.lock();
        debug_assert!(ledger.queued > 0, "nothing was queued");
        ledger.queued -= 1;
    }

    /// Rejects all further tasks.
    pub(super) fn close(&self) {
        self.ledger.lock().is_closed = true;
    }

    /// Returns whether all further tasks are rejected.
    pub(super) fn is_closed(&self) -> bool {
        self.ledger.lock().is_closed
    }

    /// Counts a task that has left its thread or the queue.
    pub(super) fn leave(&self, end: TaskEnd) {
        let mut ledger = self.ledger.lock();
        let counts = &mut ledger.counts;
        match end {
            TaskEnd::Completed => counts.completed += 1,
            TaskEnd::Failed => counts.failed += 1,
            TaskEnd::Cancelled => counts.cancelled += 1,
        }
        debug_assert_eq!(counts.broken_law(), None, "{counts:?}");
    }

    /// Counts a running task as stranded; it is in flight and will be counted as cancelled.
    pub(super) fn strand(&self) {
        self.ledger.lock().counts.stranded += 1;
    }

    /// Counts discarded output.
    pub(super) fn discard_output(&self, bytes: u64) {
        self.ledger.lock().counts.output_discarded_bytes += bytes;
    }

    pub(super) fn set_events(&self, events: Arc<dyn TaskEvents>) {
        // The first call wins.
        let _ = self.events.set(events);
    }

    pub(super) fn events(&self) -> Option<&dyn TaskEvents> {
        self.events.get().map(|events| &**events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounting(in_flight_cap: usize, queue_capacity: usize) -> TaskAccounting {
        TaskAccounting::new(TaskLimits {
            workers: 1,
            fibers_max: in_flight_cap,
            queue_capacity,
            in_flight_cap,
        })
    }

    #[test]
    fn a_task_holds_its_place_in_the_queue_until_it_is_taken_and_under_the_cap_until_it_leaves() {
        let accounting = accounting(3, 2);
        assert_eq!((accounting.admit(), accounting.admit()), (Ok(1), Ok(2)));
        assert_eq!(accounting.admit(), Err(TaskRejection::Queue { capacity: 2 }));
        accounting.taken();
        assert_eq!(accounting.admit(), Ok(3));
        accounting.taken();
        assert_eq!(accounting.admit(), Err(TaskRejection::InFlight { cap: 3 }));
        accounting.leave(TaskEnd::Completed);
        assert_eq!(accounting.admit(), Ok(4));
        let counts = accounting.counts();
        assert_eq!((counts.dispatched, counts.rejected, counts.in_flight()), (4, 2, 3));
    }

    #[test]
    fn closed_books_refuse_and_do_not_count_it() {
        let accounting = accounting(3, 2);
        accounting.close();
        assert_eq!(accounting.admit(), Err(TaskRejection::Closed));
        assert_eq!(accounting.counts(), TaskCounts { cap: 3, ..TaskCounts::default() });
    }

    #[test]
    fn each_end_has_its_count() {
        let accounting = accounting(3, 3);
        for (end, counted) in
            [(TaskEnd::Completed, [1, 0, 0]), (TaskEnd::Failed, [1, 1, 0]), (TaskEnd::Cancelled, [1, 1, 1])]
        {
            assert!(accounting.admit().is_ok());
            accounting.taken();
            accounting.leave(end);
            let counts = accounting.counts();
            assert_eq!([counts.completed, counts.failed, counts.cancelled], counted);
            assert_eq!(counts.in_flight(), 0);
        }
    }

    #[test]
    fn each_law_can_be_broken() {
        let lawful = TaskCounts {
            dispatched: 5,
            completed: 1,
            failed: 1,
            cancelled: 1,
            cap: 2,
            ..TaskCounts::default()
        };
        assert_eq!(lawful.broken_law(), None);
        assert!(TaskCounts { completed: 4, ..lawful }.broken_law().is_some());
        assert!(TaskCounts { cap: 1, ..lawful }.broken_law().is_some());
        assert_eq!(TaskCounts { stranded: 3, ..lawful }.broken_law(), None);
        assert!(TaskCounts { stranded: 4, ..lawful }.broken_law().is_some());
    }
}
