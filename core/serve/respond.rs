//! Responding: replies become bytes, bytes go out, and the books are closed.
//!
//! Promises: each request ends in the books exactly once, with the status that its client got or would have got.
//! Refuses: it makes no answer of its own beyond the page of an error that has none.

use std::io;
use std::time::Instant;

use crate::admission::{ShedReason, Ticket};
use crate::http::status::is_bodiless;
use crate::http::{Connection, Framing, ResponseHead, Version, encode, uri};
use crate::observe::{Access, CancelReason, Event};
use crate::pool::{End, Origin, Part, ReplyHead};
use crate::sync::exchange_state::Stage;
use crate::time;

use super::answer::{Answer, PAGE_TYPE, page};
use super::disk::Job;
use super::io::Io;
use super::link::{Link, Phase, Step, clocks};
use super::output::Flushed;
use super::reply::{Reply, Want};
use super::turn::Turn;

impl Link {
    /// Starts to send `answer` as the response to the present request.
    pub(super) fn answer(&mut self, answer: Answer) {
        self.phase = Phase::Replying(answer.into_reply());
    }

    /// Sends what there is of the reply.
    pub(super) fn step_reply(&mut self, io: &mut Io) -> Step {
        let Phase::Replying(reply) = &mut self.phase else { return Step::Again };
        let was_empty = self.output.is_empty();
        let want = reply.pump(&mut self.output);
        if was_empty {
            self.output_since = io.now;
        }
        match want {
            Want::Head(head, length) => {
                self.begin_response(io, head, length);
                Step::Again
            }
            Want::Interim(status, fields) => {
                if self.turn.as_ref().is_some_and(|turn| turn.version != Version::Http10) {
                    self.output.append(|out| encode::encode_interim(out, status, &fields));
                }
                Step::Again
            }
            Want::Slice(source, offset, len) => {
                io.disk.order(Job::Slice(source, offset, len), self.key, &io.inbox);
                Step::Again
            }
            Want::Parts if std::mem::take(&mut self.has_parts) => {
                if let Some(exchange) = self.turn.as_ref().and_then(Turn::exchange) {
                    exchange.collect(reply.parts());
                }
                Step::Again
            }
            Want::Parts if self.is_peer_closed => self.give_up(io),
            Want::Parts | Want::Disk => match self.flush(io) {
                Ok(_) => Step::Wait,
                Err(_) => self.give_up(io),
            },
            Want::Room => match self.flush(io) {
                Ok(Flushed::All) => Step::Again,
                Ok(Flushed::Some(_)) => Step::Wait,
                Err(_) => self.give_up(io),
            },
            Want::End(end) => match self.flush(io) {
                Ok(Flushed::All) => self.finish(io, end),
                Ok(Flushed::Some(_)) => Step::Wait,
                Err(_) => self.give_up(io),
            },
        }
    }

    /// Writes what waits, as far as the system takes it.
    pub(super) fn flush(&mut self, io: &Io) -> io::Result<Flushed> {
        let flushed = self.output.flush(&mut self.socket)?;
        if matches!(flushed, Flushed::Some(count) if count > 0) {
            self.output_since = io.now;
        }
        Ok(flushed)
    }

    /// Encodes the head of the response and fixes how the body goes out.
    fn begin_response(&mut self, io: &mut Io, mut head: ReplyHead, mut length: Option<u64>) {
        let (Some(turn), Phase::Replying(reply)) = (&mut self.turn, &mut self.phase) else { return };
        turn.status = if (200..=999).contains(&head.status) { head.status } else { 500 };
        leave_pending(io, turn);
        if head.origin == Origin::TimeLimit {
            io.shared.metrics.cancelled(CancelReason::Timeout);
        }
        if head.origin == Origin::Fatal {
            forget_route(io, turn);
        }
        let is_servers = !matches!(head.origin, Origin::Script | Origin::Server);
        if is_servers && length == Some(0) && !is_bodiless(turn.status) {
            let page = page(turn.status);
            length = Some(page.len() as u64);
            reply.parts().push_front(Part::Data(page));
            let typed = head.fields.set(b"Content-Type", PAGE_TYPE);
            debug_assert!(typed.is_ok(), "the server's own fields are valid");
        }
        if turn.head_only && length == Some(0) && head.content_length.is_none() {
            // The script left its body out; its length is unknown.
            length = None;
        }
        let resets_content = turn.status == 205;
        if resets_content {
            length = Some(0);
        }
        let framing = Framing::choose(turn.status, length, turn.version, turn.head_only);
        let keeps = turn.keep_alive && framing != Framing::UntilClose && !io.shared.lifecycle.is_closing();
        // A request's name is made of bytes that a field may have.
        let _ = head.fields.set(b"X-Request-ID", turn.request_id().as_bytes());
        if !head.fields.contains(b"server") {
            let _ = head.fields.push(b"Server", b"svc");
        }
        let date = *io.date.at(time::wall());
        let (status, version) = (turn.status, turn.version);
        self.output.append(|out| {
            let response = ResponseHead { status, reason: head.reason.as_deref(), fields: &head.fields };
            let connection = if keeps { Connection::Keep } else { Connection::Close };
            encode::encode_head(out, &response, framing, connection, version, &date);
        });
        reply.begin_body(framing, !turn.head_only && !is_bodiless(status) && !resets_content);
        self.closes = !keeps;
    }

