//! The response cache: its stored responses, its answers, and its reports to clients and operators. In classic and in
//! worker mode, over HTTP/1 and HTTP/2.

use std::path::Path;

use rustix::process::Signal;

use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::http2::{Http2Client, head};

/// Sets the header fields in the query, waits for a file `go` if the query has `hold`, and prints its number of runs.
const PAGE: (&str, &str) = (
    "page.php",
    r"<?php
    $runs = fopen(__DIR__ . '/runs', 'a');
    flock($runs, LOCK_EX); // until it is closed: no two runs read the same number
    fwrite($runs, 'x');
    $run = fstat($runs)['size'];
    fclose($runs);
    foreach ($_GET['h'] ?? [] as $field) header($field, false);
    if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
    while (isset($_GET['hold']) && !file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
    $failure = @file_get_contents(__DIR__ . '/fail');
    if ($failure === 'status') http_response_code(503);
    if ($failure === 'exception') throw new Exception('failed');
    if ($failure === 'fatal') undefined_function();
    $tag = $_GET['etag'] ?? null;
    if ($tag !== null) {
        header('ETag: ' . $tag);
        if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? null) === $tag) {
            http_response_code(304);
            if (isset($_GET['once'])) header_remove('SVC-Cache-Control');
            header('X-Validated: ' . $run);
            $field = @file_get_contents(__DIR__ . '/confirmation');
            if ($field !== false) header($field, false);
            return;
        }
    }
    if (isset($_GET['cookie'])) header('Set-Cookie: a=b');
    echo 'run ', $run, str_repeat('.', (int) ($_GET['n'] ?? 0));",
);

const APP: (&str, &str) =
    ("app.php", r"<?php Svc\Worker::serve(static function () { require __DIR__ . '/page.php'; });");

const WORKER_MODE: [(&str, &str); 2] = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php")];

/// Starts a server with a cache in classic mode.
fn cached(settings: &[(&str, &str)]) -> Svc {
    Svc::start(&[PAGE, APP], &[&[("RESPONSE_CACHE_BYTES", "16M"), ("PHP_WORKERS", "2")], settings].concat())
}

/// Acts on a server with a cache in each mode of this build.
fn in_each_mode(act: impl Fn(&Svc)) {
    act(&cached(&[]));
    if cfg!(feature = "worker") {
        act(&cached(&WORKER_MODE));
    }
}

/// A URL of the page whose response has these fields.
fn url(name: &str, fields: &[&str]) -> String {
    let encoded =
        |field: &&str| format!("&h[]={}", field.replace('%', "%25").replace(' ', "%20").replace('"', "%22"));
    format!("/page.php?{name}{}", fields.iter().map(encoded).collect::<String>())
}

const MINUTE: &str = "Cache-Control: max-age=60";

fn status_of(response: &Response) -> &str {
    response.field("cache-status").unwrap_or("none")
}

fn get(svc: &Svc, path: &str, fields: &str) -> Response {
    svc.client().request(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}").trim_end())
}

fn touch(svc: &Svc, file: &str, text: &str) {
    std::fs::write(svc.root().join(file), text).unwrap();
}

#[test]
fn a_response_that_permits_it_is_sent_again() {
    in_each_mode(|svc| {
        let page = url("a", &[MINUTE, "X-A: b"]);
        let first = svc.get(&page);
        assert_eq!((first.text().as_str(), status_of(&first)), ("run 1", "svc; fwd=miss; stored"));
        assert!(first.field("age").is_none());
        let second = svc.get(&page);
        assert_eq!(second.text(), "run 1");
        assert!(status_of(&second).starts_with("svc; hit; ttl="), "{}", status_of(&second));
        assert!(second.field("age").is_some() && second.field("x-a") == Some("b"));
        assert_eq!(second.field("date"), first.field("date"));
        assert_ne!(second.field("x-request-id"), first.field("x-request-id"));
        assert_eq!(svc.get(&url("b", &[MINUTE])).text(), "run 2");
    });
}

