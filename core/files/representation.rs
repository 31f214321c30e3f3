//! How a file is represented: type, validators, freshness, and the answer to conditional requests.
//!
//! Promises: the validators are those of the opened file whose bytes follow; conditions are judged in the order of
//! RFC 9110 section 13.2.2. Refuses: methods other than `GET` and `HEAD`; ranges, so none are announced.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::resolve::StaticFile;
use crate::http::date::{imf_fixdate, parse_date};
use crate::http::token::trim_ows;
use crate::http::{Fields, Head, MethodKind};

/// The answer to a request for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Representation {
    /// The status code: 200, 304, 405 or 412.
    pub status: u16,
    /// The fields, framing aside.
    pub fields: Fields,
    /// The length to announce: the file's for 200 (`HEAD` too), 0 for refusals, none for 304.
    pub length: Option<u64>,
    /// Whether the file's bytes follow.
    pub sends_file: bool,
}

/// Decides how to answer a request for `file`.
pub fn represent(file: &StaticFile, head: &Head, max_age: Duration) -> Representation {
    if !matches!(head.method_kind(), MethodKind::Get | MethodKind::Head) {
        return Representation::bare(405, &[(b"Allow", b"GET, HEAD")], Some(0));
    }
    let etag = etag(file);
    let modified = imf_fixdate(file.modified);
    match judge(head, etag.as_bytes(), file.modified) {
        Judgement::Failed => Representation::bare(412, &[], Some(0)),
        judgement => {
            let cache_control = format!("max-age={}", max_age.as_secs());
            let validators: [(&[u8], &[u8]); 3] = [
                (b"Last-Modified", &modified),
                (b"ETag", etag.as_bytes()),
                (b"Cache-Control", cache_control.as_bytes()),
            ];
            if judgement == Judgement::NotModified {
                return Representation::bare(304, &validators, None);
            }
            let mut answer = Representation::bare(200, &validators, Some(file.length));
            put(&mut answer.fields, b"Content-Type", content_type(&file.path).as_bytes());
            answer.sends_file = head.method_kind() == MethodKind::Get;
            answer
        }
    }
}

/// Gives the content type of a file by the ending of its name.
pub fn content_type(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let ending = name
        .iter()
        .rposition(|&byte| byte == b'.')
        .and_then(|dot| std::str::from_utf8(&name[dot + 1..]).ok());
    let guess = ending.and_then(|ending| mime_guess::from_ext(ending).first_raw());
    match guess.unwrap_or("application/octet-stream") {
        "text/html" => "text/html; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        "text/javascript" | "application/javascript" => "text/javascript; charset=utf-8",
        "text/plain" => "text/plain; charset=utf-8",
        "text/csv" => "text/csv; charset=utf-8",
        "text/markdown" => "text/markdown; charset=utf-8",
        "text/xml" => "text/xml; charset=utf-8",
        "text/calendar" => "text/calendar; charset=utf-8",
        "text/vcard" => "text/vcard; charset=utf-8",
        "text/vtt" => "text/vtt; charset=utf-8",
        other => other,
    }
}

