//! Cached static files: the metrics, the detection of changes, and the files beside a file.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::decoder::decoded;

/// The maximum time for which a change may go unnoticed.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

fn hits_and_misses(svc: &Svc) -> (f64, f64) {
    (svc.metric("svc_static_cache_hits_total"), svc.metric("svc_static_cache_misses_total"))
}

fn get(client: &mut Client, path: &str, fields: &str) -> Response {
    client.request(&format!("GET {path} HTTP/1.1\r\nHost: test{fields}"))
}

/// Replaces a file with `text` atomically, as deployment tools do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// Sends requests until the answer is `expected`; requests that are sent late enough must get it.
fn assert_seen(svc: &Svc, path: &str, expected: (u16, &str)) {
    let (mut client, changed) = (svc.client(), Instant::now());
    loop {
        let asked = changed.elapsed();
        let response = client.get(path);
        if response.status == expected.0 && (expected.1.is_empty() || response.text() == expected.1) {
            return;
        }
        assert!(asked < SEEN_WITHIN, "{path} after {asked:?}: {} {}", response.status, response.text());
    }
}

#[test]
fn a_file_is_read_once_and_then_sent_from_memory() {
    let svc = Svc::start(&[("a.css", "body{}"), ("docs/index.html", "docs")], &[]);
    let mut client = svc.client();
    for _ in 0..3 {
        assert_eq!(client.get("/a.css").text(), "body{}");
    }
    let etag = client.get("/a.css").field("etag").unwrap().to_owned();
    assert_eq!(get(&mut client, "/a.css", &format!("\r\nIf-None-Match: {etag}")).status, 304);
    assert_eq!(client.request("HEAD /a.css HTTP/1.1\r\nHost: x").status, 200);
    assert_eq!(hits_and_misses(&svc), (5.0, 1.0));
    assert_eq!(
        (client.get("/docs/").text(), client.get("/docs/index.html").text()),
        ("docs".into(), "docs".into())
    );
    assert_eq!(hits_and_misses(&svc), (6.0, 2.0));
    assert_eq!((client.get("/none").status, client.post("/a.css", b"").status), (404, 405));
    assert_eq!(hits_and_misses(&svc), (6.0, 2.0));
}

#[test]
fn every_way_to_change_a_file_is_seen_in_time() {
    let svc = Svc::start(&[("a.txt", "one")], &[]);
    let path = svc.root().join("a.txt");
    assert_eq!(svc.get("/a.txt").text(), "one");
    fs::write(&path, "written over").unwrap();
    assert_seen(&svc, "/a.txt", (200, "written over"));
    replace(&path, "replaced");
    assert_seen(&svc, "/a.txt", (200, "replaced"));
    // The same length and the same time.
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    replace(&path, "deplacer");
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_seen(&svc, "/a.txt", (200, "deplacer"));
    fs::remove_file(&path).unwrap();
    assert_seen(&svc, "/a.txt", (404, ""));
    fs::write(&path, "back").unwrap();
    assert_eq!(svc.get("/a.txt").text(), "back", "what is not there is not remembered");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_seen(&svc, "/a.txt", (301, ""));
}

#[test]
fn a_release_that_is_switched_by_a_link_is_seen_in_time() {
    let releases = tempfile::tempdir().unwrap();
    for release in ["one", "two"] {
        fs::create_dir(releases.path().join(release)).unwrap();
        fs::write(releases.path().join(release).join("app.js"), release).unwrap();
        fs::write(releases.path().join(release).join("only-one.js"), release).unwrap();
    }
    fs::remove_file(releases.path().join("two/only-one.js")).unwrap();
    let current = releases.path().join("current");
    symlink("one", &current).unwrap();
    let svc = Svc::start(&[], &[("DOCUMENT_ROOT", current.to_str().unwrap())]);
    assert_eq!((svc.get("/app.js").text(), svc.get("/only-one.js").text()), ("one".into(), "one".into()));
    symlink("two", releases.path().join("next")).unwrap();
    fs::rename(releases.path().join("next"), &current).unwrap();
    assert_seen(&svc, "/app.js", (200, "two"));
    assert_seen(&svc, "/only-one.js", (404, ""));
}

#[test]
fn a_link_that_leaves_the_root_is_refused_in_time() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    let svc = Svc::start(&[("real.txt", "real")], &[("LINKS_OUTSIDE_ROOT", "false")]);
    let link = svc.root().join("link.txt");
    symlink("real.txt", &link).unwrap();
    assert_eq!(svc.get("/link.txt").text(), "real");
    symlink(outside.path().join("secret.txt"), svc.root().join("next")).unwrap();
    fs::rename(svc.root().join("next"), &link).unwrap();
    assert_seen(&svc, "/link.txt", (403, ""));
}

