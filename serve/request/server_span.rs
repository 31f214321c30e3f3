//! The record of a request as a span: the attributes of OpenTelemetry's conventions for HTTP servers, and those that
//! only this server knows.
//!
//! The span agrees with the access record; secret values in the query are redacted. Nothing is decided here: the end
//! of the request is known by then.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use svc_core::http::{FreshIds, MethodKind, Trace, Version, forwarded, ip_text};
use svc_core::time;
use svc_core::trace::{
    AttributeValue, Attributes, ParentSpan, RequestPart, RequestSpan, Span, SpanContext, SpanId, SpanKind,
    SpanLink, SpanStatus, redact,
};

use super::meta::RequestMeta;
use super::outcome::Outcome;
use crate::io_thread::new_connection::ListenerKind;

/// The end of a request, as its connection knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedEnd {
    /// The time from the first byte of its head to its record.
    pub(super) duration: Duration,
    /// The bytes of the response's body that were sent.
    pub(super) body_bytes: u64,
    /// The state of the response.
    pub(super) response: ResponseEnd,
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseEnd {
    /// The server broke it off.
    BrokenOff,
    /// Its connection, or its stream, was lost before it was sent.
    Lost,
    /// It was sent completely.
    Whole,
}

/// The attributes that only the server sets on a request. Attributes of these names from a script are dropped, even if
/// the server sets none: readers of `svc.shed_reason` must be able to rely on it.
const OWN_KEYS: [&str; 23] = [
    "http.request.method",
    "http.request.method_original",
    "url.path",
    "url.query",
    "url.scheme",
    "server.address",
    "server.port",
    "client.address",
    "network.peer.address",
    "network.peer.port",
    "network.protocol.version",
    "user_agent.original",
    "svc.request_id",
    "svc.shed_reason",
    "svc.cache",
    "svc.queue_wait_us",
    "svc.parked_us",
    "svc.worker_id",
    "http.request.body.size",
    "http.response.status_code",
    "http.response.body.size",
    "svc.unfinished",
    "svc.spans_dropped",
];

/// The capacity for the attributes of most requests, so that the list does not grow.
const ATTRIBUTES_TYPICAL: usize = 18;

impl RequestMeta {
    /// Exports the span of the request, and the span of its wait for a worker.
    pub(super) fn export(&self, own: &RequestSpan, end: RecordedEnd) {
        let (wait, own_span) = self.spans(own, end);
        wait.iter().for_each(|wait| own.tracer().offer(wait));
        own.tracer().offer(&own_span);
    }

    fn spans(&self, own: &RequestSpan, end: RecordedEnd) -> (Option<Span>, Span) {
        (self.admission_wait(own, self.started + end.duration), self.server_span(own, end))
    }

    /// Makes the span of the wait for a worker, which ends with the request at the latest.
    fn admission_wait(&self, own: &RequestSpan, ended_at: Instant) -> Option<Span> {
        let exchange = self.exchange.as_ref()?;
        let until = exchange.waited().map_or(ended_at, |waited| exchange.offered_at + waited);
        Some(own.part(RequestPart::AdmissionWait, exchange.offered_at, until))
    }

    fn server_span(&self, own: &RequestSpan, end: RecordedEnd) -> Span {
        let limits = own.tracer().limits();
        let (name, method, original) = method_of(self.asks_for().0, &own.tracer().config().known_methods);
        let mut span = Span::new(own.context().clone(), name, SpanKind::Server, own.clock().at(self.started));
        span.end = own.clock().at(self.started + end.duration);
        let parent = self.client_context.trace.as_ref().and_then(|trace| SpanId::new(trace.parent_id()?));
        span.parent = parent.map(|span_id| ParentSpan { span_id, is_remote: true });
        if parent.is_none()
            && let Some(link) = self.link(own)
        {
            span.add_link(link, limits);
        }
        let mut recorded = RecordedSpan { span: &mut span, limits: &limits.span_attributes() };
        recorded.set("http.request.method", method);
        if let Some(original) = original {
            recorded.set("http.request.method_original", original.to_owned());
        }
        self.record_url(&mut recorded, &own.tracer().config().redacted_parameters);
        self.record_addresses(&mut recorded);
        let notes = own.take_notes();
        if let Some(AttributeValue::Text(route)) = notes.attributes.get("http.route") {
            recorded.span.name = format!("{} {route}", recorded.span.name).into();
        }
        self.record_own(&mut recorded, notes.worker_id, notes.parked);
        self.record_end(&mut recorded, end, notes.exception.as_deref());
        notes.merge_into(&mut span, limits, &OWN_KEYS);
        span
    }

