//! Responses on their way out: the data that reaches the client, and how long the worker is held.

use crate::support::Site;
use svc_core::limits::{HTTP2_OUTPUT_BYTES_MAX, REPLIES_MEMORY_MAX, TIGHT_SLICE_BYTES};
use svc_core::observe::{CancelReason, StatusClass};
use svc_testing::client::eventually;
use svc_testing::http2::{Http2Client, setting};

#[test]
fn a_stream_reaches_the_client_piece_by_piece() {
    let site = Site::start(&[]);
    let mut client = site.client();
    client.send("GET /stream/s HTTP/1.1\r\nHost: x\r\n\r\n");
    let response = client.head_only();
    assert_eq!(response.field("transfer-encoding"), Some("chunked"));
    assert_eq!(client.chunk().unwrap(), b"first");
    site.switches.open("s");
    assert_eq!(client.chunk().unwrap(), b"second");
    assert_eq!(client.chunk().unwrap(), b"");
    assert_eq!(client.get("/hello").text(), "hello");
}

#[test]
fn interim_responses_come_first() {
    let site = Site::start(&[]);
    let mut client = site.client();
    client.send("GET /early HTTP/1.1\r\nHost: x\r\n\r\n");
    let interim = client.head_only();
    assert_eq!((interim.status, interim.field("link")), (103, Some("</style.css>; rel=preload")));
    assert_eq!(client.response().text(), "late");
    let mut old = site.client();
    old.send("GET /early HTTP/1.0\r\n\r\n");
    let answer = String::from_utf8(old.rest()).unwrap();
    assert!(!answer.contains("HTTP/1.1 103"), "{answer}");
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().responses.value(StatusClass::Informational), 0);
}

#[test]
fn head_requests_get_no_body() {
    let site = Site::start(&[]);
    let mut client = site.client();
    let response = client.request("HEAD /hello HTTP/1.1\r\nHost: x");
    assert_eq!(response.field("content-length"), Some("5"));
    assert_eq!(client.get("/hello").text(), "hello", "the connection went on with body bytes");
}

#[test]
fn bodiless_statuses_have_no_body() {
    let site = Site::start(&[]);
    let mut client = site.client();
    for status in [204, 304] {
        let response = client.get(&format!("/status/{status}"));
        assert_eq!((response.status, response.field("content-length")), (status, None));
        assert_eq!(response.field("transfer-encoding"), None);
    }
    assert_eq!(client.get("/hello").status, 200);
}

#[test]
fn a_script_that_resets_content_sends_none() {
    let site = Site::start(&[]);
    let mut client = site.client();
    let response = client.get("/content/205");
    assert_eq!((response.status, response.field("content-length")), (205, Some("0")));
    assert_eq!(response.field("transfer-encoding"), None);
    assert_eq!(client.get("/hello").text(), "hello", "the connection went on with body bytes");
}

#[test]
fn a_client_that_leaves_a_stream_ends_it_and_counts_nothing() {
    let site = Site::start(&[]);
    let mut leaving = site.client();
    leaving.send("GET /stream/s HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(leaving.head_only().status, 200);
    drop(leaving);
    eventually("the connection ended", || site.metrics().connections.value() == 0);
    site.switches.open("s");
    eventually("the script sees it", || site.switches.saw_gone("s"));
    site.check_books();
    assert_eq!(site.metrics().cancelled.value(CancelReason::ClientAbort), 0);
    assert_eq!(site.metrics().abandoned_total(), 0);
    assert_eq!(site.metrics().responses.value(StatusClass::Success), 1);
}

#[test]
fn a_slow_reader_gets_all_of_a_large_response_and_holds_no_worker() {
    let site = Site::start(&[("PHP_WORKERS", "1")]);
    let mut slow = site.client();
    let length = 20_000_000;
    slow.send(format!("GET /flood/{length} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("the worker is free again", || {
        site.switches.flooded() == length && site.shared().pool_facts().busy == 0
    });
    assert!(site.shared().spool.bytes() > 0, "nothing was spooled");
    assert_eq!(site.client().get("/hello").text(), "hello");
    let response = slow.response();
    assert!(response.is_whole && response.body.len() as u64 == length);
    assert!(response.body.iter().zip(0u64..).all(|(byte, place)| *byte == place.to_le_bytes()[0]));
    drop(slow);
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0, "the spool is not empty");
}

