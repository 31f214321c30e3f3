//! The start of a request, in phases, from its head to the first decision.
//!
//! | phase | determines | may end in |
//! |---|---|---|
//! | [`take_permit`] | the permit of a concurrent stream | a refused stream |
//! | [`hold_head`] | the memory of its head | a refused stream |
//! | [`join_trace`] | the trace, and whether the request is recorded | |
//! | [`identify`] | the client, its quota, the request ID | |
//! | [`open_span`](RequestMeta::open_span) | its span, if it is recorded | |
//! | [`limit`] | the length of its body, its life without a client | 429, 413 |
//! | [`check`] | whether port and method allow a handler | 308, 405, 204 |
//! | [`find`](RequestMeta::find) | the handler, in `dispatch` | a file, a script, 404 |
//!
//! Each request that passes the first two phases is counted as received. A client that has exceeded its quota gets 429 even
//! if its body is too long.

use std::time::Instant;

use svc_core::connection::{Connection, Grant, Incoming, Input, Rejected, Rejection, Unreadable};
use svc_core::http::{Head, MethodKind, RequestLine, Trace, Version, https_location};
use svc_core::pool::{Origin, RequestId, StreamKey};
use svc_core::spool::Share;
use svc_core::sync::permits::Permit;
use svc_core::sync::primitive::Arc;
use svc_core::trace::Tracer;

use super::client_context::ClientContext;
use super::meta::RequestMeta;
use super::server_response::{METHODS, ServerResponse};
use crate::io_thread::io::Io;
use crate::io_thread::new_connection::{Endpoints, ListenerKind};
use crate::shared::Shared;

/// Starts a request whose head was read.
pub(crate) fn start(
    connection: &mut Connection<RequestMeta>,
    io: &mut Io,
    connection_key: u64,
    endpoints: &Arc<Endpoints>,
    incoming: Incoming,
) {
    let Incoming { stream, head, began, needs_permit, .. } = incoming;
    let Some(permit) = take_permit(connection, io, needs_permit) else { return };
    let Some(memory) = hold_head(connection, io, &head) else { return };
    io.shared.metrics.requests_by_method.incr(head.method_kind());
    let placed = join_trace(io, endpoints, Some(&head));
    let (client_context, request_id) = identify(io, endpoints, &head, placed.trace);
    let key = StreamKey { connection: connection_key, stream };
    let mut meta = RequestMeta::new(key, endpoints, head, request_id, client_context, began);
    meta.memory = memory;
    meta.open_span(placed.tracer.as_ref());
    let grant = limit(io, &meta, permit);
    let fits = connection.begin(meta, grant, io.now);
    let Some(stream) = connection.stream(stream) else { return };
    let request = &mut stream.request;
    let decision = match (request.client_context.must_wait().map(ServerResponse::too_many), fits) {
        (Some(response), true) => Some(response.into_decision()),
        (Some(response), false) => Some(response.into_refusal()),
        (None, true) => check(io, request).map(ServerResponse::into_decision).or_else(|| request.find(io)),
        (None, false) => Some(ServerResponse::plain(413).into_refusal()),
    };
    if let Some(decision) = decision {
        stream.decide(decision, io.now);
    }
}

/// Starts a request that cannot be read, and answers it.
pub(crate) fn start_unreadable(
    connection: &mut Connection<RequestMeta>,
    io: &mut Io,
    connection_key: u64,
    endpoints: &Arc<Endpoints>,
    unreadable: Unreadable,
) {
    let Unreadable { stream, error, line, began, needs_permit } = unreadable;
    let Some(permit) = take_permit(connection, io, needs_permit) else { return };
    io.shared.metrics.requests_by_method.incr(MethodKind::Other);
    let key = StreamKey { connection: connection_key, stream };
    let meta = unread(io, key, endpoints, line, began);
    // It has no body.
    let _ = connection.begin(meta, Grant { permit, ..Grant::default() }, io.now);
    let response = match error {
        Rejected::Head(error) => ServerResponse::plain(error.status()),
        Rejected::Late => ServerResponse::plain(408),
        Rejected::PlainHttpOnTls => ServerResponse::tls_expected(),
    };
    if let Some(stream) = connection.stream(stream) {
        stream.decide(response.into_decision(), io.now);
    }
}

/// Acquires a permit for a request that needs one, or refuses the stream.
fn take_permit(connection: &mut Connection<RequestMeta>, io: &Io, is_needed: bool) -> Option<Option<Permit>> {
    if !is_needed {
        return Some(None);
    }
    let permit = io.shared.stream_permits.try_acquire();
    if permit.is_none() {
        io.shared.metrics.streams_refused.incr();
        // The request has not been processed, so the client may retry it.
        connection.handle(Input::Refuse, io.now);
    }
    permit.map(Some)
}

/// Counts a head in the memory of all responses, or refuses the stream. Through header compression, an HTTP/2 client can
/// make the server store a hundred times the bytes that it sends, while it withholds the bodies.
fn hold_head(connection: &mut Connection<RequestMeta>, io: &Io, head: &Head) -> Option<Share> {
    let mut memory = Share::default();
    let bytes = head.memory_bytes() as u64;
    if head.version() != Version::Http2 {
        // An HTTP/1 head was not compressed, and its connection carries no other request.
        memory.take(&io.shared.spool, bytes);
    } else if !memory.try_take(&io.shared.spool, bytes) {
        io.shared.metrics.streams_refused.incr();
        connection.handle(Input::Refuse, io.now);
        return None;
    }
    Some(memory)
}

