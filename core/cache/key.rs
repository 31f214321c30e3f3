//! The key of a stored response: the URL, as the client sent it.
//!
//! Scheme, host, port, path and query are in the key; the method is `GET`. Path and query are compared byte by byte,
//! because a script sees them undecoded: two spellings of a path are two responses. Parameters that the operator
//! ignores are left out. The rest of a request is not in the key, so a stored response must not depend on it;
//! see [`is_unkeyed`].

use std::borrow::Cow;

use super::patterns::NamePatterns;
use crate::http::Head;
use crate::sync::primitive::Arc;

/// The key of the responses to one URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey(Arc<[u8]>);

/// The parts of a URL.
#[derive(Clone, Copy, Debug)]
pub struct UrlParts<'a> {
    /// Whether the scheme is `https`.
    pub is_https: bool,
    /// The host, perhaps with a port.
    pub host: &'a [u8],
    /// The port, if it is known from elsewhere.
    pub port: Option<u16>,
    /// The path, undecoded.
    pub path: &'a [u8],
    /// The query, without its question mark.
    pub query: Option<&'a [u8]>,
}

impl CacheKey {
    /// Makes the key of a URL; parameters whose names match `ignored` are left out.
    pub fn new(url: UrlParts<'_>, ignored: &NamePatterns) -> Self {
        let (host, own_port) = split_port(url.host);
        let port = url.port.or(own_port).unwrap_or(if url.is_https { 443 } else { 80 });
        let mut key =
            Vec::with_capacity(16 + url.host.len() + url.path.len() + url.query.map_or(0, <[u8]>::len));
        key.extend_from_slice(if url.is_https { b"https://" } else { b"http://" });
        key.extend(host.iter().map(u8::to_ascii_lowercase));
        key.push(b':');
        key.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
        key.extend_from_slice(url.path);
        if let Some(query) = url.query {
            push_query(&mut key, query, ignored);
        }
        Self(key.into())
    }

    /// Returns the number of bytes of the key.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the key is empty; none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> UrlParts<'a> {
    /// Splits a URL, or a path that is relative to the host of `base`. `None` if it is neither.
    pub fn parse(url: &'a [u8], base: Option<UrlParts<'a>>) -> Option<Self> {
        let url = url.split(|&byte| byte == b'#').next().unwrap_or_default();
        let (is_https, rest) = if let Some(rest) = strip_scheme(url, b"https://") {
            (true, rest)
        } else if let Some(rest) = strip_scheme(url, b"http://") {
            (false, rest)
        } else if url.starts_with(b"//") {
            (base?.is_https, &url[2..])
        } else if url.starts_with(b"/") {
            let (path, query) = split_query(url);
            return Some(Self { path, query, ..base? });
        } else {
            return None;
        };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (host, target) = rest.split_at(end);
        let host = host.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
        let (path, query) = split_query(target);
        let path = if path.is_empty() { b"/" } else { path };
        (!host.is_empty()).then_some(Self { is_https, host, port: None, path, query })
    }
}

impl UrlParts<'_> {
    /// Resolves a relative reference to a path, as browsers do (RFC 3986, section 5.2); returns any other one as it is.
    pub fn resolve<'b>(&self, reference: &'b [u8]) -> Cow<'b, [u8]> {
        let before_fragment = reference.split(|&byte| byte == b'#').next().unwrap_or_default();
        let (path, query) = split_query(before_fragment);
        let first = path.split(|&byte| byte == b'/').next().unwrap_or_default();
        if path.starts_with(b"//") || memchr::memchr(b':', first).is_some() {
            return Cow::Borrowed(reference);
        }
        let mut resolved = match path {
            b"" => self.path.to_vec(),
            [b'/', ..] => without_dots(path),
            _ => {
                let end = memchr::memrchr(b'/', self.path).map_or(0, |slash| slash + 1);
                without_dots(&[&self.path[..end], path].concat())
            }
        };
        // Without a path, an absent query is that of this URL.
        if let Some(query) = query.or(if path.is_empty() { self.query } else { None }) {
            resolved.push(b'?');
            resolved.extend_from_slice(query);
        }
        Cow::Owned(resolved)
    }

    /// Returns whether both have the same scheme, host and port.
    pub fn is_of_the_host_of(&self, other: &UrlParts<'_>) -> bool {
        let origin = |url: &UrlParts<'_>| {
            let root = UrlParts { path: b"/", query: None, ..*url };
            CacheKey::new(root, &NamePatterns::default())
        };
        origin(self) == origin(other)
    }
}

