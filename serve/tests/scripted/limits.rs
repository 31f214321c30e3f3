//! Deadlines and full disks over real sockets: slow clients, idle clients, bodies and responses without room.

use crate::support::Site;
use svc_core::observe::CancelReason;
use svc_testing::client::eventually;

#[test]
fn a_silent_client_is_closed_without_a_word() {
    let site = Site::start(&[("HEADER_TIMEOUT_SECONDS", "1")]);
    site.client().expect_end();
    assert_eq!(site.metrics().requests_by_method.total(), 0);
}

#[test]
fn a_slow_head_is_answered_408() {
    let site = Site::start(&[("HEADER_TIMEOUT_SECONDS", "1")]);
    let mut client = site.client();
    client.send("GET / HTTP/1.1\r\nHo");
    assert_eq!(client.response().status, 408);
    client.half_close();
    client.expect_end();
    site.check_books();
}

#[test]
fn a_slow_body_is_answered_408_and_holds_no_worker() {
    let site = Site::start(&[("BODY_TIMEOUT_SECONDS", "1")]);
    let mut client = site.client();
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12");
    eventually("the body is being read", || site.metrics().request_bytes.value() == 2);
    assert_eq!(site.shared().pool_facts().busy, 0);
    assert_eq!(client.response().status, 408);
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().queue_wait.snapshot().count(), 0);
}

#[test]
fn an_idle_kept_connection_is_closed() {
    let site = Site::start(&[("KEEPALIVE_TIMEOUT_SECONDS", "1")]);
    let mut client = site.client();
    assert_eq!(client.get("/hello").status, 200);
    client.expect_end();
}

#[test]
fn a_reader_without_progress_is_closed() {
    let site = Site::start(&[("WRITE_TIMEOUT_SECONDS", "1"), ("PHP_WORKERS", "1")]);
    let mut client = site.client();
    client.send("GET /flood/50000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the connection was given up", || {
        site.metrics().requests_by_method.total() == 1 && site.metrics().connections.value() == 0
    });
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0);
    drop(client);
}

#[test]
fn a_spool_without_room_is_503_after_the_body_timeout() {
    let site = Site::start(&[("BODY_TIMEOUT_SECONDS", "1"), ("SPOOL_MAX_BYTES", "100000")]);
    let mut client = site.client();
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
    client.try_send(vec![1; 300_000]);
    assert_eq!(client.response().status, 503);
    drop(client);
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0);
}

#[test]
fn a_spool_without_a_disk_is_503_and_logged() {
    let spool = tempfile::tempdir().unwrap();
    let site = Site::start(&[("SPOOL_DIR", spool.path().to_str().unwrap())]);
    drop(spool);
    let mut client = site.client();
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
    client.try_send(vec![1; 300_000]);
    assert_eq!(client.response().status, 503);
    eventually("it is logged", || site.log().contains("failed to spool a body"));
}

#[test]
fn a_response_without_a_disk_is_logged_and_still_whole() {
    let spool = tempfile::tempdir().unwrap();
    let site = Site::start(&[("SPOOL_DIR", spool.path().to_str().unwrap())]);
    drop(spool);
    let mut slow = site.client();
    slow.send("GET /flood/20000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it is logged", || site.log().contains("failed to spool a body"));
    let response = slow.response();
    assert!(response.is_whole && response.body.len() == 20_000_000);
    assert_eq!(site.log().matches("failed to spool a body").count(), 1);
    drop(slow);
    site.check_books();
}

#[test]
fn a_script_that_failed_is_looked_up_again() {
    let site = Site::start(&[("IO_WORKERS", "1")]);
    let mut client = site.client();
    assert_eq!(client.get("/fatal").status, 500);
    std::fs::remove_file(site.root.path().join("index.php")).unwrap();
    assert_eq!(client.get("/fatal").status, 404);
    drop(client);
    site.check_books();
}

#[test]
fn a_request_beyond_its_time_is_answered_in_its_worker_s_place() {
    let site = Site::start(&[("PHP_WORKERS", "1")]);
    let mut client = site.client();
    client.send("GET /overdue/a HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().status, 504);
    assert_eq!(site.shared().pool_facts().busy, 1, "its worker is still busy with it");
    site.switches.open("a");
    assert_eq!(client.get("/hello").text(), "hello", "its later output was dropped");
    assert_eq!(site.metrics().cancelled.value(CancelReason::Timeout), 1);
    drop(client);
    site.check_books();
}

#[test]
fn a_response_beyond_its_time_breaks_off_and_is_not_cancelled() {
    let site = Site::start(&[("PHP_WORKERS", "1")]);
    let mut client = site.client();
    client.send("GET /overdue-stream/a HTTP/1.1\r\nHost: x\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str(), response.is_whole), (200, "first", false));
    assert_eq!(site.shared().pool_facts().busy, 1);
    site.switches.open("a");
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().cancelled.value(CancelReason::Timeout), 0);
}

#[test]
fn a_drain_counts_a_request_beyond_its_time_once() {
    let mut site = Site::start(&[("PHP_WORKERS", "1"), ("DRAIN_TIMEOUT_SECONDS", "1")]);
    let mut client = site.client();
    client.send("GET /overdue/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    site.drain();
    // Either the limit or the drain ends it, but never both.
    let status = client.response().status;
    site.switches.open("a");
    assert!(site.wait());
    let cancelled =
        [CancelReason::Timeout, CancelReason::Shutdown].map(|reason| site.metrics().cancelled.value(reason));
    assert_eq!(cancelled, if status == 504 { [1, 0] } else { [0, 1] });
    site.check_books();
}
