//! Validators of files whose modification times are meaningless: a client's copy of another state of the file is known to
//! be stale.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_testing::Svc;
use svc_testing::client::{Response, eventually};
use svc_testing::http2::{Http2Client, head};

/// The modification time that a reproducible build gives to all files and folders.
const BUILT: u64 = 1_704_067_200;

/// A file cached in memory, one cached as a descriptor, and one that is too large to be hashed.
const SIZES: [u64; 3] = [3000, 2 << 20, 17 << 20];

/// The modification times of the files and of the document root, which do not show a change.
const TIMES: [(u64, Option<u64>); 3] = [(0, None), (1, None), (BUILT, Some(BUILT))];

#[derive(Clone, Copy, Debug)]
enum Protocol {
    Http1,
    Http2,
}

fn ask(svc: &Svc, protocol: Protocol, method: &str, fields: &[(&str, &str)]) -> Response {
    match protocol {
        Protocol::Http1 => {
            let lines: String = fields.iter().map(|(name, value)| format!("\r\n{name}: {value}")).collect();
            svc.client().request(&format!("{method} /a.css HTTP/1.1\r\nHost: x{lines}"))
        }
        Protocol::Http2 => {
            let mut client = Http2Client::connect(svc.main());
            let id = client.open(&[head(method, "/a.css"), fields.to_vec()].concat(), true);
            client.response(id)
        }
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Installs a file of `length` bytes as a deployment does, with the build's modification time.
fn deploy(root: &Path, length: u64, letter: u8, (time, of_root): (u64, Option<u64>)) {
    let new = root.join("new");
    fs::write(&new, vec![letter; usize::try_from(length).unwrap()]).unwrap();
    File::options().write(true).open(&new).unwrap().set_modified(at(time)).unwrap();
    fs::rename(&new, root.join("a.css")).unwrap();
    if let Some(time) = of_root {
        File::open(root).unwrap().set_modified(at(time)).unwrap();
    }
}

#[test]
fn a_change_that_no_time_shows_is_sent() {
    let combined =
        ["64M", "0"].map(|room| [SIZES[0], SIZES[1]].map(|length| TIMES.map(|times| (room, length, times))));
    let largest = ("64M", SIZES[2], TIMES[1]);
    for (room, length, times) in combined.into_iter().flatten().flatten().chain([largest]) {
        let root = tempfile::tempdir().unwrap();
        deploy(root.path(), length, b'a', times);
        let svc = Svc::start_in(root, &[("STATIC_CACHE_BYTES", room)]);
        let what = format!("{length} bytes, {times:?}, a cache of {room}");
        let tag = |protocol| {
            let whole = ask(&svc, protocol, "GET", &[]);
            assert_eq!((whole.status, whole.field("last-modified")), (200, None), "{what}");
            assert_eq!(whole.field("accept-ranges"), Some("bytes"));
            let tag = whole.field("etag").unwrap().to_owned();
            assert!(tag.starts_with('"'), "strong: {tag}");
            assert_eq!(ask(&svc, protocol, "HEAD", &[]).field("etag"), Some(tag.as_str()), "{what}");
            tag
        };
        let old = tag(Protocol::Http1);
        let conditions = |protocol, tag: &str, is_known: bool| {
            let (known, part) = if is_known { (304, 206) } else { (200, 200) };
            for method in ["GET", "HEAD"] {
                let response = ask(&svc, protocol, method, &[("if-none-match", tag)]);
                assert_eq!(response.status, known, "{what}, {method}, {protocol:?}");
                let future = [("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT")];
                assert_eq!(
                    ask(&svc, protocol, method, &future).status,
                    200,
                    "{what}, {method}, {protocol:?}"
                );
            }
            let resumed = ask(&svc, protocol, "GET", &[("range", "bytes=5-"), ("if-range", tag)]);
            assert_eq!(resumed.status, part, "{what}, {protocol:?}");
            let dated = [("range", "bytes=5-9"), ("if-range", "Thu, 01 Jan 1970 00:00:00 GMT")];
            assert_eq!(ask(&svc, protocol, "GET", &dated).status, 200, "{what}, {protocol:?}");
            assert_eq!(ask(&svc, protocol, "GET", &[("range", "bytes=5-9")]).status, 206);
            let failed = if is_known { 200 } else { 412 };
            assert_eq!(
                ask(&svc, protocol, "GET", &[("if-match", tag)]).status,
                failed,
                "{what}, {protocol:?}"
            );
            assert_eq!(ask(&svc, protocol, "GET", &[("if-none-match", "*")]).status, 304);
        };
        for protocol in [Protocol::Http1, Protocol::Http2] {
            assert_eq!(tag(protocol), old, "{what}");
            conditions(protocol, &old, true);
        }
        deploy(svc.root(), length, b'b', times);
        // After the rename and before the folder gets its time, the file's time seems meaningful.
        eventually("the new file is sent", || {
            let response = ask(&svc, Protocol::Http1, "GET", &[]);
            response.body[0] == b'b' && response.field("last-modified").is_none()
        });
        for protocol in [Protocol::Http1, Protocol::Http2] {
            assert_ne!(tag(protocol), old, "{what}");
            conditions(protocol, &old, false);
        }
    }
}

#[test]
fn compressed_copies_follow_their_file() {
    let root = tempfile::tempdir().unwrap();
    deploy(root.path(), 3000, b'a', TIMES[1]);
    let svc = Svc::start_in(root, &[]);
    let coded = |fields: &[(&str, &str)]| {
        ask(&svc, Protocol::Http2, "GET", &[&[("accept-encoding", "gzip")], fields].concat())
    };
    let is_coded = || coded(&[]).field("content-encoding").is_some();
    eventually("there is a copy", is_coded);
    let tag = coded(&[]).field("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    assert_eq!(coded(&[("if-none-match", &tag)]).status, 304);
    deploy(svc.root(), 3000, b'b', TIMES[1]);
    eventually("the old copy is known to be old", || coded(&[("if-none-match", &tag)]).status == 200);
    eventually("there is a new copy", is_coded);
    assert_ne!(coded(&[]).field("etag"), Some(tag.as_str()));
}

#[test]
fn servers_agree_on_the_tag_of_a_file_wherever_its_time_comes_from() {
    let tag_of = |length, times| {
        let root = tempfile::tempdir().unwrap();
        deploy(root.path(), length, b'a', times);
        let svc = Svc::start_in(root, &[]);
        ask(&svc, Protocol::Http1, "GET", &[]).field("etag").unwrap().to_owned()
    };
    let small = TIMES.map(|times| tag_of(SIZES[0], times));
    assert!(small.iter().all(|tag| *tag == small[0]), "{small:?}");
    assert_eq!(tag_of(SIZES[0], (BUILT, None)), small[0], "a file with a date");
    let large = TIMES.map(|times| tag_of(SIZES[1], times));
    assert!(large.iter().all(|tag| *tag == large[0]), "{large:?}");
    assert_eq!(tag_of(SIZES[1], (BUILT, None)), large[0], "a file with a date");
    let dated = tag_of(SIZES[2], (BUILT, None));
    assert_eq!(tag_of(SIZES[2], (BUILT, None)), dated);
    assert_ne!(tag_of(SIZES[2], (BUILT + 1, None)), dated);
}

/// As where scripts create files in a document root that a reproducible build has made.
#[test]
fn a_large_file_of_a_build_is_known_by_its_content_whatever_the_time_of_the_root() {
    let root = tempfile::tempdir().unwrap();
    deploy(root.path(), SIZES[1], b'a', (BUILT, None));
    let svc = Svc::start_in(root, &[]);
    let first = ask(&svc, Protocol::Http1, "GET", &[]).field("etag").unwrap().to_owned();
    deploy(svc.root(), SIZES[1], b'b', (BUILT, None));
    eventually("the tag is another", || {
        ask(&svc, Protocol::Http1, "HEAD", &[]).field("etag") != Some(first.as_str())
    });
    for protocol in [Protocol::Http1, Protocol::Http2] {
        assert_eq!(ask(&svc, protocol, "GET", &[("if-none-match", &first)]).status, 200);
        let part = [("if-range", first.as_str()), ("range", "bytes=0-4")];
        assert_eq!(ask(&svc, protocol, "GET", &part).status, 200);
    }
}

#[test]
fn a_file_with_a_date_keeps_it() {
    let root = tempfile::tempdir().unwrap();
    deploy(root.path(), 3000, b'a', (BUILT, None));
    let svc = Svc::start_in(root, &[]);
    let response = ask(&svc, Protocol::Http1, "GET", &[]);
    assert_eq!(response.field("last-modified"), Some("Mon, 01 Jan 2024 00:00:00 GMT"));
    let since = [("if-modified-since", "Mon, 01 Jan 2024 00:00:00 GMT")];
    assert_eq!(ask(&svc, Protocol::Http2, "GET", &since).status, 304);
}
