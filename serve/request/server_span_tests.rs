use std::sync::OnceLock;

use super::*;
use crate::io_thread::new_connection::{Endpoints, ListenerKind};
use crate::request::client_context::ClientContext;
use svc_core::admission::ShedReason;
use svc_core::config::{BatchConfig, RootSampler, Sampler, SpanLimits, TraceConfig};
use svc_core::http::{FreshIds, HeadReader, Parsed, RequestLine, Trace};
use svc_core::observe::Metrics;
use svc_core::policy::client::Client;
use svc_core::pool::{Origin, StreamKey};
use svc_core::sync::primitive::Arc;
use svc_core::trace::{TraceSink, Tracer};

const FRESH: FreshIds = FreshIds { trace_id: 7, span_id: 8 };

/// A request that is recorded.
struct Scene {
    meta: RequestMeta,
    metrics: Metrics,
}

impl Scene {
    fn of(text: &str) -> Self {
        Self::through(ListenerKind::Main, text)
    }

    fn through(listener: ListenerKind, text: &str) -> Self {
        Self::new(listener, |key, endpoints, context| {
            let head = match HeadReader::default().read(text.as_bytes()) {
                Ok(Parsed::Complete { head, .. }) => head,
                other => panic!("not a head: {other:?}"),
            };
            let trace = Trace::of(&head, FRESH);
            RequestMeta::new(key, endpoints, Arc::new(head), "a-name".into(), context(trace), time::now())
        })
    }

    fn unread(line: Option<RequestLine>) -> Self {
        Self::new(ListenerKind::Main, |key, endpoints, context| {
            RequestMeta::unread(
                key,
                endpoints,
                "a-name".into(),
                line.map(Box::new),
                context(Trace::begin(FRESH)),
                time::now(),
            )
        })
    }

    fn new(
        listener: ListenerKind,
        make: impl FnOnce(StreamKey, &Arc<Endpoints>, &dyn Fn(Trace) -> ClientContext) -> RequestMeta,
    ) -> Self {
        let sink = TraceSink::new(8, 8, |_, buffer| buffer, || {});
        let tracer = Arc::new(Tracer::new(config(), Some(Arc::new(sink))));
        let peer = "192.0.2.7:4711".parse().unwrap();
        let local = "127.0.0.1:8080".parse().unwrap();
        let endpoints = Arc::new(Endpoints { peer, local, listener, is_tls: false, tls: OnceLock::new() });
        let context = |mut trace: Trace| {
            assert!(tracer.decide(&mut trace));
            ClientContext { client: Client::direct(peer, false), quota: None, trace: Some(trace) }
        };
        let mut meta = make(StreamKey { connection: 0, stream: 0 }, &endpoints, &context);
        meta.open_span(Some(&tracer));
        Self { meta, metrics: Metrics::new() }
    }

    fn answered(mut self, status: u16, origin: Origin) -> Self {
        self.meta.outcome.note_head_sent(status, origin, &self.metrics);
        self
    }

    fn own(&self) -> &RequestSpan {
        self.meta.span.as_deref().unwrap()
    }

    /// Records the request, and returns its span.
    fn recorded(self, response: ResponseEnd) -> Span {
        let own = self.meta.span.clone().unwrap();
        let end = RecordedEnd { duration: Duration::from_millis(5), body_bytes: 3, response };
        let (wait, span) = self.meta.spans(&own, end);
        assert_eq!(wait, None, "a request that was not offered is one span");
        assert!(!own.note(|_| panic!("it is not read")), "it has been recorded");
        span
    }
}

fn config() -> TraceConfig {
    TraceConfig {
        is_disabled: false,
        sampler: Sampler { root: RootSampler::AlwaysOn, is_parent_based: true },
        limits: SpanLimits::default(),
        has_trace_context: true,
        known_methods: vec!["GET".into(), "POST".into()],
        redacted_parameters: vec!["sig".into()],
        resource: Vec::new(),
        batch: BatchConfig {
            schedule_delay: Duration::from_secs(5),
            export_timeout: None,
            queue_items_max: 8,
            batch_items_max: 8,
        },
        metrics: None,
        logs: None,
        export: None,
        ignored: Vec::new(),
    }
}

fn said<'a>(span: &'a Span, key: &str) -> Option<&'a AttributeValue> {
    span.attributes.get(key)
}

