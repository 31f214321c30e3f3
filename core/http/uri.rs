//! Paths: from the raw bytes of a target to the normalized path that all other code uses.
//!
//! The path is decoded exactly once and normalized after decoding, so `%2e%2e%2f` is `../` for every rule that follows.
//! It starts with a slash and contains no NUL, no empty segment, no `.` and no `..`. A trailing slash is kept.
//!
//! An encoded slash is a slash, as in nginx: a path names a file, and a file name cannot contain a slash. A backslash
//! is an ordinary byte.
//!
//! An invalid escape, a NUL or a path above the root is an error and is not repaired.

use std::fmt;

use memchr::memchr;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

/// A decoded and normalized path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalised {
    /// The bytes, starting with a slash.
    pub path: Vec<u8>,
}

/// Why a path was rejected; the status is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriError {
    /// `..` leads above the root.
    AboveRoot,
    /// A percent sign is not followed by two hexadecimal digits.
    BadEscape,
    /// The path does not start with a slash.
    NotAbsolute,
    /// The path contains a NUL byte.
    Nul,
}

impl UriError {
    /// Returns the status code of the response.
    pub const fn status(self) -> u16 {
        400
    }
}

/// Decodes a raw path once and normalizes it.
///
/// # Errors
///
/// If the path contains an invalid escape or a NUL, leads above the root, or does not start with a slash.
pub fn normalise(raw: &[u8]) -> Result<Normalised, UriError> {
    if raw.first() != Some(&b'/') {
        return Err(UriError::NotAbsolute);
    }
    normalise_decoded(decode(raw)?)
}

/// Normalizes a path that starts with a slash and is not encoded.
pub(super) fn normalise_decoded(decoded: Vec<u8>) -> Result<Normalised, UriError> {
    if memchr(0, &decoded).is_some() {
        return Err(UriError::Nul);
    }
    // Most paths are too short to benefit from a prepared search.
    if !decoded.windows(2).any(|pair| matches!(pair, b"//" | b"/.")) {
        return Ok(Normalised { path: decoded });
    }
    resolve_segments(&decoded)
}

/// Returns whether a path contains a hidden segment: one that starts with a dot, except for `/.well-known` at the root.
pub fn has_dot_segment_file(path: &[u8]) -> bool {
    let mut segments = path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty());
    let first = segments.next().unwrap_or_default();
    (first.starts_with(b".") && first != b".well-known") || segments.any(|segment| segment.starts_with(b"."))
}

/// Returns whether the name of a parameter in a query is a spelling of `name`: characters may be escaped.
pub fn is_spelled(spelling: &[u8], name: &[u8]) -> bool {
    // Most names are spelled without escapes.
    spelling == name || (spelling.contains(&b'%') && percent_decode(spelling).eq(name.iter().copied()))
}

/// Encodes a path for a `Location` field, so that it decodes to the same bytes and cannot be parsed as another host.
pub fn encode_path(path: &[u8]) -> String {
    percent_encode(path, PATH_ESCAPED).to_string()
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AboveRoot => "the path leads above the root",
            Self::BadEscape => {
                "the path contains a percent sign that is not followed by two hexadecimal digits"
            }
            Self::NotAbsolute => "the path does not start with a slash",
            Self::Nul => "the path contains a NUL byte",
        })
    }
}

impl std::error::Error for UriError {}

/// The bytes that must be escaped in a path segment; a backslash is included because browsers treat it as a slash.
const PATH_ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

