//! Ends of HTTP/2 streams and connections: resets, limits, timeouts and the drain.

use crate::support::Site;
use svc_core::admission::ShedReason;
use svc_core::observe::{CancelReason, StatusClass};
use svc_testing::client::eventually;
use svc_testing::http2::{Http2Client, code, head, setting};

#[test]
fn a_reset_withdraws_the_request_wherever_it_is() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1")]);
    let metrics = site.metrics();
    let mut client = site.http2();
    let running = client.ask("/wait/a");
    site.until_inside("a");
    let queued = client.ask("/hello");
    eventually("one is queued", || metrics.pending_requests.value() == 2);
    let waiting = client.ask("/hello");
    eventually("one is waiting", || metrics.pending_requests.value() == 3);
    let reading = client.open(&head("POST", "/echo"), false);
    eventually("one is read", || metrics.requests_by_method.total() == 4);
    for id in [waiting, queued, running, reading] {
        client.reset(id, code::CANCEL);
    }
    eventually("all are counted", || metrics.responses.value(StatusClass::ClientError) == 4);
    assert_eq!(metrics.pending_requests.value(), 0);
    assert_eq!(metrics.cancelled.value(CancelReason::ClientAbort), 4, "the one whose body was read too");
    site.switches.open("a");
    eventually("the script saw it", || site.switches.saw_gone("a"));
    assert_eq!(client.get("/hello").text(), "hello");
    drop(client);
    site.check_books();
    assert_eq!(metrics.requests_by_method.total(), 5);
}

#[test]
fn unsafe_requests_run_after_a_reset_or_a_closed_connection() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "600000")]);
    let mut client = site.http2();
    client.ask("/wait/a");
    site.until_inside("a");
    let post = |client: &mut Http2Client, name: &str| {
        let path = format!("/wait/{name}");
        let fields =
            [(":method", "POST"), (":scheme", "http"), (":path", path.as_str()), (":authority", "x")];
        client.open(&fields, true)
    };
    let left = || site.metrics().cancelled.value(CancelReason::ClientAbort);
    let mut closing = site.http2();
    let reset = post(&mut client, "reset");
    post(&mut closing, "closed");
    eventually("they are queued", || site.shared().gate_facts().unwrap().depth == 2);
    client.reset(reset, code::CANCEL);
    drop(closing);
    eventually("both have left", || left() == 2);
    site.switches.open_all();
    eventually("both have run", || ["reset", "closed"].iter().all(|name| site.switches.is_inside(name)));
    drop(client);
    site.check_books();
    assert!(site.metrics().dropped.value() == 0);
}

#[test]
fn a_reset_during_the_response_reaches_the_script_and_is_not_counted() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let id = client.ask("/stream/a");
    client.until(|client| client.heard(id).status == 200);
    client.reset(id, code::CANCEL);
    eventually("the books are closed", || site.metrics().responses.value(StatusClass::Success) == 1);
    site.switches.open("a");
    eventually("the script saw it", || site.switches.saw_gone("a"));
    assert_eq!(site.metrics().cancelled.value(CancelReason::ClientAbort), 0);
    drop(client);
    site.check_books();
}

#[test]
fn a_wait_that_is_over_is_529_for_its_stream() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
    let mut client = site.http2();
    let running = client.ask("/wait/a");
    site.until_inside("a");
    let late: Vec<_> = (0..5).map(|_| client.ask("/hello")).collect();
    for id in late {
        let response = client.response(id);
        assert_eq!((response.status, response.text().as_str()), (529, "Site is overloaded"));
        assert_eq!(response.field("retry-after"), Some("1"));
    }
    site.switches.open("a");
    assert_eq!(client.response(running).text(), "a");
    assert_eq!(site.metrics().refused.value(ShedReason::WaitTimeout), 5);
    drop(client);
    site.check_books();
}

#[test]
fn each_stream_is_one_request_at_the_gate() {
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "2"), ("QUEUE_MAX_WAITING", "3")];
    let site = Site::start(&settings);
    let mut client = site.http2();
    let running = client.ask("/wait/a");
    site.until_inside("a");
    let others: Vec<_> = (0..10).map(|_| client.ask("/hello")).collect();
    eventually("five are refused", || site.metrics().refused.value(ShedReason::WaitingFull) == 5);
    site.switches.open("a");
    assert_eq!(client.response(running).status, 200);
    // File threads resolve the requests in any order, so that any five of them are admitted.
    let mut statuses: Vec<_> = others.into_iter().map(|id| client.response(id).status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 529, 529, 529, 529, 529]);
    drop(client);
    site.check_books();
}

#[test]
fn a_lost_connection_takes_all_its_streams_along() {
    let site = Site::start(&[("PHP_WORKERS", "2")]);
    let mut client = site.http2();
    let metrics = site.metrics();
    client.ask("/wait/a");
    client.ask("/stream/b");
    site.until_inside("a");
    site.until_inside("b");
    for _ in 0..90 {
        client.ask("/hello");
    }
    for _ in 0..8 {
        client.open(&head("POST", "/echo"), false);
    }
    eventually("all have come", || {
        metrics.requests_by_method.total() == 100 && metrics.pending_requests.value() == 91
    });
    drop(client);
    eventually("all are counted", || metrics.responses.value(StatusClass::ClientError) == 99);
    assert_eq!(metrics.pending_requests.value(), 0);
    assert_eq!(metrics.cancelled.value(CancelReason::ClientAbort), 99, "those whose bodies were read too");
    site.switches.open_all();
    site.check_books();
}

