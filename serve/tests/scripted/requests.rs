//! The server end to end over real sockets, with an engine that takes its commands from the path instead of PHP.

use crate::support::Site;
use svc_core::admission::ShedReason;
use svc_core::observe::{CancelReason, StatusClass};
use svc_testing::client::{Client, eventually};

fn raw(site: &Site, request: &str) -> String {
    let mut client = site.client();
    client.send(request);
    String::from_utf8(client.rest()).unwrap()
}

#[test]
fn a_request_is_answered_and_the_connection_kept() {
    let site = Site::start(&[]);
    let mut client = site.client();
    for _ in 0..3 {
        let response = client.get("/hello");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.field("content-length"), Some("5"));
        assert_eq!(response.field("connection"), None);
        assert!(response.field("date").is_some());
        assert_eq!(response.field("x-request-id").unwrap().len(), 32);
    }
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().responses.value(StatusClass::Success), 3);
    assert_eq!(site.metrics().response_bytes.value(), 15);
    assert_eq!(site.metrics().queue_wait.snapshot().count(), 3);
}

#[test]
fn a_given_request_id_comes_back() {
    let site = Site::start(&[]);
    let response = site.client().request("GET /hello HTTP/1.1\r\nHost: x\r\nX-Request-ID: mine-1");
    assert_eq!(response.field("x-request-id"), Some("mine-1"));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Site::start(&[]);
    let mut client = site.client();
    let names = ["a", "b", "c", "d"];
    let requests: String =
        names.iter().map(|name| format!("GET /wait/{name} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    client.send(requests);
    site.until_inside("a");
    assert!(!site.switches.is_inside("b"), "the second began before the first was answered");
    for name in names {
        site.until_inside(name);
        site.switches.open(name);
        assert_eq!(client.response().text(), name);
    }
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().cancelled.value(CancelReason::ClientAbort), 0);
}

#[test]
fn old_clients_get_the_end_of_the_connection_as_the_end_of_the_body() {
    let site = Site::start(&[]);
    site.switches.open("s");
    let answer = raw(&site, "GET /stream/s HTTP/1.0\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nfirstsecond"), "{answer}");
    assert!(!answer.contains("Transfer-Encoding") && answer.contains("Connection: close"), "{answer}");
    let answer = raw(&site, "GET /hello HTTP/1.0\r\n\r\n");
    assert!(answer.contains("Content-Length: 5") && answer.contains("Connection: close"), "{answer}");
}

#[test]
fn old_clients_may_ask_to_be_kept() {
    let site = Site::start(&[]);
    let mut client = site.client();
    for _ in 0..2 {
        let response = client.request("GET /hello HTTP/1.0\r\nConnection: keep-alive");
        assert_eq!(response.field("connection"), Some("keep-alive"));
        assert_eq!(response.text(), "hello");
    }
}

#[test]
fn connection_close_is_honoured() {
    let site = Site::start(&[]);
    let mut client = site.client();
    let response = client.request("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close");
    assert_eq!(response.field("connection"), Some("close"));
    client.expect_end();
}

#[test]
fn a_refused_head_request_gets_no_body() {
    let site = Site::start(&[("HEADER_TIMEOUT_SECONDS", "1"), ("MAX_BODY_BYTES", "1")]);
    let many = "X: y\r\n".repeat(200);
    for (request, status) in [
        ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("\r\nHEAD / HTTP/2.5\r\nHost: x\r\n\r\n".to_owned(), "505"),
        (format!("HEAD / HTTP/1.1\r\nHost: x\r\n{many}\r\n"), "431"),
        ("HEAD /%zz HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "400"),
        ("HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n".to_owned(), "413"),
        ("HEAD / HTTP/1.1\r\nHo".to_owned(), "408"),
    ] {
        let mut client = site.client();
        client.send(&request);
        if status != "408" {
            client.half_close();
        }
        let response = client.head_only();
        assert_eq!(response.status.to_string(), status, "{request:?}");
        assert_ne!(response.field("content-length"), Some("0"), "{request:?}");
        if status == "408" {
            client.half_close();
        }
        client.expect_end();
    }
    assert!(raw(&site, "GET / HTTP/1.1\r\n\r\n").ends_with("400 Bad Request\n"));
    site.check_books();
}

#[test]
fn bodies_of_all_sizes_and_framings_arrive_whole() {
    let site = Site::start(&[]);
    let mut client = site.client();
    for size in [0, 1, 1000, 65_536, 65_537, 200_000, 3_000_000] {
        let body: Vec<u8> = (0..size).map(|place: u32| place.to_le_bytes()[0]).collect();
        let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(client.post("/echo", &body).text(), format!("{size} {sum}"));
        client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(7001) {
            client.send(format!("{:x}\r\n", piece.len()));
            client.send(piece);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        assert_eq!(client.response().text(), format!("{size} {sum}"));
    }
    drop(client);
    site.check_books();
    assert_eq!(site.shared().spool.bytes(), 0, "the spool is not empty");
}

#[test]
fn a_body_in_drips_with_the_next_request_behind_it() {
    let site = Site::start(&[]);
    let mut client = site.client();
    let bytes = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\x01\x02\x03GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
    for byte in bytes {
        client.send([*byte]);
    }
    assert_eq!(client.response().text(), "3 6");
    assert_eq!(client.response().text(), "hello");
}

#[test]
fn continue_is_sent_when_the_body_is_wanted() {
    let site = Site::start(&[]);
    let mut client = site.client();
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head_only().status, 100);
    client.send([1, 1]);
    assert_eq!(client.response().text(), "2 2");
    client
        .send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n\x01\x01");
    assert_eq!(client.head_only().status, 200, "the body was there already");
}

#[test]
fn a_body_that_is_too_long_is_refused_before_it_is_sent() {
    let site = Site::start(&[("MAX_BODY_BYTES", "10"), ("MAX_QUERY_BODY", "5")]);
    let mut client = site.client();
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
    let response = client.head_only();
    assert_eq!((response.status, response.field("connection")), (413, Some("close")));
    let mut client = site.client();
    let response = client.request("QUERY /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6");
    assert_eq!(response.status, 413);
    let mut client = site.client();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n",
    );
    assert_eq!(client.response().status, 413);
    drop(client);
    site.check_books();
}

