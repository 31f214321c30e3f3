//! Custom pages for the server's own errors, from outside.

use std::process::Stdio;

use rustix::process::Signal;
use svc_testing::client::eventually;
use svc_testing::{Svc, command};
use tempfile::TempDir;

fn pages(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn start(directory: &TempDir, files: &[(&str, &str)], settings: &[(&str, &str)]) -> Svc {
    let directory = ("ERROR_PAGES_DIR", directory.path().to_str().unwrap());
    Svc::start(files, &[settings, &[directory]].concat())
}

const HTML: Option<&str> = Some("text/html; charset=utf-8");

#[test]
fn a_page_replaces_the_body_and_keeps_the_fields() {
    let pages = pages(&[("404.html", "<p>lost"), ("4xx.html", "<p>yours"), ("5xx.html", "<p>ours")]);
    let fatal = "<?php header('X-Mine: kept'); echo 'partial'; undefined();";
    let files =
        [("a.txt", "a"), ("fatal.php", fatal), ("own.php", "<?php http_response_code(404); echo 'own';")];
    let svc = start(&pages, &files, &[("RATE_LIMIT", "9"), ("TRUSTED_PROXIES", "private")]);
    let mut client = svc.client();
    let response = client.get("/none");
    assert_eq!((response.status, response.text().as_str()), (404, "<p>lost"));
    assert_eq!((response.field("content-type"), response.field("content-length")), (HTML, Some("7")));
    let response = client.request("HEAD /none HTTP/1.1\r\nHost: x");
    assert_eq!((response.status, response.field("content-length"), response.body.len()), (404, Some("7"), 0));
    let response = client.post("/a.txt", b"");
    assert_eq!((response.status, response.text().as_str()), (405, "<p>yours"));
    assert_eq!((response.field("allow"), response.field("content-type")), (Some("GET, HEAD"), HTML));
    // The output of a script before its failure is discarded.
    let response = client.get("/fatal.php");
    assert_eq!((response.status, response.text().as_str()), (500, "<p>ours"));
    assert_eq!((response.field("x-mine"), response.field("content-type")), (Some("kept"), HTML));
    let response = client.get("/own.php");
    assert_eq!((response.status, response.text().as_str()), (404, "own"), "a script's answer is its own");
    // Responses that are not errors.
    let response = client.get("/a.txt");
    assert_eq!((response.status, response.text().as_str()), (200, "a"));
    let etag = response.field("etag").unwrap().to_owned();
    let response = client.request(&format!("GET /a.txt HTTP/1.1\r\nHost: x\r\nIf-None-Match: {etag}"));
    assert_eq!((response.status, response.body.len()), (304, 0));
    // A malformed request.
    let response = svc.client().request("GET / HTTP/1.1\r\nHost: x\r\nHost: y");
    assert_eq!((response.status, response.text().as_str()), (400, "<p>yours"));
    let over = || svc.client().request("GET /a.txt HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.7");
    (0..9).for_each(|_| assert_eq!(over().status, 200));
    let response = over();
    assert_eq!((response.status, response.text().as_str()), (429, "<p>yours"));
    assert!(response.field("retry-after").is_some() && response.field("ratelimit").is_some());
}

#[test]
fn a_refusal_on_overload_keeps_its_words_and_when_to_come_back() {
    let pages = pages(&[("529.html", "<p>busy")]);
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
    let files = [("wait.php", "<?php $f = fopen($_GET['f'], 'r'); echo fgets($f);"), ("no.php", "<?php")];
    let svc = start(&pages, &files, &settings);
    let pipe = svc.root().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let mut waiting = [svc.client(), svc.client()];
    waiting[0].send(format!("GET /wait.php?f={} HTTP/1.1\r\nHost: x\r\n\r\n", pipe.display()));
    svc_testing::client::eventually("the worker is busy", || svc.metric("svc_busy_workers") == 1.0);
    waiting[1].send("GET /no.php HTTP/1.1\r\nHost: x\r\n\r\n");
    svc_testing::client::eventually("the queue is full", || svc.metric("svc_queue_depth") == 1.0);
    let mut client = svc.client();
    client.send("GET /no.php HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 529 Site is overloaded\r\n"), "{answer}");
    assert!(answer.contains("\r\nRetry-After: 1\r\n") && answer.ends_with("\r\n\r\n<p>busy"), "{answer}");
    std::fs::write(&pipe, "done\n").unwrap();
    assert_eq!(waiting[0].response().text(), "done\n");
    assert_eq!(waiting[1].response().status, 200);
}

#[test]
fn without_a_page_the_line_of_plain_text_stays() {
    let pages = pages(&[("500.html", "<p>ours")]);
    let svc = start(&pages, &[], &[]);
    assert_eq!(svc.get("/none").text(), "404 Not Found\n");
    assert!(!svc.ask("/config").text().contains("error_pages_dir"));
}

#[test]
fn pages_that_cannot_be_read_stop_the_start() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    let huge = pages(&[("404.html", &"x".repeat((1 << 20) + 1))]);
    for (directory, said) in [(&missing, "cannot be read"), (&huge.path().to_owned(), "is too large")] {
        for word in ["check", "serve"] {
            let mut command = command(root.path(), &[("ERROR_PAGES_DIR", directory.to_str().unwrap())]);
            let output = command.arg(word).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{word}: {text}");
            assert!(
                text.starts_with("svc: error: ERROR_PAGES_DIR: ") && text.contains(said),
                "{word}: {text}"
            );
        }
    }
}

#[test]
fn a_hang_up_reads_the_pages_again_and_a_failure_keeps_the_old_ones() {
    let pages = pages(&[("404.html", "<p>old")]);
    let svc = start(&pages, &[], &[]);
    assert_eq!(svc.get("/none").text(), "<p>old");
    std::fs::write(pages.path().join("404.html"), "<p>new").unwrap();
    svc.signal(Signal::HUP);
    eventually("the new page is sent", || svc.get("/none").text() == "<p>new");
    std::fs::write(pages.path().join("404.html"), "x".repeat((1 << 20) + 1)).unwrap();
    svc.signal(Signal::HUP);
    let message = "reload failed; the previous state stays in effect";
    eventually("it is refused", || svc.log().find(message).is_some());
    assert!(svc.log().expect(message)["fields"]["error"].as_str().unwrap().contains("is too large"));
    assert_eq!(svc.get("/none").text(), "<p>new");
    svc.assert_metric("svc_config_last_reload_successful", 0.0);
}
