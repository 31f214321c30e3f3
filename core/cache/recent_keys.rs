//! Keys that are remembered for a while, because of how the last request for them ended.
//!
//! Each key is remembered for a fixed time, so that the oldest one is always the first to be forgotten. Only a hash of
//! the key is kept: if two keys share one, the other is treated alike for a while, which is less efficient and not wrong.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

/// Keys, and until when they are remembered.
#[derive(Debug)]
pub(super) struct RecentKeys {
    time: Duration,
    keys_max: usize,
    hasher: RandomState,
    until: HashMap<u64, Instant>,
    /// In the order in which they expire. A key that was added again has an older place, too.
    order: VecDeque<(u64, Instant)>,
}

impl RecentKeys {
    /// Remembers keys for this time, and at most this number of them.
    pub(super) fn new(time: Duration, keys_max: usize) -> Self {
        Self { time, keys_max, hasher: RandomState::new(), until: HashMap::new(), order: VecDeque::new() }
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.time, self.keys_max);
    }

    /// Returns whether a key is remembered.
    pub(super) fn has(&self, key: &impl Hash, now: Instant) -> bool {
        !self.until.is_empty() && self.until.get(&self.hasher.hash_one(key)).is_some_and(|until| now < *until)
    }

    /// Remembers a key.
    pub(super) fn add(&mut self, key: &impl Hash, now: Instant) {
        let (hash, until) = (self.hasher.hash_one(key), now + self.time);
        self.until.insert(hash, until);
        self.order.push_back((hash, until));
        while let Some(&(hash, until)) = self.order.front()
            && (until <= now || self.order.len() > self.keys_max)
        {
            self.order.pop_front();
            if self.until.get(&hash) == Some(&until) {
                self.until.remove(&hash);
            }
        }
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, key: &impl Hash) {
        if !self.until.is_empty() {
            self.until.remove(&self.hasher.hash_one(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    const TIME: Duration = Duration::from_secs(10);

    #[test]
    fn a_key_is_remembered_for_its_time() {
        let (mut keys, now) = (RecentKeys::new(TIME, 100), time::now());
        keys.add(&1, now);
        assert!(keys.has(&1, now) && !keys.has(&2, now));
        keys.add(&1, now + Duration::from_secs(5));
        assert!(keys.has(&1, now + Duration::from_secs(14)));
        assert!(!keys.has(&1, now + Duration::from_secs(15)));
        keys.add(&2, now + Duration::from_secs(20));
        assert_eq!((keys.until.len(), keys.order.len()), (1, 1));
        keys.forget(&2);
        assert!(!keys.has(&2, now + Duration::from_secs(20)));
    }

    #[test]
    fn a_flood_of_keys_is_bounded() {
        let (mut keys, now) = (RecentKeys::new(TIME, 100), time::now());
        for number in 0..200 {
            keys.add(&number, now);
        }
        assert!(keys.until.len() <= 100 && keys.order.len() == 100);
        assert!(keys.has(&199, now) && !keys.has(&0, now));
        keys.clear();
        assert!(!keys.has(&199, now));
    }
}
