//! Files that scripts name in their responses: which files they may name, and which fields come from the script or from the
//! file.
#![cfg(feature = "php")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::http2::{Http2Client, head};

/// Sends the fields in the query: `a` is `X-Accel-Redirect`, `s` is `X-Sendfile`.
const SEND: &str = r#"<?php
foreach (['a' => 'X-Accel-Redirect', 's' => 'X-Sendfile'] as $key => $name) {
    if (isset($_GET[$key])) { header("$name: $_GET[$key]"); }
}
foreach ((array) ($_GET['h'] ?? []) as $line) { header($line, false); }
if (isset($_GET['status'])) { http_response_code((int) $_GET['status']); }
echo "the script's own body";
"#;

fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("a.txt"), "0123456789").unwrap();
    fs::write(folder.path().join("sub/b c.bin"), vec![7; 3_000_000]).unwrap();
    for name in ["denied.txt", ".env", "x.php", "sub/.hidden"] {
        fs::write(folder.path().join(name), "secret").unwrap();
    }
    symlink("/etc/passwd", folder.path().join("out.txt")).unwrap();
    symlink(".env", folder.path().join("env.txt")).unwrap();
    folder
}

fn start(folder: &Path, more: &[(&str, &str)]) -> Svc {
    let roots = folder.to_str().unwrap();
    let settings: Vec<_> =
        [("SENDFILE_ROOTS", roots), ("ACCESS_LOG", "all")].into_iter().chain(more.iter().copied()).collect();
    Svc::start(&[("send.php", SEND), (".svcdeny", "denied.*\n")], &settings)
}

fn ask(client: &mut Client, method: &str, query: &str, fields: &str) -> Response {
    let head = format!("{method} /send.php?{query} HTTP/1.1\r\nHost: test\r\n{fields}");
    client.request(&head)
}

