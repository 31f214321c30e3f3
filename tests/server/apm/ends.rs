//! The plugin apm: calls that are cut short, and the calls after them.

use rustix::process::Signal;
use serde_json::{Value, json};

use svc_testing::IS_WORKER;
use svc_testing::Svc;
use svc_testing::backend::Backend;
use svc_testing::client::eventually;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::pair::{Calls, Pair, constants_of};
use svc_testing::spans::{ExportedSpan, Spans};

/// Every case of these tests.
const PROGRAM: &str = include_str!("../../php/apm_ends.php");

fn server() -> Backend {
    Backend::http(|request| request.lines().next().unwrap_or_default().to_owned())
}

fn constants(backend: &Backend) -> Value {
    json!({ "URL": format!("http://{}", backend.address()) })
}

#[track_caller]
fn is_well(calls: &Calls) {
    for call in calls.to("/fine") {
        assert_eq!((call.says("http.response.status_code"), call.parent()), (json!(200), calls.request.id()));
    }
    assert_eq!(calls.to("/fine").len(), 2);
    assert!(calls.calls.iter().all(|span| span.says("svc.unfinished").is_null()));
}

#[test]
fn fibers_end_in_the_middle_of_calls() {
    for is_worker in IS_WORKER {
        let backend = server();
        let pair =
            Pair::start(PROGRAM, &constants(&backend), &[("OTEL_BSP_MAX_QUEUE_SIZE", "65536")], is_worker);
        let resumed = pair.same("resumed");
        assert!(resumed.calls.iter().all(|span| span.says("svc.unfinished").is_null() && !span.is_error()));
        for case in ["dropped", "left"] {
            let calls = pair.same(case);
            let cut = calls.calls.iter().filter(|span| span.says("svc.unfinished") == true);
            // The method is known at the end of a transfer, but not if the request ends first.
            let name = |span: &ExportedSpan| span.name().replace("HTTP", "GET");
            let mut names: Vec<_> = cut.map(name).collect();
            names.sort_unstable();
            assert_eq!(
                names,
                ["CREATE TABLE t SELECT", "GET", "GET", "GET", "SELECT", "SELECT", "SELECT"],
                "{case}"
            );
            assert!(calls.calls.iter().all(|span| !span.is_error()), "{case}");
            is_well(&pair.same("fine"));
        }
        let thrown = pair.same("thrown");
        assert!(thrown.calls.iter().any(|span| span.says("error.type") == "DomainException"));
        let anonymous = pair.same("anonymous");
        let errors: Vec<_> = anonymous.calls.iter().map(|span| span.says("error.type")).collect();
        assert!(errors.contains(&json!("DomainException@anonymous")), "{errors:?}");
        let reused = pair.same("reused");
        let seen: Vec<_> = reused.to("/reused").iter().map(|span| span.says("svc.unfinished")).collect();
        assert_eq!(seen, [json!(true), Value::Null]);
        let exits = pair.same("exits");
        assert_eq!(exits.to("/exits")[0].says("svc.unfinished"), true);
        assert_eq!(pair.same("leaks").answer, "true");
        is_well(&pair.same("fine"));
    }
}

/// A request that a time limit ends gets the same answer as without the plugin; so does the next request.
fn limits_end(pair: &Pair, cases: &[&str]) {
    for case in cases {
        let calls = pair.same(case);
        assert!(!calls.calls.is_empty(), "{case}");
        is_well(&pair.same("fine"));
    }
}

/// Checks the cases in classic mode, and in worker mode with and without hooks.
fn limited(constants: &Value, cases: &[&str]) {
    let kinds: &[(bool, &[(&str, &str)])] = &[
        (false, &[]),
        #[cfg(feature = "worker")]
        (true, &[]),
        #[cfg(feature = "worker")]
        (true, &[("RUNTIME_HOOKS", "none")]),
    ];
    for (is_worker, settings) in kinds {
        limits_end(&Pair::start(PROGRAM, constants, settings, *is_worker), cases);
    }
}

#[test]
fn time_limits_end_queries() {
    limited(&constants(&server()), &["limit"]);
}

