//! The variants of one resource: stored responses to one URL, for requests that differ in the fields of `Vary`.
//!
//! A set never changes: a new one replaces it. It knows the memory that it accounts for, by which the cache evicts whole
//! sets.

use quick_cache::{Lifecycle, Weighter};

use super::entry::StoredEntry;
use super::key::CacheKey;
use super::vary::VaryNames;
use crate::allocation::{allocated, allocated_shared};
use crate::limits::CACHE_VARIANTS_MAX;
use crate::sync::primitive::Arc;

/// The stored responses to one URL, the oldest first.
#[derive(Debug)]
pub(super) struct VariantSet {
    /// The fields that they vary by.
    pub(super) vary: VaryNames,
    pub(super) variants: Box<[Arc<StoredEntry>]>,
    weight: u64,
}

impl VariantSet {
    /// Makes a set of these responses to the URL of `key`, which vary by these fields.
    pub(super) fn new(key: &CacheKey, vary: VaryNames, variants: Vec<Arc<StoredEntry>>) -> Self {
        let weight = Self::weight_of(key, &variants);
        Self { vary, variants: variants.into_boxed_slice(), weight }
    }

    /// Adds a response to those of `old`. It replaces the one for the same requests; responses that vary by other fields
    /// are dropped, because their requests are unknown.
    pub(super) fn with(
        old: Option<&Self>,
        key: &CacheKey,
        entry: &Arc<StoredEntry>,
        weight_max: u64,
    ) -> Self {
        let is_kept = |variant: &&Arc<StoredEntry>| variant.vary() == entry.vary() && !variant.is_like(entry);
        let kept = old.map_or(&[][..], |old| &old.variants).iter().filter(is_kept).map(Arc::clone);
        let mut variants: Vec<_> = kept.chain([Arc::clone(entry)]).collect();
        while variants.len() > 1
            && (variants.len() > CACHE_VARIANTS_MAX || Self::weight_of(key, &variants) > weight_max)
        {
            variants.remove(0);
        }
        Self::new(key, entry.vary().clone(), variants)
    }

    /// Returns whether it has a response for the same requests as `entry`.
    pub(super) fn has_like(&self, entry: &StoredEntry) -> bool {
        self.variants.iter().any(|variant| variant.is_like(entry))
    }

    /// Returns the response for requests with these values of the fields.
    pub(super) fn variant(&self, values: &[u8]) -> Option<&Arc<StoredEntry>> {
        self.variants.iter().find(|variant| variant.is_for(values))
    }

    /// Returns the memory of a set of these responses in bytes.
    pub(super) fn weight_of(key: &CacheKey, variants: &[Arc<StoredEntry>]) -> u64 {
        let vary = variants.last().map_or(0, |variant| variant.vary().memory_bytes());
        let own = allocated_shared(size_of::<Self>()) + allocated(size_of_val(variants)) + vary;
        let own = (own + allocated_shared(key.len()) + TABLE_BYTES) as u64;
        let bytes = own + variants.iter().map(|variant| variant.weight()).sum::<u64>();
        bytes + bytes / GAPS_SHARE
    }
}

/// The divisor for the memory that libc loses to fragmentation, because allocations differ in length.
const GAPS_SHARE: u64 = 8;

/// The approximate size of the table entries of a set, in bytes.
const TABLE_BYTES: usize = 192;

/// Weighs sets for the limit of the cache.
#[derive(Clone, Debug)]
pub(super) struct VariantWeigher;

impl Weighter<CacheKey, Arc<VariantSet>> for VariantWeigher {
    fn weight(&self, _key: &CacheKey, resource: &Arc<VariantSet>) -> u64 {
        resource.weight
    }
}

/// Collects the evicted responses.
#[derive(Clone, Debug)]
pub(super) struct EvictedVariants;

impl Lifecycle<CacheKey, Arc<VariantSet>> for EvictedVariants {
    type RequestState = Vec<(CacheKey, Arc<VariantSet>)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: CacheKey, resource: Arc<VariantSet>) {
        evicted.push((key, resource));
    }
}
