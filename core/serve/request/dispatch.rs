//! Dispatching: from a parsed head to what answers it, and to the gate if that is a script.
//!
//! Promises: the disk is asked by a file thread; what answered a moment ago is not looked up again; each verdict of
//! the gate leads to exactly one entry in the books. Refuses: it runs nothing itself.

use std::io;

use crate::admission::{Offer, ShedReason};
use crate::config::Executor;
use crate::files::resolve::directory_location;
use crate::files::{EVERYTHING_ELSE, Lookup, Piece, represent};
use crate::http::uri;
use crate::observe::Event;
use crate::policy::deny::Denial;
use crate::pool::{Body, Exchange, Origin, ReplyHead, Request, Script};
use crate::sync::primitive::Arc;
use crate::time;

use super::answer::{Answer, PAGE_TYPE, page};
use super::client_context::ClientContext;
use super::reply::Reply;
use super::stream::{Pending, Phase, Stream, Unwanted};
use crate::serve::disk::file_job::{Chore, Job};
use crate::serve::disk::site::{Found, Ready};
use crate::serve::io_thread::io::Io;

impl Stream {
    /// Finds out what answers the request.
    pub(in crate::serve) fn find(&mut self, io: &mut Io, pending: Pending) {
        let Some(head) = self.meta.head() else { return };
        let Ok(path) = uri::normalise(head.path_and_query().0) else {
            return self.answer_before_body(Answer::plain(400), pending);
        };
        if let Some(denial) = io.site.denies(&io.rules, &path.path) {
            return self.deny(io, denial, pending);
        }
        if let Some(script) = io.routes.get(&path.path, io.now) {
            let script = Arc::clone(script);
            return self.run(io, script, pending);
        }
        let path = path.path;
        match io.site.kept(&path, io.now) {
            Lookup::Absent | Lookup::Old => {
                if let Some(script) = io.routes.get(EVERYTHING_ELSE, io.now)
                    && io.site.leaves_to_front_controller(&path)
                {
                    let script = Arc::clone(script);
                    return self.run(io, script, pending);
                }
                self.phase = Phase::Finding(pending);
                io.order(Job::Find(Arc::clone(&io.site), path), self.key);
            }
            Lookup::Good(asset) => self.send_file(io, &Ready { asset, was_kept: true }, pending),
            Lookup::Stale(asset) => {
                io.disk.order_chore(Chore::Look(Arc::clone(&io.site), path));
                self.send_file(io, &Ready { asset, was_kept: true }, pending);
            }
        }
    }