#[test]
fn without_revalidation_a_change_is_seen_on_sighup() {
    let svc = Svc::start(&[("a.txt", "one")], &[("STATIC_REVALIDATE", "false")]);
    assert_eq!(svc.get("/a.txt").text(), "one");
    replace(&svc.root().join("a.txt"), "two");
    let (mut client, changed) = (svc.client(), Instant::now());
    while changed.elapsed() < SEEN_WITHIN + Duration::from_millis(500) {
        assert_eq!(client.get("/a.txt").text(), "one");
    }
    svc.signal(Signal::HUP);
    eventually("the change is seen", || client.get("/a.txt").text() == "two");
}

#[test]
fn a_crawl_over_all_files_does_not_evict_frequent_ones() {
    let settings = [("STATIC_CACHE_BYTES", "4M"), ("STATIC_REVALIDATE", "false")];
    let svc = Svc::start(&[("logo.css", "logo{}")], &settings);
    let page = "page".repeat(5000);
    for number in 0..400 {
        fs::write(svc.root().join(format!("{number}.txt")), &page).unwrap();
    }
    let mut client = svc.client();
    for _ in 0..10 {
        assert_eq!(client.get("/logo.css").text(), "logo{}");
    }
    let (hits, misses) = hits_and_misses(&svc);
    for number in 0..400 {
        assert_eq!(client.get(&format!("/{number}.txt")).status, 200);
        if number % 10 == 9 {
            assert_eq!(client.get("/logo.css").text(), "logo{}");
        }
    }
    assert_eq!(hits_and_misses(&svc), (hits + 40.0, misses + 400.0));
}

#[test]
fn without_room_every_request_accesses_the_disk() {
    let svc = Svc::start(&[("a.txt", "one")], &[("STATIC_CACHE_BYTES", "0")]);
    let mut client = svc.client();
    assert_eq!(client.get("/a.txt").text(), "one");
    fs::write(svc.root().join("a.txt"), "three").unwrap();
    assert_eq!(client.get("/a.txt").text(), "three");
    let etag = client.get("/a.txt").field("etag").unwrap().to_owned();
    assert_eq!(get(&mut client, "/a.txt", &format!("\r\nIf-None-Match: {etag}")).status, 304);
    assert_eq!(hits_and_misses(&svc), (0.0, 4.0));
}

#[test]
fn a_precompressed_file_is_sent_to_clients_that_accept_it() {
    let files = [("app.js", "plain text"), ("app.js.br", "as brotli"), ("app.js.gz", "as gzip")];
    let svc = Svc::start(&files, &[]);
    let mut client = svc.client();
    let plain = client.get("/app.js");
    assert_eq!((plain.text().as_str(), plain.field("content-encoding")), ("plain text", None));
    let mut tags = vec![plain.field("etag").unwrap().to_owned()];
    for (accept, coding, body) in
        [("gzip, br", "br", "as brotli"), ("gzip", "gzip", "as gzip"), ("br;q=0, x-gzip", "gzip", "as gzip")]
    {
        let response = get(&mut client, "/app.js", &format!("\r\nAccept-Encoding: {accept}"));
        assert_eq!((response.text().as_str(), response.field("content-encoding")), (body, Some(coding)));
        assert_eq!(response.field("content-type"), plain.field("content-type"));
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        let tag = response.field("etag").unwrap().to_owned();
        let known =
            get(&mut client, "/app.js", &format!("\r\nAccept-Encoding: {accept}\r\nIf-None-Match: {tag}"));
        assert_eq!((known.status, known.field("vary")), (304, Some("Accept-Encoding")));
        tags.push(tag);
    }
    assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
    // A neighbour that is deleted, and one that is older than the file.
    fs::remove_file(svc.root().join("app.js.br")).unwrap();
    eventually("the neighbour has ended", || {
        get(&mut client, "/app.js", "\r\nAccept-Encoding: br, gzip").field("content-encoding") == Some("gzip")
    });
    let later = SystemTime::now() + Duration::from_secs(10);
    fs::File::options().write(true).open(svc.root().join("app.js")).unwrap().set_modified(later).unwrap();
    eventually("the older neighbour does not count", || {
        get(&mut client, "/app.js", "\r\nAccept-Encoding: gzip").field("content-encoding").is_none()
    });
}

