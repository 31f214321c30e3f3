//! The method and path of a rejected request, as far as its first line can be parsed.
//!
//! An invalid line yields no result, and the result is bounded, whatever was sent. The result is used for log records
//! only, never for routing.

use memchr::memchr2;

use super::token::is_token;
use crate::limits::LOG_TEXT_BYTES_MAX;

/// The method and path of a request that was rejected before it was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The method.
    pub method: String,
    /// The path as received, without the query; truncated if it is very long.
    pub path: Vec<u8>,
}

impl RequestLine {
    /// Finds them at the start of the received data; the line may be incomplete.
    pub fn find(input: &[u8]) -> Option<Self> {
        let start = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
        let line = &input[start..];
        let end = memchr2(b'\r', b'\n', line);
        let mut parts = line[..end.unwrap_or(line.len())].split(|&byte| byte == b' ');
        let (method, target) = (parts.next()?, parts.next()?);
        let is_good = match (parts.next(), parts.next()) {
            (Some(version), None) => version.starts_with(b"HTTP/"),
            // The line is incomplete, so the end of the target is unknown.
            (None, None) => end.is_none(),
            _ => false,
        };
        if is_good { Self::of(method, target) } else { None }
    }

    /// Creates it from a method and a target.
    pub fn of(method: &[u8], target: &[u8]) -> Option<Self> {
        let rest = [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
            let start = target.get(..scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
        });
        let path = match rest {
            Some(rest) => rest.iter().position(|&byte| byte == b'/').map_or(&b"/"[..], |at| &rest[at..]),
            None => target,
        };
        let path = &path[..memchr2(b'?', b'#', path).unwrap_or(path.len())];
        if !is_token(method) || method.len() > LOG_TEXT_BYTES_MAX || !path.starts_with(b"/") {
            return None;
        }
        let path = &path[..path.len().min(LOG_TEXT_BYTES_MAX)];
        Some(Self { method: String::from_utf8_lossy(method).into_owned(), path: path.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(input: &str) -> Option<(String, String)> {
        let line = RequestLine::find(input.as_bytes())?;
        Some((line.method, String::from_utf8(line.path).unwrap()))
    }

    #[test]
    fn a_good_line_tells_method_and_path() {
        for (input, path) in [
            ("GET /a?b HTTP/1.1\r\nbad field\r\n\r\n", "/a"),
            ("\r\nGET /a#b HTTP/9.9\r\n\r\n", "/a"),
            ("GET http://h/a/b HTTP/1.1\n", "/a/b"),
            ("GET HTTPS://h HTTP/1.1\n", "/"),
            ("GET /aaa", "/aaa"),
        ] {
            assert_eq!(found(input), Some(("GET".into(), path.into())), "{input:?}");
        }
    }

    #[test]
    fn an_invalid_request_line_has_no_parts() {
        for input in [
            "",
            "\r\n",
            "GET",
            "GET /a\r\n",
            "GET /a b HTTP/1.1\r\n",
            "G@T /a HTTP/1.1",
            "GET a HTTP/1.1",
            "GET /a XTTP\r\n",
        ] {
            assert_eq!(found(input), None, "{input:?}");
        }
    }

    #[test]
    fn stored_bytes_are_bounded() {
        let line = RequestLine::find(format!("GET /{}", "a".repeat(100_000)).as_bytes()).unwrap();
        assert_eq!(line.path.len(), LOG_TEXT_BYTES_MAX);
        assert_eq!(RequestLine::find(format!("{} / HTTP/1.1\r\n", "A".repeat(100_000)).as_bytes()), None);
    }
}
