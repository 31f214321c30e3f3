//! Requests as spans: the data that a collector gets.
#![cfg(feature = "trace")]

use rustix::process::Signal;
use serde_json::json;

use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::http2::Http2Client;
use svc_testing::spans::{ExportedSpan, Spans};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Executes the action in its query.
const SCRIPT: &str = r#"<?php
function thrower($secret) { throw new LogicException('nobody catches it'); }
switch ($_GET['do'] ?? '') {
case 'throw': thrower('hunter2');
case 'late-throw': echo 'x'; flush(); thrower('hunter2');
case 'fatal': ini_set('memory_limit', '4M'); $all = []; while (true) { $all[] = str_repeat('x', 4096); }
case 'user-error': trigger_error('the user says so', E_USER_ERROR);
case 'status': http_response_code((int) $_GET['code']); break;
case 'short': header('Content-Length: 9'); echo 'short'; break;
case 'falsify': http_response_code(503); foreach (['http.response.status_code' => 200, 'svc.request_id' => 'x', 'svc.shed_reason' => 'x', 'app.user' => 'joe'] as $key => $value) { Svc\Trace\current()->setAttribute($key, $value); } break;
case 'finish': echo 'out'; svc_finish_request(); throw new LogicException('after the reply');
case 'wait':
    touch(__DIR__ . "/inside-{$_GET['n']}");
    if (isset($_GET['head'])) { echo 'begun'; flush(); }
    while (!file_exists(__DIR__ . "/go-{$_GET['n']}")) { usleep(2000); clearstatcache(); if (isset($_GET['head'])) { echo '.'; flush(); } }
    break;
case 'fields': echo json_encode([$_SERVER['HTTP_TRACEPARENT'] ?? null, $_SERVER['SVC_TRACE_ID'] ?? null, Svc\Trace\traceparent()]); break;
case 'log': error_log('logged'); break;
default: echo 'hello';
}"#;

fn start(spans: &Spans, settings: &[(&str, &str)]) -> Svc {
    spans.svc(&[("index.php", SCRIPT), ("a.txt", "a file")], settings)
}

fn ask(svc: &Svc, target: &str, fields: &[&str]) -> Response {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    svc.client().request(&format!("GET {target} HTTP/1.1\r\nHost: example.org:81\r\n{fields}\r\n"))
}