#[test]
fn both_protocols_share_it() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE]);
    let mut client = Http2Client::connect(svc.main());
    let first = client.get(&page);
    assert_eq!(first.text(), "run 1");
    assert!(first.field("cache-status").unwrap().ends_with("stored"));
    let second = client.get(&page);
    assert_eq!(second.text(), "run 1");
    assert!(second.field("cache-status").unwrap().starts_with("svc; hit"));
    let named = head("GET", &page);
    let authority = named.iter().find(|(name, _)| *name == ":authority").map(|(_, host)| *host).unwrap();
    let third = svc.client().request(&format!("GET {page} HTTP/1.1\r\nHost: {authority}"));
    assert_eq!(third.text(), "run 1");
}

#[test]
fn uncacheable_responses_are_not_stored() {
    in_each_mode(|svc| {
        let mut run = 0;
        for fields in [
            &["X-A: b"][..],
            &["Cache-Control: no-store, max-age=60"],
            &["Cache-Control: private, max-age=60"],
            &["Cache-Control: max-age=0"],
            &[MINUTE, "Set-Cookie: a=b"],
            &[MINUTE, "Vary: *"],
            &[MINUTE, "SVC-Cache-Control: no-store"],
            &[MINUTE, "Expires: 0", "CDN-Cache-Control: private"],
            &[MINUTE, "Content-Length: 3"],
        ] {
            let page = url("a", fields);
            for _ in 0..2 {
                run += 1;
                let response = svc.get(&page);
                assert!(
                    response.text().starts_with("run") && !status_of(&response).contains("stored"),
                    "{fields:?}"
                );
            }
        }
        // The answers to the range or the conditions of one client.
        for status in [206, 412, 416] {
            let page = url(&format!("status={status}"), &[MINUTE]);
            for _ in 0..2 {
                run += 1;
                assert_eq!(status_of(&svc.get(&page)), "svc; fwd=miss", "{status}");
            }
        }
        assert_eq!(std::fs::read(svc.root().join("runs")).unwrap().len(), run);
        assert_eq!(svc.metric("svc_response_cache_requests_total{result=\"hit\"}"), 0.0);
    });
}

#[test]
fn some_requests_are_not_for_the_cache() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE]);
    assert_eq!(svc.get(&page).text(), "run 1");
    for field in [
        "Cookie: a=b; PHPSESSID=1",
        "Cookie: wordpress_logged_in_x=1",
        "Cookie: wp-postpass.x=1",
        "X-HTTP-Method-Override: DELETE",
        "X-Original-URL: /admin",
        "Content-Length: 0\r\nTransfer-Encoding: identity",
    ] {
        let response = get(&svc, &page, &format!("{field}\r\n"));
        assert!(
            response.status == 400 || status_of(&response) == "svc; fwd=bypass",
            "{field}: {}",
            status_of(&response)
        );
    }
    let mut client = svc.client();
    client.send(format!("GET {page} HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\nb"));
    assert_eq!(status_of(&client.response()), "svc; fwd=bypass");
    for field in ["Cookie: theme=dark", "X-Forwarded-Host: evil"] {
        assert!(status_of(&get(&svc, &page, &format!("{field}\r\n"))).starts_with("svc; hit"), "{field}");
    }
}

#[test]
fn responses_to_forged_requests_are_not_stored() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE]);
    for run in 1..=2 {
        let response = get(&svc, &page, "X-Forwarded-Host: evil\r\n");
        assert_eq!((response.text(), status_of(&response)), (format!("run {run}"), "svc; fwd=miss"));
    }
    assert_eq!(get(&svc, &page, "").text(), "run 3");
    assert_eq!(get(&svc, &page, "X-Forwarded-Host: evil\r\n").text(), "run 3");
}

#[test]
fn a_trusted_proxy_names_the_host_in_the_key() {
    let svc = cached(&[("TRUSTED_PROXIES", "127.0.0.1")]);
    let page = url("a", &[MINUTE]);
    for (host, run) in [("a", 1), ("b", 2), ("a", 1), ("A", 1)] {
        let fields = format!("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: {host}\r\n");
        assert_eq!(get(&svc, &page, &fields).text(), format!("run {run}"), "{host}");
    }
}

