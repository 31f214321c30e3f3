//! Tests every endpoint, method and peer, without a socket.

use std::time::Duration;

use super::*;
use crate::ops::connection::{OpsConnection, OpsStep, TURN, terms};
use svc_core::connection::Input;
use svc_core::connection::{Output, Peer, Sent};
use svc_core::http::encode::Persistence;
use svc_core::observe::WorkerHealth;
use svc_core::plugins::fixture::PluginScript;
use svc_core::plugins::{PluginCall, PluginSet};
use svc_core::sync::primitive::Arc;

/// Facts that a test sets.
struct Facts {
    probe: ProbeFacts,
    report: Option<String>,
    plugins: Arc<PluginSet>,
}

const HEALTHY: ProbeFacts = ProbeFacts {
    serving: true,
    workers: WorkerHealth::Running(2),
    pool_stalled: false,
    plugin_failed: false,
};
const METRICS_TEXT: &str = "metrics as text\n";

impl OpsSource for Facts {
    fn probe_facts(&self) -> ProbeFacts {
        self.probe
    }

    fn health(&self) -> Health {
        Health {
            uptime: Duration::ZERO,
            total_requests: 0,
            active_connections: 0,
            workers: self.probe.workers,
            pool_stalled: self.probe.pool_stalled,
            plugins: Vec::new(),
        }
    }

    fn metrics(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Text => METRICS_TEXT.repeat(100).into_bytes(),
            Format::OpenMetrics(_) => b"short\n".to_vec(),
        }
    }

    fn status(&self, _now: Instant) -> Arc<str> {
        r#"{"phase":"running"}"#.repeat(100).into()
    }

    fn config_report(&self) -> Option<String> {
        self.report.clone()
    }

    fn has_pages(&self, plugin: &[u8]) -> bool {
        self.plugins.has_pages(plugin)
    }

    fn ask_plugin(&self, name: &[u8], path: &[u8], query: &[u8], now: Instant) -> PluginAsked {
        self.plugins.ask(name, path, query, now)
    }
}

struct Received {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    keep: Persistence,
}

impl Received {
    fn field(&self, name: &str) -> Option<&str> {
        let mut all = self.fields.iter().filter(|(candidate, _)| candidate.eq_ignore_ascii_case(name));
        let value = all.next().map(|(_, value)| value.as_str());
        assert!(all.next().is_none(), "{name} twice");
        value
    }
}

fn ask_of(probe: ProbeFacts, allowed: Option<&str>, peer: &str, request: &str) -> Received {
    let report = Some(r#"{"listen_addr":"127.0.0.1:8080"}"#.repeat(40));
    ask_with(Facts { probe, report, plugins: Arc::default() }, allowed, peer, request)
}

fn ask_with(facts: Facts, allowed: Option<&str>, peer: &str, request: &str) -> Received {
    ask_bound(facts, allowed, peer, request, true)
}

fn ask_bound(facts: Facts, allowed: Option<&str>, peer: &str, request: &str, is_loopback: bool) -> Received {
    let allowed =
        AllowList::new(allowed.map(|list| list.split(',').map(|one| one.parse().unwrap()).collect()));
    let responder = OpsResponder::new(facts, allowed, is_loopback);
    let now = svc_core::time::now();
    let mut connection = OpsConnection::new(&Arc::new(terms()), peer.parse().unwrap(), now);
    connection.handle(TURN, now);
    let (mut request, mut out) = (Some(request), Vec::new());
    let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    loop {
        let peer = Peer { is_readable: request.is_some(), ..Peer::default() };
        match connection.poll(&responder, date, peer, now) {
            OpsStep::Read => match request.take() {
                Some(request) => connection.handle(Input::Bytes(request.as_bytes()), now),
                None => connection.handle(Input::WouldBlock, now),
            },
            OpsStep::Transmit => {
                let write = |output: &mut Output| {
                    let before = out.len();
                    while !output.is_empty() {
                        out.extend_from_slice(&output.take(usize::MAX));
                    }
                    Ok::<_, ()>(Sent { is_all: true, bytes: out.len() - before, held_back: 0 })
                };
                connection.transmit(now, write).unwrap();
            }
            OpsStep::ShutDown => {}
            OpsStep::Wait if connection.is_asking() => {
                std::thread::yield_now();
                connection.handle(TURN, now);
            }
            OpsStep::Close | OpsStep::Wait => break,
            OpsStep::Yield => unreachable!("one request is one turn"),
        }
    }
    let end = out.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let text = std::str::from_utf8(&out[..end]).unwrap();
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let field = |line: &str| line.split_once(": ").map(|(name, value)| (name.into(), value.into())).unwrap();
    let fields: Vec<(String, String)> = lines.map(field).collect();
    let closes = fields.contains(&("Connection".to_owned(), "close".to_owned()));
    let keep = if closes { Persistence::Close } else { Persistence::Keep };
    Received { status, fields, body: out[end + 4..].to_vec(), keep }
}

fn ask(request: &str) -> Received {
    ask_of(HEALTHY, None, "127.0.0.1", request)
}

fn get(path: &str) -> Received {
    ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:9090\r\n\r\n"))
}

const PATHS: [&str; 11] = [
    "/health/liveness",
    "/healthz",
    "/health/readiness",
    "/readyz",
    "/health/startup",
    "/startupz",
    "/health",
    "/metrics",
    "/config",
    "/status",
    "/",
];

#[test]
fn every_endpoint_answers_with_its_exact_type() {
    for path in PATHS {
        let response = get(path);
        let expected = match path {
            "/health" | "/config" | "/status" => "application/json",
            "/" => "text/html; charset=utf-8",
            "/metrics" => "text/plain; version=0.0.4; charset=utf-8",
            _ => "text/plain",
        };
        assert_eq!((response.status, response.field("content-type")), (200, Some(expected)), "{path}");
        assert_eq!(response.field("cache-control"), Some("no-store"));
        assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.field("content-length"), Some(response.body.len().to_string().as_str()));
        assert_eq!(response.keep, Persistence::Keep);
    }
}

