//! A parsed request header: one buffer and positions in it.
//!
//! Returns the client's bytes in the client's order; names are compared case-insensitively. Decodes nothing (see
//! [`uri`](super::uri)). Only [`parse`](super::parse) creates one, so a `Head` is always valid.

use std::borrow::Cow;
use std::fmt;

use super::method::MethodKind;

/// The protocol version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Version {
    /// Returns the name in the form of CGI's `SERVER_PROTOCOL`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

/// A parsed request header that owns its bytes.
#[derive(Clone)]
pub struct Head {
    bytes: Box<[u8]>,
    fields: Box<[FieldSpan]>,
    method: HeadSpan,
    target: HeadSpan,
    form: TargetForm,
    version: Version,
    kind: MethodKind,
}

/// A position in the bytes of the request header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeadSpan {
    start: u32,
    end: u32,
}

/// The positions of the name and the value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldSpan {
    pub(super) name: HeadSpan,
    pub(super) value: HeadSpan,
}

/// The four forms of a request target, as positions in the request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetForm {
    /// `/path?query`; the absolute form adds its authority.
    Path { authority: Option<HeadSpan>, path: HeadSpan, query: Option<HeadSpan> },
    /// `host:port`, for `CONNECT` only.
    Authority,
    /// `*`, for `OPTIONS` only.
    Asterisk,
}

impl Head {
    /// Combines the results of the parser; the spans lie inside `bytes`.
    pub(super) fn new(
        bytes: &[u8],
        fields: Vec<FieldSpan>,
        (method, target, form): (HeadSpan, HeadSpan, TargetForm),
        version: Version,
    ) -> Self {
        let kind = MethodKind::of(method.of(bytes));
        Self { bytes: bytes.into(), fields: fields.into_boxed_slice(), method, target, form, version, kind }
    }

    /// Returns the same request header with another protocol version.
    pub(super) fn with_version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// Returns a copy without the fields that `is_dropped` names, and with the fields `added`, whose bytes are valid.
    pub fn revised(&self, is_dropped: impl Fn(&[u8]) -> bool, added: &[(&str, &[u8])]) -> Self {
        let mut bytes = self.bytes.to_vec();
        let mut fields: Vec<FieldSpan> =
            self.fields.iter().filter(|field| !is_dropped(field.name.of(&self.bytes))).copied().collect();
        let mut append = |text: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(text);
            HeadSpan::new(start, start + text.len())
        };
        for (name, value) in added {
            fields.push(FieldSpan { name: append(name.as_bytes()), value: append(value) });
        }
        Self { bytes: bytes.into_boxed_slice(), fields: fields.into_boxed_slice(), ..self.clone() }
    }

    /// Returns the method as written in the request line.
    pub fn method(&self) -> &str {
        match self.kind {
            MethodKind::Other => std::str::from_utf8(self.method.of(&self.bytes)).unwrap_or_default(),
            known => known.as_str(),
        }
    }

    /// Returns the kind of the method.
    pub const fn method_kind(&self) -> MethodKind {
        self.kind
    }

    /// Returns the request target as written in the request line.
    pub fn target(&self) -> &[u8] {
        self.target.of(&self.bytes)
    }

    /// Returns the protocol version.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Iterates over the fields in order, as name and value.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// Returns its approximate size in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.fields.len() * size_of::<FieldSpan>()
    }

    /// Returns the value of the first field of this name (case-insensitive).
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers()
            .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Iterates over the values of all fields of this name (case-insensitive).
    pub fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers()
            .filter(move |(candidate, _)| candidate.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Returns the raw path and the raw query (without its question mark).
    ///
    /// An absolute target without a path has the path `/`. `OPTIONS *` has the path `*`, and `CONNECT` has its target
    /// as the path: neither starts with a slash, so neither can be normalized.
    pub fn path_and_query(&self) -> (&[u8], Option<&[u8]>) {
        match self.form {
            TargetForm::Path { path, query, .. } => {
                let path = path.of(&self.bytes);
                (if path.is_empty() { b"/" } else { path }, query.map(|query| query.of(&self.bytes)))
            }
            TargetForm::Authority | TargetForm::Asterisk => (self.target(), None),
        }
    }

    /// Returns the raw path and query together, without scheme and authority, as in CGI's `REQUEST_URI`.
    pub fn request_uri(&self) -> Cow<'_, [u8]> {
        let TargetForm::Path { path, query, .. } = self.form else {
            return Cow::Borrowed(self.target());
        };
        match (path.is_empty(), query) {
            (true, None) => Cow::Borrowed(b"/"),
            (true, Some(query)) => Cow::Owned([b"/?", query.of(&self.bytes)].concat()),
            (false, _) => Cow::Borrowed(&self.bytes[path.start as usize..self.target.end as usize]),
        }
    }

    /// Returns the requested host, with its port if it has one. The authority of the target takes precedence over
    /// `Host`.
    pub fn host(&self) -> Option<&[u8]> {
        match self.form {
            TargetForm::Path { authority: Some(authority), .. } => Some(authority.of(&self.bytes)),
            TargetForm::Authority => Some(self.target()),
            TargetForm::Path { authority: None, .. } | TargetForm::Asterisk => self.header("host"),
        }
    }
}

