//! The end of a request: the response when its client leaves, its wait is over or the server stops, and its record.
//!
//! Each request is recorded exactly once, with the status that its client received or would have received. Nothing is
//! sent here, and how a request ends is decided by its [`RequestOutcome`](super::outcome::RequestOutcome).

use std::time::{Duration, Instant};

use svc_core::admission::ShedReason;
use svc_core::connection::Decision;
use svc_core::observe::{Access, Event};
use svc_core::plugins::RequestFacts;
use svc_core::policy::deny::Denial;
use svc_core::sync::exchange_state::ExchangeStage;
use svc_core::time;

use super::meta::RequestMeta;
use super::server_response::{ServerResponse, refusal};
use super::server_span::{RecordedEnd, ResponseEnd};
use crate::io_thread::io::Io;
use crate::io_thread::pool_client::PoolClient;
use crate::shared::Shared;

impl RequestMeta {
    /// Cancels the work for a request whose response has lost its reader, and records the request. The socket accepted
    /// `sent_bytes` of the body.
    pub(crate) fn abort(&mut self, io: &Io, sent_bytes: u64) {
        self.stop_following();
        let was_taken = self.call_off(io);
        if let Some(used) = self.cache.as_ref().filter(|_| !was_taken) {
            used.abandon_fill();
        }
        self.outcome.give_up(was_taken, &io.shared.metrics);
        self.record(&io.shared, sent_bytes, ResponseEnd::Lost);
    }

    /// Records the request, whose response has been sent, with `sent_bytes` of a body. `is_whole`: the response was not
    /// broken off.
    pub(crate) fn finish(&self, shared: &Shared, sent_bytes: u64, is_whole: bool) {
        let response = if is_whole { ResponseEnd::Whole } else { ResponseEnd::BrokenOff };
        if let Some(used) = &self.cache {
            used.abandon_fill();
        }
        self.record(shared, sent_bytes, response);
    }

    /// Withdraws the exchange, including the parts that were not collected; a request that outlives its client stays in
    /// the queue. Returns whether a worker had taken it.
    fn call_off(&mut self, io: &Io) -> bool {
        let has_left = self.outcome.is_up_to_client();
        let runs_on = has_left && self.outlives_client(io.shared.config.admission.abandoned_requests);
        let Some(exchange) = &self.exchange else { return false };
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
        // For an exchange that was already abandoned, the worker that takes it does the accounting.
        !matches!(
            stage,
            ExchangeStage::Waiting
                | ExchangeStage::Queued
                | ExchangeStage::Answered
                | ExchangeStage::Abandoned
                | ExchangeStage::Orphaned
        )
    }

    /// Notes that the drain deadline has passed: no worker answers from now on. The connection tries once to send the
    /// response.
    pub(crate) fn note_drain_deadline(&mut self, pool: &PoolClient) {
        self.outcome.note_drain_deadline();
        if self.exchange.is_some() {
            pool.leave(self.ticket.take());
        }
    }

    /// Answers a request that the drain cuts off; `stage` is the stage of its exchange, if there is one.
    pub(crate) fn cut_off(&mut self, stage: Option<ExchangeStage>) -> Decision {
        let was_following = self.stop_following();
        if was_following
            || matches!(stage, Some(ExchangeStage::Waiting | ExchangeStage::Queued | ExchangeStage::Answered))
        {
            return self.shed(ShedReason::ShuttingDown);
        }
        self.outcome.cut_off();
        refusal(503)
    }

    /// Answers a request that waits for a worker, because no worker is left.
    pub(crate) fn on_pool_gone(&mut self, io: &mut Io) -> Option<Decision> {
        let is_waiting = self.stop_following() || self.take_unclaimed(&io.pool).is_some();
        is_waiting.then(|| self.stale_or_shed(io, ShedReason::PoolUnavailable))
    }

