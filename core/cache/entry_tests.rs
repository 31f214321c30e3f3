use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::cache::Usability;
use crate::http::{HeadLimits, Parsed, parse};
use crate::time;

fn head(lines: &str) -> Head {
    let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    match parse(text.as_bytes(), HeadLimits::main_port()) {
        Ok(Parsed::Complete { head, .. }) => head,
        other => panic!("{lines}: {other:?}"),
    }
}

fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    fields
}

fn options() -> EntryOptions {
    EntryOptions {
        freshness: FreshnessPolicy::default(),
        codings: Coding::ALL.to_vec(),
        is_compressible: |media_type| media_type.starts_with(b"text/"),
    }
}

fn at(seconds: u64) -> ReceivedAt {
    let wall = UNIX_EPOCH + Duration::from_secs(784_111_777 + seconds);
    ReceivedAt { now: time::now(), wall, delay: Duration::ZERO }
}

fn entry(lines: &[(&str, &str)]) -> StoredEntry {
    let body = Bytes::from_static(b"0123456789");
    let response = ReceivedResponse { status: 200, reason: None, fields: fields(lines), body, at: at(0) };
    StoredEntry::new(&head("Foo: 1\r\n"), response, &options())
}

#[test]
fn fields_of_this_cache_and_of_one_hop_are_not_stored() {
    let entry = entry(&[
        ("SVC-Cache-Control", "max-age=60"),
        ("CDN-Cache-Control", "max-age=1"),
        ("Cache-Tag", "a"),
        ("Surrogate-Key", "b c"),
        ("Proxy-Authenticate", "x"),
        ("Age", "5"),
        ("X-A", "1"),
    ]);
    let shown = entry.answer(&head(""), String::new);
    for name in [&b"svc-cache-control"[..], b"cache-tag", b"surrogate-key", b"proxy-authenticate", b"age"] {
        assert!(!shown.fields.contains(name), "{}", name.escape_ascii());
    }
    assert!(shown.fields.contains(b"cdn-cache-control") && shown.fields.contains(b"x-a"));
    assert_eq!(shown.fields.get(b"date"), Some(&b"Sun, 06 Nov 1994 08:49:37 GMT"[..]));
    assert_eq!(entry.tags().len(), 3);
    let now = time::now();
    assert_eq!((entry.age_seconds(now), entry.freshness().usability(now)), (5, Usability::Fresh));
}

#[test]
fn a_validation_renews_fields_and_time_but_not_the_bytes() {
    let lines = [
        ("Cache-Control", "max-age=1"),
        ("ETag", "\"a\""),
        ("Content-Type", "text/plain"),
        ("X-Old", "1"),
        ("X-Both", "1"),
        ("Cache-Tag", "a"),
    ];
    let old = entry(&lines);
    let renewing = [
        ("Cache-Control", "max-age=60"),
        ("ETag", "\"a\""),
        ("Content-Type", "text/html"),
        ("Content-Length", "3"),
        ("X-Both", "2"),
    ];
    let new = old.renewed(old.updated_fields(&fields(&renewing)), &options(), at(9));
    let shown = new.answer(&head(""), String::new);
    let get = |name: &str| {
        shown.fields.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
    };
    assert_eq!(get("content-type").as_deref(), Some("text/plain"));
    assert_eq!((get("x-old").as_deref(), get("x-both").as_deref()), (Some("1"), Some("2")));
    assert_eq!(get("cache-control").as_deref(), Some("max-age=60"));
    assert_eq!(get("date").as_deref(), Some("Sun, 06 Nov 1994 08:49:46 GMT"));
    assert_eq!((shown.length, new.tags()), (Some(10), old.tags()));
    assert!(new.is_like(&old));
    let later = time::now() + Duration::from_secs(30);
    assert_eq!(old.freshness().usability(later), Usability::Stale);
    assert_eq!(new.freshness().usability(later), Usability::Fresh);
}

#[test]
fn it_is_for_requests_that_agree() {
    let entry = entry(&[("Cache-Control", "max-age=60"), ("Vary", "Foo")]);
    let values = |lines: &str| entry.vary().values_in(&head(lines));
    assert!(entry.is_for(&values("Foo: 1\r\nBar: 2\r\n")) && !entry.is_for(&values("Foo: 2\r\n")));
}

#[test]
fn the_weight_covers_bytes_fields_and_tags() {
    let light = entry(&[("Cache-Control", "max-age=60")]).weight();
    let heavy =
        entry(&[("Cache-Control", "max-age=60"), ("Cache-Tag", "abc"), ("X", &"y".repeat(1000))]).weight();
    assert!(light > 10 && heavy > light + 3000, "{light} {heavy}");
}
