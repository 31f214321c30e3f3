//! One I/O thread's access to the pool and its gate.
//!
//! Workers are notified at the end of a turn, or after several offers, so that many offers cost one wake-up. The
//! client counts nothing; the caller accounts for the verdict.

use std::time::{Duration, Instant};

use svc_core::admission::{OfferOutcome, ShedReason, Ticket};
use svc_core::pool::{CompleteRequest, Exchange, Notify, StreamKey};
use svc_core::sync::primitive::Arc;
use svc_core::time;

use crate::backend::Backend;
use crate::shared::Shared;

/// The number of offers after which the workers are notified.
const OFFERS_UNANNOUNCED_MAX: u32 = 16;

/// Offers the requests of one I/O thread to the pool.
#[derive(Debug)]
pub(crate) struct PoolClient {
    shared: Arc<Shared>,
    /// Notifies the I/O thread about parts of responses.
    notify: Arc<dyn Notify>,
    /// The number of offers for which the workers have not been notified.
    unannounced: u32,
}

impl PoolClient {
    /// Offers requests to the pool of `shared`; `notify` is notified about parts of responses.
    pub(crate) fn new(shared: Arc<Shared>, notify: Arc<dyn Notify>) -> Self {
        Self { shared, notify, unannounced: 0 }
    }

    /// Creates the exchange of a request, with the gate's current budget as its longest wait.
    /// It ends at `until` at the latest.
    pub(crate) fn exchange(
        &self,
        request: CompleteRequest,
        key: StreamKey,
        until: Option<Instant>,
    ) -> Arc<Exchange> {
        let (spool, notify, now) = (self.shared.spool.clone(), Arc::clone(&self.notify), time::now());
        let mut budget = self.wait_budget();
        if let Some(until) = until {
            let left = until.saturating_duration_since(now);
            budget = Some(budget.map_or(left, |budget| budget.min(left)));
        }
        Arc::new(Exchange::new(request, now, budget, spool, notify, key))
    }

    /// Returns the end of a wait that begins now; `None` if it has no limit.
    pub(crate) fn wait_until(&self) -> Option<Instant> {
        self.wait_budget().map(|budget| time::now() + budget)
    }

    /// Returns what notifies the I/O thread.
    pub(crate) fn notify(&self) -> Arc<dyn Notify> {
        Arc::clone(&self.notify)
    }

    fn wait_budget(&self) -> Option<Duration> {
        let pool = self.shared.backend.pool();
        pool.map(|pool| pool.gate.wait_budget()).filter(|budget| !budget.is_zero())
    }

    /// Offers an exchange.
    pub(crate) fn offer(&mut self, exchange: Arc<Exchange>) -> OfferOutcome {
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
    pub(crate) fn announce(&mut self) {
        if self.unannounced > 0
            && let Backend::Pool(pool) = &self.shared.backend
        {
            pool.gate.announce();
            self.unannounced = 0;
        }
    }

    /// Gives up a place in the waiting set, if it is still held.
    pub(crate) fn leave(&self, ticket: Option<Ticket>) {
        if let (Some(ticket), Backend::Pool(pool)) = (ticket, &self.shared.backend) {
            pool.gate.leave(ticket);
        }
    }

    /// Returns whether a wait since `offered_at` was wasted: the budget is at its ceiling, and no worker has started a
    /// request in the meantime.
    pub(crate) fn is_wasted(&self, offered_at: Instant) -> bool {
        let Backend::Pool(pool) = &self.shared.backend else { return false };
        let facts = pool.gate.facts();
        facts.wait_budget == facts.wait_budget_ceiling && pool.last_claim.is_before(offered_at)
    }
}
