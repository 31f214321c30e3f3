//! The port that redirects to HTTPS: its targets and its limits.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::tls::Certificates;

struct Site {
    svc: Svc,
    _certificates: Certificates,
}

impl Site {
    fn start(names: &[&[&str]], more: &[(&str, &str)]) -> Self {
        let certificates = Certificates::new(names);
        let list = |path: &dyn Fn(usize) -> std::path::PathBuf| {
            let paths: Vec<_> = (0..names.len()).map(|index| path(index).display().to_string()).collect();
            paths.join(",")
        };
        let (certs, keys) = (list(&|index| certificates.cert(index)), list(&|index| certificates.key(index)));
        let mut settings =
            vec![("TLS_CERT", certs.as_str()), ("TLS_KEY", keys.as_str()), ("REDIRECT_ADDR", "127.0.0.1:0")];
        settings.extend_from_slice(more);
        Self { svc: Svc::start(&[("index.html", "hello")], &settings), _certificates: certificates }
    }

    fn addr(&self) -> SocketAddr {
        let record = self.svc.log().expect("redirect port is listening");
        record["fields"]["addr"].as_str().unwrap().parse().unwrap()
    }

    fn location(&self, host: &str, target: &str) -> (u16, Option<String>) {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n");
        let response = Client::connect(self.addr()).request(&head);
        (response.status, response.field("location").map(str::to_owned))
    }
}

#[test]
fn the_name_of_the_host_stays_if_a_certificate_covers_it() {
    let site = Site::start(&[&["a.test", "www.a.test"], &["*.b.test"]], &[]);
    let port = site.svc.main().port();
    for (host, expected) in [
        ("a.test", "a.test"),
        ("WWW.A.TEST:80", "www.a.test"),
        ("x.b.test", "x.b.test"),
        ("b.test", "a.test"),
        ("evil.test", "a.test"),
        ("a.test.evil.test", "a.test"),
        ("127.0.0.1", "a.test"),
        ("[::1]:80", "a.test"),
    ] {
        let (status, location) = site.location(host, "/a%20b?c=%0d&d");
        assert_eq!(
            (status, location),
            (308, Some(format!("https://{expected}:{port}/a%20b?c=%0d&d"))),
            "{host}"
        );
    }
    assert_eq!(site.location("a.test", "//evil.test/").1, Some(format!("https://a.test:{port}//evil.test/")));
    let mut client = Client::connect(site.addr());
    assert_eq!(client.post("/form", b"x=1").status, 308, "the method is kept");
}

#[test]
fn a_request_without_a_host_has_nowhere_to_go() {
    let site = Site::start(&[&["a.test"]], &[]);
    for head in [
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n",
        "GET / HTTP/1.1\r\nHost: \r\n",
        "GET / HTTP/1.0\r\n",
    ] {
        let response = Client::connect(site.addr()).request(head);
        assert_eq!((response.status, response.field("location")), (400, None), "{head}");
    }
    assert_eq!(Site::start(&[&["*.a.test"]], &[]).location("evil.test", "/").0, 400, "no name is known");
}

#[test]
fn nothing_else_is_served_there() {
    let site = Site::start(&[&["a.test"]], &[("RATE_LIMIT", "3")]);
    let mut client = Client::connect(site.addr());
    for method in ["GET", "HEAD", "OPTIONS", "DELETE"] {
        client.send(format!("{method} /index.html HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let response = if method == "HEAD" { client.head_only() } else { client.response() };
        assert_eq!(response.status, if method == "DELETE" { 429 } else { 308 }, "{method}");
    }
}

#[test]
fn its_connections_are_bounded_like_all_others() {
    let site = Site::start(&[&["a.test"]], &[("MAX_CONNECTIONS", "1"), ("HEADER_TIMEOUT_SECONDS", "600")]);
    let slow = Client::connect(site.addr());
    eventually("it is open", || site.svc.metric("svc_active_connections") >= 1.0);
    let mut next = Client::connect(site.addr());
    next.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("no place is left", || site.svc.metric("svc_accept_stalled") == 1.0);
    drop(slow);
    assert_eq!(next.response().status, 308);
    let site = Site::start(&[&["a.test"]], &[("HEADER_TIMEOUT_SECONDS", "1")]);
    let mut late = Client::connect(site.addr());
    late.send("GET / HTTP/1.1\r\n");
    let mut rest = Vec::new();
    late.socket().read_to_end(&mut rest).unwrap();
    assert!(String::from_utf8_lossy(&rest).starts_with("HTTP/1.1 408"), "the head is late");
}

#[test]
fn it_needs_tls_and_a_separate_address() {
    for (settings, part) in [
        (
            &[("REDIRECT_ADDR", "127.0.0.1:0")][..],
            "REDIRECT_ADDR: \"127.0.0.1:0\" has no effect without TLS_CERT",
        ),
        (
            &[("REDIRECT_ADDR", "127.0.0.1:81"), ("LISTEN_ADDR", "127.0.0.1:81")],
            "REDIRECT_ADDR: \"127.0.0.1:81\" conflicts with LISTEN_ADDR",
        ),
        (
            &[("REDIRECT_ADDR", "127.0.0.1:81"), ("INTERNAL_ADDR", "127.0.0.1:81")],
            "INTERNAL_ADDR: \"127.0.0.1:81\" conflicts with REDIRECT_ADDR",
        ),
    ] {
        let output = svc_testing::command(Path::new("/"), settings).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(part), "{text}");
    }
}
