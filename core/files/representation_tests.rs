//! Requests for a file of ten bytes or more: alone, with precompressed files, and with compressed copies.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;
use crate::files::asset::AssetOptions;
use crate::files::file_version::FileVersion;
use crate::files::resolve::{Opened, StaticFile};
use crate::http::{HeadLimits, Parsed, parse};

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const TAG: &str = "\"84d89877f0d4041efb6bf91a16f0248f\"";

fn time() -> SystemTime {
    UNIX_EPOCH + Duration::new(784_111_777, 123_456_245)
}

fn opened(bytes: &[u8]) -> Opened {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.set_modified(time()).unwrap();
    let stamp = FileVersion::of(&rustix::fs::fstat(&file).unwrap());
    Opened { file, stamp }
}

fn options(codings: &[Coding]) -> AssetOptions {
    AssetOptions {
        max_age: Duration::from_secs(3600),
        codings: codings.to_vec(),
        is_compressible: |content_type| content_type.starts_with(b"text/"),
        memory_file_max: 100_000,
        hashed_file_max: 0,
    }
}

fn asset(bytes: &[u8], neighbours: &[(Coding, &[u8])], codings: &[Coding]) -> Asset {
    let coded = neighbours.iter().map(|(coding, bytes)| (*coding, opened(bytes))).collect();
    let found = StaticFile {
        path: b"/a.css".to_vec(),
        elsewhere: None,
        plain: opened(bytes),
        coded,
        root_modified: None,
    };
    Asset::load(found, &options(codings), time()).unwrap()
}

/// Returns ten bytes that are not compressible.
fn small() -> Asset {
    asset(b"0123456789", &[], &[])
}

/// Returns a text of which compressed copies are created.
fn codable() -> Asset {
    asset(&[b'a'; 1000], &[], &[Coding::Brotli, Coding::Gzip])
}

fn head_of(method: &str, fields: &str) -> Head {
    let text = format!("{method} /a.css HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
        panic!("{text}")
    };
    head
}

fn asked(asset: &Asset, method: &str, fields: &str) -> Representation {
    represent(asset, &head_of(method, fields), || "B".into())
}

fn get(asset: &Asset, fields: &str) -> Representation {
    asked(asset, "GET", fields)
}

fn text(answer: &Representation) -> String {
    let mut text = String::new();
    let mut length = 0;
    for piece in &answer.body {
        match piece {
            BodyPiece::Bytes(bytes) => text.push_str(std::str::from_utf8(bytes).unwrap()),
            BodyPiece::File(_, range) => text.push_str(&format!("<{range:?}>")),
        }
        length += piece.len();
    }
    assert!(answer.body.is_empty() || answer.length == Some(length), "{answer:?}");
    text
}

fn field<'a>(answer: &'a Representation, name: &str) -> Option<&'a str> {
    answer.fields.get(name.as_bytes()).map(|value| std::str::from_utf8(value).unwrap())
}

#[test]
fn a_plain_request_gets_type_validators_and_freshness() {
    let asset = small();
    let plain = get(&asset, "");
    assert_eq!((plain.status, plain.length, text(&plain).as_str()), (200, Some(10), "0123456789"));
    let lines = format!(
        "Last-Modified: {MODIFIED}\r\nETag: {TAG}\r\nCache-Control: max-age=3600\r\nAccept-Ranges: bytes\r\n\
        Content-Type: text/css; charset=utf-8\r\n"
    );
    assert_eq!(String::from_utf8_lossy(plain.fields.as_bytes()), lines);
    assert_eq!((plain.coded, plain.order), (None, None));
}

#[test]
fn head_announces_what_get_would_send() {
    let asset = small();
    let (get, head) = (get(&asset, ""), asked(&asset, "HEAD", ""));
    assert_eq!((head.status, head.length, &head.fields), (get.status, get.length, &get.fields));
    assert!(head.body.is_empty());
    let head = asked(&asset, "HEAD", "Range: bytes=0-1\r\n");
    assert_eq!((head.status, head.length), (200, Some(10)), "ranges are for GET");
}

#[test]
fn other_methods_are_refused_with_allow() {
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "QUERY", "get"] {
        let refused = asked(&small(), method, "");
        assert_eq!((refused.status, refused.length, refused.body.len()), (405, None, 0), "{method}");
        assert_eq!(field(&refused, "allow"), Some("GET, HEAD"));
    }
}

#[test]
fn a_copy_that_is_still_good_is_304_with_validators_and_without_a_type() {
    let good = get(&small(), &format!("If-None-Match: {TAG}\r\n"));
    assert_eq!((good.status, good.length, good.body.len()), (304, None, 0));
    assert_eq!(field(&good, "etag"), Some(TAG));
    assert!(field(&good, "last-modified").is_some() && field(&good, "cache-control").is_some());
    assert!(field(&good, "content-type").is_none() && field(&good, "accept-ranges").is_none());
    let failed = get(&small(), "If-Match: \"x\"\r\n");
    assert_eq!((failed.status, failed.body.len()), (412, 0));
}

