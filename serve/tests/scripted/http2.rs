//! HTTP/2 over real sockets, with an engine that takes its commands from the path: concurrent requests on one
//! connection.

use crate::support::Site;
use svc_core::observe::{CancelReason, StatusClass};
use svc_testing::client::eventually;
use svc_testing::http2::{END_HEADERS, END_STREAM, Http2Client, block, code, frame, head, kind, setting};

fn patterned(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|place| place.to_le_bytes()[0]).collect()
}

/// Returns the sum with which the engine's `echo` responds.
fn sum_of(body: &[u8]) -> String {
    format!("{} {}", body.len(), body.iter().map(|byte| u64::from(*byte)).sum::<u64>())
}

#[test]
fn streams_are_answered_in_the_order_of_their_answers() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let slow = client.ask("/wait/slow");
    site.until_inside("slow");
    for _ in 0..20 {
        assert_eq!(client.get("/hello").text(), "hello");
    }
    assert_eq!(client.heard(slow).status, 0);
    site.switches.open("slow");
    let response = client.response(slow);
    assert_eq!((response.status, response.text().as_str()), (200, "slow"));
    assert_eq!((response.field("server"), response.field("content-length")), (Some("svc"), Some("4")));
    assert!(response.field("date").is_some() && response.field("x-request-id").is_some());
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().requests_by_method.total(), 21);
}

#[test]
fn bodies_of_many_streams_are_interleaved_and_exact_both_ways() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let downloads: Vec<_> =
        (0..20).map(|index| (client.ask(&format!("/flood/{}", index * 70_001)), index * 70_001)).collect();
    let bodies: Vec<_> = (1..=20u64).map(|index| patterned(index * 13_457)).collect();
    let uploads: Vec<_> = bodies.iter().map(|_| client.open(&head("POST", "/echo"), false)).collect();
    let mut at = 0;
    while at < bodies[19].len() {
        for (id, body) in uploads.iter().zip(&bodies) {
            if at < body.len() {
                client.send_data(*id, &body[at..body.len().min(at + 9_999)]);
            }
        }
        at += 9_999;
    }
    for (id, body) in uploads.iter().zip(&bodies) {
        client.upload(*id, b"");
        assert_eq!(client.response(*id).text(), sum_of(body));
    }
    for (id, bytes) in downloads {
        let response = client.response(id);
        assert!(response.is_whole && response.body == patterned(bytes), "{bytes} bytes");
    }
    let sent: u64 = bodies.iter().map(|body| body.len() as u64).sum();
    assert_eq!(site.metrics().request_bytes.value(), sent);
    drop(client);
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0);
}

#[test]
fn a_flushed_part_reaches_the_client_while_the_script_runs() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let id = client.ask("/stream/rest");
    client.until(|client| client.heard(id).body == b"first");
    assert_eq!(client.heard(id).field("content-length"), None);
    site.switches.open("rest");
    assert_eq!(client.response(id).text(), "firstsecond");
}

#[test]
fn hints_come_before_the_answer() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let id = client.ask("/early");
    assert_eq!(client.response(id).text(), "late");
    let interim = &client.heard(id).interim;
    assert_eq!(interim.len(), 1);
    assert_eq!(interim[0], (103, vec![("link".to_owned(), "</style.css>; rel=preload".to_owned())]));
}

#[test]
fn a_client_that_waits_is_asked_for_its_body() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let fields = [head("POST", "/echo"), vec![("expect", "100-continue"), ("content-length", "3")]].concat();
    let id = client.open(&fields, false);
    client.until(|client| !client.heard(id).interim.is_empty());
    assert_eq!(client.heard(id).interim, [(100, vec![])]);
    client.upload(id, b"abc");
    assert_eq!(client.response(id).text(), sum_of(b"abc"));
    assert_eq!(client.heard(id).interim.len(), 1);
}

