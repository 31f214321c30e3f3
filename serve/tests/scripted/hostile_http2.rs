//! Malicious and broken HTTP/2 clients: no panic, no leak, no effect on other clients.

use crate::support::Site;
use svc_core::limits::HTTP2_STREAMS_BESIDE_MIN;
use svc_testing::client::eventually;
use svc_testing::http2::{
    END_HEADERS, END_STREAM, Http2Client, PREFACE, block, code, frame, head, kind, setting,
};

/// Starts a site with one I/O thread, so that any delay affects the other clients.
fn site() -> Site {
    Site::start(&[("IO_WORKERS", "1"), ("HEADER_TIMEOUT_SECONDS", "1")])
}

/// Checks that the other client was not affected, and that no request is left.
fn check_peace(site: &Site, mut witness: Http2Client) {
    // Releases workers that were held by the test rather than the client.
    site.switches.open_all();
    assert_eq!(witness.get("/hello").text(), "hello");
    drop(witness);
    site.check_books();
}

/// Sends `bytes` a few times or until the connection ends; returns the error code of the end.
fn until_thrown_out(client: &mut Http2Client, bytes: &[u8]) -> Option<u32> {
    for _ in 0..12 {
        if !client.try_send(bytes) {
            break;
        }
    }
    client.expect_end()
}

#[test]
fn a_rapid_reset_is_thrown_out() {
    let site = site();
    let (mut witness, mut client) = (site.http2(), site.http2());
    witness.ping();
    let mut flood = Vec::new();
    for _ in 0..500 {
        let id = client.next_id();
        flood.extend(frame(kind::HEADERS, END_HEADERS | END_STREAM, id, &block(&head("GET", "/wait/a"))));
        flood.extend(frame(kind::RST_STREAM, 0, id, &code::CANCEL.to_be_bytes()));
    }
    client.try_send(&flood);
    assert_eq!(client.expect_end(), Some(code::ENHANCE_YOUR_CALM));
    check_peace(&site, witness);
}

#[test]
fn a_patient_rapid_reset_is_thrown_out_too() {
    // Each request is seen before it is reset, so that the library accepts the reset.
    let site = site();
    let (witness, mut client) = (site.http2(), site.http2());
    let mut resets = 0;
    while !client.has_ended {
        let id = client.ask("/wait/a");
        client.try_send(&frame(kind::PING, 0, 0, b"12345678"));
        client.try_send(&frame(kind::RST_STREAM, 0, id, &code::CANCEL.to_be_bytes()));
        let before = client.pongs;
        while client.pongs == before && client.read() {}
        resets += 1;
        assert!(resets < 1000, "it is let go on");
    }
    assert_eq!(client.expect_end(), Some(code::ENHANCE_YOUR_CALM));
    check_peace(&site, witness);
}

#[test]
fn resets_that_the_server_is_made_to_send_count_as_well() {
    let site = site();
    let (witness, mut client) = (site.http2(), site.http2());
    let mut faults = 0;
    while !client.has_ended {
        let id = client.ask("/wait/a");
        // A window beyond the maximum is a stream error.
        client.try_send(&frame(kind::WINDOW_UPDATE, 0, id, &0x7fff_ffffu32.to_be_bytes()));
        client.until_over(id);
        faults += 1;
        assert!(faults < 2000, "it is let go on");
    }
    assert_eq!(client.expect_end(), Some(code::ENHANCE_YOUR_CALM));
    check_peace(&site, witness);
}

#[test]
fn a_page_that_is_left_twice_is_no_attack() {
    let site = site();
    let mut client = site.http2();
    for round in 0..2 {
        let ids: Vec<_> = (0..128).map(|_| client.ask("/wait/a")).collect();
        client.ping();
        ids.into_iter().for_each(|id| client.reset(id, code::CANCEL));
        client.ping();
        assert_eq!(site.metrics().requests_by_method.total(), (round + 1) * 128);
    }
    site.switches.open_all();
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
}