    /// A file thread has found out what answers.
    pub(in crate::serve) fn found(&mut self, io: &mut Io, path: Vec<u8>, found: io::Result<Found>) {
        let Phase::Finding(pending) = std::mem::replace(&mut self.phase, Phase::awaiting()) else {
            return;
        };
        match found {
            Ok(Found::Script(script)) => {
                if io.site.answers_everything_else(&script) {
                    io.routes.insert(EVERYTHING_ELSE.to_vec(), Arc::clone(&script), io.now);
                }
                io.routes.insert(path, Arc::clone(&script), io.now);
                self.run(io, script, pending);
            }
            Ok(Found::File(ready)) => self.send_file(io, &ready, pending),
            Ok(Found::Missing) if io.shared.config.executor == Executor::Stub => {
                self.answer_before_body(Answer::stub(), pending);
            }
            Ok(Found::Denied(denial)) => self.deny(io, denial, pending),
            Ok(Found::Missing) => self.answer_before_body(Answer::plain(404), pending),
            Ok(Found::Forbidden) => self.answer_before_body(Answer::plain(403), pending),
            Ok(Found::Directory) => {
                let query = self.meta.head().and_then(|head| head.path_and_query().1);
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

    /// What was asked for is not to be had.
    fn deny(&mut self, io: &Io, denial: Denial, pending: Pending) {
        match denial {
            Denial::Path => io.shared.metrics.path_denied(),
            Denial::Php => io.shared.metrics.php_denied(),
            Denial::Builtin => io.shared.metrics.builtin_denied(),
        }
        self.answer_before_body(Answer::plain(404), pending);
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
    pub(in crate::serve) fn answer_before_body(&mut self, answer: Answer, pending: Pending) {
        self.leave_body(pending);
        self.answer(answer);
    }

    /// Leaves the body to the connection. A client that asked whether to send it may or may not do so after such an
    /// answer.
    fn leave_body(&mut self, pending: Pending) {
        let Pending { body_reader, expects_continue, .. } = pending;
        self.unwanted =
            (!body_reader.is_read()).then_some(Unwanted { body_reader, is_doubtful: expects_continue });
    }

    fn send_file(&mut self, io: &mut Io, ready: &Ready, pending: Pending) {
        self.leave_body(pending);
        let Some(head) = self.meta.head() else { return };
        let shown = represent(&ready.asset, head, || io.ids.fresh());
        if let Some(coding) = shown.order {
            io.disk.order_chore(Chore::Code(Arc::clone(&ready.asset), coding));
        }
        let (status, origin) = (shown.status, Origin::Server);
        let mut head =
            ReplyHead { status, reason: None, fields: shown.fields, content_length: shown.length, origin };
        if status >= 400 {
            let typed = head.fields.push(b"Content-Type", PAGE_TYPE);
            debug_assert!(typed.is_ok(), "the server's own fields are valid");
            self.phase = Phase::Replying(Reply::whole(head, page(status)));
            return;
        }
        self.meta.coded = shown.coded.map(|coded| (coded.before, coded.after));
        let is_from_disk = shown.body.iter().any(|piece| matches!(piece, Piece::File(..)));
        if ready.was_kept && !is_from_disk {
            io.shared.metrics.static_hit();
        } else {
            io.shared.metrics.static_miss();
        }
        self.phase = Phase::Replying(Reply::pieces(head, shown.body));
    }

    /// Offers the request to the pool.
    pub(in crate::serve) fn offer(&mut self, io: &mut Io, script: Option<Arc<Script>>, body: Body) {
        let Some(script) = script else { return };
        let meta = &mut self.meta;
        self.has_parts = false;
        self.phase = Phase::awaiting();
        let is_deserted = self.is_deserted;
        if is_deserted && !meta.outlives_client(io.shared.config.abandoned_requests) {
            // Nobody would read the answer: its connection gives it up.
            return;
        }
        let Some((head, request_id)) = meta.take_head() else { return };
        let ClientContext { client, trace, .. } = &meta.client_context;
        let request = Request {
            head,
            body,
            script,
            client: client.addr,
            local: self.ends.local,
            https: client.https,
            tls: self.ends.tls.get().cloned(),
            asked: (client.host.clone(), client.port),
            trace: trace.clone(),
            request_id,
            received_at: meta.received_at,
        };
        let budget =
            io.shared.gate.as_ref().map(|gate| gate.wait_budget()).filter(|budget| !budget.is_zero());
        let (spool, notify) = (io.shared.spool.clone(), Arc::clone(&io.notify));
        let exchange = Arc::new(Exchange::new(request, time::now(), budget, spool, notify, self.key));
        meta.set_exchange(Arc::clone(&exchange));
        if is_deserted {
            exchange.abandon();
        }
        meta.ending.await_pool(&io.shared.metrics);
        let has_workers = io.shared.workers.get().is_some_and(|workers| workers.taking() > 0);
        let verdict = match &io.shared.gate {
            Some(gate) if has_workers => gate.offer(exchange),
            _ => Offer::Refused(ShedReason::PoolUnavailable),
        };
        match verdict {
            Offer::Queued => io.note_offer(),
            Offer::Waiting(ticket) => meta.ticket = Some(ticket),
            // What is refused to a client that has left is counted as its leaving.
            Offer::Refused(_) if is_deserted => {}
            Offer::Refused(reason) => self.shed(reason),
        }
    }
}
