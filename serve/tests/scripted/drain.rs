//! The drain over real sockets: connections that close, requests that are answered, and requests that are cut off.

use crate::support::Site;
use svc_core::admission::ShedReason;
use svc_core::observe::CancelReason;
use svc_testing::client::eventually;

#[test]
fn a_drain_lets_requests_end_and_closes_idle_connections() {
    let mut site = Site::start(&[]);
    let (mut idle, mut busy) = (site.client(), site.client());
    assert_eq!(idle.get("/hello").status, 200);
    busy.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    site.drain();
    idle.expect_end();
    site.switches.open("a");
    let response = busy.response();
    assert_eq!((response.text().as_str(), response.field("connection")), ("a", Some("close")));
    busy.expect_end();
    assert!(site.wait(), "threads are left");
    site.check_books();
    assert!(std::net::TcpStream::connect(site.addr()).is_err(), "the port is still open");
}

#[test]
fn requests_sent_before_the_drain_are_answered() {
    let mut site = Site::start(&[("IO_WORKERS", "1"), ("MAX_CONNECTIONS", "300")]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    let mut kept: Vec<_> = (0..200).map(|_| site.client()).collect();
    for client in &mut kept {
        assert_eq!(client.get("/note.txt").text(), "note");
    }
    for client in &mut kept {
        client.send("GET /note.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    site.drain();
    for client in &mut kept {
        assert_eq!(client.response().text(), "note");
        client.expect_end();
    }
    assert!(site.wait());
    site.check_books();
}

#[test]
fn a_connection_that_never_said_anything_does_not_hold_the_drain() {
    let settings = [("HEADER_TIMEOUT_SECONDS", "3600"), ("DRAIN_TIMEOUT_SECONDS", "3600")];
    let mut site = Site::start(&settings);
    let mut silent = site.client();
    eventually("it is in", || site.metrics().connections.value() == 1);
    site.drain();
    silent.expect_end();
    assert!(site.wait());
    site.check_books();
}

#[test]
fn a_drain_serves_connections_that_wait_for_a_permit() {
    let mut site = Site::start(&[("MAX_CONNECTIONS", "1")]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    let mut running = site.client();
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    let mut waiting: Vec<_> = (0..5).map(|_| site.client()).collect();
    for client in &mut waiting {
        client.send("GET /note.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("the accept loop is parked", || site.metrics().accept_stalled.is_set());
    site.drain();
    for client in &mut waiting {
        let response = client.response();
        assert_eq!((response.text().as_str(), response.field("connection")), ("note", Some("close")));
        client.expect_end();
    }
    assert!(!site.shared().lifecycle.is_stopped());
    site.switches.open("a");
    assert_eq!(running.response().text(), "a");
    drop((running, waiting));
    assert!(site.wait());
    site.check_books();
    assert_eq!(site.metrics().accept_stalls.value(), 1);
}

#[test]
fn a_drain_waits_for_work_after_the_answer() {
    let mut site = Site::start(&[]);
    assert_eq!(site.client().get("/after/late").text(), "answered");
    site.until_inside("late");
    site.drain();
    eventually("the gate is closed", || site.shared().lifecycle.is_closing());
    eventually("connections are closed", || site.metrics().connections.value() == 0);
    assert_eq!(site.shared().pool_facts().busy, 1);
    assert!(!site.shared().lifecycle.is_stopped());
    site.switches.open("late");
    assert!(site.wait());
    assert!(!site.log().contains("\"cut_off\""));
}

#[test]
fn during_the_delay_requests_are_served() {
    let mut site = Site::start(&[("DRAIN_DELAY_SECONDS", "3600")]);
    site.drain();
    assert!(site.shared().lifecycle.is_draining() && !site.shared().lifecycle.is_closing());
    let mut client = site.client();
    let response = client.get("/hello");
    assert_eq!((response.status, response.field("connection")), (200, None));
    site.abandon();
}

#[test]
fn requests_on_open_connections_are_refused_once_the_gate_is_closed() {
    let mut site = Site::start(&[]);
    let (mut fresh, mut busy) = (site.client(), site.client());
    // A client in the middle of a request may finish it; one that has not begun a request is disconnected.
    fresh.send("GET /hel");
    busy.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    eventually("both are in", || site.metrics().connections.value() == 2);
    site.drain();
    eventually("the gate is closed", || site.shared().lifecycle.is_closing());
    fresh.send("lo HTTP/1.1\r\nHost: x\r\n\r\n");
    let response = fresh.response();
    assert_eq!((response.status, response.field("connection")), (503, Some("close")));
    site.switches.open("a");
    assert_eq!(busy.response().text(), "a");
    drop((fresh, busy));
    assert!(site.wait());
    site.check_books();
    assert_eq!(site.metrics().refused.value(ShedReason::ShuttingDown), 1);
}

#[test]
fn the_drain_deadline_ends_remaining_requests() {
    let settings = [("PHP_WORKERS", "1"), ("DRAIN_TIMEOUT_SECONDS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "60000")];
    let mut site = Site::start(&settings);
    let (mut running, mut queued) = (site.client(), site.client());
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    queued.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("one is queued", || site.shared().gate_facts().unwrap().depth == 1);
    site.drain();
    assert_eq!(running.response().status, 503);
    assert_eq!(queued.response().status, 503);
    site.switches.open("a");
    assert!(site.wait(), "the worker ended within its grace");
    site.check_books();
    let metrics = site.metrics();
    assert_eq!(metrics.cancelled.value(CancelReason::Shutdown), 1);
    assert_eq!(metrics.refused.value(ShedReason::ShuttingDown), 1);
    assert_eq!(metrics.abandoned_total(), 0);
    eventually("the log tells it", || site.log().contains("\"cut_off\":2"));
}

#[test]
fn an_abandoned_request_runs_in_a_drain_and_not_after_its_deadline() {
    for (timeout, runs) in [("60", true), ("1", false)] {
        let settings =
            [("PHP_WORKERS", "1"), ("DRAIN_TIMEOUT_SECONDS", timeout), ("QUEUE_WAIT_TIMEOUT_MS", "600000")];
        let mut site = Site::start(&settings);
        let mut running = site.client();
        running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
        site.until_inside("a");
        site.client().send("POST /wait/b HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        eventually("it is queued", || site.shared().gate_facts().unwrap().depth == 1);
        eventually("its client has left", || site.metrics().cancelled.value(CancelReason::ClientAbort) == 1);
        site.drain();
        if !runs {
            assert_eq!(running.response().status, 503);
        }
        site.switches.open_all();
        assert!(site.wait());
        site.check_books();
        assert_eq!(site.switches.is_inside("b"), runs);
        assert_eq!((site.metrics().abandoned_total(), site.shared().gate_facts().unwrap().depth), (1, 0));
    }
}

#[test]
fn a_worker_that_does_not_end_is_reported() {
    let mut site = Site::start(&[("PHP_WORKERS", "1"), ("DRAIN_TIMEOUT_SECONDS", "1")]);
    let mut running = site.client();
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    site.drain();
    assert_eq!(running.response().status, 503);
    assert!(!site.wait(), "a thread that runs was said to have ended");
}
