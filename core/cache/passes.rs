//! The keys whose last response was not stored: requests for them do not wait for one another.
//!
//! Each key is remembered for a fixed time, so that the oldest one is always the first to be forgotten. Only a hash of
//! the key is kept; if two keys share one, requests for the other run side by side for a while.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::time::Instant;

use super::key::CacheKey;
use crate::limits::{CACHE_PASS_TIME, CACHE_PASSES_MAX};

/// Keys, and until when they are remembered.
#[derive(Debug, Default)]
pub(super) struct Passes {
    hasher: RandomState,
    until: HashMap<u64, Instant>,
    /// In the order in which they expire. A key that was added again has an older place, too.
    order: VecDeque<(u64, Instant)>,
}

impl Passes {
    /// Returns whether a key is remembered.
    pub(super) fn has(&self, key: &CacheKey, now: Instant) -> bool {
        !self.until.is_empty() && self.until.get(&self.hasher.hash_one(key)).is_some_and(|until| now < *until)
    }

    /// Remembers a key.
    pub(super) fn add(&mut self, key: &CacheKey, now: Instant) {
        let (hash, until) = (self.hasher.hash_one(key), now + CACHE_PASS_TIME);
        self.until.insert(hash, until);
        self.order.push_back((hash, until));
        while let Some(&(hash, until)) = self.order.front()
            && (until <= now || self.order.len() > CACHE_PASSES_MAX)
        {
            self.order.pop_front();
            if self.until.get(&hash) == Some(&until) {
                self.until.remove(&hash);
            }
        }
    }

    /// Forgets a key, whose response was stored.
    pub(super) fn forget(&mut self, key: &CacheKey) {
        if !self.until.is_empty() {
            self.until.remove(&self.hasher.hash_one(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::key::UrlParts;
    use super::super::patterns::NamePatterns;
    use super::*;
    use crate::time;

    fn key(number: usize) -> CacheKey {
        let url = format!("http://h/{number}");
        CacheKey::new(UrlParts::parse(url.as_bytes(), None).unwrap(), &NamePatterns::default())
    }

    #[test]
    fn a_key_is_remembered_for_its_time() {
        let (mut passes, now) = (Passes::default(), time::now());
        passes.add(&key(1), now);
        assert!(passes.has(&key(1), now) && !passes.has(&key(2), now));
        passes.add(&key(1), now + Duration::from_secs(5));
        assert!(passes.has(&key(1), now + Duration::from_secs(14)));
        assert!(!passes.has(&key(1), now + Duration::from_secs(15)));
        passes.add(&key(2), now + Duration::from_secs(20));
        assert_eq!((passes.until.len(), passes.order.len()), (1, 1));
        passes.forget(&key(2));
        assert!(!passes.has(&key(2), now + Duration::from_secs(20)));
    }

    #[test]
    fn a_flood_of_keys_is_bounded() {
        let (mut passes, now) = (Passes::default(), time::now());
        for number in 0..CACHE_PASSES_MAX + 100 {
            passes.add(&key(number), now);
        }
        assert!(passes.until.len() <= CACHE_PASSES_MAX && passes.order.len() == CACHE_PASSES_MAX);
        assert!(passes.has(&key(CACHE_PASSES_MAX + 99), now) && !passes.has(&key(0), now));
    }
}