    /// Answers a request whose wait for a worker is over.
    pub(crate) fn on_wait_over(&mut self, io: &mut Io) -> Option<Decision> {
        if self.is_awaiting_change() {
            return self.change_noted();
        }
        if self.is_following() {
            // It may have been released in the same turn.
            return self.released(io).or_else(|| {
                self.stop_following();
                Some(self.stale_or_shed(io, ShedReason::WaitTimeout))
            });
        }
        let (stage, offered_at) = self.take_unclaimed(&io.pool)?;
        if stage == ExchangeStage::Waiting && io.shared.lifecycle.is_closing() {
            // The gate is closed, so the request can no longer be admitted.
            return Some(self.shed(ShedReason::ShuttingDown));
        }
        let stale = self.stale_instead(io, ShedReason::WaitTimeout);
        stale.or_else(|| Some(self.refuse_admission(ShedReason::WaitTimeout, io.pool.is_wasted(offered_at))))
    }

    /// Withdraws a request that no worker has claimed; returns the stage it was in and when it was offered.
    fn take_unclaimed(&mut self, pool: &PoolClient) -> Option<(ExchangeStage, Instant)> {
        let exchange = self.exchange.as_ref()?;
        let offered_at = exchange.offered_at;
        let stage = exchange.withdraw_unclaimed();
        if !matches!(stage, ExchangeStage::Waiting | ExchangeStage::Queued | ExchangeStage::Answered) {
            return None;
        }
        pool.leave(self.ticket.take());
        Some((stage, offered_at))
    }

    /// Answers a request that is not admitted.
    pub(crate) fn shed(&mut self, reason: ShedReason) -> Decision {
        self.refuse_admission(reason, false)
    }

    fn refuse_admission(&mut self, reason: ShedReason, was_wasted: bool) -> Decision {
        if let Some(used) = &self.cache {
            used.abandon_fill();
        }
        self.outcome.refuse(reason, was_wasted);
        ServerResponse::plain(reason.status()).into_decision()
    }

    fn record(&self, shared: &Shared, body_bytes: u64, response: ResponseEnd) {
        let duration = time::now().saturating_duration_since(self.started);
        let status = self.outcome.status();
        shared.metrics.answered(status, body_bytes, duration);
        if let Some(used) = &self.cache {
            shared.metrics.cache_requests.incr(used.outcome);
            if let Some(reason) = used.stale_reason {
                shared.metrics.cache_stale.incr(reason);
            }
        }
        if self.outcome.is_served() {
            shared.metrics.served(duration);
        }
        if let Some((before, after)) = self.coding().filter(|_| self.is_coded) {
            shared.metrics.coding_ended(before, after);
        }
        if let Some(span) = &self.span {
            self.export(span, RecordedEnd { duration, body_bytes, response });
        }
        let wants = (shared.log.wants_access(status), shared.plugins.wants_requests());
        if wants == (false, false) {
            return;
        }
        let access = self.access(status, body_bytes, duration);
        if wants.1 {
            shared.plugins.request_ended(facts_of(&access));
        }
        if wants.0 {
            shared.log.emit(&Event::Access(access));
        }
    }

    fn access(&self, status: u16, bytes: u64, duration: Duration) -> Access<'_> {
        let (head, (method, path)) = (self.head(), self.asks_for());
        Access {
            method,
            path,
            status,
            bytes,
            duration,
            queue_wait: self.exchange.as_ref().and_then(|exchange| exchange.waited()),
            client: self.client_context.client.addr.ip().to_canonical(),
            user_agent: head.and_then(|head| head.header("user-agent")),
            referer: head.and_then(|head| head.header("referer")),
            protocol: self.version.as_str(),
            request_id: &self.request_id,
            trace: self.client_context.trace.as_ref(),
            shed_reason: self.outcome.shed_reason().map(ShedReason::as_str),
            denied_by: self.denial.map(Denial::as_str),
            cache: self.cache.as_ref().map(|used| used.outcome.as_str()),
        }
    }
}

/// Converts an access record to the facts for plugins.
fn facts_of(access: &Access<'_>) -> RequestFacts {
    RequestFacts {
        method: access.method.into(),
        path: access.path.into(),
        protocol: access.protocol.into(),
        client: access.client.to_string().into(),
        request_id: access.request_id.into(),
        trace_id: access.trace.map(|trace| trace.trace_id().to_string().into()).unwrap_or_default(),
        shed_reason: access.shed_reason.unwrap_or_default().into(),
        status: access.status,
        response_bytes: access.bytes,
        duration: access.duration,
        queue_wait: access.queue_wait,
    }
}
