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
use super::reply::{Reply, Run};
use super::site::{Found, FoundFile};
use super::stream::{Pending, Phase, Stream, Unwanted};

impl Stream {
    /// Finds out what answers the request.
    pub(super) fn find(&mut self, io: &mut Io, pending: Pending) {
        let Some(head) = self.turn.head() else { return };
        let Ok(path) = uri::normalise(head.path_and_query().0) else {
            return self.answer_before_body(Answer::plain(400), pending);
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
        let Phase::Finding(pending) = std::mem::replace(&mut self.phase, super::respond::awaited()) else {
            return;
        };
        match found {
            Ok(Found::Script(script)) => {
                io.routes.insert(path, Arc::clone(&script), io.now);
                self.run(io, script, pending);
            }
            Ok(Found::File(file)) => self.send_file(io, file, pending),
            Ok(Found::Missing) if io.shared.config.executor == Executor::Stub => {
                self.answer_before_body(Answer::stub(), pending);
            }
            Ok(Found::Missing) => self.answer_before_body(Answer::plain(404), pending),
            Ok(Found::Forbidden) => self.answer_before_body(Answer::plain(403), pending),
            Ok(Found::Directory) => {
                let query = self.turn.head().and_then(|head| head.path_and_query().1);
                let answer = Answer::moved(&directory_location(&path, query));
                self.answer_before_body(answer, pending);
            }
            Err(error) => {
                io.shared
                    .log
                    .emit(&Event::Failure { what: &format!("document root cannot be read: {error}") });
                self.answer_before_body(Answer::plain(503), pending);
            }
        }
    }

    /// A script answers: its body is read first.
    fn run(&mut self, io: &mut Io, script: Arc<Script>, mut pending: Pending) {
        if io.shared.config.executor == Executor::Stub {
            return self.answer_before_body(Answer::stub(), pending);
        }
        pending.script = Some(script);
        self.since = io.now;
        self.phase = Phase::Body(pending);
    }

    /// Answers a request whose body nobody needs.
    pub(super) fn answer_before_body(&mut self, answer: Answer, pending: Pending) {
        self.leave_body(pending);
        self.answer(answer);
    }

    /// Leaves the body to the connection. A client that asked whether to send it may or may not do so after such an
    /// answer.
    fn leave_body(&mut self, pending: Pending) {
        let Pending { intake, expects_continue, .. } = pending;
        self.unwanted = (!intake.is_read()).then_some(Unwanted { intake, is_doubtful: expects_continue });
    }

    fn send_file(&mut self, io: &Io, found: FoundFile, pending: Pending) {
        self.leave_body(pending);
        let Some(head) = self.turn.head() else { return };
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
            let rest = Run::file(Arc::new(file.file), first.len() as u64, file.length);
            Reply::runs(head, first, [rest])
        } else if shown.status < 400 {
            head.content_length = shown.length;
            Reply::whole(head, Vec::new())
        } else {
            Reply::whole(head, page(shown.status))
        });
    }

    /// Offers the request to the pool.
    pub(super) fn offer(&mut self, io: &mut Io, script: Option<Arc<Script>>, body: Body) {
        let Some(script) = script else { return };
        let (turn, metrics) = (&mut self.turn, &io.shared.metrics);
        self.has_parts = false;
        self.phase = super::respond::awaited();
        if self.is_deserted {
            // Nobody would read the answer.
            return metrics.cancelled(CancelReason::ClientAbort);
        }
        let Some((head, request_id)) = turn.take_head() else { return };
        let request = Request {
            head,
            body,
            script,
            client: self.ends.peer,
            local: self.ends.local,
            https: self.ends.is_tls,
            tls: self.ends.tls.get().cloned(),
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
            Offer::Refused(reason) => self.shed(io, reason),
        }
    }
}