fn send(svc: &Svc, target: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

fn until_inside(svc: &Svc, name: &str) {
    eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

#[test]
fn a_request_is_a_span_with_its_parts() {
    let spans = Spans::collect();
    let svc = start(&spans, &[("ACCESS_LOG", "all")]);
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    let response = ask(&svc, "/?a=1&sig=secret", &[&parent, "tracestate: v=1", "User-Agent: test/1"]);
    assert_eq!(response.status, 200);
    let span = spans.request("a=1&sig=REDACTED");
    assert_eq!((span.name(), span.kind(), span.is_error()), ("GET", 2, false));
    assert_eq!((span.trace(), span.parent(), span.state()), (TRACE, PARENT, "v=1"));
    assert_eq!(response.field("traceparent"), Some(&*format!("00-{TRACE}-{}-01", span.id())));
    let said = span.attributes();
    for (key, value) in [
        ("http.request.method", json!("GET")),
        ("url.path", json!("/")),
        ("url.scheme", json!("http")),
        ("http.response.status_code", json!(200)),
        ("server.address", json!("example.org")),
        ("server.port", json!(81)),
        ("client.address", json!("127.0.0.1")),
        ("network.peer.address", json!("127.0.0.1")),
        ("network.protocol.version", json!("1.1")),
        ("user_agent.original", json!("test/1")),
        ("http.request.body.size", json!(0)),
        ("http.response.body.size", json!(5)),
        ("svc.parked_us", json!(0)),
        ("svc.request_id", json!(response.field("x-request-id"))),
    ] {
        assert_eq!(said.get(key), Some(&value), "{key}");
    }
    for number in ["network.peer.port", "svc.queue_wait_us", "svc.worker_id"] {
        assert!(said[number].is_u64(), "{number}");
    }
    let (wait, run) = (spans.beside(&span, "admission wait"), spans.beside(&span, "PHP run"));
    for part in [&wait, &run] {
        assert_eq!((part.parent(), part.kind()), (span.id(), 1));
        assert!(part.times()[0] >= span.times()[0] && part.times()[1] <= span.times()[1]);
    }
    assert_eq!(wait.times()[1], run.times()[0]);
    eventually("the access record names the span", || {
        svc.log().of("access").iter().any(|record| record["fields"]["span_id"] == span.id())
    });
}

#[test]
fn files_refused_methods_and_unreadable_requests_are_spans_too() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    let of = |path: &str| spans.find(path, |span| span.says("url.path") == path);
    assert_eq!(svc.get("/a.txt").status, 200);
    let file = of("/a.txt");
    assert_eq!((file.says("http.response.body.size"), file.says("svc.worker_id")), (json!(6), json!(null)));
    assert_eq!(svc.get("/nothing.txt").status, 404);
    assert!(!of("/nothing.txt").is_error());
    assert_eq!(svc.client().request("BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
    let brewed = of("/pot");
    assert_eq!((brewed.name(), brewed.says("http.request.method")), ("HTTP", json!("_OTHER")));
    assert_eq!(brewed.says("http.request.method_original"), "BREW");
    let mut client = svc.client();
    client.send("GET /broken HTTP/1.1\r\nHost x\r\n\r\n");
    let refused = client.response();
    assert_eq!(refused.status, 400);
    let broken = of("/broken");
    assert_eq!((broken.name(), broken.parent(), broken.is_error()), ("GET", "", false));
    assert_eq!(broken.says("http.response.status_code"), 400);
    let rubbish = svc.client().request("\x01\x02\r\n\r\n");
    assert_eq!(rubbish.status, 400);
    let rubbish = spans.find("rubbish is a span", |span| {
        span.says("http.request.method") == "_OTHER" && span.says("url.path").is_null()
    });
    assert_eq!(rubbish.name(), "HTTP");
}

#[test]
fn requests_over_http2_are_spans() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    let mut client = Http2Client::connect(svc.main());
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "example.org"),
        (":path", "/?two"),
        ("traceparent", &parent),
    ];
    let stream = client.open(&fields, true);
    let response = client.response(stream);
    let span = spans.request("two");
    assert_eq!((span.trace(), span.parent()), (TRACE, PARENT));
    assert_eq!(response.field("traceparent"), Some(&*format!("00-{TRACE}-{}-01", span.id())));
    assert_eq!((span.says("network.protocol.version"), span.says("server.port")), (json!("2"), json!(80)));
    let stream = client.ask("/?do=wait&n=h2");
    until_inside(&svc, "h2");
    client.reset(stream, 8);
    let left = spans.request("do=wait&n=h2");
    assert_eq!((left.says("error.type"), left.is_error()), (json!("client_abort"), true));
    go(&svc, "h2");
    spans.beside(&left, "PHP run");
}

#[test]
fn a_client_that_leaves_is_an_error_by_when_it_leaves() {
    let spans = Spans::collect();
    let svc = start(&spans, &[("PHP_WORKERS", "2")]);
    let early = send(&svc, "/?do=wait&n=a");
    until_inside(&svc, "a");
    drop(early);
    let span = spans.request("do=wait&n=a");
    assert_eq!((span.says("http.response.status_code"), span.is_error()), (json!(null), true));
    assert_eq!(span.says("error.type"), "client_abort");
    go(&svc, "a");
    let mut late = send(&svc, "/?do=wait&n=b&head=1");
    assert_eq!(late.head_only().status, 200);
    drop(late);
    let span = spans.request("do=wait&n=b&head=1");
    assert_eq!((span.says("http.response.status_code"), span.is_error()), (json!(200), true));
    assert_eq!(span.says("error.type"), "client_abort");
    go(&svc, "b");
}

