//! Clients that disconnect before their response: how they are counted, and which requests still run.

use crate::support::Site;
use svc_core::admission::ShedReason;
use svc_core::observe::{CancelReason, StatusClass};
use svc_testing::client::eventually;

#[test]
fn a_client_that_leaves_the_queue_is_499_and_abandoned() {
    let site = Site::start(&[("PHP_WORKERS", "1")]);
    let mut running = site.client();
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    let mut leaving = site.client();
    leaving.send("GET /wait/b HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it is queued", || site.shared().gate_facts().unwrap().depth == 1);
    drop(leaving);
    let metrics = site.metrics();
    eventually("the leaving is seen", || metrics.cancelled.value(CancelReason::ClientAbort) == 1);
    eventually("it is a 4xx", || metrics.responses.value(StatusClass::ClientError) == 1);
    assert_eq!(site.shared().gate_facts().unwrap().depth, 1, "the entry stays until a worker takes it");
    assert_eq!(metrics.abandoned_total(), 0);
    site.switches.open("a");
    assert_eq!(running.response().text(), "a");
    eventually("a worker finds it", || metrics.abandoned_total() == 1);
    assert!(!site.switches.is_inside("b"));
    drop(running);
    site.check_books();
    assert_eq!(metrics.queue_wait.snapshot().count(), 1);
    eventually("it is logged", || site.log().contains("\"status\":499"));
}

/// Returns a request with a body for a worker that waits at `name`.
fn post(name: &str) -> String {
    format!("POST /wait/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
}

#[test]
fn unsafe_requests_run_although_their_client_has_left() {
    let site = Site::start(&[
        ("PHP_WORKERS", "1"),
        ("QUEUE_CAPACITY", "1"),
        ("QUEUE_MAX_WAITING", "2"),
        ("QUEUE_WAIT_TIMEOUT_MS", "600000"),
    ]);
    let mut running = site.client();
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    let (metrics, facts) = (site.metrics(), || site.shared().gate_facts().unwrap());
    let left = || metrics.cancelled.value(CancelReason::ClientAbort);
    for (n, name) in ["queued", "waiting"].into_iter().enumerate() {
        let mut leaving = site.client();
        leaving.send(post(name));
        eventually("it is in", || facts().depth + facts().waiting == n + 1);
        drop(leaving);
        eventually("the leaving is in the books", || left() == n as u64 + 1);
    }
    // This client leaves before its request was seen.
    site.client().send(post("forgotten"));
    eventually("the leaving is in the books", || left() == 3);
    eventually("they are 4xx", || metrics.responses.value(StatusClass::ClientError) == 3);
    assert_eq!(
        (facts().depth, facts().waiting, metrics.abandoned_total()),
        (1, 2, 0),
        "they keep their places"
    );
    assert_eq!(metrics.pending_requests.value(), 1);
    for name in ["a", "queued", "waiting", "forgotten"] {
        site.until_inside(name);
        site.switches.open(name);
    }
    assert_eq!(running.response().text(), "a");
    eventually("they have run", || metrics.work_finished_total() == 4);
    assert!(site.switches.saw_gone("queued") && site.switches.saw_gone("forgotten"));
    drop(running);
    site.check_books();
    assert_eq!((metrics.abandoned_total(), metrics.dropped.value(), left()), (3, 0, 3));
    assert_eq!((metrics.work_started_total(), metrics.queue_wait.snapshot().count()), (4, 1));
}

#[test]
fn the_setting_decides_whether_a_request_runs_without_its_client() {
    for (policy, method, runs) in [
        ("run_unsafe", "QUERY", false),
        ("run_unsafe", "PROPPATCH", true),
        ("run", "GET", true),
        ("drop", "POST", false),
    ] {
        let site = Site::start(&[("PHP_WORKERS", "1"), ("ABANDONED_REQUESTS", policy)]);
        let mut running = site.client();
        running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
        site.until_inside("a");
        let mut leaving = site.client();
        leaving.send(post("b").replace("POST", method));
        eventually("it is queued", || site.shared().gate_facts().unwrap().depth == 1);
        drop(leaving);
        eventually("it leaves", || site.metrics().cancelled.value(CancelReason::ClientAbort) == 1);
        site.switches.open_all();
        eventually("a worker finds it", || site.metrics().abandoned_total() == 1);
        assert_eq!(running.response().text(), "a");
        drop(running);
        site.check_books();
        assert_eq!(site.switches.is_inside("b"), runs, "{policy} {method}");
    }
}

#[test]
fn an_abandoned_request_does_not_run_after_its_wait() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "3000")]);
    let mut running = site.client();
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    site.client().send(post("b"));
    let metrics = site.metrics();
    eventually("it leaves", || metrics.cancelled.value(CancelReason::ClientAbort) == 1);
    // This request came later, so that the wait of the earlier one is over, too.
    let mut late = site.client();
    assert_eq!(late.get("/hello").status, 529);
    site.switches.open("a");
    assert_eq!(running.response().text(), "a");
    eventually("the queue is empty", || site.shared().gate_facts().unwrap().depth == 0);
    drop((running, late));
    site.check_books();
    assert!(!site.switches.is_inside("b"));
    assert_eq!(metrics.refused.value(ShedReason::WaitTimeout), 1);
}

#[test]
fn an_incomplete_abandoned_request_does_not_run() {
    let site = Site::start(&[]);
    site.leave_within_body("/wait/b");
    site.check_books();
    assert!(!site.switches.is_inside("b") && site.metrics().work_started_total() == 0);
}

#[test]
fn a_client_that_leaves_a_running_script_is_499() {
    let site = Site::start(&[]);
    let mut leaving = site.client();
    leaving.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    leaving.half_close();
    let metrics = site.metrics();
    eventually("the leaving is seen", || metrics.cancelled.value(CancelReason::ClientAbort) == 1);
    leaving.expect_end();
    assert_eq!(site.shared().pool_facts().busy, 1);
    site.switches.open("a");
    eventually("the script sees it", || site.switches.saw_gone("a"));
    site.check_books();
    assert_eq!((metrics.abandoned_total(), metrics.dropped.value()), (1, 0));
}
