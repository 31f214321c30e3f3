//! The server's state of one request, from its head to its record.
//!
//! Everything that the record needs is available until the request is recorded; the worker shares the head. The state
//! refers to no connection. `dispatch` chooses the handler of the request, `respond` decides the content of its response,
//! and `accounting` records it.

use std::time::{Instant, SystemTime};

use svc_core::admission::Ticket;
use svc_core::config::AbandonedRequests;
use svc_core::http::{Head, RequestLine, Version};
use svc_core::policy::deny::Denial;
use svc_core::pool::{Exchange, RequestId, ResponseHead, Script, StreamKey};
use svc_core::spool::Share;
use svc_core::sync::primitive::Arc;
use svc_core::time;
use svc_core::trace::{RequestSpan, SpanClock, SpanContext, Tracer};

use super::cache_use::CacheUse;
use super::change_wait::ChangeWait;
use super::client_context::ClientContext;
use super::outcome::RequestOutcome;
use crate::io_thread::new_connection::Endpoints;

/// A request that is being served.
#[derive(Debug)]
pub(crate) struct RequestMeta {
    /// Identifies the request to other threads.
    pub(crate) key: StreamKey,
    /// The endpoints of its connection.
    pub(crate) endpoints: Arc<Endpoints>,
    /// The protocol of the response.
    pub(crate) version: Version,
    /// The script that handles it, from when it is found until the request is offered.
    pub(crate) script: Option<Arc<Script>>,
    /// When the first byte of the head arrived.
    pub(crate) started: Instant,
    /// The same, on the wall clock.
    pub(crate) received_at: SystemTime,
    /// How it ends.
    pub(crate) outcome: RequestOutcome,
    /// Its place in the waiting set. The exchange may have been promoted since.
    pub(crate) ticket: Option<Ticket>,
    /// The rule that blocks its path.
    pub(crate) denial: Option<Denial>,
    /// The lengths of a file before and after its content coding, if it has one.
    pub(crate) coded: Option<(u64, u64)>,
    /// Whether the head that was sent announces a body with a content coding of the server.
    pub(crate) is_coded: bool,
    /// The head of a script's response while the file that it names is being opened.
    pub(crate) sends: Option<Box<ResponseHead>>,
    /// Whether its script no longer existed when a worker opened it; the path is then resolved again.
    pub(crate) has_lost_script: bool,
    /// The share of its head in the memory of all responses.
    pub(crate) memory: Share,
    /// The client, and the trace of the request.
    pub(crate) client_context: ClientContext,
    /// Its span, if it is recorded.
    pub(crate) span: Option<Arc<RequestSpan>>,
    /// Its use of the response cache, if the cache was asked.
    pub(crate) cache: Option<Box<CacheUse>>,
    /// Its wait for a change of the code, if it is one of a browser that reloads.
    pub(super) change: Option<Box<ChangeWait>>,
    /// The request ID.
    pub(crate) request_id: RequestId,
    /// Its exchange with a worker, once it is offered.
    pub(crate) exchange: Option<Arc<Exchange>>,
    head: ReceivedHead,
}

/// The head as received.
#[derive(Debug)]
enum ReceivedHead {
    /// It was read. A worker shares it.
    Read(Arc<Head>),
    /// It is malformed; perhaps its first line could be read.
    Unread(Option<Box<RequestLine>>),
}

impl RequestMeta {
    /// Creates the state of a request whose head was read.
    pub(crate) fn new(
        key: StreamKey,
        endpoints: &Arc<Endpoints>,
        head: Arc<Head>,
        request_id: RequestId,
        client_context: ClientContext,
        began: Instant,
    ) -> Self {
        let version = head.version();
        let head = ReceivedHead::Read(head);
        Self::of(key, endpoints, head, request_id, client_context, version, began)
    }

    /// Creates the state of a request whose head cannot be read, except perhaps its first line.
    pub(crate) fn unread(
        key: StreamKey,
        endpoints: &Arc<Endpoints>,
        request_id: RequestId,
        line: Option<Box<RequestLine>>,
        client_context: ClientContext,
        began: Instant,
    ) -> Self {
        // HTTP/2 numbers its streams from 1.
        let version = if key.stream == 0 { Version::Http11 } else { Version::Http2 };
        let head = ReceivedHead::Unread(line);
        Self::of(key, endpoints, head, request_id, client_context, version, began)
    }

    fn of(
        key: StreamKey,
        endpoints: &Arc<Endpoints>,
        head: ReceivedHead,
        request_id: RequestId,
        client_context: ClientContext,
        version: Version,
        started: Instant,
    ) -> Self {
        let (now, wall) = (time::now(), time::wall());
        let age = now.saturating_duration_since(started);
        Self {
            key,
            endpoints: Arc::clone(endpoints),
            version,
            script: None,
            started,
            received_at: wall.checked_sub(age).unwrap_or(wall),
            outcome: RequestOutcome::default(),
            ticket: None,
            denial: None,
            coded: None,
            is_coded: false,
            sends: None,
            has_lost_script: false,
            memory: Share::default(),
            client_context,
            span: None,
            cache: None,
            change: None,
            request_id,
            exchange: None,
            head,
        }
    }

    /// Begins its span, if it is recorded by `tracer`.
    pub(crate) fn open_span(&mut self, tracer: Option<&Arc<Tracer>>) {
        let Some(tracer) = tracer else { return };
        let context = self.client_context.trace.as_ref().and_then(SpanContext::of);
        let clock = SpanClock::new(self.started, self.received_at);
        self.span = context.map(|context| RequestSpan::new(tracer, context, clock));
    }

    /// Returns the head, if it was read.
    pub(crate) fn head(&self) -> Option<&Arc<Head>> {
        if let ReceivedHead::Read(head) = &self.head { Some(head) } else { None }
    }

    /// Returns whether it runs even if its client has left.
    pub(crate) fn outlives_client(&self, policy: AbandonedRequests) -> bool {
        match policy {
            AbandonedRequests::Drop => false,
            AbandonedRequests::Run => true,
            AbandonedRequests::RunUnsafe => self.head().is_some_and(|head| !head.method_kind().is_safe()),
        }
    }

    /// Returns the method and the path as received; empty if they could not be read.
    pub(crate) fn asks_for(&self) -> (&str, &[u8]) {
        match &self.head {
            ReceivedHead::Read(head) => (head.method(), head.path_and_query().0),
            ReceivedHead::Unread(Some(line)) => (&line.method, &line.path),
            ReceivedHead::Unread(None) => ("", b""),
        }
    }

    /// Returns the lengths of the body before and after the server's content coding, if there is one.
    pub(crate) fn coding(&self) -> Option<(u64, u64)> {
        self.coded.or_else(|| self.exchange.as_ref()?.coded())
    }
}
