//! Changes to the response of a script during development.
//!
//! | the script | nothing was sent | a part was sent |
//! |---|---|---|
//! | has failed | the page or JSON replaces all of it | the page is appended to HTML, and the body stays incomplete |
//! | has ended | a page gets the script | a page gets the script |
//!
//! The page replaces also a page that the application has written about its own fatal error in a shutdown function: such
//! pages are made for visitors. An application that catches its exceptions has not failed here, and keeps its response.

use super::document::{begins_document, is_document_request, is_html, is_navigation, script};
use super::failure::Failure;
use super::failure_report::FailureReport;
use super::{Development, ShownRequest, csp, document, page};
use crate::http::{Fields, Head, MethodKind};
use crate::pool::{CompleteRequest, Origin, ResponseHead};
use crate::sync::primitive::Arc;

/// Development's part in one response.
#[derive(Debug)]
pub struct DevResponse {
    development: Arc<Development>,
    /// The revision at the beginning of the script, which may have run code from before a later change.
    revision: String,
    failure: Option<Failure>,
    /// Whether the body that is being sent is a document, to which the script is appended.
    is_document: bool,
    /// The status of the response that is being sent, if a failure can be shown at the end of its body.
    open_status: Option<u16>,
}

impl DevResponse {
    /// Begins the response to a request whose script begins.
    pub fn new(development: &Arc<Development>) -> Box<Self> {
        Box::new(Self {
            development: Arc::clone(development),
            revision: development.changes.revision(),
            failure: None,
            is_document: false,
            open_status: None,
        })
    }

    /// Notes a failure of the script. The first one counts: later ones are those of shutdown functions and destructors.
    pub fn fail(&mut self, failure: impl FnOnce() -> Failure) {
        self.failure.get_or_insert_with(failure);
    }

    /// Returns whether a page about a failure is due, so that further output has no use.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Replaces a response of which nothing was sent by the page about the failure, if there is one. The fields about
    /// other origins stay, so that programs of other origins can read it.
    pub fn replace(&mut self, request: &CompleteRequest, head: &mut ResponseHead, body: &mut Vec<u8>) {
        let Some(failure) = self.failure.take() else { return };
        head.status = if head.origin == Origin::TimeLimit { 504 } else { 500 };
        head.reason = None;
        let shown = ShownRequest { head: &request.head, client: request.client.ip(), status: head.status };
        let response = self.development.respond(&FailureReport::read(failure), shown, &self.revision);
        let mut fields = Fields::new();
        for (name, value) in head.fields.iter().filter(|(name, _)| is_about_origins(name)) {
            // They were valid before.
            let _ = fields.push(name, value);
        }
        for (name, value) in &response.fields {
            let _ = fields.push(name, value);
        }
        head.fields = fields;
        head.content_length = None;
        *body = response.body;
    }

    /// Appends the script to a whole response, if that is a page. Returns the number of bytes added.
    pub fn complete(&self, request: &Head, head: &mut ResponseHead, body: &mut Vec<u8>) -> u64 {
        if !takes_script(request, head) || head.file.is_some() {
            return 0;
        }
        if request.method_kind() == MethodKind::Head {
            // Whether the body would be a page is unknown, and so is its length.
            (head.content_length, head.is_streamed) = (None, true);
            forget_validators(&mut head.fields);
            return 0;
        }
        self.append(request, head, body)
    }

    /// Appends the script to a body that is known, if a browser shows it as a page. Returns the number of bytes added.
    pub fn append(&self, request: &Head, head: &mut ResponseHead, body: &mut Vec<u8>) -> u64 {
        let announced = head.content_length.is_none_or(|length| length == body.len() as u64);
        if !takes_script(request, head) || !announced || !is_page(request, body) {
            return 0;
        }
        forget_validators(&mut head.fields);
        let script = script(&self.revision);
        body.extend_from_slice(script.as_bytes());
        csp::permit(&mut head.fields, document::SCRIPT_HASH);
        if let Some(length) = &mut head.content_length {
            *length += script.len() as u64;
        }
        script.len() as u64
    }

    /// Looks at a response whose head is about to be sent with the beginning of its body.
    pub fn begin(&mut self, request: &Head, head: &mut ResponseHead, first: &[u8]) {
        let can_append = head.content_length.is_none() && request.method_kind() != MethodKind::Head;
        self.open_status = Some(head.status).filter(|status| can_append && is_html(*status, &head.fields));
        let is_candidate = takes_script(request, head);
        self.is_document = can_append && is_candidate && is_page(request, first);
        if self.is_document || (is_candidate && request.method_kind() == MethodKind::Head) {
            forget_validators(&mut head.fields);
        }
        if self.is_document {
            csp::permit(&mut head.fields, document::SCRIPT_HASH);
        }
    }

    /// Returns what to append to a body that ends: the script, or the page about the failure.
    pub fn end(&mut self, request: &CompleteRequest, is_complete: bool) -> Vec<u8> {
        match (self.failure.take(), self.open_status) {
            (Some(failure), Some(status)) if !is_complete => {
                let shown = ShownRequest { head: &request.head, client: request.client.ip(), status };
                page::overlay(&self.development, &FailureReport::read(failure), shown).into_bytes()
            }
            (None, _) if self.is_document && is_complete => script(&self.revision).into_bytes(),
            _ => Vec::new(),
        }
    }
}

/// Returns whether a browser shows the response as a page that it can request again.
fn takes_script(request: &Head, head: &ResponseHead) -> bool {
    matches!(request.method_kind(), MethodKind::Get | MethodKind::Head)
        && is_document_request(request)
        && is_html(head.status, &head.fields)
}

/// Returns whether a browser shows this body as a page.
fn is_page(request: &Head, body: &[u8]) -> bool {
    is_navigation(request) || begins_document(body)
}

/// Removes the fields by which a browser would keep the page, with the revision in it, after the code has changed.
fn forget_validators(fields: &mut Fields) {
    fields.remove(b"ETag");
    fields.remove(b"Last-Modified");
}

fn is_about_origins(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"access-control-";
    name.eq_ignore_ascii_case(b"vary")
        || name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}