#[test]
fn streams_beyond_the_limit_are_refused_unseen() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    client.ping();
    let limit = client.settings[&setting::MAX_CONCURRENT_STREAMS];
    let open: Vec<_> = (0..limit).map(|_| client.open(&head("POST", "/echo"), false)).collect();
    let beyond = client.ask("/hello");
    client.until_over(beyond);
    assert_eq!(client.heard(beyond).reset, Some(code::REFUSED_STREAM));
    for id in open {
        client.upload(id, b"");
        assert_eq!(client.response(id).status, 200);
    }
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().requests_by_method.total(), u64::from(limit) + 1);
}

#[test]
fn a_drain_lets_streams_end_and_sends_goaway() {
    let mut site = Site::start(&[]);
    let mut client = site.http2();
    let slow = client.ask("/wait/a");
    site.until_inside("a");
    site.drain();
    client.until(|client| client.farewell.is_some());
    // The last stream to be processed is fixed once our PONG has arrived.
    client.until(|client| client.farewell == Some((slow, code::NO_ERROR)));
    client.ask("/hello");
    site.switches.open("a");
    assert_eq!(client.response(slow).text(), "a");
    client.expect_end();
    assert!(site.wait(), "threads are left");
    site.check_books();
    assert_eq!(site.metrics().requests_by_method.total(), 1);
}

#[test]
fn requests_before_the_drain_are_answered() {
    let mut site = Site::start(&[("IO_WORKERS", "1")]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    let mut clients: Vec<_> = (0..50).map(|_| site.http2()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/note.txt").text(), "note");
    }
    let asked: Vec<_> = clients.iter_mut().map(|client| client.ask("/note.txt")).collect();
    site.drain();
    for (client, id) in clients.iter_mut().zip(asked) {
        assert_eq!(client.response(id).text(), "note");
        assert_eq!(client.expect_end(), Some(code::NO_ERROR));
    }
    assert!(site.wait());
    site.check_books();
}

#[test]
fn a_client_that_does_not_answer_the_farewell_does_not_hold_the_drain() {
    let settings = [("DRAIN_TIMEOUT_SECONDS", "3600"), ("KEEPALIVE_TIMEOUT_SECONDS", "3600")];
    let mut site = Site::start(&settings);
    let mut client = site.http2();
    client.ping();
    site.drain();
    // This client never reads: the PING of the shutdown stays unanswered.
    assert!(site.wait());
    site.check_books();
    assert_eq!(client.expect_end(), Some(code::NO_ERROR));
}

#[test]
fn the_drain_deadline_cuts_streams_off() {
    let mut site = Site::start(&[("DRAIN_TIMEOUT_SECONDS", "1"), ("PHP_WORKERS", "2")]);
    let mut client = site.http2();
    let running = client.ask("/wait/a");
    let begun = client.ask("/stream/b");
    site.until_inside("a");
    client.until(|client| client.heard(begun).status == 200);
    let queued = client.ask("/hello");
    eventually("one is queued", || site.metrics().pending_requests.value() == 2);
    site.drain();
    assert_eq!(client.response(running).status, 503);
    assert_eq!(client.response(queued).status, 503);
    assert!(!client.response(begun).is_whole);
    site.switches.open_all();
    site.wait();
    assert_eq!(site.metrics().refused.value(ShedReason::ShuttingDown), 1);
    assert_eq!(
        site.metrics().cancelled.value(CancelReason::Shutdown),
        1,
        "the one that had begun was answered"
    );
    assert_eq!(site.metrics().pending_requests.value(), 0);
}

#[test]
fn an_idle_connection_gets_goaway_and_is_closed() {
    let site = Site::start(&[("KEEPALIVE_TIMEOUT_SECONDS", "1")]);
    let mut client = site.http2();
    assert_eq!(client.get("/hello").status, 200);
    assert_eq!(client.expect_end(), Some(code::NO_ERROR));
    site.check_books();
}

#[test]
fn a_busy_connection_is_not_idle() {
    let site = Site::start(&[("KEEPALIVE_TIMEOUT_SECONDS", "1")]);
    let (mut idle, mut busy) = (site.http2(), site.http2());
    let id = busy.ask("/wait/a");
    site.until_inside("a");
    assert_eq!(idle.get("/hello").status, 200);
    idle.expect_end();
    site.switches.open("a");
    assert_eq!(busy.response(id).text(), "a");
}

#[test]
fn a_slow_body_is_408_for_its_stream() {
    let site = Site::start(&[("BODY_TIMEOUT_SECONDS", "1")]);
    let mut client = site.http2();
    let id = client.open(&head("POST", "/echo"), false);
    client.send_data(id, b"12");
    assert_eq!(client.response(id).status, 408);
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
}

#[test]
fn a_drain_after_a_long_pause_waits_for_requests_in_flight() {
    let mut site = Site::start(&[("IO_WORKERS", "1"), ("HEADER_TIMEOUT_SECONDS", "2")]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    // When the last one is closed, the others have been silent for longer than the drain's grace period.
    let mut clients: Vec<_> = (0..50).map(|_| site.http2()).collect();
    clients.iter_mut().for_each(Http2Client::ping);
    site.client().expect_end();
    let asked: Vec<_> = clients.iter_mut().map(|client| client.ask("/note.txt")).collect();
    site.drain();
    for (client, id) in clients.iter_mut().zip(asked) {
        assert_eq!(client.response(id).text(), "note");
    }
    drop(clients);
    assert!(site.wait());
    site.check_books();
}
