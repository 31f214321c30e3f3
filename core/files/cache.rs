//! The cache of static files, shared by all I/O threads.
//!
//! Its memory is bounded by its capacity, whatever clients request, and frequently requested files are not evicted by
//! many files that are requested once. Its information about a path was true on the disk at most [`STATIC_STALE`] ago,
//! unless revalidation is disabled. The cache does not access the disk. Callers that receive [`Lookup::Stale`] or
//! [`Lookup::Old`] start a check, and its result is passed back with [`insert`](StaticCache::insert),
//! [`confirm`](StaticCache::confirm) or [`remove`](StaticCache::remove).
//!
//! ```text
//!    checked       +1 s                  +2 s
//!       │   fresh   │  stale: served,     │  old: waits for a check
//!       └───────────┴─one starts a check──┴──────────────▶
//! ```

use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};

use super::asset::Asset;
use crate::limits::{
    DISK_SLICE_BYTES, HASHED_FILE_BYTES_MAX, STATIC_CACHE_SHARE, STATIC_DESCRIPTOR_AGE,
    STATIC_DESCRIPTOR_BYTES, STATIC_DESCRIPTORS_MAX, STATIC_FRESH, STATIC_MEMORY_FILE_MAX, STATIC_STALE,
};
use crate::sync::primitive::{Arc, AtomicBool, AtomicU64, Ordering};

/// Caches static files by path.
#[derive(Debug)]
pub struct StaticCache {
    /// `None` if the cache is disabled.
    entries: Option<Cache<Box<[u8]>, Arc<CachedAsset>, Weigher>>,
    revalidates: bool,
    start: Instant,
    /// The number of times the cache was cleared.
    generation: AtomicU64,
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// The path is not cached.
    Absent,
    /// The cached file is fresh.
    Good(Arc<Asset>),
    /// The cached file is too old; the disk must be checked first.
    Old,
    /// The cached file may be used; this caller, and no other, must start a check of the disk.
    Stale(Arc<Asset>),
}

/// A check of the disk in progress; its result was true at its beginning or later.
#[derive(Clone, Copy, Debug)]
pub struct LookBegun {
    at: Instant,
    generation: u64,
}

#[derive(Debug)]
struct CachedAsset {
    asset: Arc<Asset>,
    /// The beginning of the last check, in nanoseconds after the creation of the cache.
    looked_at: AtomicU64,
    /// Whether a check is in progress.
    is_ordered: AtomicBool,
    /// The memory it accounts for.
    weight: u64,
}

#[derive(Clone, Debug)]
struct Weigher;

/// The maximum number of bytes that a file thread reads at once if the cache is disabled.
const UNCACHED_FILE_BYTES: u64 = DISK_SLICE_BYTES as u64;

/// The number of shards; each has a lock and a share of the capacity.
const SHARDS: u64 = 4;

/// The size of an average entry in bytes; used only to size tables.
const ENTRY_BYTES_TYPICAL: u64 = 16 * 1024;

impl StaticCache {
    /// Creates a cache with a capacity of `room` bytes; 0 disables it. Without `revalidates`, entries are never
    /// checked.
    pub fn new(room: u64, revalidates: bool, start: Instant) -> Self {
        let entries = (room > 0).then(|| {
            let options = OptionsBuilder::new()
                .shards(usize::try_from(SHARDS).unwrap_or(1))
                .estimated_items_capacity(usize::try_from(room / ENTRY_BYTES_TYPICAL).unwrap_or(0).max(256))
                .weight_capacity(room)
                .build()
                .ok()?;
            Some(Cache::with_options(options, Weigher, Default::default(), Default::default()))
        });
        Self { entries: entries.flatten(), revalidates, start, generation: AtomicU64::new(0) }
    }

    /// Returns whether the cache is enabled.
    pub fn is_on(&self) -> bool {
        self.entries.is_some()
    }

    /// Returns the number of its entries.
    pub fn files(&self) -> u64 {
        self.entries.as_ref().map_or(0, |entries| entries.len() as u64)
    }