impl Representation {
    fn bare(status: u16, list: &[(&[u8], &[u8])], length: Option<u64>) -> Self {
        let mut fields = Fields::new();
        for (name, value) in list {
            put(&mut fields, name, value);
        }
        Self { status, fields, length, sends_file: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// A precondition does not hold.
    Failed,
    /// The client's copy is good.
    NotModified,
    /// The file is sent.
    Send,
}

fn judge(head: &Head, etag: &[u8], modified: SystemTime) -> Judgement {
    let since = |name| head.header(name).and_then(parse_date);
    let modified = whole_seconds(modified);
    if head.header("if-match").is_some() {
        if !names_tag(head.header_values("if-match"), etag, Comparison::Strong) {
            return Judgement::Failed;
        }
    } else if since("if-unmodified-since").is_some_and(|since| modified > since) {
        return Judgement::Failed;
    }
    let is_good = if head.header("if-none-match").is_some() {
        names_tag(head.header_values("if-none-match"), etag, Comparison::Weak)
    } else {
        since("if-modified-since").is_some_and(|since| modified <= since)
    };
    if is_good { Judgement::NotModified } else { Judgement::Send }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Tells whether a list of entity tags is `*` or has `etag`; a tag may have commas between its quotes.
fn names_tag<'a>(values: impl Iterator<Item = &'a [u8]>, etag: &[u8], comparison: Comparison) -> bool {
    values.into_iter().any(|value| {
        let mut rest = trim_ows(value);
        if rest == b"*" {
            return true;
        }
        while !rest.is_empty() {
            let (is_weak, tag) = match rest.strip_prefix(b"W/") {
                Some(tag) => (true, tag),
                None => (false, rest),
            };
            let Some(end) = tag.strip_prefix(b"\"").and_then(|inner| memchr::memchr(b'"', inner)) else {
                return false;
            };
            let (tag, behind) = tag.split_at(end + 2);
            if tag == etag && !(is_weak && comparison == Comparison::Strong) {
                return true;
            }
            rest = trim_ows(trim_ows(behind).strip_prefix(b",").unwrap_or_default());
        }
        false
    })
}

/// Makes a strong tag of the time, to the nanosecond, and the length.
fn etag(file: &StaticFile) -> String {
    let (sign, distance) = match file.modified.duration_since(UNIX_EPOCH) {
        Ok(after) => ("", after),
        Err(before) => ("-", before.duration()),
    };
    format!("\"{sign}{:x}-{:x}\"", distance.as_nanos(), file.length)
}

/// Cuts a time to what a date can tell; a date in a condition has no more.
fn whole_seconds(time: SystemTime) -> SystemTime {
    time.duration_since(UNIX_EPOCH)
        .map_or(UNIX_EPOCH, |since| UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

fn put(fields: &mut Fields, name: &[u8], value: &[u8]) {
    let pushed = fields.push(name, value);
    debug_assert!(pushed.is_ok(), "names are constants and values are dates, numbers and types");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::parse::{HeadLimits, Parsed, parse};

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const TAG: &str = "\"ae1b981c3a4d4f5-a\"";

    fn file(path: &str) -> StaticFile {
        StaticFile {
            file: tempfile::tempfile().unwrap(),
            length: 10,
            modified: UNIX_EPOCH + Duration::new(784_111_777, 123_456_245),
            path: path.into(),
        }
    }

    fn answer(method: &str, fields: &str) -> Representation {
        let text = format!("{method} /a.css HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
            panic!("{text}")
        };
        represent(&file("/a.css"), &head, Duration::from_secs(3600))
    }

    fn status(fields: &str) -> u16 {
        answer("GET", fields).status
    }

    #[test]
    fn a_plain_request_gets_type_validators_and_freshness() {
        let plain = answer("GET", "");
        assert_eq!((plain.status, plain.length, plain.sends_file), (200, Some(10), true));
        let lines = format!(
            "Last-Modified: {MODIFIED}\r\nETag: {TAG}\r\nCache-Control: max-age=3600\r\n\
            Content-Type: text/css; charset=utf-8\r\n"
        );
        assert_eq!(String::from_utf8_lossy(plain.fields.as_bytes()), lines);
    }

    #[test]
    fn head_announces_what_get_would_send() {
        let (get, head) = (answer("GET", ""), answer("HEAD", ""));
        assert_eq!((head.status, head.length, &head.fields), (get.status, get.length, &get.fields));
        assert!(!head.sends_file);
    }

    #[test]
    fn other_methods_are_refused_with_allow() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "QUERY", "get"] {
            let refused = answer(method, "");
            assert_eq!(
                (refused.status, refused.length, refused.sends_file),
                (405, Some(0), false),
                "{method}"
            );
            assert_eq!(refused.fields.get(b"allow"), Some(&b"GET, HEAD"[..]));
        }
    }

    #[test]
    fn a_copy_that_is_still_good_is_304_with_validators_and_without_a_type() {
        let good = answer("GET", &format!("If-None-Match: {TAG}\r\n"));
        assert_eq!((good.status, good.length, good.sends_file), (304, None, false));
        assert_eq!(good.fields.get(b"etag"), Some(TAG.as_bytes()));
        assert!(good.fields.contains(b"last-modified") && good.fields.contains(b"cache-control"));
        assert!(!good.fields.contains(b"content-type"));
    }

    #[test]
    fn tags_compare_weakly_in_lists() {
        for list in
            [format!("W/{TAG}"), format!("\"x\", {TAG}"), format!("\"a,b\",W/\"c\" , W/{TAG}"), "*".into()]
        {
            assert_eq!(status(&format!("If-None-Match: {list}\r\n")), 304, "{list}");
        }
        assert_eq!(status(&format!("If-None-Match: \"x\"\r\nIf-None-Match: {TAG}\r\n")), 304);
        for list in ["\"x\"", "x", "\"", "W/", "", "\"x\" \"y\"", "w/\"x\""] {
            assert_eq!(status(&format!("If-None-Match: {list}\r\n")), 200, "{list}");
        }
    }

    #[test]
    fn a_tag_condition_outranks_a_date_condition() {
        let date = format!("If-Modified-Since: {MODIFIED}\r\n");
        assert_eq!(status(&date), 304);
        assert_eq!(status(&format!("{date}If-None-Match: \"x\"\r\n")), 200);
        let old = "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n";
        assert_eq!(status(&format!("{old}If-None-Match: {TAG}\r\n")), 304);
    }

    #[test]
    fn dates_compare_by_whole_seconds_and_bad_ones_do_not_count() {
        let since = |date: &str| status(&format!("If-Modified-Since: {date}\r\n"));
        assert_eq!(since("Sun, 06 Nov 1994 08:49:38 GMT"), 304);
        assert_eq!(since("Sun, 06 Nov 1994 08:49:36 GMT"), 200);
        assert_eq!(since("Sunday, 06-Nov-94 08:49:37 GMT"), 304);
        assert_eq!(since("yesterday"), 200);
    }

    #[test]
    fn preconditions_that_fail_are_412() {
        assert_eq!(status(&format!("If-Match: {TAG}\r\n")), 200);
        assert_eq!(status("If-Match: *\r\n"), 200);
        assert_eq!(status("If-Match: \"x\"\r\n"), 412);
        assert_eq!(status(&format!("If-Match: W/{TAG}\r\n")), 412);
        assert_eq!(status(&format!("If-Unmodified-Since: {MODIFIED}\r\n")), 200);
        assert_eq!(status("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n"), 412);
    }

    #[test]
    fn the_tag_changes_with_time_and_length() {
        let base = file("/a");
        let older =
            StaticFile { modified: UNIX_EPOCH - Duration::new(784_111_777, 123_456_245), ..file("/a") };
        let longer = StaticFile { length: 11, ..file("/a") };
        let later = StaticFile { modified: base.modified + Duration::from_nanos(1), ..file("/a") };
        let tags: std::collections::HashSet<_> = [base, older, longer, later].iter().map(etag).collect();
        assert_eq!(tags.len(), 4);
    }

    #[test]
    fn types_follow_the_ending_in_any_letter_case() {
        for (path, expected) in [
            ("/a.html", "text/html; charset=utf-8"),
            ("/a.HTML", "text/html; charset=utf-8"),
            ("/a.js", "text/javascript; charset=utf-8"),
            ("/a.mjs", "text/javascript; charset=utf-8"),
            ("/a.txt", "text/plain; charset=utf-8"),
            ("/a.json", "application/json"),
            ("/a.svg", "image/svg+xml"),
            ("/a.png", "image/png"),
            ("/a.woff2", "font/woff2"),
            ("/a.wasm", "application/wasm"),
            ("/a.webp", "image/webp"),
            ("/a.avif", "image/avif"),
            ("/a.pdf", "application/pdf"),
            ("/a.b/c", "application/octet-stream"),
            ("/a.", "application/octet-stream"),
            ("/a.nothing-known", "application/octet-stream"),
            ("/LICENSE", "application/octet-stream"),
        ] {
            assert_eq!(content_type(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(content_type(b"/a.\xff"), "application/octet-stream");
    }
}
