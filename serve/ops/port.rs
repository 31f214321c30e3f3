//! The answers of the operations port.
//!
//! A response is a pure function of a request header, its peer and the facts. Probes answer every peer; metrics,
//! configuration, status, the page and everything below `/plugins/` are restricted to peers on the allow-list. Any
//! other unknown path is answered with 404 before any other check. On a loopback address, status and page require a
//! `Host` that is an address or `localhost`, which prevents DNS rebinding: no other site can make a browser read them
//! through its own name. The responder has no socket, no clock and no state; request bodies are never read.
//!
//! | path | alias | answer |
//! |---|---|---|
//! | `/health/liveness` | `/healthz` | 200 |
//! | `/health/readiness` | `/readyz` | 200 or 503 |
//! | `/health/startup` | `/startupz` | 200 or 503 |
//! | `/health` | | the health report, 200 or 503 |
//! | `/metrics` | | the metrics, or 403 |
//! | `/config` | | the configuration, or 403 |
//! | `/status` | | what matters at 3 a.m., or 403 |
//! | `/` | | a page that shows it, or 403 |
//! | `/plugins/NAME/…` | | the page of a plugin, or 403; 404 if there is none, 503 if the plugin does not answer |

use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;

use svc_core::connection::Response;
use svc_core::http::negotiate::accepts_gzip;
use svc_core::http::{Fields, Head, HeadError};
use svc_core::limits::OPS_GZIP_MIN_BYTES;
use svc_core::observe::exposition::Format;
use svc_core::observe::{Health, HealthProbe, ProbeFacts};
use svc_core::plugins::{PageOutcome, PageTicket, PluginAsked, PluginPage};
use svc_core::policy::client::AllowList;
use svc_core::pool::{Origin, ResponseHead};
use svc_core::sync::primitive::Arc;

use super::page::{OpsPage, PageGuard};

/// The source of the answers. Each call reads facts and waits for nothing.
pub(crate) trait OpsSource {
    /// Returns the facts that the probes check.
    fn probe_facts(&self) -> ProbeFacts;
    /// Returns the health report.
    fn health(&self) -> Health;
    /// Returns the metrics in `format`.
    fn metrics(&self, format: Format) -> Vec<u8>;
    /// Returns the status report at `now`; all requests within a second get the same report.
    fn status(&self, now: Instant) -> Arc<str>;
    /// Returns the configuration report; `None` until it exists.
    fn config_report(&self) -> Option<String>;
    /// Returns whether there is a plugin of this name that has pages.
    fn has_pages(&self, plugin: &[u8]) -> bool;
    /// Requests a page from a plugin.
    fn ask_plugin(&self, name: &[u8], path: &[u8], query: &[u8], now: Instant) -> PluginAsked;
}

/// Answers requests.
#[derive(Debug)]
pub(crate) struct OpsResponder<S> {
    source: S,
    allowed: AllowList,
    /// Whether the port is bound to a loopback address.
    is_loopback: bool,
}

/// The content of an answer.
struct OpsAnswer<'a> {
    status: u16,
    content_type: &'static str,
    body: Cow<'a, [u8]>,
    /// The request header field that the answer depends on, for `Vary`.
    vary: &'static [u8],
    /// The security headers for browsers, if the answer needs any.
    guard: Option<PageGuard>,
}

/// How a request is answered.
#[derive(Debug)]
pub(crate) enum OpsResponse {
    /// With this response.
    Now(Response),
    /// With the page that was requested from a plugin.
    Later(PageTicket),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint<'a> {
    Probe(HealthProbe),
    Health,
    Metrics,
    Config,
    Status,
    Page,
    /// A page of a plugin: its name, and the path below it.
    Plugin {
        name: &'a [u8],
        path: &'a [u8],
    },
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

impl<S: OpsSource> OpsResponder<S> {
    /// Answers from `source`; peers in `allowed` may read metrics, configuration and status. `is_loopback`: the port is
    /// bound to a loopback address.
    pub(crate) fn new(source: S, allowed: AllowList, is_loopback: bool) -> Self {
        Self { source, allowed, is_loopback }
    }

