//! One part of the response cache: stored responses, and responses that are being received.
//!
//! A state machine without a lock; the time is an argument. A key has at most one flight, which receives its response
//! while other requests follow it. A purge removes stored responses and prevents the storing of those being received.
//!
//! ```text
//!   consult ──▶ Fresh ─────────────────────────────────────▶ answered
//!      │ ─────▶ Refresh ───▶ answered; one lead: ┐
//!      │ ─────▶ Lead ────────────────────────────┴─▶ flight ──store, end──▶ followers are released
//!      │ ─────▶ Follow ──leave (time, client, drain)──▶           │
//!      └ ─────▶ Pass ◀── ten seconds after a response ──▶─────────┘
//!                        that is not stored
//! ```

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use quick_cache::OptionsBuilder;
use quick_cache::unsync::Cache;

use super::entry::StoredEntry;
use super::freshness::Usability;
use super::key::CacheKey;
use super::purges::{Purge, Purges};
use super::recent_keys::RecentKeys;
use super::tag::CacheTag;
use super::variants::{EvictedVariants, VariantSet, VariantWeigher};
use crate::http::Head;
use crate::limits::{
    CACHE_BYTES_PER_RECENT_KEY, CACHE_CONDITION_TIME, CACHE_PASS_TIME, CACHE_RECENT_KEYS_MAX, CACHE_SHARE,
};
use crate::sync::primitive::Arc;

/// One part of the cache. `F` is a request that follows a flight.
#[derive(Debug)]
pub struct Partition<F> {
    resources: Cache<CacheKey, Arc<VariantSet>, VariantWeigher, RandomState, EvictedVariants>,
    index: HashMap<CacheTag, HashSet<CacheKey>>,
    flights: HashMap<FlightKey, Flight<F>>,
    /// The keys whose last response was not stored, each for requests with and without `Authorization`.
    passes: RecentKeys,
    /// The keys whose scripts have answered a condition of a client; those whose whole responses could then not be stored,
    /// marked by `true`.
    conditions: RecentKeys,
    purges: Purges,
    /// The number of stored responses.
    entries: u64,
    /// The number of the last flight or follower.
    last_number: u64,
}

/// A response that is being received: for one key, and for one variant of it if its `Vary` is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FlightKey {
    key: CacheKey,
    vary_values: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct Flight<F> {
    number: u64,
    followers: Vec<(u64, F)>,
}

/// The right and the duty to receive a response, and to end its flight.
#[derive(Debug)]
pub struct Lead {
    flight: FlightKey,
    number: u64,
    /// The number of purges at its beginning.
    purges: u64,
    /// The stored response that it may validate.
    pub stale: Option<Arc<StoredEntry>>,
    /// How its script receives the client's conditions.
    pub conditions: ClientConditions,
}

/// How the script of a flight receives the conditions that can turn the response to the client into a 304.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientConditions {
    /// It receives them. If its 304 hides a storable response, the next flight fetches the 200.
    Sent,
    /// They are removed, and evaluated here.
    LeftOut,
    /// It receives them, because its 200 was not storable when they were removed.
    Needed,
}

/// Whether a response was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It was.
    Stored,
    /// A purge since the beginning of its flight names it.
    Purged,
    /// It would take too large a part of the memory.
    TooLarge,
}

/// How a flight whose response is not stored affects the next requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// Nothing: the next flight may end otherwise.
    Nothing,
    /// Responses to its URL are not stored: for a while, requests run side by side.
    Unstorable,
    /// The same, for requests with `Authorization` only.
    UnstorableIfAuthorized,
    /// The script has answered a condition of its client.
    Condition,
}

/// A request's place among the followers of a flight.
#[derive(Debug)]
pub struct Following {
    flight: FlightKey,
    number: u64,
    /// The stored response that the flight may replace.
    pub stale: Option<Arc<StoredEntry>>,
}

/// The properties of a request that matter here.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Its key.
    pub key: &'a CacheKey,
    /// Its head.
    pub head: &'a Head,
    /// Whether it has `Authorization`.
    pub is_authorized: bool,
    /// Whether its response may be stored.
    pub may_lead: bool,
    /// Whether there is room for another follower.
    pub may_follow: bool,
}

