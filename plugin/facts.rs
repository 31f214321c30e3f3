//! A request of the main port that has ended.

use std::time::Duration;

use crate::abi::{svc_request_facts, svc_text};

/// A request of the main port that has ended.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// The method as the client wrote it; empty, like the path, if the request could not be read.
    pub method: &'a [u8],
    /// The path without the query; not decoded.
    pub path: &'a [u8],
    /// The protocol, such as `HTTP/1.1`.
    pub protocol: &'a [u8],
    /// The address of the client.
    pub client: &'a [u8],
    /// The request ID.
    pub request_id: &'a [u8],
    /// The trace ID; empty without a trace.
    pub trace_id: &'a [u8],
    /// The reason why the request was not admitted; empty if it was admitted.
    pub shed_reason: &'a [u8],
    /// The status; 499 if the client had left before the response.
    pub status: u16,
    /// The bytes of the response's body that were sent.
    pub response_bytes: u64,
    /// The time from the first byte of the request to the last byte of the response.
    pub duration: Duration,
    /// The time in the queue; `None` if no worker took the request.
    pub queue_wait: Option<Duration>,
}

impl RequestFacts<'_> {
    /// # Safety
    ///
    /// `facts` was passed by svc, and stays valid while the result is used.
    pub(crate) unsafe fn of(facts: *const svc_request_facts) -> Self {
        // SAFETY: guaranteed by the caller.
        let facts = unsafe { *facts };
        // SAFETY: the texts are valid as long as the struct is.
        let bytes = |text: svc_text| unsafe { text.bytes() };
        Self {
            method: bytes(facts.method),
            path: bytes(facts.path),
            protocol: bytes(facts.protocol),
            client: bytes(facts.client),
            request_id: bytes(facts.request_id),
            trace_id: bytes(facts.trace_id),
            shed_reason: bytes(facts.shed_reason),
            status: u16::try_from(facts.status).unwrap_or_default(),
            response_bytes: facts.response_bytes,
            duration: Duration::from_micros(facts.duration_us),
            queue_wait: (facts.queue_wait_us != u64::MAX).then(|| Duration::from_micros(facts.queue_wait_us)),
        }
    }
}