#[test]
fn a_range_is_a_part_with_its_place() {
    let part = get(&small(), "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.length, text(&part).as_str()), (206, Some(3), "234"));
    assert_eq!(field(&part, "content-range"), Some("bytes 2-4/10"));
    assert_eq!(
        (field(&part, "etag"), field(&part, "content-type")),
        (Some(TAG), Some("text/css; charset=utf-8"))
    );
    assert_eq!(text(&get(&small(), "Range: bytes=-3\r\n")), "789");
    let whole = get(&small(), "Range: lines=2-4\r\n");
    assert_eq!((whole.status, field(&whole, "content-range")), (200, None));
}

#[test]
fn a_range_behind_the_end_is_416_with_the_length() {
    let refused = get(&small(), "Range: bytes=10-\r\n");
    assert_eq!((refused.status, refused.body.len()), (416, 0));
    assert_eq!(field(&refused, "content-range"), Some("bytes */10"));
}

#[test]
fn conditions_are_judged_before_ranges() {
    let range = "Range: bytes=2-4\r\n";
    let status = |fields: &str| get(&small(), &format!("{range}{fields}")).status;
    assert_eq!(status(&format!("If-None-Match: {TAG}\r\n")), 304);
    assert_eq!(status("If-Match: \"x\"\r\n"), 412);
    assert_eq!(status(&format!("If-Range: {TAG}\r\n")), 206);
    assert_eq!(status(&format!("If-Range: {MODIFIED}\r\n")), 206);
    assert_eq!(status("If-Range: \"x\"\r\n"), 200);
    assert_eq!(status(&format!("If-Range: W/{TAG}\r\n")), 200);
    assert_eq!(
        get(&small(), "Range: bytes=10-\r\nIf-Range: \"x\"\r\n").status,
        200,
        "416 only for this state"
    );
}

#[test]
fn several_ranges_are_parts_of_one_body() {
    let asset = asset(&[b'x'; 1000], &[], &[]);
    let parts = get(&asset, "Range: bytes=0-1,500-501\r\n");
    assert_eq!(parts.status, 206);
    assert_eq!(field(&parts, "content-type"), Some("multipart/byteranges; boundary=B"));
    assert_eq!(field(&parts, "content-range"), None);
    let head = "Content-Type: text/css; charset=utf-8\r\nContent-Range: bytes";
    assert_eq!(
        text(&parts),
        format!("--B\r\n{head} 0-1/1000\r\n\r\nxx\r\n--B\r\n{head} 500-501/1000\r\n\r\nxx\r\n--B--\r\n")
    );
}

#[test]
fn parts_that_are_more_than_the_whole_are_the_whole() {
    let asset = asset(&[b'x'; 300], &[], &[]);
    let whole = get(&asset, "Range: bytes=0-100,200-299\r\n");
    assert_eq!((whole.status, whole.length, field(&whole, "content-range")), (200, Some(300), None));
}

#[test]
fn a_large_file_is_sent_from_its_descriptor() {
    let length = 100_001;
    let asset = asset(&vec![0; length], &[], &[]);
    assert_eq!(text(&get(&asset, "")), format!("<0..{length}>"));
    assert_eq!(text(&get(&asset, "Range: bytes=-1\r\n")), format!("<{}..{length}>", length - 1));
    assert_eq!(asset.descriptors(), 1);
}

#[test]
fn an_empty_file_has_a_length_and_no_body() {
    let empty = get(&asset(b"", &[], &[]), "");
    assert_eq!((empty.status, empty.length, empty.body.len()), (200, Some(0), 0));
    assert_eq!(get(&asset(b"", &[], &[]), "Range: bytes=0-\r\n").status, 416);
}

#[test]
fn a_precompressed_file_has_separate_validators() {
    let asset =
        asset(b"0123456789", &[(Coding::Brotli, b"brotli"), (Coding::Gzip, b"gzip")], &[Coding::Zstd]);
    let plain = get(&asset, "");
    assert_eq!((text(&plain).as_str(), field(&plain, "vary")), ("0123456789", Some("Accept-Encoding")));
    let coded = get(&asset, "Accept-Encoding: gzip, br\r\n");
    assert_eq!((text(&coded).as_str(), field(&coded, "content-encoding")), ("brotli", Some("br")));
    assert_eq!(
        (coded.length, coded.coded, coded.order),
        (Some(6), Some(Coded { before: 10, after: 6 }), None)
    );
    assert_eq!(field(&coded, "content-type"), Some("text/css; charset=utf-8"));
    let gzip = get(&asset, "Accept-Encoding: gzip\r\n");
    assert_eq!(text(&gzip), "gzip");
    let tags = [&plain, &coded, &gzip].map(|answer| field(answer, "etag").unwrap().to_owned());
    assert!(
        tags[0] != tags[1] && tags[1] != tags[2] && tags.iter().all(|tag| tag.starts_with('"')),
        "{tags:?}"
    );
    for (fields, expected) in
        [("zstd", "0123456789"), ("br;q=0, gzip;q=0.1", "gzip"), ("identity, *;q=0.5", "0123456789")]
    {
        assert_eq!(text(&get(&asset, &format!("Accept-Encoding: {fields}\r\n"))), expected, "{fields}");
    }
    let known = get(&asset, &format!("Accept-Encoding: br\r\nIf-None-Match: {}\r\n", tags[1]));
    assert_eq!((known.status, field(&known, "vary")), (304, Some("Accept-Encoding")));
    assert_eq!(get(&asset, &format!("If-None-Match: {}\r\n", tags[1])).status, 200);
    let part = get(&asset, &format!("Accept-Encoding: br\r\nRange: bytes=0-1\r\nIf-Range: {}\r\n", tags[1]));
    assert_eq!(
        (part.status, text(&part).as_str(), part.coded),
        (206, "br", Some(Coded { before: 2, after: 2 }))
    );
    assert_eq!(field(&part, "content-range"), Some("bytes 0-1/6"));
}

#[test]
fn a_copy_is_ordered_once_and_sent_when_it_is_there() {
    let asset = codable();
    let first = get(&asset, "Accept-Encoding: gzip, br\r\n");
    assert_eq!(
        (first.order, first.length, field(&first, "vary")),
        (Some(Coding::Brotli), Some(1000), Some("Accept-Encoding"))
    );
    assert_eq!(get(&asset, "Accept-Encoding: br\r\n").order, None, "it is being made");
    assert_eq!(get(&asset, "Accept-Encoding: gzip\r\n").order, Some(Coding::Gzip));
    asset.keep(Coding::Gzip, Some(b"gzip".to_vec().into()));
    assert_eq!(text(&get(&asset, "Accept-Encoding: gzip, br\r\n")), "gzip", "what is there goes first");
    asset.keep(Coding::Brotli, Some(b"brotli".to_vec().into()));
    let coded = get(&asset, "Accept-Encoding: gzip, br\r\n");
    assert_eq!(
        (text(&coded).as_str(), coded.order, coded.coded.unwrap()),
        ("brotli", None, Coded { before: 1000, after: 6 })
    );
    let plain = get(&asset, "");
    let weak = format!("W/{}", field(&plain, "etag").unwrap());
    assert_eq!((field(&coded, "etag"), field(&coded, "accept-ranges")), (Some(weak.as_str()), None));
    assert_eq!(field(&coded, "content-encoding"), Some("br"));
    assert_eq!(field(&coded, "vary"), Some("Accept-Encoding"));
    let known = get(&asset, &format!("Accept-Encoding: br\r\nIf-None-Match: {weak}\r\n"));
    assert_eq!((known.status, field(&known, "etag")), (304, Some(weak.as_str())));
}

#[test]
fn ranges_are_given_of_the_file_and_not_of_a_copy() {
    let asset = codable();
    asset.keep(Coding::Brotli, Some(b"brotli".to_vec().into()));
    let part = get(&asset, "Accept-Encoding: br, gzip\r\nRange: bytes=0-1\r\n");
    assert_eq!((part.status, text(&part).as_str(), part.order), (206, "aa", None));
    assert_eq!(field(&part, "content-encoding"), None);
    let stale = get(&asset, "Accept-Encoding: br\r\nRange: bytes=0-1\r\nIf-Range: W/\"x\"\r\n");
    assert_eq!(stale.status, 200);
}

#[test]
fn a_copy_that_is_not_worth_it_is_not_asked_for_again() {
    let asset = codable();
    assert_eq!(get(&asset, "Accept-Encoding: br\r\n").order, Some(Coding::Brotli));
    asset.keep(Coding::Brotli, None);
    let both = get(&asset, "Accept-Encoding: br, gzip\r\n");
    assert_eq!((both.order, both.length), (Some(Coding::Gzip), Some(1000)));
    asset.keep(Coding::Gzip, Some(vec![0; 1001].into()));
    assert_eq!(get(&asset, "Accept-Encoding: br, gzip\r\n").length, Some(1000), "copies stay below the file");
}

#[test]
fn short_or_binary_files_have_no_compressed_copies() {
    let short = asset(&[b'a'; 100], &[], &[Coding::Gzip]);
    let answer = get(&short, "Accept-Encoding: gzip\r\n");
    assert_eq!((answer.order, field(&answer, "vary")), (None, None));
    let found = StaticFile {
        path: b"/a.png".to_vec(),
        elsewhere: None,
        plain: opened(&[0; 1000]),
        coded: Vec::new(),
        root_modified: None,
    };
    let image = Asset::load(found, &options(&[Coding::Gzip]), time()).unwrap();
    let answer = get(&image, "Accept-Encoding: gzip\r\n");
    assert_eq!((answer.order, field(&answer, "vary")), (None, None));
}
