//! Files that scripts name in their responses (`X-Accel-Redirect`, `X-Sendfile`), for the server to send instead of their
//! bodies; and the request path itself, when its script no longer exists.
//!
//! Pure. The path of a name is normalized, so that it contains no `..`, and decoded only where the field is a URI.
//! Whether the file may be sent is decided on the disk.

use super::uri::{normalise, normalise_decoded};

/// A file that a script names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedFile {
    /// By `X-Sendfile`: a path in the file system, or relative to a directory that files may be sent from.
    Path(Box<[u8]>),
    /// By `X-Accel-Redirect`: a URI.
    Uri(Box<[u8]>),
    /// By the worker, because the script no longer exists: the path of the request, resolved again.
    Requested,
    /// By the worker, on behalf of the response cache: a stored response.
    Stored,
}

impl NamedFile {
    /// Returns the file that a field of a response names; `None` for all other fields. An empty value names nothing.
    pub fn of(name: &[u8], value: &[u8]) -> Option<Self> {
        let by = if name.eq_ignore_ascii_case(b"x-sendfile") {
            Self::Path
        } else if name.eq_ignore_ascii_case(b"x-accel-redirect") {
            Self::Uri
        } else {
            return None;
        };
        Some(by(value.into()))
    }

    /// Returns the normalized path, which begins with a slash; `None` if it has no such form.
    pub fn path(&self) -> Option<Vec<u8>> {
        let normalised = match self {
            Self::Uri(uri) => {
                // The rest of the URI has no meaning for a file.
                let end = uri.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(uri.len());
                normalise(&uri[..end])
            }
            Self::Requested | Self::Stored => return None,
            Self::Path(path) if path.is_empty() => return None,
            Self::Path(path) if path.starts_with(b"/") => normalise_decoded(path.to_vec()),
            Self::Path(path) => normalise_decoded([b"/", &path[..]].concat()),
        };
        normalised.ok().map(|normalised| normalised.path)
    }

    /// Returns whether it may be relative to a directory that files may be sent from.
    pub fn may_be_relative(&self) -> bool {
        match self {
            Self::Uri(_) => true,
            Self::Path(path) => !path.starts_with(b"/"),
            Self::Requested | Self::Stored => false,
        }
    }

    /// Returns the value that the script wrote.
    pub fn as_written(&self) -> &[u8] {
        match self {
            Self::Path(text) | Self::Uri(text) => text,
            Self::Requested | Self::Stored => b"",
        }
    }
}

/// Returns whether a request field selects one of these fields for applications, or maps paths to URIs. Only a proxy
/// may set it, but clients can send it, too: applications must not see it.
pub fn asks_for_named_files(name: &[u8]) -> bool {
    // Applications treat an underscore like a hyphen.
    let is = |other: &[u8]| {
        let pairs = name.iter().zip(other);
        name.len() == other.len()
            && pairs
                .into_iter()
                .all(|(one, other)| one.eq_ignore_ascii_case(other) || (*one, *other) == (b'_', b'-'))
    };
    is(b"x-sendfile-type") || is(b"x-accel-mapping")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(name: &str, value: &str) -> Option<String> {
        let named = NamedFile::of(name.as_bytes(), value.as_bytes())?;
        named.path().map(|path| String::from_utf8(path).unwrap())
    }

    #[test]
    fn two_fields_name_files() {
        assert_eq!(NamedFile::of(b"x-SENDFILE", b"/a"), Some(NamedFile::Path(b"/a"[..].into())));
        assert_eq!(NamedFile::of(b"x-accel-redirect", b"/a"), Some(NamedFile::Uri(b"/a"[..].into())));
        for name in ["X-Accel-Expires", "X-Sendfile-Type", "X-Sendfil", ""] {
            assert_eq!(NamedFile::of(name.as_bytes(), b"/a"), None, "{name}");
        }
    }

    #[test]
    fn only_a_uri_is_decoded() {
        assert_eq!(
            path_of("X-Accel-Redirect", "/a%20b/%C3%A4.txt?x=1#y").as_deref(),
            Some("/a b/\u{e4}.txt")
        );
        assert_eq!(path_of("X-Accel-Redirect", "/a b/\u{e4}.txt").as_deref(), Some("/a b/\u{e4}.txt"));
        assert_eq!(path_of("X-Sendfile", "/srv/100%25?.txt").as_deref(), Some("/srv/100%25?.txt"));
        assert_eq!(path_of("X-Sendfile", "sub/a.txt").as_deref(), Some("/sub/a.txt"));
    }

    #[test]
    fn a_path_never_leads_up() {
        for (name, value) in [
            ("X-Accel-Redirect", "/../etc/passwd"),
            ("X-Accel-Redirect", "/a/%2e%2e/%2e%2e/b"),
            ("X-Accel-Redirect", "/a%00"),
            ("X-Accel-Redirect", "/a%2"),
            ("X-Accel-Redirect", "@named"),
            ("X-Accel-Redirect", ""),
            ("X-Sendfile", ""),
            ("X-Sendfile", "../a"),
            ("X-Sendfile", "/a\0b"),
        ] {
            assert_eq!(path_of(name, value), None, "{name}: {value}");
        }
        assert_eq!(path_of("X-Sendfile", "/srv//x/./../a").as_deref(), Some("/srv/a"));
        assert_eq!(path_of("X-Accel-Redirect", "/srv/x/%2E%2E/a").as_deref(), Some("/srv/a"));
    }

    #[test]
    fn special_fields_of_proxies_are_known() {
        assert!(asks_for_named_files(b"x-sendfile-type") && asks_for_named_files(b"X_Accel-Mapping"));
        assert!(!asks_for_named_files(b"x-sendfile") && !asks_for_named_files(b"x-accel-buffering"));
    }
}
