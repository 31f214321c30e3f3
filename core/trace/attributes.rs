//! The attributes of spans, events and links.
//!
//! Keys are unique. OpenTelemetry's limits apply, and dropped attributes are counted. The meaning of a key is not known
//! here.

use std::borrow::Cow;

use svc_types::AttributeValue;

use crate::config::AttributeLimits;

/// A list of attributes in insertion order, and the number of dropped attributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    entries: Vec<Attribute>,
    dropped: u32,
}

/// One attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The key.
    pub key: Cow<'static, str>,
    /// The value.
    pub value: AttributeValue,
}

impl Attributes {
    /// Creates an empty list with room for `capacity` attributes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), dropped: 0 }
    }

    /// Reserves room for `count` more attributes.
    pub fn reserve(&mut self, count: usize) {
        self.entries.reserve(count);
    }

    /// Sets an attribute. Replaces the value of an existing key; drops and counts a new one beyond the limit.
    pub fn set(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        value: impl Into<AttributeValue>,
        limits: &AttributeLimits,
    ) {
        let (key, value) = (key.into(), value.into());
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.value = value.truncated(limits.value_chars),
            None => self.add(key, value, limits),
        }
    }

    /// Appends an attribute without searching for its key, which must not be in the list yet. Drops it beyond the
    /// limit.
    pub fn add(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        value: impl Into<AttributeValue>,
        limits: &AttributeLimits,
    ) {
        let key = key.into();
        debug_assert!(self.get(&key).is_none(), "{key} twice");
        if self.entries.len() < limits.count {
            self.entries.push(Attribute { key, value: value.into().truncated(limits.value_chars) });
        } else {
            self.add_dropped(1);
        }
    }

    /// Removes an attribute if present.
    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key != key);
    }

    /// Adds to the count of dropped attributes.
    pub fn add_dropped(&mut self, count: u32) {
        self.dropped = self.dropped.saturating_add(count);
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&AttributeValue> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the attributes and drops the list.
    pub fn into_entries(self) -> Vec<Attribute> {
        self.entries
    }

    /// Iterates over the attributes.
    pub fn iter(&self) -> std::slice::Iter<'_, Attribute> {
        self.entries.iter()
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of dropped attributes.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

impl<'a> IntoIterator for &'a Attributes {
    type Item = &'a Attribute;
    type IntoIter = std::slice::Iter<'a, Attribute>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: AttributeLimits = AttributeLimits { count: 2, value_chars: Some(3) };

    #[test]
    fn a_key_is_there_once_and_its_last_value_stands() {
        let mut attributes = Attributes::default();
        attributes.set("a", 1_i64, &FEW);
        attributes.set("b", true, &FEW);
        attributes.set("a", "text", &FEW);
        let keys: Vec<&str> = attributes.iter().map(|entry| &*entry.key).collect();
        assert_eq!(keys, ["a", "b"]);
        assert_eq!(attributes.get("a"), Some(&AttributeValue::Text("tex".into())));
        assert_eq!(attributes.dropped(), 0);
    }

    #[test]
    fn beyond_the_limit_new_ones_are_dropped_and_counted() {
        let mut attributes = Attributes::with_capacity(4);
        for key in ["a", "b", "c", "d"] {
            attributes.set(key, 0_i64, &FEW);
        }
        attributes.set("b", 1_i64, &FEW);
        assert_eq!((attributes.len(), attributes.dropped()), (2, 2));
        assert_eq!(attributes.get("b"), Some(&AttributeValue::Int(1)));
        attributes.add("e", 1_i64, &AttributeLimits { count: 0, value_chars: None });
        assert_eq!(attributes.dropped(), 3);
    }
}
