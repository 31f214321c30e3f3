//! The reload of browsers after a change.

use std::time::{Duration, Instant};

use svc_testing::Svc;
use svc_testing::chromium::Chromium;
#[cfg(feature = "worker")]
use svc_testing::client::eventually;
use svc_testing::client::{Client, Response};
use svc_testing::decoder::decoded;

use super::{MODES, asked, save, start, visit};

const PAGE: &str = "<!doctype html><html><title>t</title><body><p>one</p></body></html>";

const MARK: &str = "<script data-revision=\"";

fn revision(response: &Response) -> String {
    let text = response.text();
    let (_, rest) = text.split_once(MARK).unwrap_or_else(|| panic!("no script in {text}"));
    rest.split_once('"').unwrap().0.to_owned()
}

/// Begins to wait for a change; the response comes later.
fn waiting(svc: &Svc, revision: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /.svc/changes?since={revision} HTTP/1.1\r\nHost: test\r\n\r\n"));
    client
}

#[test]
fn documents_get_the_script_and_nothing_else_does() {
    let types = |kind: &str, body: &str| format!("<?php header('Content-Type: {kind}'); echo '{body}';");
    let svc = start(
        &[
            ("page.php", PAGE),
            ("file.html", PAGE),
            ("part.php", "<p>fragment</p>"),
            ("warned.php", &format!("<?php echo $nothing; echo '{PAGE}';")),
            ("data.php", &types("application/json", PAGE)),
            ("text.php", &types("text/plain", PAGE)),
            ("load.php", &format!("<?php header('Content-Disposition: attachment'); echo '{PAGE}';")),
            ("none.php", "<?php http_response_code(304);"),
            ("long.php", &format!("<?php header('Content-Length: {}'); echo '{PAGE}';", PAGE.len())),
            ("gone.php", &format!("<?php http_response_code(404); echo '{PAGE}';")),
            (
                "slow.php",
                &format!(
                    "<?php echo '{PAGE}'; while (ob_get_level()) ob_end_flush(); flush(); echo '<p>more';"
                ),
            ),
            ("big.php", &format!("<?php echo '{PAGE}', str_repeat('<p>text', 100000);")),
        ],
        &[],
    );
    let pages = [
        "/page.php",
        "/file.html",
        "/long.php",
        "/gone.php",
        "/slow.php",
        "/big.php",
        "/part.php",
        "/warned.php",
    ];
    for path in pages {
        let response = visit(&svc, path);
        assert_eq!(response.text().matches(MARK).count(), 1, "{path}: {}", response.text());
        assert!(response.text().trim_end().ends_with("</script>"), "{path}");
    }
    for path in ["/data.php", "/text.php", "/load.php", "/none.php"] {
        assert!(!visit(&svc, path).text().contains(MARK), "{path}");
    }
    for fields in
        ["Accept: */*", "Sec-Fetch-Dest: empty\r\nAccept: text/html", "Accept: text/html\r\nHX-Request: true"]
    {
        for path in ["/page.php", "/file.html"] {
            assert_eq!(asked(&mut svc.client(), "GET", path, fields).text(), PAGE, "{path} {fields}");
        }
    }
    for fields in ["Accept: text/html", "Sec-Fetch-Dest: iframe", "Sec-Fetch-Dest: empty"] {
        let fragment = asked(&mut svc.client(), "GET", "/part.php", fields);
        assert_eq!(fragment.text(), "<p>fragment</p>", "{fields}: a window does not navigate to it");
    }
    let posted = asked(&mut svc.client(), "POST", "/page.php", "Accept: text/html\r\nContent-Length: 0");
    assert_eq!(posted.text(), PAGE, "a reload would send the form again");
}

