//! Dispatching: from a parsed head to its handler, and to the gate if the handler is a script.
//!
//! Only file threads access the disk; each verdict of the gate leads to exactly one record. This module runs no
//! handler itself.

use std::io;
use std::time::Instant;

use svc_core::admission::OfferOutcome;
use svc_core::cache::Fill;
use svc_core::config::Executor;
use svc_core::connection::{Decision, Response};
use svc_core::files::{Asset, BodyPiece, Representation, directory_location, represent};
use svc_core::http::{Head, uri};
use svc_core::observe::{Event, Metrics};
use svc_core::policy::deny::Denial;
use svc_core::pool::{Body, CompleteRequest, Origin, RequestId, ResponseHead, ResponseRecorder, Script};
use svc_core::sync::primitive::Arc;

use super::meta::RequestMeta;
use super::server_response::{PAGE_TYPE, ServerResponse, page};
use crate::disk::file_job::BackgroundJob;
use crate::disk::site::{Found, Ready};
use crate::io_thread::io::Io;
use crate::io_thread::router::Handler;

impl RequestMeta {
    /// Finds the handler of the request; `None` while a file thread looks for it.
    pub(crate) fn find(&mut self, io: &mut Io) -> Option<Decision> {
        let head = self.head()?;
        let Ok(path) = uri::normalise(head.path_and_query().0) else {
            return Some(ServerResponse::plain(400).into_decision());
        };
        if let Some(decision) = self.find_change_wait(io, &path.path) {
            return Some(decision);
        }
        match io.router.find(path.path, self.key, io.now) {
            Handler::Denied(denial) => Some(self.deny(&io.shared.metrics, denial)),
            Handler::File(ready) => Some(self.send_file(io, &ready)),
            Handler::Script(script) => Some(self.run(io.shared.config.serving.executor, script)),
            Handler::Unknown => None,
        }
    }

    /// Decides by the resource that a file thread has found.
    pub(crate) fn found(&mut self, io: &mut Io, path: &[u8], found: io::Result<Found>) -> Decision {
        match found {
            // Its worker looked it up again and did not find it.
            Ok(Found::Script(_)) if self.has_lost_script => ServerResponse::plain(503).into_decision(),
            Ok(Found::Script(script)) => {
                io.router.learn(path, &script, io.now);
                self.run(io.shared.config.serving.executor, script)
            }
            Ok(Found::File(ready)) => self.send_file(io, &ready),
            Ok(Found::Missing) if io.shared.config.serving.executor == Executor::Stub => {
                ServerResponse::stub().into_decision()
            }
            Ok(Found::Denied(denial)) => self.deny(&io.shared.metrics, denial),
            Ok(Found::Missing) => ServerResponse::plain(404).into_decision(),
            Ok(Found::Forbidden) => ServerResponse::plain(403).into_decision(),
            Ok(Found::Directory) => {
                let query = self.head().and_then(|head| head.path_and_query().1);
                ServerResponse::moved(&directory_location(path, query)).into_decision()
            }
            Err(error) => {
                let what = format!("document root cannot be read: {error}");
                io.shared.log.emit(&Event::Failure { what: &what });
                ServerResponse::plain(503).into_decision()
            }
        }
    }

    /// Selects the script that handles the request; its body is read first.
    fn run(&mut self, executor: Executor, script: Arc<Script>) -> Decision {
        if executor == Executor::Stub {
            return ServerResponse::stub().into_decision();
        }
        self.script = Some(script);
        Decision::ReadBody
    }

    /// Answers a request whose path is blocked.
    fn deny(&mut self, metrics: &Metrics, denial: Denial) -> Decision {
        match denial {
            Denial::Path => metrics.path_denied.incr(),
            Denial::Php => metrics.php_denied.incr(),
            Denial::Builtin | Denial::DotFile => metrics.builtin_denied.incr(),
        }
        self.denial = Some(denial);
        ServerResponse::plain(404).into_decision()
    }

    fn send_file(&mut self, io: &mut Io, ready: &Ready) -> Decision {
        if let Some(decision) = self.send_document(io, ready) {
            return decision;
        }
        let Some(head) = self.head() else { return ServerResponse::plain(500).into_decision() };
        let representation = represent(&ready.asset, head, || io.ids.new_id().to_string());
        let status = representation.status;
        let head = ResponseHead { status, ..ResponseHead::bare(Origin::Server) };
        self.send_representation(io, ready, representation, head, status >= 400)
    }

