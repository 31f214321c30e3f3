//! One request's use of the response cache: the response that it receives, waits for or falls back to.

use std::time::Instant;

use svc_core::cache::{CacheOutcome, Fill, Follower, Following, ResponseCache, StaleReason, StoredEntry};
use svc_core::pool::ResponseRecorder;
use svc_core::sync::permits::Permit;
use svc_core::sync::primitive::Arc;

use super::cache_status::Forwarded;

/// One request's use of the cache.
#[derive(Debug)]
pub(crate) struct CacheUse {
    /// The outcome, for the access log and the metrics.
    pub(crate) outcome: CacheOutcome,
    /// Why a stale response answers it, if one does.
    pub(super) stale_reason: Option<StaleReason>,
    /// Why the script runs, for `Cache-Status`.
    pub(super) forwarded: Forwarded,
    /// Whether the response has its `Cache-Status`.
    pub(super) has_cache_status: bool,
    /// A stored response that may answer in place of a refusal.
    pub(super) stale: Option<Arc<StoredEntry>>,
    /// The response that it receives for the cache.
    pub(super) fill: Option<Arc<Fill>>,
    /// The request that it follows.
    pub(super) follows: Option<FollowedFill>,
}

/// A wait for the response to another request. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct FollowedFill {
    pub(super) cache: Arc<ResponseCache>,
    pub(super) following: Following,
    pub(super) follower: Arc<Follower>,
    /// When the request is refused.
    pub(super) until: Option<Instant>,
    /// Its place among all followers, held while it waits.
    pub(super) _place: Permit,
}

impl Drop for FollowedFill {
    fn drop(&mut self) {
        self.cache.leave(&self.following);
    }
}

impl CacheUse {
    /// Creates the state of a request that neither receives nor awaits a response.
    pub(super) fn new(outcome: CacheOutcome, forwarded: Forwarded) -> Box<Self> {
        Box::new(Self {
            outcome,
            stale_reason: None,
            forwarded,
            has_cache_status: false,
            stale: None,
            fill: None,
            follows: None,
        })
    }

    /// Returns the recorder of its script's response.
    pub(super) fn recorder(&self) -> Option<Arc<dyn ResponseRecorder>> {
        self.fill.as_ref().map(|fill| Arc::clone(fill) as Arc<dyn ResponseRecorder>)
    }

    /// Ends its fill, unless a worker has done so.
    pub(super) fn abandon_fill(&self) {
        if let Some(fill) = &self.fill {
            fill.abandon();
        }
    }
}
