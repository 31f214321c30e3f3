//! An I/O thread's cache of scripts, so that a frequently requested script needs no disk access per request.
//!
//! An entry is at most [`ROUTE_CACHE_AGE`] old, and there are at most [`ROUTE_CACHE_ENTRIES_MAX`] entries, whatever
//! clients request. Files to send are never cached here, because the check applies to their descriptor. "Not found" is
//! not cached either, so a new file is found by its first request.
//!
//! The file name of a script begins with the real path of the document root. A switched link therefore takes effect
//! with the next reload, or when the entry expires: until then the old script runs, as it does for a request that is
//! already queued. If the script no longer exists, its worker resolves the path again.

use std::collections::HashMap;
use std::time::Instant;

use crate::limits::{ROUTE_CACHE_AGE, ROUTE_CACHE_ENTRIES_MAX};
use crate::sync::primitive::Arc;

/// Caches for a short time which script handles a path.
///
/// It has two generations: when the young one holds half of the entries, it becomes the old one, and the previous old
/// one is dropped.
#[derive(Debug)]
pub struct RouteCache<S> {
    young: HashMap<Vec<u8>, CachedRoute<S>>,
    old: HashMap<Vec<u8>, CachedRoute<S>>,
}

#[derive(Debug)]
struct CachedRoute<S> {
    script: Arc<S>,
    found_at: Instant,
}

impl<S> Default for RouteCache<S> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<S> RouteCache<S> {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the script that handled this normalized path recently.
    pub fn get(&self, path: &[u8], now: Instant) -> Option<&Arc<S>> {
        let entry = self.young.get(path).or_else(|| self.old.get(path))?;
        (now.saturating_duration_since(entry.found_at) < ROUTE_CACHE_AGE).then_some(&entry.script)
    }

    /// Stores the script that was found for a normalized path.
    pub fn insert(&mut self, path: Vec<u8>, script: Arc<S>, now: Instant) {
        if self.young.len() >= ROUTE_CACHE_ENTRIES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(path, CachedRoute { script, found_at: now });
    }

    /// Removes the script of a normalised path.
    pub fn forget(&mut self, path: &[u8]) {
        self.young.remove(path);
        self.old.remove(path);
    }

    /// Clears the cache.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::resolve::FoundScript;
    use super::*;

    fn script(name: &str) -> Arc<FoundScript> {
        Arc::new(FoundScript { script_name: name.into(), ..FoundScript::default() })
    }

    #[test]
    fn a_script_is_remembered_for_a_moment() {
        let start = crate::time::now();
        let mut cache = RouteCache::new();
        cache.insert(b"/a".to_vec(), script("/index.php"), start);
        let just_before = start + ROUTE_CACHE_AGE - Duration::from_nanos(1);
        assert_eq!(cache.get(b"/a", just_before), Some(&script("/index.php")));
        assert_eq!(cache.get(b"/a", start + ROUTE_CACHE_AGE), None);
        assert_eq!(cache.get(b"/b", start), None);
    }

    #[test]
    fn a_newer_finding_replaces_the_older() {
        let start = crate::time::now();
        let later = start + ROUTE_CACHE_AGE;
        let mut cache = RouteCache::new();
        cache.insert(b"/a".to_vec(), script("/old.php"), start);
        cache.insert(b"/a".to_vec(), script("/new.php"), later);
        assert_eq!(cache.get(b"/a", later), Some(&script("/new.php")));
    }

    #[test]
    fn a_path_can_be_forgotten_alone() {
        let now = crate::time::now();
        let mut cache = RouteCache::new();
        cache.insert(b"/a".to_vec(), script("/a.php"), now);
        cache.insert(b"/b".to_vec(), script("/b.php"), now);
        cache.forget(b"/a");
        assert_eq!((cache.get(b"/a", now), cache.get(b"/b", now)), (None, Some(&script("/b.php"))));
    }

    #[test]
    fn the_number_of_entries_is_bounded_and_recent_ones_stay() {
        let now = crate::time::now();
        let mut cache = RouteCache::new();
        for number in 0..10 * ROUTE_CACHE_ENTRIES_MAX {
            let path = format!("/{number}").into_bytes();
            cache.insert(path.clone(), script("/index.php"), now);
            assert!(cache.young.len() + cache.old.len() <= ROUTE_CACHE_ENTRIES_MAX);
            assert!(cache.get(&path, now).is_some());
        }
        cache.clear();
        assert_eq!(cache.get(format!("/{}", 10 * ROUTE_CACHE_ENTRIES_MAX - 1).as_bytes(), now), None);
    }
}
