//! HTTP/2 in front of real PHP, frame by frame and with common clients.
#![cfg(feature = "php")]

use std::process::Command;

use serde_json::Value;
use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::eventually;
use svc_testing::http2::{END_STREAM, Http2Client, code, head, kind};
use svc_testing::skip::skipped;

const FACTS: &str = r#"<?php
header('Content-Type: application/json');
header('Connection: close');
header('Upgrade: h2c');
header('Keep-Alive: timeout=5');
header('Transfer-Encoding: chunked');
setcookie('a', '1');
setcookie('b', '2');
echo json_encode(['server' => $_SERVER, 'cookie' => $_COOKIE, 'post' => $_POST, 'get' => $_GET,
    'length' => strlen(file_get_contents('php://input')), 'sum' => md5(file_get_contents('php://input'))]);
"#;

/// A script that reports that it runs, and runs until a file releases it.
const HELD: (&str, &str) = (
    "held.php",
    "<?php touch(__DIR__ . '/held'); while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); } echo 'ran';",
);

fn http2(svc: &Svc) -> Http2Client {
    Http2Client::connect(svc.main())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

#[test]
fn a_script_sees_the_request_as_it_came() {
    let svc = Svc::start(&[("facts.php", FACTS)], &[]);
    let mut client = http2(&svc);
    let mut fields = head("POST", "/facts.php/info?x=1&y=a%20b");
    fields[2].1 = "shop.example:8443";
    fields.extend([
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("content-type", "application/x-www-form-urlencoded"),
    ]);
    fields.extend([("x-custom", "one"), ("x-custom", "two"), ("user-agent", "test")]);
    let id = client.open(&fields, false);
    client.upload(id, b"p=1&q=2");
    let response = client.response(id);
    assert_eq!(response.status, 200);
    assert_eq!(response.fields.iter().filter(|(name, _)| name == "set-cookie").count(), 2);
    let facts = json(&response.text());
    let server = &facts["server"];
    for (name, value) in [
        ("SERVER_PROTOCOL", "HTTP/2.0"),
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/facts.php/info?x=1&y=a%20b"),
        ("SCRIPT_NAME", "/facts.php"),
        ("PATH_INFO", "/info"),
        ("QUERY_STRING", "x=1&y=a%20b"),
        ("HTTP_HOST", "shop.example:8443"),
        ("SERVER_NAME", "shop.example"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("HTTP_X_CUSTOM", "one, two"),
        ("CONTENT_TYPE", "application/x-www-form-urlencoded"),
        ("REQUEST_SCHEME", "http"),
    ] {
        assert_eq!(server[name], value, "{name}");
    }
    assert_eq!((&facts["cookie"]["a"], &facts["cookie"]["b"]), (&json("\"1\""), &json("\"2\"")));
    assert_eq!((&facts["post"]["q"], &facts["get"]["y"]), (&json("\"2\""), &json("\"a b\"")));
}

/// Browsers send a field for each cookie. They count as one: header fields are limited to 128.
#[test]
fn any_number_of_cookies_reaches_a_script() {
    let script = "<?php echo count($_COOKIE), ' ', crc32($_SERVER['HTTP_COOKIE']), ' ', strlen($_SERVER['HTTP_COOKIE']);";
    let svc = Svc::start(&[("index.php", script)], &[]);
    let crumbs: Vec<_> = (0..400).map(|n| format!("cookie_{n}=value-{n}")).collect();
    let mut client = http2(&svc);
    let mut ask = |count: usize| {
        let fields =
            head("GET", "/").into_iter().chain(crumbs[..count].iter().map(|it| ("cookie", it.as_str())));
        let id = client.open(&fields.collect::<Vec<_>>(), true);
        client.response(id)
    };
    for count in [1, 120, 130, 400] {
        let joined = crumbs[..count].join("; ");
        let seen = ask(count).text();
        let over_http1 =
            svc.client().request(&format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: {joined}")).text();
        assert_eq!(seen, over_http1, "{count}");
        assert!(
            seen.starts_with(&format!("{count} ")) && seen.ends_with(&format!(" {}", joined.len())),
            "{seen}"
        );
    }
}

#[test]
fn uploads_of_many_streams_are_exact() {
    let svc = Svc::start(&[("facts.php", FACTS)], &[]);
    let mut client = http2(&svc);
    let body: Vec<u8> = (0..300_000u32).map(|place| place.to_le_bytes()[0]).collect();
    let ids: Vec<_> = (0..8).map(|_| client.open(&head("POST", "/facts.php"), false)).collect();
    for piece in body.chunks(10_000) {
        ids.iter().for_each(|id| client.send_data(*id, piece));
    }
    ids.iter().for_each(|id| client.frame(kind::DATA, END_STREAM, *id, b""));
    let sums: Vec<_> = ids
        .iter()
        .map(|id| {
            let facts = json(&client.response(*id).text());
            assert_eq!(facts["length"], 300_000);
            facts["sum"].clone()
        })
        .collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]));
    drop(client);
    check_books(&svc);
}

