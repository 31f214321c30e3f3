//! Access to the threads of the server, and the execution of the drain's steps.
//!
//! A message to the I/O threads reaches all of them. This module decides nothing; [`Drain`] does.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use svc_core::limits::THREAD_EXIT_GRACE;
use svc_core::observe::{Event, Metrics};
use svc_core::sync::event_count::EventCount;
use svc_core::sync::primitive::{Arc, AtomicBool, AtomicU8, Ordering};

use super::drain::{Drain, DrainOrder, Readings};
use super::service_manager::ServiceManager;
use crate::disk::site::Site;
use crate::disk::threads::Disk;
use crate::io_thread::inbox::{Inbox, Message};
use crate::lifecycle::Phase;
use crate::net::accept::Acceptor;
use crate::shared::Shared;

/// The state that the threads share, and their inboxes. It is complete before any of them runs: messages to a thread wait
/// until it has started.
#[derive(Debug)]
pub(crate) struct ThreadHandles {
    pub(crate) shared: Arc<Shared>,
    /// The inboxes of the I/O threads.
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    pub(crate) acceptor: Arc<Acceptor>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) site: Arc<Site>,
    pub(crate) ended: DrainEnd,
    pub(crate) service_manager: ServiceManager,
}

impl ThreadHandles {
    /// Sends a message to every I/O thread.
    pub(crate) fn broadcast(&self, message: impl Fn() -> Message) {
        for inbox in &self.inboxes {
            inbox.send(message());
        }
    }

    /// Logs errors of the spool, and carries out the steps of the drain that are due; returns when to call again.
    pub(crate) fn drive(&self, drain: &mut Drain, now: Instant) -> Option<Instant> {
        if let Some(error) = self.shared.spool.trouble(now) {
            self.shared.log.emit(&Event::SpoolTrouble { error: &error });
        }
        while let Some(order) = drain.step(self.readings(), now) {
            self.carry_out(order);
        }
        if let Some(deadline) = drain.ending_until() {
            self.end_tasks(deadline, now);
        }
        drain.deadline(now)
    }

    fn readings(&self) -> Readings {
        let shared = &self.shared;
        if !shared.lifecycle.is_draining() {
            return Readings {
                is_signalled: false,
                has_connections: true,
                has_work: true,
                has_threads: true,
            };
        }
        // Read first: a thread that sees the end of accepting sees the permits of the last connections.
        let is_accepting = self.acceptor.is_accepting();
        let has_late = self.acceptor.has_late();
        let permits_out = shared.config.admission.max_connections.saturating_sub(shared.permits.free());
        let pool = shared.pool_facts();
        Readings {
            is_signalled: true,
            has_connections: is_accepting || has_late || permits_out > 0,
            has_work: pool.busy > 0
                || pool.carrying > 0
                || (pool.current > 0 && shared.gate_facts().is_some_and(|gate| gate.depth > 0))
                || shared.tasks.as_ref().is_some_and(|tasks| tasks.counts().in_flight() > 0),
            has_threads: self.has_requesters()
                || shared
                    .tasks
                    .as_ref()
                    .and_then(|tasks| tasks.workers())
                    .is_some_and(|workers| workers.unfinished() > 0),
        }
    }

    fn carry_out(&self, order: DrainOrder) {
        let shared = &self.shared;
        match order {
            DrainOrder::CloseGate => {
                // If another process accepts the connections in the backlog, the ones here are the last: each may bring
                // one more request, and nothing is refused.
                if let Some(pool) = shared.backend.pool().filter(|_| !self.acceptor.has_successor()) {
                    pool.gate.stop_admitting();
                }
                shared.lifecycle.enter(Phase::Closing);
                shared.permits.close();
                self.acceptor.wake();
                self.broadcast(|| Message::PhaseChanged);
            }
            DrainOrder::CutOff => {
                let Metrics { requests_by_method, responses, .. } = &shared.metrics;
                let cut_off = requests_by_method.total().saturating_sub(responses.total());
                shared.log.emit(&Event::DrainTimeout { cut_off });
                // First, so that no worker takes a request that has lost its client.
                self.end_threads();
                self.broadcast(|| Message::CutOff);
            }
            DrainOrder::EndThreads => self.end_threads(),
            DrainOrder::Finish { all_ended } => self.ended.announce(all_ended),
        }
    }

    fn end_threads(&self) {
        if let Some(pool) = self.shared.backend.pool() {
            pool.gate.close_queue();
        }
    }
}

/// Ends the background tasks.
impl ThreadHandles {
    fn has_requesters(&self) -> bool {
        self.shared.backend.workers().is_some_and(|workers| workers.unfinished() > 0)
    }

    /// Cancels the remaining tasks, at each call, since the requests and tasks that dispatch them are ending too; ends
    /// the threads once no worker thread and no task is left, or after half of the time.
    fn end_tasks(&self, deadline: Instant, now: Instant) {
        let Some(tasks) = &self.shared.tasks else { return };
        tasks.cancel_all(now);
        let is_late = deadline.saturating_duration_since(now) <= THREAD_EXIT_GRACE / 2;
        if is_late || (!self.has_requesters() && tasks.counts().in_flight() == 0) {
            tasks.close_queue();
        }
    }
}

/// Announces the end of the drain.
#[derive(Debug, Default)]
pub(crate) struct DrainEnd {
    all_ended: AtomicBool,
    /// The latest end of the drain, once it has begun.
    deadline: OnceLock<Instant>,
    state: AtomicU8,
    event_count: EventCount,
}

impl DrainEnd {
    fn announce(&self, all_ended: bool) {
        self.all_ended.store(all_ended, Ordering::Relaxed);
        // Release: pairs with the Acquire in `wait`.
        self.state.store(1, Ordering::Release);
        self.event_count.notify_all();
    }

    /// Sets the deadline of the drain, which has begun.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        // Only the first signal sets it.
        let _ = self.deadline.set(deadline);
    }

    /// Returns the time left for the drain.
    pub(crate) fn time_left(&self, now: Instant) -> Duration {
        self.deadline.get().map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(now))
    }

    pub(crate) fn wait(&self) -> bool {
        loop {
            let ticket = self.event_count.prepare_wait();
            // Acquire: pairs with the Release in `announce`.
            if self.state.load(Ordering::Acquire) != 0 {
                self.event_count.cancel_wait(ticket);
                return self.all_ended.load(Ordering::Relaxed);
            }
            self.event_count.wait(&ticket);
        }
    }
}