/// The decision about a request.
#[derive(Debug)]
pub enum CacheLookup {
    /// Answer it with this response.
    Fresh(Arc<StoredEntry>),
    /// Answer it with this stale response, and receive a new one if no other request does.
    Refresh(Arc<StoredEntry>, Option<Lead>),
    /// Run its script, and receive the response.
    Lead(Lead),
    /// Wait until the flight that it follows has ended.
    Follow(Following),
    /// There is no room for another follower. There may be a stale response.
    Full(Option<Arc<StoredEntry>>),
    /// Run its script. There may be a stale response.
    Pass(Option<Arc<StoredEntry>>),
}

/// The removed responses, which the caller drops outside of the lock.
#[derive(Debug, Default)]
#[must_use = "drop it outside of the lock"]
pub struct Removed {
    resources: Vec<Arc<VariantSet>>,
    index: HashMap<CacheTag, HashSet<CacheKey>>,
    /// The number of responses that were removed because others needed the memory.
    pub for_room: u64,
    /// The number of responses that were removed because their URL has too many variants.
    pub for_variants: u64,
    /// The number of responses that a purge has removed, or a newer response that may not be stored.
    pub purged: u64,
}

impl<F> Partition<F> {
    /// Creates a part with a capacity of `bytes`.
    pub fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / TYPICAL_BYTES).unwrap_or(0).max(64);
        let options = OptionsBuilder::new().estimated_items_capacity(items).weight_capacity(bytes).build();
        let keys_max = (bytes / CACHE_BYTES_PER_RECENT_KEY).clamp(64, CACHE_RECENT_KEYS_MAX);
        let keys_max = usize::try_from(keys_max).unwrap_or(usize::MAX);
        let hasher = RandomState::new;
        let resources = match options {
            Ok(options) => Cache::with_options(options, VariantWeigher, hasher(), EvictedVariants),
            Err(_) => Cache::with(items, bytes, VariantWeigher, hasher(), EvictedVariants),
        };
        Self {
            resources,
            index: HashMap::new(),
            flights: HashMap::new(),
            passes: RecentKeys::new(CACHE_PASS_TIME, keys_max),
            conditions: RecentKeys::new(CACHE_CONDITION_TIME, keys_max),
            purges: Purges::default(),
            entries: 0,
            last_number: 0,
        }
    }

    /// Looks up the response to a request.
    pub fn consult(&mut self, query: &Query<'_>, now: Instant) -> CacheLookup {
        let resource = self.resources.get(query.key).map(Arc::clone);
        let values =
            resource.as_ref().filter(|it| !it.vary.is_empty()).map(|it| it.vary.values_in(query.head));
        let stored = resource.as_ref().and_then(|it| it.variant(values.as_deref().unwrap_or_default()));
        let stored = stored.filter(|entry| !query.is_authorized || entry.serves_authorized());
        let usability = stored.map(|entry| entry.freshness().usability(now));
        if let (Some(entry), Some(Usability::Fresh)) = (stored, usability) {
            return CacheLookup::Fresh(Arc::clone(entry));
        }
        let stale = stored.map(Arc::clone);
        let flight = FlightKey { key: query.key.clone(), vary_values: values };
        let is_under_way = self.flights.contains_key(&flight);
        if let (Some(entry), Some(Usability::WhileRevalidating)) = (&stale, usability) {
            let entry = Arc::clone(entry);
            let lead = (query.may_lead && !is_under_way).then(|| self.take_off(flight, stale, now));
            return CacheLookup::Refresh(entry, lead);
        }
        if stale.is_none() && self.passes.has(&(query.key, query.is_authorized), now) {
            return CacheLookup::Pass(None);
        }
        if !is_under_way {
            return if query.may_lead {
                CacheLookup::Lead(self.take_off(flight, stale, now))
            } else {
                CacheLookup::Pass(stale)
            };
        }
        if !query.may_follow {
            return CacheLookup::Full(stale);
        }
        self.last_number += 1;
        CacheLookup::Follow(Following { flight, number: self.last_number, stale })
    }

    /// Adds a follower to its flight.
    pub fn follow(&mut self, following: &Following, follower: F) {
        if let Some(flight) = self.flights.get_mut(&following.flight) {
            flight.followers.push((following.number, follower));
        }
    }

    /// Removes a request from the followers; `None` if it was released meanwhile.
    pub fn leave(&mut self, following: &Following) -> Option<F> {
        let followers = &mut self.flights.get_mut(&following.flight)?.followers;
        let place = followers.iter().position(|(number, _)| *number == following.number)?;
        Some(followers.swap_remove(place).1)
    }

    /// Returns the followers of a flight; fewer are left when it ends.
    pub fn followers(&self, lead: &Lead) -> usize {
        self.flights.get(&lead.flight).map_or(0, |flight| flight.followers.len())
    }

    fn take_off(&mut self, flight: FlightKey, stale: Option<Arc<StoredEntry>>, now: Instant) -> Lead {
        self.last_number += 1;
        let number = self.last_number;
        self.flights.insert(flight.clone(), Flight { number, followers: Vec::new() });
        let conditions = if self.conditions.has(&(&flight.key, true), now) {
            ClientConditions::Needed
        } else if self.conditions.has(&(&flight.key, false), now) {
            ClientConditions::LeftOut
        } else {
            ClientConditions::Sent
        };
        Lead { flight, number, purges: self.purges.count(), stale, conditions }
    }

    /// Stores a response that a flight has received.
    pub fn store(&mut self, lead: &Lead, entry: &Arc<StoredEntry>, removed: &mut Removed) -> StoreOutcome {
        let key = &lead.flight.key;
        if self.is_purged(lead, entry) {
            return StoreOutcome::Purged;
        }
        let weight = VariantSet::weight_of(key, std::slice::from_ref(entry));
        if weight > self.capacity() / CACHE_SHARE {
            return StoreOutcome::TooLarge;
        }
        let old = self.resources.peek(key).map(Arc::clone);
        let resource = Arc::new(VariantSet::with(old.as_deref(), key, entry, self.capacity() / CACHE_SHARE));
        if let Some(old) = &old {
            let dropped = old.variants.len() + 1 - resource.variants.len();
            removed.for_variants += dropped.saturating_sub(usize::from(old.has_like(entry))) as u64;
            self.unlist(key, old);
        }
        self.list(key, &resource);
        let mut evicted = Vec::new();
        self.resources.insert_with_lifecycle(key.clone(), resource, &mut evicted);
        self.passes.forget(&(key, false));
        if entry.serves_authorized() {
            self.passes.forget(&(key, true));
        }
        for (key, resource) in evicted {
            // The replaced one is reported as evicted, too, but was taken out of the counts above.
            if old.as_ref().is_none_or(|old| !Arc::ptr_eq(old, &resource)) {
                self.unlist(&key, &resource);
                removed.for_room += resource.variants.len() as u64;
            }
            removed.resources.push(resource);
        }
        removed.resources.extend(old);
        StoreOutcome::Stored
    }

    /// Returns whether a purge since the beginning of the flight concerns a response to its URL.
    pub fn is_purged(&self, lead: &Lead, entry: &StoredEntry) -> bool {
        self.purges.concern(lead.purges, &lead.flight.key, entry.tags())
    }

    /// Ends a flight. Returns its followers. If its response turned out to be unstorable, the response that it was to replace
    /// is removed.
    pub fn end(
        &mut self,
        lead: &Lead,
        remembered: Remembered,
        now: Instant,
        removed: &mut Removed,
    ) -> Vec<F> {
        let key = &lead.flight.key;
        match remembered {
            Remembered::Nothing => {}
            Remembered::Unstorable => {
                self.passes.add(&(key, false), now);
                self.passes.add(&(key, true), now);
                if lead.conditions == ClientConditions::LeftOut {
                    self.conditions.add(&(key, true), now);
                }
                if let Some(stale) = &lead.stale {
                    removed.purged += self.remove_variants(key, |variant| variant.is_like(stale), removed);
                }
            }
            Remembered::UnstorableIfAuthorized => self.passes.add(&(key, true), now),
            Remembered::Condition => self.conditions.add(&(key, false), now),
        }
        match self.flights.entry(lead.flight.clone()) {
            Entry::Occupied(flight) if flight.get().number == lead.number => {
                flight.remove().followers.into_iter().map(|(_, follower)| follower).collect()
            }
            Entry::Occupied(_) | Entry::Vacant(_) => Vec::new(),
        }
    }

    /// Removes the responses that a purge names; returns how many there were.
    pub fn purge(&mut self, purge: Purge, removed: &mut Removed) -> u64 {
        let count = match &purge {
            Purge::All => self.remove_all(removed),
            Purge::Tag(tag) => self.remove_tagged(tag, removed),
            Purge::Url(key) => self.remove_url(key, removed),
        };
        removed.purged += count;
        self.purges.add(purge);
        count
    }

    fn remove_all(&mut self, removed: &mut Removed) -> u64 {
        let count = std::mem::take(&mut self.entries);
        removed.resources.extend(self.resources.drain().map(|(_, resource)| resource));
        removed.index = std::mem::take(&mut self.index);
        self.passes.clear();
        self.conditions.clear();
        count
    }

    fn remove_url(&mut self, key: &CacheKey, removed: &mut Removed) -> u64 {
        let Some((key, resource)) = self.resources.remove(key) else { return 0 };
        self.unlist(&key, &resource);
        let count = resource.variants.len() as u64;
        removed.resources.push(resource);
        count
    }

    fn remove_tagged(&mut self, tag: &CacheTag, removed: &mut Removed) -> u64 {
        let keys = self.index.remove(tag).unwrap_or_default();
        let mut count = 0;
        for key in keys {
            count += self.remove_variants(&key, |variant| variant.tags().contains(tag), removed);
        }
        count
    }

    /// Removes the responses to one URL that `is_removed` selects; returns how many there were.
    fn remove_variants(
        &mut self,
        key: &CacheKey,
        is_removed: impl Fn(&StoredEntry) -> bool,
        removed: &mut Removed,
    ) -> u64 {
        let Some((key, resource)) = self.resources.remove(key) else { return 0 };
        self.unlist(&key, &resource);
        let is_kept = |variant: &&Arc<StoredEntry>| !is_removed(variant);
        let kept: Vec<_> = resource.variants.iter().filter(is_kept).map(Arc::clone).collect();
        let count = (resource.variants.len() - kept.len()) as u64;
        if !kept.is_empty() {
            let rest = VariantSet::new(&key, resource.vary.clone(), kept);
            self.list(&key, &rest);
            // It is smaller than the resource that was there.
            self.resources.insert(key, Arc::new(rest));
        }
        removed.resources.push(resource);
        count
    }

    /// Adds a resource to the counts and to the index of tags.
    fn list(&mut self, key: &CacheKey, resource: &VariantSet) {
        self.entries += resource.variants.len() as u64;
        for tag in resource.variants.iter().flat_map(|variant| variant.tags()) {
            self.index.entry(tag.clone()).or_default().insert(key.clone());
        }
    }

    /// Takes a resource that is removed out of the counts and out of the index of tags.
    fn unlist(&mut self, key: &CacheKey, resource: &VariantSet) {
        self.entries -= resource.variants.len() as u64;
        for tag in resource.variants.iter().flat_map(|variant| variant.tags()) {
            if let Entry::Occupied(mut keys) = self.index.entry(tag.clone()) {
                keys.get_mut().remove(key);
                if keys.get().is_empty() {
                    keys.remove();
                }
            }
        }
    }

    /// Returns the number of stored responses.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the memory that they account for, in bytes.
    pub fn bytes(&self) -> u64 {
        self.resources.weight()
    }

    /// Returns the maximum of these bytes.
    pub fn capacity(&self) -> u64 {
        self.resources.capacity()
    }

    /// Returns the number of flights.
    pub fn flights(&self) -> usize {
        self.flights.len()
    }
}

/// The size of an average response in bytes; used only to size tables.
const TYPICAL_BYTES: u64 = 16 * 1024;

impl Lead {
    /// Returns the key of its response.
    pub fn key(&self) -> &CacheKey {
        &self.flight.key
    }

    /// Returns whether it validates a stored response.
    pub fn validates(&self) -> bool {
        self.stale.as_ref().is_some_and(|stale| stale.has_validator())
    }

    /// Returns the values of the fields that its response varies by, if they are known.
    pub fn variant(&self) -> Option<Box<[u8]>> {
        self.flight.vary_values.clone()
    }
}

impl Following {
    /// Returns the key of the response that it waits for.
    pub fn key(&self) -> &CacheKey {
        &self.flight.key
    }
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
