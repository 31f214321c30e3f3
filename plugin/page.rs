//! A request for a page, and its answer.

use crate::abi::{svc_page_request, svc_text};

/// What was asked below `/plugins/<name>/`, as the client wrote it: nothing is decoded.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// The path below the plugin's own.
    pub path: &'a [u8],
    /// What follows the question mark; empty if there is none.
    pub query: &'a [u8],
}

impl PageRequest<'_> {
    /// # Safety
    ///
    /// `request` was passed by svc, and is valid for as long as the result is used.
    pub(crate) unsafe fn of(request: *const svc_page_request) -> Self {
        // SAFETY: the caller's.
        let svc_page_request { path, query, .. } = unsafe { *request };
        // SAFETY: the texts are valid as long as the struct is.
        let bytes = |text: svc_text| unsafe { text.bytes() };
        Self { path: bytes(path), query: bytes(query) }
    }
}

/// A page. Its body may have 8 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) body: Vec<u8>,
}

impl Page {
    /// A page with a status from 200 to 599 and a content type.
    pub fn new(status: u16, content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind: content_type.into(), body: body.into() }
    }

    /// A page of HTML in UTF-8.
    pub fn html(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/html; charset=utf-8", body)
    }

    /// Plain text in UTF-8.
    pub fn text(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/plain; charset=utf-8", body)
    }

    /// JSON.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "application/json", body)
    }

    /// There is no such page.
    pub fn not_found() -> Self {
        Self::new(404, "text/plain; charset=utf-8", "not found\n")
    }
}