#[test]
fn answers_without_content_end_with_their_heads() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    for (method, path, status, length) in [
        ("HEAD", "/hello", 200, Some("5")),
        ("HEAD", "/flood/1000000", 200, None),
        ("GET", "/status/204", 204, None),
        ("GET", "/status/304", 304, None),
        ("GET", "/content/204", 204, None),
        ("GET", "/content/304", 304, None),
        ("GET", "/status/200", 200, Some("0")),
        ("GET", "/content/205", 205, Some("0")),
    ] {
        let id = client.open(&head(method, path), true);
        let response = client.response(id);
        assert_eq!((response.status, response.field("content-length")), (status, length), "{method} {path}");
        assert!(response.is_whole && response.body.is_empty());
        assert_eq!(client.heard(id).frames, 1, "{method} {path}: no frame behind the head");
    }
}

#[test]
fn a_short_answer_takes_two_frames() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let id = client.ask("/hello");
    assert_eq!(client.response(id).text(), "hello");
    assert_eq!(client.heard(id).frames, 2, "a head, and data with the end");
}

#[test]
fn an_announced_length_is_kept_or_the_stream_breaks() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let long = client.get("/announce/4");
    assert_eq!(
        (long.text().as_str(), long.field("content-length"), long.is_whole),
        ("sixs", Some("4"), true)
    );
    assert!(!client.get("/announce/7").is_whole, "six bytes of seven");
    assert!(!client.get("/broken").is_whole);
    assert_eq!(client.get("/hello").text(), "hello", "the connection stays open");
    drop(client);
    site.check_books();
}

#[test]
fn an_answer_that_breaks_comes_as_far_as_it_went() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    for _ in 0..50 {
        let id = client.ask("/broken");
        client.until_over(id);
        let heard = client.heard(id);
        assert_eq!(
            (heard.status, heard.body.as_slice(), heard.reset),
            (200, &b"part"[..], Some(code::INTERNAL_ERROR))
        );
    }
    drop(client);
    site.check_books();
}

#[test]
fn failures_of_scripts_are_answered_per_stream() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    for (path, status) in [("/timeout", 504), ("/fatal", 500), ("/silent", 500), ("/panic", 500)] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    assert!(!client.get("/half").is_whole);
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
}

#[test]
fn an_answer_before_the_body_lets_the_client_read_it() {
    let site = Site::start(&[("MAX_BODY_BYTES", "1000")]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    let mut client = site.http2();
    let announced = [head("POST", "/echo"), vec![("content-length", "2000")]].concat();
    for (fields, status) in [(announced, 413), (head("POST", "/echo"), 413), (head("PUT", "/note.txt"), 405)]
    {
        let id = client.open(&fields, false);
        client.send_data(id, &[1; 2000]);
        let response = client.response(id);
        assert_eq!((response.status, response.is_whole), (status, true), "{fields:?}");
        // In the end the client learns that its body is not needed, without an error.
        client.until(|client| client.heard(id).reset.is_some());
        assert_eq!(client.heard(id).reset, Some(code::NO_ERROR));
    }
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
}

#[test]
fn an_unwanted_body_that_ends_is_thrown_away_and_counted() {
    let site = Site::start(&[]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    let mut client = site.http2();
    assert_eq!(client.post("/note.txt", &[1; 5000]).status, 405);
    client.ping();
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().request_bytes.value(), 5000);
}

#[test]
fn a_long_body_is_spooled_and_exact() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let body = patterned(3_000_000);
    assert_eq!(client.post("/echo", &body).text(), sum_of(&body));
    drop(client);
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0);
}

