//! The description of a request for PHP.

use crate::bindings::shim_request;
use crate::view::view;

/// The description of a request for PHP. All paths and texts are raw bytes.
#[derive(Debug)]
pub struct PhpRequest<'a> {
    /// The caller's number for it, unique among the requests of its thread; 0 if its response is not awaited.
    pub number: u64,
    /// The method, as received.
    pub method: &'a [u8],
    /// The script's name and the rest of the path, decoded, without the query.
    pub uri: &'a [u8],
    /// The query without its question mark; empty if there is none.
    pub query: &'a [u8],
    /// The `Content-Type` field.
    pub content_type: Option<&'a [u8]>,
    /// All `Cookie` fields, joined with `; `.
    pub cookies: Option<&'a [u8]>,
    /// The `Authorization` field; empty if there is none.
    pub authorization: &'a [u8],
    /// The script's absolute path, as in `SCRIPT_FILENAME`.
    pub script: &'a [u8],
    /// The file that runs: that path with links resolved.
    pub script_file: &'a [u8],
    /// The real path of the directory of `script`, its working directory; empty if the path contains no links.
    pub folder: &'a [u8],
    /// The length of the body in bytes.
    pub content_length: u64,
    /// 1000 for HTTP/1.0, 1001 for HTTP/1.1, 2000 for HTTP/2.
    pub protocol: i32,
    /// Unix time of the request's arrival, in seconds.
    pub time: f64,
}

impl PhpRequest<'_> {
    /// Returns the description for C; its views are valid as long as `self`.
    pub(crate) fn raw(&self) -> shim_request {
        shim_request {
            number: self.number,
            method: view(self.method),
            uri: view(self.uri),
            query: view(self.query),
            content_type: view(self.content_type.unwrap_or_default()),
            has_content_type: self.content_type.is_some(),
            cookies: view(self.cookies.unwrap_or_default()),
            has_cookies: self.cookies.is_some(),
            authorization: view(self.authorization),
            script: view(self.script),
            script_file: view(self.script_file),
            folder: view(self.folder),
            content_length: i64::try_from(self.content_length).unwrap_or(i64::MAX),
            protocol: self.protocol,
            time: self.time,
        }
    }
}
