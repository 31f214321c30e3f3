//! Accounting over real sockets: each request ends once, however it is cut off, and has at most one reason.

use crate::support::Site;
use svc_core::admission::ShedReason;
use svc_core::http::MethodKind;
use svc_core::observe::{CancelReason, StatusClass};
use svc_testing::client::{Client, eventually};
use svc_testing::http2::{END_HEADERS, END_STREAM, block, code, head, kind};

/// Returns the counts of client_abort, timeout and shutdown.
fn cancelled(site: &Site) -> [u64; 3] {
    CancelReason::ALL.map(|reason| site.metrics().cancelled.value(reason))
}

/// Returns the counts of 2xx, 4xx and 5xx.
fn classes(site: &Site) -> [u64; 3] {
    [StatusClass::Success, StatusClass::ClientError, StatusClass::ServerError]
        .map(|class| site.metrics().responses.value(class))
}

#[test]
fn a_client_that_is_gone_within_its_body_is_499_and_client_abort() {
    let site = Site::start(&[]);
    site.leave_within_body("/echo");
    eventually("its leaving is seen", || classes(&site) == [0, 1, 0]);
    assert_eq!(cancelled(&site), [1, 0, 0]);
    let mut client = site.http2();
    let id = client.open(&head("POST", "/echo"), false);
    client.send_data(id, b"half");
    eventually("some of it has come", || site.metrics().request_bytes.value() == 8);
    client.reset(id, code::CANCEL);
    eventually("its leaving is seen", || classes(&site) == [0, 2, 0]);
    assert_eq!(cancelled(&site), [2, 0, 0]);
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().abandoned_total(), 0, "no worker had it");
}

#[test]
fn a_request_aborted_by_the_drain_in_its_body_is_503_and_shutdown() {
    let mut site = Site::start(&[("DRAIN_TIMEOUT_SECONDS", "1")]);
    let (mut client, mut other) = (site.client(), site.http2());
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    let id = other.open(&head("POST", "/echo"), false);
    other.send_data(id, b"half");
    eventually("some of it has come", || site.metrics().request_bytes.value() == 8);
    site.drain();
    assert_eq!((client.response().status, other.response(id).status), (503, 503));
    assert!(site.wait());
    site.check_books();
    assert_eq!((classes(&site), cancelled(&site)), ([0, 0, 2], [0, 0, 2]));
}

#[test]
fn a_response_whose_head_was_sent_counts_as_answered_when_the_drain_ends_it() {
    let mut site = Site::start(&[("DRAIN_TIMEOUT_SECONDS", "1")]);
    std::fs::write(site.root.path().join("long.bin"), vec![b'x'; 50_000_000]).unwrap();
    let (mut stream, mut file, mut other) = (site.client(), site.client(), site.http2());
    stream.send("GET /stream/s HTTP/1.1\r\nHost: x\r\n\r\n");
    file.send("GET /long.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    let id = other.ask("/long.bin");
    other.is_generous = false;
    other.until(|client| client.heard(id).status == 200);
    assert_eq!([stream.head_only().status, file.head_only().status], [200, 200]);
    site.drain();
    eventually("all are cut", || classes(&site) == [3, 0, 0]);
    assert_eq!(cancelled(&site), [0, 0, 0]);
    site.switches.open_all();
    assert!(site.wait());
    site.check_books();
    assert_eq!(cancelled(&site), [0, 0, 0]);
}

#[test]
fn the_drain_refuses_waiting_requests_and_aborts_running_ones() {
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("DRAIN_TIMEOUT_SECONDS", "1")];
    let mut site = Site::start(&settings);
    let metrics = site.metrics();
    let mut clients = [site.client(), site.client(), site.client()];
    for (number, client) in (1..).zip(&mut clients) {
        client.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
        eventually("it is pending", || metrics.pending_requests.value() == number);
        site.until_inside("a");
    }
    assert_eq!(site.shared().gate_facts().unwrap().waiting, 1, "in front of the queue");
    site.drain();
    for client in &mut clients {
        assert_eq!(client.response().status, 503);
    }
    site.switches.open("a");
    assert!(site.wait());
    site.check_books();
    let refused = ShedReason::ALL.map(|reason| (reason, site.metrics().refused.value(reason)));
    let refused: Vec<_> = refused.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(refused, [(ShedReason::ShuttingDown, 2)], "in the queue, and in front of it");
    assert_eq!((classes(&site), cancelled(&site)), ([0, 0, 3], [0, 0, 1]));
}