#[test]
fn a_client_that_sends_on_still_reads_its_refusal() {
    let site = Site::start(&[("MAX_BODY_BYTES", "10")]);
    let mut client = site.client();
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n");
    client.send(vec![b'x'; 500_000]);
    assert_eq!(client.response().status, 413);
    client.half_close();
    client.expect_end();
}

#[test]
fn malformed_requests_are_refused_and_counted() {
    let site = Site::start(&[]);
    for (request, status) in [
        ("GARBAGE\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/2.5\r\nHost: x\r\n\r\n", "505"),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"),
        ("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        ("TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
        ("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", "405"),
    ] {
        let mut client = site.client();
        client.send(request);
        client.half_close();
        let answer = String::from_utf8(client.rest()).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
    site.check_books();
    assert_eq!(site.metrics().requests_by_method.total(), 8);
}

#[test]
fn options_for_the_server_as_a_whole_names_the_methods() {
    let site = Site::start(&[]);
    let response = site.client().request("OPTIONS * HTTP/1.1\r\nHost: x");
    assert_eq!(response.status, 204);
    assert!(response.field("allow").unwrap().contains("QUERY"));
}

#[test]
fn overload_is_refused_with_529_and_its_words() {
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
    let site = Site::start(&settings);
    let (mut running, mut queued, mut refused) = (site.client(), site.client(), site.client());
    running.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    queued.send("GET /wait/b HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("one is queued", || site.shared().gate_facts().unwrap().depth == 1);
    let response = refused.get("/hello");
    assert_eq!((response.status, response.reason.as_str()), (529, "Site is overloaded"));
    assert_eq!(response.text(), "Site is overloaded");
    assert_eq!(response.field("retry-after"), Some("1"));
    assert_eq!(response.field("connection"), None, "a refusal does not cost the connection");
    assert_eq!(site.metrics().pending_requests.value(), 2);
    site.switches.open_all();
    assert_eq!((running.response().text(), queued.response().text()), ("a".into(), "b".into()));
    assert_eq!(refused.get("/hello").status, 200);
    drop((running, queued, refused));
    site.check_books();
    assert_eq!(site.metrics().refused.value(ShedReason::QueueFull), 1);
}

#[test]
fn without_workers_waiting_and_new_requests_are_answered_500() {
    let site = Site::start(&[("PHP_WORKERS", "1")]);
    let mut last = site.client();
    last.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    let (mut dying, mut queued) = (site.client(), site.client());
    dying.send("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the death is queued", || site.shared().gate_facts().unwrap().depth == 1);
    queued.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("one waits behind it", || site.shared().gate_facts().unwrap().depth == 2);
    // A replacement must not boot before the last check.
    site.switches.refuse_boots(true);
    site.switches.open("a");
    assert_eq!(last.response().text(), "a");
    assert_eq!(dying.response().status, 500);
    assert_eq!(queued.response().status, 500);
    assert_eq!(last.get("/hello").status, 500);
    drop((last, dying, queued));
    site.check_books();
    eventually("it is counted", || site.metrics().dropped.value() == 1);
    assert_eq!(site.metrics().refused.value(ShedReason::PoolUnavailable), 2);
}

#[test]
fn a_connection_without_a_permit_waits_and_the_waiting_is_seen() {
    let site = Site::start(&[("MAX_CONNECTIONS", "1")]);
    let mut first = site.client();
    assert_eq!(first.get("/hello").status, 200);
    let mut second = site.client();
    second.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    let metrics = site.metrics();
    eventually("the accept loop is parked", || metrics.accept_stalled.is_set());
    assert_eq!((metrics.accept_stalls.value(), metrics.connections.value()), (1, 1));
    drop(first);
    assert_eq!(second.response().text(), "hello");
    eventually("the accept loop runs", || !metrics.accept_stalled.is_set());
    drop(second);
    site.check_books();
}

#[test]
fn files_are_served_beside_the_script() {
    let site = Site::start(&[]);
    let text: Vec<u8> = (0..300_000u32).map(|place| place.to_le_bytes()[0]).collect();
    std::fs::write(site.root.path().join("big.txt"), &text).unwrap();
    std::fs::write(site.root.path().join("empty.css"), "").unwrap();
    let mut client = site.client();
    let response = client.get("/big.txt");
    assert_eq!((response.status, response.field("content-type")), (200, Some("text/plain; charset=utf-8")));
    assert!(response.body == text);
    let etag = response.field("etag").unwrap().to_owned();
    let response = client.request(&format!("GET /big.txt HTTP/1.1\r\nHost: x\r\nIf-None-Match: {etag}"));
    assert_eq!((response.status, response.body.len()), (304, 0));
    let response = client.request("HEAD /big.txt HTTP/1.1\r\nHost: x");
    assert_eq!(response.field("content-length"), Some("300000"));
    assert_eq!(client.get("/empty.css").field("content-length"), Some("0"));
    assert_eq!(client.post("/big.txt", b"abc").status, 405);
    assert_eq!(client.post("/big.txt", &vec![b'x'; 500_000]).status, 405, "the body behind the answer");
    assert_eq!(client.get("/hello").text(), "hello");
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().static_misses.value(), 2);
    assert_eq!(site.metrics().queue_wait.snapshot().count(), 1);
}

#[test]
fn the_stub_answers_without_a_pool() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::start_in(root, &[("EXECUTOR", "stub"), ("ENTRY_FILE", "")]);
    let mut client = site.client();
    let response = client.get("/anything");
    assert_eq!(response.status, 200);
    assert!(response.text().contains("without PHP"));
    assert!(site.shared().gate_facts().is_none());
    drop(client);
    site.check_books();
}

#[test]
fn many_clients_at_once_each_get_their_own_answer() {
    let site = Site::start(&[]);
    let addr = site.addr();
    site.switches.open_all();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let mut client = Client::connect(addr);
                for turn in 0..200 {
                    let name = format!("{thread}-{turn}");
                    assert_eq!(client.get(&format!("/wait/{name}")).text(), name);
                    let body = vec![u8::try_from(thread).unwrap(); turn];
                    assert_eq!(client.post("/echo", &body).text(), format!("{turn} {}", turn * thread));
                }
            });
        }
    });
    site.check_books();
    assert_eq!(site.metrics().responses.value(StatusClass::Success), 8 * 400);
    assert_eq!(site.metrics().queue_wait.snapshot().count(), 8 * 400);
}

