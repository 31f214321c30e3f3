//! The pool and its gate, as one io thread reaches them.
//!
//! Promises: workers are told of offers at the end of the turn, or after a few, so that many offers cost one wake-up.
//! Refuses: it counts nothing; whoever offers accounts for the verdict.

use std::time::Instant;

use crate::admission::{Offer, ShedReason, Ticket};
use crate::pool::{Exchange, Notify, Request, StreamKey};
use crate::sync::primitive::Arc;
use crate::time;

use crate::serve::shared::Shared;

/// How many requests are offered before the workers are told.
const OFFERS_UNANNOUNCED_MAX: u32 = 16;

/// Offers requests for one io thread.
#[derive(Debug)]
pub(in crate::serve) struct PoolClient {
    shared: Arc<Shared>,
    /// The io thread, as workers see it.
    notify: Arc<dyn Notify>,
    /// How many requests were offered to the pool and not announced yet.
    unannounced: u32,
}

impl PoolClient {
    /// Offers to the pool of `shared`; parts of replies are told to `notify`.
    pub(in crate::serve) fn new(shared: Arc<Shared>, notify: Arc<dyn Notify>) -> Self {
        Self { shared, notify, unannounced: 0 }
    }

    /// Makes an exchange of a request, which may wait for as long as the gate's budget lets it now.
    pub(in crate::serve) fn exchange(&self, request: Request, key: StreamKey) -> Arc<Exchange> {
        let gate = self.shared.gate.as_ref();
        let budget = gate.map(|gate| gate.wait_budget()).filter(|budget| !budget.is_zero());
        let (spool, notify) = (self.shared.spool.clone(), Arc::clone(&self.notify));
        Arc::new(Exchange::new(request, time::now(), budget, spool, notify, key))
    }

    /// Offers an exchange.
    pub(in crate::serve) fn offer(&mut self, exchange: Arc<Exchange>) -> Offer {
        let has_workers = self.shared.workers.get().is_some_and(|workers| workers.taking() > 0);
        let verdict = match &self.shared.gate {
            Some(gate) if has_workers => gate.offer(exchange),
            _ => Offer::Refused(ShedReason::PoolUnavailable),
        };
        if let Offer::Queued = verdict {
            self.unannounced += 1;
            if self.unannounced >= OFFERS_UNANNOUNCED_MAX {
                self.announce();
            }
        }
        verdict
    }

    /// Tells the workers what was offered.
    pub(in crate::serve) fn announce(&mut self) {
        if self.unannounced > 0
            && let Some(gate) = &self.shared.gate
        {
            gate.announce();
            self.unannounced = 0;
        }
    }

    /// Gives up a place in the waiting set, if it is still held.
    pub(in crate::serve) fn leave(&self, ticket: Option<Ticket>) {
        if let (Some(ticket), Some(gate)) = (ticket, &self.shared.gate) {
            gate.leave(ticket);
        }
    }

    /// Whether a wait that has lasted since `offered_at` was wasted: the budget is as long as it gets, and no worker has
    /// started anything.
    pub(in crate::serve) fn is_wasted(&self, offered_at: Instant) -> bool {
        let facts = self.shared.gate_facts();
        let is_at_ceiling = facts.is_some_and(|gate| gate.wait_budget == gate.wait_budget_ceiling);
        is_at_ceiling && self.shared.last_claim.is_before(offered_at)
    }
}
