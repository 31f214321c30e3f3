//! TLS on the main port, with clients of two implementations: sessions, protocols, ends of connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use rustix::process::Signal;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::tls::{Certificates, s_client, session};

pub(crate) const NAME: &str = "a.example";

/// A script that answers when a file appears beside it.
const WAITING: &str = r#"<?php
set_time_limit(0);
touch(__DIR__ . '/inside');
while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
echo 'done';
"#;

/// Starts a server with the first `count` of the certificates.
pub(crate) fn start(
    certificates: &Certificates,
    count: usize,
    files: &[(&str, &str)],
    more: &[(&str, &str)],
) -> Svc {
    let pairs = certificates.settings(count);
    let own = pairs.iter().map(|(name, value)| (*name, value.as_str()));
    let settings: Vec<_> = own.chain(more.iter().copied()).collect();
    Svc::start(files, &settings)
}

pub(crate) fn one() -> Certificates {
    Certificates::new(&[&[NAME]])
}

/// Returns bytes whose order is verifiable.
pub(crate) fn sample(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 % 251) as u8).collect()
}

#[test]
fn scripts_know_the_session() {
    let keys = "['HTTPS', 'REQUEST_SCHEME', 'SERVER_PORT', 'SSL_PROTOCOL', 'SSL_CIPHER', 'SSL_TLS_SNI']";
    let script = format!("<?php foreach ({keys} as $key) echo $_SERVER[$key] ?? '-', ' ';");
    let certificates = one();
    let svc = start(&certificates, 1, &[("index.php", &script)], &[]);
    for (version, protocol) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let config = certificates.trust(&[], &[version]);
        let text = Client::connect_tls(svc.main(), session(&config, NAME)).get("/").text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let port = svc.main().port().to_string();
        let [https, scheme, its_port, its_protocol, cipher, name] = words[..] else { panic!("{text}") };
        assert_eq!([https, scheme, its_port, its_protocol, name], ["on", "https", &port, protocol, NAME]);
        assert!(cipher.contains("AES") || cipher.contains("CHACHA20"), "{cipher}");
    }
    // A client that sends no name; scripts see the same name of the cipher as the client.
    let said = ask_with_openssl(svc.main(), &["-tls1_2", "-noservername"]);
    let cipher = said.lines().find_map(|line| line.trim().strip_prefix("Cipher    : ")).unwrap();
    assert!(said.contains(&format!("on https {} TLSv1.2 {cipher} -", svc.main().port())), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
    assert_eq!((&report["tls_enabled"], &report["tls_min_version"]), (&true.into(), &"1.2".into()));
    assert!(!report.to_string().contains(certificates.dir().to_str().unwrap()));
}

/// Sends a request through `openssl s_client`; returns its whole output.
fn ask_with_openssl(addr: SocketAddr, words: &[&str]) -> String {
    let mut child = Command::new("openssl")
        .args(["s_client", "-ign_eof", "-connect", &addr.to_string()])
        .args(words)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    said
}

