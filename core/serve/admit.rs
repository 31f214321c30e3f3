//! Exchanges at the gate: what the gate needs to know of them, and how workers take them.

use crate::admission::{Gate, Offered};
use crate::pool::{Exchange, Source};
use crate::sync::idle_workers::IdleWorkers;
use crate::sync::primitive::Arc;
use crate::time;

impl Offered for Arc<Exchange> {
    fn parked_bytes(&self) -> u64 {
        self.request.body.len()
    }

    fn promote(&self) -> bool {
        Exchange::promote(self)
    }

    fn park(&self) {
        Exchange::park(self);
    }

    fn is_forgotten(&self) -> bool {
        self.is_abandoned() && self.deadline.is_some_and(|deadline| time::now() >= deadline)
    }
}

impl Source for Gate<Arc<Exchange>> {
    fn try_take(&self) -> Option<Arc<Exchange>> {
        Self::try_take(self)
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn is_shut(&self) -> bool {
        Self::is_shut(self)
    }

    fn idle_workers(&self) -> &IdleWorkers {
        Self::idle_workers(self)
    }
}