/// Returns whether a field name maps to a CGI variable that no other name maps to.
///
/// `X_Forwarded_For` and `X-Forwarded-For` would both become `HTTP_X_FORWARDED_FOR`, and some readers turn a dot into
/// an underscore too. Callers that pass fields to scripts drop names for which this is false. `Proxy` is among them,
/// because `HTTP_PROXY` affects the HTTP clients inside scripts.
pub fn is_cgi_safe_name(name: &[u8]) -> bool {
    name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !name.eq_ignore_ascii_case(b"proxy")
}

impl fmt::Debug for Head {
    /// Shows the request line and the field names, but no values: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        f.debug_struct("Head")
            .field("method", &self.method())
            .field("target", &String::from_utf8_lossy(self.target()))
            .field("version", &self.version)
            .field("fields", &names)
            .finish_non_exhaustive()
    }
}

impl HeadSpan {
    /// Creates a span. Request headers are far shorter than 4 GiB; larger positions saturate and are caught by `of`.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: narrow(start), end: narrow(end) }
    }

    /// Returns the bytes of the span; empty if it is outside `bytes`.
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Creates a span inside this one, relative to its start.
    pub(super) fn within(self, start: usize, end: usize) -> Self {
        Self::new(self.start as usize + start, self.start as usize + end)
    }

    fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    fn head(text: &str) -> Head {
        match parse(text.as_bytes(), HeadLimits::main_port()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn an_origin_target_splits_at_the_first_question_mark() {
        let head = head("GET /a%20b?c?d HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(head.method(), "GET");
        assert_eq!(head.target(), b"/a%20b?c?d");
        assert_eq!(head.path_and_query(), (&b"/a%20b"[..], Some(&b"c?d"[..])));
        assert_eq!(head.request_uri().as_ref(), b"/a%20b?c?d");
        assert_eq!(head.version(), Version::Http11);
    }

    #[test]
    fn an_empty_query_is_not_a_missing_one() {
        assert_eq!(head("GET /? HTTP/1.0\r\n\r\n").path_and_query(), (&b"/"[..], Some(&b""[..])));
        assert_eq!(head("GET / HTTP/1.0\r\n\r\n").path_and_query(), (&b"/"[..], None));
    }

    #[test]
    fn the_authority_of_an_absolute_target_wins_over_host() {
        let request = head("GET HTTP://real:81/x?y HTTP/1.1\r\nHost: other\r\n\r\n");
        assert_eq!(request.host(), Some(&b"real:81"[..]));
        assert_eq!(request.path_and_query(), (&b"/x"[..], Some(&b"y"[..])));
        assert_eq!(request.request_uri().as_ref(), b"/x?y");
        let bare = head("GET https://real HTTP/1.1\r\nHost: real\r\n\r\n");
        assert_eq!(bare.path_and_query(), (&b"/"[..], None));
        assert_eq!(bare.request_uri().as_ref(), b"/");
        let query = head("GET http://real?q HTTP/1.1\r\nHost: real\r\n\r\n");
        assert_eq!(query.path_and_query(), (&b"/"[..], Some(&b"q"[..])));
        assert_eq!(query.request_uri().as_ref(), b"/?q");
    }

    #[test]
    fn asterisk_and_authority_targets_have_no_real_path() {
        let options = head("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((options.path_and_query(), options.host()), ((&b"*"[..], None), Some(&b"h"[..])));
        let connect = head("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n");
        assert_eq!((connect.path_and_query(), connect.host()), ((&b"h:443"[..], None), Some(&b"h:443"[..])));
    }

    #[test]
    fn fields_keep_order_and_letter_case() {
        let head = head("GET / HTTP/1.1\r\nHost: h\r\nCookie: a\r\nX_y:  b \r\ncookie: c\r\n\r\n");
        let all: Vec<_> = head.headers().collect();
        assert_eq!(all[2], (&b"X_y"[..], &b"b"[..]));
        assert_eq!(all.len(), 4);
        assert_eq!(head.header("COOKIE"), Some(&b"a"[..]));
        assert_eq!(head.header_values("cookie").collect::<Vec<_>>(), [&b"a"[..], b"c"]);
        assert_eq!(head.header("x-y"), None);
    }

    #[test]
    fn unusual_methods_keep_their_name() {
        let head = head("PROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((head.method(), head.method_kind()), ("PROPFIND", MethodKind::Other));
    }

    #[test]
    fn a_revised_head_lacks_some_fields_and_has_others() {
        let head = head("GET /a?b HTTP/1.1\r\nHost: h\r\nIf-Match: 1\r\nX: y\r\nif-match: 2\r\n\r\n");
        let revised =
            head.revised(|name| name.eq_ignore_ascii_case(b"if-match"), &[("If-None-Match", b"\"e\"")]);
        let fields: Vec<_> = revised.headers().collect();
        let expected = [(&b"Host"[..], &b"h"[..]), (b"X", b"y"), (b"If-None-Match", b"\"e\"")];
        assert_eq!(fields, expected);
        assert_eq!((revised.target(), revised.host()), (head.target(), head.host()));
        assert_eq!(head.headers().len(), 4);
    }

    #[test]
    fn debug_output_shows_no_value() {
        let text = format!("{:?}", head("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: hunter2\r\n\r\n"));
        assert!(text.contains("Authorization") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn names_that_collide_as_variables_are_not_safe() {
        assert!(is_cgi_safe_name(b"X-Forwarded-For"));
        assert!(
            [&b"X_Forwarded_For"[..], b"a.b", b"a!", b"Proxy"].iter().all(|name| !is_cgi_safe_name(name))
        );
    }
}
