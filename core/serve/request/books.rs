//! The end of a request: who answers it when its client leaves, its wait is over or the server ends, and its place in
//! the books.
//!
//! Promises: each request ends in the books exactly once, with the status that its client got or would have got.
//! Refuses: it sends nothing, and what a request ends as is its [`Ending`](super::ending::Ending)'s to decide.

use std::time::Instant;

use crate::admission::ShedReason;
use crate::connection::Decision;
use crate::observe::{Access, Event};
use crate::sync::exchange_state::Stage;
use crate::time;

use super::answer::{Answer, refusal};
use super::meta::RequestMeta;
use crate::serve::io_thread::io::Io;
use crate::serve::io_thread::pool_client::PoolClient;
use crate::serve::shared::Shared;

impl RequestMeta {
    /// Nobody will read the response: what runs for it is called off, the books are closed. The socket has taken
    /// `sent_bytes` of the body.
    pub(in crate::serve) fn abort(&mut self, io: &Io, sent_bytes: u64) {
        let was_taken = self.call_off(io);
        self.ending.give_up(was_taken, &io.shared.metrics);
        self.record(&io.shared, sent_bytes);
    }

    /// The response is out, with `sent_bytes` of a body: closes the books.
    pub(in crate::serve) fn finish(&self, shared: &Shared, sent_bytes: u64) {
        self.record(shared, sent_bytes);
    }

    /// Takes the answer away from whoever makes it, and what of it has not been collected; a request that outlives its
    /// client stays in the queue. Returns whether a worker had taken it.
    fn call_off(&mut self, io: &Io) -> bool {
        let has_left = self.ending.is_up_to_client();
        let runs_on = has_left && self.outlives_client(io.shared.config.abandoned_requests);
        let Some(exchange) = self.exchange() else { return false };
        let stage = if runs_on {
            exchange.abandon()
        } else {
            if has_left {
                exchange.note_client_left();
            }
            let stage = exchange.withdraw();
            io.pool.leave(self.ticket.take());
            stage
        };
        // Of one that was abandoned before, whoever takes it tells.
        !matches!(
            stage,
            Stage::Waiting | Stage::Queued | Stage::Answered | Stage::Abandoned | Stage::Orphaned
        )
    }

    /// The drain deadline has passed: nobody else answers from now on. Its connection gives the answer one attempt.
    pub(in crate::serve) fn cut(&mut self, pool: &PoolClient) {
        self.ending.cut();
        if self.exchange().is_some() {
            pool.leave(self.ticket.take());
        }
    }

    /// Answers a request that the drain cuts off; `stage` is where its exchange was, if there was one.
    pub(in crate::serve) fn cut_off(&mut self, stage: Option<Stage>) -> Decision {
        if let Some(Stage::Waiting | Stage::Queued | Stage::Answered) = stage {
            return self.shed(ShedReason::ShuttingDown);
        }
        self.ending.cut_off();
        refusal(503)
    }

    /// No worker is left: a request that waits for one is answered.
    pub(in crate::serve) fn on_pool_gone(&mut self, pool: &PoolClient) -> Option<Decision> {
        self.take_unclaimed(pool).map(|_| self.shed(ShedReason::PoolUnavailable))
    }

    /// The wait for a worker is over.
    pub(in crate::serve) fn on_wait_over(&mut self, io: &Io) -> Option<Decision> {
        let (stage, offered_at) = self.take_unclaimed(&io.pool)?;
        if stage == Stage::Waiting && io.shared.lifecycle.is_closing() {
            // The gate is closed: it could not have been admitted.
            return Some(self.shed(ShedReason::ShuttingDown));
        }
        Some(self.refuse_admission(ShedReason::WaitTimeout, io.pool.is_wasted(offered_at)))
    }

    /// Takes the answer of a request that no worker has claimed; tells where it was and when it was offered.
    fn take_unclaimed(&mut self, pool: &PoolClient) -> Option<(Stage, Instant)> {
        let exchange = self.exchange()?;
        let offered_at = exchange.offered_at;
        let stage = exchange.withdraw_unclaimed();
        if !matches!(stage, Stage::Waiting | Stage::Queued | Stage::Answered) {
            return None;
        }
        pool.leave(self.ticket.take());
        Some((stage, offered_at))
    }

    /// Answers a request that was not admitted.
    pub(in crate::serve) fn shed(&mut self, reason: ShedReason) -> Decision {
        self.refuse_admission(reason, false)
    }

    fn refuse_admission(&mut self, reason: ShedReason, was_wasted: bool) -> Decision {
        self.ending.refuse(reason, was_wasted);
        Answer::plain(reason.status()).into_decision()
    }

    fn record(&self, shared: &Shared, body_bytes: u64) {
        let duration = time::now().saturating_duration_since(self.started);
        let status = self.ending.status();
        shared.metrics.answered(status, body_bytes, duration);
        if let Some((before, after)) = self.coding().filter(|_| self.is_coded) {
            shared.metrics.coding_ended(before, after);
        }
        if !shared.log.wants_access(status) {
            return;
        }
        let (head, (method, path)) = (self.head(), self.asks_for());
        shared.log.emit(&Event::Access(Access {
            method,
            path,
            status,
            bytes: body_bytes,
            duration,
            queue_wait: self.exchange().and_then(|exchange| exchange.waited()),
            client: self.client_context.client.addr.ip().to_canonical(),
            user_agent: head.and_then(|head| head.header("user-agent")),
            referer: head.and_then(|head| head.header("referer")),
            protocol: self.version.as_str(),
            request_id: self.request_id(),
            trace: self.client_context.trace.as_ref(),
            shed_reason: self.ending.shed_reason().map(ShedReason::as_str),
        }));
    }
}
