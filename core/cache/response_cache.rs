//! The response cache as its threads share it: partitions, each behind its lock.
//!
//! A lock is held for a lookup or an insertion in tables; responses are made before and freed after it. The cache counts
//! removals and refreshes; the shells count requests.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

use super::entry::{EntryOptions, StoredEntry};
use super::freshness::Usability;
use super::key::CacheKey;
use super::outcome::EvictionReason;
use super::partition::{CacheLookup, Following, Lead, Partition, Query, Remembered, Removed, StoreOutcome};
use super::patterns::NamePatterns;
use super::purges::Purge;
use crate::limits::{CACHE_PART_BYTES_MIN, CACHE_PARTS_MAX, CACHE_SHARE};
use crate::pool::{Notify, StreamKey};
use crate::sync::counter::Counter;
use crate::sync::lock::ShortLock;
use crate::sync::permits::{Permit, Permits};
use crate::sync::primitive::Arc;

/// The settings of the cache.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// The capacity, in bytes.
    pub bytes: u64,
    /// The maximum length of a body that is stored.
    pub object_bytes_max: u64,
    /// How entries are made.
    pub entries: EntryOptions,
    /// The cookies whose requests are not answered from the cache.
    pub bypass_cookies: NamePatterns,
    /// The parameters of a query that are not in the key.
    pub ignored_parameters: NamePatterns,
    /// The maximum number of requests that follow others.
    pub followers_max: usize,
}

/// The response cache.
#[derive(Debug)]
pub struct ResponseCache {
    /// The settings.
    pub settings: CacheSettings,
    parts: Box<[ShortLock<Partition<Arc<Follower>>>]>,
    hasher: RandomState,
    /// The places for followers.
    places: Arc<Permits>,
    evictions: [Counter; EvictionReason::ALL.len()],
    purged: Counter,
    /// The refreshes that were started.
    pub refreshes: Counter,
}

/// A request that waits for the response to another one.
#[derive(Debug)]
pub struct Follower {
    notify: Arc<dyn Notify>,
    stream: StreamKey,
    released: ShortLock<Option<Release>>,
}

/// How the wait of a follower ended.
#[derive(Clone, Debug)]
pub enum Release {
    /// This response answers it, if it varies by nothing that differs.
    Entry(Arc<StoredEntry>),
    /// This stale response answers it: the script has failed.
    Stale(Arc<StoredEntry>),
    /// It runs on its own.
    Gate,
    /// It begins anew.
    Retry,
}

/// The state of the cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReading {
    /// The number of stored responses.
    pub entries: u64,
    /// The memory that they account for.
    pub bytes: u64,
    /// The maximum of `bytes`.
    pub bytes_max: u64,
    /// The responses that were removed, by reason.
    pub evictions: [u64; EvictionReason::ALL.len()],
    /// The responses that purges have removed, and newer ones that may not be stored.
    pub purged: u64,
    /// The refreshes that were started.
    pub refreshes: u64,
}

impl Follower {
    /// Creates the follower behind `stream`.
    pub fn new(notify: Arc<dyn Notify>, stream: StreamKey) -> Arc<Self> {
        Arc::new(Self { notify, stream, released: ShortLock::default() })
    }

    /// Returns how its wait ended, once.
    pub fn take_release(&self) -> Option<Release> {
        self.released.lock().take()
    }

    fn release(&self, release: Release) {
        *self.released.lock() = Some(release);
        self.notify.response_ready(self.stream);
    }
}

impl ResponseCache {
    /// Creates an empty cache.
    pub fn new(settings: CacheSettings) -> Arc<Self> {
        // With room for compressed copies and for all that belongs to a response.
        let per_object = settings.object_bytes_max.saturating_mul(3 * CACHE_SHARE);
        let part_bytes_min = CACHE_PART_BYTES_MIN.max(per_object);
        let count = (settings.bytes / part_bytes_min).clamp(1, CACHE_PARTS_MAX);
        let part = |_| ShortLock::new(Partition::new(settings.bytes / count));
        Arc::new(Self {
            parts: (0..count).map(part).collect(),
            hasher: RandomState::new(),
            places: Permits::new(settings.followers_max),
            evictions: Default::default(),
            purged: Counter::default(),
            refreshes: Counter::default(),
            settings,
        })
    }