#[test]
fn floods_of_frames_without_content_are_thrown_out() {
    let site = site();
    let mut witness = site.http2();
    let zero = 0u32.to_be_bytes();
    let many = |frame: Vec<u8>| frame.repeat(1000);
    for (name, flood) in [
        ("PING", many(frame(kind::PING, 0, 0, b"12345678"))),
        ("SETTINGS", many(frame(kind::SETTINGS, 0, 0, b""))),
        ("PRIORITY", many(frame(kind::PRIORITY, 0, 3, &[0, 0, 0, 1, 7]))),
        ("WINDOW_UPDATE", many(frame(kind::WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes()))),
        ("unknown", many(frame(77, 0, 0, b""))),
        ("ACK of a PING", many(frame(kind::PING, END_STREAM, 0, &[zero, zero].concat()))),
    ] {
        let mut client = site.http2();
        let reason = until_thrown_out(&mut client, &flood);
        assert!(reason.is_some_and(|reason| reason != code::NO_ERROR), "{name}: {reason:?}");
        assert_eq!(witness.get("/hello").status, 200);
    }
    for (name, piece) in [("empty", &b""[..]), ("tiny", b"x")] {
        let mut client = site.http2();
        let id = client.open(&head("POST", "/echo"), false);
        let reason = until_thrown_out(&mut client, &many(frame(kind::DATA, 0, id, piece)));
        assert!(reason.is_some_and(|reason| reason != code::NO_ERROR), "{name} DATA: {reason:?}");
    }
    check_peace(&site, witness);
}

#[test]
fn a_flood_without_a_reader_closes_one_connection() {
    let site = Site::start(&[("IO_WORKERS", "1"), ("WRITE_TIMEOUT_SECONDS", "1")]);
    let witness = site.http2();
    let mut client = site.http2();
    client.send(&frame(kind::PING, 0, 0, b"12345678").repeat(9_000));
    eventually("it is read", || site.metrics().connections.value() == 2);
    drop(client);
    check_peace(&site, witness);
}

#[test]
fn streams_over_the_limit_of_all_are_refused_except_one_per_connection() {
    let site = Site::start(&[("MAX_CONNECTIONS", "100"), ("PHP_WORKERS", "1")]);
    let beside = HTTP2_STREAMS_BESIDE_MIN;
    let mut hoarders: Vec<_> = (0..9).map(|_| site.http2()).collect();
    for client in &mut hoarders {
        for _ in 0..120 {
            client.open(&head("POST", "/echo"), false);
        }
        client.ping();
    }
    assert_eq!(site.shared().stream_permits.free(), 0);
    assert_eq!(site.metrics().requests_by_method.total(), beside as u64 + 9);
    let mut late = site.http2();
    let first = late.open(&head("POST", "/echo"), false);
    let second = late.ask("/hello");
    late.until_over(second);
    assert_eq!(late.heard(second).reset, Some(code::REFUSED_STREAM));
    // The requests of the hoarding connections were refused, too.
    assert_eq!(site.metrics().streams_refused.value(), (9 * 120 - 9 - beside + 1) as u64);
    late.upload(first, b"");
    assert_eq!(late.response(first).status, 200);
    assert_eq!(late.get("/hello").text(), "hello", "one at a time goes on");
    drop(hoarders);
    eventually("the permits are back", || site.shared().stream_permits.free() == beside);
    assert_eq!(late.get("/hello").text(), "hello");
    drop(late);
    site.check_books();
}

#[test]
fn a_head_without_an_end_is_thrown_out() {
    let site = site();
    let witness = site.http2();
    let mut client = site.http2();
    let id = client.next_id();
    client.frame(kind::HEADERS, 0, id, &block(&head("GET", "/hello")));
    let mut more = Vec::new();
    for _ in 0..1000 {
        more.extend(frame(kind::CONTINUATION, 0, id, &block(&[("x", &"y".repeat(1000))])));
    }
    client.try_send(&more);
    assert!(client.expect_end().is_some_and(|reason| reason != code::NO_ERROR));
    check_peace(&site, witness);
}

