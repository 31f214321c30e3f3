//! Locks that a request waits for while it cannot give up its thread.

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = r#"<?php
session_save_path(__DIR__);
function lock(): bool
{
    $file = fopen(__DIR__ . '/lock', 'c');
    return flock($file, LOCK_EX) && (bool) ($GLOBALS['locks'][] = $file);
}
/** Ends a child with a fatal error. */
function failing_child(): void
{
    $child = pcntl_fork();
    $child === 0 && str_repeat('x', PHP_INT_MAX >> 4);
    pcntl_waitpid($child, $status);
}
Svc\Worker::serve(function () {
    set_time_limit((int) ($_GET['limit'] ?? 30));
    match ($_GET['do']) {
        'hold' => lock(),
        'fatal' => lock() && str_repeat('x', PHP_INT_MAX >> 4),
        'session' => session_start(),
        'fork' => lock() && failing_child(),
        'output' => ob_start(fn (string $text) => lock() ? $text : 'refused'),
        'autoload' => spl_autoload_register(function () { lock(); }),
        'autostart' => spl_autoload_register(function () { session_start(); }),
        default => null,
    };
    if (isset($_GET['class'])) {
        class_exists('Missing' . $_GET['class']);
    }
    if (isset($_GET['stay'])) {
        touch(__DIR__ . '/inside');
        while (!file_exists(__DIR__ . '/go')) {
            Svc\sleep(0.002);
            clearstatcache();
        }
    }
    echo 'end';
});"#;

fn start() -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", WORKER)], &settings)
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nCookie: PHPSESSID=same\r\n\r\n"));
    client
}

/// A lock held by another process.
fn ends_at_its_limit(waits: &str, file: &str) {
    let svc = start();
    let lock = std::fs::File::create(svc.root().join(file)).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(send(&svc, &format!("/?do={waits}&limit=1")).response().status, 504);
    svc.assert_metric("svc_busy_workers", 0.0);
    assert_eq!(send(&svc, "/?do=nothing").response().text(), "end");
    svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", 1.0);
}

#[test]
fn a_lock_that_an_autoloader_wants_ends_it_at_its_limit() {
    ends_at_its_limit("autoload&class=A", "lock");
}

#[test]
fn a_lock_that_an_output_callback_wants_ends_it_at_its_limit() {
    ends_at_its_limit("output", "lock");
}

#[test]
fn a_session_that_an_autoloader_wants_ends_it_at_its_limit() {
    ends_at_its_limit("autostart&class=B", "sess_same");
}

/// A request that cannot give up its thread needs a lock that another request of the thread holds: neither could continue.
fn is_refused_at_once(holds: &str, waits: &str) {
    let svc = start();
    let mut holder = send(&svc, &format!("/?do={holds}&stay"));
    eventually("it holds the lock", || svc.root().join("inside").exists());
    // Without a limit it would wait forever.
    assert_eq!(send(&svc, &format!("/?do={waits}&limit=0")).response().status, 500);
    let told = "Lock is held by a request that is suspended on the same thread";
    eventually("the log tells why", || {
        svc.log().of("php").iter().any(|line| line.to_string().contains(told))
    });
    std::fs::write(svc.root().join("go"), "").unwrap();
    let response = holder.response();
    assert_eq!((response.status, response.text().as_str()), (200, "end"));
    svc.assert_metric("svc_busy_workers", 0.0);
    assert_eq!(send(&svc, "/?do=nothing").response().text(), "end");
}

#[test]
fn a_lock_of_a_parked_request_that_an_autoloader_wants_is_refused() {
    is_refused_at_once("hold", "autoload&class=A");
}

#[test]
fn a_lock_of_a_parked_request_that_an_output_callback_wants_is_refused() {
    is_refused_at_once("hold", "output");
}

#[test]
fn a_session_of_a_parked_request_that_an_autoloader_wants_is_refused() {
    is_refused_at_once("session", "autostart&class=B");
}

#[test]
fn a_request_that_ends_by_a_jump_gives_its_locks_back() {
    let svc = start();
    // It keeps the worker of the fatal error from booting again.
    let mut parked = send(&svc, "/?stay");
    eventually("it waits", || svc.root().join("inside").exists());
    assert_eq!(send(&svc, "/?do=fatal").response().status, 500);
    assert_eq!(send(&svc, "/?do=hold").response().text(), "end", "the next one has the lock");
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(parked.response().text(), "end");
}

#[test]
fn a_forked_child_that_fails_leaves_its_parent_the_lock() {
    let svc = start();
    let mut holder = send(&svc, "/?do=fork&stay");
    eventually("the child has ended", || svc.root().join("inside").exists());
    let file = std::fs::File::open(svc.root().join("lock")).unwrap();
    let locks = || rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok();
    assert!(!locks());
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(holder.response().text(), "end");
}