#[test]
fn lengths_and_codings_are_those_of_the_page_with_the_script() {
    let svc = start(&[("page.php", PAGE), ("file.html", PAGE)], &[]);
    for path in ["/page.php", "/file.html"] {
        let plain = visit(&svc, path);
        assert_eq!(plain.field("content-length"), Some(plain.body.len().to_string().as_str()), "{path}");
    }
    let coded = asked(&mut svc.client(), "GET", "/page.php", "Accept: text/html\r\nAccept-Encoding: gzip");
    let body =
        decoded(coded.field("content-encoding").unwrap_or("identity"), &coded.body).unwrap_or(coded.body);
    assert!(String::from_utf8(body).unwrap().contains(MARK));
    let mut client = svc.client();
    let head = asked(&mut client, "HEAD", "/page.php", "Accept: text/html");
    assert!(head.field("content-length").is_none_or(|length| length != PAGE.len().to_string()));
    assert_eq!(client.get("/page.php").text(), PAGE, "the connection goes on");
    let head = asked(&mut client, "HEAD", "/file.html", "Accept: text/html\r\nSec-Fetch-Dest: document");
    let whole = visit(&svc, "/file.html");
    for name in ["content-length", "content-type", "etag", "last-modified", "accept-ranges", "cache-control"]
    {
        assert_eq!(head.field(name), whole.field(name), "{name}");
    }
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(whole.field("etag"), None);
    assert_eq!(client.get("/file.html").text(), PAGE, "the connection goes on");
}

#[test]
fn a_page_is_not_kept_by_its_validators() {
    let fields = "header('ETag: \"a\"'); header('Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT');";
    let begun = "while (ob_get_level()) ob_end_flush(); flush();";
    let svc = start(
        &[
            ("page.php", &format!("<?php {fields} echo '{PAGE}';")),
            ("slow.php", &format!("<?php {fields} echo '{PAGE}'; {begun} echo '<p>more';")),
        ],
        &[],
    );
    for path in ["/page.php", "/slow.php"] {
        for response in
            [visit(&svc, path), asked(&mut svc.client(), "HEAD", path, "Sec-Fetch-Dest: document")]
        {
            for name in ["etag", "last-modified"] {
                assert_eq!(response.field(name), None, "{path} {name}");
            }
        }
        let other = asked(&mut svc.client(), "GET", path, "Accept: */*");
        assert!(other.field("etag").is_some() && other.field("last-modified").is_some(), "{path}");
    }
}

/// A cache of the browser, or of the application, returns the page with the revision that it had at first.
#[test]
fn a_page_from_a_cache_does_not_reload_without_end() {
    let code = format!(
        "<?php $kept = __DIR__ . '/kept'; if (is_file($kept)) {{ header('Content-Encoding: identity'); \
         readfile($kept); exit; }} echo '{PAGE}';"
    );
    let svc = start(&[("index.php", &code), ("style.css", "")], &[]);
    svc.log().expect("code is watched for changes");
    let page = visit(&svc, "/").text();
    std::fs::write(svc.root().join("kept"), page).unwrap();
    let Some(mut browser) = Chromium::start() else { return };
    browser.open(&format!("http://{}/", svc.main()));
    browser.eventually("typeof window.svcReload === 'function'");
    save(&svc.root().join("style.css"), "p {}");
    browser.eventually("performance.getEntriesByType('navigation')[0].type === 'reload'");
    browser.eventually("document.readyState === 'complete' && typeof window.svcReload === 'undefined'");
}

#[test]
fn a_policy_permits_the_script() {
    let code = format!("<?php header(\"Content-Security-Policy: default-src 'none'\"); echo '{PAGE}';");
    let svc = start(&[("index.php", &code)], &[]);
    let policy = visit(&svc, "/").field("content-security-policy").unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src-elem 'sha256-"), "{policy}");
    assert!(policy.ends_with("connect-src 'self'"), "{policy}");
    let other = asked(&mut svc.client(), "GET", "/", "Accept: */*");
    assert_eq!(other.field("content-security-policy"), Some("default-src 'none'"));
}