/// Neither the client nor an exception is to blame.
#[test]
fn a_response_shorter_than_its_length_is_an_error() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    let mut client = send(&svc, "/?do=short");
    assert_eq!(client.head_only().status, 200);
    let span = spans.request("do=short");
    assert_eq!((span.says("http.response.status_code"), span.is_error()), (json!(200), true));
    assert_eq!(span.says("error.type"), "incomplete_response");
    let mut client = Http2Client::connect(svc.main());
    client.ask("/?do=short&h2");
    assert_eq!(spans.request("do=short&h2").says("error.type"), "incomplete_response");
}

#[test]
fn a_script_cannot_change_attributes_of_the_server() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    let response = svc.get("/?do=falsify");
    let span = spans.request("do=falsify");
    assert_eq!(span.says("http.response.status_code"), 503);
    assert_eq!(span.says("svc.request_id"), json!(response.field("x-request-id")));
    assert_eq!((span.says("svc.shed_reason"), span.says("app.user")), (json!(null), json!("joe")));
    assert_eq!(span.attributes_dropped(), 3);
}

/// Neither here nor in the metrics.
#[test]
fn a_header_that_is_cut_off_is_no_request() {
    let spans = Spans::collect();
    let mut svc = start(&spans, &[]);
    let mut client = svc.client();
    client.send("GET /cut HTTP/1.1\r\nHost: x\r\n");
    drop(client);
    svc.assert_metric("svc_active_connections", 0.0);
    assert_eq!(svc.get("/?whole").status, 200);
    svc.assert_metric("svc_requests_total", 1.0);
    svc.stop();
    let requests: Vec<_> = spans.all().into_iter().filter(ExportedSpan::is_server).collect();
    assert_eq!(requests.iter().map(|span| span.says("url.query")).collect::<Vec<_>>(), [json!("whole")]);
}

#[test]
fn an_error_that_ends_a_script_is_an_event() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    for (query, status, error, class, message) in [
        ("do=throw", 500, "LogicException", "LogicException", "nobody catches it"),
        ("do=user-error", 500, "500", "E_USER_ERROR", "the user says so"),
        ("do=fatal", 500, "500", "E_ERROR", "Allowed memory size"),
    ] {
        assert_eq!(svc.get(&format!("/?{query}")).status, status);
        let span = spans.request(query);
        assert_eq!((span.says("error.type"), span.is_error()), (json!(error), true), "{query}");
        let exceptions = span.exceptions();
        let [[its_class, its_message, place]] = &exceptions[..] else { panic!("{query}: {exceptions:?}") };
        assert!(its_class == class && its_message.starts_with(message), "{exceptions:?}");
        assert!(place.contains("index.php(") && place.ends_with("{main}"), "{place}");
        assert!(!place.contains("hunter2"), "{place}");
        assert!(spans.beside(&span, "PHP run").is_error());
    }
    assert!(spans.request("do=throw").exceptions()[0][2].contains("thrower()"));
    let mut cut = send(&svc, "/?do=late-throw");
    assert_eq!(cut.head_only().status, 200);
    let span = spans.request("do=late-throw");
    assert_eq!(
        (span.says("http.response.status_code"), span.says("error.type")),
        (json!(200), json!("LogicException"))
    );
    assert!(span.is_error());
}

#[test]
fn code_after_the_reply_belongs_to_the_run() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    assert_eq!(svc.get("/?do=finish").text(), "out");
    let span = spans.request("do=finish");
    assert!(!span.is_error());
    let run = spans.beside(&span, "PHP run");
    let seen = [span.exceptions(), run.exceptions()].concat();
    assert!(seen.len() == 1 && seen[0][1] == "after the reply", "{seen:?}");
}

#[test]
fn only_errors_of_the_server_are_errors() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    for (code, is_error) in [(200, false), (404, false), (429, false), (499, false), (503, true)] {
        let query = format!("do=status&code={code}");
        assert_eq!(svc.get(&format!("/?{query}")).status, code);
        let span = spans.request(&query);
        let error = if is_error { json!(code.to_string()) } else { json!(null) };
        assert_eq!((span.is_error(), span.says("error.type")), (is_error, error), "{code}");
        assert_eq!(span.says("http.response.status_code"), code);
    }
}

