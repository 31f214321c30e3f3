//! Static files and routing, through the real binary.

use std::os::unix::fs::symlink;

use svc_testing::Svc;
use svc_testing::client::eventually;

const SHOW: &str =
    "<?php echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? '-', '|', $_SERVER['REQUEST_URI'];";

#[test]
fn a_file_has_type_length_and_validators_and_is_304_when_it_is_known() {
    let svc = Svc::start(&[("style.css", "body{}")], &[]);
    let mut client = svc.client();
    let response = client.get("/style.css");
    assert_eq!((response.status, response.text().as_str()), (200, "body{}"));
    assert_eq!(response.field("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(response.field("cache-control"), None, "as with nginx, Apache and Caddy");
    let modified = response.field("last-modified").unwrap().to_owned();
    let etag = response.field("etag").unwrap().to_owned();
    for condition in [format!("If-None-Match: {etag}"), format!("If-Modified-Since: {modified}")] {
        let response = client.request(&format!("GET /style.css HTTP/1.1\r\nHost: x\r\n{condition}"));
        assert_eq!((response.status, response.body.len()), (304, 0));
        assert_eq!(response.field("etag"), Some(etag.as_str()));
    }
    let response = client.request("HEAD /style.css HTTP/1.1\r\nHost: x");
    assert_eq!((response.status, response.field("content-length")), (200, Some("6")));
    let response = client.post("/style.css", b"x=1");
    assert_eq!((response.status, response.field("allow")), (405, Some("GET, HEAD")));
    assert_eq!(client.get("/style.css").status, 200, "the connection was lost");
}

#[test]
fn a_large_file_arrives_whole() {
    let svc = Svc::start(&[], &[]);
    let bytes: Vec<u8> = (0..5_000_000u32).map(|place| place.to_le_bytes()[1]).collect();
    std::fs::write(svc.root().join("big.bin"), &bytes).unwrap();
    let response = svc.get("/big.bin");
    assert_eq!(response.field("content-type"), Some("application/octet-stream"));
    assert!(response.is_whole && response.body == bytes);
    assert!(svc.metric("svc_static_cache_misses_total") >= 1.0);
    assert!(svc.metric("svc_response_bytes_total") >= 5_000_000.0);
}

#[test]
fn directories_are_redirected_and_their_indexes_found() {
    let files = [("shop/index.php", SHOW), ("docs/index.html", "<p>docs"), ("bare/x.txt", "")];
    let svc = Svc::start(&files, &[]);
    let mut client = svc.client();
    let response = client.get("/shop?a=b");
    assert_eq!((response.status, response.field("location")), (301, Some("/shop/?a=b")));
    assert_eq!(client.get("/shop/").text(), "/shop/index.php|-|/shop/");
    assert_eq!(client.get("/docs/").text(), "<p>docs");
    assert_eq!(client.get("/bare/").status, 404);
    assert_eq!(client.get("/nowhere").status, 404);
}

#[test]
fn scripts_get_the_rest_of_the_path_as_path_info() {
    let svc = Svc::start(&[("a/app.php", SHOW)], &[]);
    let mut client = svc.client();
    assert_eq!(client.get("/a/app.php/x/y?q").text(), "/a/app.php|/x/y|/a/app.php/x/y?q");
    assert_eq!(client.get("/a/app.php").text(), "/a/app.php|-|/a/app.php");
    assert_eq!(client.get("/a/app.phpx").status, 404);
}

#[test]
fn a_front_controller_gets_requests_without_a_file() {
    let svc = Svc::start(&[("index.php", SHOW), ("logo.svg", "<svg/>")], &[("ENTRY_FILE", "index.php")]);
    let mut client = svc.client();
    assert_eq!(client.get("/logo.svg").text(), "<svg/>");
    assert_eq!(client.get("/posts/1?x").text(), "/index.php|-|/posts/1?x");
    assert_eq!(client.get("/").text(), "/index.php|-|/");
}

#[test]
fn a_front_controller_gets_unique_paths_until_a_file_exists_there() {
    let svc = Svc::start(&[("index.php", SHOW), ("blog/a.txt", "a")], &[("ENTRY_FILE", "index.php")]);
    let mut client = svc.client();
    for number in 0..50 {
        for folder in ["/posts", "/blog", ""] {
            let path = format!("{folder}/{number}");
            assert_eq!(client.get(&path).text(), format!("/index.php|-|{path}"));
        }
    }
    assert_eq!(client.get("/blog/a.txt").text(), "a");
    for path in ["blog/7", "8"] {
        std::fs::write(svc.root().join(path), "a file").unwrap();
        eventually("the file is sent", || client.get(&format!("/{path}")).text() == "a file");
    }
    assert_eq!(client.get("/posts/7/index.php").text(), "/index.php|-|/posts/7/index.php");
}

#[test]
fn a_single_page_application_gets_its_page() {
    let svc = Svc::start(&[("app.html", "<p>app"), ("x.js", "1")], &[("ENTRY_FILE", "app.html")]);
    let mut client = svc.client();
    assert_eq!(client.get("/x.js").text(), "1");
    assert_eq!(client.get("/some/view").text(), "<p>app");
}

#[test]
fn nothing_outside_the_root_and_nothing_hidden_is_served() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join(".secret.txt"), "secret").unwrap();
    let files =
        [(".env", "key"), (".git/config", "x"), (".well-known/ok.txt", "ok"), ("x.PHP", "<?php source")];
    let svc = Svc::start(&files, &[]);
    symlink(outside.path().join(".secret.txt"), svc.root().join("leak.txt")).unwrap();
    symlink(svc.root().join(".env"), svc.root().join("env.txt")).unwrap();
    symlink(svc.root().join(".well-known/ok.txt"), svc.root().join("inner.txt")).unwrap();
    let mut client = svc.client();
    for (path, status) in [
        ("/.env", 404),
        ("/%2eenv", 404),
        ("/.git/config", 404),
        ("/.well-known/ok.txt", 200),
        ("/leak.txt", 403),
        ("/env.txt", 403),
        ("/inner.txt", 200),
        ("/x.PHP", 404),
        ("/../../etc/passwd", 400),
        ("/%2e%2e/%2e%2e/etc/passwd", 400),
        ("/a/..%2f..%2fetc/passwd", 400),
        ("/%00", 400),
        ("/%zz", 400),
    ] {
        let response = client.get(path);
        assert_eq!(response.status, status, "{path}: {}", response.text());
        assert!(!response.text().contains("secret") && !response.text().contains("source"), "{path}");
    }
}