#[test]
fn both_fields_send_files_and_reach_no_client() {
    let folder = files();
    let svc = start(folder.path(), &[]);
    let mut client = svc.client();
    let absolute = folder.path().join("a.txt");
    for query in ["a=/a.txt".to_owned(), format!("s={}", absolute.display()), "s=a.txt".to_owned()] {
        let response = client.get(&format!("/send.php?{query}"));
        assert_eq!((response.status, response.text().as_str()), (200, "0123456789"), "{query}");
        assert_eq!(response.field("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!((response.field("x-accel-redirect"), response.field("x-sendfile")), (None, None));
        assert_eq!(response.field("content-length"), Some("10"));
    }
    let large = client.get("/send.php?a=/sub/b%2520c.bin");
    assert!(large.is_whole && large.body == vec![7; 3_000_000]);
    assert_eq!(large.field("content-type"), Some("application/octet-stream"));
    svc.assert_metric("svc_response_bytes_total", 3_000_030.0);
}

#[test]
fn nothing_else_is_sent() {
    let folder = files();
    let svc = start(folder.path(), &[]);
    let mut client = svc.client();
    for name in
        ["denied.txt", ".env", "x.php", "sub/.hidden", "out.txt", "env.txt", "sub", "", "none", "../a.txt"]
    {
        for query in [format!("a=/{name}"), format!("s={}/{name}", folder.path().display())] {
            let response =
                client.get(&format!("/send.php?{query}&h[]=Set-Cookie:+a%3D1&h[]=Cache-Control:+public"));
            assert_eq!((response.status, response.text().as_str()), (404, "404 Not Found\n"), "{query}");
            assert_eq!((response.field("x-accel-redirect"), response.field("x-sendfile")), (None, None));
            assert_eq!(response.field("cache-control"), None, "{query}");
        }
    }
    assert_eq!(client.get("/send.php?s=/etc/passwd").status, 404);
    let record = svc.log().expect("file named by a script is not sent");
    assert_eq!(record["level"], "WARN");
    assert_eq!(record["fields"]["reason"], ".svcdeny denies it");
}

#[test]
fn fields_of_the_script_are_kept() {
    let folder = files();
    let svc = start(folder.path(), &[("STATIC_MAX_AGE", "60")]);
    let mut client = svc.client();
    let said = "a=/a.txt&h[]=Content-Type:+application/pdf&h[]=Cache-Control:+private&h[]=Set-Cookie:+a%3D1&h[]=Set-Cookie:+b%3D2";
    let response = ask(&mut client, "GET", &format!("{said}&status=203"), "");
    assert_eq!((response.status, response.text().as_str()), (203, "0123456789"));
    assert_eq!(response.field("content-type"), Some("application/pdf"));
    assert_eq!(response.field("cache-control"), Some("private"));
    let cookies = |response: &Response| {
        response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).count()
    };
    assert_eq!(cookies(&response), 2);
    let tag = response.field("etag").unwrap().to_owned();
    for (fields, status, body) in [
        ("Range: bytes=2-4\r\n".to_owned(), 206, "234"),
        ("Range: bytes=20-\r\n".to_owned(), 416, "416 Range Not Satisfiable\n"),
        (format!("If-None-Match: {tag}\r\n"), 304, ""),
        ("If-Match: \"other\"\r\n".to_owned(), 412, "412 Precondition Failed\n"),
    ] {
        let response = ask(&mut client, "GET", said, &fields);
        assert_eq!((response.status, response.text().as_str()), (status, body), "{fields}");
        assert_eq!(cookies(&response), 2, "{fields}");
    }
    let plain = ask(&mut client, "GET", "a=/a.txt", "");
    assert_eq!(plain.field("cache-control"), None, "the script may have made it for one client");
    client.send(format!("HEAD /send.php?{said} HTTP/1.1\r\nHost: test\r\n\r\n"));
    let head = client.head_only();
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    let post = client.post(&format!("/send.php?{said}"), b"x=1");
    assert_eq!((post.status, post.text().as_str()), (200, "0123456789"));
    let error = ask(&mut client, "GET", "a=/a.txt&status=404", "Range: bytes=2-4\r\n");
    assert_eq!((error.status, error.text().as_str()), (404, "0123456789"));
}

#[test]
fn without_roots_the_fields_only_disappear() {
    let svc = Svc::start(&[("send.php", SEND)], &[]);
    let response = svc.get("/send.php?a=/send.php&s=/etc/passwd");
    assert_eq!((response.status, response.text().as_str()), (200, "the script's own body"));
    assert_eq!((response.field("x-accel-redirect"), response.field("x-sendfile")), (None, None));
    assert_eq!(response.field("content-type"), Some("text/html; charset=UTF-8"));
}

#[test]
fn instructions_to_nginx_reach_only_a_proxy() {
    const STREAM: &str = "<?php header('X-Accel-Buffering: no'); header('X-Accel-Expires: 5'); header('X-Other: 1'); echo 'x'; flush();";
    for (proxies, expected) in [("", None), ("10.0.0.0/8", Some("no"))] {
        let svc = Svc::start(&[("stream.php", STREAM)], &[("TRUSTED_PROXIES", proxies)]);
        let mut http2 = Http2Client::connect(svc.main());
        let id = http2.open(&head("GET", "/stream.php"), true);
        for response in [svc.get("/stream.php"), http2.response(id)] {
            assert_eq!((response.text().as_str(), response.field("x-other")), ("x", Some("1")));
            assert_eq!(response.field("x-accel-buffering"), expected, "{proxies}");
            assert_eq!(response.field("x-accel-expires").is_some(), expected.is_some(), "{proxies}");
        }
    }
}

#[test]
fn these_fields_of_a_client_reach_no_script() {
    let svc = Svc::start(
        &[("headers.php", "<?php echo json_encode([array_change_key_case(getallheaders()), $_SERVER]);")],
        &[],
    );
    let mut client = svc.client();
    let fields =
        "X-Sendfile-Type: X-Accel-Redirect\r\nX-Accel-Mapping: /=/\r\nX_Accel_Mapping: /=/\r\nX-Kept: 1\r\n";
    let text = client.request(&format!("GET /headers.php HTTP/1.1\r\nHost: test\r\n{fields}")).text();
    let text = text.to_ascii_lowercase().replace('_', "-");
    assert!(text.contains("x-kept"), "{text}");
    assert!(!text.contains("x-sendfile-type") && !text.contains("x-accel-mapping"), "{text}");
}

#[test]
fn the_file_goes_out_while_the_script_goes_on() {
    let folder = files();
    let svc = start(folder.path(), &[("PHP_WORKERS", "1")]);
    let waits = |how: &str| {
        format!(
            "<?php header('X-Accel-Redirect: /a.txt'); {how}; echo 'late'; while (!file_exists(__DIR__ . '/go')) {{ usleep(1000); }}"
        )
    };
    for (name, how) in [("finish.php", "svc_finish_request()"), ("flush.php", "echo 'early'; flush()")] {
        fs::write(svc.root().join(name), waits(how)).unwrap();
        let mut client = svc.client();
        let response = client.get(&format!("/{name}"));
        assert_eq!((response.status, response.text().as_str()), (200, "0123456789"), "{name}");
        assert!(response.is_whole);
        fs::write(svc.root().join("go"), "").unwrap();
        // The only worker serves again.
        assert_eq!(client.get("/send.php?a=/a.txt").text(), "0123456789");
        fs::remove_file(svc.root().join("go")).unwrap();
    }
}

#[test]
fn a_sent_head_can_no_longer_name_a_file() {
    let folder = files();
    let svc = start(folder.path(), &[]);
    fs::write(svc.root().join("late.php"), "<?php echo 'own'; flush(); header('X-Accel-Redirect: /a.txt');")
        .unwrap();
    assert!(svc.get("/late.php").text().starts_with("own"));
    let warns =
        || svc.log().of("php").iter().any(|record| record.to_string().contains("headers already sent"));
    eventually("PHP warns", warns);
}

#[test]
fn a_script_that_fails_sends_no_file() {
    let folder = files();
    let svc = start(folder.path(), &[]);
    fs::write(
        svc.root().join("dies.php"),
        "<?php header('X-Accel-Redirect: /a.txt'); throw new Exception();",
    )
    .unwrap();
    let response = svc.get("/dies.php");
    assert_eq!((response.status, response.text().contains("0123456789")), (500, false));
}

#[cfg(feature = "worker")]
#[test]
fn files_are_sent_in_worker_mode_and_over_http2() {
    let folder = files();
    let script =
        "<?php Svc\\Worker::serve(function () { header('X-Accel-Redirect: ' . $_GET['a']); echo 'own'; });";
    let svc = Svc::start(
        &[("index.php", script)],
        &[
            ("SENDFILE_ROOTS", folder.path().to_str().unwrap()),
            ("WORKER_MODE_ENABLED", "true"),
            ("ENTRY_FILE", "index.php"),
        ],
    );
    let mut client = svc.client();
    for _ in 0..3 {
        assert_eq!(client.get("/?a=/a.txt").text(), "0123456789");
        assert_eq!(client.get("/?a=/denied").status, 404);
    }
    let mut client = svc_testing::http2::Http2Client::connect(svc.main());
    let response = client.get("/?a=/sub/b%2520c.bin");
    assert!(response.is_whole && response.body == vec![7; 3_000_000]);
}

#[test]
fn a_file_has_the_codings_of_static_files() {
    let folder = files();
    fs::write(folder.path().join("page.css"), "a { color: red }\n".repeat(1000)).unwrap();
    fs::write(folder.path().join("page.css.gz"), "precompressed").unwrap();
    let svc = start(folder.path(), &[]);
    let mut client = svc.client();
    let coded = ask(&mut client, "GET", "a=/page.css", "Accept-Encoding: gzip\r\n");
    assert_eq!((coded.field("content-encoding"), coded.text().as_str()), (Some("gzip"), "precompressed"));
    let plain = ask(&mut client, "GET", "a=/page.css", "");
    assert_eq!((plain.field("content-encoding"), plain.body.len()), (None, 17_000));
    assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
}

#[test]
fn the_directories_must_exist() {
    let mut svc = svc_testing::command(Path::new("/"), &[("SENDFILE_ROOTS", "/nonexistent,/tmp")]);
    let output = svc.output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("SENDFILE_ROOTS: \"/nonexistent\" is not a usable directory"), "{text}");
}
