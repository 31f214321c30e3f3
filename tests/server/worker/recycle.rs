//! Workers that boot again while they have requests: new requests are served at once, and the old ones end normally.

use rustix::process::Signal;
use svc_core::sync::counter::{Counter, Flag};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = r"<?php
Svc\Worker::serve(function () {
    if (isset($_GET['stay'])) {
        set_time_limit(300);
        echo 'begun ';
        flush();
        touch(__DIR__ . '/inside-' . $_GET['stay']);
        while (!file_exists(__DIR__ . '/go')) { Svc\sleep(0.005); clearstatcache(); }
        echo 'ended';
        return;
    }
    if (isset($_GET['fatal'])) { str_repeat('x', PHP_INT_MAX >> 4); }
    if (isset($_GET['exit'])) { Svc\Worker::scheduleExit(); }
    if (isset($_GET['hoard'])) { static $hoard; $hoard = str_repeat('x', 24 << 20); }
    echo 'ok';
});";

fn start(workers: &str, settings: &[(&str, &str)]) -> Svc {
    let own = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", workers)];
    Svc::start(&[("worker.php", WORKER)], &[&own, settings].concat())
}

/// Parks requests inside the workers.
fn park(svc: &Svc, names: impl Iterator<Item = String>) -> Vec<Client> {
    let park = |name: String| {
        let mut client = svc.client();
        client.send(format!("GET /?stay={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
        eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
        client
    };
    names.map(park).collect()
}

fn release(svc: &Svc, parked: Vec<Client>) {
    std::fs::write(svc.root().join("go"), "").unwrap();
    for mut client in parked {
        assert_eq!(client.response().text(), "begun ended");
    }
}

fn number(svc: &Svc, series: &str) -> u64 {
    svc.metric(series) as u64
}

/// Asserts that the pool has settled; only `failed` requests, which cost their workers, were dropped.
fn assert_settled(svc: &Svc, workers: u64, failed: u64) {
    eventually("the old ones are gone", || number(svc, "svc_workers_lingering") == 0);
    eventually("the pool has its size", || number(svc, "svc_workers_current") == workers);
    assert_eq!(number(svc, "svc_admission_refused_total{reason=\"wait_timeout\"}"), 0);
    assert_eq!(number(svc, "svc_dropped_requests_total"), failed);
}

#[test]
fn after_a_fatal_error_other_requests_are_served_while_streams_continue() {
    for workers in [1, 4] {
        let svc = start(&workers.to_string(), &[]);
        let parked = park(&svc, (0..40).map(|number| format!("a{number}")));
        for _ in 0..workers {
            assert_eq!(svc.get("/?fatal").status, 500);
        }
        for _ in 0..20 {
            assert_eq!(svc.get("/").text(), "ok");
        }
        assert_eq!(svc.ask("/readyz").status, 200);
        assert!(number(&svc, "svc_workers_lingering") > 0);
        assert!(svc.metric("svc_busy_workers") <= svc.metric("svc_workers_current"));
        release(&svc, parked);
        assert_settled(&svc, workers, workers);
        assert_eq!(number(&svc, r#"svc_worker_recycles_by_reason_total{reason="error"}"#), workers);
    }
}

#[test]
fn so_they_are_when_a_worker_asks_for_it_or_holds_too_much_memory() {
    let svc = start("1", &[("WORKER_MAX_MEMORY_MIB", "16")]);
    for (round, query) in ["exit", "hoard"].iter().enumerate() {
        let parked = park(&svc, (0..3).map(|number| format!("{round}-{number}")));
        assert_eq!(svc.get(&format!("/?{query}")).text(), "ok");
        assert_eq!(svc.get("/").text(), "ok");
        assert_eq!(number(&svc, "svc_workers_lingering"), 1);
        release(&svc, parked);
        std::fs::remove_file(svc.root().join("go")).unwrap();
        assert_settled(&svc, 1, 0);
    }
    for reason in ["scheduled", "max_memory"] {
        let series = format!("svc_worker_recycles_by_reason_total{{reason=\"{reason}\"}}");
        assert_eq!(number(&svc, &series), 1, "{reason}");
    }
}

#[test]
fn old_workers_do_not_pile_up_whatever_fails() {
    let svc = start("2", &[("QUEUE_WAIT_TIMEOUT_MS", "100")]);
    let (done, failed) = (Flag::new(), Counter::new());
    let mut parked = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.is_set() {
                    let status = svc.get("/?fatal").status;
                    assert!([500, 529].contains(&status), "{status}");
                    failed.incr();
                }
            });
        }
        for name in 0.. {
            let mut client = svc.client();
            client.send(format!("GET /?stay={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
            parked.push(client);
            assert!(svc.metric("svc_workers_lingering") <= 4.0);
            assert!(svc.metric("svc_workers_current") <= 6.0);
            if number(&svc, "svc_workers_lingering") == 4 && failed.value() > 60 {
                break;
            }
        }
        done.set();
    });
    std::fs::write(svc.root().join("go"), "").unwrap();
    for mut client in parked {
        let text = client.response().text();
        assert!(text == "begun ended" || text.contains("overloaded"), "{text}");
    }
    eventually("a worker serves", || svc.get("/").text() == "ok");
    eventually("the old ones are gone", || number(&svc, "svc_workers_lingering") == 0);
    eventually("the pool has its size", || number(&svc, "svc_workers_current") == 2);
}

#[test]
fn all_can_be_replaced_while_some_linger_and_the_way_down_waits_for_them() {
    let mut svc = start("2", &[]);
    let parked = park(&svc, (0..6).map(|number| number.to_string()));
    assert_eq!(svc.get("/?fatal").status, 500);
    assert_eq!(svc.get("/").text(), "ok");
    svc.signal(Signal::HUP);
    eventually("it is logged", || svc.log().find("rolling restart of PHP workers finished").is_some());
    assert_eq!(svc.get("/").text(), "ok");
    svc.signal(Signal::TERM);
    eventually("it drains", || svc.ask("/readyz").status == 503);
    release(&svc, parked);
    assert_eq!(svc.wait(), Some(0));
}
