//! Responses that the server generates: errors, redirects, refusals.
//!
//! They are short plain text and the same for all clients. They contain nothing from the request, so nothing needs
//! escaping.

use svc_core::connection::{Decision, Response};
use svc_core::http::{Fields, status};
use svc_core::pool::{Origin, ResponseHead};

/// The methods that the main port accepts.
pub(crate) const METHODS: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, QUERY";

/// The page of the executor without PHP.
const STUB_PAGE: &str = "<!doctype html>\n<title>svc</title>\n<p>svc is running without PHP.</p>\n";

/// A complete response.
#[derive(Debug)]
pub(crate) struct ServerResponse {
    /// The status code.
    pub(crate) status: u16,
    fields: Fields,
    body: Vec<u8>,
}

impl ServerResponse {
    /// Makes the plain response for `status`.
    pub(crate) fn plain(status: u16) -> Self {
        let mut response = Self { status, fields: Fields::new(), body: page(status) };
        if !response.body.is_empty() {
            response.fields.push_own(b"Content-Type", PAGE_TYPE);
        }
        if matches!(status, 503 | 529) {
            response.fields.push_own(b"Retry-After", b"1");
        }
        response
    }

    /// Adds fields to the response.
    pub(crate) fn with(mut self, fields: &Fields) -> Self {
        for (name, value) in fields {
            // They were valid fields before.
            let _ = self.fields.push(name, value);
        }
        self
    }

    /// Makes the response to a client that has exceeded its quota, with the number of seconds it must wait.
    pub(crate) fn too_many(wait_seconds: u64) -> Self {
        let mut response = Self::plain(429);
        response.fields.push_own(b"Retry-After", itoa::Buffer::new().format(wait_seconds).as_bytes());
        response
    }

    /// Makes the response to plain HTTP on a port that requires HTTPS.
    pub(crate) fn tls_expected() -> Self {
        let mut response = Self::plain(400);
        response.body.extend_from_slice(b"This port requires HTTPS.\n");
        response
    }

    /// Makes the response to a method that the resource does not support.
    pub(crate) fn not_allowed(methods: &[u8]) -> Self {
        let mut response = Self::plain(405);
        response.fields.push_own(b"Allow", methods);
        response
    }

    /// Makes the response to `OPTIONS` for the server as a whole, or for a static file.
    pub(crate) fn options(methods: &[u8]) -> Self {
        let mut response = Self::plain(204);
        response.fields.push_own(b"Allow", methods);
        response
    }

    /// Makes a permanent redirect to `location`.
    pub(crate) fn moved(location: &[u8]) -> Self {
        let mut response = Self::plain(301);
        response.fields.push_own(b"Location", location);
        response
    }

    /// Makes a permanent redirect to `location` that keeps the method.
    pub(crate) fn to_https(location: &[u8]) -> Self {
        let mut response = Self::plain(308);
        response.fields.push_own(b"Location", location);
        response
    }

    /// Makes the page of the executor without PHP.
    pub(crate) fn stub() -> Self {
        let mut response = Self { status: 200, fields: Fields::new(), body: STUB_PAGE.into() };
        response.fields.push_own(b"Content-Type", b"text/html; charset=utf-8");
        response
    }

    /// Answers a request with it.
    pub(crate) fn into_decision(self) -> Decision {
        Decision::Respond(self.into_response())
    }

    /// Refuses a request with it: the connection ends with this response.
    pub(crate) fn into_refusal(self) -> Decision {
        Decision::Refuse(self.into_response())
    }

    /// Converts it to a response.
    fn into_response(self) -> Response {
        let content_length = (!status::is_bodiless(self.status)).then_some(self.body.len() as u64);
        let head = ResponseHead {
            status: self.status,
            fields: self.fields,
            content_length,
            ..ResponseHead::bare(Origin::Server)
        };
        Response::whole(head, self.body)
    }
}

/// Refuses a request with the plain response for `status`: the connection ends with this response.
pub(crate) fn refusal(status: u16) -> Decision {
    ServerResponse::plain(status).into_refusal()
}

/// The type of [`page`].
pub(crate) const PAGE_TYPE: &[u8] = b"text/plain; charset=utf-8";

/// Returns the body of an error or a redirect.
pub(crate) fn page(code: u16) -> Vec<u8> {
    if code == 529 {
        return OVERLOADED.into();
    }
    if code < 300 || status::is_bodiless(code) {
        return Vec::new();
    }
    let mut page = Vec::with_capacity(40);
    page.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    page.push(b' ');
    page.extend_from_slice(status::reason(code).as_bytes());
    page.push(b'\n');
    page
}

/// The body of a refusal on overload.
const OVERLOADED: &str = "Site is overloaded";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_on_overload_has_its_status_and_retry_after() {
        let response = ServerResponse::plain(529);
        assert_eq!(response.body, b"Site is overloaded");
        assert_eq!(status::reason(529), "Site is overloaded");
        assert_eq!(response.fields.get(b"retry-after"), Some(&b"1"[..]));
    }

    #[test]
    fn a_page_names_its_status() {
        assert_eq!(page(404), b"404 Not Found\n");
        assert_eq!(page(304), b"");
        assert_eq!(page(204), b"");
    }
}