/// Deterministic random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Returns a request of one of many kinds, and the expected body of its response.
fn any_request(chance: &mut Chance, number: u32) -> (Vec<u8>, String) {
    let body: Vec<u8> = (0..chance.below(3000)).map(|place| place.to_le_bytes()[0]).collect();
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    let echoed = format!("{} {sum}", body.len());
    match chance.below(5) {
        0 => (format!("GET /wait/{number} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes(), number.to_string()),
        1 => (b"GET /note.txt HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "note".to_owned()),
        2 => {
            let head =
                format!("POST /note.txt HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
            ([head.as_bytes(), &body].concat(), "405 Method Not Allowed\n".to_owned())
        }
        3 => {
            let head = format!("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
            ([head.as_bytes(), &body].concat(), echoed)
        }
        _ => {
            let mut bytes =
                b"\r\nPOST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for chunk in body.chunks(usize::try_from(chance.below(900)).unwrap() + 1) {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            (bytes, echoed)
        }
    }
}

#[test]
fn any_mix_of_requests_in_any_pieces_gets_its_answers_in_order() {
    let site = Site::start(&[]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    site.switches.open_all();
    for seed in 1..=20u64 {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut client = site.client();
        let requests: Vec<_> = (0..30).map(|number| any_request(&mut chance, number)).collect();
        let bytes: Vec<u8> = requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let mut sender = client.socket().try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let count = usize::try_from(chance.below(2000)).unwrap().clamp(1, rest.len());
                    std::io::Write::write_all(&mut sender, &rest[..count]).unwrap();
                    rest = &rest[count..];
                }
            });
            for (number, (_, expected)) in requests.iter().enumerate() {
                assert_eq!(client.response().text(), *expected, "seed {seed}, request {number}");
            }
        });
    }
    site.check_books();
    assert_eq!(site.metrics().requests_by_method.total(), 600);
}