#[test]
fn a_client_of_a_trusted_proxy_stores_nothing_for_another_host() {
    let svc = cached(&[("TRUSTED_PROXIES", "127.0.0.1")]);
    let page = url("a", &[MINUTE]);
    let ask = |host: &str, fields: &str| {
        svc.client().request(&format!("GET {page} HTTP/1.1\r\nHost: {host}{fields}")).text()
    };
    // The proxy passes on a field that its client has sent.
    for fields in ["\r\nX-Forwarded-Host: site", "\r\nX-Forwarded-Host: site\r\nX-Forwarded-Ssl: on"] {
        let poison = ask("evil", fields);
        assert_eq!(ask("evil", fields), poison, "{fields}");
        let usual = ask("site", "");
        assert!(usual != poison && ask("site", "") == usual, "{fields}");
    }
}

#[test]
fn authorized_responses_need_permission() {
    let svc = cached(&[]);
    for (cache_control, is_shared) in [(MINUTE, false), ("Cache-Control: public, max-age=60", true)] {
        let page = url("a", &[cache_control]);
        let first = get(&svc, &page, "Authorization: Basic YTpi\r\n").text();
        assert_eq!(svc.get(&page).text() == first, is_shared, "{cache_control}");
        let anonymous = svc.get(&page).text();
        assert_eq!(get(&svc, &page, "Authorization: Basic YTpi\r\n").text() == anonymous, is_shared);
    }
}

#[test]
fn ranges_conditions_head_and_codings_are_those_of_files() {
    in_each_mode(|svc| {
        let page = url("n=1000&etag=\"x\"", &[MINUTE, "Content-Type: text/plain"]);
        assert_eq!(svc.get(&page).text().len(), 1005);
        let part = get(svc, &page, "Range: bytes=0-2\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "run"));
        assert_eq!(part.field("content-range"), Some("bytes 0-2/1005"));
        assert_eq!(get(svc, &page, "If-None-Match: \"x\"\r\n").status, 304);
        assert_eq!(get(svc, &page, "If-Match: \"y\"\r\n").status, 412);
        assert_eq!(get(svc, &page, "Range: bytes=2000-\r\n").status, 416);
        let mut client = svc.client();
        client.send(format!("HEAD {page} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let head = client.head_only();
        assert_eq!((head.status, head.field("content-length")), (200, Some("1005")));
        eventually("a copy is made", || {
            get(svc, &page, "Accept-Encoding: gzip\r\n").field("content-encoding").is_some()
        });
        let coded = get(svc, &page, "Accept-Encoding: gzip\r\n");
        assert_eq!((coded.field("etag"), coded.field("vary")), (Some("W/\"x\""), Some("Accept-Encoding")));
        assert!(coded.body.len() < 200 && status_of(&coded).starts_with("svc; hit"));
    });
}

#[test]
fn responses_vary_by_the_fields_that_they_name() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE, "Vary: X-Color, Accept-Language"]);
    for (fields, run) in [
        ("X-Color: red\r\n", 1),
        ("X-Color: blue\r\n", 2),
        ("X-Color: red\r\nX-Other: 1\r\n", 1),
        ("", 3),
        ("Accept-Language: de, en\r\n", 4),
        ("Accept-Language: EN,de\r\n", 4),
        ("X-Color: blue\r\n", 2),
    ] {
        assert_eq!(get(&svc, &page, fields).text(), format!("run {run}"), "{fields}");
    }
    eventually("the variants are counted", || svc.metric("svc_response_cache_entries") == 4.0);
}