/// Checks requests that are refused while the only worker is busy with the request `a`.
fn refused(reason: &str, settings: &[(&str, &str)], refuse: impl FnOnce(&Svc) -> u16) {
    let spans = Spans::collect();
    let mut svc = start(&spans, &[&[("PHP_WORKERS", "1")], settings].concat());
    let busy = send(&svc, "/?do=wait&n=a");
    until_inside(&svc, "a");
    let status = refuse(&svc);
    let span = spans.find(reason, |span| span.says("svc.shed_reason") == reason);
    assert_eq!((span.says("http.response.status_code"), span.is_error()), (json!(status), true));
    assert_eq!(span.says("error.type"), status.to_string());
    assert_eq!((span.says("svc.queue_wait_us"), span.says("svc.worker_id")), (json!(null), json!(null)));
    assert_eq!(spans.beside(&span, "admission wait").parent(), span.id());
    assert!(!spans.all().iter().any(|other| other.name() == "PHP run" && other.trace() == span.trace()));
    go(&svc, "a");
    drop(busy);
    svc.stop();
}

#[test]
fn refusals_have_a_reason() {
    refused("wait_timeout", &[("QUEUE_WAIT_TIMEOUT_MS", "2000")], |svc| svc.get("/?b").status);
    let fast = [("QUEUE_WAIT_TIMEOUT_MS", "0"), ("QUEUE_CAPACITY", "1")];
    refused("queue_full", &fast, |svc| {
        let held = send(svc, "/?b");
        svc.assert_metric("svc_queue_depth", 1.0);
        let status = svc.get("/?c").status;
        drop(held);
        status
    });
    let narrow = [("QUEUE_CAPACITY", "1"), ("QUEUE_MAX_WAITING", "1")];
    refused("waiting_full", &narrow, |svc| {
        let queued = send(svc, "/?b");
        svc.assert_metric("svc_queue_depth", 1.0);
        let waiting = send(svc, "/?c");
        svc.assert_metric("svc_pending_requests", 3.0);
        let status = svc.get("/?d").status;
        drop((queued, waiting));
        status
    });
    let light = [("QUEUE_CAPACITY", "1"), ("QUEUE_MAX_WAITING_BYTES", "10")];
    refused("waiting_bytes", &light, |svc| {
        let queued = send(svc, "/?b");
        svc.assert_metric("svc_queue_depth", 1.0);
        let status = svc.client().post("/?c", &[b'x'; 11]).status;
        drop(queued);
        status
    });
}

#[cfg(feature = "worker")]
#[test]
fn without_workers_the_refusal_is_a_span_too() {
    const WORKER: &str = "<?php
        if (file_exists(__DIR__ . '/broken')) { throw new Exception('no database'); }
        Svc\\Worker::serve(function () { touch(__DIR__ . '/broken'); trigger_error('the last one', E_USER_ERROR); });
    ";
    let spans = Spans::collect();
    let own = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", "1")];
    let svc = spans.svc(&[("worker.php", WORKER)], &own);
    svc.get("/?last");
    svc.assert_metric("svc_workers_current", 0.0);
    assert_eq!(svc.get("/?none").status, 500);
    let span = spans.request("none");
    assert_eq!((span.says("svc.shed_reason"), span.is_error()), (json!("pool_unavailable"), true));
    assert_eq!(span.says("error.type"), "500");
}

#[test]
fn requests_refused_by_the_drain_are_exported_before_the_end() {
    let spans = Spans::collect();
    let mut svc = start(&spans, &[("PHP_WORKERS", "1"), ("DRAIN_TIMEOUT_SECONDS", "1")]);
    let mut busy = send(&svc, "/?do=wait&n=a");
    until_inside(&svc, "a");
    let mut waiting = send(&svc, "/?b");
    svc.assert_metric("svc_queue_depth", 1.0);
    svc.signal(Signal::TERM);
    assert_eq!((waiting.response().status, busy.response().status), (503, 503));
    go(&svc, "a");
    svc.wait();
    let span = spans.request("b");
    assert_eq!((span.says("svc.shed_reason"), span.is_error()), (json!("shutting_down"), true));
    let cut = spans.request("do=wait&n=a");
    assert_eq!((cut.says("http.response.status_code"), cut.says("error.type")), (json!(503), json!("503")));
}