#[test]
fn a_change_ends_the_wait() {
    for (words, file, code) in [
        (&[][..], "index.php", PAGE),
        (&[], "style.css", "p {}"),
        #[cfg(feature = "worker")]
        (&["--worker", "worker.php"], "index.php", PAGE),
        #[cfg(feature = "worker")]
        (&["--worker", "worker.php"], "style.css", "p {}"),
        #[cfg(feature = "worker")]
        (&["--worker", "worker.php"], "index.php", "<?php function ("),
    ] {
        let worker = "<?php require_once __DIR__ . '/code.inc'; Svc\\Worker::serve(fn () => require __DIR__ . '/index.php');";
        let svc =
            start(&[("index.php", PAGE), ("style.css", ""), ("code.inc", ""), ("worker.php", worker)], words);
        svc.log().expect("code is watched for changes");
        let seen = revision(&visit(&svc, "/"));
        let mut client = waiting(&svc, &seen);
        save(&svc.root().join(file), code);
        let response = client.response();
        assert_eq!(response.status, 200, "{words:?} {file}");
        assert_ne!(response.text(), seen, "{words:?} {file}");
        let now = visit(&svc, "/");
        assert!(now.status == 500 || revision(&now) == response.text(), "{words:?} {file}");
    }
}

/// Compiling a whole framework again takes longer than the rest of a reload.
#[cfg(feature = "worker")]
#[test]
fn opcache_keeps_the_files_that_were_not_saved() {
    let worker = "<?php require __DIR__ . '/code.inc'; Svc\\Worker::serve(function () { echo code(); });";
    let code = |text: &str| format!("<?php function code() {{ return '{text}'; }}");
    let svc = start(&[("worker.php", worker), ("code.inc", &code("first"))], &["--worker", "worker.php"]);
    svc.log().expect("code is watched for changes");
    let path = svc.root().join("code.inc");
    save(&path, &code("saved"));
    eventually("workers run the saved code", || svc.get("/").text() == "saved");
    assert_eq!(svc.metric("svc_opcache_restarts_total"), 0.0);
    let moved = svc.root().join("moved");
    std::fs::write(&moved, code("moved")).unwrap();
    let before = std::time::SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::open(&moved).unwrap().set_modified(before).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    eventually("workers run the file that got the name", || svc.get("/").text() == "moved");
    eventually("OPcache is emptied, because files may have the same time", || {
        svc.metric("svc_opcache_restarts_total") == 1.0
    });
}

#[test]
fn a_browser_that_has_missed_a_change_does_not_wait() {
    let svc = start(&[("index.php", PAGE)], &[]);
    let response = waiting(&svc, "another-server").response();
    assert_eq!((response.status, response.field("cache-control")), (200, Some("no-store")));
    assert_eq!(response.text(), revision(&visit(&svc, "/")));
    assert_eq!(asked(&mut svc.client(), "POST", "/.svc/changes", "Content-Length: 0").status, 405);
}

#[test]
fn waits_do_not_delay_the_end_of_the_server() {
    let mut svc = start(&[("index.php", PAGE)], &[]);
    let seen = revision(&visit(&svc, "/"));
    let mut clients: Vec<_> = (0..5).map(|_| waiting(&svc, &seen)).collect();
    // A response on another connection shows that the server has read the others.
    visit(&svc, "/");
    drop(clients.pop());
    svc.stop();
    for mut client in clients {
        assert!(matches!(client.head_only().status, 204 | 503));
    }
}

/// Opens the page in a browser, changes it, and returns how long the browser takes to show the change.
fn shown_after(words: &[&str], file: &str, code: &str) -> Option<Duration> {
    let worker =
        "<?php require __DIR__ . '/code.inc'; Svc\\Worker::serve(fn () => require __DIR__ . '/index.php');";
    let svc = start(
        &[("index.php", PAGE), ("code.inc", "<?php function more() { return ''; }"), ("worker.php", worker)],
        words,
    );
    svc.log().expect("code is watched for changes");
    let mut browser = Chromium::start()?;
    browser.open(&format!("http://{}/", svc.main()));
    browser.eventually("document.body?.textContent.includes('one')");
    browser.eventually("typeof window.svcReload === 'function'");
    let began = Instant::now();
    save(&svc.root().join(file), code);
    browser.eventually("document.body?.textContent.includes('two')");
    Some(began.elapsed())
}

#[test]
fn a_browser_shows_each_change() {
    let page = PAGE.replace("one", "two");
    for words in MODES {
        if let Some(time) = shown_after(words, "index.php", &page) {
            println!("{words:?}: {time:?}");
        }
    }
}
