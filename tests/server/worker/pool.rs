//! The pool of persistent workers from outside: replaced under load, protected from a broken deployment, of varying size,
//! and described in pages that a strict reader accepts.

use rustix::process::Signal;
use svc_core::sync::counter::{Counter, Flag};
use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::exposition;
use svc_testing::exposition::Dialect;

/// Answers with the version that was deployed at its boot; on demand it blocks its thread, or waits for long.
const WORKER: &str = r"<?php
$version = trim(file_get_contents(__DIR__ . '/version'));
if ($version === 'broken') { throw new Exception('no database'); }
Svc\Worker::serve(function () use ($version) {
    if (isset($_GET['block'])) {
        touch(__DIR__ . '/inside-' . $_GET['block']);
        while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
    }
    if (isset($_GET['stay'])) {
        touch(__DIR__ . '/inside-' . $_GET['stay']);
        while (!file_exists(__DIR__ . '/go')) { Svc\sleep(0.002); clearstatcache(); }
    }
    echo $version;
});";

fn start(settings: &[(&str, &str)]) -> Svc {
    let own = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", WORKER), ("version", "1")], &[&own, settings].concat())
}

fn deploy(svc: &Svc, version: &str) {
    // Atomically: a worker that boots meanwhile reads either version.
    std::fs::write(svc.root().join("version.new"), version).unwrap();
    std::fs::rename(svc.root().join("version.new"), svc.root().join("version")).unwrap();
}

fn send(svc: &Svc, query: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

fn until_inside(svc: &Svc, name: &str) {
    eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
}

/// Waits until two workers serve: readiness needs only one of them.
fn until_both_serve(svc: &Svc) {
    let blocked = ["a", "b"].map(|name| send(svc, &format!("block={name}")));
    until_inside(svc, "a");
    until_inside(svc, "b");
    std::fs::write(svc.root().join("go"), "").unwrap();
    for mut client in blocked {
        assert_eq!(client.response().status, 200);
    }
}

fn recycled(svc: &Svc, reason: &str) -> u64 {
    svc.metric(&format!(r#"svc_worker_recycles_by_reason_total{{reason="{reason}"}}"#)) as u64
}

#[test]
fn replacing_all_workers_under_load_refuses_nothing() {
    let svc = start(&[]);
    let (done, served) = (Flag::new(), Counter::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = svc.client();
                while !done.is_set() {
                    let response = client.get("/");
                    assert!(
                        response.status == 200 && "123".contains(&response.text()),
                        "{}",
                        response.text()
                    );
                    served.incr();
                }
            });
        }
        for version in 2..=3 {
            eventually("there is load", || served.value() > 20);
            deploy(&svc, &version.to_string());
            svc.signal(Signal::HUP);
            // Each worker twice: first by one without OPcache, which is emptied when the old workers have ended.
            let replaced = 4 * (version - 1);
            eventually("both are replaced", || recycled(&svc, "scheduled") == replaced);
            assert_eq!(svc.get("/").text(), version.to_string());
        }
        done.set();
    });
    for series in [
        "svc_request_cancelled_total{reason=\"client_abort\"}",
        "svc_admission_refused_total{reason=\"pool_unavailable\"}",
        "svc_dropped_requests_total",
        "svc_responses_by_status_total{status=\"5xx\"}",
    ] {
        assert!(svc.metric(series) < 0.5, "{series}");
    }
    assert_eq!(svc.metric("svc_workers_spawned_total") as u64, 10);
    svc.log().expect("rolling restart of PHP workers finished");
}

#[test]
fn a_deployment_that_does_not_boot_leaves_the_old_workers_serving() {
    let svc = start(&[]);
    until_both_serve(&svc);
    deploy(&svc, "broken");
    svc.signal(Signal::HUP);
    let told = "rolling restart of PHP workers stopped: a new worker failed to boot, and the remaining old workers keep running";
    eventually("it is logged", || svc.log().find(told).is_some());
    let record = svc.log().expect(told);
    assert_eq!((&record["level"], &record["fields"]["left"]), (&"WARN".into(), &2.into()));
    assert!(svc.log().find("PHP worker failed to boot").is_none(), "one line tells it");
    assert_eq!(svc.get("/").text(), "1");
    assert_eq!((svc.metric("svc_workers_current") as u64, recycled(&svc, "scheduled")), (2, 0));
    deploy(&svc, "2");
    svc.signal(Signal::HUP);
    // Each worker twice, as above.
    eventually("the next one does", || recycled(&svc, "scheduled") == 4);
    assert_eq!(svc.get("/").text(), "2");
}

#[test]
fn a_worker_that_is_blocked_is_helped_by_more_which_retire_again() {
    let settings = [("PHP_WORKERS", "1:3"), ("PHP_WORKERS_IDLE_SECONDS", "5")];
    let svc = start(&settings);
    let blocked: Vec<_> = ["a", "b"].map(|name| send(&svc, &format!("block={name}"))).into();
    until_inside(&svc, "a");
    until_inside(&svc, "b");
    assert_eq!(svc.get("/").text(), "1", "a third one serves");
    assert_eq!(svc.metric("svc_workers_current") as u64, 3);
    std::fs::write(svc.root().join("go"), "").unwrap();
    for mut client in blocked {
        assert_eq!(client.response().status, 200);
    }
    eventually("they retire", || svc.metric("svc_workers_current") as u64 == 1);
    assert_eq!(svc.metric("svc_workers_retired_total") as u64, 2);
    assert_eq!(svc.metric("svc_worker_recycles_total") as u64, 0);
}

#[test]
fn the_pages_of_worker_mode_are_strictly_valid_and_only_grow() {
    let svc = start(&[("PHP_WORKERS", "1")]);
    let scrape = |dialect| {
        let accept = match dialect {
            Dialect::Text => "text/plain",
            Dialect::OpenMetrics => "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
        };
        let mut port = Client::connect(svc.ops());
        let response = port.request(&format!("GET /metrics HTTP/1.1\r\nAccept: {accept}"));
        exposition::read(&response.body, dialect).unwrap_or_else(|fault| panic!("{fault}"))
    };
    svc.get("/");
    let before = [Dialect::Text, Dialect::OpenMetrics].map(scrape);
    let mut stays = send(&svc, "stay=a");
    until_inside(&svc, "a");
    svc.get("/");
    // The other request ends after its response.
    eventually("one is carried", || svc.metric("svc_worker_request_fibers_active{worker=\"0\"}") as u64 == 1);
    for (before, dialect) in before.iter().zip([Dialect::Text, Dialect::OpenMetrics]) {
        let during = scrape(dialect);
        assert_eq!(during.faults_after(before), [""; 0]);
        let of_worker =
            |name, label| during.value(name, &[(label, "0")]).unwrap_or_else(|| panic!("no {name}"));
        assert!((of_worker("svc_worker_request_fibers_active", "worker") - 1.0).abs() < 0.1);
        assert!((of_worker("svc_worker_requests_count", "worker") - 2.0).abs() < 0.1);
        assert!(of_worker("svc_worker_request_age_seconds", "worker_id") > 0.0);
        assert!(of_worker("svc_worker_uptime_seconds", "worker") > 0.0);
        assert_eq!(during.value("svc_pool_stalled", &[]), Some(0.0));
        assert_eq!(during.value("svc_worker_mode_enabled", &[]), Some(1.0));
    }
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(stays.response().text(), "1");
    // The response is sent before its handler has returned.
    eventually("all three are handled", || {
        scrape(Dialect::Text).value("svc_worker_request_duration_us_count", &[]) == Some(3.0)
    });
}
