//! The context of a worker: where it gets its jobs, and where it reports what it does.
//!
//! A claimed job is run by no other worker; a worker with jobs in flight leaves new ones to an idle worker; every claim
//! ends with a settled job, which is counted once. The context runs no job and never waits (a persistent worker waits
//! in its own reactor).

use std::cell::Cell;
use std::time::Instant;

use crate::sync::idle_workers::Capacity;
use crate::sync::primitive::{Arc, Ordering};
use crate::time;

use super::job::Job;
use super::slot::{InFlight, Slot, WorkerOrder};
use super::state::PoolState;

/// The connection of one worker to its pool. It never leaves the worker's thread.
#[derive(Debug)]
pub struct WorkerContext<J> {
    shared: Arc<PoolState<J>>,
    slot: usize,
    /// Whether the worker has asked to be replaced.
    is_closed: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerCondition {
    /// It takes the next job.
    Sound,
    /// It has run the job, but cannot run another one.
    Spent,
    /// The engine panicked during the job.
    Broken,
}

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Take work.
    Serve,
    /// Take no more jobs, let those in flight finish, and return.
    Drain,
    /// Return now: the pool shuts down.
    Stop,
}

impl<J: Job> WorkerContext<J> {
    pub(super) fn new(shared: Arc<PoolState<J>>, slot: usize) -> Self {
        Self { shared, slot, is_closed: Cell::new(false) }
    }

    /// Reports that the worker takes work from now on. Later calls have no effect.
    pub fn booted(&self) {
        self.shared.booted(self.slot, time::now());
    }

    /// Reports that the worker does not use the cache that workers share. Must be called before
    /// [`booted`](Self::booted).
    pub fn run_uncached(&self) {
        self.own().run_uncached();
    }

    /// Returns what the worker does next.
    pub fn directive(&self) -> Directive {
        let source = &self.shared.source;
        // A job that this worker cannot take is settled, or is left to another worker.
        if source.is_queue_closed() && (source.is_empty() || !self.is_wanted() || !self.may_take()) {
            Directive::Stop
        } else if self.is_wanted() {
            Directive::Serve
        } else {
            Directive::Drain
        }
    }