#[test]
fn ignored_parameters_make_no_difference() {
    let svc = cached(&[("RESPONSE_CACHE_IGNORE_QUERY", "utm_*, ref")]);
    for (name, run) in [("a", 1), ("utm_source=x&a", 1), ("a&ref=1", 1), ("a&reference=1", 2)] {
        assert_eq!(svc.get(&url(name, &[MINUTE])).text(), format!("run {run}"), "{name}");
    }
    let svc = cached(&[("RESPONSE_CACHE_IGNORE_QUERY", "none")]);
    for (name, run) in [("a", 1), ("a&utm_source=x", 2)] {
        assert_eq!(svc.get(&url(name, &[MINUTE])).text(), format!("run {run}"), "{name}");
    }
}

#[test]
fn a_script_confirms_a_stale_response() {
    in_each_mode(|svc| {
        let page = url("etag=\"x\"", &["Cache-Control: max-age=0"]);
        assert_eq!(svc.get(&page).text(), "run 1");
        let second = svc.get(&page);
        assert_eq!((second.status, second.text().as_str()), (200, "run 1"));
        assert_eq!(
            (status_of(&second), second.field("x-validated")),
            ("svc; fwd=stale; fwd-status=304", Some("2"))
        );
        let third = get(svc, &page, "If-None-Match: \"x\"\r\n");
        assert_eq!((third.status, third.field("etag")), (304, Some("\"x\"")));
        let part = get(svc, &page, "Range: bytes=0-2\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "run"));
        svc.assert_metric("svc_response_cache_requests_total{result=\"revalidated\"}", 3.0);
    });
}

#[test]
fn a_page_that_is_requested_with_conditions_only_is_stored() {
    in_each_mode(|svc| {
        let page = url("etag=\"x\"", &[MINUTE]);
        let ask = || get(svc, &page, "If-None-Match: \"x\"\r\n");
        let first = ask();
        assert_eq!(
            (first.status, status_of(&first), first.field("x-validated")),
            (304, "svc; fwd=miss", Some("1"))
        );
        let second = ask();
        assert_eq!((second.status, status_of(&second)), (304, "svc; fwd=miss; stored"));
        assert!(second.field("etag") == Some("\"x\"") && second.field("x-validated").is_none());
        let third = ask();
        assert!(third.status == 304 && status_of(&third).starts_with("svc; hit"), "{}", status_of(&third));
        assert_eq!(svc.get(&page).text(), "run 2");
        let other = get(svc, &page, "If-None-Match: \"y\"\r\n");
        assert_eq!((other.status, other.text().as_str()), (200, "run 2"));
    });
}

#[test]
fn conditions_are_left_out_once_if_the_whole_response_may_not_be_stored() {
    in_each_mode(|svc| {
        let page = url("etag=\"x\"&cookie", &[MINUTE]);
        let statuses =
            [0; 4].map(|_| get(svc, &page, "If-None-Match: \"x\"\r\n")).map(|response| response.status);
        assert_eq!(statuses, [304, 200, 304, 304]);
    });
}

#[test]
fn a_304_that_may_not_be_stored_changes_nothing() {
    let svc = cached(&[]);
    for fields in [&[][..], &["Cache-Control: private"], &[MINUTE, "Set-Cookie: a=b"]] {
        let page = url("etag=\"x\"", fields);
        for _ in 0..3 {
            let response = get(&svc, &page, "If-None-Match: \"x\"\r\n");
            assert!(response.status == 304 && response.field("x-validated").is_some(), "{fields:?}");
        }
    }
    svc.assert_metric("svc_response_cache_entries", 0.0);
}

#[test]
fn conditions_are_evaluated_for_a_response_that_replaces_a_stale_one() {
    in_each_mode(|svc| {
        let page = |tag: &str| url("a", &["Cache-Control: max-age=0", &format!("ETag: {tag}")]);
        assert_eq!(svc.get(&page("\"x\"")).status, 200);
        let renewed = get(svc, &page("\"x\""), "If-None-Match: \"x\"\r\n");
        assert_eq!((renewed.status, status_of(&renewed)), (304, "svc; fwd=stale; stored"));
        let failed = get(svc, &page("\"x\""), "If-Match: \"y\"\r\n");
        assert_eq!(failed.status, 412);
        let part = get(svc, &page("\"x\""), "Range: bytes=0-2\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "run"));
        // A whole response is that of the script, with its coding.
        let text = format!("{}&n=9000", page("\"x\""));
        for _ in 0..2 {
            let whole = get(svc, &text, "If-None-Match: \"y\"\r\nAccept-Encoding: gzip\r\n");
            assert_eq!((whole.status, whole.field("content-encoding")), (200, Some("gzip")));
        }
    });
}

#[test]
fn an_authorized_request_keeps_no_response_from_others() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE]);
    assert_eq!(status_of(&get(&svc, &page, "Authorization: Basic YTpi\r\n")), "svc; fwd=miss");
    assert_eq!(status_of(&svc.get(&page)), "svc; fwd=miss; stored");
    assert!(status_of(&svc.get(&page)).starts_with("svc; hit"));
}

