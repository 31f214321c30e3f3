//! A file of ten bytes, or a compressible one, instead of a script's body.

use std::io::Write;
use std::time::Duration;

use super::*;
use crate::files::asset::AssetOptions;
use crate::files::file_version::FileVersion;
use crate::files::resolve::{Opened, StaticFile};
use crate::http::{Coding, HeadLimits, Parsed, parse};

fn asset(bytes: &[u8], coded: Option<&[u8]>) -> Asset {
    let opened = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let stamp = FileVersion::of(&rustix::fs::fstat(&file).unwrap());
        Opened { file, stamp }
    };
    let options = AssetOptions {
        max_age: Duration::from_secs(3600),
        codings: Vec::new(),
        is_compressible: |_| false,
        memory_file_max: 100_000,
        hashed_file_max: 0,
    };
    let coded = coded.iter().map(|bytes| (Coding::Gzip, opened(bytes))).collect();
    let found = StaticFile {
        path: b"\0/srv/a.css".to_vec(),
        elsewhere: None,
        plain: opened(bytes),
        coded,
        root_modified: None,
    };
    Asset::load(found, &options, crate::time::wall()).unwrap()
}

fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    fields
}

fn sent(asset: &Asset, request: &str, status: u16, script: &[(&str, &str)]) -> Representation {
    let text = format!("{request}\r\nHost: h\r\n\r\n").replace(" /a", " /a HTTP/1.1");
    let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
        panic!("{text}")
    };
    represent_sent(asset, &head, (status, fields(script)), || "B".into())
}

fn value<'a>(shown: &'a Representation, name: &str) -> Option<&'a str> {
    shown.fields.get(name.as_bytes()).map(|value| std::str::from_utf8(value).unwrap())
}

fn length(shown: &Representation) -> u64 {
    shown.body.iter().map(super::super::representation::BodyPiece::len).sum()
}

#[test]
fn fields_of_the_script_are_kept_except_those_that_describe_the_bytes() {
    let file = asset(b"0123456789", None);
    let script = [
        ("Content-Type", "application/pdf"),
        ("Cache-Control", "private"),
        ("Set-Cookie", "a=1"),
        ("ETag", "\"script\""),
        ("Content-Disposition", "attachment"),
    ];
    let shown = sent(&file, "GET /a", 200, &script);
    assert_eq!((shown.status, shown.length, length(&shown)), (200, Some(10), 10));
    for (name, expected) in [
        ("content-type", "application/pdf"),
        ("cache-control", "private"),
        ("set-cookie", "a=1"),
        ("content-disposition", "attachment"),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(value(&shown, name), Some(expected));
    }
    assert_ne!(value(&shown, "etag"), Some("\"script\""));
    assert!(value(&shown, "last-modified").is_some());
}

#[test]
fn fields_that_the_script_does_not_send_describe_the_file_except_for_caching() {
    let shown = sent(&asset(b"0123456789", None), "GET /a", 200, &[]);
    assert_eq!(value(&shown, "content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(value(&shown, "cache-control"), None, "the script may have made it for one client");
}

#[test]
fn ranges_and_conditions_are_for_what_was_asked_for() {
    let file = asset(b"0123456789", None);
    let tag = value(&sent(&file, "GET /a", 200, &[]), "etag").unwrap().to_owned();
    let cookie = [("Set-Cookie", "a=1"), ("Content-Type", "x/y"), ("Cache-Control", "max-age=60")];
    for (request, status, given, expected, bytes) in [
        ("GET /a\r\nRange: bytes=2-4".to_owned(), 200, &cookie, 206, 3),
        ("GET /a\r\nRange: bytes=10-".to_owned(), 200, &cookie, 416, 0),
        (format!("GET /a\r\nIf-None-Match: {tag}"), 200, &cookie, 304, 0),
        ("GET /a\r\nIf-Match: \"x\"".to_owned(), 200, &cookie, 412, 0),
        ("HEAD /a\r\nRange: bytes=2-4".to_owned(), 200, &cookie, 200, 0),
        ("GET /a\r\nRange: bytes=2-4".to_owned(), 404, &cookie, 404, 10),
        ("GET /a\r\nRange: bytes=2-4".to_owned(), 201, &cookie, 201, 10),
        (format!("POST /a\r\nIf-None-Match: {tag}\r\nRange: bytes=2-4"), 200, &cookie, 200, 10),
    ] {
        let shown = sent(&file, &request, status, given);
        assert_eq!((shown.status, length(&shown)), (expected, bytes), "{request}");
        assert_eq!(value(&shown, "set-cookie"), Some("a=1"), "{request}");
        let keeps_all = !matches!(expected, 412 | 416);
        assert_eq!(value(&shown, "cache-control").is_some(), keeps_all, "{request}");
        assert_eq!(value(&shown, "content-type").is_some(), keeps_all && expected != 304, "{request}");
    }
}

#[test]
fn several_parts_have_the_script_s_type() {
    let file = asset(&[b'x'; 10_000], None);
    let shown = sent(&file, "GET /a\r\nRange: bytes=0-0,9000-9000", 200, &[("Content-Type", "x/y")]);
    assert_eq!(value(&shown, "content-type"), Some("multipart/byteranges; boundary=B"));
    let parts: Vec<u8> = shown
        .body
        .iter()
        .filter_map(|piece| match piece {
            crate::files::BodyPiece::Bytes(bytes) => Some(bytes.to_vec()),
            crate::files::BodyPiece::File(..) => None,
        })
        .flatten()
        .collect();
    assert!(String::from_utf8(parts).unwrap().contains("Content-Type: x/y\r\n"));
}

#[test]
fn a_precompressed_file_is_sent_unless_the_script_says_that_the_file_is_coded() {
    let file = asset(b"0123456789", Some(b"coded"));
    let gzip = "GET /a\r\nAccept-Encoding: gzip";
    let coded = sent(&file, gzip, 200, &[("Vary", "Cookie")]);
    assert_eq!((value(&coded, "content-encoding"), length(&coded)), (Some("gzip"), 5));
    let varies: Vec<_> =
        coded.fields.iter().filter(|(name, _)| *name == b"Vary").map(|(_, value)| value).collect();
    assert_eq!(varies, [&b"Cookie"[..], b"Accept-Encoding"]);
    let own = sent(&file, gzip, 200, &[("Content-Encoding", "br")]);
    assert_eq!((value(&own, "content-encoding"), length(&own)), (Some("br"), 10));
}
