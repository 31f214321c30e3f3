//! The header fields of a response, stored in the form in which they are sent.
//!
//! The contents are always valid, so a script cannot inject a line. The order is kept. Fields are not interpreted;
//! [`encode`](super::encode) decides which fields belong to the server.

use std::fmt;

use memchr::memchr;

use super::token::{decimal, is_token, is_value_byte, trim_ows};
use crate::allocation::allocated;

/// An ordered list of fields, stored as `Name: value` lines with their line ends.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    lines: Vec<u8>,
}

/// Enough for the fields of most responses.
const USUAL_BYTES: usize = 224;

/// Why a field was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidField {
    /// The name is empty or contains an invalid byte.
    Name,
    /// The value contains a control character other than a tab.
    Value,
}

impl Fields {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self { lines: Vec::new() }
    }

    /// Appends a field; white space around the value is removed.
    ///
    /// # Errors
    ///
    /// If the name is not a token, or the value contains a control character. Nothing was appended then.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidField> {
        let value = checked(name, value)?;
        self.append(name, value);
        Ok(())
    }

    /// Appends a field that has been checked.
    fn append(&mut self, name: &[u8], value: &[u8]) {
        let length = name.len() + value.len() + 4;
        // Most responses fit into the first allocation.
        self.lines.reserve(if self.lines.capacity() == 0 { length.max(USUAL_BYTES) } else { length });
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// Replaces all fields of this name (case-insensitive) with one.
    ///
    /// # Errors
    ///
    /// As for [`push`](Self::push). Nothing was removed then.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidField> {
        let value = checked(name, value)?;
        self.remove(name);
        self.append(name, value);
        Ok(())
    }

    /// Appends one of the server's fields, which are valid by construction; see [`push`](Self::push).
    ///
    /// An invalid one is a bug: debug builds panic, and release builds leave the field out.
    pub fn push_own(&mut self, name: &'static [u8], value: &[u8]) {
        let pushed = self.push(name, value);
        debug_assert!(pushed.is_ok(), "the server's own field {}", name.escape_ascii());
    }

    /// Replaces all fields of this name with one of the server's; see [`push_own`](Self::push_own).
    pub fn set_own(&mut self, name: &'static [u8], value: &[u8]) {
        let set = self.set(name, value);
        debug_assert!(set.is_ok(), "the server's own field {}", name.escape_ascii());
    }

    /// Removes all fields of this name (case-insensitive).
    pub fn remove(&mut self, name: &[u8]) {
        while let Some((start, line)) = self.find(name) {
            self.lines.drain(start..start + line.length);
        }
    }

    /// Returns unused memory. For fields that are kept.
    pub fn shrink_to_fit(&mut self) {
        self.lines.shrink_to_fit();
    }

    /// Returns the memory that the fields take.
    pub fn memory_bytes(&self) -> usize {
        allocated(self.lines.capacity())
    }

    /// Removes all fields and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    /// Returns the value of the first field of this name (case-insensitive).
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.find(name).map(|(_, line)| line.value)
    }

    /// Finds the first field of this name, a token (case-insensitive), and where its line begins.
    fn find(&self, name: &[u8]) -> Option<(usize, Line<'_>)> {
        let mut start = 0;
        loop {
            let lines = &self.lines[start..];
            // Other lines are skipped one after another: a response has few fields, and short ones.
            let is_named =
                lines.get(name.len()) == Some(&b':') && lines[..name.len()].eq_ignore_ascii_case(name);
            if is_named {
                return Line::first_of(lines).map(|line| (start, line));
            }
            start += memchr(b'\r', lines)? + 2;
        }
    }

    /// Returns whether there is a field of this name (case-insensitive).
    pub fn contains(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// Parses `Content-Length`, if there is one and it is a number.
    pub fn content_length(&self) -> Option<u64> {
        self.get(b"content-length").and_then(decimal)
    }

    /// Iterates over the fields in order, as name and value.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.lines }
    }

    /// Iterates over the fields in order, as name and line, line end included.
    pub fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.as_bytes();
        std::iter::from_fn(move || {
            let line = Line::first_of(rest)?;
            let (whole, next) = rest.split_at(line.length);
            rest = next;
            Some((line.name, whole))
        })
    }

    /// Returns all lines as they are sent, without the empty line that ends the header.
    pub fn as_bytes(&self) -> &[u8] {
        &self.lines
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.iter()
                    .map(|(name, value)| (String::from_utf8_lossy(name), String::from_utf8_lossy(value))),
            )
            .finish()
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An iterator over [`Fields`], in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let line = Line::first_of(self.rest)?;
        self.rest = &self.rest[line.length..];
        Some((line.name, line.value))
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "field name is not a token (allowed: letters, digits and !#$%&'*+-.^_`|~)",
            Self::Value => "field value contains a control character",
        })
    }
}

