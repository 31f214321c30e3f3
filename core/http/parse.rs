//! Parses request headers: from the bytes of a connection to a [`Head`], the framing of the body and the persistence of
//! the connection.
//!
//! Promises: there is exactly one interpretation or none (see the parent module). The end of the header is searched
//! once over each byte, so a client that sends one byte at a time costs no more than one that sends everything at once.
//! Errors that need no further input are reported immediately. Refuses: HTTP/0.9, lenient line ends, folded lines, and
//! two of anything that frames the message.

use std::mem::MaybeUninit;

use memchr::memchr;

use super::framing::{BodyFraming, Traits};
use super::head::{FieldSpan, Head, HeadSpan, Version};
use super::head_error::HeadError;
use super::target::target_form;
use super::token::is_token_byte;
use crate::limits::{
    HEAD_BYTES_MAX, HEAD_EMPTY_LINES_MAX, HEAD_FIELDS_MAX, OPS_HEAD_BYTES_MAX, TARGET_BYTES_MAX,
};

/// The limits of a listener for request headers.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// The maximum length of a request header, in bytes.
    pub bytes_max: usize,
    /// The maximum length of a request target, in bytes.
    pub target_bytes_max: usize,
    /// The maximum number of fields; never more than [`HEAD_FIELDS_MAX`].
    pub fields_max: usize,
    /// Whether HTTP/1.1 requests must have a `Host`, as the protocol requires.
    pub host_required: bool,
}

/// The result of [`HeadReader::read`].
#[derive(Debug)]
pub enum Parsed {
    /// The header is incomplete; more input is needed.
    Partial,
    /// The header is complete.
    Complete {
        /// The request header.
        head: Head,
        /// The number of bytes consumed from the buffer, including leading empty lines.
        length: usize,
        /// How the body is delimited.
        framing: BodyFraming,
        /// Whether the client allows the connection to persist after this request.
        keep_alive: bool,
        /// Whether the client waits for `100 Continue` before it sends the body.
        expect_continue: bool,
    },
}

/// Finds and parses request headers one after another in a growing buffer.
///
/// Call [`read`](Self::read) whenever the buffer has grown. The buffer starts at the first byte that no earlier
/// complete header has consumed. After `Complete`, the reader is ready for the next header.
#[derive(Debug)]
pub struct HeadReader {
    limits: HeadLimits,
    start: usize,
    line_start: usize,
    scanned: usize,
}

impl HeadLimits {
    /// The limits of the main port.
    pub const fn main_port() -> Self {
        Self {
            bytes_max: HEAD_BYTES_MAX,
            target_bytes_max: TARGET_BYTES_MAX,
            fields_max: HEAD_FIELDS_MAX,
            host_required: true,
        }
    }

    /// The limits of the operations port: smaller, and `Host` is optional, because health checks of load balancers may
    /// omit it.
    pub const fn ops_port() -> Self {
        Self {
            bytes_max: OPS_HEAD_BYTES_MAX,
            target_bytes_max: OPS_HEAD_BYTES_MAX / 2,
            fields_max: HEAD_FIELDS_MAX / 2,
            host_required: false,
        }
    }
}

/// Parses the header at the start of `buf`, without state from earlier attempts.
///
/// # Errors
///
/// If the header is rejected; see [`HeadError::status`].
pub fn parse(buf: &[u8], limits: HeadLimits) -> Result<Parsed, HeadError> {
    HeadReader::new(limits).read(buf)
}

impl Default for HeadReader {
    /// Creates a reader with the limits of the main port.
    fn default() -> Self {
        Self::new(HeadLimits::main_port())
    }
}

impl HeadReader {
    /// Creates a reader before the first header.
    pub const fn new(limits: HeadLimits) -> Self {
        Self { limits, start: 0, line_start: 0, scanned: 0 }
    }

    /// Returns whether a byte of a header (not only of empty lines before it) has been seen.
    pub const fn has_begun(&self) -> bool {
        self.scanned > self.start
    }

