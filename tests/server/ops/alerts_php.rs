//! Alerts about workers, OPcache, tasks, spans, plugins and the process: servers in these states raise them.
#![cfg(all(feature = "async", feature = "trace"))]

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};

use crate::ops::alerts::{all_raised, impatient_rules};
use crate::ops::log::free_port;
use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::plugins::Plugins;
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;

/// A worker that fails to boot once the file `broken` exists.
const BROKEN: &str = r"<?php
if (file_exists(__DIR__ . '/broken')) { throw new Exception('no database'); }
Svc\Worker::serve(function () {
    ini_set('memory_limit', '32M');
    str_repeat('x', 1 << 26);
});";

const RESET: (&str, &str) =
    ("index.php", "<?php echo isset($_GET['reset']) ? (int) opcache_reset() : 'hello';");

const WAIT: (&str, &str) = (
    "wait.php",
    "<?php set_time_limit(0); touch(__DIR__ . '/inside'); while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }",
);

const STRAND: (&str, &str) = (
    "index.php",
    r"<?php
    $task = Svc\async(function () { set_time_limit(0); for (;;) { usleep(1000); } });
    try { Svc\await_any([$task], 0.2); } catch (Svc\Async\TimeoutException) { echo 'given up'; }",
);

/// Without this directive, OPcache ignores scripts that were written in the last two seconds.
const AT_ONCE: &str = "opcache.file_update_protection=0";

/// Starts a server whose scripts do not fit into OPcache: each has about 200 KB of strings.
fn full() -> Svc {
    let text = |file: usize| {
        let mut text = String::from("<?php return [");
        for number in 0..200 {
            write!(text, "'{file} {number} {}',", "x".repeat(1000)).unwrap();
        }
        text + "];"
    };
    let texts: Vec<_> = (0..50).map(|file| (format!("parts/{file}.php"), text(file))).collect();
    let mut files: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push((
        "index.php",
        "<?php foreach (glob(__DIR__ . '/parts/*') as $part) { require $part; } echo 'all';",
    ));
    let small = ["opcache.memory_consumption=8", "opcache.interned_strings_buffer=1"];
    let svc = Svc::start_with(&files, &[], &[&[AT_ONCE][..], &small].concat());
    assert_eq!(svc.get("/").text(), "all");
    svc
}

/// Starts a server whose collector accepts connections but never answers.
fn unheard() -> (Svc, TcpListener) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let settings = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "1"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
    ];
    (Svc::start(&[RESET], &settings), silent)
}

#[test]
fn php_in_trouble_raises_the_alerts_that_are_meant_for_it() {
    let worker = [("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true")];
    let broken = Svc::start(&[("worker.php", BROKEN)], &worker);
    let restless = Svc::start_with(&[RESET], &[], &[AT_ONCE]);
    let delayed = Svc::start_with(&[RESET, WAIT], &[], &[AT_ONCE]);
    let full = full();
    let stranding = Svc::start(&[STRAND], &[("ASYNC_WORKERS", "1")]);
    let (unheard, _silent) = unheard();
    let plugins = Plugins::none().with("ill", &[], &[("HEALTH", "2")]).with("weak", &[], &[("HEALTH", "1")]);
    let plugged = plugins.start(&[], &[]);
    let servers = [&broken, &restless, &delayed, &full, &stranding, &unheard, &plugged].map(Svc::ops);
    let Some(collector) = Collector::watch(&servers, &impatient_rules()) else {
        return skipped("prometheus is not installed");
    };
    // A counter is seen by its difference from the first scrape.
    eventually("all have been scraped", || collector.query("count(svc_requests_total)") == Some(7.0));

    std::fs::write(broken.root().join("broken"), "").unwrap();
    assert_eq!(broken.get("/").status, 500);
    let mut running = delayed.client();
    running.send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the script runs", || delayed.root().join("inside").exists());
    assert_eq!(delayed.get("/?reset").text(), "1");
    assert_eq!(stranding.get("/").text(), "given up");

    let expected: &[(SocketAddr, &[&str])] = &[
        (broken.ops(), &["SvcDeploymentFailed", "SvcNoWorkers", "SvcWorkersMissing"]),
        (restless.ops(), &["SvcOpcacheRestarts"]),
        (delayed.ops(), &["SvcOpcacheRestartDelayed"]),
        (full.ops(), &["SvcOpcacheFull"]),
        (stranding.ops(), &["SvcTasksStranded"]),
        (unheard.ops(), &["SvcSpansDropped"]),
        (plugged.ops(), &["SvcPluginDegraded", "SvcPluginFailed"]),
    ];
    let firing = all_raised(&collector, expected, || {
        restless.get("/?reset");
        restless.get("/");
        delayed.get("/");
        unheard.get("/");
    });
    let of_small: Vec<_> = firing.iter().filter(|(name, _)| name == "SvcOpcacheFull").collect();
    assert_eq!(of_small.len(), 1, "others have memory left: {of_small:?}");
    std::fs::write(delayed.root().join("go"), "").unwrap();
    assert_eq!(running.response().status, 200);
}

#[test]
fn a_server_that_starts_again_and_again_raises_an_alert_and_so_does_the_absence_of_all() {
    let ops = free_port();
    let settings = [("EXECUTOR", "stub"), ("INTERNAL_ADDR", &ops.to_string())];
    let mut svc = Svc::start(&[], &settings);
    let (Some(collector), Some(without_targets)) =
        (Collector::watch(&[ops], &impatient_rules()), Collector::watch(&[], &impatient_rules()))
    else {
        return skipped("prometheus is not installed");
    };
    for starts in 1..=3 {
        let seen = format!(
            "count_over_time(process_start_time_seconds[1h]) > 0 and changes(process_start_time_seconds[1h]) == {}",
            starts - 1
        );
        eventually("this start has been scraped", || collector.query(&seen).is_some());
        svc.stop();
        svc = Svc::start(&[], &settings);
    }
    all_raised(&collector, &[(ops, &["SvcRestarting"])], || ());
    // The alert has no instance.
    eventually("SvcMissing", || without_targets.firing().contains(&("SvcMissing".to_owned(), String::new())));
}