    /// Answers a request of `peer`. With `has_body`, the request has a body, which is not read.
    pub(crate) fn respond(&self, head: &Head, has_body: bool, peer: IpAddr, now: Instant) -> OpsResponse {
        let endpoint = match self.admit(head, has_body, peer) {
            Ok(endpoint) => endpoint,
            Err(refusal) => return OpsResponse::Now(response_of(refusal, head)),
        };
        let Endpoint::Plugin { name, path } = endpoint else {
            return OpsResponse::Now(response_of(self.answer(endpoint, head, now), head));
        };
        let query = head.path_and_query().1.unwrap_or_default();
        match self.source.ask_plugin(name, path, query, now) {
            PluginAsked::Asked(ticket) => OpsResponse::Later(ticket),
            PluginAsked::Unavailable => OpsResponse::Now(page_response(PageOutcome::Late)),
            PluginAsked::Unknown => OpsResponse::Now(response_of(OpsAnswer::text(404, "not found\n"), head)),
        }
    }

    /// Finds the endpoint of a request, or why it is refused.
    fn admit<'a>(
        &self,
        head: &'a Head,
        has_body: bool,
        peer: IpAddr,
    ) -> Result<Endpoint<'a>, OpsAnswer<'static>> {
        let endpoint =
            Endpoint::at(head.path_and_query().0).ok_or_else(|| OpsAnswer::text(404, "not found\n"))?;
        if endpoint.is_guarded() && !self.allowed.allows(peer) {
            return Err(OpsAnswer::text(403, "forbidden\n"));
        }
        let is_for_browsers = matches!(endpoint, Endpoint::Page | Endpoint::Status);
        if is_for_browsers && self.is_loopback && !head.host().is_none_or(is_local) {
            return Err(OpsAnswer::text(403, "ask for an address or localhost\n"));
        }
        if matches!(endpoint, Endpoint::Plugin { name, .. } if !self.source.has_pages(name)) {
            return Err(OpsAnswer::text(404, "not found\n"));
        }
        if !matches!(head.method(), "GET" | "HEAD") {
            return Err(OpsAnswer::text(405, "method not allowed\n"));
        }
        if has_body {
            return Err(OpsAnswer::text(413, "a request body is not accepted here\n"));
        }
        Ok(endpoint)
    }

    fn answer(&self, endpoint: Endpoint<'_>, head: &Head, now: Instant) -> OpsAnswer<'_> {
        match endpoint {
            Endpoint::Probe(probe) => {
                let passes = self.source.probe_facts().passes(probe);
                OpsAnswer { content_type: "text/plain", ..OpsAnswer::text(ok_or_503(passes), probe.as_str()) }
            }
            Endpoint::Health => {
                let health = self.source.health();
                let body = Cow::Owned(health.to_json().into_bytes());
                OpsAnswer { status: ok_or_503(health.is_ok()), body, ..OpsAnswer::json(b"") }
            }
            Endpoint::Metrics => {
                let format = Format::negotiate(head.header_values("accept"));
                let body = Cow::Owned(self.source.metrics(format));
                let vary = b"Accept, Accept-Encoding";
                OpsAnswer { content_type: format.content_type(), body, vary, ..OpsAnswer::json(b"") }
            }
            Endpoint::Config => match self.source.config_report() {
                Some(report) => {
                    OpsAnswer { body: Cow::Owned(report.into_bytes()), ..OpsAnswer::json(b"Accept-Encoding") }
                }
                None => OpsAnswer::text(503, "starting\n"),
            },
            Endpoint::Status => OpsAnswer {
                body: Cow::Owned(self.source.status(now).as_bytes().to_vec()),
                guard: Some(PageGuard::Data),
                ..OpsAnswer::json(b"Accept-Encoding")
            },
            Endpoint::Page => {
                let page = OpsPage::new();
                OpsAnswer {
                    content_type: "text/html; charset=utf-8",
                    body: Cow::Owned(page.html.into_bytes()),
                    guard: Some(PageGuard::Page(page.policy)),
                    ..OpsAnswer::json(b"Accept-Encoding")
                }
            }
            Endpoint::Plugin { .. } => OpsAnswer::text(404, "not found\n"),
        }
    }
}

/// Makes the response for a plugin's page, or for the lack of one.
pub(crate) fn page_response(outcome: PageOutcome) -> Response {
    let (status, text) = match outcome {
        PageOutcome::Page(PluginPage { status, content_type, body }) => {
            // RFC 9110, section 15.3.6: no content may be generated in a 205.
            let body = if status == 205 { Vec::new() } else { body };
            return response(status, base_fields(&content_type), body);
        }
        PageOutcome::Failed => (500, "the plugin failed\n"),
        PageOutcome::Late => (503, "the plugin does not answer\n"),
    };
    response(status, base_fields(TEXT), text.as_bytes().to_vec())
}

fn response_of(answer: OpsAnswer<'_>, head: &Head) -> Response {
    let mut fields = base_fields(answer.content_type);
    if answer.status == 405 {
        fields.push_own(b"Allow", b"GET, HEAD");
    }
    if !answer.vary.is_empty() {
        fields.push_own(b"Vary", answer.vary);
    }
    if let Some(guard) = &answer.guard {
        fields.push_own(b"Cross-Origin-Resource-Policy", b"same-origin");
        if let PageGuard::Page(policy) = guard {
            fields.push_own(b"Content-Security-Policy", policy.as_bytes());
            fields.push_own(b"Referrer-Policy", b"no-referrer");
            fields.push_own(b"X-Frame-Options", b"DENY");
        }
    }
    let (status, body) = coded(answer, head, &mut fields);
    response(status, fields, body.into_owned())
}

/// Answers a request header that could not be parsed.
pub(crate) fn refusal(error: HeadError) -> Response {
    response(error.status(), base_fields(TEXT), format!("{error}\n").into_bytes())
}

fn response(status: u16, fields: Fields, body: Vec<u8>) -> Response {
    let content_length = Some(body.len() as u64);
    let head = ResponseHead { status, fields, content_length, ..ResponseHead::bare(Origin::Server) };
    Response::whole(head, body)
}

impl<'a> Endpoint<'a> {
    /// Finds the endpoint of a raw path, which is neither decoded nor normalized.
    fn at(path: &'a [u8]) -> Option<Self> {
        if let Some(probe) = Self::probe(path.strip_suffix(b"/").unwrap_or(path)) {
            return Some(Self::Probe(probe));
        }
        Some(match path {
            b"/health" => Self::Health,
            b"/metrics" => Self::Metrics,
            b"/config" => Self::Config,
            b"/status" => Self::Status,
            b"/" => Self::Page,
            _ => Self::page(path.strip_prefix(b"/plugins/")?),
        })
    }

