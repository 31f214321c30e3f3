//! Parses a request header: from its bytes to a [`Head`], the framing of the body and the persistence of the connection.
//!
//! There is exactly one interpretation or none (see the parent module). HTTP/0.9, lenient line ends, folded lines, and
//! duplicate framing are rejected.

use std::mem::MaybeUninit;

use memchr::memchr;

use super::framing::{BodyFraming, Traits};
use super::head::{FieldSpan, Head, HeadSpan, Version};
use super::head_error::HeadError;
use super::target::target_form;
use crate::limits::{HEAD_BYTES_MAX, HEAD_FIELDS_MAX, OPS_HEAD_BYTES_MAX, TARGET_BYTES_MAX};

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

/// The result of [`HeadReader::read`](super::HeadReader::read).
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

impl HeadLimits {
    /// Returns the limits of the main port.
    pub const fn main_port() -> Self {
        Self {
            bytes_max: HEAD_BYTES_MAX,
            target_bytes_max: TARGET_BYTES_MAX,
            fields_max: HEAD_FIELDS_MAX,
            host_required: true,
        }
    }

    /// Returns the limits of the operations port: smaller, and `Host` is optional, because health checks of load
    /// balancers may omit it.
    pub const fn ops_port() -> Self {
        Self {
            bytes_max: OPS_HEAD_BYTES_MAX,
            target_bytes_max: OPS_HEAD_BYTES_MAX / 2,
            fields_max: HEAD_FIELDS_MAX / 2,
            host_required: false,
        }
    }
}

/// The bytes of a request line besides the target, beyond which the target is considered too long.
pub(super) const REQUEST_LINE_REST_BYTES: usize = 128;

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
    use super::super::head_reader::{HeadReader, parse};
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
    fn a_long_request_line_is_refused_however_it_arrives() {
        for excess in [0, 1] {
            let rest = " / HTTP/1.0\r".len();
            let method = "M".repeat(LIMITS.target_bytes_max + REQUEST_LINE_REST_BYTES - rest + excess);
            for rest in ["\r\n", "A: b"] {
                let head = format!("{method} / HTTP/1.0\r\n{rest}");
                let mut dripped = HeadReader::default();
                let drips = (1..=head.len()).find_map(|end| dripped.read(&head.as_bytes()[..end]).err());
                assert_eq!((error(&head), excess == 1), (drips, drips.is_some()), "{excess} bytes too long");
            }
        }
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
}