#[test]
fn curl_is_content_with_both_versions() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("page.txt", "text")], &[]);
    for version in ["1.2", "1.3"] {
        let output = Command::new("curl")
            .args(["-sS", "--http1.1", "--tls-max", version, "--tlsv1.2", "--cacert"])
            .arg(certificates.cert(0))
            .args(["--resolve", &format!("{NAME}:{}:127.0.0.1", svc.main().port())])
            .arg(format!("https://{NAME}:{}/page.txt", svc.main().port()))
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"text", "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Replaces certificate number `index` with an RSA certificate; its key is written in the format `form`.
pub(crate) fn make_rsa(certificates: &Certificates, index: usize, form: &[&str]) {
    let openssl = |words: &[&str]| {
        let output = Command::new("openssl").args(words).current_dir(certificates.dir()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let (cert, key) = (format!("{index}.pem"), format!("{index}.key"));
    let names = "subjectAltName=DNS:rsa.example";
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "new.key",
        "-out",
        &cert,
        "-days",
        "9",
        "-subj",
        "/CN=rsa.example",
        "-addext",
        names,
    ]);
    openssl(&[&["rsa", "-in", "new.key", "-out", &key], form].concat());
}

#[test]
fn old_versions_and_weak_ciphers_are_refused() {
    let certificates = Certificates::new(&[&[NAME], &["rsa.example"]]);
    make_rsa(&certificates, 1, &["-traditional"]);
    let svc = start(&certificates, 2, &[], &[]);
    let strict = start(&certificates, 2, &[], &[("TLS_MIN_VERSION", "1.3")]);
    let agreed = |svc: &Svc, words: &[&str]| !s_client(svc.main(), words).contains("Cipher is (NONE)");
    for old in ["-tls1", "-tls1_1"] {
        assert!(!agreed(&svc, &[old, "-cipher", "ALL:@SECLEVEL=0"]), "{old}");
    }
    assert!(agreed(&svc, &["-tls1_2"]) && agreed(&svc, &["-tls1_3"]));
    assert!(!agreed(&strict, &["-tls1_2"]) && agreed(&strict, &["-tls1_3"]));
    let words = ["ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"];
    let all = Command::new("openssl").args(words).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    let mut accepted: Vec<&str> = all
        .trim()
        .split(':')
        .filter(|cipher| {
            let cipher = format!("{cipher}:@SECLEVEL=0");
            agreed(&svc, &["-tls1_2", "-cipher", &cipher, "-servername", "rsa.example"])
        })
        .collect();
    accepted.sort_unstable();
    assert_eq!(
        accepted,
        [
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "ECDHE-RSA-AES128-GCM-SHA256",
            "ECDHE-RSA-AES256-GCM-SHA384",
            "ECDHE-RSA-CHACHA20-POLY1305",
        ]
    );
    assert!(s_client(svc.main(), &["-tls1_2"]).contains("Secure Renegotiation IS supported"));
}

#[test]
fn clients_resume_their_sessions() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[]);
    for words in [&["-tls1_2", "-reconnect"][..], &["-tls1_2", "-no_ticket", "-reconnect"]] {
        let said = s_client(svc.main(), words);
        assert_eq!(said.lines().filter(|line| line.starts_with("Reused, TLSv1.2")).count(), 5, "{said}");
    }
    svc.assert_metric("svc_tls_handshakes_total{result=\"resumed\"}", 10.0);
    let config = certificates.trust(&[], &[&TLS13]);
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut client = Client::connect_tls(svc.main(), session(&config, NAME));
        assert_eq!(client.get("/a.txt").text(), "a");
        assert_eq!(client.session().handshake_kind(), Some(kind));
    }
    svc.signal(Signal::HUP);
    eventually("it has reloaded", || svc.log().find("reload finished").is_some());
    let mut client = Client::connect_tls(svc.main(), session(&config, NAME));
    assert_eq!(client.get("/a.txt").text(), "a");
    assert_eq!(client.session().handshake_kind(), Some(HandshakeKind::Resumed));
}

#[test]
fn a_protocol_is_agreed_upon() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[]);
    for (offered, agreed) in [(&["unheard/1", "http/1.1"][..], Some(&b"http/1.1"[..])), (&[], None)] {
        let config = certificates.trust(offered, &[&TLS13]);
        let mut client = Client::connect_tls(svc.main(), session(&config, NAME));
        assert_eq!(client.get("/a.txt").text(), "a");
        assert_eq!(client.session().alpn_protocol(), agreed);
    }
    assert!(s_client(svc.main(), &["-alpn", "unheard/1"]).contains("SSL alert number 120"));
}

#[test]
fn the_negotiated_protocol_is_used() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[]);
    for offered in [&["http/1.1"][..], &[]] {
        let mut client =
            Client::connect_tls(svc.main(), session(&certificates.trust(offered, &[&TLS13]), NAME));
        client.send(GET_BIG_OVER_HTTP_2);
        assert_eq!(client.response().status, 505, "{offered:?}");
    }
    let config = certificates.trust(&["h2"], &[&TLS13]);
    let mut client = Client::connect_tls(svc.main(), session(&config, NAME));
    client.send("GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    let said = client.rest();
    assert!(!said.windows(5).any(|part| part == b"HTTP/"), "{said:?}");
    svc.assert_metric("svc_requests_total", 2.0);
}