#[test]
fn a_head_that_stalls_ends_the_connection_even_beside_a_living_stream() {
    let site = site();
    let witness = site.http2();
    for fields in [&b"\x82"[..], b""] {
        let mut client = site.http2();
        let living = client.ask("/stream/never");
        client.is_generous = false;
        client.until(|client| client.heard(living).body == b"first");
        let id = client.next_id();
        if fields.is_empty() {
            client.send(&frame(kind::PING, 0, 0, b"12345678")[..12]);
        } else {
            client.frame(kind::HEADERS, END_STREAM, id, fields);
        }
        assert_eq!(client.expect_end(), Some(code::ENHANCE_YOUR_CALM));
    }
    check_peace(&site, witness);
}

#[test]
fn a_slow_preface_is_closed() {
    let site = site();
    let mut client = Http2Client::silent(site.addr());
    client.send(&PREFACE[..10]);
    // It may yet become HTTP/1, and is answered as HTTP/1.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(client.socket(), &mut rest).unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&rest));
    site.check_books();
}

#[test]
fn a_bomb_of_references_is_refused_and_the_connection_lives() {
    let site = site();
    let mut client = site.http2();
    let big = "x".repeat(3000);
    // Enters the connection's dynamic table, and is then referenced a thousand times in one head.
    let mut bomb = block(&head("GET", "/hello"));
    bomb.push(0x40);
    bomb.extend([1, b'b', 127, 0xb9, 0x16]);
    bomb.extend(big.as_bytes());
    bomb.extend([0xbe; 1000]);
    let id = client.next_id();
    client.frame(kind::HEADERS, END_HEADERS | END_STREAM, id, &bomb);
    client.until_over(id);
    assert!(client.heard(id).status == 431 || client.farewell.is_some() || client.heard(id).reset.is_some());
    drop(client);
    check_peace(&site, site.http2());
}

#[test]
fn a_head_that_is_too_long_is_431() {
    let site = site();
    let mut client = site.http2();
    let long = "y".repeat(15_000);
    let fields: Vec<_> = head("GET", "/hello").into_iter().chain((0..5).map(|_| ("x", &long[..]))).collect();
    let whole = block(&fields);
    let id = client.next_id();
    let mut pieces = whole.chunks(16_000).peekable();
    let first = pieces.next().unwrap();
    client.frame(kind::HEADERS, END_STREAM, id, first);
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        client.frame(kind::CONTINUATION, flags, id, piece);
    }
    assert_eq!(client.response(id).status, 431);
    assert_eq!(client.get("/hello").status, 200);
    assert_eq!(site.metrics().requests_by_method.total(), 2);
    drop(client);
    site.check_books();
}

#[test]
fn malformed_requests_are_refused_one_by_one() {
    let site = site();
    let mut client = site.http2();
    let with =
        |name: &'static str, value: &'static str| [head("GET", "/hello"), vec![(name, value)]].concat();
    let instead = |name: &str, value: &'static str| -> Vec<_> {
        head("GET", "/hello")
            .into_iter()
            .map(|(key, old)| (key, if key == name { value } else { old }))
            .collect()
    };
    let without = |name: &str| -> Vec<_> {
        head("GET", "/hello").into_iter().filter(|(key, _)| *key != name).collect()
    };
    for (fields, is_answered) in [
        (with("Upper", "1"), false),
        (with("connection", "close"), false),
        (with("transfer-encoding", "chunked"), false),
        (with("keep-alive", "1"), false),
        (with("upgrade", "h2c"), false),
        (with("proxy-connection", "x"), false),
        (with("te", "gzip"), false),
        (with("x", "a\r\nevil: 1"), false),
        (with("x", "a\nb"), false),
        (with("x", "a\0b"), false),
        (with("x y", "1"), false),
        (with("", "1"), false),
        (with(":path", "/other"), false),
        (with(":status", "200"), false),
        (with(":unknown", "1"), false),
        (with("content-length", "5"), false),
        (with("content-length", "x"), false),
        (with("host", "other"), true),
        (instead(":path", ""), false),
        (instead(":path", "/a b"), false),
        (instead(":path", "/ HTTP/1.1\r\nx: y"), false),
        (instead(":method", ""), false),
        (instead(":method", "GET /"), false),
        (instead(":authority", "user@test"), true),
        (instead(":authority", "te st"), false),
        (without(":path"), false),
        (without(":method"), false),
        (without(":scheme"), false),
        (without(":authority"), true),
        ([vec![("x", "1")], head("GET", "/hello")].concat(), false),
    ] {
        let id = client.open(&fields, true);
        client.until_over(id);
        let heard = client.heard(id);
        if is_answered {
            assert_eq!(heard.status, 400, "{fields:?}");
        } else {
            let reason = heard.reset.or(client.farewell.map(|(_, reason)| reason));
            assert_eq!((heard.status, reason), (0, Some(code::PROTOCOL_ERROR)), "{fields:?}");
        }
        if client.has_ended {
            client = site.http2();
        }
    }
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().requests_by_method.total(), 4, "what has no reading is no request");
}

