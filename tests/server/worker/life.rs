//! The life of a worker from outside: boot, clients that leave, the shutdown, and the metrics.

use rustix::process::Signal;

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = r#"<?php
file_put_contents(__DIR__ . '/boots', 'x', FILE_APPEND);
Svc\Worker::serve(function () {
    if (isset($_GET['stay'])) {
        touch(__DIR__ . "/inside-{$_GET['stay']}");
        while (!file_exists(__DIR__ . "/go-{$_GET['stay']}")) {
            Svc\sleep(0.002);
            clearstatcache();
        }
        echo 'stayed';
        flush();
        file_put_contents(__DIR__ . "/left-{$_GET['stay']}", connection_aborted());
    }
    if (isset($_GET['long'])) {
        for ($n = 0; $n < 1000; $n++) {
            echo str_repeat('x', 65536);
        }
        return;
    }
    if (isset($_GET['bulk'])) {
        echo str_repeat('x', 1 << 25);
        return;
    }
    if (isset($_GET['exit'])) {
        Svc\Worker::scheduleExit();
    }
    if (isset($_GET['memory'])) {
        str_repeat('x', PHP_INT_MAX >> 4);
    }
    echo filesize(__DIR__ . '/boots');
});"#;

fn start(script: &str) -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", script)], &settings)
}

fn stay(svc: &Svc, name: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /?stay={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("the request is inside", || svc.root().join(format!("inside-{name}")).exists());
    client
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

#[test]
fn a_client_that_leaves_does_not_end_its_request() {
    let svc = start(WORKER);
    let client = stay(&svc, "a");
    drop(client);
    eventually("its end is counted", || {
        svc.metric(r#"svc_request_cancelled_total{reason="client_abort"}"#) > 0.0
    });
    go(&svc, "a");
    let left = svc.root().join("left-a");
    eventually("it continues", || std::fs::read_to_string(&left).is_ok_and(|text| text == "1"));
    assert_eq!(svc.get("/").text(), "1", "nothing of the worker is lost");
}

#[test]
fn requests_that_wait_are_answered_on_the_way_down() {
    let mut svc = start(WORKER);
    let (mut first, mut second) = (stay(&svc, "a"), stay(&svc, "b"));
    svc.signal(Signal::TERM);
    eventually("it drains", || svc.ask("/readyz").status == 503);
    go(&svc, "a");
    go(&svc, "b");
    assert_eq!(first.response().text(), "stayed1");
    assert_eq!(second.response().text(), "stayed1");
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn a_script_that_does_not_boot_is_tried_again() {
    let svc = start(WORKER);
    assert_eq!(svc.get("/?exit").text(), "1");
    std::fs::write(svc.root().join("worker.php"), "<?php throw new Exception('no database');").unwrap();
    // The new boot may still use the old script: OPcache does not check a file for a moment.
    eventually("the new script is the one that boots", || {
        svc.log()
            .of("php")
            .iter()
            .any(|record| record["fields"]["message"].to_string().contains("no database"))
            || svc.get("/?exit").status == 500
    });
    eventually("no worker serves", || svc.ask("/readyz").status == 503);
    std::fs::write(svc.root().join("worker.php"), WORKER).unwrap();
    eventually("it is tried again", || svc.ask("/readyz").status == 200 && svc.get("/").status == 200);
}

#[test]
fn the_metrics_show_the_requests_of_a_worker() {
    let svc = start(WORKER);
    let (mut first, mut second) = (stay(&svc, "a"), stay(&svc, "b"));
    eventually("two are carried", || svc.metric(r#"svc_worker_request_fibers_active{worker="0"}"#) == 2.0);
    svc.assert_metric("svc_busy_workers", 1.0);
    go(&svc, "a");
    go(&svc, "b");
    first.response();
    second.response();
    eventually("none is carried", || svc.metric(r#"svc_worker_request_fibers_active{worker="0"}"#) == 0.0);
    svc.assert_metric("svc_busy_workers", 0.0);
    svc.assert_metric("svc_worker_requests_handled_total", 2.0);
    eventually("each was followed by a reset", || svc.metric("svc_worker_soft_resets_total") == 2.0);
    assert!(svc.metric(r#"svc_worker_memory_bytes{worker="0"}"#) > 100_000.0);
    svc.get("/?exit");
    svc.get("/?memory");
    assert_eq!(svc.get("/").text(), "3");
    for (reason, count) in [("scheduled", 1.0), ("error", 1.0), ("max_memory", 0.0)] {
        let series = format!(r#"svc_worker_recycles_by_reason_total{{reason="{reason}"}}"#);
        svc.assert_metric(&series, count);
    }
}

#[test]
fn a_hang_up_boots_the_workers_anew() {
    let svc = start(WORKER);
    let mut waits = stay(&svc, "a");
    svc.signal(Signal::HUP);
    eventually("another one has booted", || svc.get("/").text() == "2");
    go(&svc, "a");
    assert_eq!(waits.response().text(), "stayed2", "what the old one carries ends in peace");
}

#[test]
fn a_slow_reader_holds_its_own_request_only() {
    let settings = [
        ("PHP_WORKERS", "1"),
        ("WORKER_MODE_ENABLED", "true"),
        ("ENTRY_FILE", "worker.php"),
        ("SPOOL_MAX_BYTES", "1M"),
    ];
    let svc = Svc::start(&[("worker.php", WORKER)], &settings);
    // Output in pieces, and output at once.
    for (query, length) in [("long", 65_536_000), ("bulk", 1 << 25)] {
        let mut slow = svc.client();
        slow.send(format!("GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n"));
        eventually("it is parked", || svc.metric(r#"svc_worker_request_fibers_active{worker="0"}"#) == 1.0);
        for _ in 0..3 {
            assert_eq!(svc.get("/").text(), "1", "the thread is free for others");
        }
        assert_eq!(slow.response().body.len(), length);
        assert_eq!(svc.get("/").text(), "1");
    }
}