    /// Returns the memory that its entries account for.
    pub fn bytes(&self) -> u64 {
        self.entries.as_ref().map_or(0, Cache::weight)
    }

    /// Returns its capacity; 0 if it is disabled.
    pub fn bytes_max(&self) -> u64 {
        self.entries.as_ref().map_or(0, Cache::capacity)
    }

    /// Returns the size of the largest file that is read into memory.
    pub fn memory_file_max(&self) -> u64 {
        let share = self.entries.as_ref().map(|entries| entries.capacity() / STATIC_CACHE_SHARE / 2);
        share.map_or(UNCACHED_FILE_BYTES, |share| share.min(STATIC_MEMORY_FILE_MAX))
    }

    /// Returns the maximum size of a file that is hashed without being read into memory.
    pub fn hashed_file_max(&self) -> u64 {
        // Without a cache, each request would hash it.
        if self.is_on() { HASHED_FILE_BYTES_MAX } else { 0 }
    }

    /// Looks up a normalized path.
    pub fn get(&self, path: &[u8], now: Instant) -> Lookup {
        let Some(entry) = self.entries.as_ref().and_then(|entries| entries.get(path)) else {
            return Lookup::Absent;
        };
        let age = entry.age(self.after(now));
        if self.revalidates && age >= STATIC_STALE {
            return Lookup::Old;
        }
        if entry.asset.descriptors() > 0 && !entry.asset.is_unchanged() {
            return Lookup::Old;
        }
        let asset = Arc::clone(&entry.asset);
        // Relaxed: only one caller sees the flag unset, and nothing else depends on it.
        if self.revalidates && age >= STATIC_FRESH && !entry.is_ordered.swap(true, Ordering::Relaxed) {
            return Lookup::Stale(asset);
        }
        Lookup::Good(asset)
    }

    /// Records the beginning of a check of the disk.
    pub fn begin_look(&self, now: Instant) -> LookBegun {
        LookBegun { at: now, generation: self.generation.load(Ordering::Relaxed) }
    }

    /// Returns the cached file for a path regardless of its age, for a check that may find it unchanged.
    pub fn peek(&self, path: &[u8]) -> Option<Arc<Asset>> {
        let entry = self.entries.as_ref()?.peek(path)?;
        Some(Arc::clone(&entry.asset))
    }

    /// Records that a check found the file that `asset` contains.
    pub fn confirm(&self, path: &[u8], asset: &Arc<Asset>, look: LookBegun) {
        let Some(entry) = self.entries.as_ref().and_then(|entries| entries.peek(path)) else { return };
        if Arc::ptr_eq(&entry.asset, asset) {
            entry.looked_at.fetch_max(self.after(look.at), Ordering::Relaxed);
            entry.is_ordered.store(false, Ordering::Relaxed);
        }
    }

    /// Stores the new file that a check found.
    pub fn insert(&self, path: &[u8], asset: &Arc<Asset>, look: LookBegun) {
        let Some(entries) = &self.entries else { return };
        let is_current = || self.generation.load(Ordering::Acquire) == look.generation;
        let own = path.len() + std::mem::size_of::<CachedAsset>();
        let descriptor = STATIC_DESCRIPTOR_BYTES.max(entries.capacity() / STATIC_DESCRIPTORS_MAX);
        let weight = asset.weight() + asset.descriptors() * descriptor + own as u64;
        if !is_current() || weight > entries.capacity() / STATIC_CACHE_SHARE {
            entries.remove(path);
            return;
        }
        let entry = CachedAsset {
            asset: Arc::clone(asset),
            looked_at: AtomicU64::new(self.after(look.at)),
            is_ordered: AtomicBool::new(false),
            weight,
        };
        entries.insert(path.into(), Arc::new(entry));
        if !is_current() {
            // The cache was cleared in the meantime, so this result is outdated.
            entries.remove(path);
        }
    }

    /// Removes the entry of a path at which a check found no file.
    pub fn remove(&self, path: &[u8]) {
        if let Some(entries) = &self.entries {
            entries.remove(path);
        }
    }