/// Returns whether a request field changes what a URL stands for in common frameworks, although it is in no key. A
/// request that has one is neither answered from the cache nor stored.
pub fn is_unkeyed(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 6] = [
        b"x-http-method",
        b"x-http-method-override",
        b"x-method-override",
        b"x-original-url",
        b"x-rewrite-url",
        b"x-forwarded-prefix",
    ];
    NAMES.iter().any(|unkeyed| name.eq_ignore_ascii_case(unkeyed))
}

/// Request fields that override the host, scheme or address of the connection.
pub(super) const FORWARDED_FIELDS: [&[u8]; 9] = [
    b"forwarded",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-proto",
    b"x-forwarded-scheme",
    b"x-forwarded-server",
    b"x-forwarded-ssl",
    b"x-host",
    b"front-end-https",
];

/// Returns whether a request field overrides the host, scheme or address of the connection. If its sender is not a
/// trusted proxy, it must not influence a response that other clients receive.
pub fn is_forged_by_clients(name: &[u8]) -> bool {
    FORWARDED_FIELDS.iter().any(|forged| name.eq_ignore_ascii_case(forged))
}

/// Returns whether a request has a cookie whose name matches, as it is or as PHP registers it: with `_` for dots, spaces
/// and brackets (`php_register_variable_ex`).
pub fn has_cookie(head: &Head, patterns: &NamePatterns) -> bool {
    !patterns.is_empty()
        && head.header_values("cookie").any(|cookies| {
            cookies.split(|&byte| matches!(byte, b';' | b',')).any(|pair| {
                let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
                let name = name.trim_ascii();
                let is_renamed = |byte: &u8| matches!(byte, b'.' | b' ' | b'[');
                let registered = |byte: &u8| if is_renamed(byte) { b'_' } else { *byte };
                patterns.matches(name)
                    || (name.iter().any(is_renamed)
                        && patterns.matches(&name.iter().map(registered).collect::<Vec<_>>()))
            })
        })
}

/// Appends a query without the ignored parameters. An empty query differs from none.
fn push_query(key: &mut Vec<u8>, query: &[u8], ignored: &NamePatterns) {
    if ignored.is_empty() {
        key.push(b'?');
        key.extend_from_slice(query);
        return;
    }
    let mut is_first = true;
    let mut has_ignored = false;
    for parameter in query.split(|&byte| byte == b'&') {
        let name = parameter.split(|&byte| byte == b'=').next().unwrap_or_default();
        if !name.is_empty() && ignored.matches(name) {
            has_ignored = true;
            continue;
        }
        key.push(if is_first { b'?' } else { b'&' });
        key.extend_from_slice(parameter);
        is_first = false;
    }
    debug_assert!(!is_first || has_ignored, "a query has at least one parameter, which may be empty");
}

/// Removes the segments `.` and `..` of an absolute path, the latter with the segment before it.
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|&byte| byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if segment == b".." {
            kept.pop();
        }
        let is_dots = matches!(segment, b"." | b"..");
        if !is_dots {
            kept.push(segment);
        } else if segments.peek().is_none() {
            kept.push(b"");
        }
    }
    kept.iter().flat_map(|segment| [b"/", *segment]).flatten().copied().collect()
}

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