#[test]
fn a_client_that_leaves_while_its_worker_ends_has_one_end() {
    let site = Site::start(&[("IO_WORKERS", "1")]);
    for round in 0..200 {
        let mut client = site.client();
        client.send(format!("GET /wait/{round} HTTP/1.1\r\nHost: x\r\n\r\n"));
        site.until_inside(&round.to_string());
        std::thread::scope(|scope| {
            scope.spawn(|| site.switches.open(&round.to_string()));
            client.half_close();
        });
    }
    site.check_books();
    let ([answered, left, failed], [aborted, ..]) = (classes(&site), cancelled(&site));
    assert_eq!((answered + left, failed, aborted), (200, 0, left));
    assert_eq!(site.metrics().abandoned_total(), left, "a worker had each of them");
}

#[test]
fn a_refusal_that_its_client_has_read_does_not_become_abandoned_work() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
    let mut running = site.client();
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    let mut client = site.client();
    assert_eq!(client.get("/hello").status, 529);
    assert_eq!(site.shared().gate_facts().unwrap().depth, 1, "its entry is there until a worker takes it");
    drop(client);
    site.switches.open("a");
    assert_eq!(running.response().text(), "a");
    drop(running);
    eventually("the entry is taken", || site.shared().gate_facts().unwrap().depth == 0);
    site.check_books();
    assert_eq!(site.metrics().abandoned_total(), 0);
    assert_eq!(site.metrics().refused.value(ShedReason::WaitTimeout), 1);
}

#[test]
fn a_failed_worker_drops_requests_without_a_head_and_breaks_off_others() {
    let site = Site::start(&[]);
    assert_eq!(site.client().get("/panic").status, 500);
    let response = site.client().get("/half");
    assert_eq!((response.status, response.is_whole), (200, false));
    site.check_books();
    assert_eq!((classes(&site), site.metrics().dropped.value()), ([1, 0, 1], 1));
}

#[test]
fn bytes_of_a_refused_body_are_received_ones_in_both_protocols() {
    let settings = [("MAX_BODY_BYTES", "10"), ("BODY_TIMEOUT_SECONDS", "1")];
    // Refused by its announced length, within the body, and because the rest does not arrive in time.
    for (case, path, body, announced, status) in [
        ("length", "/echo", "12345678901", Some(11), 413),
        ("within", "/echo", "12345678901", None, 413),
        ("late", "/echo", "1234567", Some(9), 408),
    ] {
        let site = Site::start(&settings);
        let mut client = site.client();
        let framing = announced.map_or("Transfer-Encoding: chunked".to_owned(), |length: usize| {
            format!("Content-Length: {length}")
        });
        let text =
            if announced.is_some() { body.to_owned() } else { format!("{:x}\r\n{body}\r\n", body.len()) };
        client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n{text}"));
        assert_eq!(client.response().status, status, "{case}");
        client.half_close();
        client.expect_end();
        drop(client);
        eventually("the connection ended", || site.metrics().connections.value() == 0);
        assert_eq!(site.metrics().request_bytes.value(), body.len() as u64, "{case}");
        let mut client = site.http2();
        let length = announced.map(|length| length.to_string());
        let mut fields = head("POST", path);
        fields.extend(length.as_deref().map(|length| ("content-length", length)));
        let id = client.open(&fields, false);
        client.send_data(id, body.as_bytes());
        assert_eq!(client.response(id).status, status, "{case}");
        drop(client);
        site.check_books();
        assert_eq!(site.metrics().request_bytes.value(), 2 * body.len() as u64, "{case}, by HTTP/2");
    }
}

/// Returns the access records of HTTP/2 requests: status and duration in microseconds.
fn records_of_http2(site: &Site) -> Vec<(u64, u64)> {
    let number = |line: &str, name: &str| -> u64 {
        let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap();
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    };
    let log = site.log();
    let lines = log.lines().filter(|line| line.contains("\"protocol\":\"HTTP/2.0\""));
    lines.map(|line| (number(line, "status"), number(line, "duration_us"))).collect()
}

#[test]
fn a_head_that_the_library_refuses_is_in_the_books() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let long = "y".repeat(15_000);
    let fields: Vec<_> = head("GET", "/hello").into_iter().chain((0..10).map(|_| ("x", &long[..]))).collect();
    let whole = block(&fields);
    let id = client.next_id();
    let mut pieces = whole.chunks(16_000).peekable();
    client.frame(kind::HEADERS, END_STREAM, id, pieces.next().unwrap());
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        client.frame(kind::CONTINUATION, flags, id, piece);
    }
    client.until_over(id);
    assert_eq!(client.heard(id).status, 431);
    assert_eq!(client.get("/hello").text(), "hello");
    drop(client);
    site.check_books();
    assert_eq!((classes(&site), site.metrics().requests_by_method.total()), ([1, 1, 0], 2));
    assert_eq!(site.metrics().requests_by_method.value(MethodKind::Other), 1);
    eventually("both are logged", || records_of_http2(&site).len() == 2);
    assert_eq!(records_of_http2(&site)[0].0, 431);
}