    /// Clears the cache, and discards the results of checks in progress.
    pub fn clear(&self) {
        // AcqRel: pairs with the Acquire in `insert`, so that an insertion after the clearing sees the new generation.
        self.generation.fetch_add(1, Ordering::AcqRel);
        if let Some(entries) = &self.entries {
            entries.clear();
        }
    }

    /// Closes descriptors that have not been requested recently.
    pub fn sweep(&self, now: Instant) {
        let Some(entries) = &self.entries else { return };
        let now = self.after(now);
        entries.retain(|_, entry| entry.asset.descriptors() == 0 || entry.age(now) < STATIC_DESCRIPTOR_AGE);
    }

    /// Returns the number of bytes in use.
    pub fn weight(&self) -> u64 {
        self.entries.as_ref().map_or(0, Cache::weight)
    }

    fn after(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl CachedAsset {
    fn age(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.looked_at.load(Ordering::Relaxed)))
    }
}

impl Weighter<Box<[u8]>, Arc<CachedAsset>> for Weigher {
    fn weight(&self, _path: &Box<[u8]>, entry: &Arc<CachedAsset>) -> u64 {
        entry.weight
    }
}

#[cfg(test)]
mod tests {
    use super::super::asset::AssetOptions;
    use super::super::file_version::FileVersion;
    use super::super::resolve::{Opened, StaticFile};
    use super::*;

    const LARGE: u64 = 100_001;

    const ROOM: u64 = 8 << 20;