/// Creates a directory beside the document root, like those that deployments share between releases.
fn shared_uploads() -> tempfile::TempDir {
    let shared = tempfile::Builder::new().prefix("shared").tempdir().unwrap();
    for (name, content) in
        [("a.txt", "uploaded"), ("dump.sql", "dump"), ("hello.php", "<?php echo __FILE__;")]
    {
        std::fs::write(shared.path().join(name), content).unwrap();
    }
    shared
}

#[test]
fn links_lead_out_of_the_root_but_not_past_its_rules() {
    let shared = shared_uploads();
    let files = [
        ("private/key.txt", "key"),
        ("uploads/evil.php", "<?php echo 'evil';"),
        (".svcdeny", "private/\n*.sql\n/a.txt\n"),
    ];
    let svc = Svc::start(&files, &[("PHP_DENY_PATHS", "/uploads/**")]);
    for (link, to) in [
        ("storage", shared.path().to_owned()),
        ("key.txt", svc.root().join("private/key.txt")),
        ("folder", svc.root().join("private")),
        ("dump.txt", shared.path().join("dump.sql")),
        ("good.php", svc.root().join("uploads/evil.php")),
    ] {
        symlink(to, svc.root().join(link)).unwrap();
    }
    let mut client = svc.client();
    for (path, status) in [
        ("/storage/a.txt", 200),
        ("/storage/hello.php", 200),
        ("/storage", 301),
        ("/storage/dump.sql", 404),
        ("/dump.txt", 404),
        ("/key.txt", 404),
        ("/folder/key.txt", 404),
        ("/good.php", 404),
    ] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    assert_eq!(client.get("/storage/a.txt").text(), "uploaded");
    let real = shared.path().canonicalize().unwrap().join("hello.php");
    assert_eq!(client.get("/storage/hello.php").text(), real.to_str().unwrap());
}