    /// The response is out: closes the books, then the connection or the request.
    fn finish(&mut self, io: &mut Io, end: End) -> Step {
        let body_bytes = self.reply_bytes();
        if let Some(turn) = self.turn.take() {
            self.settle(io, &turn, body_bytes);
        }
        self.since = io.now;
        if self.has_begun() {
            // The next request was sent ahead; it begins now.
            self.began = clocks();
            self.since = self.began.0;
        }
        self.has_served = true;
        self.has_parts = false;
        if !self.closes && end == End::Complete {
            self.phase = Phase::Head;
            return Step::Again;
        }
        let has_unread =
            self.has_unread || self.is_readable || !self.input.is_empty() || self.leftover.is_some();
        if !has_unread || (self.is_peer_closed && !self.is_readable) {
            return Step::Close;
        }
        // Closing with unread input would make the system reset the connection, and the client lose the answer.
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        self.phase = Phase::Lingering { bytes: 0 };
        Step::Again
    }

    /// The connection is of no more use: what runs for it is called off, the books are closed.
    pub(super) fn lose(&mut self, io: &Io) {
        self.call_off(io, CancelReason::ClientAbort);
        let Some(mut turn) = self.turn.take() else { return };
        leave_pending(io, &mut turn);
        let sent = self.reply_bytes().saturating_sub(self.output.len() as u64);
        self.settle(io, &turn, sent);
    }

    fn give_up(&mut self, io: &Io) -> Step {
        self.lose(io);
        Step::Close
    }

    /// Takes the answer away from whoever makes it, and counts why; returns where the exchange was.
    fn call_off(&mut self, io: &Io, reason: CancelReason) -> Option<Stage> {
        let turn = self.turn.as_mut()?;
        let metrics = &io.shared.metrics;
        let Phase::Replying(reply) = &mut self.phase else {
            if matches!(self.phase, Phase::Finding(_)) {
                metrics.cancelled(reason);
            }
            return None;
        };
        let exchange = turn.exchange()?;
        if reply.has_begun() {
            exchange.withdraw();
            return Some(Stage::Responding);
        }
        exchange.collect(reply.parts());
        if let Some((status, origin)) = reply.waiting_head() {
            // The answer was made before anybody called it off.
            exchange.withdraw();
            turn.status = status;
            if origin == Origin::TimeLimit {
                metrics.cancelled(CancelReason::Timeout);
            }
            return Some(Stage::Responding);
        }
        if reason == CancelReason::ClientAbort {
            exchange.note_client_left();
        }
        let stage = exchange.withdraw();
        leave_gate(io, turn.ticket.take());
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

    /// The drain deadline has passed: answers what was not answered, and ends.
    pub(super) fn cut_off(&mut self, io: &mut Io) {
        if self.turn.is_none() {
            return;
        }
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
        // One attempt; nobody waits for a slow client any more.
        self.advance(io);
        self.lose(io);
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
        let turn = self.turn.as_mut()?;
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
        if let Some(turn) = &mut self.turn {
            turn.shed_reason = Some(reason);
        }
        self.answer(Answer::plain(reason.status()));
    }

    fn reply_bytes(&self) -> u64 {
        if let Phase::Replying(reply) = &self.phase { reply.body_bytes() } else { 0 }
    }

    /// Closes the books on a request.
    fn settle(&self, io: &Io, turn: &Turn, body_bytes: u64) {
        let duration = time::now().saturating_duration_since(turn.started);
        io.shared.metrics.answered(turn.status, body_bytes, duration);
        debug_assert!(!turn.is_pending, "an answered request is still pending");
        if !io.shared.log.wants_access(turn.status) {
            return;
        }
        let head = turn.head();
        io.shared.log.emit(&Event::Access(Access {
            method: head.map_or("", |head| head.method()),
            path: head.map_or(b"", |head| head.path_and_query().0),
            status: turn.status,
            bytes: body_bytes,
            duration,
            queue_wait: turn.exchange().and_then(|exchange| exchange.waited()),
            client: self.peer.ip().to_canonical(),
            user_agent: head.and_then(|head| head.header("user-agent")),
            referer: head.and_then(|head| head.header("referer")),
            protocol: turn.version.as_str(),
            request_id: turn.request_id(),
            trace_id: None,
            shed_reason: turn.shed_reason.map(ShedReason::as_str),
        }));
    }
}

/// Takes the request out of the pending ones, if it is among them.
fn leave_pending(io: &Io, turn: &mut Turn) {
    if std::mem::take(&mut turn.is_pending) {
        io.shared.metrics.pending_requests.leave();
    }
}

/// Gives up the place in the waiting set, if it is still held.
fn leave_gate(io: &Io, ticket: Option<Ticket>) {
    if let (Some(ticket), Some(gate)) = (ticket, &io.shared.gate) {
        gate.leave(ticket);
    }
}

/// Makes the reply that a worker will fill.
pub(super) fn awaited() -> Phase {
    Phase::Replying(Reply::default())
}

/// Lets the next request for the same path look for its script anew: this one may have failed because its script is
/// no longer there.
fn forget_route(io: &mut Io, turn: &Turn) {
    if let Some(head) = turn.head()
        && let Ok(normalised) = uri::normalise(head.path_and_query().0)
    {
        io.routes.forget(&normalised.path);
    }
}