#[test]
fn http_2_is_negotiated() {
    let certificates = one();
    let echo = "<?php $in = file_get_contents('php://input'); echo $_SERVER['SSL_PROTOCOL'], $in;";
    let big = sample(6 << 20);
    let svc = start(&certificates, 1, &[("echo.php", echo)], &[]);
    std::fs::write(svc.root().join("big.bin"), &big).unwrap();
    let curl = |words: &[&str], path: &str| {
        let output = Command::new("curl")
            .args(["-sS", "--http2", "-w", "%{stderr}%{http_version}", "--cacert"])
            .arg(certificates.cert(0))
            .args(["--resolve", &format!("{NAME}:{}:127.0.0.1", svc.main().port())])
            .args(words)
            .arg(format!("https://{NAME}:{}/{path}", svc.main().port()))
            .output()
            .unwrap();
        assert_eq!(output.stderr, b"2");
        output.stdout
    };
    assert!(curl(&[], "big.bin") == big);
    let body = svc.root().join("big.bin").display().to_string();
    let answer = curl(&["--data-binary", &format!("@{body}")], "echo.php");
    assert!(answer.strip_prefix(b"TLSv1.3").unwrap() == big);
    // A client that reads nothing has the usual time limit.
    let svc = start(&certificates, 1, &[], &[("WRITE_TIMEOUT_SECONDS", "1")]);
    std::fs::write(svc.root().join("far.bin"), vec![0; 32 << 20]).unwrap();
    let config = certificates.trust(&["h2"], &[&TLS13]);
    let mut stuck = Client::connect_tls(svc.main(), session(&config, NAME));
    stuck.send(GET_BIG_OVER_HTTP_2);
    assert_eq!(stuck.session().alpn_protocol(), Some(&b"h2"[..]));
    eventually("it was served", || svc.metric("svc_requests_total") == 1.0);
    eventually("it is closed", || svc.metric("svc_active_connections") == 0.0);
}

/// The preface, settings with large windows, and a request for `/far.bin`.
const GET_BIG_OVER_HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x7f\xff\xff\xff\
    \x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00\
    \x00\x00\x0f\x01\x05\x00\x00\x00\x01\x82\x87\x04\x08/far.bin\x41\x01a";

#[test]
fn a_handshake_has_the_time_of_a_head() {
    let certificates = one();
    let settings = [("HEADER_TIMEOUT_SECONDS", "1"), ("LOG_LEVEL", "debug")];
    let svc = start(&certificates, 1, &[], &settings);
    let mut silent = svc.client();
    let mut slow = svc.client();
    slow.send(b"\x16\x03\x01\x02");
    silent.expect_end();
    slow.expect_end();
    svc.assert_metric("svc_tls_handshakes_total{result=\"failed\"}", 1.0);
    assert_eq!(svc.log().expect("TLS handshake failed")["level"], "DEBUG");
    let records: Vec<_> = svc.log().of("svc");
    let failed = records.iter().filter(|record| record["fields"]["message"] == "TLS handshake failed");
    assert_eq!(failed.count(), 1, "a silent client has not failed");
}

#[test]
fn long_bodies_come_through_byte_by_byte() {
    let echo = "<?php $in = file_get_contents('php://input'); echo $in, md5($in);";
    let certificates = one();
    let svc = Svc::start_with(
        &[("echo.php", echo)],
        &certificates.settings(1).iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>(),
        &["post_max_size=64M", "memory_limit=256M"],
    );
    let sent = sample(20_000_000);
    for len in [0, 1, 16_383, 16_384, 16_385, 70_000, sent.len()] {
        let body = certificates.client(svc.main(), NAME).post("/echo.php", &sent[..len]).body;
        assert_eq!(body.len(), len + 32);
        assert!(body[..len] == sent[..len], "{len}");
    }
}

#[test]
fn requests_that_are_sent_ahead_are_answered_in_order() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("a.txt", "a"), ("b.php", "<?php echo 'b';")], &[]);
    let mut client = certificates.client(svc.main(), NAME);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send([get("/a.txt"), get("/b.php"), get("/a.txt")].concat().repeat(50));
    for _ in 0..50 {
        assert_eq!([(); 3].map(|()| client.response().text()), ["a", "b", "a"]);
    }
}

#[test]
fn a_client_that_ends_its_side_is_gone() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("wait.php", WAITING)], &[]);
    let mut client = certificates.client(svc.main(), NAME);
    client.send("GET /wait.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the script runs", || svc.root().join("inside").exists());
    client.half_close();
    eventually("the request is called off", || {
        svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}") == 1.0
    });
    std::fs::write(svc.root().join("go"), "").unwrap();
}