impl RequestMeta {
    /// Records a request that the HTTP/2 library answered itself, with a head and no body.
    pub(crate) fn answered_unseen(
        io: &mut Io,
        connection_key: u64,
        endpoints: &Arc<Endpoints>,
        rejection: Rejection,
    ) {
        let Rejection { stream, status, began } = rejection;
        io.shared.metrics.requests_by_method.incr(MethodKind::Other);
        let key = StreamKey { connection: connection_key, stream };
        let mut meta = unread(io, key, endpoints, None, began);
        meta.outcome.note_head_sent(status, Origin::Server, &io.shared.metrics);
        meta.finish(&io.shared, 0, true);
    }
}

/// Creates the state of a request that cannot be read, except perhaps its first line: its trace, client and span.
fn unread(
    io: &mut Io,
    key: StreamKey,
    endpoints: &Arc<Endpoints>,
    line: Option<Box<RequestLine>>,
    began: Instant,
) -> RequestMeta {
    let Placed { trace, tracer } = join_trace(io, endpoints, None);
    let context = ClientContext::unread(&io.shared.policy, endpoints, trace, io.now);
    let mut meta = RequestMeta::unread(key, endpoints, io.ids.name(None), line, context, began);
    meta.open_span(tracer.as_ref());
    meta
}

/// The place of a request in a trace.
struct Placed {
    trace: Option<Trace>,
    /// The tracer, if the request is recorded.
    tracer: Option<Arc<Tracer>>,
}

/// Determines the trace of a request, and whether it is recorded. A request that cannot be read is part of a trace only
/// if it may be recorded.
fn join_trace(io: &mut Io, endpoints: &Endpoints, head: Option<&Head>) -> Placed {
    let shared = &io.shared;
    if shared.tracer.is_none() && !(shared.config.logs.trace_context && head.is_some()) {
        return Placed { trace: None, tracer: None };
    }
    let is_read = shared.tracer.as_ref().is_none_or(|tracer| tracer.config().has_trace_context);
    let trusted_head =
        head.filter(|_| is_read && shared.policy.proxies.trusts_traces_of(endpoints.peer.ip()));
    let new_ids = io.ids.for_trace();
    let mut trace = trusted_head.map_or_else(|| Trace::begin(new_ids), |head| Trace::of(head, new_ids));
    let tracer = shared.tracer.as_ref().filter(|tracer| tracer.decide(&mut trace)).cloned();
    Placed { trace: Some(trace), tracer }
}

/// Determines the client of a request, its quota and its ID.
fn identify(
    io: &mut Io,
    endpoints: &Endpoints,
    head: &Head,
    trace: Option<Trace>,
) -> (ClientContext, RequestId) {
    let context = ClientContext::of(&io.shared.policy, endpoints, head, trace, io.now);
    if context.must_wait().is_some() {
        io.shared.metrics.rate_limited.incr();
    }
    let mut requested_ids = head.header_values("x-request-id");
    let request_id = io.ids.name(requested_ids.next().filter(|_| requested_ids.next().is_none()));
    (context, request_id)
}

/// Limits the body of a request.
fn limit(io: &Io, meta: &RequestMeta, permit: Option<Permit>) -> Grant {
    let config = &io.shared.config;
    let is_query = meta.head().is_some_and(|head| head.method_kind() == MethodKind::Query);
    Grant {
        body_bytes_max: if is_query { config.bodies.max_query_body } else { config.bodies.max_body_bytes },
        outlives_client: meta.outlives_client(config.admission.abandoned_requests),
        permit,
    }
}

/// Returns the response to a request that needs no handler: its port redirects to HTTPS, or its method determines the
/// response.
fn check(io: &Io, meta: &RequestMeta) -> Option<ServerResponse> {
    let head = meta.head()?;
    match meta.endpoints.listener {
        ListenerKind::Redirect => Some(redirect(&io.shared, head)),
        ListenerKind::Main | ListenerKind::Unix => respond_to_method(head),
    }
}

/// Returns the response to a request on the port that redirects to HTTPS.
fn redirect(shared: &Shared, head: &Head) -> ServerResponse {
    let port = shared.https_port();
    let location = shared.tls.as_ref().and_then(|names| https_location(head, names, port));
    location.map_or_else(|| ServerResponse::plain(400), |location| ServerResponse::to_https(&location))
}

/// Returns the response to a request whose method determines it.
fn respond_to_method(head: &Head) -> Option<ServerResponse> {
    match head.method_kind() {
        MethodKind::Connect => Some(ServerResponse::not_allowed(METHODS)),
        MethodKind::Other if head.method() == "TRACE" => Some(ServerResponse::not_allowed(METHODS)),
        MethodKind::Options if head.target() == b"*" => Some(ServerResponse::options(METHODS)),
        _ => None,
    }
}
