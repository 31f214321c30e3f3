//! Responding: from the head of a response to the head of the response.
//!
//! The announced length and coding are those of the body that follows. The only content generated here is the page of
//! an error without a body; the protocol encodes the head.

use svc_core::connection::Announced;
use svc_core::http::Fields;
use svc_core::http::status::is_bodiless;
use svc_core::http::uri;
use svc_core::policy::error_pages::ERROR_PAGE_TYPE;
use svc_core::pool::{Origin, ResponseHead};
use svc_core::time;

use super::meta::RequestMeta;
use super::server_response::{PAGE_TYPE, page};
use crate::io_thread::io::Io;
use crate::io_thread::router::Router;

impl RequestMeta {
    /// Determines the status, the fields and the length of the response, whose head is sent now.
    pub(crate) fn announce(
        &mut self,
        io: &mut Io,
        mut head: ResponseHead,
        mut length: Option<u64>,
        head_only: bool,
    ) -> Announced {
        let status = if (200..=999).contains(&head.status) { head.status } else { 500 };
        self.outcome.note_head_sent(status, head.origin, &io.shared.metrics);
        let is_servers = !matches!(head.origin, Origin::Script | Origin::Server);
        let mut own_page = None;
        // A page about a failure is not replaced by one for visitors.
        let is_about_failure =
            io.shared.development.is_some() && is_servers && length.is_some_and(|length| length > 0);
        if let Some(page) = io
            .router
            .rules()
            .error_pages
            .page(status)
            .filter(|_| head.origin != Origin::Script && !is_about_failure)
        {
            own_page = Some((page.to_vec(), ERROR_PAGE_TYPE));
            // It described the body that the error page replaces.
            head.fields.remove(b"Content-Encoding");
        } else if is_servers && length == Some(0) && !is_bodiless(status) {
            own_page = Some((page(status), PAGE_TYPE));
        }
        let page = own_page.map(|(page, page_type)| {
            length = Some(page.len() as u64);
            head.fields.set_own(b"Content-Type", page_type);
            page
        });
        if head_only && length == Some(0) && head.content_length.is_none() {
            // The script omitted the body, so its length is unknown.
            length = None;
        }
        let resets_content = status == 205;
        if resets_content {
            length = Some(0);
        }
        // A request ID contains only bytes that are valid in a field.
        let _ = head.fields.set(b"X-Request-ID", self.request_id.as_bytes());
        self.client_context.add_fields(io.shared.policy.limiter.as_ref(), &mut head.fields);
        if !head.fields.contains(b"server") {
            let _ = head.fields.push(b"Server", b"svc");
        }
        self.add_operators_fields(io, &mut head.fields, head.origin);
        if let Some(cache) = &io.shared.cache {
            self.complete_cache_fields(cache, status, head.origin, &mut head.fields);
        }
        let has_body = !head_only && !is_bodiless(status) && !resets_content;
        if has_body && self.coding().is_some() && head.fields.contains(b"content-encoding") {
            self.is_coded = true;
            io.shared.metrics.responses_coded.incr();
        }
        if matches!(head.origin, Origin::Fatal | Origin::WorkerLost) {
            self.forget_route(&mut io.router);
        }
        let date = *io.date.at(time::wall());
        Announced { status, reason: head.reason, fields: head.fields, length, has_body, page, date }
    }

    /// Adds the fields that the operator has configured for this path, and for all connections over TLS. Fields set by
    /// the script take precedence.
    fn add_operators_fields(&self, io: &Io, fields: &mut Fields, origin: Origin) {
        let rules = &io.router.rules().headers;
        if rules.is_loaded()
            && let Some(path) = self.head().and_then(|head| uri::normalise(head.path_and_query().0).ok())
        {
            rules.apply(&path.path, fields, origin == Origin::Script);
        }
        if let Some(hsts) = &io.shared.config.tls.hsts
            && self.endpoints.is_tls
            && !fields.contains(b"strict-transport-security")
        {
            fields.push_own(b"Strict-Transport-Security", hsts.as_bytes());
        }
    }

    /// Makes the next request for the same path look for its script again: this one may have failed because its release
    /// was removed.
    fn forget_route(&self, router: &mut Router) {
        if let Some(head) = self.head()
            && let Ok(normalised) = uri::normalise(head.path_and_query().0)
        {
            router.forget(&normalised.path);
        }
    }
}