#[test]
fn odd_targets_are_read_as_everywhere() {
    let site = site();
    let mut client = site.http2();
    for (method, path, status) in [
        ("OPTIONS", "*", 204),
        ("GET", "*", 400),
        ("TRACE", "/hello", 405),
        ("GET", "/../hello", 400),
        ("GET", "/%2e%2e/hello", 400),
        ("GET", "/%00", 400),
        ("GET", "/hello?a=`|{}", 200),
        ("BREW", "/hello", 200),
    ] {
        let id = client.open(&head(method, path), true);
        assert_eq!(client.response(id).status, status, "{method} {path}");
    }
    let id = client.open(&[(":method", "CONNECT"), (":authority", "test:80")], true);
    assert_eq!(client.response(id).status, 405);
    let id = client.open(&head("GET", "hello"), true);
    client.until_over(id);
    assert!(client.heard(id).status != 200, "a path begins with a slash");
    drop(client);
    site.check_books();
}

#[test]
fn lengths_that_lie_break_the_stream() {
    let site = site();
    let mut client = site.http2();
    let fields = [head("POST", "/echo"), vec![("content-length", "3")]].concat();
    for body in [&b"1234"[..], b"12"] {
        let id = client.open(&fields, false);
        client.frame(kind::DATA, END_STREAM, id, body);
        client.until_over(id);
        assert_eq!((client.heard(id).status, client.heard(id).reset), (0, Some(code::PROTOCOL_ERROR)));
    }
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.check_books();
}

#[test]
fn faults_of_the_connection_end_it() {
    let site = site();
    let witness = site.http2();
    let get = block(&head("GET", "/hello"));
    for (name, bytes) in [
        ("DATA on no stream", frame(kind::DATA, 0, 0, b"x")),
        ("DATA on an idle stream", frame(kind::DATA, 0, 99, b"x")),
        ("HEADERS on stream 0", frame(kind::HEADERS, END_HEADERS, 0, &get)),
        ("HEADERS on an even stream", frame(kind::HEADERS, END_HEADERS, 2, &get)),
        ("an odd CONTINUATION", frame(kind::CONTINUATION, END_HEADERS, 1, &get)),
        ("RST_STREAM on an idle stream", frame(kind::RST_STREAM, 0, 99, &8u32.to_be_bytes())),
        ("PUSH_PROMISE", frame(kind::PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("a PING of 7 bytes", frame(kind::PING, 0, 0, b"1234567")),
        ("a window of 2^31", frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_ffffu32.to_be_bytes())),
        ("SETTINGS of 5 bytes", frame(kind::SETTINGS, 0, 0, &[0; 5])),
        ("an impossible window", frame(kind::SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])),
        ("a frame too long", [&[0xff, 0xff, 0xff, kind::DATA, 0, 0, 0, 0, 1][..], &[0; 100]].concat()),
        ("HPACK garbage", frame(kind::HEADERS, END_HEADERS, 1, &[0xff; 20])),
        ("padding beyond the frame", frame(kind::HEADERS, END_HEADERS | 8, 1, &[200, 1, 2])),
    ] {
        let mut client = site.http2();
        client.try_send(&bytes);
        let reason = client.expect_end();
        assert!(reason.is_some_and(|reason| reason != code::NO_ERROR), "{name}: {reason:?}");
    }
    check_peace(&site, witness);
}

