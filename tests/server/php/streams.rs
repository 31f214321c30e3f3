//! Scripts that close every stream that they can name, among them the server's own: the server continues.
#![cfg(feature = "php")]

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const CLOSER: &str = r#"<?php
function close_all(): void
{
    foreach (['fclose', 'pclose', 'gzclose'] as $close) {
        foreach (get_resources('stream') as $stream) {
            try {
                @$close($stream);
            } catch (TypeError) {
                // Its outer stream has been closed.
            }
        }
    }
    // A use after free would read this.
    $GLOBALS['other'] = array_map(fn (int $size) => str_repeat('x', $size * 16), range(1, 60));
}
function body(): string
{
    return md5(file_get_contents('php://input'));
}
"#;

const CLASSIC: &str = r#"<?php
require __DIR__ . '/closer.php';
$own = fopen(__FILE__, 'r');
close_all();
echo json_encode([body(), body(), is_resource($own)]);
"#;

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

fn post(svc: &Svc, path: &str, kind: &str, size: usize) -> Client {
    let mut client = svc.client();
    let body = format!("a={}", "b".repeat(size));
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client
}

/// Bodies that PHP reads at the beginning of the request or on demand, in memory and on disk.
fn closes_all_and_reads(svc: &Svc, path: &str) {
    for (kind, size, sum) in [
        ("application/json", 1000, "\"0eb9fc87bcf22f0f5bb4e206c6b21778\""),
        ("application/x-www-form-urlencoded", 1000, "\"0eb9fc87bcf22f0f5bb4e206c6b21778\""),
        ("application/x-www-form-urlencoded", 3_000_000, "\"44629a34bdb8b75bcbff383b5cd5d320\""),
    ] {
        let response = post(svc, path, kind, size).response();
        assert_eq!(response.text(), format!("[{sum},{sum},false]"), "{kind} {size}");
    }
}

#[test]
fn a_script_cannot_close_what_it_comes_from() {
    let mut svc = Svc::start(&[("all.php", CLASSIC), ("closer.php", CLOSER)], &[]);
    closes_all_and_reads(&svc, "/all.php");
    svc.stop();
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
fn a_stream_is_not_closed_under_who_waits_for_its_lock() {
    let svc = start_worker();
    let held = std::fs::File::create(svc.root().join("lock")).unwrap();
    held.lock().unwrap();
    let mut waits = svc.client();
    waits.send("GET /locks HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it waits", || svc.root().join("inside").exists());
    assert_eq!(svc.get("/close-lock").text(), "false");
    held.unlock().unwrap();
    assert_eq!(waits.response().text(), "true");
}
