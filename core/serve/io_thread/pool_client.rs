//! One io thread's access to the pool and its gate.
//!
//! Workers are notified at the end of a turn, or after several offers, so that many offers cost one wake-up. The
//! client counts nothing; the caller accounts for the verdict.

use std::time::Instant;

use crate::admission::{OfferOutcome, ShedReason, Ticket};
use crate::pool::{CompleteRequest, Exchange, Notify, StreamKey};
use crate::sync::primitive::Arc;
use crate::time;

use crate::serve::backend::Backend;
use crate::serve::shared::Shared;

/// The number of offers after which the workers are notified.
const OFFERS_UNANNOUNCED_MAX: u32 = 16;

/// Offers the requests of one io thread to the pool.
#[derive(Debug)]
pub(in crate::serve) struct PoolClient {
    shared: Arc<Shared>,
    /// Notifies the io thread about parts of replies.
    notify: Arc<dyn Notify>,
    /// The number of offers for which the workers have not been notified.
    unannounced: u32,
}

impl PoolClient {
    /// Offers requests to the pool of `shared`; `notify` is notified about parts of replies.
    pub(in crate::serve) fn new(shared: Arc<Shared>, notify: Arc<dyn Notify>) -> Self {
        Self { shared, notify, unannounced: 0 }
    }

    /// Creates the exchange of a request, with the gate's current budget as its longest wait.
    pub(in crate::serve) fn exchange(&self, request: CompleteRequest, key: StreamKey) -> Arc<Exchange> {
        let pool = self.shared.backend.pool();
        let budget = pool.map(|pool| pool.gate.wait_budget()).filter(|budget| !budget.is_zero());
        let (spool, notify) = (self.shared.spool.clone(), Arc::clone(&self.notify));
        Arc::new(Exchange::new(request, time::now(), budget, spool, notify, key))
    }

    /// Offers an exchange.
    pub(in crate::serve) fn offer(&mut self, exchange: Arc<Exchange>) -> OfferOutcome {
        let verdict = match &self.shared.backend {
            Backend::Pool(pool) => pool.offer(exchange),
            Backend::Stub => OfferOutcome::Refused(ShedReason::PoolUnavailable),
        };
        if let OfferOutcome::Queued = verdict {
            self.unannounced += 1;
            if self.unannounced >= OFFERS_UNANNOUNCED_MAX {
                self.announce();
            }
        }
        verdict
    }

    /// Notifies the workers of the offers.
    pub(in crate::serve) fn announce(&mut self) {
        if self.unannounced > 0
            && let Backend::Pool(pool) = &self.shared.backend
        {
            pool.gate.announce();
            self.unannounced = 0;
        }
    }

    /// Gives up a place in the waiting set, if it is still held.
    pub(in crate::serve) fn leave(&self, ticket: Option<Ticket>) {
        if let (Some(ticket), Backend::Pool(pool)) = (ticket, &self.shared.backend) {
            pool.gate.leave(ticket);
        }
    }

    /// Returns whether a wait since `offered_at` was wasted: the budget is at its ceiling, and no worker has started a
    /// request in the meantime.
    pub(in crate::serve) fn is_wasted(&self, offered_at: Instant) -> bool {
        let Backend::Pool(pool) = &self.shared.backend else { return false };
        let facts = pool.gate.facts();
        facts.wait_budget == facts.wait_budget_ceiling && pool.last_claim.is_before(offered_at)
    }
}