#[test]
fn a_request_begins_with_the_first_byte_of_its_head_in_both_protocols() {
    let site = Site::start(&[("IO_WORKERS", "1")]);
    let (mut witness, mut client) = (site.client(), site.http2());
    client.ping();
    let whole = block(&head("GET", "/hello"));
    let id = client.next_id();
    client.frame(kind::HEADERS, END_STREAM, id, &whole[..2]);
    // The response shows that the frame above has been received.
    witness.get("/hello");
    let begun = svc_core::time::now();
    for _ in 0..50 {
        witness.get("/hello");
    }
    let least_us = begun.elapsed().as_micros();
    client.frame(kind::CONTINUATION, END_HEADERS, id, &whole[2..]);
    assert_eq!(client.response(id).text(), "hello");
    eventually("it is logged", || !records_of_http2(&site).is_empty());
    let (status, took_us) = records_of_http2(&site)[0];
    assert!(status == 200 && u128::from(took_us) >= least_us, "{took_us} of {least_us}");
    drop((client, witness));
    site.check_books();
}

fn get(site: &Site, path: &str) -> Client {
    let mut client = site.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

fn queued(site: &Site, path: &str, depth: usize) -> Client {
    let client = get(site, path);
    eventually("it is queued", || site.shared().gate_facts().unwrap().depth == depth);
    client
}

/// Returns the number of requests refused after the full wait, and of those whose wait was for nothing.
fn waits(site: &Site) -> (u64, u64) {
    (site.metrics().refused.value(ShedReason::WaitTimeout), site.metrics().wait_wasted.value())
}

#[test]
fn a_wait_was_wasted_if_the_pool_started_nothing_meanwhile() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
    let running = get(&site, "/wait/a");
    site.until_inside("a");
    assert_eq!(queued(&site, "/hello", 1).response().status, 529);
    assert_eq!(waits(&site), (1, 1));
    site.switches.open("a");
    drop(running);
    site.check_books();
}

#[test]
fn a_wait_in_which_the_pool_started_something_was_not_wasted() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "3000")]);
    let mut running = get(&site, "/wait/a");
    site.until_inside("a");
    let (next, mut last) = (queued(&site, "/wait/b", 1), queued(&site, "/hello", 2));
    site.switches.open("a");
    assert_eq!(running.response().text(), "a");
    site.until_inside("b");
    assert_eq!(last.response().status, 529);
    assert_eq!(waits(&site), (1, 0));
    site.switches.open("b");
    drop((running, next, last));
    site.check_books();
}

#[test]
fn the_wait_of_a_departed_client_is_not_counted() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "3000")]);
    let running = get(&site, "/wait/a");
    site.until_inside("a");
    drop(queued(&site, "/hello", 1));
    eventually("its leaving is seen", || cancelled(&site) == [1, 0, 0]);
    // A later request has waited out its budget, so the wait of the earlier one is over, too.
    assert_eq!(queued(&site, "/hello", 2).response().status, 529);
    assert_eq!(waits(&site), (1, 1), "that of the one that stayed");
    site.switches.open("a");
    drop(running);
    site.check_books();
}

#[test]
fn a_wait_that_was_shortened_was_not_wasted() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "6000")]);
    let running = get(&site, "/wait/a");
    site.until_inside("a");
    // Enough samples for a decision about the budget.
    (1..=10).for_each(|depth| drop(queued(&site, "/hello", depth)));
    eventually("their leaving is seen", || cancelled(&site) == [10, 0, 0]);
    let holds = queued(&site, "/wait/b", 11);
    // While a request waits, the budget does not grow again.
    let waits_on = queued(&site, "/hello", 12);
    site.switches.open("a");
    site.until_inside("b");
    let budget = || site.shared().gate_facts().unwrap().wait_budget.as_millis();
    eventually("the budget is halved", || budget() == 3000);
    assert_eq!(get(&site, "/hello").response().status, 529);
    let (refused, wasted) = waits(&site);
    assert!(refused >= 1 && wasted == 0, "{refused} refused, {wasted} wasted");
    site.switches.open("b");
    drop((running, holds, waits_on));
    site.check_books();
}