    /// Continues where the last call stopped.
    ///
    /// # Errors
    ///
    /// If the header is rejected; see [`HeadError::status`]. The reader cannot be used afterwards.
    pub fn read(&mut self, buf: &[u8]) -> Result<Parsed, HeadError> {
        if !self.has_begun() && !self.skip_empty_lines(buf)? {
            return Ok(Parsed::Partial);
        }
        let Some(end) = self.find_end(buf)? else {
            self.check_partial(buf.len())?;
            return Ok(Parsed::Partial);
        };
        if end - self.start > self.limits.bytes_max {
            return Err(HeadError::TooLarge);
        }
        let parsed = complete(&buf[self.start..end], end, self.limits)?;
        *self = Self::new(self.limits);
        Ok(parsed)
    }

    /// Skips empty lines before the request line. Returns whether the first byte of the header is present.
    fn skip_empty_lines(&mut self, buf: &[u8]) -> Result<bool, HeadError> {
        loop {
            match &buf[self.start..] {
                [] | [b'\r'] => return Ok(false),
                [b'\r', b'\n', ..] if self.start < 2 * HEAD_EMPTY_LINES_MAX => self.start += 2,
                [b'\r' | b'\n', ..] => return Err(HeadError::LineEndInvalid),
                // This also rejects a TLS client on a plain port immediately, instead of letting it time out.
                [first, ..] if !is_token_byte(*first) => return Err(HeadError::RequestLineInvalid),
                _ => {
                    self.line_start = self.start;
                    self.scanned = self.start;
                    return Ok(true);
                }
            }
        }
    }

    /// Searches for the empty line that ends the header and returns the position after it.
    fn find_end(&mut self, buf: &[u8]) -> Result<Option<usize>, HeadError> {
        while let Some(found) = memchr(b'\n', &buf[self.scanned..]) {
            let line_feed = self.scanned + found;
            let line = &buf[self.line_start..line_feed];
            if line.last() != Some(&b'\r') {
                return Err(HeadError::LineEndInvalid);
            }
            self.scanned = line_feed + 1;
            self.line_start = self.scanned;
            if line.len() == 1 {
                return Ok(Some(self.scanned));
            }
        }
        self.scanned = buf.len();
        Ok(None)
    }

    fn check_partial(&self, buf_len: usize) -> Result<(), HeadError> {
        let in_request_line = self.line_start == self.start;
        let length = buf_len - self.start;
        if in_request_line && length > self.limits.target_bytes_max + REQUEST_LINE_REST_BYTES {
            return Err(HeadError::TargetTooLong);
        }
        if length > self.limits.bytes_max {
            return Err(HeadError::TooLarge);
        }
        Ok(())
    }
}

/// The bytes of a request line besides the target, beyond which the target is considered too long.
const REQUEST_LINE_REST_BYTES: usize = 128;

/// Parses a header whose end is known; `bytes` starts at the request line.
pub(super) fn complete(bytes: &[u8], length: usize, limits: HeadLimits) -> Result<Parsed, HeadError> {
    let mut slots = [const { MaybeUninit::uninit() }; HEAD_FIELDS_MAX];
    let slots = &mut slots[..limits.fields_max.min(HEAD_FIELDS_MAX)];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, slots) {
        Ok(httparse::Status::Complete(end)) if end == bytes.len() => {}
        // The end of the header was found before. If httparse disagrees, there are two interpretations.
        Ok(_) => return Err(HeadError::RequestLineInvalid),
        Err(error) => {
            return match of_a_later_minor_version(error, bytes) {
                Some(bytes) => complete(&bytes, length, limits),
                None => Err(refusal(error, bytes, limits)),
            };
        }
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(HeadError::RequestLineInvalid);
    };
    if target.len() > limits.target_bytes_max {
        return Err(HeadError::TargetTooLong);
    }
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let form = target_form(method, target.as_bytes(), place(bytes, target.as_bytes()))?;
    let traits = Traits::gather(request.headers, version, limits.host_required)?;
    let fields = request
        .headers
        .iter()
        .map(|field| FieldSpan {
            name: place(bytes, field.name.as_bytes()),
            value: place(bytes, field.value),
        })
        .collect();
    let line = (place(bytes, method.as_bytes()), place(bytes, target.as_bytes()), form);
    Ok(Parsed::Complete {
        head: Head::new(bytes, fields, line, version),
        length,
        framing: traits.framing,
        keep_alive: traits.keep_alive,
        expect_continue: traits.expect_continue,
    })
}

