//! The redirect of a plain HTTP request: the same path over HTTPS.
//!
//! Pure. A name from a request is used only if a certificate covers it, so that an attacker cannot choose the target.
//! The caller knows the names covered by certificates.

use super::head::Head;

/// The names covered by the certificates of a port.
pub trait CoveredNames {
    /// Returns whether a certificate covers this name or address, in lower case and without brackets.
    fn covers(&self, name: &str) -> bool;
    /// Returns a covered name to use if the requested one is not covered.
    fn usual(&self) -> Option<String>;
}

/// Returns the URI of the same path over HTTPS, on this `port`; `None` if the request has no host, or if it is not
/// covered and there is no substitute.
pub fn https_location(head: &Head, names: &impl CoveredNames, port: u16) -> Option<Vec<u8>> {
    let host = host_name(head.host()?)?;
    let is_literal = host.contains(':');
    let host = if names.covers(&host) { host } else { names.usual()? };
    let mut location = b"https://".to_vec();
    let brackets = if is_literal && host.contains(':') { ["[", "]"] } else { ["", ""] };
    for part in [brackets[0], &host, brackets[1]] {
        location.extend_from_slice(part.as_bytes());
    }
    if port != 443 {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    let target = head.request_uri();
    // `OPTIONS *` has no path.
    location.extend_from_slice(if target.starts_with(b"/") { &target } else { b"/" });
    Some(location)
}

/// Returns the name of a host without its port, its brackets and the dot of the root, in lower case.
fn host_name(host: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(host).ok()?;
    let name = match text.strip_prefix('[') {
        Some(literal) => literal.split_once(']')?.0,
        None => text.split_once(':').map_or(text, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    struct Names(&'static [&'static str]);

    impl CoveredNames for Names {
        fn covers(&self, name: &str) -> bool {
            self.0.contains(&name)
        }

        fn usual(&self) -> Option<String> {
            self.0.first().map(|name| (*name).to_owned())
        }
    }

    fn location(names: &'static [&'static str], request: &str, port: u16) -> Option<String> {
        let text = format!("{request}\r\n\r\n");
        let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
            panic!("{text}")
        };
        https_location(&head, &Names(names), port).map(|location| String::from_utf8(location).unwrap())
    }

    const TWO: &[&str] = &["a.test", "b.test", "::1", "127.0.0.1"];

    #[test]
    fn a_name_that_is_covered_stays() {
        for (host, expected) in [
            ("b.test", "https://b.test/x?y=1"),
            ("B.Test:80", "https://b.test/x?y=1"),
            ("b.test.", "https://b.test/x?y=1"),
            ("[::1]:8080", "https://[::1]/x?y=1"),
            ("127.0.0.1:8080", "https://127.0.0.1/x?y=1"),
            ("evil.test", "https://a.test/x?y=1"),
            ("[::2]", "https://a.test/x?y=1"),
        ] {
            let request = format!("GET /x?y=1 HTTP/1.1\r\nHost: {host}");
            assert_eq!(location(TWO, &request, 443).as_deref(), Some(expected), "{host}");
        }
    }

    #[test]
    fn a_port_other_than_that_of_https_is_named() {
        let request = "GET / HTTP/1.1\r\nHost: b.test:80";
        assert_eq!(location(TWO, request, 8443).as_deref(), Some("https://b.test:8443/"));
    }

    #[test]
    fn the_target_names_the_host_if_it_can() {
        let absolute = "GET http://b.test/x HTTP/1.1\r\nHost: a.test";
        assert_eq!(location(TWO, absolute, 443).as_deref(), Some("https://b.test/x"));
        assert_eq!(
            location(TWO, "OPTIONS * HTTP/1.1\r\nHost: b.test", 443).as_deref(),
            Some("https://b.test/")
        );
        let doubled = "GET //evil.test/x HTTP/1.1\r\nHost: b.test";
        assert_eq!(location(TWO, doubled, 443).as_deref(), Some("https://b.test//evil.test/x"));
    }

    #[test]
    fn without_a_host_or_a_name_there_is_nowhere_to_go() {
        assert_eq!(location(TWO, "GET / HTTP/1.0", 443), None);
        assert_eq!(location(&[], "GET / HTTP/1.1\r\nHost: b.test", 443), None);
    }
}
