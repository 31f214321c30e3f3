//! Alerts about clients that cannot be served, and about the resources for that: servers in these states raise them.
#![cfg(feature = "php")]

use std::net::SocketAddr;

use crate::ops::alerts::{all_raised, impatient_rules};
use crate::ops::log::Unread;
use svc_testing::client::{Client, eventually};
use svc_testing::descriptors::limited_to;
use svc_testing::http2::{Http2Client, head};
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;
use svc_testing::{Svc, command, written};

/// A script that runs until its file appears, one that opens files first, and one with a large response.
const PAGES: &[(&str, &str)] = &[
    (
        "index.php",
        "<?php set_time_limit(0); touch(__DIR__ . \"/inside-{$_GET['n']}\"); while (!file_exists(__DIR__ . \"/go-{$_GET['n']}\")) { usleep(2000); clearstatcache(); }",
    ),
    (
        "greedy.php",
        "<?php for ($n = 0; $n < 1900; $n++) { $open[] = fopen(__FILE__, 'r'); } require 'index.php';",
    ),
    ("flood.php", "<?php for ($n = 0; $n < 100; $n++) { echo str_repeat('x', 1 << 20); }"),
];

/// The descriptor limit of the server whose script opens many files.
const DESCRIPTORS: u32 = 2048;

fn stay(svc: &Svc, page: &str, name: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /{page}?n={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
    client
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

/// Has a client leave while its request runs and the queue is empty.
fn leave(svc: &Svc, number: u32) {
    drop(stay(svc, "index.php", &number.to_string()));
    let left = r#"svc_request_cancelled_total{reason="client_abort"}"#;
    svc.assert_metric(left, f64::from(number));
    go(svc, &number.to_string());
}

/// Opens more streams than all connections together may have.
fn hoard(addr: SocketAddr) -> Vec<Http2Client> {
    let mut clients: Vec<_> = (0..9).map(|_| Http2Client::connect(addr)).collect();
    for client in &mut clients {
        for _ in 0..120 {
            client.open(&head("POST", "/index.php"), false);
        }
        client.ping();
    }
    clients
}

#[test]
fn clients_that_are_not_served_raise_the_alerts_that_are_meant_for_it() {
    let crowded = Svc::start(PAGES, &[("MAX_CONNECTIONS", "20")]);
    let vain = Svc::start(PAGES, &[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "1000")]);
    let left = Svc::start(PAGES, &[]);
    let spooling = Svc::start(PAGES, &[("SPOOL_MAX_BYTES", "8M"), ("WRITE_TIMEOUT_SECONDS", "600")]);
    let root = written(PAGES);
    let greedy = limited_to(DESCRIPTORS, &command(root.path(), &[]));
    let greedy = Svc::spawn(root, greedy);
    let unread = Unread::start(&[("ACCESS_LOG", "all")]);
    let all = [crowded.ops(), vain.ops(), left.ops(), spooling.ops(), greedy.ops(), unread.ops()];
    let Some(collector) = Collector::watch(&all, &impatient_rules()) else {
        return skipped("prometheus is not installed");
    };
    // A counter is seen by its difference from the first scrape.
    eventually("all have been scraped", || collector.query("count(svc_requests_total)") == Some(6.0));

    let hoarders = hoard(crowded.main());
    let mut running = stay(&vain, "index.php", "a");
    let mut many_files = stay(&greedy, "greedy.php", "a");
    let mut slow = spooling.client();
    slow.send("GET /flood.php HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(slow.head_only().status, 200);
    unread.flood();

    let mut number = 0;
    let mut one_leaves = || {
        number += 1;
        leave(&left, number);
    };
    // The server lowers its budget only after several such requests.
    let half = left.metric("svc_admission_wait_budget_ceiling_us") / 2.0;
    while left.metric("svc_admission_wait_budget_us") >= half {
        one_leaves();
    }
    all_raised(
        &collector,
        &[
            (crowded.ops(), &["SvcStreamsRefused"]),
            (vain.ops(), &["SvcShedding", "SvcWaitsInVain"]),
            (left.ops(), &["SvcClientsLeave", "SvcWaitBudgetLow"]),
            (spooling.ops(), &["SvcSpoolFull"]),
            (greedy.ops(), &["SvcDescriptorsShort"]),
            (unread.ops(), &["SvcLogRecordsDropped"]),
        ],
        || {
            assert_eq!(vain.get("/?n=b").status, 529);
            one_leaves();
        },
    );
    go(&vain, "a");
    go(&greedy, "a");
    assert_eq!((running.response().status, many_files.response().status), (200, 200));
    drop(hoarders);
}
