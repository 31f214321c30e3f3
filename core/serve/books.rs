//! The end of a request: who answers it when its client leaves, its wait is over or the server ends, and its place in
//! the books.
//!
//! Promises: each request ends in the books exactly once, with the status that its client got or would have got.
//! Refuses: it sends nothing.

use std::time::Instant;

use crate::admission::{ShedReason, Ticket};
use crate::observe::{Access, CancelReason, Event};
use crate::pool::Origin;
use crate::sync::exchange_state::Stage;
use crate::time;

use super::answer::Answer;
use super::io::Io;
use super::stream::{Phase, Stream};

impl Stream {
    /// Nobody will read the response: what runs for it is called off, the books are closed. `unsent_bytes` of the
    /// body are still in the output.
    pub(super) fn lose(mut self, io: &Io, unsent_bytes: usize) {
        self.call_off(io, CancelReason::ClientAbort);
        self.turn.leave_pending(&io.shared.metrics);
        let sent = self.reply_bytes().saturating_sub(unsent_bytes as u64);
        self.settle(io, sent);
    }

    /// The response is out: closes the books.
    pub(super) fn finish(self, io: &Io) {
        let body_bytes = self.reply_bytes();
        self.settle(io, body_bytes);
    }

    /// Takes the answer away from whoever makes it, and counts why; returns where the exchange was.
    fn call_off(&mut self, io: &Io, reason: CancelReason) -> Option<Stage> {
        let (turn, metrics) = (&mut self.turn, &io.shared.metrics);
        let Phase::Replying(reply) = &mut self.phase else {
            if matches!(self.phase, Phase::Finding(_)) {
                metrics.cancelled(reason);
            }
            return None;
        };
        let exchange = turn.exchange()?;
        if !reply.has_begun() {
            reply.collect(exchange);
        }
        let has_left = reason == CancelReason::ClientAbort;
        let runs_on = has_left && turn.outlives_client(io.shared.config.abandoned_requests);
        if has_left {
            exchange.note_client_left();
        }
        let stage = if runs_on { exchange.abandon() } else { exchange.withdraw() };
        if stage == Stage::Overdue {
            reply.collect(exchange);
        }
        if reply.has_begun() {
            return Some(Stage::Responding);
        }
        if let Some((status, origin)) = reply.waiting_head() {
            // The answer was made before anybody called it off.
            turn.status = status;
            if origin == Origin::TimeLimit {
                metrics.cancelled(CancelReason::Timeout);
            }
            return Some(Stage::Responding);
        }
        if !runs_on {
            leave_gate(io, turn.ticket.take());
        }
        match (stage, reason) {
            // A refusal, counted by the caller.
            (Stage::Waiting | Stage::Queued | Stage::Answered, CancelReason::Shutdown) => {}
            (Stage::Waiting | Stage::Queued | Stage::Answered, _) => metrics.cancelled(reason),
            (Stage::Running, CancelReason::ClientAbort) => {
                metrics.cancelled(reason);
                metrics.work_abandoned();
            }
            (Stage::Running, _) => metrics.cancelled(reason),
            _ => {}
        }
        Some(stage)
    }

    /// The drain deadline has passed: answers what was not answered. Its connection gives the answer one attempt.
    pub(super) fn cut_off(&mut self, io: &mut Io) {
        match self.call_off(io, CancelReason::Shutdown) {
            Some(Stage::Waiting | Stage::Queued | Stage::Answered) => {
                self.shed(io, ShedReason::ShuttingDown);
            }
            Some(Stage::Running) => self.refuse(503),
            Some(_) => {
                if matches!(&self.phase, Phase::Replying(reply) if !reply.is_all_here()) {
                    io.shared.metrics.cancelled(CancelReason::Shutdown);
                }
            }
            None if !matches!(self.phase, Phase::Replying(_)) => self.refuse(503),
            None => {}
        }
    }

    /// No worker is left: a request that waits for one is answered.
    pub(super) fn on_pool_gone(&mut self, io: &mut Io) {
        if self.take_unclaimed(io).is_some() {
            self.shed(io, ShedReason::PoolUnavailable);
        }
    }

    /// The wait for a worker is over.
    pub(super) fn on_wait_over(&mut self, io: &mut Io) {
        let Some((stage, offered_at)) = self.take_unclaimed(io) else { return };
        let shared = &io.shared;
        if stage == Stage::Waiting && shared.lifecycle.is_closing() {
            // The gate is closed: it could not have been admitted.
            return self.shed(io, ShedReason::ShuttingDown);
        }
        let is_at_ceiling =
            shared.gate_facts().is_some_and(|gate| gate.wait_budget == gate.wait_budget_ceiling);
        if is_at_ceiling && shared.last_claim.is_before(offered_at) {
            shared.metrics.wait_wasted();
        }
        self.shed(io, ShedReason::WaitTimeout);
    }

    /// Takes the answer of a request that no worker has claimed; tells where it was and when it was offered.
    fn take_unclaimed(&mut self, io: &Io) -> Option<(Stage, Instant)> {
        if !matches!(&self.phase, Phase::Replying(reply) if !reply.has_begun()) {
            return None;
        }
        let turn = &mut self.turn;
        let exchange = turn.exchange()?;
        let offered_at = exchange.offered_at;
        let stage = exchange.withdraw_unclaimed();
        if !matches!(stage, Stage::Waiting | Stage::Queued | Stage::Answered) {
            return None;
        }
        leave_gate(io, turn.ticket.take());
        Some((stage, offered_at))
    }

    /// Answers a request that was not admitted, and counts why.
    pub(super) fn shed(&mut self, io: &Io, reason: ShedReason) {
        io.shared.metrics.refused(reason);
        self.turn.shed_reason = Some(reason);
        self.answer(Answer::plain(reason.status()));
    }

    fn reply_bytes(&self) -> u64 {
        if let Phase::Replying(reply) = &self.phase { reply.body_bytes() } else { 0 }
    }

    fn settle(self, io: &Io, body_bytes: u64) {
        let turn = &self.turn;
        let duration = time::now().saturating_duration_since(turn.started);
        io.shared.metrics.answered(turn.status, body_bytes, duration);
        debug_assert!(!turn.is_pending, "an answered request is still pending");
        if !io.shared.log.wants_access(turn.status) {
            return;
        }
        let (head, (method, path)) = (turn.head(), turn.asks_for());
        io.shared.log.emit(&Event::Access(Access {
            method,
            path,
            status: turn.status,
            bytes: body_bytes,
            duration,
            queue_wait: turn.exchange().and_then(|exchange| exchange.waited()),
            client: turn.visitor.client.addr.ip().to_canonical(),
            user_agent: head.and_then(|head| head.header("user-agent")),
            referer: head.and_then(|head| head.header("referer")),
            protocol: turn.version.as_str(),
            request_id: turn.request_id(),
            trace: turn.visitor.trace.as_ref(),
            shed_reason: turn.shed_reason.map(ShedReason::as_str),
        }));
    }
}

/// Gives up the place in the waiting set, if it is still held.
fn leave_gate(io: &Io, ticket: Option<Ticket>) {
    if let (Some(ticket), Some(gate)) = (ticket, &io.shared.gate) {
        gate.leave(ticket);
    }
}
