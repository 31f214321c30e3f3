//! Ranges of static files: from memory, from disk, and of files larger than memory; and clients that resume.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use svc_testing::Svc;
use svc_testing::client::{Client, Response};
use svc_testing::skip::skipped;
use svc_testing::tls::Certificates;

fn get(client: &mut Client, path: &str, fields: &str) -> Response {
    client.request(&format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}"))
}

/// Ways to serve a file: from memory, from a cached descriptor, and newly read from disk each time.
const WAYS: [(usize, &str); 4] = [(1000, "64M"), (1000, "0"), (3_000_000, "64M"), (3_000_000, "0")];

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|place| (place * place / 7).to_le_bytes()[0]).collect()
}

#[test]
fn a_part_is_the_same_wherever_the_file_comes_from() {
    for (length, room) in WAYS {
        let svc = Svc::start(&[], &[("STATIC_CACHE_BYTES", room)]);
        let all = bytes(length);
        fs::write(svc.root().join("a.bin"), &all).unwrap();
        let mut client = svc.client();
        for _ in 0..2 {
            let whole = client.get("/a.bin");
            assert!(whole.is_whole && whole.body == all);
            assert_eq!(whole.field("accept-ranges"), Some("bytes"));
            for (range, start, end) in [
                ("0-0", 0, 1),
                ("10-19", 10, 20),
                ("-5", length - 5, length),
                ("500-", 500, length),
                ("0-99999999", 0, length),
            ] {
                let part = get(&mut client, "/a.bin", &format!("Range: bytes={range}"));
                assert_eq!(part.status, 206, "{range}");
                let place = format!("bytes {start}-{}/{length}", end - 1);
                assert_eq!(part.field("content-range"), Some(place.as_str()));
                assert!(part.is_whole && part.body == all[start..end], "{range} of {length}, {room}");
            }
            let none = get(&mut client, "/a.bin", &format!("Range: bytes={length}-"));
            assert_eq!(none.status, 416);
            assert_eq!(none.field("content-range"), Some(format!("bytes */{length}").as_str()));
            assert_eq!(get(&mut client, "/a.bin", "Range: bytes=5-4").status, 200);
        }
    }
}