/// Parses a header of HTTP/1.2 or later as one of HTTP/1.1: a later minor version requires nothing that an earlier one
/// cannot provide (RFC 9110, section 2.5).
#[cold]
fn of_a_later_minor_version(error: httparse::Error, bytes: &[u8]) -> Option<Vec<u8>> {
    let end = memchr(b'\r', bytes).filter(|_| error == httparse::Error::Version)?;
    let line = &bytes[..end];
    let (&minor, before) = line.split_last().filter(|_| names_a_version(line))?;
    (before.ends_with(b"HTTP/1.") && minor > b'1').then(|| {
        let mut bytes = bytes.to_vec();
        bytes[end - 1] = b'1';
        bytes
    })
}

fn refusal(error: httparse::Error, bytes: &[u8], limits: HeadLimits) -> HeadError {
    let line = &bytes[..memchr(b'\r', bytes).unwrap_or(bytes.len())];
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::HeaderName | httparse::Error::HeaderValue => HeadError::FieldInvalid,
        _ if line.len() > limits.target_bytes_max + REQUEST_LINE_REST_BYTES => HeadError::TargetTooLong,
        httparse::Error::Version if names_a_version(line) => HeadError::VersionUnsupported,
        _ => HeadError::RequestLineInvalid,
    }
}

