use super::*;
use crate::http::{HeadLimits, Parsed, parse};

const OFFERED: &[Coding] = &[Coding::Zstd, Coding::Brotli, Coding::Gzip];
const GZIP: CodingDecision = CodingDecision::Coded(Coding::Gzip);

fn request(fields: &str) -> Head {
    let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
        panic!("{text}")
    };
    head
}

fn fields(lines: &[&str]) -> Fields {
    let mut fields = Fields::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        fields.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    fields
}

/// Returns the decision about a response of `status` with these fields and `length` for a client that accepts gzip.
fn verdict(status: u16, lines: &[&str], length: Option<u64>) -> CodingDecision {
    let fields = fields(lines);
    decide(
        &request("Accept-Encoding: gzip\r\n"),
        UncodedResponse { status, fields: &fields, length },
        OFFERED,
    )
}

fn amended(verdict: CodingDecision, lines: &[&str]) -> String {
    let mut fields = fields(lines);
    verdict.amend(&mut fields);
    String::from_utf8(fields.as_bytes().to_vec()).unwrap()
}

const HTML: &str = "Content-Type: text/html";

#[test]
fn a_page_is_coded_as_its_client_likes_it() {
    let fields = fields(&[HTML]);
    let subject = UncodedResponse { status: 200, fields: &fields, length: None };
    for (accepts, expected) in [
        ("", CodingDecision::Varies),
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", CodingDecision::Coded(Coding::Zstd)),
        ("Accept-Encoding: deflate\r\naccept-encoding: br\r\n", CodingDecision::Coded(Coding::Brotli)),
        ("Accept-Encoding: br;q=0\r\n", CodingDecision::Varies),
        ("Accept-Encoding: identity;q=0, *;q=0\r\n", CodingDecision::Varies),
    ] {
        assert_eq!(decide(&request(accepts), subject, OFFERED), expected, "{accepts}");
    }
    assert_eq!(decide(&request("Accept-Encoding: gzip\r\n"), subject, &[]), CodingDecision::Plain);
    assert_eq!(
        decide(&request("Accept-Encoding: gzip\r\n"), subject, &[Coding::Zstd]),
        CodingDecision::Varies
    );
}

#[test]
fn statuses_without_a_body_or_with_a_part_of_one_are_left_alone() {
    for status in [200, 201, 301, 404, 500, 529, 999] {
        assert_eq!(verdict(status, &[HTML], None), GZIP, "{status}");
    }
    for status in [100, 103, 204, 205, 206] {
        assert_eq!(verdict(status, &[HTML], None), CodingDecision::Plain, "{status}");
    }
    assert_eq!(verdict(200, &[HTML, "Content-Range: bytes 0-5/10"], None), CodingDecision::Plain);
}

#[test]
fn short_bodies_are_left_alone_when_their_length_is_known() {
    assert_eq!(verdict(200, &[HTML], Some(0)), CodingDecision::Plain);
    assert_eq!(verdict(200, &[HTML], Some(CODED_BYTES_MIN - 1)), CodingDecision::Plain);
    assert_eq!(verdict(200, &[HTML], Some(CODED_BYTES_MIN)), GZIP);
    assert_eq!(verdict(200, &[HTML], None), GZIP);
}

#[test]
fn types_that_do_not_shrink_are_left_alone() {
    for line in ["Content-Type: image/png", "Content-Type: application/zip", "X-A: text/html"] {
        assert_eq!(verdict(200, &[line], None), CodingDecision::Plain, "{line}");
    }
}

#[test]
fn what_the_application_coded_or_forbids_to_change_is_left_alone() {
    for line in [
        "Content-Encoding: gzip",
        "content-encoding: identity",
        "Content-Encoding: ",
        "Cache-Control: no-transform",
        "Cache-Control: public, No-Transform, max-age=5",
    ] {
        assert_eq!(verdict(200, &[HTML, line], None), CodingDecision::Plain, "{line}");
    }
    let split = [HTML, "Cache-Control: public", "Cache-Control: no-transform"];
    assert_eq!(verdict(200, &split, None), CodingDecision::Plain);
    assert_eq!(verdict(200, &[HTML, "Cache-Control: no-cache"], None), GZIP);
}

#[test]
fn a_304_refers_to_the_copy_that_its_client_has() {
    let not_modified = |conditions: &str, lines: &[&str]| {
        let fields = fields(lines);
        decide(&request(conditions), UncodedResponse { status: 304, fields: &fields, length: None }, OFFERED)
    };
    let coded = "Accept-Encoding: gzip\r\nIf-None-Match: \"a\", W/\"x,y\"\r\n";
    assert_eq!(not_modified(coded, &["ETag: \"x,y\""]), CodingDecision::StillCoded);
    assert_eq!(not_modified(coded, &["ETag: \"a\""]), CodingDecision::Varies);
    assert_eq!(not_modified(coded, &["ETag: W/\"x,y\""]), CodingDecision::Varies);
    assert_eq!(not_modified(coded, &["ETag: x"]), CodingDecision::Varies);
    assert_eq!(not_modified(coded, &[]), CodingDecision::Varies);
    assert_eq!(not_modified(coded, &["Content-Type: image/png", "ETag: \"x,y\""]), CodingDecision::Plain);
    assert_eq!(not_modified(coded, &["Cache-Control: no-transform"]), CodingDecision::Plain);
    assert_eq!(
        amended(CodingDecision::StillCoded, &["ETag: \"x\""]),
        "ETag: W/\"x\"\r\nVary: Accept-Encoding\r\n"
    );
}

#[test]
fn an_encoded_copy_has_its_content_encoding() {
    let lines = [HTML, "Content-Length: 5000", "ETag: \"x\"", "Accept-Ranges: bytes", "Content-MD5: abc=="];
    let expected = "Content-Type: text/html\r\nContent-MD5: abc==\r\nETag: W/\"x\"\r\n\
        Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
    assert_eq!(amended(GZIP, &lines), expected);
    let untouched = lines.map(|line| format!("{line}\r\n")).concat();
    assert_eq!(amended(CodingDecision::Plain, &lines), untouched);
    assert_eq!(amended(CodingDecision::Varies, &lines), format!("{untouched}Vary: Accept-Encoding\r\n"));
}

#[test]
fn only_strong_tags_become_weak() {
    for (tag, expected) in
        [("\"x\"", "W/\"x\""), ("W/\"x\"", "W/\"x\""), ("x", "x"), ("", ""), ("\"\"", "W/\"\"")]
    {
        let text = amended(GZIP, &[&format!("ETag: {tag}")]);
        assert!(text.contains(&format!("ETag: {expected}\r\n")), "{tag}: {text}");
    }
}

#[test]
fn vary_gets_its_member_once_and_in_one_field() {
    for (lines, expected) in [
        (&[][..], "Vary: Accept-Encoding\r\n"),
        (&["Vary: Cookie"], "Vary: Cookie, Accept-Encoding\r\n"),
        (&["Vary: Cookie", "vary: Accept"], "Vary: Cookie, Accept, Accept-Encoding\r\n"),
        (&["Vary: accept-ENCODING"], "Vary: accept-ENCODING\r\n"),
        (&["Vary: Cookie, Accept-Encoding"], "Vary: Cookie, Accept-Encoding\r\n"),
        (&["Vary: *"], "Vary: *\r\n"),
        (&["Vary: Accept-Encoding-X"], "Vary: Accept-Encoding-X, Accept-Encoding\r\n"),
    ] {
        assert_eq!(amended(CodingDecision::Varies, lines), expected);
    }
}
