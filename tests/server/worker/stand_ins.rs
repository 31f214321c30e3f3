//! Applications in the style of unmodified frameworks: they keep the stream of the body in objects that refer to each
//! other.

use svc_testing::Svc;
use svc_testing::client::Client;

const PSR7: &str = include_str!("../../php/psr7.php");
const DAV: &str = include_str!("../../php/dav.php");

/// The ways to call the handler `handle()`; the collector runs after every few requests, as in some applications.
const LOOPS: [(&str, &str); 3] = [
    ("classic", "handle();"),
    ("serve", "Svc\\Worker::serve(handle(...));"),
    ("own loop", "while (frankenphp_handle_request(handle(...))) { gc_collect_cycles(); }"),
];

fn start(name: &str, files: &[(&str, &str)]) -> Svc {
    let worker = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php")];
    Svc::start(files, &worker[..if name == "classic" { 1 } else { 3 }])
}

fn ask(client: &mut Client, method: &str, path: &str, fields: &str, body: &str) -> (u16, String) {
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let response = client.response();
    (response.status, response.text())
}

#[test]
fn an_application_that_is_built_once_survives_its_missing_pages() {
    for (name, serve) in LOOPS {
        let script = format!(
            "<?php $app = require __DIR__ . '/psr7.inc'; function handle() {{ $GLOBALS['app']->run(); isset($_GET['collect']) && gc_collect_cycles(); }} {serve}"
        );
        let mut svc = start(name, &[("index.php", &script), ("psr7.inc", PSR7)]);
        let mut client = svc.client();
        // Classic mode has no front controller here.
        let at = if name == "classic" { "/index.php" } else { "" };
        for number in 0..60 {
            let collect = if number % 7 == 0 { "?collect" } else { "" };
            let missing = ask(&mut client, "GET", &format!("{at}/missing{number}{collect}"), "", "");
            assert_eq!(missing, (404, "<h1>404 Not found.</h1>".to_owned()), "{name}, {number}");
            if name != "classic" {
                assert_eq!(ask(&mut client, "GET", "/", "", ""), (200, "Hello".to_owned()), "{name}");
                let body = format!("{number}").repeat(1 + number * 300);
                let field = "Content-Type: application/json\r\n";
                let echoed = ask(&mut client, "POST", "/echo", field, &body);
                assert_eq!(echoed, (200, format!("{body}|{body}")), "{name}, {number}");
            }
        }
        assert_eq!(svc.metric("svc_workers_spawned_total"), 1.0, "{name}");
        drop(client);
        svc.stop();
    }
}

/// A WebDAV client's requests in a separate folder: method, path in it, fields, body; status and text.
const SEQUENCE: [(&str, &str, &str, &str, u16, &str); 22] = [
    ("OPTIONS", "", "", "", 200, ""),
    ("PUT", "/res", "", "this is\na test file", 201, ""),
    ("GET", "/res", "", "", 200, "this is\na test file"),
    ("PUT", "/res", "", "this is\nanother one", 204, ""),
    ("PUT", "/409me/noparent.txt", "", "x", 409, ""),
    ("DELETE", "/404me", "", "", 404, ""),
    ("MKCOL", "/coll", "", "", 201, ""),
    ("MKCOL", "/coll", "", "", 405, ""),
    ("MKCOL", "/withbody", "Content-Type: xzy-foo/bar-512\r\n", "afafafaf", 415, ""),
    ("COPY", "/res", "Destination: http://x/dav/copy\r\n", "", 201, ""),
    ("COPY", "/res", "Destination: http://x/dav/copy\r\nOverwrite: F\r\n", "", 412, ""),
    ("MOVE", "/copy", "Destination: http://x/dav/moved\r\n", "", 201, ""),
    ("PROPFIND", "", "Depth: 0\r\n", "<foo>", 400, ""),
    (
        "PROPFIND",
        "",
        "Depth: 1\r\n",
        "<?xml version=\"1.0\"?><propfind><allprop/></propfind>",
        207,
        "<multistatus><response>dav</response><response>coll</response><response>moved</response><response>res</response></multistatus>",
    ),
    ("PROPPATCH", "/res", "", "<?xml version=\"1.0\"?><set>one</set>", 207, "<multistatus>one</multistatus>"),
    ("PROPFIND", "/res", "Depth: 0\r\n", "", 207, "<multistatus><response>res</response></multistatus>"),
    ("LOCK", "/res", "", "<lockinfo/>", 200, "<lock>0fd8fbb0f0b8c27ea3bb4fd1f3f0d53f</lock>"),
    ("UNLOCK", "/res", "Lock-Token: <opaquelocktoken:1>\r\n", "", 204, ""),
    ("BOGUS", "/res", "", "bogus", 501, ""),
    ("DELETE", "/coll", "", "", 204, ""),
    ("DELETE", "/moved", "", "", 204, ""),
    ("DELETE", "/res", "", "", 204, ""),
];

#[test]
fn a_server_of_files_that_keeps_the_body_in_its_request_survives_its_clients() {
    for (name, serve) in &LOOPS[1..] {
        let script = format!(
            "<?php require __DIR__ . '/dav.inc'; function handle() {{ (new Dav\\Server(__DIR__ . '/store'))->start(); }} {serve}"
        );
        let mut svc = start(name, &[("index.php", &script), ("dav.inc", DAV), ("store/dav/.keep", "")]);
        std::fs::remove_file(svc.root().join("store/dav/.keep")).unwrap();
        let mut client = svc.client();
        for round in 0..25 {
            for (method, path, fields, body, status, text) in SEQUENCE {
                let (got, said) = ask(&mut client, method, &format!("/dav{path}"), fields, body);
                assert_eq!(got, status, "{name}, round {round}: {method} {path} {fields}: {said}");
                if method == "LOCK" {
                    assert!(said.starts_with("<lock>"), "{said}");
                } else {
                    assert_eq!(said, text, "{name}, round {round}: {method} {path} {fields}");
                }
            }
        }
        assert_eq!(svc.metric("svc_workers_spawned_total"), 1.0, "{name}");
        drop(client);
        svc.stop();
    }
}
