//! Jobs at the gate: how workers get them, and how an exchange implements [`Offered`].

use crate::admission::{Gate, Offered};
use crate::pool::{Exchange, Job, JobSource};
use crate::sync::idle_workers::IdleWorkers;
use crate::sync::primitive::Arc;
use crate::time;

impl Offered for Exchange {
    fn parked_bytes(&self) -> u64 {
        self.request.body.len()
    }

    fn promote(&self) -> bool {
        Self::promote(self)
    }

    fn park(&self) {
        Self::park(self);
    }

    fn is_forgotten(&self) -> bool {
        self.is_abandoned() && self.deadline.is_some_and(|deadline| time::now() >= deadline)
    }
}

impl<J: Job + Offered> JobSource<J> for Gate<Arc<J>> {
    fn try_take(&self) -> Option<Arc<J>> {
        Self::try_take(self)
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn backlog(&self) -> usize {
        let facts = self.facts();
        facts.depth + facts.waiting
    }

    fn is_queue_closed(&self) -> bool {
        Self::is_queue_closed(self)
    }

    fn idle_workers(&self) -> &IdleWorkers {
        Self::idle_workers(self)
    }
}