#[test]
fn frames_on_closed_streams_and_self_dependency_are_harmless() {
    let site = site();
    let witness = site.http2();
    for index in 0..4 {
        let mut client = site.http2();
        let id = client.ask("/hello");
        client.until_over(id);
        client.try_send(&match index {
            0 => frame(kind::DATA, 0, id, b"late"),
            1 => frame(kind::HEADERS, END_HEADERS | END_STREAM, id, &block(&head("GET", "/hello"))),
            2 => frame(kind::WINDOW_UPDATE, 0, id, &1u32.to_be_bytes()),
            _ => frame(kind::PRIORITY, 0, id, &[&id.to_be_bytes()[..], &[1]].concat()),
        });
        client.try_send(&frame(kind::PING, 0, 0, b"12345678"));
        while client.pongs == 0 && client.read() {}
    }
    check_peace(&site, witness);
}

#[test]
fn bytes_that_mean_nothing_never_panic() {
    let site = Site::start(&[("IO_WORKERS", "1"), ("HEADER_TIMEOUT_SECONDS", "1"), ("PHP_WORKERS", "2")]);
    let witness = site.http2();
    let mut random = Random(0x5eed_0001);
    for round in 0..150 {
        let mut client = site.http2();
        for _ in 0..40 {
            let (kind, flags) = (random.below(11), random.below(64));
            let stream = [0, 1, 3, 5, 7, 2][usize::from(random.below(6))];
            let payload: Vec<u8> = match random.below(3) {
                0 => block(&head("GET", "/hello")),
                1 => 1u32.to_be_bytes().to_vec(),
                _ => (0..random.below(40)).map(|_| random.below(255)).collect(),
            };
            if !client.try_send(&frame(kind, flags, stream, &payload)) {
                break;
            }
        }
        client.half_close_if_open();
        client.drain_quietly();
        assert!(site.shared().permits.free() > 0, "round {round}");
    }
    check_peace(&site, witness);
}

/// A deterministic generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u8) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u8::try_from(self.0 >> 20 & 0xff).unwrap() % bound
    }
}

#[test]
fn other_clients_are_answered_while_one_floods() {
    let site = site();
    let mut witness = site.http2();
    witness.ping();
    let addr = site.addr();
    let flooder = std::thread::spawn(move || {
        let flood = frame(kind::PING, 0, 0, b"12345678").repeat(900);
        for _ in 0..50 {
            let mut client = Http2Client::connect(addr);
            for _ in 0..10 {
                client.try_send(&flood);
            }
        }
    });
    let mut worst = std::time::Duration::ZERO;
    let mut asked = 0;
    while !flooder.is_finished() {
        let started = svc_core::time::now();
        assert_eq!(witness.get("/hello").status, 200);
        worst = worst.max(started.elapsed());
        asked += 1;
    }
    flooder.join().unwrap();
    assert!(worst.as_millis() < 2000, "{worst:?} for one of {asked} answers");
    check_peace(&site, witness);
}

#[test]
fn one_busy_connection_leaves_room_for_another() {
    let site = Site::start(&[("IO_WORKERS", "1"), ("PHP_WORKERS", "2")]);
    let mut busy = Http2Client::connect_with(site.addr(), &[(setting::INITIAL_WINDOW_SIZE, 0x7fff_ffff)]);
    busy.widen(0, 0x7fff_0000);
    busy.is_generous = false;
    let ids: Vec<_> = (0..128).map(|_| busy.ask("/flood/1000000")).collect();
    let mut other = site.http2();
    let id = other.ask("/hello");
    other.until_over(id);
    let served = ids.iter().filter(|id| busy.heard(**id).has_ended).count();
    assert_eq!(other.heard(id).body, b"hello");
    assert!(served < 128);
    for id in ids {
        assert_eq!(busy.response(id).body.len(), 1_000_000);
    }
    drop((busy, other));
    site.check_books();
}