#[test]
fn several_parts_come_in_one_body() {
    for (length, room) in WAYS {
        let svc = Svc::start(&[], &[("STATIC_CACHE_BYTES", room)]);
        let all = bytes(length);
        fs::write(svc.root().join("a.bin"), &all).unwrap();
        let response = get(&mut svc.client(), "/a.bin", "Range: bytes=-2, 0-1, 300-303");
        let kind = response.field("content-type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = Vec::new();
        for (start, end) in [(length - 2, length), (0, 2), (300, 304)] {
            let line_end = if expected.is_empty() { "" } else { "\r\n" };
            let head = format!(
                "{line_end}--{boundary}\r\nContent-Type: application/octet-stream\r\n\
                Content-Range: bytes {start}-{}/{length}\r\n\r\n",
                end - 1
            );
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(&all[start..end]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!((response.status, response.is_whole), (206, true));
        assert!(response.body == expected, "{:?}", response.text());
    }
}

#[test]
fn a_download_resumes_only_if_the_file_is_unchanged() {
    let svc = Svc::start(&[("a.bin", "0123456789")], &[]);
    let mut client = svc.client();
    let (etag, modified) = {
        let whole = client.get("/a.bin");
        (whole.field("etag").unwrap().to_owned(), whole.field("last-modified").unwrap().to_owned())
    };
    for (condition, status) in [
        (etag.as_str(), 206),
        (modified.as_str(), 206),
        ("\"other\"", 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
        (format!("W/{etag}").as_str(), 200),
    ] {
        let response = get(&mut client, "/a.bin", &format!("Range: bytes=5-\r\nIf-Range: {condition}"));
        assert_eq!(response.status, status, "{condition}");
    }
    let head = client.request("HEAD /a.bin HTTP/1.1\r\nHost: x\r\nRange: bytes=5-");
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
}

#[test]
fn the_far_end_of_a_huge_file_can_be_had() {
    let svc = Svc::start(&[], &[]);
    const LENGTH: u64 = 5 << 30;
    let file = File::create(svc.root().join("huge.bin")).unwrap();
    file.set_len(LENGTH).unwrap();
    file.write_all_at(b"the end", LENGTH - 7).unwrap();
    let mut client = svc.client();
    let part = get(&mut client, "/huge.bin", "Range: bytes=-7");
    assert_eq!((part.status, part.text().as_str()), (206, "the end"));
    let part = get(&mut client, "/huge.bin", &format!("Range: bytes={}-", LENGTH - 3_000_000));
    assert!(part.is_whole && part.body.len() == 3_000_000 && part.body.ends_with(b"the end"));
    let head = client.request("HEAD /huge.bin HTTP/1.1\r\nHost: x");
    assert_eq!(head.field("content-length"), Some("5368709120"));
}

#[test]
fn a_file_that_shrinks_under_way_breaks_the_connection() {
    let svc = Svc::start(&[], &[]);
    let path = svc.root().join("big.bin");
    // More than sockets buffer.
    fs::write(&path, bytes(64 << 20)).unwrap();
    let mut client = svc.client();
    client.send("GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    let head = client.head_only();
    assert_eq!((head.status, head.field("content-length")), (200, Some("67108864")));
    File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let response = client.body_of(head);
    assert!(!response.is_whole && response.body.len() < 64 << 20);
    assert_eq!(svc.get("/big.bin").body.len(), 1000, "and the next client gets what is there");
}

#[test]
fn clients_that_resume_end_up_with_the_file() {
    let svc = Svc::start(&[], &[]);
    let all = bytes(2_500_000);
    fs::write(svc.root().join("a.bin"), &all).unwrap();
    let url = format!("http://{}/a.bin", svc.main());
    let folder = tempfile::tempdir().unwrap();
    let resume = |name: &str, program: &str, arguments: &[&str]| {
        let target = folder.path().join(name);
        fs::write(&target, &all[..1_000_001]).unwrap();
        let mut command = Command::new(program);
        let Ok(done) = command.args(arguments).arg(&target).arg(&url).output() else {
            skipped(&format!("there is no {program}"));
            return 0.0;
        };
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(fs::read(&target).unwrap() == all, "{program}");
        1.0
    };
    let by_curl =
        resume("curl", "curl", &["--silent", "--show-error", "--fail", "--continue-at", "-", "--output"]);
    let by_wget = resume("wget", "wget", &["--quiet", "--continue", "--output-document"]);
    svc.assert_metric("svc_responses_by_status_total{status=\"2xx\"}", by_curl + by_wget);
}

#[test]
fn every_protocol_gives_the_same_bytes() {
    let certificates = Certificates::new(&[&["files.test"]]);
    let tls = certificates.settings(1);
    let tls: Vec<(&str, &str)> = tls.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let all = bytes(3_000_000);
    for (settings, scheme, protocols) in [
        (&[][..], "http", ["--http1.1", "--http2-prior-knowledge"]),
        (&tls[..], "https", ["--http1.1", "--http2"]),
    ] {
        let svc = Svc::start(&[], settings);
        fs::write(svc.root().join("a.bin"), &all).unwrap();
        fs::write(svc.root().join("small.bin"), &all[..5000]).unwrap();
        for protocol in protocols {
            for (file, range, expected) in [
                ("a.bin", "0-", &all[..]),
                ("a.bin", "70000-2500000", &all[70_000..=2_500_000]),
                ("small.bin", "-4990", &all[10..5000]),
            ] {
                let output = Command::new("curl")
                    .args(["-sS", "--insecure", "--fail", protocol, "--range", range])
                    .arg(format!("{scheme}://{}/{file}", svc.main()))
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                assert!(output.stdout == expected, "{scheme} {protocol} {file} {range}");
            }
        }
    }
}
