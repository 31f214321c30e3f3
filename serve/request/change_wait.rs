//! A wait of a browser for a change of the code.

use svc_core::connection::{Decision, Response};
use svc_core::dev::Development;
use svc_core::http::Fields;
use svc_core::pool::{Notify, Origin, ResponseHead, StreamKey};
use svc_core::sync::primitive::Arc;

use super::server_response::ServerResponse;

/// A wait for a change. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct ChangeWait {
    development: Arc<Development>,
    stream: StreamKey,
    seen: Vec<u8>,
}

impl Drop for ChangeWait {
    fn drop(&mut self) {
        self.development.changes.leave(self.stream);
    }
}

impl ChangeWait {
    /// Creates the wait of a browser that has seen a revision.
    pub(super) fn new(development: &Arc<Development>, stream: StreamKey, seen: &[u8]) -> Box<Self> {
        Box::new(Self { development: Arc::clone(development), stream, seen: seen.to_vec() })
    }

    /// Begins it; returns false if there is nothing to wait for.
    pub(super) fn begin(&self, notify: Arc<dyn Notify>) -> bool {
        self.development.changes.wait(&self.seen, self.stream, notify)
    }

    /// Answers with the present revision, or without content if that is the one that the browser has seen.
    pub(super) fn answer(&self) -> Decision {
        let revision = self.development.changes.revision().into_bytes();
        let mut fields = Fields::new();
        fields.push_own(b"Cache-Control", b"no-store");
        if revision == self.seen {
            return ServerResponse::plain(204).with(&fields).into_decision();
        }
        fields.push_own(b"Content-Type", b"text/plain");
        let content_length = Some(revision.len() as u64);
        let head = ResponseHead { fields, content_length, ..ResponseHead::bare(Origin::Server) };
        Decision::Respond(Response::whole(head, revision))
    }
}
