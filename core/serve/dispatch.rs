//! Dispatching: from a parsed head to what answers it, and to the gate if that is a script.
//!
//! Promises: the disk is asked by a file thread; a script that answered a moment ago is not looked up again; each
//! verdict of the gate leads to exactly one entry in the books. Refuses: it runs nothing itself.

use std::io;

use crate::admission::{Offer, ShedReason};
use crate::config::Executor;
use crate::files::representation::represent;
use crate::files::resolve::directory_location;
use crate::http::{MethodKind, uri};
use crate::observe::{CancelReason, Event};
use crate::pool::{Body, Exchange, Origin, ReplyHead, Request, Script};
use crate::sync::primitive::Arc;
use crate::time;

use super::answer::{Answer, page};
use super::disk::Job;
use super::file_job::ReadAhead;
use super::io::Io;
use super::link::{Leftover, Link, Pending, Phase};
use super::reply::Reply;
use super::site::{Found, FoundFile};

impl Link {
    /// Finds out what answers the present request.
    pub(super) fn find(&mut self, io: &mut Io, pending: Pending) {
        let Some(head) = self.turn.as_ref().and_then(|turn| turn.head()) else { return };
        let Ok(path) = uri::normalise(head.path_and_query().0) else {
            return self.answer_before_body(io, Answer::plain(400), pending);
        };
        if let Some(script) = io.routes.get(&path.path, io.now) {
            let script = Arc::clone(script);
            return self.run(io, script, pending);
        }
        let is_conditional = head.header("if-none-match").or(head.header("if-modified-since")).is_some();
        let wants_file = head.method_kind() == MethodKind::Get && !is_conditional;
        let read_ahead = if wants_file { ReadAhead::Yes } else { ReadAhead::No };
        self.phase = Phase::Finding(pending);
        io.disk.order(Job::Find(Arc::clone(&io.site), path.path, read_ahead), self.key, &io.inbox);
    }

    /// A file thread has found out what answers.
    pub(super) fn found(&mut self, io: &mut Io, path: Vec<u8>, found: io::Result<Found>) {
        let Phase::Finding(pending) = std::mem::replace(&mut self.phase, Phase::Head) else { return };
        match found {
            Ok(Found::Script(script)) => {
                io.routes.insert(path, Arc::clone(&script), io.now);
                self.run(io, script, pending);
            }
            Ok(Found::File(file)) => self.send_file(io, file, pending),
            Ok(Found::Missing) if io.shared.config.executor == Executor::Stub => {
                self.answer_before_body(io, Answer::stub(), pending);
            }
            Ok(Found::Missing) => self.answer_before_body(io, Answer::plain(404), pending),
            Ok(Found::Forbidden) => self.answer_before_body(io, Answer::plain(403), pending),
            Ok(Found::Directory) => {
                let query = self.turn.as_ref().and_then(|turn| turn.head()?.path_and_query().1);
                let answer = Answer::moved(&directory_location(&path, query));
                self.answer_before_body(io, answer, pending);
            }
            Err(error) => {
                io.shared
                    .log
                    .emit(&Event::Failure { what: &format!("document root cannot be read: {error}") });
                self.answer_before_body(io, Answer::plain(503), pending);
            }
        }
    }

    /// A script answers: its body is read first.
    fn run(&mut self, io: &mut Io, script: Arc<Script>, mut pending: Pending) {
        if io.shared.config.executor == Executor::Stub {
            return self.answer_before_body(io, Answer::stub(), pending);
        }
        pending.script = Some(script);
        self.since = io.now;
        self.phase = Phase::Body(pending);
    }

    /// Answers a request whose body nobody needs.
    pub(super) fn answer_before_body(&mut self, io: &Io, answer: Answer, pending: Pending) {
        self.skip_body(io, pending);
        self.answer(answer);
    }

    /// Throws the body away: what is here now, the rest after the answer. A client that asked whether to send its
    /// body may or may not do so after such an answer; only the end of the connection makes that clear.
    fn skip_body(&mut self, io: &Io, pending: Pending) {
        let mut intake = pending.intake;
        let is_good = match intake.discard(&self.input) {
            Ok((used, body_bytes)) => {
                self.consume(used);
                io.shared.metrics.request_bytes_received(body_bytes as u64);
                true
            }
            Err(_) => false,
        };
        if intake.is_read() {
            return;
        }
        if is_good && !pending.expects_continue {
            self.leftover = Some(Leftover { intake, bytes: 0 });
        } else if let Some(turn) = &mut self.turn {
            turn.keep_alive = false;
            self.has_unread = true;
        }
    }

    fn send_file(&mut self, io: &Io, found: FoundFile, pending: Pending) {
        self.skip_body(io, pending);
        let Some(head) = self.turn.as_ref().and_then(|turn| turn.head()) else { return };
        let FoundFile { file, first } = found;
        let shown = represent(&file, head, io.shared.config.static_max_age);
        let origin = Origin::Server;
        let mut head = ReplyHead {
            status: shown.status,
            reason: None,
            fields: shown.fields,
            content_length: None,
            origin,
        };
        self.phase = Phase::Replying(if shown.sends_file {
            io.shared.metrics.static_miss();
            head.content_length = shown.length;
            Reply::file(head, first, Arc::new(file.file), file.length)
        } else if shown.status < 400 {
            head.content_length = shown.length;
            Reply::whole(head, Vec::new())
        } else {
            Reply::whole(head, page(shown.status))
        });
    }

    /// Offers the present request to the pool.
    pub(super) fn offer(&mut self, io: &mut Io, script: Option<Arc<Script>>, body: Body) {
        let (Some(turn), Some(script)) = (&mut self.turn, script) else { return };
        let metrics = &io.shared.metrics;
        if self.is_peer_closed {
            // Nobody would read the answer.
            metrics.cancelled(CancelReason::ClientAbort);
            self.is_broken = true;
            self.phase = super::respond::awaited();
            return;
        }
        let Some((head, request_id)) = turn.take_head() else { return };
        let request = Request {
            head,
            body,
            script,
            client: self.peer,
            local: self.local,
            https: false,
            request_id,
            received_at: turn.received_at,
        };
        let budget =
            io.shared.gate.as_ref().map(|gate| gate.wait_budget()).filter(|budget| !budget.is_zero());
        let (spool, notify) = (io.shared.spool.clone(), Arc::clone(&io.notify));
        let exchange = Arc::new(Exchange::new(request, time::now(), budget, spool, notify, self.key));
        turn.set_exchange(Arc::clone(&exchange));
        turn.is_pending = true;
        metrics.pending_requests.enter();
        let has_workers = io.shared.workers.get().is_some_and(|workers| workers.current() > 0);
        let verdict = match &io.shared.gate {
            Some(gate) if has_workers => gate.offer(exchange),
            _ => Offer::Refused(ShedReason::PoolUnavailable),
        };
        match verdict {
            Offer::Queued => io.note_offer(),
            Offer::Waiting(ticket) => turn.ticket = Some(ticket),
            Offer::Refused(reason) => {
                return self.shed(io, reason);
            }
        }
        self.has_parts = false;
        self.phase = super::respond::awaited();
    }
}
