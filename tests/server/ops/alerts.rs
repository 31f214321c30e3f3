//! The alert rules of deploy/prometheus: promtool checks them, and servers in the corresponding states raise them.
//!
//! `alerts_clients` and `alerts_php` have more of these states, `worker::wedge` those of a
//! stalled pool.
#![cfg(feature = "php")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use rustix::process::Signal;

use svc_testing::Svc;
use svc_testing::client::{becomes, eventually};
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;
use svc_testing::tls::Certificates;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus");

fn rules() -> String {
    std::fs::read_to_string(format!("{FOLDER}/alerts.yml")).unwrap()
}

/// Returns the rules without the times for which an expression must hold or a queue must be empty: a test cannot wait
/// minutes.
pub(crate) fn impatient_rules() -> String {
    let rules = rules().replace("max_over_time(svc_queue_depth[5m])", "svc_queue_depth");
    rules.lines().filter(|line| !line.trim_start().starts_with("for: ")).collect::<Vec<_>>().join("\n")
}

/// Returns the names of the alerts. Those of two severities follow each other.
fn names(text: &str) -> Vec<&str> {
    let mut names: Vec<_> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect();
    names.dedup();
    names
}

/// An alert without `for` would fire on a single scrape, and the name of the job is the operator's choice.
#[test]
fn each_alert_waits_and_none_depends_on_the_name_of_a_job() {
    let rules = rules();
    let alerts: Vec<_> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 40);
    for alert in alerts {
        assert!(alert.lines().any(|line| line.starts_with("        for: ")), "{alert}");
        assert!(!alert.contains("job="), "{alert}");
    }
}

#[test]
fn promtool_finds_no_fault_and_each_alert_has_its_test() {
    let tests = std::fs::read_to_string(format!("{FOLDER}/alerts_test.yml")).unwrap();
    for name in names(&rules()) {
        assert!(tests.contains(&format!("\n  - name: {name}\n")), "{name} is not tested");
    }
    for (command, file) in [("check", "alerts.yml"), ("test", "alerts_test.yml")] {
        let run = Command::new("promtool").args([command, "rules", file]).current_dir(FOLDER).output();
        let Ok(output) = run else { return skipped("promtool is not installed") };
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn each_alert_says_what_to_do() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    let (rules, headings) = (rules(), page.lines().filter_map(|line| line.strip_prefix("### ")));
    let described: Vec<_> = headings.filter(|heading| heading.starts_with("Svc")).collect();
    assert_eq!(described, names(&rules), "docs/operations.md describes the alerts in their order");
    for name in names(&rules) {
        let link = "runbook_url: '{{ with $externalLabels.svc_docs }}{{ . }}/{{ end }}docs/operations.md#";
        assert!(rules.contains(&format!("{link}{}'\n", name.to_lowercase())), "{name}");
    }
}

/// Alerts that no test raises on a server: it would take a lost slot, or requests that are a minute old. promtool tests
/// their expressions.
const NOT_RAISED: [&str; 2] = ["SvcRequestsStuck", "SvcSlotsLost"];

#[test]
fn all_alerts_but_two_are_raised_by_a_real_server() {
    let tests = [
        include_str!("alerts.rs"),
        include_str!("alerts_cache.rs"),
        include_str!("alerts_clients.rs"),
        include_str!("alerts_php.rs"),
        include_str!("../worker/wedge.rs"),
    ];
    for name in names(&rules()) {
        let is_named = tests.iter().any(|test| test.contains(&format!("\"{name}\"")));
        assert!(is_named || NOT_RAISED.contains(&name), "{name}");
    }
}

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

/// Waits until all servers, named by their operations ports, have raised these alerts at the same time, and calls
/// `meanwhile` repeatedly; returns all firing alerts, each with the port.
#[track_caller]
pub(crate) fn all_raised(
    collector: &Collector,
    expected: &[(SocketAddr, &[&str])],
    mut meanwhile: impl FnMut(),
) -> BTreeSet<(String, String)> {
    let of = |(ops, names): &(SocketAddr, &[&str])| {
        names.iter().map(|name| ((*name).to_owned(), ops.to_string())).collect::<Vec<_>>()
    };
    let expected: BTreeSet<_> = expected.iter().flat_map(of).collect();
    let mut firing = BTreeSet::new();
    let all_fire = becomes(|| {
        meanwhile();
        firing = collector.firing();
        expected.is_subset(&firing)
    });
    assert!(all_fire, "missing: {:?}", expected.difference(&firing).collect::<Vec<_>>());
    firing
}

/// Waits until the server with that operations port has raised an alert.
#[track_caller]
pub(crate) fn raises(collector: &Collector, ops: SocketAddr, name: &str) {
    eventually(name, || collector.firing().contains(&(name.to_owned(), ops.to_string())));
}
