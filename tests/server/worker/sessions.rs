//! Sessions of requests that take turns on one thread.

use std::path::Path;

use svc_testing::client::{Client, eventually};
use svc_testing::{Svc, c};

const WORKER: &str = r#"<?php
final class Kept implements SessionHandlerInterface
{
    public static array $data = [];
    public function open(string $path, string $name): bool { return true; }
    public function close(): bool { return true; }
    public function read(string $id): string { return self::$data[$id] ?? ''; }
    public function write(string $id, string $data): bool { self::$data[$id] = $data; return true; }
    public function destroy(string $id): bool { return true; }
    public function gc(int $max): int { return 0; }
}
session_save_path(__DIR__);
$served = 0;
Svc\Worker::serve(function () use (&$served) {
    $served++;
    if (isset($_GET['look'])) {
        echo json_encode([session_status(), session_id(), isset($_SESSION), ini_get('session.save_handler')]);
        return;
    }
    if (isset($_GET['limit'])) {
        set_time_limit((int) $_GET['limit']);
    }
    if (isset($_GET['own'])) {
        session_set_save_handler(new Kept(), true);
    }
    session_start();
    $before = [session_id(), $_SESSION['n'] ?? 0];
    $_SESSION['n'] = $before[1] + 1;
    if (isset($_GET['stay'])) {
        touch(__DIR__ . "/inside-{$_GET['stay']}");
        while (!file_exists(__DIR__ . "/go-{$_GET['stay']}")) {
            Svc\sleep(0.002);
            clearstatcache();
        }
    }
    match ($_GET['end'] ?? '') {
        'exit' => exit(json_encode([session_id(), $_SESSION['n']])),
        'exception' => throw new Exception(),
        'fatal' => str_repeat('x', 1 << 40),
        default => null,
    };
    echo json_encode([session_id() === $before[0], $_SESSION['n'], session_id(), Kept::$data !== []]);
});"#;

fn start() -> Svc {
    start_with(&[])
}

fn start_with(directives: &[&str]) -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", WORKER)], &settings, directives)
}

/// Starts a server whose session handler polls for its lock.
fn start_asking(folder: &Path) -> Svc {
    let library = folder.join("asking.so");
    c::extension(include_str!("../../php/asking_session.c"), &library);
    start_with(&[&format!("extension={}", library.display()), "session.save_handler=asking"])
}

fn send(svc: &Svc, path: &str, cookie: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nCookie: PHPSESSID={cookie}\r\n\r\n"));
    client
}

fn inside(svc: &Svc, name: &str) {
    eventually("the request is inside", || svc.root().join(format!("inside-{name}")).exists());
}

fn leave(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

#[test]
fn overlapping_requests_have_a_session_each() {
    let svc = start();
    let mut first = send(&svc, "/?stay=a", "aaa");
    inside(&svc, "a");
    let mut second = send(&svc, "/?stay=b", "bbb");
    inside(&svc, "b");
    assert_eq!(svc.get("/?look").text(), r#"[1,"",false,"files"]"#, "a third one has none");
    assert_eq!(send(&svc, "/", "ccc").response().text(), r#"[true,1,"ccc",false]"#);
    leave(&svc, "a");
    let response = first.response();
    assert_eq!(response.text(), r#"[true,1,"aaa",false]"#);
    assert_eq!(response.field("set-cookie"), None, "it brought its id itself");
    leave(&svc, "b");
    assert_eq!(second.response().text(), r#"[true,1,"bbb",false]"#);
    assert_eq!(send(&svc, "/", "aaa").response().text(), r#"[true,2,"aaa",false]"#);
    assert_eq!(send(&svc, "/", "bbb").response().text(), r#"[true,2,"bbb",false]"#);
}

#[test]
fn requests_of_one_session_take_turns() {
    take_turns(&start(), ("/", r#"[true,1,"other",false]"#));
}

#[test]
fn requests_of_a_session_whose_handler_asks_for_its_lock_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    take_turns(&start_asking(folder.path()), ("/?look", r#"[1,"",false,"asking"]"#));
}

fn take_turns(svc: &Svc, (beside, expected): (&str, &str)) {
    let mut first = send(svc, "/?stay=a", "same");
    inside(svc, "a");
    let mut others: Vec<_> = (0..3).map(|_| send(svc, "/", "same")).collect();
    // The thread is free for other requests while these wait for the lock.
    assert_eq!(send(svc, beside, "other").response().text(), expected);
    leave(svc, "a");
    assert_eq!(first.response().text(), r#"[true,1,"same",false]"#);
    let mut counts: Vec<_> = others.iter_mut().map(|client| client.response().text()).collect();
    counts.sort();
    let expected = [2, 3, 4].map(|count| format!(r#"[true,{count},"same",false]"#));
    assert_eq!(counts, expected);
}

#[test]
fn a_wait_for_a_session_ends_at_the_limit() {
    waits_until_its_limit(&start());
}

#[test]
fn a_wait_for_the_lock_of_a_session_ends_at_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    waits_until_its_limit(&start_asking(folder.path()));
}

fn waits_until_its_limit(svc: &Svc) {
    let mut holder = send(svc, "/?stay=a", "same");
    inside(svc, "a");
    assert_eq!(send(svc, "/?limit=1", "same").response().status, 504);
    leave(svc, "a");
    assert_eq!(holder.response().text(), r#"[true,1,"same",false]"#);
    assert_eq!(send(svc, "/", "same").response().text(), r#"[true,2,"same",false]"#);
}

#[test]
fn a_session_ends_with_its_request_however_that_ends() {
    let svc = start();
    for (count, end) in ["exit", "exception", "fatal", "exit"].into_iter().enumerate() {
        let response = send(&svc, &format!("/?end={end}"), "kept").response();
        assert_eq!(response.status, if end == "exit" { 200 } else { 500 }, "{end}");
        assert_eq!(svc.get("/?look").text(), r#"[1,"",false,"files"]"#, "after {end}");
        let text = send(&svc, "/", "kept").response().text();
        assert_eq!(text, format!(r#"[true,{},"kept",false]"#, 2 * count + 2), "after {end}");
    }
}

#[test]
fn a_handler_of_one_request_is_not_the_others() {
    let svc = start();
    let mut first = send(&svc, "/?own&stay=a", "same");
    inside(&svc, "a");
    assert_eq!(
        send(&svc, "/", "same").response().text(),
        r#"[true,1,"same",false]"#,
        "another store, no lock"
    );
    assert_eq!(svc.get("/?look").text(), r#"[1,"",false,"files"]"#);
    leave(&svc, "a");
    assert_eq!(first.response().text(), r#"[true,1,"same",false]"#);
    assert_eq!(send(&svc, "/?own", "same").response().text(), r#"[true,2,"same",true]"#);
    assert_eq!(send(&svc, "/", "same").response().text(), r#"[true,2,"same",true]"#);
    assert_eq!(svc.log().of("php"), [0; 0], "taking turns is nothing to report");
}