fn strip_scheme<'a>(url: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = url.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Splits a host and its port; an address in brackets contains colons.
fn split_port(host: &[u8]) -> (&[u8], Option<u16>) {
    let Some(colon) = memchr::memrchr(b':', host) else { return (host, None) };
    let (name, digits) = (&host[..colon], &host[colon + 1..]);
    if memchr::memchr(b']', digits).is_some() {
        return (host, None);
    }
    (name, std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    fn key_of(url: &str, ignored: &[&str]) -> String {
        let parts = UrlParts::parse(url.as_bytes(), None).unwrap();
        String::from_utf8(CacheKey::new(parts, &NamePatterns::new(ignored)).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_key_is_a_url() {
        for (url, expected) in [
            ("http://A.example/b", "http://a.example:80/b"),
            ("HTTPS://a.example", "https://a.example:443/"),
            ("https://a.example:8443?x", "https://a.example:8443/?x"),
            ("http://user@[::1]:81/%61?#f", "http://[::1]:81/%61?"),
            ("http://[::1]/", "http://[::1]:80/"),
        ] {
            assert_eq!(key_of(url, &[]), expected, "{url}");
        }
    }

    #[test]
    fn ignored_parameters_leave_the_key() {
        for (query, expected) in [
            ("?utm_a=1", ""),
            ("?a=1&utm_a=1&b=2", "?a=1&b=2"),
            ("?utm_a=1&a=1", "?a=1"),
            ("?a=utm_b", "?a=utm_b"),
            ("?", "?"),
            ("?&&", "?&&"),
            ("?GCLID", ""),
        ] {
            assert_eq!(
                key_of(&format!("http://h/{query}"), &["utm_*", "gclid"]),
                format!("http://h:80/{expected}")
            );
        }
    }

    #[test]
    fn a_path_is_relative_to_the_host_of_the_request() {
        let base =
            UrlParts { is_https: true, host: b"h:444", port: Some(444), path: b"/x", query: Some(b"y") };
        let key = |url: &'static str| {
            let parts = UrlParts::parse(url.as_bytes(), Some(base))?;
            Some(
                String::from_utf8(CacheKey::new(parts, &NamePatterns::default()).as_bytes().to_vec())
                    .unwrap(),
            )
        };
        assert_eq!(key("/a?b").unwrap(), "https://h:444/a?b");
        assert_eq!(key("//i/a").unwrap(), "https://i:443/a");
        assert_eq!(key("a"), None);
        assert_eq!(key("ftp://h/"), None);
        assert_eq!(key("http://"), None);
        assert!(UrlParts::parse(b"/a", None).is_none());
    }

    #[test]
    fn references_are_resolved_as_browsers_do() {
        let base = UrlParts::parse(b"http://h/a/b?c", None).unwrap();
        for (reference, expected) in [
            ("d", "/a/d"),
            ("d?e#f", "/a/d?e"),
            ("./d", "/a/d"),
            ("../d", "/d"),
            ("../../../d", "/d"),
            (".", "/a/"),
            ("..", "/"),
            ("d/../e/.", "/a/e/"),
            ("?e", "/a/b?e"),
            ("?", "/a/b?"),
            ("", "/a/b?c"),
            ("#f", "/a/b?c"),
            ("/d/../e", "/e"),
            ("/d//e", "/d//e"),
            ("d?a:b", "/a/d?a:b"),
            ("d/e:f", "/a/d/e:f"),
            ("//i/d", "//i/d"),
            ("http://i/d", "http://i/d"),
            ("mailto:d", "mailto:d"),
        ] {
            let resolved = base.resolve(reference.as_bytes());
            assert_eq!(String::from_utf8_lossy(&resolved), expected, "{reference}");
        }
    }

    #[test]
    fn cookies_are_found_by_name() {
        let has = |line: &str| {
            let text = format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: {line}\r\n\r\n");
            let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
                panic!("{line}")
            };
            has_cookie(&head, &NamePatterns::new(["*sess*", "wp-postpass_*", "a.b"]))
        };
        assert!(has("a=b; PHPSESSID=1") && has("xsess") && has("a=b;sess=1"));
        assert!(has("wp-postpass.x=1") && has("wp-postpass[x=1") && has("wp-postpass x=1") && has("a.b=1"));
        assert!(!has("a=session") && !has("") && !has("a=b; c=\"PHPSESSID\""));
    }
}