    fn probe(path: &[u8]) -> Option<HealthProbe> {
        match path {
            b"/health/liveness" | b"/healthz" => Some(HealthProbe::Liveness),
            b"/health/readiness" | b"/readyz" => Some(HealthProbe::Readiness),
            b"/health/startup" | b"/startupz" => Some(HealthProbe::Startup),
            _ => None,
        }
    }

    /// Splits the path below `/plugins/`. A name without a slash is not a page, because relative links on such a page
    /// would not resolve.
    fn page(below: &'a [u8]) -> Self {
        let end = memchr::memchr(b'/', below);
        end.map_or(Self::Plugin { name: b"", path: below }, |end| Self::Plugin {
            name: &below[..end],
            path: &below[end + 1..],
        })
    }

    fn is_guarded(self) -> bool {
        matches!(self, Self::Metrics | Self::Config | Self::Status | Self::Page | Self::Plugin { .. })
    }
}

impl OpsAnswer<'_> {
    fn text(status: u16, body: &'static str) -> Self {
        Self { status, content_type: TEXT, body: Cow::Borrowed(body.as_bytes()), vary: b"", guard: None }
    }

    fn json(vary: &'static [u8]) -> Self {
        Self { status: 200, content_type: JSON, body: Cow::Borrowed(b""), vary, guard: None }
    }
}

/// Returns whether a `Host` names this machine independently of DNS.
fn is_local(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (address, port),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    is_port && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

fn ok_or_503(ok: bool) -> u16 {
    if ok { 200 } else { 503 }
}

fn base_fields(content_type: &str) -> Fields {
    let mut fields = Fields::new();
    fields.push_own(b"Content-Type", content_type.as_bytes());
    fields.push_own(b"Cache-Control", b"no-store");
    fields.push_own(b"X-Content-Type-Options", b"nosniff");
    fields
}

/// Compresses a body if that is worthwhile and the client accepts it; returns the status and the body to send.
fn coded<'a>(answer: OpsAnswer<'a>, head: &Head, fields: &mut Fields) -> (u16, Cow<'a, [u8]>) {
    let worth_it = !answer.vary.is_empty() && answer.body.len() >= OPS_GZIP_MIN_BYTES;
    if worth_it && accepts_gzip(head.header_values("accept-encoding")) {
        let mut encoder = GzEncoder::new(Vec::with_capacity(answer.body.len() / 4), Compression::fast());
        // Writing to memory cannot fail; if it did, the uncompressed body would be sent.
        if encoder.write_all(&answer.body).is_ok()
            && let Ok(compressed) = encoder.finish()
        {
            fields.push_own(b"Content-Encoding", b"gzip");
            return (answer.status, Cow::Owned(compressed));
        }
    }
    (answer.status, answer.body)
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
