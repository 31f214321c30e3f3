//! What workers report becomes counters and log records.

use std::time::Duration;

use crate::observe::Event;
use crate::pool::{Exchange, PoolEvents, RecycleReason};
use crate::sync::primitive::Arc;

use super::inbox::Message;
use super::server::Machinery;

/// Counts what happens on worker threads.
#[derive(Debug)]
pub(super) struct Reports(pub(super) Arc<Machinery>);

impl PoolEvents for Reports {
    fn taken(&self, exchange: &Exchange, waited: Duration) {
        self.0.shared.last_claim.mark(exchange.offered_at + waited);
        exchange.note_taken(waited);
        self.0.shared.metrics.queue_waited(waited);
    }

    fn found_answered(&self, exchange: &Exchange) {
        if exchange.client_left() {
            self.0.shared.metrics.departed_work_taken();
        }
    }

    fn served(&self, _exchange: &Exchange, ran: Duration) {
        self.0.shared.metrics.php_ran(ran);
    }

    fn dropped(&self, _exchange: &Exchange) {
        self.0.shared.metrics.dropped();
    }

    fn worker_lost(&self, slot: usize, reason: &str) {
        self.0.shared.log.emit(&Event::WorkerLost { slot, reason });
        if self.0.shared.pool_facts().current == 0 {
            self.0.tell_all(|| Message::PoolGone);
        }
    }

    fn recycled(&self, _slot: usize, _reason: RecycleReason) {}

    fn retired(&self, _slot: usize) {}

    fn soft_reset(&self, _slot: usize) {}
}
