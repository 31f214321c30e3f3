//! `/status` of a real server: each group of fields in an interesting state.
#![cfg(feature = "php")]

use rustix::process::Signal;
use serde_json::{Value, json};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

/// A script that reports that it runs, and answers when a file appears beside it.
pub(crate) const WAITING: &str = r#"<?php
set_time_limit(0);
touch(__DIR__ . '/inside');
while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
echo 'done';
"#;

pub(crate) fn status(svc: &Svc) -> Value {
    let answer = Client::connect(svc.ops()).request("GET /status HTTP/1.1\r\nHost: localhost");
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/json")));
    serde_json::from_slice(&answer.body).unwrap()
}

/// Waits until the status satisfies a condition; it may be a second old.
#[track_caller]
pub(crate) fn becomes(svc: &Svc, what: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
    let mut seen = Value::Null;
    eventually(what, || {
        seen = status(svc);
        is_meant(&seen)
    });
    seen
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

fn release(svc: &Svc) {
    std::fs::write(svc.root().join("go"), "").unwrap();
}

#[test]
fn a_quiet_server_has_every_field_and_nothing_to_report() {
    let svc = Svc::start(&[("index.php", "<?php echo 1;"), ("a.txt", "a")], &[]);
    let seen = becomes(&svc, "there is a window", |seen| seen["window_seconds"].is_number());
    assert_eq!(
        (&seen["phase"], &seen["ready"], &seen["conditions"]),
        (&"running".into(), &true.into(), &json!([]))
    );
    assert_eq!(seen["version"], env!("CARGO_PKG_VERSION"));
    assert!(seen["php_version"].is_string() && seen["time"].is_string() && seen["started_at"].is_string());
    assert_eq!((&seen["pool"]["mode"], &seen["pool"]["current"]), (&"classic".into(), &2.into()));
    assert_eq!(
        (&seen["tasks"], &seen["tracing"], &seen["certificates"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(seen["episodes"], json!([]));
    for _ in 0..3 {
        assert_eq!(
            (svc.get("/").status, svc.get("/a.txt").status, svc.get("/none.txt").status),
            (200, 200, 404)
        );
    }
    let seen = becomes(&svc, "the requests have ended", |seen| seen["latency"]["request"]["count"] == 9);
    assert_eq!((&seen["requests"]["total"], &seen["requests"]["responses"]["4xx"]), (&9.into(), &3.into()));
    assert!(seen["requests"]["per_second"].as_f64().unwrap() > 0.0);
    assert!(seen["requests"]["responses_per_second"]["2xx"].as_f64().unwrap() > 0.0);
    assert_eq!(
        (&seen["latency"]["php"]["count"], &seen["latency"]["queue_wait"]["count"]),
        (&3.into(), &3.into())
    );
    let quantile = |name: &str| seen["latency"]["request"][name].as_u64().unwrap();
    assert!(0 < quantile("p50_us") && quantile("p50_us") <= quantile("p99_us"));
    let files = &seen["caches"]["static"];
    assert_eq!((&files["hits"], &files["misses"]), (&json!(2), &json!(1)));
    assert_eq!(seen["caches"]["opcache"]["restarts"], 0);
    let (memory, process) = (&seen["memory"], &seen["process"]);
    assert!(memory["resident_bytes"].as_u64() > Some(1_000_000) && process["threads"].as_u64() > Some(4));
    assert!(process["cpu_seconds"].as_f64() > Some(0.0) && process["open_fds"].as_u64() > Some(4));
}

#[test]
fn overload_is_seen_in_the_queue_the_slots_the_workers_and_as_an_episode() {
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "2"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
    let svc = Svc::start(&[("wait.php", WAITING)], &settings);
    let mut clients = vec![send(&svc, "/wait.php")];
    eventually("the script runs", || svc.root().join("inside").exists());
    clients.push(send(&svc, "/wait.php"));
    clients.push(send(&svc, "/wait.php"));
    let full = becomes(&svc, "the queue is full", |seen| seen["slots"]["available"] == 0);
    assert_eq!(
        full["queue"],
        json!({ "depth": 2, "capacity": 2, "waiting": 0, "waiting_max": full["queue"]["waiting_max"] })
    );
    assert_eq!((&full["requests"]["pending"], &full["connections"]["open"]), (&3.into(), &3.into()));
    assert_eq!((&full["pool"]["busy"], &full["pool"]["idle"]), (&1.into(), &0.into()));
    let worker = &full["workers"][0];
    assert_eq!(
        (&worker["id"], &worker["state"], &worker["requests_in_flight"]),
        (&0.into(), &"busy".into(), &1.into())
    );
    assert!(worker["request_age_seconds"].as_f64() >= Some(0.0));
    assert_eq!(worker["state_age_seconds"], worker["request_age_seconds"]);
    for _ in 0..4 {
        assert_eq!(svc.get("/wait.php").status, 529);
    }
    let shed = becomes(&svc, "it is an episode", |seen| seen["episodes"][0]["kind"] == "shedding");
    assert_eq!(
        (&shed["refusals"]["overload"], &shed["refusals"]["by_reason"]["queue_full"]),
        (&4.into(), &4.into())
    );
    let served =
        becomes(&svc, "the refusals are in the window", |seen| seen["latency"]["request"]["count"] == 4);
    assert_eq!(served["latency"]["served"]["count"], 0, "refusals have no latency of service");
    assert_eq!((&shed["conditions"], &shed["ready"]), (&json!(["shedding"]), &true.into()));
    let episode = &shed["episodes"][0];
    assert_eq!(episode["ended_at"], Value::Null);
    assert!(episode["detail"].as_str().unwrap().ends_with("requests refused"), "{episode}");
    assert!(episode["count"].as_u64() > Some(0));
    becomes(&svc, "all are counted", |seen| seen["episodes"][0]["count"] == 4);
    release(&svc);
    for client in &mut clients {
        assert_eq!(client.response().text(), "done");
    }
    becomes(&svc, "the worker is idle", |seen| seen["workers"][0]["state"] == "idle");
}

#[test]
fn connections_without_a_permit_are_reported() {
    let svc = Svc::start(&[("a.txt", "a")], &[("MAX_CONNECTIONS", "1")]);
    let mut holder = svc.client();
    assert_eq!(holder.get("/a.txt").status, 200);
    let _waiting = send(&svc, "/a.txt");
    let seen =
        becomes(&svc, "the accept loop is stalled", |seen| seen["conditions"] == json!(["accept_stalled"]));
    assert_eq!(
        seen["connections"],
        json!({ "open": 1, "max": 1, "accept_stalled": true, "accept_stalls": 1 })
    );
}

#[cfg(feature = "async")]
const WORKER: &str = r#"<?php
Svc\Worker::serve(function () {
    switch ($_SERVER['REQUEST_URI']) {
        case '/fatal': ini_set('memory_limit', '32M'); str_repeat('x', 1 << 26); break;
        case '/large': $GLOBALS['kept'] = str_repeat('x', 1 << 23); break;
        case '/task': Svc\async(fn () => 7)->await(); break;
        case '/held':
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
    }
    echo 'done';
});
"#;

#[cfg(feature = "async")]
#[test]
fn persistent_workers_tell_of_their_memory_their_requests_and_their_end() {
    let settings = [
        ("PHP_WORKERS", "1"),
        ("WORKER_MODE_ENABLED", "true"),
        ("ENTRY_FILE", "worker.php"),
        ("ASYNC_WORKERS", "1"),
    ];
    let svc = Svc::start(&[("worker.php", WORKER)], &settings);
    assert_eq!(svc.get("/large").text(), "done");
    assert_eq!(svc.get("/task").text(), "done");
    let seen = becomes(&svc, "both are counted", |seen| seen["workers"][0]["requests_handled"] == 2);
    assert_eq!(seen["pool"]["mode"], "worker");
    let heap = seen["workers"][0]["memory_bytes"].as_u64().unwrap();
    assert!(heap > 1 << 23, "{heap}");
    assert_eq!(seen["memory"]["workers_bytes"], heap);
    assert_eq!(seen["workers"][0]["stuck"], json!({ "io": 0, "c_call": 0, "cpu": 0 }));
    let tasks = becomes(&svc, "the task has ended", |seen| seen["tasks"]["completed"] == 1)["tasks"].clone();
    assert_eq!(
        (&tasks["dispatched"], &tasks["in_flight"], &tasks["failed"]),
        (&1.into(), &0.into(), &0.into())
    );
    assert_eq!(tasks["workers"].as_array().unwrap().len(), 1);
    let mut held = send(&svc, "/held");
    let seen = becomes(&svc, "it is held", |seen| seen["workers"][0]["state"] == "busy");
    assert_eq!(seen["workers"][0]["requests_in_flight"], 1);
    release(&svc);
    assert_eq!(held.response().text(), "done");
    assert_eq!(svc.get("/fatal").status, 500);
    let seen = becomes(&svc, "the worker is replaced", |seen| seen["pool"]["recycled"]["error"] == 1);
    assert_eq!(seen["requests"]["dropped"], 1);
    becomes(&svc, "its replacement is new", |seen| seen["workers"][0]["requests_handled"] == 0);
    svc.signal(Signal::HUP);
    let kind = |seen: &Value, kind: &str| {
        seen["episodes"].as_array().unwrap().iter().find(|one| one["kind"] == kind).cloned()
    };
    let restarted =
        |seen: &Value| kind(seen, "rolling_restart").is_some_and(|one| !one["ended_at"].is_null());
    let seen = becomes(&svc, "the workers are replaced", restarted);
    assert_eq!(kind(&seen, "reload").unwrap()["detail"], "succeeded");
}

#[test]
fn a_failed_reload_and_the_shutdown_are_reported() {
    let settings = [("DRAIN_DELAY_SECONDS", "600")];
    let mut svc = Svc::start(&[("a.txt", "a")], &settings);
    std::fs::write(svc.root().join(".svcdeny"), "a[b\n").unwrap();
    svc.signal(Signal::HUP);
    let seen = becomes(&svc, "the reload failed", |seen| seen["conditions"] == json!(["reload_failed"]));
    assert_eq!(
        (&seen["reload"]["successful"], &seen["episodes"][0]["kind"]),
        (&false.into(), &"reload".into())
    );
    assert!(seen["episodes"][0]["detail"].as_str().unwrap().contains(".svcdeny"), "{}", seen["episodes"][0]);
    svc.signal(Signal::TERM);
    let seen = becomes(&svc, "it drains", |seen| seen["phase"] == "draining");
    assert_eq!((&seen["ready"], &seen["conditions"]), (&false.into(), &json!(["reload_failed", "draining"])));
    assert_eq!(
        (&seen["episodes"][0]["kind"], &seen["episodes"][0]["ended_at"]),
        (&"drain".into(), &Value::Null)
    );
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(1));
}
