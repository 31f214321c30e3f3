//! The client of a request: the facts determined before the server looks at the request itself.
//!
//! The rate limiter counts each request once, and its verdict is sent with the response. Requests are not answered
//! here.

use std::time::Instant;

use svc_core::http::{Fields, Head, Trace};
use svc_core::policy::Policy;
use svc_core::policy::client::Client;
use svc_core::policy::rate::{Quota, RateLimiter};

use crate::io_thread::new_connection::{Endpoints, ListenerKind};

/// The client of a request, its quota, and the trace that the request belongs to.
#[derive(Debug)]
pub(crate) struct ClientContext {
    /// The client, according to trusted proxies.
    pub(crate) client: Client,
    /// The client's quota; `None` without a rate limiter, or if the client is unknown.
    pub(crate) quota: Option<Quota>,
    /// The trace, if traces are enabled.
    pub(crate) trace: Option<Trace>,
}

impl ClientContext {
    /// Determines the client of a request whose head was read.
    pub(crate) fn of(
        policy: &Policy,
        endpoints: &Endpoints,
        head: &Head,
        trace: Option<Trace>,
        now: Instant,
    ) -> Self {
        let client = policy.proxies.client(endpoints.peer, endpoints.is_tls, head);
        // All clients of a proxy that does not name them would share one quota.
        let is_unnamed = endpoints.listener == ListenerKind::Unix && client.addr == endpoints.peer;
        let limiter = policy.limiter.as_ref().filter(|_| !is_unnamed);
        let quota = limiter.map(|limiter| limiter.take(client.addr.ip(), now));
        Self { client, quota, trace }
    }

    /// Determines the client of a request whose head cannot be read. The request still counts against the rate limit,
    /// unless it came through a trusted proxy: then its client is unknown.
    pub(crate) fn unread(policy: &Policy, endpoints: &Endpoints, trace: Option<Trace>, now: Instant) -> Self {
        let client = Client::direct(endpoints.peer, endpoints.is_tls);
        let is_known =
            endpoints.listener != ListenerKind::Unix && !policy.proxies.trusts(endpoints.peer.ip());
        let limiter = policy.limiter.as_ref().filter(|_| is_known);
        let quota = limiter.map(|limiter| limiter.take(endpoints.peer.ip(), now));
        Self { client, quota, trace }
    }

    /// Returns the number of seconds that the client must wait, if it has exceeded its quota.
    pub(crate) fn must_wait(&self) -> Option<u64> {
        self.quota.filter(|quota| !quota.is_granted).map(|quota| quota.reset_seconds)
    }

    /// Adds the fields about quota and trace to a response.
    pub(crate) fn add_fields(&self, limiter: Option<&RateLimiter>, fields: &mut Fields) {
        if let (Some(quota), Some(limiter)) = (self.quota, limiter) {
            // A script may add its own limits: both fields are lists.
            fields.push_own(b"RateLimit-Policy", limiter.policy_field().as_bytes());
            fields.push_own(b"RateLimit", quota.field().as_bytes());
        }
        if let Some(trace) = self.trace.as_ref().filter(|trace| !trace.is_private()) {
            fields.set_own(b"traceparent", trace.traceparent().as_bytes());
            if let Some(state) = trace.tracestate() {
                fields.set_own(b"tracestate", state.as_bytes());
            }
        }
    }
}
