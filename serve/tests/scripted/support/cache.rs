//! A cache that persistent workers share and that can be renewed only while it is unused.

use svc_core::pool::OpcacheFacts;
use svc_core::sync::lock::ShortLock;

/// The cache; it does not exist before its first use.
#[derive(Debug, Default)]
pub(crate) struct Cache(ShortLock<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    exists: bool,
    facts: OpcacheFacts,
    renewals: u64,
}

impl Cache {
    /// Marks it as stale.
    pub(crate) fn spoil(&self) {
        let mut state = self.0.lock();
        (state.exists, state.facts.is_stale) = (true, true);
    }

    /// Boots a worker; returns whether it uses the cache.
    pub(crate) fn enter(&self) -> bool {
        let CacheState { facts, renewals, .. } = &mut *self.0.lock();
        if facts.is_stale && facts.users == 0 {
            facts.is_stale = false;
            *renewals += 1;
        }
        facts.users += usize::from(!facts.is_stale);
        !facts.is_stale
    }

    /// Ends a worker that uses it.
    pub(crate) fn leave(&self) {
        self.0.lock().facts.users -= 1;
    }

    pub(crate) fn facts(&self) -> Option<OpcacheFacts> {
        let state = self.0.lock();
        state.exists.then_some(state.facts)
    }

    /// Returns the number of renewals.
    pub(crate) fn renewals(&self) -> u64 {
        self.0.lock().renewals
    }
}