const ERROR: SpanStatus = SpanStatus::Error(Cow::Borrowed(""));

#[test]
fn a_route_that_the_script_names_is_part_of_the_name() {
    for (method, expected) in [("GET", "GET /users/{id}"), ("BREW", "HTTP /users/{id}")] {
        let scene = Scene::of(&format!("{method} /users/7 HTTP/1.1\r\nHost: a\r\n\r\n"));
        let limits = *scene.own().tracer().limits();
        scene
            .own()
            .note(|notes| notes.attributes.set("http.route", "/users/{id}", &limits.span_attributes()));
        let span = scene.answered(200, Origin::Script).recorded(ResponseEnd::Whole);
        assert_eq!(span.name, expected);
        assert_eq!(span.attributes.get("http.route"), Some(&"/users/{id}".into()));
    }
    let scene = Scene::of("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let limits = *scene.own().tracer().limits();
    scene.own().note(|notes| notes.attributes.set("http.route", 7_u64, &limits.span_attributes()));
    assert_eq!(scene.answered(200, Origin::Script).recorded(ResponseEnd::Whole).name, "GET", "it is no text");
}

#[test]
fn the_peer_of_a_unix_socket_has_no_address() {
    let scene = Scene::through(ListenerKind::Unix, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let span = scene.answered(200, Origin::Server).recorded(ResponseEnd::Whole);
    for key in ["network.peer.address", "network.peer.port"] {
        assert_eq!(said(&span, key), None, "{key}");
    }
    assert!(said(&span, "server.address").is_some());
}

#[test]
fn a_request_has_the_attributes_of_the_conventions() {
    let text = "POST /a%20b?x=1&sig=secret HTTP/1.1\r\nHost: example.org:81\r\nUser-Agent: test/1\r\nContent-Length: 5\r\n\
                traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=1\r\n\r\n";
    let span = Scene::of(text).answered(404, Origin::Server).recorded(ResponseEnd::Whole);
    let texts = [
        ("http.request.method", "POST"),
        ("url.path", "/a%20b"),
        ("url.query", "x=1&sig=REDACTED"),
        ("url.scheme", "http"),
        ("server.address", "example.org"),
        ("client.address", "192.0.2.7"),
        ("network.peer.address", "192.0.2.7"),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "test/1"),
        ("svc.request_id", "a-name"),
    ];
    for (key, text) in texts {
        assert_eq!(said(&span, key), Some(&text.to_owned().into()), "{key}");
    }
    let numbers = [
        ("server.port", 81),
        ("network.peer.port", 4711),
        ("http.request.body.size", 5),
        ("http.response.body.size", 3),
        ("http.response.status_code", 404),
    ];
    for (key, number) in numbers {
        assert_eq!(said(&span, key), Some(&AttributeValue::Int(number)), "{key}");
    }
    assert_eq!(span.attributes.len(), texts.len() + numbers.len(), "{:?}", span.attributes);
    assert_eq!((&*span.name, span.kind, &span.status), ("POST", SpanKind::Server, &SpanStatus::Unset));
    assert_eq!(span.context.trace_id.get(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
    assert_eq!((span.context.span_id.get(), span.context.state.as_deref()), (8, Some("a=1")));
    let parent = span.parent.unwrap();
    assert_eq!((parent.span_id.get(), parent.is_remote), (0xb7ad_6b71_6920_3331, true));
    assert_eq!(span.end.get() - span.start.get(), 5_000_000);
}

#[test]
fn every_reason_for_a_refusal_is_named() {
    for reason in ShedReason::ALL {
        let mut scene = Scene::of("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        scene.meta.outcome.refuse(reason, false);
        let span = scene.answered(reason.status(), Origin::Server).recorded(ResponseEnd::Whole);
        assert_eq!(said(&span, "svc.shed_reason"), Some(&reason.as_str().into()));
        assert_eq!(said(&span, "error.type"), Some(&reason.status().to_string().into()));
        assert_eq!(span.status, ERROR);
    }
}

#[test]
fn a_client_that_left_before_the_head_leaves_no_status() {
    let mut scene = Scene::of("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    scene.meta.outcome.give_up(false, &scene.metrics);
    let span = scene.recorded(ResponseEnd::Lost);
    assert_eq!(said(&span, "http.response.status_code"), None);
    assert_eq!((said(&span, "error.type"), &span.status), (Some(&"client_abort".into()), &ERROR));
}

#[test]
fn a_response_that_breaks_off_is_an_error_with_its_status() {
    let scene = || Scene::of("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answered(200, Origin::Script);
    let span = scene().recorded(ResponseEnd::Lost);
    assert_eq!(said(&span, "http.response.status_code"), Some(&AttributeValue::Int(200)));
    assert_eq!((said(&span, "error.type"), &span.status), (Some(&"client_abort".into()), &ERROR));
    let broken = scene().recorded(ResponseEnd::BrokenOff);
    assert_eq!((said(&broken, "error.type"), &broken.status), (Some(&"incomplete_response".into()), &ERROR));
    let mut cut = scene();
    cut.meta.outcome.note_drain_deadline();
    assert_eq!(said(&cut.recorded(ResponseEnd::Lost), "error.type"), Some(&"shutdown".into()));
    let failed = scene();
    failed.meta.span.as_ref().unwrap().note(|notes| notes.exception = Some("LogicException".into()));
    assert_eq!(
        said(&failed.recorded(ResponseEnd::Lost), "error.type"),
        Some(&String::from("LogicException").into())
    );
}

#[test]
fn only_errors_of_the_server_are_errors() {
    for (status, expected) in
        [(200, None), (301, None), (429, None), (499, None), (500, Some("500")), (504, Some("504"))]
    {
        let scene = Scene::of("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let span = scene.answered(status, Origin::Script).recorded(ResponseEnd::Whole);
        let expected = expected.map(|expected| AttributeValue::from(expected.to_owned()));
        assert_eq!(said(&span, "error.type"), expected.as_ref(), "{status}");
        assert_eq!(span.status == ERROR, expected.is_some(), "{status}");
    }
}

#[test]
fn the_class_of_an_exception_is_the_type_of_the_error() {
    let scene = Scene::of("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    scene.meta.span.as_ref().unwrap().note(|notes| notes.exception = Some("LogicException".into()));
    let span = scene.answered(500, Origin::Fatal).recorded(ResponseEnd::Whole);
    assert_eq!(said(&span, "error.type"), Some(&String::from("LogicException").into()));
}

#[test]
fn attributes_of_the_script_follow_those_of_the_server() {
    let scene = |status| {
        let scene = Scene::of("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        scene.meta.span.as_ref().unwrap().note(|notes| {
            notes.attributes.set("app.user", 7_i64, &SpanLimits::default().span_attributes());
            notes.status = SpanStatus::Ok;
        });
        scene.answered(status, Origin::Script).recorded(ResponseEnd::Whole)
    };
    let span = scene(200);
    assert_eq!((said(&span, "app.user"), &span.status), (Some(&AttributeValue::Int(7)), &SpanStatus::Ok));
    assert_eq!(scene(500).status, ERROR, "an error of the server stays one");
}

#[test]
fn a_script_replaces_no_attribute_of_the_server() {
    let falsified = |status| {
        let scene = Scene::of("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        scene.meta.span.as_ref().unwrap().note(|notes| {
            for key in OWN_KEYS.into_iter().chain(["error.type", "app.user"]) {
                notes.attributes.set(key, "claimed", &SpanLimits::default().span_attributes());
            }
        });
        scene.answered(status, Origin::Script).recorded(ResponseEnd::Whole)
    };
    let span = falsified(503);
    assert_eq!(said(&span, "http.response.status_code"), Some(&AttributeValue::Int(503)));
    assert_eq!(said(&span, "error.type"), Some(&String::from("503").into()));
    // The script's attribute is dropped although the server sets none: this request was admitted.
    assert_eq!(said(&span, "svc.shed_reason"), None);
    assert_eq!(said(&span, "app.user"), Some(&"claimed".into()));
    assert_eq!(span.attributes.dropped() as usize, OWN_KEYS.len() + 1);
    assert_eq!(span.attributes.iter().filter(|entry| entry.value == "claimed".into()).count(), 1);
    // If the server sees no error, the script may set the name of one.
    assert_eq!(said(&falsified(404), "error.type"), Some(&"claimed".into()));
}

#[test]
fn attributes_of_the_server_cannot_be_set_by_scripts() {
    let text = "BREW /a?x=1 HTTP/1.1\r\nHost: a\r\nUser-Agent: test/1\r\n\r\n";
    let mut refused = Scene::of(text);
    refused.meta.outcome.refuse(ShedReason::QueueFull, false);
    for entry in &refused.answered(529, Origin::Server).recorded(ResponseEnd::Whole).attributes {
        let key = &*entry.key;
        assert!(OWN_KEYS.contains(&key) || key == "error.type", "{key} can be replaced");
    }
}

#[test]
fn an_unreadable_request_has_known_attributes_only() {
    let span = Scene::unread(None).answered(400, Origin::Server).recorded(ResponseEnd::Whole);
    assert_eq!((&*span.name, said(&span, "http.request.method")), ("HTTP", Some(&"_OTHER".into())));
    assert_eq!((said(&span, "url.path"), said(&span, "http.request.method_original")), (None, None));
    assert_eq!(said(&span, "server.port"), Some(&AttributeValue::Int(8080)));
    assert!(span.parent.is_none());
    let line = RequestLine { method: "BREW".into(), path: b"/pot".to_vec() };
    let span = Scene::unread(Some(line)).answered(431, Origin::Server).recorded(ResponseEnd::Whole);
    assert_eq!(said(&span, "http.request.method_original"), Some(&String::from("BREW").into()));
    assert_eq!(said(&span, "url.path"), Some(&String::from("/pot").into()));
}

#[test]
fn a_host_without_a_port_stands_for_the_usual_one() {
    let span = Scene::of("GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n")
        .answered(200, Origin::Server)
        .recorded(ResponseEnd::Whole);
    assert_eq!(said(&span, "server.address"), Some(&String::from("::1").into()));
    assert_eq!(said(&span, "server.port"), Some(&AttributeValue::Int(80)));
    let span = Scene::of("GET / HTTP/1.0\r\n\r\n").answered(200, Origin::Server).recorded(ResponseEnd::Whole);
    assert_eq!(said(&span, "server.address"), Some(&String::from("127.0.0.1").into()));
    assert_eq!(said(&span, "network.protocol.version"), Some(&"1.0".into()));
}

#[test]
fn methods_that_are_not_known_are_others() {
    let known = ["GET", "TRACE", "PROPFIND"].map(str::to_owned);
    for (method, name, said, original) in [
        ("GET", "GET", "GET", None),
        ("TRACE", "TRACE", "TRACE", None),
        ("PROPFIND", "PROPFIND", "PROPFIND", None),
        ("PUT", "HTTP", "_OTHER", Some("PUT")),
        ("get", "HTTP", "_OTHER", Some("get")),
        ("", "HTTP", "_OTHER", None),
    ] {
        assert_eq!(method_of(method, &known), (name.into(), said.into(), original), "{method}");
    }
}

#[test]
fn values_of_secret_parameters_are_redacted_however_their_names_are_spelled() {
    let secret = ["sig".to_owned(), "X-Goog-Signature".to_owned()];
    for (query, expected) in [
        ("a=1&sig=abc&b=2", "a=1&sig=REDACTED&b=2"),
        ("sig=", "sig=REDACTED"),
        ("sig=a=b", "sig=REDACTED"),
        ("sig", "sig"),
        ("Sig=a", "Sig=a"),
        ("%73ig=secret", "%73ig=REDACTED"),
        ("X-Goog-Signature=x&&sig=y", "X-Goog-Signature=REDACTED&&sig=REDACTED"),
        ("signal=1", "signal=1"),
        ("", ""),
    ] {
        assert_eq!(String::from_utf8_lossy(&redact(query.as_bytes(), &secret)), expected, "{query}");
    }
    assert_eq!(&*redact(b"sig=1", &[]), b"sig=1");
}

#[test]
fn a_host_is_split_from_its_port() {
    for (host, name, port) in [
        ("a:80", "a", Some(80)),
        ("a", "a", None),
        ("[::1]:8080", "::1", Some(8080)),
        ("[::1]", "::1", None),
        ("a:", "a", None),
        ("a:99999", "a", None),
    ] {
        assert_eq!(split_host(host.as_bytes()), (name.as_bytes(), port), "{host}");
    }
}
