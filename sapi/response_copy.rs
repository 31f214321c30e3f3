//! The copy of a response that the response cache stores.
//!
//! Made by the worker while it sends the response, before any content coding, and bounded: a longer body is sent, and
//! the copy given up. A response that is truncated, or whose length its script announced wrongly, is not stored.

use svc_core::http::Fields;
use svc_core::pool::{Exchange, RecordedResponse, RecordingEnd, ResponseHead};

/// The copy of one response.
#[derive(Debug)]
pub(crate) struct ResponseCopy {
    status: u16,
    reason: Option<Vec<u8>>,
    fields: Fields,
    announced: Option<u64>,
    body: Vec<u8>,
    bytes_max: usize,
    is_given_up: bool,
}

impl ResponseCopy {
    /// Begins the copy of a response with this head.
    pub(crate) fn new(head: &ResponseHead, bytes_max: usize) -> Self {
        Self {
            status: head.status,
            reason: head.reason.clone(),
            fields: head.fields.clone(),
            announced: head.content_length,
            body: Vec::new(),
            bytes_max,
            is_given_up: false,
        }
    }

    /// Adds bytes of the body.
    pub(crate) fn add(&mut self, exchange: &Exchange, bytes: &[u8]) {
        if self.is_given_up {
            return;
        }
        if self.body.len() + bytes.len() > self.bytes_max {
            self.is_given_up = true;
            self.body = Vec::new();
            Self::give_up(exchange, RecordingEnd::Unstorable);
            return;
        }
        self.body.extend_from_slice(bytes);
    }

    /// Hands over the copy, unless the response is incomplete. Returns whether the cache answers instead of the script, if
    /// nothing was sent.
    pub(crate) fn end(self, exchange: &Exchange, is_complete: bool) -> bool {
        if self.is_given_up {
            return false;
        }
        let is_as_announced = self.announced.is_none_or(|announced| announced == self.body.len() as u64);
        if !is_complete || !is_as_announced {
            Self::give_up(exchange, RecordingEnd::Failed);
            return false;
        }
        let Self { status, reason, fields, mut body, .. } = self;
        body.shrink_to_fit();
        let response = RecordedResponse { status, reason, fields, body };
        exchange
            .request
            .recorder
            .as_ref()
            .is_some_and(|recorder| recorder.complete(&exchange.request.head, response))
    }

    /// Reports to the cache that the response is not stored.
    pub(crate) fn give_up(exchange: &Exchange, end: RecordingEnd) {
        if let Some(recorder) = &exchange.request.recorder {
            recorder.give_up(end);
        }
    }
}
