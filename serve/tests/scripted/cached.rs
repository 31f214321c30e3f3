//! The response cache where the server answers on behalf of a worker.

use svc_core::admission::ShedReason;
use svc_core::observe::CancelReason;
use svc_testing::client::{Client, Response, eventually};

use crate::support::Site;

const SETTINGS: [(&str, &str); 2] = [("RESPONSE_CACHE_BYTES", "1M"), ("PHP_WORKERS", "1")];

fn ask(site: &Site, end: &str) -> Client {
    let mut client = site.client();
    client.send(format!("GET /cached/{end} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

/// Lets a worker fail while it makes a new response in place of a stored one; returns the responses of its client and of
/// another one that waits for the same response.
fn failed(site: &Site, end: &str) -> [Response; 2] {
    assert_eq!(ask(site, end).response().text(), "stored");
    site.switches.open("failing");
    let leader = ask(site, end);
    site.until_inside("held");
    let received = site.metrics().requests_by_method.total();
    let follower = ask(site, end);
    eventually("it has arrived", || site.metrics().requests_by_method.total() > received);
    site.switches.open("held");
    [leader, follower].map(|mut client| client.response())
}

#[test]
fn a_stale_response_answers_for_a_worker_that_is_lost_or_late() {
    for (end, reason) in [("panic", None), ("overdue", Some(CancelReason::Timeout))] {
        let site = Site::start(&[&SETTINGS[..], &[("RESPONSE_CACHE_STALE_SECONDS", "600")]].concat());
        for response in failed(&site, end) {
            let status = response.field("cache-status").unwrap_or_default();
            assert_eq!((response.status, response.text().as_str()), (200, "stored"), "{end}");
            assert!(status.ends_with("; detail=error"), "{end}: {status}");
        }
        assert_eq!(site.metrics().dropped.value(), 0, "it is answered");
        assert!(reason.is_none_or(|reason| site.metrics().cancelled.value(reason) == 0));
        site.switches.open("never");
        site.check_books();
    }
}

#[test]
fn without_a_stale_response_waiting_requests_go_to_the_queue() {
    for (end, status) in [("panic", 500), ("overdue", 504)] {
        let site = Site::start(&SETTINGS);
        assert_eq!(ask(&site, end).response().text(), "stored");
        site.switches.open("failing");
        let mut leader = ask(&site, end);
        site.until_inside("held");
        let mut follower = ask(&site, end);
        eventually("it has arrived", || site.metrics().requests_by_method.total() == 3);
        assert_eq!(site.metrics().pending_requests.value(), 1, "it waits for the other one");
        site.switches.open("held");
        assert_eq!(leader.response().status, status, "{end}");
        site.switches.open("never");
        assert!(follower.response().status >= 500, "{end}: its script fails, too");
        drop((leader, follower));
        site.check_books();
    }
}

#[test]
fn a_refresh_that_hangs_is_followed_by_another_one() {
    let site = Site::start(&[("RESPONSE_CACHE_BYTES", "1M"), ("PHP_WORKERS", "2")]);
    let refreshes = || site.shared().cache.as_ref().unwrap().reading().refreshes;
    assert_eq!(ask(&site, "refresh").response().text(), "stored");
    site.switches.open("failing");
    assert_eq!(ask(&site, "refresh").response().text(), "stored");
    site.until_inside("held");
    assert_eq!(ask(&site, "refresh").response().text(), "stored");
    assert_eq!(refreshes(), 1, "one at a time");
    // Its worker never returns.
    site.switches.open("held");
    site.until_inside("never");
    eventually("another one begins", || {
        assert_eq!(ask(&site, "refresh").response().text(), "stored");
        refreshes() == 2
    });
}

#[test]
fn a_stale_response_answers_when_no_worker_is_left() {
    let site = Site::start(&[&SETTINGS[..], &[("RESPONSE_CACHE_STALE_SECONDS", "600")]].concat());
    assert_eq!(ask(&site, "any").response().text(), "stored");
    let mut last = site.client();
    last.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    let mut dying = site.client();
    dying.send("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the death is queued", || site.shared().gate_facts().unwrap().depth == 1);
    let queued = ask(&site, "any");
    eventually("one waits behind it", || site.shared().gate_facts().unwrap().depth == 2);
    let follower = ask(&site, "any");
    eventually("it has arrived", || site.metrics().requests_by_method.total() == 5);
    // A replacement must not boot before the last check.
    site.switches.refuse_boots(true);
    site.switches.open("a");
    assert_eq!((last.response().text().as_str(), dying.response().status), ("a", 500));
    for mut client in [queued, follower, ask(&site, "any")] {
        let response = client.response();
        let status = response.field("cache-status").unwrap_or_default();
        assert!(response.text() == "stored" && status.ends_with("; detail=error"), "{status}");
    }
    assert_eq!(site.metrics().refused.value(ShedReason::PoolUnavailable), 0);
    drop((last, dying));
    site.check_books();
}
