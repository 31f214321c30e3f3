//! Whoever asks: what is found out about a request before anybody looks at what it asks for.
//!
//! Promises: a request is counted by the rate limiter once, and what it was told goes out with its response. Refuses: it
//! answers nothing.

use std::time::Instant;

use crate::http::trace_context::Trace;
use crate::http::{Fields, Head, InvalidField};
use crate::policy::Policy;
use crate::policy::client::Client;
use crate::policy::rate::{Quota, RateLimiter};

use super::endpoints::Endpoints;

/// Who makes a request, where it stands, and which trace it belongs to.
#[derive(Debug)]
pub(in crate::serve) struct ClientContext {
    /// Who it is, as far as trusted proxies tell.
    pub(in crate::serve) client: Client,
    /// Where the client stands with the rate limiter; `None` when there is none, or nobody knows who the client is.
    pub(in crate::serve) quota: Option<Quota>,
    /// The trace of the request, when there are traces.
    pub(in crate::serve) trace: Option<Trace>,
}

impl ClientContext {
    /// Finds out about a request that was read; `trace` is the one that it takes its place in.
    pub(in crate::serve) fn of(
        policy: &Policy,
        ends: &Endpoints,
        head: &Head,
        trace: Option<Trace>,
        now: Instant,
    ) -> Self {
        let client = policy.proxies.client(ends.peer, ends.is_tls, head);
        let quota = policy.limiter.as_ref().map(|limiter| limiter.take(client.addr.ip(), now));
        Self { client, quota, trace }
    }

    /// Finds out about a request that cannot be read. It counts all the same, unless it came by a proxy of ours: then
    /// nobody can tell whose it is.
    pub(in crate::serve) fn unread(policy: &Policy, ends: &Endpoints, now: Instant) -> Self {
        let client = Client::direct(ends.peer, ends.is_tls);
        let limiter = policy.limiter.as_ref().filter(|_| !policy.proxies.trusts(ends.peer.ip()));
        let quota = limiter.map(|limiter| limiter.take(ends.peer.ip(), now));
        Self { client, quota, trace: None }
    }

    /// The seconds after which the client may come back, if it has asked too often.
    pub(in crate::serve) fn must_wait(&self) -> Option<u64> {
        self.quota.filter(|quota| !quota.is_granted).map(|quota| quota.reset_seconds)
    }

    /// Adds to a response what its client is told about itself.
    pub(in crate::serve) fn tell(&self, limiter: Option<&RateLimiter>, fields: &mut Fields) {
        let sound = |taken: Result<(), InvalidField>| {
            debug_assert!(taken.is_ok(), "the server's own fields are valid");
        };
        if let (Some(quota), Some(limiter)) = (self.quota, limiter) {
            // Beside a script's own, if it has limits too: both fields are lists.
            sound(fields.push(b"RateLimit-Policy", limiter.policy_field().as_bytes()));
            sound(fields.push(b"RateLimit", quota.field().as_bytes()));
        }
        if let Some(trace) = &self.trace {
            sound(fields.set(b"traceparent", trace.traceparent().as_bytes()));
            if let Some(state) = trace.tracestate() {
                sound(fields.set(b"tracestate", state));
            }
        }
    }
}