/// Returns whether a request line is complete except for a version such as `HTTP/2.0`.
fn names_a_version(line: &[u8]) -> bool {
    let mut parts = line.split(|&byte| byte == b' ').skip(2);
    let version = parts.next().unwrap_or_default();
    parts.next().is_none()
        && matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// Returns the position of `part`, a slice of `whole`, in it.
fn place(whole: &[u8], part: &[u8]) -> HeadSpan {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    HeadSpan::new(start, start + part.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits::main_port();

    fn error(text: &str) -> Option<HeadError> {
        parse(text.as_bytes(), LIMITS).err()
    }

    /// Returns the error for a request with these `fields`, each with its line end.
    fn field_error(fields: &str) -> Option<HeadError> {
        error(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
    }

    #[test]
    fn a_complete_head_tells_its_length_and_leaves_the_rest() {
        let text = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET";
        let Ok(Parsed::Complete { head, length, framing, keep_alive, expect_continue }) = parse(text, LIMITS)
        else {
            panic!("refused")
        };
        assert_eq!((length, framing), (text.len() - 6, BodyFraming::Length(3)));
        assert_eq!((keep_alive, expect_continue), (true, false));
        assert_eq!((head.method(), head.header("HOST")), ("POST", Some(&b"h"[..])));
    }

    #[test]
    fn a_few_empty_lines_before_the_request_are_skipped() {
        let after = |lines: usize| {
            let text = format!("{}GET / HTTP/1.0\r\n\r\n", "\r\n".repeat(lines));
            parse(text.as_bytes(), LIMITS).map(|parsed| match parsed {
                Parsed::Complete { length, head, .. } => (length == text.len(), head.target().to_vec()),
                Parsed::Partial => panic!("partial"),
            })
        };
        assert_eq!(after(HEAD_EMPTY_LINES_MAX), Ok((true, b"/".to_vec())));
        assert_eq!(after(HEAD_EMPTY_LINES_MAX + 1).err(), Some(HeadError::LineEndInvalid));
    }

    #[test]
    fn malformed_request_lines_are_refused() {
        for line in [
            "GET /",
            "GET  / HTTP/1.1",
            "GET /  HTTP/1.1",
            "GET / HTTP/1.1 ",
            " GET / HTTP/1.1",
            "GET / HTTP/1.1\0",
            "G@T / HTTP/1.1",
            "GET\t/\tHTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET / http/1.1",
            "GET / HTTP/11",
            "GET / XTTP/1.1",
            "GET /\0 HTTP/1.1",
            "GET /\x7f HTTP/1.1",
            "/ HTTP/1.1",
            "GET / HTTP/1.1\rX: y",
            "\x16\x03\x01",
        ] {
            let text = format!("{line}\r\nHost: h\r\n\r\n");
            assert_eq!(error(&text), Some(HeadError::RequestLineInvalid), "{line:?}");
        }
    }

    #[test]
    fn other_versions_are_505() {
        for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/2.1", "HTTP/9.9"] {
            let text = format!("GET / {version}\r\nHost: h\r\n\r\n");
            assert_eq!(error(&text), Some(HeadError::VersionUnsupported), "{version}");
        }
        assert_eq!(HeadError::VersionUnsupported.status(), 505);
        assert_eq!(error("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(HeadError::VersionUnsupported));
    }

    #[test]
    fn later_minor_versions_are_read_as_the_one_that_is_known() {
        for version in ["HTTP/1.2", "HTTP/1.9"] {
            let text = format!("GET /a {version}\r\nHost: h\r\n\r\n");
            let Ok(Parsed::Complete { head, length, .. }) = parse(text.as_bytes(), LIMITS) else {
                panic!("{version}")
            };
            assert_eq!((head.version(), head.target(), length), (Version::Http11, &b"/a"[..], text.len()));
            assert_eq!(error(&format!("GET /a {version}\r\n\r\n")), Some(HeadError::HostMissing));
        }
    }

    #[test]
    fn bare_line_feeds_are_refused_at_once() {
        for text in
            ["GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nHost: h\n", "GET / HTTP/1.0\r\n\n", "\n", "\r\n\n", "\rX"]
        {
            assert_eq!(error(text), Some(HeadError::LineEndInvalid), "{text:?}");
        }
    }

    #[test]
    fn malformed_fields_are_refused() {
        for field in [
            "A : b",
            "A\t: b",
            " A: b",
            "\tA: b",
            ": b",
            "A",
            "A b: c",
            "A: b\rc",
            "A: b\0c",
            "A: b\x01",
            "A: b\x7f",
            "A: b\r\n folded",
            "A(: b",
            "\u{e4}: b",
        ] {
            assert_eq!(field_error(&format!("{field}\r\n")), Some(HeadError::FieldInvalid), "{field:?}");
        }
        for field in ["A:b", "A: \t b \t", "A:", "A: \u{e4}", "A_b: c", "A: b:c"] {
            assert_eq!(field_error(&format!("{field}\r\n")), None, "{field:?}");
        }
    }

    #[test]
    fn http_1_1_has_exactly_one_valid_host() {
        let hosts = |fields: &str| error(&format!("GET / HTTP/1.1\r\n{fields}\r\n"));
        assert_eq!(hosts(""), Some(HeadError::HostMissing));
        assert_eq!(hosts("Host: a\r\nhost: a\r\n"), Some(HeadError::HostRepeated));
        assert_eq!(hosts("Host: a b\r\n"), Some(HeadError::HostInvalid));
        assert_eq!(hosts("Host: a/b\r\n"), Some(HeadError::HostInvalid));
        for host in ["", ":8080", "[zz]", "."] {
            assert_eq!(hosts(&format!("Host: {host}\r\n")), Some(HeadError::HostInvalid), "{host}");
        }
        assert_eq!(error("GET http://a/ HTTP/1.1\r\n\r\n"), Some(HeadError::HostMissing));
    }

    #[test]
    fn http_1_0_and_the_operations_port_need_no_host_but_check_one() {
        assert_eq!(error("GET / HTTP/1.0\r\n\r\n"), None);
        assert_eq!(error("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), Some(HeadError::HostRepeated));
        assert_eq!(error("GET / HTTP/1.0\r\nHost: a,b c\r\n\r\n"), Some(HeadError::HostInvalid));
        for host in ["", "Host:\r\n"] {
            let text = format!("GET / HTTP/1.1\r\n{host}\r\n");
            assert!(parse(text.as_bytes(), HeadLimits::ops_port()).is_ok());
        }
    }

    #[test]
    fn long_targets_are_414_whether_the_line_ended_or_not() {
        let long = "a".repeat(LIMITS.target_bytes_max);
        assert_eq!(error(&format!("GET /{long} HTTP/1.0\r\n\r\n")), Some(HeadError::TargetTooLong));
        assert_eq!(error(&format!("GET {} HTTP/1.0\r\n\r\n", &long.replacen('a', "/", 1))), None);
        let endless = "a".repeat(LIMITS.target_bytes_max + REQUEST_LINE_REST_BYTES);
        assert_eq!(error(&format!("GET /{endless}")), Some(HeadError::TargetTooLong));
        assert_eq!(HeadError::TargetTooLong.status(), 414);
    }

    #[test]
    fn large_heads_and_many_fields_are_431() {
        let value = "a".repeat(LIMITS.bytes_max);
        assert_eq!(field_error(&format!("X: {value}\r\n")), Some(HeadError::TooLarge));
        assert_eq!(error(&format!("GET / HTTP/1.1\r\nX: {value}")), Some(HeadError::TooLarge));
        assert_eq!(field_error(&"X: y\r\n".repeat(LIMITS.fields_max)), Some(HeadError::TooManyFields));
        assert_eq!(field_error(&"X: y\r\n".repeat(LIMITS.fields_max - 1)), None);
        assert_eq!((HeadError::TooLarge.status(), HeadError::TooManyFields.status()), (431, 431));
    }

    #[test]
    fn the_reader_is_ready_for_the_next_head() {
        let stream = b"GET /1 HTTP/1.0\r\n\r\n\r\nGET /2 HTTP/1.0\r\n\r\n";
        let mut reader = HeadReader::new(LIMITS);
        let mut at = 0;
        for expected in [b"/1", b"/2"] {
            let Ok(Parsed::Complete { head, length, .. }) = reader.read(&stream[at..]) else {
                panic!("refused")
            };
            assert_eq!(head.target(), expected);
            at += length;
        }
        assert_eq!(at, stream.len());
        assert!(!reader.has_begun());
    }

    #[test]
    fn a_head_begins_with_its_first_byte_and_not_with_empty_lines() {
        let mut reader = HeadReader::new(LIMITS);
        for (text, begun) in [("", false), ("\r", false), ("\r\n", false), ("\r\nG", true)] {
            assert!(matches!(reader.read(text.as_bytes()), Ok(Parsed::Partial)));
            assert_eq!(reader.has_begun(), begun, "{text:?}");
        }
    }

    /// Feeds `text` in growing pieces and returns the first result as text.
    fn dripped(text: &[u8], cuts: &[usize]) -> String {
        let mut reader = HeadReader::new(LIMITS);
        for end in cuts.iter().copied().chain([text.len()]) {
            match reader.read(&text[..end]) {
                Ok(Parsed::Partial) => {}
                other => return format!("{other:?}"),
            }
        }
        "partial".into()
    }

    proptest! {
        #[test]
        fn any_split_reads_alike(
            pieces in prop::collection::vec(prop::sample::select(&[
                "GET / HTTP/1.1", "GET http://a/b?c HTTP/1.0", "\r\n", "\r\n", "\r\n", "\n", "\r", "Host: h", "A: b",
                "Content-Length: 3", "Transfer-Encoding: chunked", " ", "\0",
            ][..]), 0..12),
            cuts in prop::collection::vec(0_usize..120, 0..6),
        ) {
            let text = pieces.concat().into_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let whole = dripped(&text, &[]);
            let split = dripped(&text, &cuts);
            // A rejection may come earlier and name another reason; an accepted header is the same.
            if whole.starts_with("Err") || split.starts_with("Err") {
                prop_assert_eq!(whole.starts_with("Err"), split.starts_with("Err"));
            } else {
                prop_assert_eq!(whole, split);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, LIMITS);
            let _ = parse(&[b"GET / HTTP/1.1\r\n", &bytes[..], b"\r\n\r\n"].concat(), LIMITS);
        }
    }
}