#[test]
fn flushed_output_arrives_at_once() {
    let events = "<?php header('Content-Type: text/event-stream');
        for ($i = 0; $i < 3; $i++) { echo \"data: $i\\n\\n\"; flush();
            while (!file_exists(__DIR__ . \"/go$i\")) { usleep(1000); clearstatcache(); } }";
    let svc = Svc::start_with(&[("events.php", events)], &[], &["output_buffering=0"]);
    let mut client = http2(&svc);
    let id = client.ask("/events.php");
    for index in 0..3 {
        let last = format!("data: {index}\n\n");
        client.until(|client| client.heard(id).body.ends_with(last.as_bytes()));
        std::fs::write(svc.root().join(format!("go{index}")), "").unwrap();
    }
    assert!(client.response(id).is_whole);
    assert_eq!(client.heard(id).field("content-type"), Some("text/event-stream;charset=UTF-8"));
}

#[test]
fn hints_of_a_script_come_first() {
    let script = "<?php header('Link: </a.css>; rel=preload'); headers_send(103); echo 'done';";
    let svc = Svc::start(&[("hints.php", script)], &[]);
    let mut client = http2(&svc);
    let id = client.ask("/hints.php");
    assert_eq!(client.response(id).text(), "done");
    assert_eq!(client.heard(id).interim.len(), 1);
    assert_eq!(client.heard(id).interim[0].0, 103);
}

#[test]
fn an_oversized_head_is_harmless() {
    let script = "<?php for ($i = 0; $i < 40000; $i++) header(\"X-N$i: 1\"); echo 'done';";
    let svc = Svc::start(&[("many.php", script), ("hello.php", "<?php echo 'hello';")], &[]);
    let mut client = http2(&svc);
    let id = client.ask("/many.php");
    client.until_over(id);
    assert_eq!(http2(&svc).get("/hello.php").text(), "hello");
}

#[test]
fn a_client_that_resets_is_499_and_the_script_learns_of_it() {
    let script = "<?php ignore_user_abort(true); ob_end_flush();
        while (!connection_aborted()) { echo 'y'; flush(); usleep(1000); }
        file_put_contents(__DIR__ . '/noticed', '');";
    let svc = Svc::start(&[("long.php", script), HELD], &[("ACCESS_LOG", "all")]);
    let mut client = http2(&svc);
    let id = client.ask("/long.php");
    client.until(|client| client.heard(id).body.len() > 3);
    client.reset(id, code::CANCEL);
    eventually("the script noticed", || svc.root().join("noticed").exists());
    let id = client.ask("/held.php");
    eventually("it runs", || svc.root().join("held").exists());
    client.reset(id, code::CANCEL);
    eventually("it is counted", || svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}") == 1.0);
    eventually("it is logged", || svc.log().of("access").len() == 2);
    let record = &svc.log().of("access")[1];
    assert_eq!(
        (&record["fields"]["status"], &record["fields"]["protocol"]),
        (&499.into(), &"HTTP/2.0".into())
    );
    drop(client);
    std::fs::write(svc.root().join("go"), "").unwrap();
    eventually("it is over", || svc.metric("svc_abandoned_work_total") == 1.0);
}

#[test]
fn data_after_the_end_of_a_request_is_stream_closed() {
    let svc = Svc::start(&[HELD, ("hello.php", "<?php echo 'hello';")], &[("PHP_WORKERS", "2")]);
    // The response has not begun, or has been sent: then the connection is still of use.
    let mut client = http2(&svc);
    let id = client.ask("/held.php");
    client.frame(kind::DATA, END_STREAM, id, b"late");
    assert_eq!(client.expect_end(), Some(code::STREAM_CLOSED));
    let mut client = http2(&svc);
    let id = client.ask("/hello.php");
    assert_eq!(client.response(id).text(), "hello");
    client.frame(kind::DATA, END_STREAM, id, b"late");
    client.until(|client| client.heard(id).reset.is_some());
    assert_eq!(client.heard(id).reset, Some(code::STREAM_CLOSED));
    assert_eq!(client.get("/hello.php").text(), "hello");
    std::fs::write(svc.root().join("go"), "").unwrap();
}

#[test]
fn a_drain_answers_and_ends() {
    let mut svc = Svc::start(&[HELD], &[("PHP_WORKERS", "4")]);
    let mut client = http2(&svc);
    let ids: Vec<_> = (0..4).map(|_| client.ask("/held.php")).collect();
    eventually("they run", || svc.metric("svc_busy_workers") == 4.0);
    svc.signal(rustix::process::Signal::TERM);
    eventually("the drain has begun", || svc.ask("/readyz").status == 503);
    std::fs::write(svc.root().join("go"), "").unwrap();
    for id in ids {
        assert_eq!(client.response(id).text(), "ran");
    }
    assert_eq!(client.expect_end(), Some(code::NO_ERROR));
    assert_eq!(svc.wait(), Some(0));
}

/// Runs an installed client; returns `None`, and reports a skip, if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        skipped(&format!("{program} is not installed"));
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

#[test]
fn curl_uploads_and_downloads() {
    let svc = Svc::start(&[("facts.php", FACTS)], &[]);
    let body = svc.root().join("body");
    std::fs::write(&body, vec![b'x'; 2_000_000]).unwrap();
    let url = format!("http://{}/facts.php", svc.main());
    let data = format!("@{}", body.display());
    let arguments = ["-sS", "--http2-prior-knowledge", "-w", "\n%{http_version} %{http_code}"];
    let upload = [&arguments[..], &["--data-binary", &data, "-H", "Content-Type: x/y", &url]].concat();
    if let Some(text) = run("curl", &upload) {
        let (facts, version) = text.rsplit_once('\n').unwrap();
        assert_eq!((version, &json(facts)["length"]), ("2 200", &2_000_000.into()));
    }
    let file = format!("http://{}/body", svc.main());
    if let Some(text) = run("curl", &[&arguments[..], &[&file]].concat()) {
        assert_eq!(text.len(), 2_000_000 + "\n2 200".len());
    }
}

#[test]
fn nghttp_asks_for_many_at_once() {
    let svc = Svc::start(&[("hello.php", "<?php echo 'hello';")], &[]);
    let url = format!("http://{}/hello.php", svc.main());
    if let Some(text) = run("nghttp", &["-m", "50", "--expect-continue", &url]) {
        assert_eq!(text, "hello".repeat(50));
    }
}

#[test]
fn h2load_finds_no_fault() {
    let svc = Svc::start(&[("hello.php", "<?php echo 'hello';"), ("note.txt", "note")], &[]);
    for path in ["hello.php", "note.txt"] {
        let url = format!("http://{}/{path}", svc.main());
        if let Some(text) = run("h2load", &["-n", "3000", "-c", "4", "-m", "64", &url]) {
            assert!(text.contains("3000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
        }
    }
    check_books(&svc);
}

#[test]
fn an_upload_is_not_held_to_a_window_in_each_round_trip() {
    const BODY_BYTES: usize = 10_000_000;
    let svc = Svc::start(&[("index.php", "<?php echo strlen(file_get_contents('php://input'));")], &[]);
    let mut client = http2(&svc);
    client.be_far_away();
    for (number, most) in [(0, 7), (1, 5)] {
        let id = client.open(&head("POST", "/index.php"), false);
        let (mut left, mut trips, mut widest) = (BODY_BYTES, 0, 0);
        // A remote client: it sends what the windows allow, the server reads it within the delay, and the client gets the
        // new window one round trip later.
        while left > 0 {
            widest = widest.max(client.room(id));
            left -= client.send_what_it_may(id, left);
            trips += 1;
            // Bytes that were read are granted again, except for less than half of the rest of a window.
            client.until(|client| 3 * client.room(id) >= 2 * widest);
            client.ping();
        }
        client.upload(id, b"");
        assert_eq!(client.response(id).text(), BODY_BYTES.to_string());
        // The windows are as before.
        client.ping();
        assert!(trips <= most, "upload {number} took {trips} round trips");
    }
    drop(client);
    check_books(&svc);
}
