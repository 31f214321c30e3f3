//! The script that reloads a browser, and the responses that get it: HTML that is shown as a page.
//!
//! A fragment, which a script of the page asks for and inserts, must stay as it is. Browsers name the destination of a
//! request in `Sec-Fetch-Dest`, at least on this machine and over HTTPS: what a window navigates to is a page, whatever it
//! begins with, such as a warning that PHP displays before the document. Without that field, and in frames, which
//! scripts use for transfers, too, the body must begin like a document, and the request must name HTML in `Accept`.
//!
//! The script remembers the revision that it has left. A page that has the same one after a reload comes from a cache, and
//! would reload without end.

use crate::http::status::is_bodiless;
use crate::http::{Fields, Head};

/// The script. Its text is the same for all pages, so that a policy can permit it by its hash.
const SCRIPT: &str = include_str!("reload.js");

/// Its hash, for a Content-Security-Policy.
pub(super) const SCRIPT_HASH: &str = "sha256-gU77509yZbuLA7ex201Tum5N6vHJVVzNa0ZRrxeBfiw=";

/// Enough of a body to find out how it begins.
const BEGINNING_BYTES: usize = 4096;

/// Returns the element to append to a document that shows this revision.
pub(super) fn script(revision: &str) -> String {
    format!("\n<script data-revision=\"{revision}\">{SCRIPT}</script>\n")
}

/// Returns whether a browser navigates to the response to this request, in a window or a frame.
pub fn is_document_request(head: &Head) -> bool {
    if head.header("x-requested-with").is_some() || head.header("hx-request").is_some() {
        return false;
    }
    match head.header("sec-fetch-dest") {
        Some(destination) => matches!(destination, b"document" | b"iframe" | b"frame"),
        None => head
            .header_values("accept")
            .any(|value| value.to_ascii_lowercase().windows(TYPE.len()).any(|window| window == TYPE)),
    }
}

/// Returns whether a window navigates to the response to this request.
pub(super) fn is_navigation(head: &Head) -> bool {
    head.header("sec-fetch-dest") == Some(b"document")
}

/// The media type of documents.
const TYPE: &[u8] = b"text/html";

/// Returns whether the head of a response announces HTML whose end can be changed.
pub(super) fn is_html(status: u16, fields: &Fields) -> bool {
    let is_type = |value: &[u8]| {
        let named = value.split(|&byte| byte == b';').next().unwrap_or_default();
        named.trim_ascii().eq_ignore_ascii_case(TYPE)
    };
    let is_attachment =
        |value: &[u8]| value.get(..10).is_some_and(|kind| kind.eq_ignore_ascii_case(b"attachment"));
    !is_bodiless(status)
        && !matches!(status, 205 | 206)
        && fields.get(b"content-type").is_some_and(is_type)
        && !fields.contains(b"content-encoding")
        && !fields.get(b"content-disposition").is_some_and(is_attachment)
}

/// Returns whether a body begins like a document: with its type or its root element, perhaps after comments.
pub(super) fn begins_document(body: &[u8]) -> bool {
    let body = &body[..body.len().min(BEGINNING_BYTES)];
    let mut rest = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    while let Some(comment) = rest.strip_prefix(b"<!--") {
        let Some(end) = comment.windows(3).position(|window| window == b"-->") else { return false };
        rest = comment[end + 3..].trim_ascii_start();
    }
    let begins = |tag: &[u8]| {
        rest.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag))
            && rest.get(tag.len()).is_some_and(|byte| matches!(byte, b'>' | b' ' | b'\t' | b'\r' | b'\n'))
    };
    begins(b"<!doctype") || begins(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadReader, Parsed};

    fn head(fields: &str) -> Head {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        match HeadReader::default().read(text.as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_hash_is_that_of_the_script() {
        use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
        let hash = suite.common.hash_provider.hash(SCRIPT.as_bytes());
        let mut text = String::from("sha256-");
        for bytes in hash.as_ref().chunks(3) {
            let bits = bytes.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - bytes.len()));
            for place in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
                text.push(if place > bytes.len() { '=' } else { digit.into() });
            }
        }
        assert_eq!(text, SCRIPT_HASH);
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--"), "it would end its element");
    }

    #[test]
    fn documents_are_asked_for_by_browsers() {
        for (fields, expected) in [
            ("Sec-Fetch-Dest: document\r\n", true),
            ("Sec-Fetch-Dest: iframe\r\n", true),
            ("Sec-Fetch-Dest: empty\r\nAccept: text/html\r\n", false),
            ("Accept: text/html,*/*;q=0.8\r\n", true),
            ("Accept: application/xml, Text/HTML\r\n", true),
            ("Accept: */*\r\n", false),
            ("", false),
            ("Accept: text/html\r\nX-Requested-With: XMLHttpRequest\r\n", false),
            ("Accept: text/html\r\nHX-Request: true\r\n", false),
        ] {
            assert_eq!(is_document_request(&head(fields)), expected, "{fields}");
        }
    }

    #[test]
    fn windows_navigate_and_nothing_else_does() {
        for (fields, expected) in [
            ("Sec-Fetch-Dest: document\r\n", true),
            ("Sec-Fetch-Dest: iframe\r\n", false),
            ("Sec-Fetch-Dest: empty\r\n", false),
            ("Accept: text/html\r\n", false),
        ] {
            assert_eq!(is_navigation(&head(fields)), expected, "{fields}");
        }
    }

    #[test]
    fn html_is_known_by_its_head() {
        for (status, lines, expected) in [
            (200, "Content-Type: text/html", true),
            (404, "Content-Type: Text/HTML ; charset=utf-8", true),
            (200, "Content-Type: text/html5", false),
            (200, "Content-Type: application/xhtml+xml", false),
            (200, "X-A: text/html", false),
            (206, "Content-Type: text/html", false),
            (304, "Content-Type: text/html", false),
            (204, "Content-Type: text/html", false),
            (200, "Content-Type: text/html|Content-Encoding: gzip", false),
            (200, "Content-Type: text/html|Content-Disposition: Attachment; filename=a", false),
            (200, "Content-Type: text/html|Content-Disposition: inline", true),
        ] {
            let mut fields = Fields::new();
            for line in lines.split('|') {
                let (name, value) = line.split_once(": ").unwrap();
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            assert_eq!(is_html(status, &fields), expected, "{status} {lines}");
        }
    }

    #[test]
    fn documents_are_known_by_their_beginning() {
        for (body, expected) in [
            ("<!doctype html><p>", true),
            ("\u{feff}\n <!DOCTYPE HTML PUBLIC>", true),
            ("<html lang=en>", true),
            ("<HTML>", true),
            ("<!-- a --> <!-- b --><html>", true),
            ("<!-- <html> ", false),
            ("<htmlx>", false),
            ("<html", false),
            ("<p>text</p>", false),
            ("{}", false),
            ("", false),
        ] {
            assert_eq!(begins_document(body.as_bytes()), expected, "{body}");
        }
    }
}
