//! A client for tests that are the same with each version of HTTP.

use std::net::SocketAddr;

use crate::client::{Client, Response};
use crate::http2::{Http2Client, head};

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    Http1,
    Http2,
}

/// All versions.
pub const HTTP_VERSIONS: [HttpVersion; 2] = [HttpVersion::Http1, HttpVersion::Http2];

/// One connection, without TLS.
#[derive(Debug)]
pub enum AnyClient {
    Http1(Client),
    Http2(Http2Client),
}

impl AnyClient {
    /// Connects to `addr`.
    pub fn connect(addr: SocketAddr, version: HttpVersion) -> Self {
        match version {
            HttpVersion::Http1 => Self::Http1(Client::connect(addr)),
            HttpVersion::Http2 => Self::Http2(Http2Client::connect(addr)),
        }
    }

    /// Sends a GET request for `path` and reads the response.
    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    /// Sends a request, of any method but HEAD, and reads the response.
    pub fn request(&mut self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Response {
        match self {
            Self::Http1(client) => {
                let mut lines: String =
                    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                if !body.is_empty() {
                    lines += &format!("Content-Length: {}\r\n", body.len());
                }
                client.send(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{lines}\r\n"));
                client.send(body);
                client.response()
            }
            Self::Http2(client) => {
                let id = client.open(&[&head(method, path)[..], fields].concat(), body.is_empty());
                if !body.is_empty() {
                    client.upload(id, body);
                }
                client.response(id)
            }
        }
    }
}