    /// Answers with `head`, and with the fields and the body of `representation`, unless `is_refused`: then with the page of
    /// the error. Counts whether the file was read from the disk.
    pub(crate) fn send_representation(
        &mut self,
        io: &mut Io,
        ready: &Ready,
        representation: Representation,
        head: ResponseHead,
        is_refused: bool,
    ) -> Decision {
        if !is_refused {
            let is_from_disk = representation.body.iter().any(|piece| matches!(piece, BodyPiece::File(..)));
            if ready.was_kept && !is_from_disk {
                io.shared.metrics.static_hits.incr();
            } else {
                io.shared.metrics.static_misses.incr();
            }
        }
        self.send_asset(io, &ready.asset, representation, head, is_refused)
    }

    /// Answers with `head`, and with the fields and the body of `representation`, which was made from `asset`; if
    /// `is_refused`, with the page of the error. Orders the coding that the client would have preferred.
    pub(super) fn send_asset(
        &mut self,
        io: &mut Io,
        asset: &Arc<Asset>,
        representation: Representation,
        head: ResponseHead,
        is_refused: bool,
    ) -> Decision {
        if let Some(coding) = representation.order {
            io.disk.order_background(BackgroundJob::Code(Arc::clone(asset), coding));
        }
        let mut head =
            ResponseHead { fields: representation.fields, content_length: representation.length, ..head };
        if is_refused {
            head.fields.push_own(b"Content-Type", PAGE_TYPE);
            return Decision::Respond(Response::whole(head, page(representation.status)));
        }
        self.coded = representation.coded.map(|coded| (coded.before, coded.after));
        Decision::Respond(Response::pieces(head, representation.body, &io.shared.spool))
    }

    /// Offers the request to the pool.
    pub(crate) fn offer(&mut self, io: &mut Io, body: Body, client_gone: bool) -> Option<Decision> {
        if let Some(decision) = self.await_change(io).or_else(|| self.boot_failure(io)) {
            return Some(decision);
        }
        if let Some(cache) = &io.shared.cache {
            let cache = Arc::clone(cache);
            if let Some(decision) = self.ask_cache(io, &cache, !body.is_empty() || client_gone) {
                return Some(decision);
            }
        }
        self.offer_to_pool(io, body, client_gone, None)
    }

    /// Offers the request at the gate. It waits until `until`, if it has waited before, and for the usual time at most.
    pub(super) fn offer_to_pool(
        &mut self,
        io: &mut Io,
        body: Body,
        client_gone: bool,
        until: Option<Instant>,
    ) -> Option<Decision> {
        let script = self.script.take()?;
        let head = self.head_for_script()?;
        let mut request = self.complete_request(head, body, script, self.request_id.clone(), None);
        request.span = self.span.clone();
        request.trace = self.client_context.trace.clone();
        request.recorder = self.cache.as_ref().and_then(|used| used.recorder());
        let exchange = io.pool.exchange(request, self.key, until);
        let until = exchange.deadline;
        self.exchange = Some(Arc::clone(&exchange));
        if client_gone {
            exchange.abandon();
        }
        self.outcome.await_pool(&io.shared.metrics);
        match io.pool.offer(exchange) {
            OfferOutcome::Queued => {}
            OfferOutcome::Waiting(ticket) => self.ticket = Some(ticket),
            // If the client has left, the refusal is counted as its leaving.
            OfferOutcome::Refused(_) if client_gone => {}
            OfferOutcome::Refused(reason) => return Some(self.stale_or_shed(io, reason)),
        }
        Some(Decision::Await { until })
    }

    /// Creates the request for a worker, without its trace.
    pub(super) fn complete_request(
        &self,
        head: Arc<Head>,
        body: Body,
        script: Arc<Script>,
        request_id: RequestId,
        fill: Option<Arc<Fill>>,
    ) -> CompleteRequest {
        let client = &self.client_context.client;
        CompleteRequest {
            head,
            body,
            script,
            client: client.addr,
            local: self.endpoints.local,
            https: client.https,
            tls: self.endpoints.tls.get().cloned(),
            asked: (client.host.clone(), client.port),
            trace: None,
            span: None,
            request_id,
            received_at: self.received_at,
            recorder: fill.map(|fill| fill as Arc<dyn ResponseRecorder>),
        }
    }
}