#[test]
fn a_full_spool_holds_the_worker_until_the_reader_makes_room() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("SPOOL_MAX_BYTES", "1M")]);
    let mut slow = site.client();
    let length = 30_000_000;
    slow.send(format!("GET /flood/{length} HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_eq!(slow.head_only().status, 200);
    assert!(site.switches.flooded() < length);
    let mut got = 0;
    while let Some(chunk) = slow.chunk().filter(|chunk| !chunk.is_empty()) {
        got += chunk.len() as u64;
    }
    assert_eq!(got, length);
    drop(slow);
    site.check_books();
}

#[test]
fn a_slow_reader_that_leaves_frees_the_worker_that_waits_for_it() {
    let site = Site::start(&[("PHP_WORKERS", "1"), ("SPOOL_MAX_BYTES", "1M")]);
    let mut slow = site.client();
    slow.send("GET /flood/100000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(slow.head_only().status, 200);
    drop(slow);
    assert_eq!(site.client().get("/hello").text(), "hello");
    site.check_books();
}

#[test]
fn stalled_readers_share_a_bounded_memory_and_block_no_other() {
    // Data that the window allows but the client does not read counts, too; each stream gets a little whatever others
    // hold.
    for (window, own) in [(0, TIGHT_SLICE_BYTES), (0x7fff_ffff, HTTP2_OUTPUT_BYTES_MAX)] {
        let site = Site::start(&[("QUEUE_CAPACITY", "512")]);
        let mut stalled = Vec::new();
        for _ in 0..2 {
            let mut client =
                Http2Client::connect_with(site.addr(), &[(setting::INITIAL_WINDOW_SIZE, window)]);
            client.widen(0, 0x7fff_0000);
            for _ in 0..100 {
                client.ask("/bulk/1000000");
            }
            stalled.push(client);
        }
        eventually("all is handed over", || {
            site.metrics().queue_wait.snapshot().count() == 200 && site.shared().pool_facts().busy == 0
        });
        let held = site.shared().spool.memory_bytes();
        let most = REPLIES_MEMORY_MAX + 200 * own as u64;
        assert!(held <= most && held > REPLIES_MEMORY_MAX / 2, "{held} bytes");
        assert!(site.shared().spool.bytes() > 0, "nothing was spooled");
        assert_eq!(site.client().get("/hello").text(), "hello");
        let response = site.client().get("/bulk/1000000");
        assert!(response.is_whole && response.body.len() == 1_000_000);
        drop(stalled);
        site.check_books();
        assert_eq!(site.shared().spool.bytes(), 0, "the spool is not empty");
    }
}

#[test]
fn announced_lengths_are_kept() {
    let site = Site::start(&[]);
    let mut client = site.client();
    assert_eq!(client.get("/announce/6").text(), "sixsix");
    assert_eq!(client.get("/announce/4").text(), "sixs", "more than announced");
    let response = client.get("/announce/10");
    assert!(!response.is_whole, "less than announced");
    assert_eq!(response.text(), "sixsix");
    drop(client);
    site.check_books();
}

#[test]
fn a_broken_response_is_seen_to_be_broken() {
    let site = Site::start(&[]);
    let response = site.client().get("/broken");
    assert!(!response.is_whole);
    assert_eq!(response.text(), "part");
    let response = site.client().get("/half");
    assert!(!response.is_whole && response.text() == "half");
    site.check_books();
}

#[test]
fn servers_own_failures_have_a_page() {
    let site = Site::start(&[]);
    let response = site.client().get("/timeout");
    assert_eq!((response.status, response.text().as_str()), (504, "504 Gateway Timeout\n"));
    let response = site.client().get("/fatal");
    assert_eq!((response.status, response.text().as_str()), (500, "500 Internal Server Error\n"));
    let response = site.client().get("/status/404");
    assert_eq!((response.status, response.text().as_str()), (404, ""), "a script's answer is its own");
    site.check_books();
    assert_eq!(site.metrics().cancelled.value(CancelReason::Timeout), 1);
}

#[test]
fn a_worker_without_a_response_has_dropped_its_request() {
    let site = Site::start(&[]);
    assert_eq!(site.client().get("/silent").status, 500);
    site.check_books();
    eventually("it is counted", || site.metrics().dropped.value() == 1);
    assert_eq!(site.shared().pool_facts().current, 2);
}

#[test]
fn a_dying_worker_loses_its_request_only() {
    let site = Site::start(&[]);
    let mut client = site.client();
    assert_eq!(client.get("/panic").status, 500);
    assert_eq!(client.get("/hello").text(), "hello");
    eventually("it is counted", || site.metrics().dropped.value() == 1);
    eventually("it is logged", || site.log().contains("PHP worker thread was lost"));
    eventually("another one takes its place", || {
        let facts = site.shared().pool_facts();
        (facts.current, facts.spawned) == (2, 3)
    });
    drop(client);
    site.check_books();
}