#[test]
fn time_limits_end_calls_to_a_server() {
    let backend = server();
    limited(&constants(&backend), &["limit-callback"]);
    // Only with hooks: without them, the thread waits for the answer.
    for case in ["limit-curl", "limit-stream"] {
        let pair = Pair::start(PROGRAM, &constants(&backend), &[], true);
        limits_end(&pair, &[case]);
    }
}

fn queries_wait(mut constants: Value, sleep: &str, cases: &[&str]) {
    let backend = server();
    constants["URL"] = json!(format!("http://{}", backend.address()));
    constants["SLEEP"] = json!(sleep);
    limited(&constants, cases);
}

#[test]
fn time_limits_end_calls_to_mysql() {
    let Some(database) = databases::mariadb() else { return };
    queries_wait(constants_of(&database), "select sleep(2)", &["limit-pdo", "limit-mysqli"]);
}

#[test]
fn time_limits_end_calls_to_postgresql() {
    let Some(database) = databases::postgres() else { return };
    let mut constants = constants_of(&database);
    queries_wait(constants.clone(), "select pg_sleep(2)", &["limit-pdo"]);
    let (name, port) = (database.name(), database.address().port());
    constants["DSN"] =
        json!(format!("host=127.0.0.1 port={port} dbname={name} user={USER} password={PASSWORD}"));
    queries_wait(constants, "select pg_sleep(2)", &["limit-pgsql"]);
}

const WAITS: &str = r"$curl = curl_init(URL . '/late'); curl_setopt($curl, CURLOPT_RETURNTRANSFER, true); echo isset($_GET['fast']) ? 'fast' : curl_exec($curl);";

/// Returns a server whose only thread carries requests that wait for an answer of the backend, which the test holds back.
fn waiting(spans: &Spans, backend: &Backend, is_worker: bool, settings: &[(&str, &str)]) -> Svc {
    let define = format!("<?php define('URL', 'http://{}');", backend.address());
    let script = match is_worker {
        true => format!("{define} Svc\\Worker::serve(function () {{ {WAITS} }});"),
        false => format!("{define} {WAITS}"),
    };
    let worker = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php"), ("RUNTIME_HOOKS", "all")];
    let own = [("PLUGINS", "apm"), ("PHP_WORKERS", "1")];
    let worker = if is_worker { &worker[..] } else { &[] };
    spans.svc(&[("index.php", &script)], &[worker, &own, settings].concat())
}

fn late(spans: &Spans, request: &ExportedSpan) -> ExportedSpan {
    let is_meant = |span: &ExportedSpan| {
        span.trace() == request.trace()
            && span.says("url.full").as_str().is_some_and(|url| url.ends_with("/late"))
    };
    spans.find("the call", is_meant)
}

#[test]
fn a_call_continues_when_the_client_leaves() {
    for is_worker in IS_WORKER {
        let (spans, backend) = (Spans::collect(), server());
        let svc = waiting(&spans, &backend, is_worker, &[]);
        let mut client = svc.client();
        client.send("GET /?left HTTP/1.1\r\nHost: x\r\n\r\n");
        backend.gate().wait_until_held(1);
        drop(client);
        let request = spans.request("left");
        backend.gate().open();
        let call = late(&spans, &request);
        assert_eq!((call.says("http.response.status_code"), call.parent()), (json!(200), request.id()));
        assert_eq!(svc.get("/?fast").text(), "fast");
    }
}

#[test]
fn a_drain_waits_for_calls_or_cuts_them_off() {
    for is_worker in IS_WORKER {
        for (limit, is_answered) in [("30", true), ("1", false)] {
            let (spans, backend) = (Spans::collect(), server());
            let mut svc = waiting(&spans, &backend, is_worker, &[("DRAIN_TIMEOUT_SECONDS", limit)]);
            let mut client = svc.client();
            client.send("GET /?drained HTTP/1.1\r\nHost: x\r\n\r\n");
            backend.gate().wait_until_held(1);
            svc.signal(Signal::TERM);
            eventually("the drain has begun", || svc.ask("/readyz").status == 503);
            if is_answered {
                backend.gate().open();
                assert_eq!(client.response().text(), "GET /late HTTP/1.1");
            } else {
                assert_eq!(client.response().status, 503);
            }
            assert_eq!(svc.wait(), Some(0));
            let request = spans.request("drained");
            if is_answered {
                assert_eq!(late(&spans, &request).parent(), request.id());
            }
        }
    }
}
