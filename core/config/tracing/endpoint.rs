//! The URL of a collector.
//!
//! The path is used as written; the displayed URL holds no credentials. Names are not resolved.

use std::fmt;

use http::Uri;

use super::{ExportEndpoint, ExportProtocol, ExportSignal};

impl ExportEndpoint {
    /// Returns the default collector.
    pub(in crate::config) fn initial(protocol: ExportProtocol) -> Self {
        Self {
            is_tls: false,
            host: "localhost".to_owned(),
            port: if protocol == ExportProtocol::Grpc { GRPC_PORT } else { HTTP_PORT },
            target: "/".to_owned(),
        }
    }

    /// Parses a URL; `None` if it is invalid. gRPC allows URLs without a scheme; `is_insecure` then disables
    /// encryption.
    pub(in crate::config) fn parse(text: &str, protocol: ExportProtocol, is_insecure: bool) -> Option<Self> {
        let is_grpc = protocol == ExportProtocol::Grpc;
        let (is_tls, default_port, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, 80, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, 443, rest),
            None if is_grpc => (!is_insecure, GRPC_PORT, text),
            _ => return None,
        };
        // A fragment is not sent.
        let rest = rest.split('#').next().unwrap_or(rest);
        let uri: Uri = format!("http://{rest}").parse().ok()?;
        let authority = uri.authority()?;
        let host = authority.host();
        let named = authority.as_str();
        let named = named.rsplit_once('@').map_or(named, |(_, named)| named);
        let port = match named.strip_prefix(host)?.strip_prefix(':') {
            None | Some("") => default_port,
            Some(digits) => digits.parse().ok()?,
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let is_sound = !host.is_empty() && port != 0 && target.bytes().all(|byte| byte.is_ascii_graphic());
        is_sound.then(|| Self { is_tls, host: host.to_owned(), port, target })
    }

    /// Returns the part of an invalid URL that is safe to show: without the text before the host, and without the
    /// query. In doubt, removes too much, in case a password contains an `@`.
    pub(in crate::config) fn without_credentials(text: &str) -> String {
        let after_scheme = text.find("://").map(|at| at + "://".len());
        let (scheme, rest) = text.split_at(after_scheme.unwrap_or(0));
        let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("REDACTED@", rest));
        let (shown, query) = match rest.find(['?', '#']) {
            Some(at) => (&rest[..=at], "REDACTED"),
            None => (rest, ""),
        };
        format!("{scheme}{user}{shown}{query}")
    }

    /// Returns the endpoint for a signal of a collector with one endpoint for each signal.
    #[must_use]
    pub(in crate::config) fn for_signal(mut self, signal: ExportSignal) -> Self {
        let (path, query) = match self.target.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (self.target.as_str(), String::new()),
        };
        let slash = if path.ends_with('/') { "" } else { "/" };
        self.target = format!("{path}{slash}v1/{}{query}", signal.as_str());
        self
    }

    /// Returns the host and the port, as in the field `Host`.
    pub fn authority(&self) -> String {
        let default_port = if self.is_tls { 443 } else { 80 };
        let is_v6 = self.host.contains(':');
        let host = if is_v6 { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == default_port { host } else { format!("{host}:{}", self.port) }
    }
}

/// Displays the URL without user names and queries, which may hold credentials.
impl fmt::Display for ExportEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

/// The port of OTLP over gRPC.
const GRPC_PORT: u16 = 4317;

/// The port of OTLP over HTTP.
const HTTP_PORT: u16 = 4318;

#[cfg(test)]
mod tests {
    use super::*;

    fn http(text: &str) -> Option<ExportEndpoint> {
        ExportEndpoint::parse(text, ExportProtocol::HttpProtobuf, false)
    }

    fn parts(endpoint: &ExportEndpoint) -> (bool, &str, u16, &str) {
        (endpoint.is_tls, &endpoint.host, endpoint.port, &endpoint.target)
    }

    #[test]
    fn a_url_has_a_scheme_a_host_and_perhaps_the_rest() {
        assert_eq!(parts(&http("http://c:4318").unwrap()), (false, "c", 4318, "/"));
        assert_eq!(
            parts(&http("HTTPS://c.example/a/b/?k=v#f").unwrap()),
            (true, "c.example", 443, "/a/b/?k=v")
        );
        assert_eq!(parts(&http("http://c:/x").unwrap()), (false, "c", 80, "/x"));
        assert_eq!(parts(&http("http://[::1]:9/x").unwrap()), (false, "::1", 9, "/x"));
        assert_eq!(parts(&http("http://u:p@c?k=v").unwrap()), (false, "c", 80, "/?k=v"));
        assert_eq!(parts(&http("http://80:81").unwrap()), (false, "80", 81, "/"));
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in [
            "c",
            "c:4318",
            "//c",
            "ftp://c",
            "http://",
            "http:///x",
            "http://:80",
            "http://c:x",
            "http://c:65536",
            "http://c:0",
            "http://a b",
            "http://[::1",
            "unix:///run/c.sock",
            "http",
        ] {
            assert_eq!(http(text), None, "{text}");
        }
    }

    #[test]
    fn grpc_needs_no_scheme() {
        let grpc = |text, is_insecure| ExportEndpoint::parse(text, ExportProtocol::Grpc, is_insecure);
        assert_eq!(parts(&grpc("c:1", true).unwrap()), (false, "c", 1, "/"));
        assert_eq!(parts(&grpc("c", false).unwrap()), (true, "c", 4317, "/"));
        assert_eq!(parts(&grpc("http://c", false).unwrap()), (false, "c", 80, "/"));
        assert_eq!(parts(&grpc("https://c:2", true).unwrap()), (true, "c", 2, "/"));
        assert_eq!(grpc("c:x", true), None);
    }

    #[test]
    fn the_path_of_the_signal_is_appended_once() {
        for (text, target) in [
            ("http://c", "/v1/traces"),
            ("http://c/", "/v1/traces"),
            ("http://c/my", "/my/v1/traces"),
            ("http://c/my/?key=1", "/my/v1/traces?key=1"),
        ] {
            assert_eq!(http(text).unwrap().for_signal(ExportSignal::Traces).target, target, "{text}");
        }
    }

    #[test]
    fn shown_values_have_no_credentials() {
        let shown = |text| http(text).unwrap().to_string();
        assert_eq!(shown("https://user:pass@c/a?token=1"), "https://c/a");
        assert_eq!(shown("http://[::1]:4318"), "http://[::1]:4318/");
        assert_eq!(ExportEndpoint::initial(ExportProtocol::Grpc).to_string(), "http://localhost:4317/");
    }
}