#[test]
fn a_reader_without_a_window_holds_no_worker() {
    let site = Site::start(&[("PHP_WORKERS", "1")]);
    let mut client = Http2Client::connect_with(site.addr(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    client.is_generous = false;
    let id = client.ask("/flood/5000000");
    eventually("the script is done", || site.switches.flooded() == 5_000_000);
    eventually("the worker is free", || site.shared().pool_facts().busy == 0);
    // Other requests on the connection are served in the meantime.
    let other = client.ask("/hello");
    client.widen(other, 1000);
    assert_eq!(client.response(other).text(), "hello");
    client.is_generous = true;
    client.widen(id, 10_000);
    let response = client.response(id);
    assert!(response.is_whole && response.body == patterned(5_000_000));
    drop(client);
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0);
}

#[test]
fn a_stream_without_reader_ends_alone() {
    let site = Site::start(&[("WRITE_TIMEOUT_SECONDS", "1")]);
    let mut client = Http2Client::connect_with(site.addr(), &[(setting::INITIAL_WINDOW_SIZE, 10)]);
    client.is_generous = false;
    let id = client.ask("/flood/5000000");
    client.until_over(id);
    assert_eq!((client.heard(id).body.len(), client.heard(id).reset), (10, Some(code::CANCEL)));
    assert_eq!(client.get("/hello").text(), "hello");
    drop(client);
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0);
    assert_eq!(site.metrics().cancelled.value(CancelReason::ClientAbort), 0, "the answer had begun");
}

#[test]
fn a_connection_without_reader_ends() {
    let site = Site::start(&[("WRITE_TIMEOUT_SECONDS", "1")]);
    let mut client = Http2Client::connect_with(site.addr(), &[(setting::INITIAL_WINDOW_SIZE, 0x7fff_ffff)]);
    client.widen(0, 0x7fff_0000);
    for _ in 0..4 {
        client.ask("/flood/20000000");
    }
    eventually("the connection was given up", || {
        site.metrics().requests_by_method.total() == 4 && site.metrics().connections.value() == 0
    });
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0);
}

#[test]
fn bytes_that_the_socket_has_not_accepted_are_not_sent() {
    let site = Site::start(&[("WRITE_TIMEOUT_SECONDS", "1")]);
    let mut client = Http2Client::connect_with(site.addr(), &[(setting::INITIAL_WINDOW_SIZE, 0x7fff_ffff)]);
    client.is_generous = false;
    client.widen(0, 0x7fff_0000);
    // Completes the handshake, so that the client need not send anything to a socket that is closed by then.
    client.ping();
    // Large responses that exceed the socket buffers, and a short one between them that the library holds completely.
    let ids = [client.ask("/flood/20000000"), client.ask("/hello"), client.ask("/flood/20000000")];
    eventually("the connection was given up", || {
        site.metrics().requests_by_method.total() == 3 && site.metrics().connections.value() == 0
    });
    client.expect_end();
    let received: usize = ids.iter().map(|id| client.heard(*id).body.len()).sum();
    let counted = usize::try_from(site.metrics().response_bytes.value()).unwrap();
    // The received data may end in the middle of a frame.
    assert!((received..received + 16 * 1024).contains(&counted), "{received} {counted}");
    assert_eq!(site.metrics().responses.value(StatusClass::Success), 3, "heads are out, or on their way");
    site.check_books();
}

#[test]
fn a_head_may_be_cut_anywhere() {
    let site = Site::start(&[]);
    let mut client = site.http2();
    let id = client.next_id();
    let whole = block(&head("GET", "/hello"));
    client.frame(kind::HEADERS, END_STREAM, id, &whole[..1]);
    client.frame(kind::CONTINUATION, 0, id, &whole[1..whole.len() - 1]);
    let last = frame(kind::CONTINUATION, END_HEADERS, id, &whole[whole.len() - 1..]);
    for byte in last {
        client.send(&[byte]);
    }
    assert_eq!(client.response(id).text(), "hello");
}

#[test]
fn both_protocols_live_on_one_port() {
    let site = Site::start(&[]);
    let mut old = site.client();
    let mut new = site.http2();
    assert_eq!(old.get("/hello").text(), new.get("/hello").text());
    let is_logged = |protocol: &str| site.log().contains(&format!("\"protocol\":\"{protocol}\""));
    eventually("both are logged", || is_logged("HTTP/1.1") && is_logged("HTTP/2.0"));
}
