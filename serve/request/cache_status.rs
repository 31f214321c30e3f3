//! `Cache-Status` (RFC 9211).

use std::fmt::Write;
use std::time::Instant;

use svc_core::cache::{StaleReason, StoredEntry};
use svc_core::sync::primitive::Arc;

/// The field of a response from the cache.
#[derive(Debug)]
pub(super) struct CacheStatus(String);

impl CacheStatus {
    /// A fresh response was used.
    pub(super) fn hit(entry: &StoredEntry, now: Instant) -> Self {
        let mut text = String::with_capacity(32);
        // Writing to a string cannot fail.
        let _ = write!(text, "svc; hit; ttl={}", entry.freshness().ttl_seconds(now));
        Self(text)
    }

    /// A stale response was used.
    pub(super) fn stale(entry: &StoredEntry, reason: StaleReason, now: Instant) -> Self {
        let mut status = Self::hit(entry, now);
        if reason != StaleReason::Revalidate {
            status.0.push_str("; detail=");
            status.0.push_str(reason.as_str());
        }
        status
    }

    /// The response to another request was used.
    pub(super) fn collapsed() -> Self {
        Self("svc; fwd=miss; collapsed".to_owned())
    }

    /// A stored response was used that the script has confirmed with this status.
    pub(super) fn revalidated(status: u16) -> Self {
        Self(format!("svc; fwd=stale; fwd-status={status}"))
    }

    /// The response of the script was stored, and is sent from there.
    pub(super) fn stored(forwarded: Forwarded) -> Self {
        Self(forwarded.field(true).unwrap_or_default().to_owned())
    }

    /// Returns its text.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Why the script of a request ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarded {
    /// It did not run.
    No,
    /// The request may not be answered from the cache.
    Bypass,
    /// Its method may not.
    Method,
    /// Nothing was stored for it.
    Miss,
    /// The stored response is stale.
    Stale,
}

impl Forwarded {
    /// Returns the reason if this response was found.
    pub(super) fn of(stale: Option<&Arc<StoredEntry>>) -> Self {
        if stale.is_some() { Self::Stale } else { Self::Miss }
    }

    /// Returns the field of the script's response.
    pub(super) fn field(self, is_stored: bool) -> Option<&'static str> {
        Some(match (self, is_stored) {
            (Self::No, _) => return None,
            (Self::Bypass, _) => "svc; fwd=bypass",
            (Self::Method, _) => "svc; fwd=method",
            (Self::Miss, false) => "svc; fwd=miss",
            (Self::Miss, true) => "svc; fwd=miss; stored",
            (Self::Stale, false) => "svc; fwd=stale",
            (Self::Stale, true) => "svc; fwd=stale; stored",
        })
    }
}