fn decode(raw: &[u8]) -> Result<Vec<u8>, UriError> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(percent) = memchr(b'%', rest) {
        let digits = rest.get(percent + 1..percent + 3).ok_or(UriError::BadEscape)?;
        let (Some(high), Some(low)) = (hex(digits[0]), hex(digits[1])) else {
            return Err(UriError::BadEscape);
        };
        decoded.extend_from_slice(&rest[..percent]);
        decoded.push(high << 4 | low);
        rest = &rest[percent + 3..];
    }
    decoded.extend_from_slice(rest);
    Ok(decoded)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn resolve_segments(decoded: &[u8]) -> Result<Normalised, UriError> {
    let mut path = Vec::with_capacity(decoded.len());
    let mut segments = decoded[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"" | b"." if is_last => path.push(b'/'),
            b"" | b"." => {}
            b".." => {
                let parent = path.iter().rposition(|&byte| byte == b'/').ok_or(UriError::AboveRoot)?;
                path.truncate(parent);
                if is_last {
                    path.push(b'/');
                }
            }
            name => {
                path.push(b'/');
                path.extend_from_slice(name);
            }
        }
    }
    debug_assert!(path.first() == Some(&b'/'), "the last segment always leaves a slash");
    Ok(Normalised { path })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(raw: &str) -> Result<String, UriError> {
        normalise(raw.as_bytes()).map(|normalised| String::from_utf8_lossy(&normalised.path).into_owned())
    }

    #[test]
    fn escapes_are_decoded_exactly_once() {
        assert_eq!(path("/a%20b%2B+"), Ok("/a b++".into()));
        assert_eq!(path("/%2570hp"), Ok("/%70hp".into()));
        assert_eq!(path("/%252e%252e/x"), Ok("/%2e%2e/x".into()));
        assert_eq!(normalise(b"/%ff%FE").map(|path| path.path), Ok(b"/\xff\xfe".to_vec()));
    }

    #[test]
    fn segments_are_resolved_after_decoding() {
        for (raw, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/a//b///c", "/a/b/c"),
            ("/a/./b/.", "/a/b/"),
            ("/a/b/../c", "/a/c"),
            ("/a/b/..", "/a/"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/%2e%2e/b", "/b"),
            ("/a%2f..%2fb", "/b"),
            ("/a%2Fb", "/a/b"),
            ("/...", "/..."),
            ("/..a/.b", "/..a/.b"),
            ("/a/", "/a/"),
            ("/a\\..\\b", "/a\\..\\b"),
        ] {
            assert_eq!(path(raw), Ok(expected.into()), "{raw}");
        }
    }

    #[test]
    fn climbing_above_the_root_is_refused() {
        for raw in ["/..", "/../", "/../a", "/a/../..", "/a/../../b", "/%2e%2e/", "/.%2e", "//..", "/./.."] {
            assert_eq!(path(raw), Err(UriError::AboveRoot), "{raw}");
        }
    }

    #[test]
    fn bad_escapes_nul_and_relative_paths_are_refused() {
        for raw in ["/%", "/%4", "/%zz", "/%4g", "/a%", "/%%41", "/%u0041", "/%+1"] {
            assert_eq!(path(raw), Err(UriError::BadEscape), "{raw}");
        }
        assert_eq!(path("/a%00.php"), Err(UriError::Nul));
        for raw in ["", "*", "a", "%2fa", "http://h/"] {
            assert_eq!(path(raw), Err(UriError::NotAbsolute), "{raw}");
        }
    }

    #[test]
    fn hidden_segments_are_seen_but_for_well_known_at_the_root() {
        for hidden in [
            "/.env",
            "/.git/config",
            "/a/.htaccess",
            "/a/.well-known/x",
            "/.well-known/.x",
            "/.well-knownx",
            "/...",
        ] {
            assert!(has_dot_segment_file(hidden.as_bytes()), "{hidden}");
        }
        for open in ["/", "/a.b", "/a./b", "/.well-known", "/.well-known/acme-challenge/x"] {
            assert!(!has_dot_segment_file(open.as_bytes()), "{open}");
        }
    }

    proptest! {
        #[test]
        fn normalising_is_idempotent(
            tail in prop::collection::vec(prop::sample::select(&["/", ".", "..", "a", "%2e", "%2F", "%25", "%", "%00", "\\", "~"][..]), 0..16),
        ) {
            let raw = format!("/{}", tail.concat());
            if let Ok(Normalised { path }) = normalise(raw.as_bytes()) {
                prop_assert_eq!(path[0], b'/');
                prop_assert!(!path.contains(&0));
                let inner: Vec<_> = path[1..].split(|&byte| byte == b'/').collect();
                for (index, segment) in inner.iter().enumerate() {
                    prop_assert!(*segment != b"." && *segment != b"..");
                    prop_assert!(!segment.is_empty() || index + 1 == inner.len());
                }
                let again = normalise(encode_path(&path).as_bytes());
                prop_assert_eq!(again, Ok(Normalised { path }));
            }
        }

        #[test]
        fn an_encoded_path_decodes_to_itself(bytes in prop::collection::vec(1_u8.., 0..40)) {
            let raw = [b"/", &bytes[..]].concat();
            let encoded = encode_path(&raw);
            prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(decode(encoded.as_bytes()), Ok(raw));
        }
    }
}