    /// Returns a link to a parent that is not trusted, so that a backend that trusts it can follow the link.
    fn link(&self, own: &RequestSpan) -> Option<SpanLink> {
        let config = own.tracer().config();
        let head = self.head().filter(|_| config.has_trace_context)?;
        let claimed = Trace::of(head, FreshIds { trace_id: 1, span_id: 1 });
        let mut context = SpanContext::of(&claimed)?;
        context.span_id = SpanId::new(claimed.parent_id()?)?;
        let mut attributes = Attributes::default();
        attributes.add("svc.link", "untrusted_parent", &config.limits.link_attributes());
        Some(SpanLink { context, is_remote: true, attributes })
    }

    fn record_url(&self, recorded: &mut RecordedSpan<'_>, redacted: &[String]) {
        let (_, path) = self.asks_for();
        if path.starts_with(b"/") || path == b"*" {
            recorded.set("url.path", AttributeValue::lossy(path));
        }
        let query = self.head().and_then(|head| head.path_and_query().1);
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            recorded.set("url.query", AttributeValue::lossy(&redact(query, redacted)));
        }
        let is_https = self.client_context.client.https;
        recorded.set("url.scheme", if is_https { "https" } else { "http" });
    }

    fn record_addresses(&self, recorded: &mut RecordedSpan<'_>) {
        let client = &self.client_context.client;
        let host = client.host.as_deref().or_else(|| self.head().and_then(|head| head.host()));
        let (address, port) = match host.map(split_host) {
            // Without a port, the client used the default port of the scheme.
            Some((name, port)) => {
                let port = client.port.or(port).unwrap_or(if client.https { 443 } else { 80 });
                (AttributeValue::lossy(name), port)
            }
            None => (ip_text(self.endpoints.local.ip()).into(), self.endpoints.local.port()),
        };
        recorded.set("server.address", address);
        recorded.set("server.port", port);
        recorded.set("client.address", ip_text(client.addr.ip()));
        // The peer of a Unix socket has no address; the loopback address is a substitute for scripts.
        if self.endpoints.listener != ListenerKind::Unix {
            recorded.set("network.peer.address", ip_text(self.endpoints.peer.ip()));
            recorded.set("network.peer.port", self.endpoints.peer.port());
        }
        let version = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2",
        };
        recorded.set("network.protocol.version", version);
        if let Some(agent) = self.head().and_then(|head| head.header("user-agent")) {
            recorded.set("user_agent.original", AttributeValue::lossy(agent));
        }
    }

    /// Adds the attributes that only this server knows.
    fn record_own(&self, recorded: &mut RecordedSpan<'_>, worker_id: Option<usize>, parked: Duration) {
        recorded.set("svc.request_id", self.request_id.to_string());
        if let Some(reason) = self.outcome.shed_reason() {
            recorded.set("svc.shed_reason", reason.as_str());
        }
        if let Some(used) = &self.cache {
            recorded.set("svc.cache", used.outcome.as_str());
        }
        if let Some(waited) = self.exchange.as_ref().and_then(|exchange| exchange.waited()) {
            recorded.set("svc.queue_wait_us", time::as_micros(waited));
            recorded.set("svc.parked_us", time::as_micros(parked));
        }
        if let Some(worker_id) = worker_id {
            recorded.set("svc.worker_id", worker_id);
        }
    }

    /// Adds how the request ended. `exception` is the class of the exception that ended its script.
    fn record_end(&self, recorded: &mut RecordedSpan<'_>, end: RecordedEnd, exception: Option<&str>) {
        if let Some(bytes) = self.request_body_bytes() {
            recorded.set("http.request.body.size", bytes);
        }
        let (status, outcome) = (self.outcome.status(), self.outcome.decided());
        let has_left = matches!(outcome, Some(Outcome::Left { .. }));
        if !has_left {
            recorded.set("http.response.status_code", status);
            recorded.set("http.response.body.size", end.body_bytes);
        }
        let error = match exception {
            _ if has_left => Cow::Borrowed("client_abort"),
            _ if status < 500 && end.response == ResponseEnd::Whole => return,
            Some(class) => Cow::Owned(class.to_owned()),
            None if status >= 500 => Cow::Owned(status.to_string()),
            None => Cow::Borrowed(self.why_cut(end.response)),
        };
        recorded.set("error.type", error);
        recorded.span.status = SpanStatus::Error(Cow::Borrowed(""));
    }

    /// Returns why the response ended after its head and before its end.
    fn why_cut(&self, response: ResponseEnd) -> &'static str {
        let exchange = self.exchange.as_ref();
        if self.outcome.is_cut() {
            "shutdown"
        } else if exchange.is_some_and(|exchange| exchange.is_overdue()) {
            "timeout"
        } else if response == ResponseEnd::BrokenOff || exchange.is_some_and(|exchange| exchange.is_broken())
        {
            // A script may also have written less than it announced, and a file may have been truncated.
            "incomplete_response"
        } else {
            "client_abort"
        }
    }

    /// Returns the length of the request's body, if it is known.
    fn request_body_bytes(&self) -> Option<u64> {
        if let Some(exchange) = &self.exchange {
            return Some(exchange.request.body.len());
        }
        let head = self.head()?;
        match (head.header("content-length"), head.header("transfer-encoding")) {
            (Some(length), _) => str::from_utf8(length).ok()?.trim().parse().ok(),
            (None, Some(_)) => None,
            (None, None) => Some(0),
        }
    }
}