#[test]
fn a_confirmation_keeps_the_directives_for_this_cache() {
    let svc = cached(&[]);
    for (name, own) in [("a", "SVC-Cache-Control: no-cache"), ("b", "SVC-Cache-Control: max-age=0")] {
        let page = url(&format!("{name}&etag=\"x\"&once"), &["Cache-Control: private, max-age=60", own]);
        let first = svc.get(&page);
        assert_eq!(status_of(&first), "svc; fwd=miss; stored", "{own}");
        for _ in 0..2 {
            let response = svc.get(&page);
            assert_eq!(status_of(&response), "svc; fwd=stale; fwd-status=304", "{own}");
            assert!(response.text() == first.text() && response.field("svc-cache-control").is_none());
        }
    }
}

#[test]
fn a_confirmation_that_is_for_one_client_is_not_stored() {
    in_each_mode(|svc| {
        for (index, field) in
            ["Set-Cookie: a=b", "Cache-Control: private", "Vary: X-Color"].iter().enumerate()
        {
            let page = url(&format!("{index}&etag=\"x\""), &["Cache-Control: max-age=0"]);
            let first = svc.get(&page);
            assert!(status_of(&first).ends_with("stored"), "{field}");
            touch(svc, "confirmation", field);
            let second = svc.get(&page);
            assert_eq!((second.status, second.text()), (200, first.text()), "{field}");
            assert_eq!(status_of(&second), "svc; fwd=stale; fwd-status=304", "{field}");
            assert_eq!(second.field("set-cookie").is_some(), index == 0, "the client gets it");
            std::fs::remove_file(svc.root().join("confirmation")).unwrap();
            let third = svc.get(&page);
            assert_ne!(third.text(), first.text(), "{field}");
            assert_eq!((third.field("set-cookie"), status_of(&third)), (None, "svc; fwd=miss"), "{field}");
        }
        svc.assert_metric("svc_response_cache_entries", 0.0);
        svc.assert_metric("svc_response_cache_purged_total", 3.0);
    });
}

#[test]
fn fields_for_the_cache_alone_do_not_reach_clients() {
    let svc = cached(&[]);
    let fields = [
        "SVC-Cache-Control: max-age=60",
        "CDN-Cache-Control: max-age=1",
        "Cache-Tag: a",
        "Surrogate-Key: b c",
    ];
    for _ in 0..2 {
        let response = svc.get(&url("a", &fields));
        assert_eq!(
            (response.text().as_str(), response.field("cdn-cache-control")),
            ("run 1", Some("max-age=1"))
        );
        for name in ["svc-cache-control", "cache-tag", "surrogate-key"] {
            assert_eq!(response.field(name), None, "{name}");
        }
    }
    let off = Svc::start(&[PAGE], &[]);
    let response = off.get(&url("a", &fields));
    assert_eq!((response.field("cache-tag"), response.field("cache-status")), (Some("a"), None));
    assert!(!off.ask("/metrics").text().contains("svc_response_cache_"));
}

