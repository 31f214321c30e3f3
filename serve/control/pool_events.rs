//! Turns the reports of workers into metrics.

use std::time::{Duration, Instant};

use svc_core::pool::{Exchange, PoolEvents, RecycleReason};
use svc_core::sync::primitive::Arc;

use super::thread_handles::ThreadHandles;
use crate::io_thread::inbox::Message;
use crate::shared::Shared;

/// Counts events of the worker threads.
#[derive(Debug)]
pub(crate) struct Reports(pub(crate) Arc<ThreadHandles>);

impl PoolEvents<Exchange> for Reports {
    fn claimed(&self, exchange: &Exchange, now: Instant) {
        let waited = now.saturating_duration_since(exchange.offered_at);
        if let Some(pool) = self.0.shared.backend.pool() {
            pool.last_claim.mark(now);
        }
        exchange.note_taken(waited);
        if exchange.is_detached() && exchange.client_left() {
            self.0.shared.metrics.departed_work_taken();
        } else {
            self.0.shared.metrics.queue_waited(waited);
        }
    }

    fn skipped(&self, exchange: &Exchange) {
        if exchange.client_left() {
            self.0.shared.metrics.departed_work_taken();
        }
    }

    fn served(&self, _exchange: &Exchange, ran: Duration) {
        let Shared { config, metrics, .. } = &*self.0.shared;
        metrics.php_ran(ran);
        if config.php.worker_mode_enabled {
            metrics.worker_request_handled(ran);
        }
    }

    fn worker_failed(&self) {
        if self.0.shared.backend.workers().is_some_and(|workers| workers.taking() == 0) {
            self.0.broadcast(|| Message::PoolGone);
        }
    }

    fn recycled(&self, _slot: usize, reason: RecycleReason) {
        self.0.shared.metrics.workers_recycled.incr(reason);
    }

    fn retired(&self, _slot: usize) {
        self.0.shared.metrics.workers_retired.incr();
    }

    fn soft_reset(&self, _slot: usize) {
        self.0.shared.metrics.soft_resets.incr();
    }
}