/// A span under construction, within its limits. Each attribute is added once.
struct RecordedSpan<'a> {
    span: &'a mut Span,
    limits: &'a svc_core::config::AttributeLimits,
}

impl RecordedSpan<'_> {
    fn set(&mut self, key: &'static str, value: impl Into<AttributeValue>) {
        if self.span.attributes.is_empty() {
            self.span.attributes = Attributes::with_capacity(ATTRIBUTES_TYPICAL);
        }
        self.span.attributes.add(key, value, self.limits);
    }
}

/// Returns the name of the span, its method, and the original method if it is not known.
fn method_of<'a>(
    method: &'a str,
    known: &[String],
) -> (Cow<'static, str>, Cow<'static, str>, Option<&'a str>) {
    if !known.iter().any(|name| name == method) {
        return ("HTTP".into(), "_OTHER".into(), Some(method).filter(|method| !method.is_empty()));
    }
    let name = match MethodKind::of(method.as_bytes()) {
        MethodKind::Other => Cow::Owned(method.to_owned()),
        kind => Cow::Borrowed(kind.as_str()),
    };
    (name.clone(), name, None)
}

/// Splits a host into its name or address, without brackets, and its port.
fn split_host(host: &[u8]) -> (&[u8], Option<u16>) {
    let (name, port) = match host.iter().rposition(|&byte| byte == b':') {
        Some(colon) if host[colon + 1..].iter().all(u8::is_ascii_digit) => {
            (&host[..colon], forwarded::port(&host[colon + 1..]))
        }
        _ => (host, None),
    };
    (name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name), port)
}

#[cfg(test)]
#[path = "server_span_tests.rs"]
mod tests;