#[test]
fn the_sampler_decides_and_sets_the_flags() {
    let parent = |flags: &str| format!("traceparent: 00-{TRACE}-{PARENT}-{flags}");
    for (sampler, argument, expected) in [
        ("always_on", "", ["01", "01", "01"]),
        ("always_off", "", ["00", "00", "00"]),
        ("parentbased_always_off", "", ["00", "00", "01"]),
        ("parentbased_traceidratio", "0", ["00", "00", "01"]),
        ("parentbased_traceidratio", "1", ["01", "00", "01"]),
    ] {
        let spans = Spans::collect();
        let settings = [("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", argument)];
        let mut svc = start(&spans, &settings);
        let flags = [vec![], vec![parent("00")], vec![parent("01")]].map(|fields| {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let response = ask(&svc, "/?do=fields", &fields);
            let told = response.field("traceparent").unwrap().to_owned();
            let seen: [String; 3] = serde_json::from_slice(&response.body).unwrap();
            assert_eq!(seen, [told.clone(), told[3..35].to_owned(), told.clone()], "{sampler}");
            told[53..].to_owned()
        });
        assert_eq!(flags, expected, "{sampler} {argument}");
        svc.stop();
        let requests = spans.all().iter().filter(|span| span.is_server()).count();
        assert_eq!(requests, expected.iter().filter(|flags| **flags == "01").count(), "{sampler} {argument}");
    }
}

#[test]
fn parents_are_accepted_from_trusted_proxies_if_there_are_any() {
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    for (proxies, is_believed) in [("127.0.0.1", true), ("192.0.2.1", false)] {
        let spans = Spans::collect();
        let svc = start(&spans, &[("TRUSTED_PROXIES", proxies)]);
        ask(&svc, "/?q", &[&parent]);
        let span = spans.request("q");
        let expected = if is_believed { PARENT } else { "" };
        assert_eq!((span.parent(), span.trace() == TRACE), (expected, is_believed), "{proxies}");
    }
}

#[test]
fn without_the_propagator_fields_stay_as_they_came() {
    let spans = Spans::collect();
    let svc = start(&spans, &[("OTEL_PROPAGATORS", "none")]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let response = ask(&svc, "/?do=fields", &[&format!("traceparent: {parent}"), "baggage: a=b"]);
    let [field, trace, own]: [String; 3] = serde_json::from_slice(&response.body).unwrap();
    let span = spans.request("do=fields");
    assert_eq!((span.parent(), response.field("traceparent")), ("", None));
    assert_eq!(own, format!("00-{}-{}-01", span.trace(), span.id()));
    assert_eq!((field, &*trace), (parent, span.trace()));
}

#[test]
fn records_of_scripts_name_their_trace() {
    let spans = Spans::collect();
    let svc = start(&spans, &[]);
    svc.get("/?do=log");
    let span = spans.request("do=log");
    let record = svc.log().expect("logged");
    assert_eq!(
        (&record["fields"]["trace_id"], &record["fields"]["span_id"]),
        (&json!(span.trace()), &json!(span.id()))
    );
}

#[test]
fn without_tracing_there_are_functions_and_no_spans() {
    let svc = Svc::start(&[("index.php", SCRIPT)], &[]);
    let seen: [Option<String>; 3] = serde_json::from_slice(&svc.get("/?do=fields").body).unwrap();
    assert_eq!(seen, [None, None, Some(String::new())]);
    let svc = Svc::start(&[("index.php", SCRIPT)], &[("TRACE_CONTEXT", "true")]);
    let seen: [String; 3] = serde_json::from_slice(&svc.get("/?do=fields").body).unwrap();
    assert!(seen[0] == seen[2] && seen[0].ends_with("-00"), "{seen:?}");
}