#[test]
fn micro_caching_stores_responses_without_cache_control() {
    let svc = cached(&[("RESPONSE_CACHE_DEFAULT_TTL_MS", "60000")]);
    for (name, is_stored) in [("a", true), ("status=404", true), ("status=201", false), ("status=503", false)]
    {
        let first = svc.get(&url(name, &[])).text();
        assert_eq!(svc.get(&url(name, &[])).text() == first, is_stored, "{name}");
    }
    assert_ne!(
        svc.get(&url("b", &["Cache-Control: no-cache"])).text(),
        svc.get(&url("b", &["Cache-Control: no-cache"])).text()
    );
}

#[test]
fn a_large_response_is_sent_and_not_stored() {
    in_each_mode(|svc| {
        let page = url("n=2000000", &[MINUTE]);
        for run in 1..=2 {
            let response = svc.get(&page);
            assert!(response.text().len() > 2_000_000 && response.text().starts_with(&format!("run {run}.")));
        }
        svc.assert_metric("svc_response_cache_entries", 0.0);
    });
}

#[test]
fn a_response_that_is_flushed_is_stored_too() {
    let script = "<?php header('Cache-Control: max-age=60'); for ($i = 0; $i < 3; $i++) { echo uniqid(), ' '; ob_flush(); flush(); }";
    let svc = Svc::start(&[("flush.php", script)], &[("RESPONSE_CACHE_BYTES", "16M")]);
    let first = svc.get("/flush.php");
    let second = svc.get("/flush.php");
    assert_eq!(second.text(), first.text());
    assert!(status_of(&second).starts_with("svc; hit"));
}

#[test]
fn failed_responses_are_not_stored() {
    in_each_mode(|svc| {
        let page = url("a", &[MINUTE]);
        for failure in ["exception", "fatal"] {
            touch(svc, "fail", failure);
            assert_eq!(svc.get(&page).status, 500, "{failure}");
        }
        touch(svc, "fail", "");
        assert_eq!(svc.get(&page).text(), "run 3");
    });
}

#[test]
fn the_access_log_shows_the_result_of_the_cache() {
    let mut svc = cached(&[("ACCESS_LOG", "all")]);
    svc.get(&url("a", &[MINUTE]));
    svc.get(&url("a", &[MINUTE]));
    svc.client().post("/page.php", b"x");
    svc.get("/none.txt");
    let words: Vec<_> = svc
        .whole_log()
        .of("access")
        .iter()
        .map(|record| record["fields"]["cache"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(words, [Some("miss"), Some("hit"), Some("bypass"), None].map(|word| word.map(str::to_owned)));
}

#[test]
fn a_hit_is_a_request_that_needs_no_worker() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE]);
    svc.get(&page);
    let before = svc.metric("svc_queue_wait_us_count");
    for _ in 0..5 {
        svc.get(&page);
    }
    assert_eq!(svc.metric("svc_requests_total"), 6.0);
    assert_eq!(svc.metric("svc_queue_wait_us_count"), before);
    svc.assert_metric("svc_response_cache_requests_total{result=\"hit\"}", 5.0);
}

#[test]
fn a_reload_empties_it() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE]);
    assert_eq!((svc.get(&page).text(), svc.get(&page).text()), ("run 1".to_owned(), "run 1".to_owned()));
    svc.signal(Signal::HUP);
    eventually("the script runs again", || svc.get(&page).text() != "run 1");
}

#[test]
fn it_answers_while_no_worker_is_free() {
    let svc = cached(&[]);
    let page = url("a", &[MINUTE]);
    svc.get(&page);
    let mut held: Vec<Client> = (0..2).map(|_| svc.client()).collect();
    for (number, client) in held.iter_mut().enumerate() {
        client.send(format!("GET /page.php?hold&{number} HTTP/1.1\r\nHost: test\r\n\r\n"));
    }
    eventually("both workers are busy", || svc.metric("svc_busy_workers") == 2.0);
    assert_eq!(svc.get(&page).text(), "run 1");
    go(svc.root());
    held.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

fn go(root: &Path) {
    std::fs::write(root.join("go"), "").unwrap();
}
