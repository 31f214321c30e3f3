//! A request for a page, and its answer.

use crate::abi::{svc_page_request, svc_text};

/// A request below `/plugins/<name>/`, as the client wrote it: not decoded.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// The path below `/plugins/<name>/`.
    pub path: &'a [u8],
    /// The part after the question mark; empty if there is none.
    pub query: &'a [u8],
}

impl PageRequest<'_> {
    /// # Safety
    ///
    /// `request` was passed by svc, and stays valid while the result is used.
    pub(crate) unsafe fn of(request: *const svc_page_request) -> Self {
        // SAFETY: guaranteed by the caller.
        let svc_page_request { path, query, .. } = unsafe { *request };
        // SAFETY: the texts are valid as long as the struct is.
        let bytes = |text: svc_text| unsafe { text.bytes() };
        Self { path: bytes(path), query: bytes(query) }
    }
}

/// A page. Its body may have up to 8 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) body: Vec<u8>,
}

impl Page {
    /// Creates a page with a status from 200 to 599 and a content type.
    pub fn new(status: u16, content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind: content_type.into(), body: body.into() }
    }

    /// Creates an HTML page in UTF-8.
    pub fn html(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/html; charset=utf-8", body)
    }

    /// Creates a page of plain text in UTF-8.
    pub fn text(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/plain; charset=utf-8", body)
    }

    /// Creates a JSON page.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "application/json", body)
    }

    /// Creates a page with the status 404.
    pub fn not_found() -> Self {
        Self::new(404, "text/plain; charset=utf-8", "not found\n")
    }
}
