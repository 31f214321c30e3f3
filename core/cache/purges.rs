//! The last purges, for responses that were being received at the time.
//!
//! A response is stored only if no purge since the beginning of its request names it. Purges are numbered; a response
//! whose request began before the oldest one that is remembered is not stored.

use std::collections::VecDeque;

use super::key::CacheKey;
use super::tag::CacheTag;
use crate::limits::CACHE_PURGES_MAX;

/// What a purge names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All responses.
    All,
    /// The responses with this tag.
    Tag(CacheTag),
    /// All responses to this URL.
    Url(CacheKey),
}

/// The last purges.
#[derive(Debug, Default)]
pub(super) struct Purges {
    /// The number of all purges so far.
    count: u64,
    last: VecDeque<Purge>,
}

impl Purges {
    /// Returns the number of purges so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds one.
    pub(super) fn add(&mut self, purge: Purge) {
        self.count += 1;
        if purge == Purge::All {
            // It includes all that came before.
            self.last.clear();
        }
        self.last.push_back(purge);
        if self.last.len() > CACHE_PURGES_MAX {
            self.last.pop_front();
        }
    }

    /// Returns whether a purge after the first `since` ones names a response with this key and these tags.
    pub(super) fn concern(&self, since: u64, key: &CacheKey, tags: &[CacheTag]) -> bool {
        let new = usize::try_from(self.count - since).unwrap_or(usize::MAX);
        new > self.last.len()
            || self.last.iter().rev().take(new).any(|purge| match purge {
                Purge::All => true,
                Purge::Tag(tag) => tags.contains(tag),
                Purge::Url(url) => url == key,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::UrlParts;
    use super::super::patterns::NamePatterns;
    use super::*;

    fn key(url: &str) -> CacheKey {
        CacheKey::new(UrlParts::parse(url.as_bytes(), None).unwrap(), &NamePatterns::default())
    }

    #[test]
    fn only_later_purges_of_the_same_concern() {
        let (mut purges, tags) = (Purges::default(), [CacheTag::new(b"a")]);
        purges.add(Purge::Url(key("http://h/a")));
        let since = purges.count();
        assert!(!purges.concern(since, &key("http://h/a"), &tags));
        purges.add(Purge::Tag(CacheTag::new(b"b")));
        assert!(!purges.concern(since, &key("http://h/a"), &tags));
        purges.add(Purge::Tag(CacheTag::new(b"a")));
        assert!(purges.concern(since, &key("http://h/a"), &tags));
        assert!(!purges.concern(since, &key("http://h/a"), &[]));
        purges.add(Purge::Url(key("http://h/a")));
        assert!(
            purges.concern(since, &key("http://h/a"), &[]) && !purges.concern(since, &key("http://h/b"), &[])
        );
        purges.add(Purge::All);
        assert!(
            purges.concern(since, &key("http://h/b"), &[])
                && !purges.concern(purges.count(), &key("http://h/b"), &[])
        );
    }

    #[test]
    fn forgotten_purges_count_for_all_entries() {
        let mut purges = Purges::default();
        for _ in 0..=CACHE_PURGES_MAX {
            purges.add(Purge::Url(key("http://h/a")));
        }
        assert!(purges.concern(0, &key("http://h/b"), &[]));
        assert!(!purges.concern(1, &key("http://h/b"), &[]));
    }
}