#[test]
fn a_probe_has_its_name_whatever_its_status() {
    let nobody = ProbeFacts {
        serving: true,
        workers: WorkerHealth::Running(0),
        pool_stalled: false,
        plugin_failed: false,
    };
    for (path, alias, name, status) in [
        ("/health/liveness", "/healthz", "liveness", 200),
        ("/health/readiness", "/readyz", "readiness", 503),
        ("/health/startup", "/startupz", "startup", 503),
    ] {
        for path in [path, alias] {
            assert_eq!(get(path).body, name.as_bytes());
            let response = ask_of(nobody, None, "127.0.0.1", &format!("GET {path} HTTP/1.0\r\n\r\n"));
            assert_eq!((response.status, response.body.as_slice()), (status, name.as_bytes()), "{path}");
        }
    }
    assert_eq!(ask_of(nobody, None, "127.0.0.1", "GET /health HTTP/1.0\r\n\r\n").status, 503);
}

#[test]
fn a_stalled_pool_is_taken_out_of_service_and_not_restarted() {
    let stalled = ProbeFacts { pool_stalled: true, ..HEALTHY };
    for (path, status) in [("/healthz", 200), ("/readyz", 503), ("/startupz", 200), ("/health", 503)] {
        let response = ask_of(stalled, None, "127.0.0.1", &format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert_eq!(response.status, status, "{path}");
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    for path in PATHS {
        let get = get(path);
        let head = ask(&format!("HEAD {path} HTTP/1.1\r\n\r\n"));
        // The nonces of two answers differ.
        let fields = |one: &Received| {
            let is_same = |field: &&(String, String)| !field.1.contains("nonce-");
            one.fields.iter().filter(is_same).cloned().collect::<Vec<_>>()
        };
        assert_eq!((head.status, fields(&head)), (get.status, fields(&get)), "{path}");
        assert_eq!(head.fields.len(), get.fields.len(), "{path}");
        assert!(head.body.is_empty() && !get.body.is_empty());
    }
}

#[test]
fn other_methods_are_405_with_allow() {
    for path in PATHS {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "PURGE"] {
            let response = ask(&format!("{method} {path} HTTP/1.1\r\n\r\n"));
            assert_eq!(
                (response.status, response.field("allow")),
                (405, Some("GET, HEAD")),
                "{method} {path}"
            );
        }
    }
}

#[test]
fn a_probe_may_end_with_a_slash() {
    for (path, name) in
        [("/healthz/", "liveness"), ("/readyz/", "readiness"), ("/health/startup/", "startup")]
    {
        let response = ask(&format!("GET {path} HTTP/1.1\r\n\r\n"));
        assert_eq!((response.status, response.body.as_slice()), (200, name.as_bytes()), "{path}");
    }
    assert_eq!(ask("GET /healthz// HTTP/1.1\r\n\r\n").status, 404);
}

#[test]
fn unknown_paths_are_404_for_every_peer_and_method() {
    for path in [
        "/index.html",
        "/status/",
        "/metrics/",
        "//metrics",
        "/Metrics",
        "/health/",
        "/healthz/x",
        "/%6detrics",
        "/livez",
    ] {
        for method in ["GET", "HEAD", "POST"] {
            let request = format!("{method} {path} HTTP/1.1\r\n\r\n");
            assert_eq!(ask(&request).status, 404, "{request:?}");
            assert_eq!(ask_of(HEALTHY, Some("10.0.0.0/8"), "192.0.2.1", &request).status, 404);
        }
    }
}

#[test]
fn the_allow_list_guards_metrics_and_config_and_no_probe() {
    for path in PATHS {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        let guarded = matches!(path, "/metrics" | "/config" | "/status" | "/");
        for (peer, inside) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("192.0.2.1", false),
            ("127.0.0.1", false),
            ("::1", false),
            ("::ffff:192.0.2.1", false),
        ] {
            let expected = if guarded && !inside { 403 } else { 200 };
            assert_eq!(ask_of(HEALTHY, Some("10.0.0.0/8"), peer, &request).status, expected, "{peer} {path}");
        }
        let both = ask_of(HEALTHY, Some("10.0.0.0/8,127.0.0.1/32"), "127.0.0.1", &request);
        assert_eq!(both.status, 200);
    }
}