#[test]
fn a_page_application_keeps_its_page_once() {
    let svc = Svc::start(&[("app.html", "<p>app")], &[("ENTRY_FILE", "app.html")]);
    let mut client = svc.client();
    for path in ["/", "/some/view", "/some/view", "/another", "/app.html"] {
        assert_eq!(client.get(path).text(), "<p>app", "{path}");
    }
    // Such a new file is read again for another path: its next change might not show.
    let (hits, misses) = hits_and_misses(&svc);
    assert!(hits >= 2.0 && hits + misses == 5.0, "{hits} and {misses}");
}

#[test]
fn files_that_change_while_they_are_read_are_never_mixed() {
    let svc = Svc::start(&[("a.txt", &"a".repeat(100_000))], &[]);
    let path = svc.root().join("a.txt");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn({
            let (done, path) = (&done, &path);
            move || {
                for letter in "bcdefghijklmnopqrstuvwxyz".chars().cycle() {
                    replace(path, &letter.to_string().repeat(100_000));
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        let (mut client, started, mut states) = (svc.client(), Instant::now(), BTreeSet::new());
        while started.elapsed() < Duration::from_secs(2) || states.len() < 3 {
            let response = client.get("/a.txt");
            assert_eq!((response.status, response.body.len()), (200, 100_000));
            assert!(response.body.iter().all(|byte| *byte == response.body[0]), "two states in one answer");
            states.insert(response.body[0]);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn compressed_copies_are_made_on_demand() {
    let text = "body { margin: 0; padding: 0; color: black }\n".repeat(50_000);
    let svc = Svc::start(&[("small.css", &text[..20_000]), ("large.css", &text)], &[]);
    let mut client = svc.client();
    for (path, plain) in [("/small.css", &text[..20_000]), ("/large.css", &text)] {
        for coding in ["br", "gzip", "zstd"] {
            assert_copy(&mut client, path, coding, plain);
        }
    }
    assert!(svc.metric("svc_compressed_responses_total") >= 2.0);
    assert!(svc.metric("svc_compression_bytes_saved_total") >= 2_000_000.0);
}

/// Requests a file until it comes in `coding`, and checks the whole response.
fn assert_copy(client: &mut Client, path: &str, coding: &str, plain: &str) {
    let accept = format!("\r\nAccept-Encoding: {coding}");
    let first = get(client, path, &accept);
    assert_eq!((first.text().as_str(), first.field("content-encoding")), (plain, None), "{path}");
    assert_eq!(first.field("vary"), Some("Accept-Encoding"));
    let etag = first.field("etag").unwrap().to_owned();
    let mut coded = first;
    eventually("there is a copy", || {
        coded = get(client, path, &accept);
        coded.field("content-encoding") == Some(coding)
    });
    assert!(coded.is_whole && coded.body.len() < plain.len() / 10);
    assert_eq!(decoded(coding, &coded.body).unwrap(), plain.as_bytes());
    assert_eq!(coded.field("etag"), Some(format!("W/{etag}").as_str()));
    assert_eq!((coded.field("vary"), coded.field("accept-ranges")), (Some("Accept-Encoding"), None));
    for tag in [etag.clone(), format!("W/{etag}")] {
        let known = get(client, path, &format!("{accept}\r\nIf-None-Match: {tag}"));
        assert_eq!((known.status, known.field("vary")), (304, Some("Accept-Encoding")));
    }
    let part = get(client, path, &format!("{accept}\r\nRange: bytes=0-3"));
    assert_eq!((part.status, part.text().as_str(), part.field("content-encoding")), (206, "body", None));
    let coded_length = coded.body.len().to_string();
    // The file is new, so it is read again after a second, and so are its copies.
    eventually("HEAD tells of the copy", || {
        let head = client.request(&format!("HEAD {path} HTTP/1.1\r\nHost: x{accept}"));
        head.field("content-length") == Some(coded_length.as_str())
    });
}

#[test]
fn dense_and_no_transform_files_are_sent_unchanged() {
    let text = "body { margin: 0; padding: 0; color: black }\n".repeat(500);
    let svc = Svc::start(&[("a.css", &text), ("a.png", &text)], &[("GZIP_LEVEL", "0")]);
    let mut client = svc.client();
    for _ in 0..3 {
        let image = get(&mut client, "/a.png", "\r\nAccept-Encoding: gzip, br");
        assert_eq!((image.field("vary"), image.field("content-encoding")), (None, None));
        let sheet = get(&mut client, "/a.css", "\r\nAccept-Encoding: gzip");
        assert_eq!((sheet.field("vary"), sheet.field("content-encoding")), (Some("Accept-Encoding"), None));
    }
    eventually("there is a copy in Brotli", || {
        get(&mut client, "/a.css", "\r\nAccept-Encoding: gzip, br").field("content-encoding") == Some("br")
    });
}