    fn asset(length: u64) -> Arc<Asset> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        let stamp = FileVersion::of(&rustix::fs::fstat(&file).unwrap());
        let found = StaticFile {
            path: b"/a".to_vec(),
            elsewhere: None,
            plain: Opened { file, stamp },
            root_modified: None,
            coded: Vec::new(),
        };
        let options = AssetOptions {
            max_age: Duration::ZERO,
            codings: Vec::new(),
            is_compressible: |_| false,
            memory_file_max: LARGE - 1,
            hashed_file_max: 0,
        };
        Arc::new(Asset::load(found, &options, crate::time::wall()).unwrap())
    }

    fn shown(lookup: &Lookup) -> &'static str {
        match lookup {
            Lookup::Absent => "absent",
            Lookup::Good(_) => "good",
            Lookup::Old => "old",
            Lookup::Stale(_) => "stale",
        }
    }

    struct Scene {
        cache: StaticCache,
        start: Instant,
    }

    impl Scene {
        fn with(room: u64, revalidates: bool) -> Self {
            let start = crate::time::now();
            Self { cache: StaticCache::new(room, revalidates, start), start }
        }

        fn at(&self, milliseconds: u64) -> Instant {
            self.start + Duration::from_millis(milliseconds)
        }

        fn put(&self, path: &str, asset: &Arc<Asset>, milliseconds: u64) {
            let look = self.cache.begin_look(self.at(milliseconds));
            self.cache.insert(path.as_bytes(), asset, look);
        }

        fn get(&self, path: &str, milliseconds: u64) -> &'static str {
            shown(&self.cache.get(path.as_bytes(), self.at(milliseconds)))
        }
    }

    #[test]
    fn an_entry_is_good_then_stale_then_old() {
        let scene = Scene::with(ROOM, true);
        assert_eq!(scene.get("/a", 0), "absent");
        scene.put("/a", &asset(10), 0);
        assert_eq!(scene.get("/a", 999), "good");
        assert_eq!(scene.get("/a", 1000), "stale");
        assert_eq!(scene.get("/a", 1999), "good", "a check is under way");
        assert_eq!(scene.get("/a", 2000), "old");
        assert_eq!(scene.get("/b", 0), "absent");
    }

    #[test]
    fn a_check_that_finds_no_change_makes_an_entry_fresh() {
        let scene = Scene::with(ROOM, true);
        let held = asset(10);
        scene.put("/a", &held, 0);
        assert_eq!(scene.get("/a", 1500), "stale");
        scene.cache.confirm(b"/a", &held, scene.cache.begin_look(scene.at(1500)));
        assert_eq!(scene.get("/a", 2400), "good");
        assert_eq!(scene.get("/a", 2600), "stale", "and another check is requested");
        // An earlier check has no newer information.
        scene.cache.confirm(b"/a", &held, scene.cache.begin_look(scene.at(100)));
        assert_eq!(scene.get("/a", 2400), "good");
        // Another check has stored a different file in the meantime; this one has not seen it.
        scene.put("/a", &asset(20), 2600);
        scene.cache.confirm(b"/a", &held, scene.cache.begin_look(scene.at(9000)));
        assert_eq!(scene.get("/a", 9000), "old");
    }

    #[test]
    fn a_check_replaces_a_changed_file_and_removes_a_missing_one() {
        let scene = Scene::with(ROOM, true);
        scene.put("/a", &asset(10), 0);
        let new = asset(20);
        scene.put("/a", &new, 500);
        let Lookup::Good(got) = scene.cache.get(b"/a", scene.at(600)) else { panic!() };
        assert!(Arc::ptr_eq(&got, &new));
        scene.cache.remove(b"/a");
        assert_eq!(scene.get("/a", 600), "absent");
    }

    #[test]
    fn without_revalidation_an_entry_stays_until_everything_is_forgotten() {
        let scene = Scene::with(ROOM, false);
        scene.put("/a", &asset(10), 0);
        assert_eq!(scene.get("/a", 1_000_000), "good");
        let under_way = scene.cache.begin_look(scene.at(0));
        scene.cache.clear();
        assert_eq!(scene.get("/a", 1), "absent");
        scene.cache.insert(b"/a", &asset(10), under_way);
        assert_eq!(scene.get("/a", 1), "absent", "it was looked at before");
        scene.put("/a", &asset(10), 1);
        assert_eq!(scene.get("/a", 1), "good");
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let scene = Scene::with(0, true);
        scene.put("/a", &asset(10), 0);
        assert_eq!(scene.get("/a", 0), "absent");
        assert!(!scene.cache.is_on() && scene.cache.weight() == 0);
        scene.cache.clear();
        scene.cache.sweep(scene.start);
    }

    #[test]
    fn the_room_is_never_exceeded_and_one_file_takes_only_its_share() {
        let scene = Scene::with(ROOM, true);
        let held = asset(90_000);
        for number in 0..1000 {
            scene.put(&format!("/{number}"), &held, 0);
            assert!(scene.cache.weight() <= ROOM);
        }
        assert!(scene.cache.weight() > ROOM / 2);
        let small = Scene::with(1 << 19, true);
        small.put("/a", &asset(99_000), 0);
        assert_eq!(small.get("/a", 0), "absent");
    }

    #[test]
    fn frequently_requested_entries_survive_a_scan() {
        let scene = Scene::with(ROOM, true);
        let held = asset(50_000);
        scene.put("/logo", &held, 0);
        for number in 0..10_000 {
            assert_eq!(scene.get("/logo", 0), "good", "after {number}");
            scene.put(&format!("/once/{number}"), &held, 0);
        }
    }

    #[test]
    fn cached_descriptors_are_bounded_and_closed_when_unused() {
        let scene = Scene::with(ROOM, true);
        let held = asset(LARGE);
        for number in 0..1000 {
            scene.put(&format!("/{number}"), &held, 0);
        }
        assert!(scene.cache.weight() / STATIC_DESCRIPTOR_BYTES <= STATIC_DESCRIPTORS_MAX);
        scene.put("/small", &asset(10), 0);
        scene.put("/large", &held, 5000);
        scene.cache.sweep(scene.start + STATIC_DESCRIPTOR_AGE);
        assert!(scene.cache.peek(b"/999").is_none());
        assert!(scene.cache.peek(b"/small").is_some() && scene.cache.peek(b"/large").is_some());
    }

    #[test]
    fn a_descriptor_of_a_changed_file_is_stale_at_once() {
        let scene = Scene::with(ROOM, false);
        let held = asset(LARGE);
        scene.put("/a", &held, 0);
        assert_eq!(scene.get("/a", 1), "good");
        let super::super::asset::Content::File(file) = &held.plain().content else { panic!() };
        file.set_len(1).unwrap();
        assert_eq!(scene.get("/a", 1), "old");
    }
}