#[test]
fn the_query_is_not_looked_at() {
    assert_eq!(get("/readyz?verbose=1&x").status, 200);
    assert_eq!(get("/metrics?name[]=up").status, 200);
    assert_eq!(ask("GET http://any.example:9090/healthz HTTP/1.1\r\n\r\n").body, b"liveness");
}

#[test]
fn a_request_with_a_body_is_refused_and_ends_the_connection() {
    for (request, status) in [
        ("GET /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413),
        ("GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        ("POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 405),
    ] {
        let response = ask(request);
        assert_eq!((response.status, response.keep), (status, Persistence::Close), "{request:?}");
        assert_eq!(response.field("connection"), Some("close"));
    }
    assert_eq!(ask("GET /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n").keep, Persistence::Keep);
}

#[test]
fn metrics_are_negotiated_and_vary() {
    let accept = |accept: &str| ask(&format!("GET /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n"));
    let openmetrics =
        accept("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    assert_eq!(
        openmetrics.field("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert_eq!(openmetrics.body, b"short\n");
    for text in ["*/*", "text/html", "application/json"] {
        assert_eq!(accept(text).field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        assert_eq!(accept(text).field("vary"), Some("Accept, Accept-Encoding"));
    }
}

#[test]
fn long_answers_are_compressed_on_demand_only() {
    let coded =
        |path: &str, coding: &str| ask(&format!("GET {path} HTTP/1.1\r\nAccept-Encoding: {coding}\r\n\r\n"));
    let response = coded("/metrics", "br, gzip");
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert_eq!(response.field("content-length"), Some(response.body.len().to_string().as_str()));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&response.body[..]), &mut text).unwrap();
    assert_eq!(text, METRICS_TEXT.repeat(100));
    assert_eq!(coded("/config", "gzip").field("content-encoding"), Some("gzip"));
    assert_eq!(coded("/config", "gzip").field("vary"), Some("Accept-Encoding"));
    for (path, coding) in [("/metrics", "gzip;q=0"), ("/metrics", "identity"), ("/healthz", "gzip")] {
        assert_eq!(coded(path, coding).field("content-encoding"), None, "{path} {coding}");
    }
}

#[test]
fn the_configuration_is_503_until_there_is_one() {
    let facts = Facts { probe: HEALTHY, report: None, plugins: Arc::default() };
    assert_eq!(ask_with(facts, None, "::1", "GET /config HTTP/1.0\r\n\r\n").status, 503);
}

#[test]
fn on_loopback_the_page_and_the_status_require_a_local_host() {
    let status = |path: &str, host: &str, is_loopback| {
        let report = Some(String::new());
        let facts = Facts { probe: HEALTHY, report, plugins: Arc::default() };
        let request = format!("GET {path} HTTP/1.1\r\n{host}\r\n\r\n");
        ask_bound(facts, None, "127.0.0.1", &request, is_loopback).status
    };
    let local =
        ["localhost", "LOCALHOST:9090", "127.0.0.1", "127.9.9.9:1", "10.0.0.1:9090", "[::1]", "[::1]:9090"];
    let others = [
        "evil.example",
        "evil.example:9090",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "local",
        "1",
    ];
    for path in ["/", "/status"] {
        for host in local {
            assert_eq!(status(path, &format!("Host: {host}"), true), 200, "{path} at {host}");
        }
        for host in others {
            assert_eq!(status(path, &format!("Host: {host}"), true), 403, "{path} at {host}");
            assert_eq!(
                status(path, &format!("Host: {host}"), false),
                200,
                "{path} at {host}, for all to reach"
            );
        }
        assert_eq!(
            status(&format!("http://evil.example{path}"), "Host: localhost", true),
            403,
            "the target counts"
        );
    }
    for path in ["/metrics", "/config", "/healthz"] {
        assert_eq!(status(path, "Host: evil.example", true), 200, "{path}: collectors may use names");
    }
}

#[test]
fn the_page_has_a_content_security_policy() {
    let (page, again, status) = (get("/"), get("/"), get("/status"));
    let policy = page.field("content-security-policy").unwrap();
    for part in ["default-src 'none'", "script-src 'nonce-", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert_ne!(Some(policy), again.field("content-security-policy"), "a nonce is used once");
    assert_eq!(
        (page.field("x-frame-options"), page.field("referrer-policy")),
        (Some("DENY"), Some("no-referrer"))
    );
    for response in [&page, &status] {
        assert_eq!(response.field("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(response.field("access-control-allow-origin"), None);
    }
    assert_eq!(status.field("content-security-policy"), None);
}

fn with_plugin(script: &PluginScript) -> Facts {
    let report = Some(String::new());
    Facts { probe: HEALTHY, report, plugins: script.started("disk") }
}

#[test]
fn a_page_of_a_plugin_has_its_status_type_and_body() {
    let get = |method: &str, path: &str| {
        let script = PluginScript::new();
        let request = format!("{method} {path} HTTP/1.1\r\n\r\n");
        let response = ask_with(with_plugin(&script), None, "127.0.0.1", &request);
        (response, script)
    };
    let (response, _) = get("GET", "/plugins/disk/a/b%20c?d=e");
    assert_eq!((response.status, response.field("content-type")), (200, Some("text/plain")));
    assert_eq!(response.body, b"a/b%20c?d=e");
    assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
    let (response, _) = get("HEAD", "/plugins/disk/");
    assert_eq!((response.status, response.body.len(), response.field("content-length")), (200, 0, Some("1")));
    for (path, status) in [
        ("/plugins/disk", 404),
        ("/plugins/", 404),
        ("/plugins/other/", 404),
        ("/plugins/Disk/", 404),
        ("/plugins//disk/", 404),
        ("/plugins", 404),
    ] {
        for method in ["GET", "POST"] {
            let (response, script) = get(method, path);
            assert_eq!((response.status, script.count(PluginCall::Serve)), (status, 0), "{method} {path}");
        }
    }
    let (response, script) = get("POST", "/plugins/disk/");
    assert_eq!((response.status, response.field("allow")), (405, Some("GET, HEAD")));
    assert_eq!(script.count(PluginCall::Serve), 0);
}

#[test]
fn peers_outside_the_list_cannot_enumerate_plugins() {
    for path in ["/plugins/disk/", "/plugins/other/", "/plugins/", "/plugins/disk"] {
        for method in ["GET", "POST"] {
            let script = PluginScript::new();
            let request = format!("{method} {path} HTTP/1.1\r\n\r\n");
            let response = ask_with(with_plugin(&script), Some("10.0.0.0/8"), "192.0.2.1", &request);
            assert_eq!((response.status, script.count(PluginCall::Serve)), (403, 0), "{method} {path}");
        }
    }
}

#[test]
fn a_plugin_that_fails_is_a_500() {
    let script = PluginScript::new();
    script.fail(PluginCall::Serve);
    let response = ask_with(with_plugin(&script), None, "127.0.0.1", "GET /plugins/disk/ HTTP/1.1\r\n\r\n");
    assert_eq!((response.status, response.field("content-type")), (500, Some("text/plain; charset=utf-8")));
}
