//! Alerts about requests, workers, tasks and exports: servers in trouble raise them, and a healthy one raises none.
#![cfg(all(feature = "async", feature = "trace"))]

use std::net::SocketAddr;

use rustix::process::Signal;

use crate::ops::alerts::{all_raised, impatient_rules};
use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;
use svc_testing::tls::Certificates;

const WORKER: &str = r#"<?php
Svc\Worker::serve(function () {
    if ($_SERVER['REQUEST_URI'] === '/fatal') {
        ini_set('memory_limit', '32M');
        str_repeat('x', 1 << 26);
    }
    if ($_SERVER['REQUEST_URI'] === '/tasks') {
        $gate = __DIR__ . '/go';
        foreach ([1, 2, 3, 4] as $n) {
            try {
                Svc\async(function () use ($gate) {
                    set_time_limit(0);
                    while (!file_exists($gate)) { usleep(2000); clearstatcache(); }
                })->detach();
            } catch (Svc\Async\RejectedException) {
                echo 'rejected';
            }
        }
    }
});
"#;

const PAGES: &[(&str, &str)] = &[
    ("index.php", "<?php echo 'hello';"),
    ("file.txt", "a file"),
    ("endless.php", "<?php while (true) {}"),
    (
        "wait.php",
        "<?php set_time_limit(0); touch(__DIR__ . '/inside'); while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }",
    ),
];

#[test]
fn servers_in_trouble_raise_the_alerts_that_are_meant_for_it_and_a_healthy_one_raises_none() {
    let mut certificates = Certificates::new(&[&["localhost"]]);
    certificates.write(0, &["localhost"], (1975, 1976));
    let [(cert, cert_file), (key, key_file)] = certificates.settings(1);
    let healthy = Svc::start(PAGES, &[]);
    let hidden = Svc::start(PAGES, &[("INTERNAL_ALLOW_IPS", "10.0.0.0/8")]);
    let crowded = Svc::start(PAGES, &[("MAX_CONNECTIONS", "1")]);
    let expired = Svc::start(PAGES, &[(cert, &cert_file), (key, &key_file)]);
    let drowning = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
    let drowning = Svc::start_with(PAGES, &drowning, &["max_execution_time=1"]);
    let broken = without_luck();
    let failing = Svc::start(&[("index.php", "<?php throw new Exception('no database');")], &[]);
    let slow = Svc::start(&[("index.php", "<?php sleep(3);")], &[("PHP_WORKERS", "24")]);
    let all = [&healthy, &hidden, &crowded, &expired, &drowning, &broken, &failing, &slow].map(Svc::ops);
    let Some(collector) = Collector::watch(&all, &impatient_rules()) else {
        return skipped("prometheus is not installed");
    };
    // A counter is seen by its difference from the first scrape.
    eventually("all have been scraped", || collector.query("count(svc_requests_total)") == Some(7.0));
    for _ in 0..20 {
        assert_eq!(healthy.get("/").text(), "hello");
    }

    let mut holder = crowded.client();
    assert_eq!(holder.get("/file.txt").status, 200);
    let mut waiting = crowded.client();
    waiting.send("GET /file.txt HTTP/1.1\r\nHost: x\r\n\r\n");

    assert_eq!(drowning.get("/endless.php").status, 504, "its time limit has expired");
    let (mut running, mut queued) = (drowning.client(), drowning.client());
    running.send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the script runs", || drowning.root().join("inside").exists());
    queued.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the queue is full", || drowning.metric("svc_admission_slots_available") == 0.0);
    std::fs::write(drowning.root().join(".svcdeny"), "a[b\n").unwrap();
    drowning.signal(Signal::HUP);

    let mut waiters: Vec<_> = (0..24).map(|_| slow.client()).collect();
    waiters.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_eq!(broken.get("/fatal").status, 500);
    assert!(broken.get("/tasks").text().contains("rejected"));

    let expected: &[(SocketAddr, &[&str])] = &[
        (hidden.ops(), &["SvcDown"]),
        (crowded.ops(), &["SvcAcceptStalled"]),
        (expired.ops(), &["SvcCertificateExpired", "SvcCertificateExpires"]),
        (drowning.ops(), &["SvcReloadFailed", "SvcShedding", "SvcTimeouts"]),
        (failing.ops(), &["SvcErrors", "SvcPhpErrors"]),
        (slow.ops(), &["SvcSlow"]),
        (
            broken.ops(),
            &[
                "SvcRequestsDropped",
                "SvcSpansNotExported",
                "SvcTasksNotTaken",
                "SvcTasksRejected",
                "SvcTelemetryNotExported",
                "SvcWorkersRecycledByError",
            ],
        ),
    ];
    let firing = all_raised(&collector, expected, || {
        assert_eq!(drowning.get("/").status, 529);
        assert_eq!(failing.get("/").status, 500);
        // Repeated spans that cannot be sent, and requests that are lost.
        broken.get("/fatal");
    });
    let of_healthy: Vec<_> =
        firing.iter().filter(|(_, instance)| *instance == healthy.ops().to_string()).collect();
    assert!(of_healthy.is_empty(), "{of_healthy:?}");
    for server in [&drowning, &broken] {
        std::fs::write(server.root().join("go"), "").unwrap();
    }
    assert_eq!((running.response().status, queued.response().status), (200, 200));
    waiters.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    drop(holder);
    assert_eq!(waiting.response().status, 200);
}

/// Starts a server with failing persistent workers, a single thread for tasks, and no collector at the port that spans go
/// to.
fn without_luck() -> Svc {
    Svc::start(
        &[("worker.php", WORKER)],
        &[
            ("ASYNC_WORKERS", "1"),
            ("ASYNC_QUEUE_CAPACITY", "1"),
            ("ENTRY_FILE", "worker.php"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_METRICS_ENABLED", "true"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
            ("OTEL_METRIC_EXPORT_TIMEOUT", "100"),
            ("OTEL_ENABLED", "true"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
            ("WORKER_MODE_ENABLED", "true"),
        ],
    )
}
