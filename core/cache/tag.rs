//! The tags of a response, by which an application removes it from the cache.
//!
//! `Cache-Tag` lists them with commas, `Surrogate-Key` with spaces; both are compared byte by byte. Number and length
//! are bounded; a response that exceeds the bounds is not stored, because a purge would not find it.

use crate::allocation::allocated_shared;
use crate::http::Fields;
use crate::http::token::list;
use crate::limits::{CACHE_TAG_BYTES_MAX, CACHE_TAGS_MAX};
use crate::sync::primitive::Arc;

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheTag(Arc<[u8]>);

impl CacheTag {
    /// Takes a name; white space around it is removed.
    pub fn new(name: &[u8]) -> Self {
        Self(name.trim_ascii().into())
    }

    /// Reads the tags of a response.
    pub fn all_of(fields: &Fields) -> Box<[Self]> {
        let mut tags: Vec<Self> = names(fields).map(Self::new).collect();
        tags.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        tags.dedup();
        tags.into_boxed_slice()
    }

    /// Returns whether the tags of a response are within the bounds.
    pub fn are_bounded(fields: &Fields) -> bool {
        let (mut count, mut is_short) = (0, true);
        for name in names(fields) {
            count += 1;
            is_short &= name.len() <= CACHE_TAG_BYTES_MAX;
        }
        is_short && count <= CACHE_TAGS_MAX
    }

    /// Returns the memory that it accounts for, in bytes: its own, and that of its place in the index.
    pub fn memory_bytes(&self) -> usize {
        allocated_shared(self.0.len()) + INDEX_BYTES
    }
}

/// The approximate size of an index entry for the tag of a single response, in bytes: its slot in a table that grows, and a
/// set of one key.
const INDEX_BYTES: usize = 192;

fn names(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    fields.iter().flat_map(|(name, value)| {
        let with_commas = name.eq_ignore_ascii_case(b"cache-tag").then_some(value);
        let with_spaces = name.eq_ignore_ascii_case(b"surrogate-key").then_some(value);
        with_commas.into_iter().flat_map(list).chain(
            with_spaces
                .into_iter()
                .flat_map(|value| value.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty())),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_fields_name_tags() {
        let mut fields = Fields::new();
        fields.push(b"Cache-Tag", b"post-1, front page ,,").unwrap();
        fields.push(b"surrogate-key", b"post-1  a,b ").unwrap();
        fields.push(b"cache-tag", b"z").unwrap();
        let expected = ["a,b", "front page", "post-1", "z"].map(|name| CacheTag::new(name.as_bytes()));
        assert_eq!(*CacheTag::all_of(&fields), expected);
        assert!(CacheTag::are_bounded(&fields));
        assert!(CacheTag::all_of(&Fields::new()).is_empty());
    }

    #[test]
    fn too_many_or_too_long_tags_are_noticed() {
        let mut fields = Fields::new();
        fields.push(b"Cache-Tag", &vec![b'a'; CACHE_TAG_BYTES_MAX + 1]).unwrap();
        assert!(!CacheTag::are_bounded(&fields));
        let many: Vec<String> = (0..=CACHE_TAGS_MAX).map(|n| n.to_string()).collect();
        fields.set(b"Cache-Tag", many.join(",").as_bytes()).unwrap();
        assert!(!CacheTag::are_bounded(&fields));
    }
}
