//! The start of a request: its client, its limits, and what is decided before the server looks for a handler.
//!
//! Promises: each request that begins is counted as received. Refuses: it opens no file and knows no script; see
//! `dispatch`.

use crate::connection::{Connection, Grant, Incoming, Rejected, Rejection, Unreadable};
use crate::http::{Head, MethodKind, Trace};
use crate::pool::{Origin, StreamKey};
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use super::answer::{Answer, METHODS};
use super::client_context::ClientContext;
use super::endpoints::Endpoints;
use super::meta::RequestMeta;
use crate::serve::io_thread::io::Io;
use crate::serve::shared::Shared;

/// Starts a request whose head was read.
pub(in crate::serve) fn start(
    connection: &mut Connection<RequestMeta>,
    io: &mut Io,
    connection_key: u64,
    ends: &Arc<Endpoints>,
    incoming: Incoming,
) {
    let Incoming { stream, head, began, needs_permit, .. } = incoming;
    let Some(permit) = permit(connection, &io.shared, needs_permit) else { return };
    let method = head.method_kind();
    io.shared.metrics.requests_by_method.incr(method);
    let trace = io.shared.config.logs.trace_context.then(|| Trace::of(&head, io.ids.for_trace()));
    let client_context = ClientContext::of(&io.shared.policy, ends, &head, trace, io.now);
    let too_many = client_context.must_wait().map(Answer::too_many);
    if too_many.is_some() {
        io.shared.metrics.rate_limited.incr();
    }
    let mut wishes = head.header_values("x-request-id");
    let request_id = io.ids.name(wishes.next().filter(|_| wishes.next().is_none()));
    drop(wishes);
    let by_method = answer_to_method(&head);
    let key = StreamKey { connection: connection_key, stream };
    let meta = RequestMeta::new(key, ends, head, request_id, client_context, began);
    let config = &io.shared.config;
    let body_bytes_max =
        if method == MethodKind::Query { config.bodies.max_query_body } else { config.bodies.max_body_bytes };
    let outlives_peer = meta.outlives_client(config.admission.abandoned_requests);
    let fits = connection.begin(meta, Grant { body_bytes_max, outlives_peer, permit }, io.now);
    let decision = if !fits {
        let answer = too_many.unwrap_or_else(|| Answer::plain(413));
        Some(answer.into_refusal())
    } else if let Some(answer) = too_many.or(by_method) {
        Some(answer.into_decision())
    } else {
        connection.request(stream).and_then(|meta| meta.find(io))
    };
    if let Some(decision) = decision {
        connection.decide(stream, decision, io.now);
    }
}

/// Starts a request that cannot be read, and answers it.
pub(in crate::serve) fn start_unreadable(
    connection: &mut Connection<RequestMeta>,
    io: &mut Io,
    connection_key: u64,
    ends: &Arc<Endpoints>,
    unreadable: Unreadable,
) {
    let Unreadable { stream, error, line, began, needs_permit } = unreadable;
    let Some(permit) = permit(connection, &io.shared, needs_permit) else { return };
    io.shared.metrics.requests_by_method.incr(MethodKind::Other);
    let key = StreamKey { connection: connection_key, stream };
    let context = ClientContext::unread(&io.shared.policy, ends, io.now);
    let meta = RequestMeta::unread(key, ends, io.ids.name(None), line, context, began);
    connection.begin_unreadable(meta, permit, io.now);
    let answer = match error {
        Rejected::Head(error) => Answer::plain(error.status()),
        Rejected::Late => Answer::plain(408),
        Rejected::Misled => Answer::tls_expected(),
    };
    connection.decide(stream, answer.into_decision(), io.now);
}

/// Acquires a permit for a request that needs one, or refuses the stream.
fn permit(
    connection: &mut Connection<RequestMeta>,
    shared: &Shared,
    is_needed: bool,
) -> Option<Option<Permit>> {
    if !is_needed {
        return Some(None);
    }
    let permit = shared.stream_permits.try_acquire();
    if permit.is_none() {
        shared.metrics.streams_refused.incr();
        // The request has not been processed, so the client may retry it.
        connection.refuse_stream();
    }
    permit.map(Some)
}

impl RequestMeta {
    /// Records a request that the HTTP/2 library answered itself, with a head and no body.
    pub(in crate::serve) fn answered_unseen(
        io: &mut Io,
        connection_key: u64,
        ends: &Arc<Endpoints>,
        rejection: Rejection,
    ) {
        let Rejection { stream, status, began } = rejection;
        io.shared.metrics.requests_by_method.incr(MethodKind::Other);
        let key = StreamKey { connection: connection_key, stream };
        let context = ClientContext::unread(&io.shared.policy, ends, io.now);
        let mut meta = Self::unread(key, ends, io.ids.name(None), None, context, began);
        meta.ending.head_goes_out(status, Origin::Server, &io.shared.metrics);
        meta.finish(&io.shared, 0);
    }
}

/// The answer to a request whose method determines it.
fn answer_to_method(head: &Head) -> Option<Answer> {
    match head.method_kind() {
        MethodKind::Connect => Some(Answer::not_allowed(METHODS)),
        MethodKind::Other if head.method() == "TRACE" => Some(Answer::not_allowed(METHODS)),
        MethodKind::Options if head.target() == b"*" => Some(Answer::options(METHODS)),
        _ => None,
    }
}
