//! A real application from its installer on: DokuWiki as Debian packages it, used by an administrator and a visitor.
#![cfg(feature = "php")]

use svc_testing::Svc;
use svc_testing::browser::{Browser, Part, input};
use svc_testing::client::eventually;
use svc_testing::wiki::{fresh_copy, install, log_in};

const TEXT: &str = "====== Wombats ======\n\nThe quick brown wombat \u{2014} \u{fc}n\u{ef}c\u{f6}d\u{e9}, **bold**, <no tag> & \"quotes\".\n\n  * one\n  * two\n";

fn save_page(browser: &mut Browser) {
    let form = browser.get("/doku.php?id=animals:wombat&do=edit").text();
    let (token, check) = (input(&form, "sectok"), input(&form, "changecheck"));
    let fields = [
        ("sectok", token.as_str()),
        ("id", "animals:wombat"),
        ("rev", "0"),
        ("date", ""),
        ("prefix", "."),
        ("suffix", ""),
        ("changecheck", &check),
        ("target", "section"),
        ("wikitext", TEXT),
        ("summary", "created"),
        ("do[save]", "1"),
    ];
    let page = browser.submit("/doku.php?id=animals:wombat", &fields);
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<strong>bold</strong>, &lt;no tag&gt; &amp; "), "{}", page.text());
}

fn upload_file(browser: &mut Browser, name: &str, content: &[u8]) {
    let page = browser.get("/lib/exe/mediamanager.php?ns=animals").text();
    let parts = [
        Part::Field("call", "mediaupload"),
        Part::Field("ns", "animals"),
        Part::Field("mediaid", name),
        Part::Field("sectok", &input(&page, "sectok")),
        Part::File("qqfile", name, content),
    ];
    let answer = browser.upload("/lib/exe/ajax.php", &parts).text();
    assert!(answer.contains("\"success\":true"), "{answer}");
}

#[test]
fn a_wiki_is_installed_edited_and_searched() {
    let svc = Svc::start_in(fresh_copy(), &[("PHP_WORKERS", "4"), ("ACCESS_LOG", "error")]);
    let mut admin = Browser::open(svc.main());
    install(&mut admin);
    log_in(&mut admin);
    save_page(&mut admin);
    // Every byte value, boundaries and line ends included, and more than the memory limit of a body.
    let file: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    upload_file(&mut admin, "bytes.zip", &file);

    let mut visitor = Browser::open(svc.main());
    assert_eq!(visitor.get("/doku.php?id=animals:wombat&do=export_raw").text(), TEXT);
    let got = visitor.get("/lib/exe/fetch.php?media=animals:bytes.zip");
    assert_eq!((got.field("content-type"), got.body == file), (Some("application/zip"), true));
    // The image on the page makes the browser start DokuWiki's indexer.
    let image = visitor.get("/lib/exe/taskrunner.php?id=animals:wombat");
    assert_eq!((image.field("content-type"), &image.body[..3]), (Some("image/gif"), &b"GIF"[..]));
    let found = visitor.get("/doku.php?do=search&q=quick+wombat&id=start").text();
    assert!(found.contains("animals:wombat") && found.contains("brown"), "{found}");
    let form = visitor.get("/doku.php?id=animals:wombat&do=edit").text();
    assert!(!form.contains("name=\"do[save]\""), "a visitor may not write");

    for page in [
        "/",
        "/feed.php",
        "/lib/exe/css.php?t=dokuwiki",
        "/lib/exe/js.php?t=dokuwiki",
        "/lib/exe/jquery.php",
        "/doku.php?do=recent",
    ] {
        let response = visitor.get(page);
        assert!(response.status == 200 && response.body.len() > 1000, "{page}: {}", response.status);
    }
    for page in
        ["/doku.php?do=admin", "/doku.php?do=admin&page=config", "/doku.php?do=admin&page=usermanager"]
    {
        assert_eq!(admin.get(page).status, 200, "{page}");
    }
    let logo = visitor.get("/lib/tpl/dokuwiki/images/logo.png");
    assert_eq!((logo.status, logo.field("content-type")), (200, Some("image/png")));
    check_what_the_operator_sees(&svc, file.len());
}

fn check_what_the_operator_sees(svc: &Svc, uploaded_bytes: usize) {
    let php = svc.log().of("php");
    let fatal: Vec<_> = php.iter().filter(|record| record["level"] == "ERROR").collect();
    assert!(fatal.is_empty(), "{fatal:?}");
    let failed: Vec<_> = svc
        .log()
        .of("access")
        .into_iter()
        .filter(|record| record["fields"]["status"].as_u64() >= Some(500))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    svc.assert_metric("svc_responses_by_status_total{status=\"5xx\"}", 0.0);
    assert!(svc.metric("svc_requests_by_method_total{method=\"POST\"}") >= 5.0);
    assert!(
        svc.metric("svc_responses_by_status_total{status=\"3xx\"}") >= 2.0,
        "logging in and saving redirect"
    );
    assert!(svc.metric("svc_request_bytes_total") > uploaded_bytes as f64);
    assert!(svc.metric("svc_response_bytes_total") > uploaded_bytes as f64);
    // The last request is counted shortly after its response.
    eventually("all but the logo have waited", || {
        svc.metric("svc_queue_wait_us_count") as u64 + 1 == svc.metric("svc_request_duration_us_count") as u64
    });
    svc.assert_metric("svc_busy_workers", 0.0);
}
