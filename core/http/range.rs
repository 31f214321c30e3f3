//! Byte ranges: parses `Range`, selects the parts to send, and writes part headers.
//!
//! Parts are inside the representation and not empty. No two of them overlap or nearly touch (ranges closer to each
//! other than the size of a part header are merged), and they keep the order of the request. A request therefore cannot
//! cause more bytes to be sent than there are, nor more than [`RANGES_MAX`] parts. Units other than bytes, and fields
//! that do not follow the grammar, are ignored, as RFC 9110 section 14.2 requires.

use std::ops::Range;

use super::token::list;
use crate::limits::RANGES_MAX;

/// The parts of a representation that a request selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeSelection {
    /// All of it; the status is 200.
    Whole,
    /// One part; the status is 206.
    Part(Range<u64>),
    /// Several parts; the status is 206, with all parts in one body.
    Parts(Vec<Range<u64>>),
    /// No existing bytes; the status is 416.
    Unsatisfiable,
}

/// Parts closer to each other than this number of bytes are merged, because a part header is longer.
const GAP_BYTES_MAX: u64 = 80;

/// Parses the `Range` fields of a request for a representation of `length` bytes.
pub fn select<'a>(fields: impl IntoIterator<Item = &'a [u8]>, length: u64) -> RangeSelection {
    let mut fields = fields.into_iter();
    // `Range` is not a list field, so a repeated one does not follow the grammar.
    let (Some(value), None) = (fields.next(), fields.next()) else { return RangeSelection::Whole };
    let Some(asked) = parse(value, length) else { return RangeSelection::Whole };
    if asked.is_empty() {
        return RangeSelection::Unsatisfiable;
    }
    let mut parts = merged(asked);
    if parts.len() > 1 {
        return RangeSelection::Parts(parts);
    }
    parts.pop().map_or(RangeSelection::Whole, RangeSelection::Part)
}

/// Writes the value of `Content-Range` for a part of a representation of `length` bytes.
pub fn content_range(part: &Range<u64>, length: u64) -> String {
    debug_assert!(part.start < part.end && part.end <= length, "{part:?} of {length}");
    format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1))
}

/// Writes the value of `Content-Range` for a 416 response.
pub fn unsatisfied_range(length: u64) -> String {
    format!("bytes */{length}")
}

/// Writes the part header that precedes the bytes of one of several parts.
pub fn part_head(
    boundary: &str,
    content_type: &str,
    part: &Range<u64>,
    length: u64,
    is_first: bool,
) -> String {
    let line_end = if is_first { "" } else { "\r\n" };
    let range = content_range(part, length);
    format!("{line_end}--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n")
}

/// Writes the delimiter that follows the last of several parts.
pub fn parts_end(boundary: &str) -> String {
    format!("\r\n--{boundary}--\r\n")
}