impl std::error::Error for InvalidField {}

struct Line<'a> {
    name: &'a [u8],
    value: &'a [u8],
    length: usize,
}

impl<'a> Line<'a> {
    /// Parses the first line. Every stored line contains a colon, and its only CR is the one that ends it.
    fn first_of(lines: &'a [u8]) -> Option<Self> {
        let end = memchr(b'\r', lines)?;
        let colon = memchr(b':', &lines[..end])?;
        Some(Self { name: &lines[..colon], value: &lines[colon + 2..end], length: end + 2 })
    }
}

fn checked<'a>(name: &[u8], value: &'a [u8]) -> Result<&'a [u8], InvalidField> {
    if !is_token(name) {
        return Err(InvalidField::Name);
    }
    // Without an early return, so that the loop is vectorized.
    if !value.iter().fold(true, |is_valid, &byte| is_valid & is_value_byte(byte)) {
        return Err(InvalidField::Value);
    }
    Ok(trim_ows(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Fields {
        let mut fields = Fields::new();
        fields.push(b"Content-Type", b" text/html \t").unwrap();
        fields.push(b"Set-Cookie", b"a=1").unwrap();
        fields.push(b"X-Empty", b"").unwrap();
        fields.push(b"set-cookie", b"b: 2").unwrap();
        fields
    }

    #[test]
    fn lines_are_kept_in_order_and_trimmed() {
        let expected: &[u8] =
            b"Content-Type: text/html\r\nSet-Cookie: a=1\r\nX-Empty: \r\nset-cookie: b: 2\r\n";
        assert_eq!(sample().as_bytes(), expected);
    }

    #[test]
    fn names_match_in_any_letter_case() {
        let fields = sample();
        assert_eq!(fields.get(b"content-TYPE"), Some(&b"text/html"[..]));
        assert_eq!(fields.get(b"x-empty"), Some(&b""[..]));
        assert!(!fields.contains(b"x-emp"));
        let cookies: Vec<_> =
            fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"SET-COOKIE")).collect();
        assert_eq!(cookies, [(&b"Set-Cookie"[..], &b"a=1"[..]), (b"set-cookie", b"b: 2")]);
    }

    #[test]
    fn set_replaces_all_and_remove_removes_all() {
        let mut fields = sample();
        fields.set(b"SET-COOKIE", b"c=3").unwrap();
        assert_eq!(fields.as_bytes(), b"Content-Type: text/html\r\nX-Empty: \r\nSET-COOKIE: c=3\r\n");
        for name in [&b"set-cookie"[..], b"x-empty", b"content-type", b"absent"] {
            fields.remove(name);
        }
        assert!(fields.is_empty());
    }

    #[test]
    fn a_value_cannot_inject_a_line() {
        let mut fields = Fields::new();
        for value in [&b"a\r\nX: y"[..], b"a\n", b"\r", b"a\0b", b"\x01", b"a\x0b", b"\x1b[1m", b"a\x7f"] {
            assert_eq!(fields.push(b"X", value), Err(InvalidField::Value));
        }
        for name in [&b""[..], b"a b", b"a:", b"a\r\n", b" a", b"\xff"] {
            assert_eq!(fields.push(name, b""), Err(InvalidField::Name));
        }
        assert!(fields.is_empty());
    }

    #[test]
    fn a_refused_set_changes_nothing() {
        let mut fields = sample();
        let before = fields.clone();
        assert_eq!(fields.set(b"content-type", b"a\nb"), Err(InvalidField::Value));
        assert_eq!(fields, before);
    }

    #[test]
    fn the_servers_own_fields_are_pushed_and_set() {
        let mut fields = sample();
        fields.push_own(b"Set-Cookie", b"c=3");
        fields.set_own(b"X-Empty", b"full");
        fields.set_own(b"set-cookie", b"d=4");
        assert_eq!(fields.as_bytes(), b"Content-Type: text/html\r\nX-Empty: full\r\nset-cookie: d=4\r\n");
    }

    #[test]
    #[should_panic(expected = "the server's own field X-Bad")]
    #[cfg(debug_assertions)]
    fn an_invalid_field_of_the_servers_own_is_a_bug() {
        sample().push_own(b"X-Bad", b"a\r\nb");
    }

    #[test]
    fn content_length_is_read_when_it_is_a_number() {
        let mut fields = Fields::new();
        assert_eq!(fields.content_length(), None);
        fields.set(b"content-length", b"12").unwrap();
        assert_eq!(fields.content_length(), Some(12));
        fields.set(b"Content-Length", b"-1").unwrap();
        assert_eq!(fields.content_length(), None);
    }
}
