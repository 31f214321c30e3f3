//! Requests that close every stream that they can name, among them those of other requests and of the server.

use rustix::fs::{FlockOperation, flock};

use crate::php::streams::{CLOSER, closes_all_and_reads, post};
use svc_testing::Svc;
use svc_testing::client::eventually;

const WORKER: &str = r#"<?php
require __DIR__ . '/closer.php';
$lock = null;
Svc\Worker::serve(function () use (&$lock) {
    switch (ltrim(strtok($_SERVER['REQUEST_URI'], '?'), '/')) {
        case 'all':
            $own = fopen(__FILE__, 'r');
            close_all();
            echo json_encode([body(), body(), is_resource($own)]);
            return;
        case 'stay':
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) {
                Svc\sleep(0.002);
                clearstatcache();
            }
            echo body();
            return;
        case 'locks':
            $lock = fopen(__DIR__ . '/lock', 'c');
            touch(__DIR__ . '/inside');
            echo json_encode(flock($lock, LOCK_EX));
            fclose($lock);
            return;
        case 'close-lock':
            echo json_encode(@fclose($lock));
            return;
    }
});"#;

fn start_worker() -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", WORKER), ("closer.php", CLOSER)], &settings)
}

#[test]
fn a_worker_survives_the_end_of_all_streams() {
    let mut svc = start_worker();
    closes_all_and_reads(&svc, "/all");
    let mut neighbour = post(&svc, "/stay", "application/json", 1000);
    eventually("it is inside", || svc.root().join("inside").exists());
    closes_all_and_reads(&svc, "/all");
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(
        neighbour.response().text(),
        "0eb9fc87bcf22f0f5bb4e206c6b21778",
        "a body is not a neighbour's to close"
    );
    svc.stop();
}

#[test]
fn a_stream_is_not_closed_during_a_wait_for_its_lock() {
    let svc = start_worker();
    let held = std::fs::File::create(svc.root().join("lock")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut waits = svc.client();
    waits.send("GET /locks HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it waits", || svc.root().join("inside").exists());
    assert_eq!(svc.get("/close-lock").text(), "false");
    flock(&held, FlockOperation::Unlock).unwrap();
    assert_eq!(waits.response().text(), "true");
}