    /// Looks up a request. `follower` is made if it has to wait.
    pub fn consult(
        &self,
        mut query: Query<'_>,
        now: Instant,
        follower: impl FnOnce() -> Arc<Follower>,
    ) -> (CacheLookup, Option<(Arc<Follower>, Permit)>) {
        query.may_follow = self.places.free() > 0;
        let mut part = self.part(query.key).lock();
        let lookup = part.consult(&query, now);
        let CacheLookup::Follow(following) = &lookup else { return (lookup, None) };
        match self.places.try_acquire() {
            Some(permit) => {
                let follower = follower();
                part.follow(following, Arc::clone(&follower));
                (lookup, Some((follower, permit)))
            }
            // Another thread has taken the last place.
            None => (CacheLookup::Full(following.stale.as_ref().map(Arc::clone)), None),
        }
    }

    /// Removes a request from the followers, unless it was released meanwhile.
    pub fn leave(&self, following: &Following) {
        drop(self.part(following.key()).lock().leave(following));
    }

    /// Stores a response and ends its flight. Returns whether it was stored. If a purge has prevented that, the followers
    /// begin anew. If it is stale already, or too large, they run on their own.
    pub fn store(&self, lead: &Lead, entry: &Arc<StoredEntry>, now: Instant) -> bool {
        let mut removed = Removed::default();
        let (outcome, followers) = {
            let mut part = self.part(lead.key()).lock();
            let outcome = part.store(lead, entry, &mut removed);
            let is_too_large = outcome == StoreOutcome::TooLarge;
            let remembered = if is_too_large { Remembered::Unstorable } else { Remembered::Nothing };
            (outcome, part.end(lead, remembered, now, &mut removed))
        };
        self.count(&removed);
        // RFC 9111, section 5.2.2.4: a response with `no-cache` must be validated for each request.
        let release = match (outcome, entry.freshness().usability(now)) {
            (StoreOutcome::Purged, _) => Release::Retry,
            (StoreOutcome::TooLarge, _) | (_, Usability::Stale) => Release::Gate,
            (_, Usability::Fresh | Usability::WhileRevalidating) => Release::Entry(Arc::clone(entry)),
        };
        wake(&followers, &release);
        outcome == StoreOutcome::Stored
    }

    /// Ends a flight whose response is not stored.
    pub fn end(&self, lead: &Lead, release: &Release, remembered: Remembered, now: Instant) {
        let mut removed = Removed::default();
        let (followers, is_purged) = {
            let mut part = self.part(lead.key()).lock();
            let is_purged = matches!(release, Release::Stale(entry) if part.is_purged(lead, entry));
            (part.end(lead, remembered, now, &mut removed), is_purged)
        };
        self.count(&removed);
        // Requests that came after the purge may be among the followers.
        wake(&followers, if is_purged { &Release::Gate } else { release });
    }

    /// Removes the responses that have one of these tags; returns how many there were.
    pub fn purge(&self, purge: &Purge) -> u64 {
        let mut removed = Removed::default();
        if let Purge::Url(key) = purge {
            self.part(key).lock().purge(purge.clone(), &mut removed);
        } else {
            for part in &self.parts {
                part.lock().purge(purge.clone(), &mut removed);
            }
        }
        self.count(&removed);
        removed.purged
    }

    /// Returns the maximum length of a body that is stored.
    pub fn object_bytes_max(&self) -> usize {
        let share = self.settings.bytes / self.parts.len() as u64 / CACHE_SHARE;
        usize::try_from(self.settings.object_bytes_max.min(share)).unwrap_or(usize::MAX)
    }

    /// Reads the state of the cache.
    pub fn reading(&self) -> CacheReading {
        let mut reading = CacheReading {
            evictions: std::array::from_fn(|reason| self.evictions[reason].value()),
            purged: self.purged.value(),
            refreshes: self.refreshes.value(),
            ..CacheReading::default()
        };
        for part in &self.parts {
            let part = part.lock();
            reading.entries += part.entries();
            reading.bytes += part.bytes();
            reading.bytes_max += part.capacity();
        }
        reading
    }

    fn part(&self, key: &CacheKey) -> &ShortLock<Partition<Arc<Follower>>> {
        let count = self.parts.len() as u64;
        let place = if count > 1 { self.hasher.hash_one(key) % count } else { 0 };
        &self.parts[usize::try_from(place).unwrap_or(0)]
    }

    fn count(&self, removed: &Removed) {
        for (reason, count) in
            [(EvictionReason::Memory, removed.for_room), (EvictionReason::Variants, removed.for_variants)]
        {
            if count > 0 {
                self.evictions[reason as usize].add(count);
            }
        }
        if removed.purged > 0 {
            self.purged.add(removed.purged);
        }
    }
}

fn wake(followers: &[Arc<Follower>], release: &Release) {
    for follower in followers {
        follower.release(release.clone());
    }
}
