//! Responses of a server for development: to browsers that wait for a change, documents, the failure of a boot.

use std::time::Duration;

use crate::disk::site::Ready;
use crate::io_thread::io::Io;
use svc_core::connection::{Decision, Response};
use svc_core::dev::{CHANGES_PATH, DevResponse, ShownRequest, is_document_request};
use svc_core::files::Content;
use svc_core::http::MethodKind;
use svc_core::pool::{Origin, ResponseHead};

use super::change_wait::ChangeWait;
use super::meta::RequestMeta;
use super::server_response::ServerResponse;

/// How long a browser waits before it asks again. Proxies end waits of a minute.
const WAIT: Duration = Duration::from_secs(25);

impl RequestMeta {
    /// Begins the wait of a browser, if the request is one. It waits once its body, which is empty, is read.
    pub(super) fn find_change_wait(&mut self, io: &Io, path: &[u8]) -> Option<Decision> {
        let development = io.shared.development.as_ref().filter(|_| path == CHANGES_PATH)?;
        let head = self.head()?;
        if head.method_kind() != MethodKind::Get {
            return Some(ServerResponse::not_allowed(b"GET").into_decision());
        }
        let query = head.path_and_query().1.unwrap_or_default();
        let seen = query.strip_prefix(b"since=").unwrap_or_default();
        self.change = Some(ChangeWait::new(development, self.key, seen));
        Some(Decision::ReadBody)
    }

    /// Makes a browser wait for a change, unless there was one.
    pub(super) fn await_change(&self, io: &Io) -> Option<Decision> {
        let wait = self.change.as_ref()?;
        if wait.begin(io.pool.notify()) {
            return Some(Decision::Await { until: Some(io.now + WAIT) });
        }
        Some(wait.answer())
    }

    /// Returns whether the request waits for a change.
    pub(crate) fn is_awaiting_change(&self) -> bool {
        self.change.is_some()
    }

    /// Answers a browser whose wait has ended.
    pub(crate) fn change_noted(&mut self) -> Option<Decision> {
        self.change.take().map(|wait| wait.answer())
    }

    /// Answers a request for a script with the reason why workers do not boot, if they do not. A worker that still runs
    /// code from before would hide it.
    pub(super) fn boot_failure(&self, io: &Io) -> Option<Decision> {
        let development = io.shared.development.as_ref()?;
        let failure = development.boot_failure()?;
        let request = self.head()?;
        let client = self.client_context.client.addr.ip();
        let shown = ShownRequest { head: request, client, status: 500 };
        let response = development.respond(&failure, shown, &development.changes.revision());
        let head =
            ResponseHead { status: 500, fields: response.fields, ..ResponseHead::bare(Origin::Server) };
        Some(Decision::Respond(Response::whole(head, response.body)))
    }

    /// Sends a file that a browser shows as a document, with the script that reloads it. The file is not cached by the
    /// browser: its validators do not cover the script.
    pub(super) fn send_document(&self, io: &Io, ready: &Ready) -> Option<Decision> {
        let development = io.shared.development.as_ref()?;
        let request = self.head()?;
        let plain = ready.asset.plain();
        let Content::Memory(bytes) = &plain.content else { return None };
        if !is_document_request(request) {
            return None;
        }
        let mut head = ResponseHead { fields: plain.fields.clone(), ..ResponseHead::bare(Origin::Server) };
        let mut body = bytes.to_vec();
        if DevResponse::new(development).append(request, &mut head, &mut body) == 0 {
            return None;
        }
        head.fields.remove(b"Accept-Ranges");
        head.fields.set_own(b"Cache-Control", b"no-store");
        head.content_length = Some(body.len() as u64);
        Some(Decision::Respond(Response::whole(head, body)))
    }
}