/// Parses a set of ranges and drops those without existing bytes. Returns `None` if the set must be ignored.
fn parse(value: &[u8], length: u64) -> Option<Vec<Range<u64>>> {
    let equals = value.iter().position(|&byte| byte == b'=')?;
    let (unit, set) = (&value[..equals], &value[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut parts = Vec::new();
    let mut seen = 0;
    for member in list(set) {
        seen += 1;
        if seen > RANGES_MAX {
            return None;
        }
        match spec(member)? {
            // A suffix of an empty file is the whole file, which no part can express.
            Spec::Last(count) if count > 0 && length == 0 => return None,
            Spec::Last(0) => {}
            Spec::Last(count) => parts.push(length.saturating_sub(count)..length),
            Spec::From(first, _) if first >= length => {}
            Spec::From(first, last) => parts.push(first..length.min(last.saturating_add(1))),
        }
    }
    (seen > 0).then_some(parts)
}

/// One range, as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    /// From the first to the last of these positions.
    From(u64, u64),
    /// This number of bytes at the end.
    Last(u64),
}

fn spec(member: &[u8]) -> Option<Spec> {
    let dash = member.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    match (first, last) {
        ([], last) => place(last).map(Spec::Last),
        (first, []) => place(first).map(|first| Spec::From(first, u64::MAX)),
        (first, last) => {
            let (first, last) = (place(first)?, place(last)?);
            // Two numbers that are too large both became the maximum, which counts as ascending.
            (first <= last).then_some(Spec::From(first, last))
        }
    }
}

/// Parses digits. A number that is too large becomes the maximum, because it lies beyond the end in either case.
fn place(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

/// Merges parts that overlap, touch or nearly touch. A merged part takes the position of the piece requested first.
fn merged(asked: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut by_start: Vec<(usize, Range<u64>)> = asked.into_iter().enumerate().collect();
    by_start.sort_by_key(|(_, part)| part.start);
    let mut joined: Vec<(usize, Range<u64>)> = Vec::with_capacity(by_start.len());
    for (order, part) in by_start {
        match joined.last_mut() {
            Some((first, last)) if part.start <= last.end.saturating_add(GAP_BYTES_MAX) => {
                *first = order.min(*first);
                last.end = last.end.max(part.end);
            }
            _ => joined.push((order, part)),
        }
    }
    joined.sort_by_key(|(order, _)| *order);
    joined.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Shows the selection of 10,000 bytes.
    fn of_ten_thousand(value: &str) -> String {
        shown(&select([value.as_bytes()], 10_000))
    }

    fn shown(selection: &RangeSelection) -> String {
        let part = |part: &Range<u64>| format!("{}-{}", part.start, part.end - 1);
        match selection {
            RangeSelection::Whole => "whole".into(),
            RangeSelection::Unsatisfiable => "none".into(),
            RangeSelection::Part(range) => part(range),
            RangeSelection::Parts(parts) => parts.iter().map(part).collect::<Vec<_>>().join(","),
        }
    }

    #[test]
    fn the_examples_of_the_standard_give_its_results() {
        for (value, expected) in [
            ("bytes=0-499", "0-499"),
            ("bytes=500-999", "500-999"),
            ("bytes=-500", "9500-9999"),
            ("bytes=9500-", "9500-9999"),
            ("bytes=0-0,-1", "0-0,9999-9999"),
            ("bytes= 0-999, 4500-5499, -1000", "0-999,4500-5499,9000-9999"),
            ("bytes=500-600,601-999", "500-999"),
            ("bytes=500-700,601-999", "500-999"),
        ] {
            assert_eq!(of_ten_thousand(value), expected, "{value}");
        }
    }

    #[test]
    fn ends_behind_the_end_are_cut() {
        for (value, expected) in [
            ("bytes=0-10000", "0-9999"),
            ("bytes=9999-", "9999-9999"),
            ("bytes=9999-99999999999999999999999", "9999-9999"),
            ("bytes=-10000", "0-9999"),
            ("bytes=-20000", "0-9999"),
            ("bytes=-99999999999999999999999", "0-9999"),
            ("BYTES=0-", "0-9999"),
        ] {
            assert_eq!(of_ten_thousand(value), expected, "{value}");
        }
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable() {
        for value in [
            "bytes=10000-",
            "bytes=10000-10001",
            "bytes=-0",
            "bytes=-0,10000-",
            "bytes=99999999999999999999999-",
            "bytes=18446744073709551615-18446744073709551615",
        ] {
            assert_eq!(of_ten_thousand(value), "none", "{value}");
        }
        assert_eq!(of_ten_thousand("bytes=20000-,0-1"), "0-1", "one that is there is enough");
        assert_eq!(select([&b"bytes=0-"[..]], 0), RangeSelection::Unsatisfiable);
        assert_eq!(select([&b"bytes=-5"[..]], 0), RangeSelection::Whole);
    }

    #[test]
    fn invalid_ranges_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=--1",
            "bytes=5",
            "bytes=5-4",
            "bytes=0-1,5-4",
            "bytes=a-b",
            "bytes=0-b",
            "bytes=0x0-1",
            "bytes=+0-1",
            "bytes=0 -1",
            "bytes=0- 1",
            "bytes=0-1;2-3",
            "bytes =0-1",
            " bytes=0-1",
            "items=0-1",
            "bytes 0-1",
            "bytes=0-1-2",
            "bytes=0-1 2-3",
            "bytes=\u{ff11}-2",
        ] {
            assert_eq!(of_ten_thousand(value), "whole", "{value:?}");
        }
        assert_eq!(select([&b"bytes=0-1"[..], b"bytes=2-3"], 10), RangeSelection::Whole, "twice");
        assert_eq!(select([], 10), RangeSelection::Whole);
    }

    #[test]
    fn empty_members_are_skipped() {
        assert_eq!(of_ten_thousand("bytes=,0-0 ,, 500-501,"), "0-0,500-501");
    }

    #[test]
    fn parts_keep_their_order_and_do_not_share_bytes() {
        for (value, expected) in [
            ("bytes=9000-,0-9", "9000-9999,0-9"),
            ("bytes=5000-5009,0-9,5005-5020", "5000-5020,0-9"),
            ("bytes=0-9,9000-9009,5-20", "0-20,9000-9009"),
            ("bytes=0-,0-,0-,0-", "0-9999"),
            ("bytes=0-9,0-,5-7", "0-9999"),
            ("bytes=1-1,3-3,5-5,7-7", "1-7"),
            ("bytes=0-0,81-81", "0-81"),
            ("bytes=0-0,82-82", "0-0,82-82"),
        ] {
            assert_eq!(of_ten_thousand(value), expected, "{value}");
        }
    }

    #[test]
    fn too_many_ranges_are_ignored_together() {
        let set = |count: usize| {
            let members: Vec<_> = (0..count).map(|place| format!("{0}-{0}", place * 100)).collect();
            format!("bytes={}", members.join(","))
        };
        assert!(matches!(select([set(RANGES_MAX).as_bytes()], 10_000), RangeSelection::Parts(parts)
            if parts.len() == RANGES_MAX));
        assert_eq!(of_ten_thousand(&set(RANGES_MAX + 1)), "whole");
    }

    proptest! {
        #[test]
        fn every_requested_byte_is_sent_once(
            asked in prop::collection::vec((0_u64..3000, 0_u64..600), 1..20),
            length in 1_u64..3000,
        ) {
            let set: Vec<_> = asked.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
            let selection = select([format!("bytes={}", set.join(",")).as_bytes()], length);
            let parts = match selection {
                RangeSelection::Part(part) => vec![part],
                RangeSelection::Parts(parts) => parts,
                RangeSelection::Unsatisfiable => Vec::new(),
                RangeSelection::Whole => panic!("{set:?} follows the grammar"),
            };
            let is_given = |place: u64| parts.iter().filter(|part| part.contains(&place)).count();
            for place in 0..length {
                let is_asked = asked.iter().any(|(first, more)| (*first..=first + more).contains(&place));
                prop_assert!(is_given(place) <= 1, "{place} twice in {parts:?}");
                prop_assert!(!is_asked || is_given(place) == 1, "{place} is not in {parts:?}");
            }
            let first_asked = asked.iter().map(|(first, _)| *first).find(|first| *first < length);
            if let (Some(first), Some(part)) = (first_asked, parts.first()) {
                prop_assert!(part.contains(&first), "the first that was asked for comes first");
            }
        }
    }

    #[test]
    fn parts_are_written_with_their_places() {
        assert_eq!(content_range(&(0..1), 10), "bytes 0-0/10");
        assert_eq!(unsatisfied_range(10), "bytes */10");
        let head = part_head("B", "text/plain", &(2..5), 10, true);
        assert_eq!(head, "--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 2-4/10\r\n\r\n");
        assert!(part_head("B", "text/plain", &(7..9), 10, false).starts_with("\r\n--B\r\n"));
        assert_eq!(parts_end("B"), "\r\n--B--\r\n");
    }
}