#[test]
fn a_client_without_tls_gets_an_error_response() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[]);
    let response = svc.get("/a.txt");
    assert_eq!(response.status, 400);
    assert_eq!(response.text(), "400 Bad Request\nThis port requires HTTPS.\n");
    assert_eq!(response.field("connection"), Some("close"));
    let mut posting = svc.client();
    posting.send("POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    posting.send(sample(100_000));
    assert_eq!(posting.response().status, 400);
    let mut http2 = svc.client();
    http2.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(http2.response().status, 400);
    svc.assert_metric("svc_tls_handshakes_total{result=\"plain_http\"}", 3.0);
    for garbage in [
        &b"\x80\x2e\x01\x00\x02"[..],
        b"\x16\x03\x01\xff\xff\x00",
        &[0; 3000],
        b"\x15\x03\x01\x00\x02\x02\x28",
    ] {
        let mut client = svc.client();
        client.send(garbage);
        client.rest();
    }
    assert_eq!(certificates.client(svc.main(), NAME).get("/a.txt").text(), "a");
}

#[test]
fn whole_responses_end_with_an_alert_and_broken_ones_do_not() {
    let certificates = one();
    let broken = "<?php header('Content-Length: 100'); echo 'abc'; flush();";
    let files = [("a.txt", "a"), ("broken.php", broken)];
    let svc = start(&certificates, 1, &files, &[("KEEPALIVE_TIMEOUT_SECONDS", "1")]);
    let mut closing = certificates.client(svc.main(), NAME);
    let response = closing.request("GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close");
    assert_eq!((response.text().as_str(), closing.rest().len(), closing.was_cut()), ("a", 0, false));
    let mut idle = certificates.client(svc.main(), NAME);
    assert_eq!(idle.get("/a.txt").text(), "a");
    assert_eq!((idle.rest().len(), idle.was_cut()), (0, false));
    let mut cut = certificates.client(svc.main(), NAME);
    let response = cut.get("/broken.php");
    assert_eq!((response.is_whole, response.text().as_str()), (false, "abc"));
    assert!(cut.was_cut());
}

#[test]
fn a_client_that_reads_nothing_is_closed() {
    let certificates = one();
    let body = "x".repeat(16 << 20);
    let svc = start(&certificates, 1, &[("big.txt", &body)], &[("WRITE_TIMEOUT_SECONDS", "1")]);
    let mut stuck = certificates.client(svc.main(), NAME);
    stuck.send("GET /big.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    stuck.head_only();
    eventually("it is closed", || svc.metric("svc_active_connections") == 0.0);
}

#[test]
fn many_clients_are_served_at_once() {
    let certificates = one();
    let svc =
        start(&certificates, 1, &[("a.php", "<?php echo strlen(file_get_contents('php://input'));")], &[]);
    let (addr, certificates) = (svc.main(), &certificates);
    std::thread::scope(|scope| {
        for client in 0..48usize {
            scope.spawn(move || {
                for round in 0..4 {
                    let mut connection = certificates.client(addr, NAME);
                    for request in 0..5 {
                        let len = client * 997 + round * 61 + request;
                        assert_eq!(connection.post("/a.php", &sample(len)).text(), len.to_string());
                    }
                }
            });
        }
    });
    svc.assert_metric("svc_tls_handshakes_total{result=\"full\"}", 48.0 * 4.0);
}

#[test]
fn a_drain_answers_running_requests_and_closes_in_order() {
    let certificates = one();
    let mut svc = start(&certificates, 1, &[("wait.php", WAITING), ("a.txt", "a")], &[]);
    let mut idle = certificates.client(svc.main(), NAME);
    assert_eq!(idle.get("/a.txt").text(), "a");
    let mut running = certificates.client(svc.main(), NAME);
    running.send("GET /wait.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the script runs", || svc.root().join("inside").exists());
    let mut opening = TcpStream::connect(svc.main()).unwrap();
    opening.write_all(b"\x16\x03").unwrap();
    svc.signal(Signal::TERM);
    assert_eq!((idle.rest().len(), idle.was_cut()), (0, false));
    std::fs::write(svc.root().join("go"), "").unwrap();
    let response = running.response();
    assert_eq!((response.text().as_str(), response.field("connection")), ("done", Some("close")));
    assert_eq!((running.rest().len(), running.was_cut()), (0, false));
    assert_eq!(svc.wait(), Some(0));
}