    /// Asks for a replacement of the worker, which takes no more work and drains. If jobs in flight keep it from
    /// ending, another worker stands in for it.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.own().want_to_leave(self.shared.stamp(time::now()));
        if self.fibers() > 0 {
            self.shared.source.idle_workers().wake_fallback();
        }
        // This worker may have been notified of the jobs in the queue.
        if !self.shared.source.is_empty() {
            self.shared.source.idle_workers().notify_one();
        }
    }

    /// Takes a job from the queue if this worker may take it: it has fewer in flight than its
    /// [source](super::JobSource::fibers_max) allows, and no other worker is idle, unless it has none in flight. Must
    /// be called when none of its fibers can run.
    pub fn try_take(&self) -> Option<Claim<J>> {
        if !self.is_wanted() || !self.may_take() {
            return None;
        }
        let (job, serial, taken_at) = self.claim_next()?;
        let in_flight = self.own().begin_flight(job, serial, taken_at);
        Some(Claim { shared: Arc::clone(&self.shared), slot: self.slot, in_flight, is_finished: false })
    }

    /// Announces that the worker is about to wait. Returns false if there is work, and the worker must not wait. After
    /// the wait, the worker calls [`unpark`](Self::unpark).
    pub fn prepare_park(&self) -> bool {
        let idle_workers = self.shared.source.idle_workers();
        if self.is_wanted() {
            match self.fibers() {
                0 => idle_workers.prepare_park(self.slot, Capacity::Idle),
                fibers if fibers < self.shared.source.fibers_max() => {
                    idle_workers.prepare_park(self.slot, Capacity::Spare);
                }
                // It could take no job, so nothing should wake it.
                _ => {}
            }
        }
        let is_needed = match self.directive() {
            Directive::Serve => !self.shared.source.is_empty() && self.may_take(),
            Directive::Drain => self.fibers() == 0,
            Directive::Stop => true,
        };
        if is_needed {
            idle_workers.unpark(self.slot);
        }
        !is_needed
    }

    /// Announces that the worker has stopped waiting. If it has fibers to run first, wakes another worker for the job
    /// that this one may have been woken for.
    pub fn unpark(&self, has_runnable: bool) {
        let idle_workers = self.shared.source.idle_workers();
        idle_workers.unpark(self.slot);
        if has_runnable && !self.shared.source.is_empty() {
            idle_workers.notify_one();
        }
    }

    /// Runs code outside of any job; the worker counts as busy meanwhile.
    pub fn run(&self, act: impl FnOnce()) {
        self.own().run(self.shared.stamp(time::now()));
        act();
        self.own().stop_running();
    }

    /// Reports the size of PHP's heap at the end of a request.
    pub fn note_heap(&self, bytes: u64) {
        self.own().set_heap(bytes);
    }

    /// Reports that a request has ended and its state was reset: the worker keeps its booted application.
    pub fn note_soft_reset(&self) {
        self.shared.events.soft_reset(self.slot);
    }

    /// Returns the number of jobs in flight, that is, of claims that were not dropped. Each is a fiber.
    pub fn fibers(&self) -> usize {
        self.own().fibers.load(Ordering::Relaxed)
    }

    /// Serves one job after another until the queue is closed and empty, the pool orders the worker to end, or the
    /// worker can run no more jobs. Returns its condition.
    pub(super) fn serve_each(&self, mut serve: impl FnMut(&Arc<J>) -> WorkerCondition) -> WorkerCondition {
        let (shared, slot) = (&*self.shared, self.own());
        let source = &shared.source;
        while slot.order() == WorkerOrder::Serve {
            // Read before the queue, so that jobs queued before the shutdown are served.
            let is_queue_closed = source.is_queue_closed();
            let Some((job, serial, taken_at)) = self.claim_next() else {
                if is_queue_closed {
                    break;
                }
                let is_ordered = || slot.order() != WorkerOrder::Serve;
                source
                    .idle_workers()
                    .park(self.slot, || !source.is_empty() || source.is_queue_closed() || is_ordered());
                continue;
            };
            slot.set_present(Some((serial, &job)));
            slot.run(shared.stamp(taken_at));
            let condition = serve(&job);
            let ended_at = time::now();
            slot.set_present(None);
            slot.idle_since(shared.stamp(ended_at));
            slot.stop_running();
            if condition == WorkerCondition::Broken {
                job.fail();
            } else {
                self.shared.finish(slot, &job, ended_at.saturating_duration_since(taken_at));
            }
            job.left();
            if condition != WorkerCondition::Sound {
                return condition;
            }
        }
        WorkerCondition::Sound
    }

    /// Claims the oldest job that is not settled; returns it with its serial number and the time of the claim.
    fn claim_next(&self) -> Option<(Arc<J>, u64, Instant)> {
        let Self { shared, .. } = self;
        loop {
            let job = shared.source.try_take()?;
            let taken_at = time::now();
            // During shutdown, abandoned jobs are not started.
            let is_wanted = !(job.is_abandoned() && shared.source.is_queue_closed());
            if is_wanted && let Some(serial) = self.own().claim(&job, taken_at) {
                shared.events.claimed(&job, taken_at);
                return Some((job, serial, taken_at));
            }
            shared.events.skipped(&job);
        }
    }

    /// Returns whether the worker takes jobs although it has asked to be replaced, because no other worker takes any.
    pub fn carries_on(&self) -> bool {
        self.own().carries_on() && self.own().order() == WorkerOrder::Serve
    }

    fn is_wanted(&self) -> bool {
        (!self.is_closed.get() || self.carries_on()) && self.own().order() == WorkerOrder::Serve
    }

    fn may_take(&self) -> bool {
        match self.fibers() {
            0 => true,
            fibers if fibers < self.shared.source.fibers_max() => {
                !self.shared.source.idle_workers().has_idle()
            }
            _ => false,
        }
    }

    fn own(&self) -> &Slot<J> {
        &self.shared.slots[self.slot]
    }
}

/// A job that a persistent worker has claimed: one of its fibers. Dropped once all of its code has ended, destructors
/// included; until then it is in flight, and the worker is busy while it runs.
#[derive(Debug)]
#[must_use = "a claim that is dropped unfinished fails its job"]
pub struct Claim<J: Job> {
    shared: Arc<PoolState<J>>,
    slot: usize,
    in_flight: Arc<InFlight<J>>,
    is_finished: bool,
}

impl<J: Job> Claim<J> {
    /// Returns the job.
    pub fn job(&self) -> &Arc<J> {
        &self.in_flight.job
    }

    /// Returns the number of the job among those that its slot has claimed.
    pub fn serial(&self) -> u64 {
        self.in_flight.serial
    }

    /// Reports that its fiber begins or continues to run.
    pub fn run(&self) {
        self.in_flight.set_parked(false);
        self.own().run(self.shared.stamp(time::now()));
    }

    /// Reports that its fiber waits or has ended: no code runs on the thread.
    pub fn park(&self) {
        self.in_flight.set_parked(true);
        self.own().stop_running();
    }

    /// Reports that its code has run to its end, however early it settled the job. A job that is still unsettled fails.
    /// Later calls have no effect.
    pub fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            let ran = time::now().saturating_duration_since(self.in_flight.taken_at);
            self.shared.finish(self.own(), &self.in_flight.job, ran);
        }
    }

    fn own(&self) -> &Slot<J> {
        &self.shared.slots[self.slot]
    }
}

impl<J: Job> Drop for Claim<J> {
    fn drop(&mut self) {
        if !self.is_finished {
            // The worker has dropped it, for example because it panicked. It does not count as finished.
            self.in_flight.job.fail();
        }
        if !self.in_flight.is_parked() {
            self.own().stop_running();
        }
        self.own().end_flight(&self.in_flight, self.shared.stamp(time::now()));
        self.in_flight.job.left();
    }
}
