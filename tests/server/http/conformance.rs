//! HTTP/1 on the wire, byte by byte: rejected messages, persistent connections, request smuggling.

use serde_json::Value;

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::http2::{Http2Client, head};

/// Prints the request as PHP sees it.
const SEEN: &str = "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' ', strlen(file_get_contents('php://input')), ';';";

fn start() -> Svc {
    Svc::start(&[("index.php", SEEN)], &[("ENTRY_FILE", "index.php"), ("MAX_BODY_BYTES", "100000")])
}

/// Sends `bytes`, closes the sending side, and returns the whole response.
fn exchange(svc: &Svc, bytes: &[u8]) -> String {
    let mut client = svc.client();
    client.send(bytes);
    // Closing would be a hang-up; the server closes by itself after an error.
    String::from_utf8(client.rest()).unwrap()
}

#[test]
fn ambiguous_and_malformed_requests_are_refused_and_the_connection_closed() {
    let svc = start();
    for (name, request, status) in [
        (
            "two lengths",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
            400,
        ),
        ("list of lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello", 400),
        ("signed length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", 400),
        ("hex length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello", 400),
        (
            "length and chunked",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        ("chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("chunked twice", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400),
        ("unknown coding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zstd, chunked\r\n\r\n", 501),
        ("chunk size", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400),
        ("chunk end", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naXX", 400),
        ("space before colon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        ("folded line", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
        ("bare line feed", "GET / HTTP/1.1\nHost: x\n\n", 400),
        ("bare carriage return", "GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", 400),
        ("NUL", "GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
        ("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        ("two hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        ("bad host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ("a host with an empty label", "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n", 400),
        ("a host that begins with a dot", "GET / HTTP/1.1\r\nHost: .a:80\r\n\r\n", 400),
        ("a target with an empty label", "GET http://a..b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("port without a host", "GET / HTTP/1.0\r\nHost: :8080\r\n\r\n", 400),
        ("no address in brackets", "GET / HTTP/1.1\r\nHost: [zz]\r\n\r\n", 400),
        ("old protocol", "GET /\r\n\r\n", 400),
        ("new protocol", "GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505),
        ("TLS", "\u{16}\u{3}\u{1}\u{0}", 400),
    ] {
        let answer = exchange(&svc, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer:?}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{name}: {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{name}: {answer:?}");
    }
}

#[test]
fn later_minor_versions_and_fragments_are_taken_as_nginx_takes_them() {
    let svc =
        Svc::start(&[("index.php", "<?php echo $_SERVER['SERVER_PROTOCOL'], ' ', json_encode($_GET);")], &[]);
    let answer = exchange(&svc, b"GET /?a=1#?b=2 HTTP/1.2\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nHTTP/1.1 {\"a\":\"1\"}"),
        "{answer}"
    );
}

#[test]
fn records_of_refused_heads_have_the_request_line() {
    let svc = Svc::start(&[], &[("ACCESS_LOG", "error")]);
    let long = "a".repeat(40_000);
    for (records, (request, status)) in (1..).zip([
        (format!("GET /long/{long} HTTP/1.1\r\nHost: x\r\n\r\n"), 414),
        (format!("PUT /many?secret HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(200)), 431),
        ("POST /new HTTP/3.0\r\nHost: x\r\n\r\n".to_owned(), 505),
        ("GET /bad HTTP/1.1\r\nA : b\r\n\r\n".to_owned(), 400),
        ("GET /bad path HTTP/1.1\r\n\r\n".to_owned(), 400),
    ]) {
        assert!(exchange(&svc, request.as_bytes()).starts_with(&format!("HTTP/1.1 {status} ")));
        eventually("it is logged", || svc.log().of("access").len() == records);
    }
    let text = |record: &Value, name: &str| record["fields"][name].as_str().unwrap().to_owned();
    let told: Vec<_> =
        svc.log().of("access").iter().map(|it| (text(it, "method"), text(it, "path"))).collect();
    let told: Vec<_> =
        told.iter().map(|(method, path)| (method.as_str(), &path[..path.len().min(10)])).collect();
    assert_eq!(told, [("GET", "/long/aaaa"), ("PUT", "/many"), ("POST", "/new"), ("GET", "/bad"), ("", "")]);
}

#[test]
fn limits_have_their_own_statuses() {
    let svc = start();
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(40_000));
    assert!(exchange(&svc, long_target.as_bytes()).starts_with("HTTP/1.1 414 "));
    let long_head = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(70_000));
    assert!(exchange(&svc, long_head.as_bytes()).starts_with("HTTP/1.1 431 "));
    let many_fields = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(200));
    assert!(exchange(&svc, many_fields.as_bytes()).starts_with("HTTP/1.1 431 "));
    let long_body = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n";
    assert!(exchange(&svc, long_body.as_bytes()).starts_with("HTTP/1.1 413 "));
}

#[test]
fn bytes_after_a_body_are_the_next_request() {
    let svc = start();
    let mut client = svc.client();
    client.send(concat!(
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nGET ",
        "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\nGET /\r\n0\r\nT: v\r\n\r\n",
        "\r\nGET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    ));
    assert_eq!(client.response().text(), "POST /a 4;");
    assert_eq!(client.response().text(), "POST /b 5;");
    assert_eq!(client.response().text(), "GET /c 0;");
    client.expect_end();
}

#[test]
fn methods_are_passed_on_but_for_those_that_have_no_meaning_here() {
    let svc = start();
    let mut client = svc.client();
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY", "PROPFIND"] {
        let response = client.request(&format!("{method} /m HTTP/1.1\r\nHost: x"));
        assert_eq!((response.status, response.text()), (200, format!("{method} /m 0;")));
    }
    assert_eq!(client.request("TRACE / HTTP/1.1\r\nHost: x").status, 405);
    let response = client.request("OPTIONS * HTTP/1.1\r\nHost: x");
    assert_eq!(response.status, 204);
    assert!(response.field("allow").is_some_and(|allow| allow.contains("GET")));
    let response = client.request("CONNECT x:80 HTTP/1.1\r\nHost: x:80");
    assert_eq!(response.status, 405);
    svc.assert_metric("svc_requests_by_method_total{method=\"OTHER\"}", 2.0);
    svc.assert_metric("svc_requests_by_method_total{method=\"QUERY\"}", 1.0);
}

#[test]
fn head_gets_the_head_of_get() {
    let svc = Svc::start(&[("index.php", "<?php header('Content-Length: 5'); echo 'hello';")], &[]);
    let mut client = svc.client();
    let response = client.request("HEAD / HTTP/1.1\r\nHost: x");
    assert_eq!((response.status, response.field("content-length")), (200, Some("5")));
    assert_eq!(client.get("/").text(), "hello");
}

#[test]
fn connection_tokens_decide_whether_the_connection_lives() {
    let svc = start();
    for (head, lives) in [
        ("GET / HTTP/1.1\r\nHost: x", true),
        ("GET / HTTP/1.1\r\nHost: x\r\nConnection: close", false),
        ("GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, Close", false),
        ("GET / HTTP/1.0", false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive", true),
    ] {
        let mut client = svc.client();
        assert_eq!(client.request(head).text(), "GET / 0;", "{head}");
        if lives {
            assert_eq!(client.get("/again").text(), "GET /again 0;", "{head}");
        } else {
            client.expect_end();
        }
    }
}

#[test]
fn an_expectation_is_met_when_the_body_is_wanted() {
    let svc = start();
    let mut client = svc.client();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head_only().status, 100);
    client.send("abc");
    assert_eq!(client.response().text(), "POST / 3;");
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head_only().status, 413);
}

#[test]
fn absolute_targets_name_the_host() {
    let script = "<?php echo $_SERVER['HTTP_HOST'], ' ', $_SERVER['REQUEST_URI'];";
    let svc = Svc::start(&[("index.php", script)], &[]);
    for (request, seen) in [
        ("GET http://example.org/?a HTTP/1.1\r\nHost: example.org", "example.org /?a"),
        ("GET http://example.org/?a HTTP/1.1\r\nHost: other.example", "example.org /?a"),
        ("GET http://example.org:81/?a HTTP/1.0", "example.org:81 /?a"),
        ("GET http://example.org/?a HTTP/1.0\r\nHost: other.example", "example.org /?a"),
    ] {
        assert_eq!(svc.client().request(request).text(), seen, "{request}");
    }
}

#[test]
fn blanks_behind_a_chunk_size_are_dropped() {
    let svc = start();
    for blanks in [" ", "\t ", " ;a=b", "   "] {
        let body = format!("5{blanks}\r\nhello\r\n0{blanks}\r\n\r\n");
        let head = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let next = "GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let answer = exchange(&svc, format!("{head}{body}{next}").as_bytes());
        assert!(answer.contains("POST /a 5;") && answer.contains("GET /b 0;"), "{blanks:?}: {answer}");
    }
}

#[test]
fn a_host_of_http2_has_no_empty_label() {
    let svc = start();
    for (host, status) in [("a..b", 400), (".a", 400), ("a.b.", 200)] {
        let mut client = Http2Client::connect(svc.main());
        let mut fields = head("GET", "/");
        fields[2].1 = host;
        let id = client.open(&fields, true);
        assert_eq!(client.response(id).status, status, "{host}");
    }
}
