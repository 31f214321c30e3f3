//! W3C Trace Context: the trace that a request belongs to, and its propagation.
//!
//! A request with a valid `traceparent` joins that trace: its trace ID and flags are kept, and the span of this server
//! becomes the parent of the following spans. Any other request starts a new trace with the flags `00`. If this server
//! records spans, its sampler decides about the flag `sampled`; otherwise the flag stays as received.
//!
//! The propagated fields are valid for any input. `tracestate` is propagated only with a valid `traceparent`, in order,
//! as one line within the limits of the standard. Draws no random numbers; IDs are arguments.

use std::fmt;
use std::ops::Range;

use super::Head;
use super::token::trim_ows;
use crate::sync::primitive::Arc;

/// The position of this server's span in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    trace_id: u128,
    span_id: u64,
    parent_id: Option<u64>,
    flags: u8,
    state: Option<Arc<str>>,
    is_private: bool,
    /// Formatted once, because it is read several times for each request.
    text: Traceparent,
}

/// The text of a `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Traceparent([u8; TEXT_BYTES]);

/// Unique IDs; neither is 0.
#[derive(Clone, Copy, Debug)]
pub struct FreshIds {
    /// The trace ID for a request that belongs to no trace.
    pub trace_id: u128,
    /// The ID of this server's span.
    pub span_id: u64,
}

/// The contents of a valid `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl Trace {
    /// Joins the trace that the request belongs to, or starts a new one.
    pub fn of(head: &Head, fresh: FreshIds) -> Self {
        debug_assert!(fresh.trace_id != 0 && fresh.span_id != 0, "0 means that there is none");
        let mut parents = head.header_values("traceparent");
        let parent = match (parents.next(), parents.next()) {
            (Some(line), None) => parent(line),
            _ => None,
        };
        match parent {
            Some(Parent { trace_id, span_id, flags }) => Self {
                parent_id: Some(span_id),
                state: state(head.header_values("tracestate")),
                ..Self::new(trace_id, fresh.span_id, flags)
            },
            None => Self::begin(fresh),
        }
    }

    /// Starts a new trace, ignoring the request's fields.
    pub fn begin(fresh: FreshIds) -> Self {
        Self::new(fresh.trace_id, fresh.span_id, 0)
    }

    fn new(trace_id: u128, span_id: u64, flags: u8) -> Self {
        let text = Traceparent::new(trace_id, span_id, flags);
        Self { trace_id, span_id, parent_id: None, flags, state: None, is_private: false, text }
    }

    /// Returns the trace ID.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// Returns the ID of this server's span.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Returns the ID of the span that made the request; `None` if the trace begins here.
    pub fn parent_id(&self) -> Option<u64> {
        self.parent_id
    }

    /// Returns the flags.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Returns whether the trace is recorded, according to the decisions so far.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Sets whether the trace is recorded.
    pub fn decide(&mut self, is_sampled: bool) {
        self.flags = self.flags & !SAMPLED | if is_sampled { SAMPLED } else { 0 };
        self.text.set_flags(self.flags);
    }

    /// Keeps the trace out of header fields, which are then propagated as received.
    pub fn keep_private(&mut self) {
        self.is_private = true;
    }

    /// Returns whether header fields omit this server's trace.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// Returns the `traceparent` to propagate.
    pub fn traceparent(&self) -> &Traceparent {
        &self.text
    }

    /// Returns the `tracestate` to propagate.
    pub fn tracestate(&self) -> Option<&Arc<str>> {
        self.state.as_ref()
    }
}

impl Traceparent {
    /// Formats a `traceparent`.
    pub fn new(trace_id: u128, span_id: u64, flags: u8) -> Self {
        let mut text = *b"00-................................-................-..";
        put_hex(&mut text[TRACE_ID], &trace_id.to_be_bytes());
        put_hex(&mut text[SPAN_ID], &span_id.to_be_bytes());
        put_hex(&mut text[FLAGS], &[flags]);
        Self(text)
    }

    /// Returns the flags.
    pub fn flags(&self) -> u8 {
        let digits = str::from_utf8(&self.0[FLAGS]).ok();
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or_default()
    }

    fn set_flags(&mut self, flags: u8) {
        put_hex(&mut self.0[FLAGS], &[flags]);
    }

    /// Returns the digits of the trace ID.
    pub fn trace_id(&self) -> &[u8] {
        &self.0[TRACE_ID]
    }

    /// Returns the digits of the span ID.
    pub fn span_id(&self) -> &[u8] {
        &self.0[SPAN_ID]
    }

    /// Returns its bytes, which are ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.0).unwrap_or_default())
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats bytes as hexadecimal digits; hand-written, because it runs for every request.
fn put_hex(digits: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]);
    }
}

/// The length of a `traceparent`.
const TEXT_BYTES: usize = 55;

/// The positions of its parts.
const TRACE_ID: Range<usize> = 3..35;
const SPAN_ID: Range<usize> = 36..52;
const FLAGS: Range<usize> = 53..55;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 0b01;

/// The known flags: sampled and random trace ID. Unknown flags are not propagated.
const KNOWN_FLAGS: u8 = 0b11;

/// The maximum number of members in a `tracestate`.
const MEMBERS_MAX: usize = 32;

/// The maximum length of a propagated `tracestate`, in bytes.
const STATE_BYTES_MAX: usize = 512;

/// Members longer than this number of bytes are dropped first if a `tracestate` is too long.
const LONG_MEMBER_BYTES: usize = 128;

/// The maximum lengths of the key and of the value of a member.
const WORD_BYTES_MAX: usize = 256;

/// Parses a `traceparent`. Later versions may append data, but the known part keeps its position.
fn parent(line: &[u8]) -> Option<Parent> {
    let (known, more) = line.split_at_checked(TEXT_BYTES)?;
    let [version, trace_id, span_id, flags] = [&known[..2], &known[TRACE_ID], &known[SPAN_ID], &known[FLAGS]];
    if [2, 35, 52].iter().any(|&dash| known[dash] != b'-') {
        return None;
    }
    match hex(version)? {
        0xff => return None,
        0 if !more.is_empty() => return None,
        _ if !matches!(more, [] | [b'-', ..]) => return None,
        _ => {}
    }
    let flags = u8::try_from(hex(flags)?).ok()? & KNOWN_FLAGS;
    let (trace_id, span_id) = (hex(trace_id)?, u64::try_from(hex(span_id)?).ok()?);
    (trace_id != 0 && span_id != 0).then_some(Parent { trace_id, span_id, flags })
}

/// Parses hexadecimal digits; uppercase letters are invalid.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

/// Joins the lines of a `tracestate`. Returns `None` if it is empty, has too many members or a malformed one.
fn state<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Arc<str>> {
    let members = lines.flat_map(|line| line.split(|&byte| byte == b',')).map(trim_ows);
    let mut kept = Vec::new();
    for member in members.filter(|member| !member.is_empty()) {
        if kept.len() == MEMBERS_MAX || !is_member(member) {
            return None;
        }
        kept.push(member);
    }
    let length =
        |members: &[&[u8]]| members.iter().map(|member| member.len() + 1).sum::<usize>().saturating_sub(1);
    while length(&kept) > STATE_BYTES_MAX {
        // The oldest members are on the right. Long ones are dropped before all others.
        let long = kept.iter().rposition(|member| member.len() > LONG_MEMBER_BYTES);
        kept.remove(long.unwrap_or(kept.len() - 1));
    }
    // A member consists of printable ASCII.
    (!kept.is_empty()).then(|| Arc::from(String::from_utf8_lossy(&kept.join(&b',')).as_ref()))
}

fn is_member(member: &[u8]) -> bool {
    let Some(equals) = memchr::memchr(b'=', member) else { return false };
    let (key, value) = (&member[..equals], &member[equals + 1..]);
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_key = |byte: &u8| is_letter(byte) || b"_-*/@".contains(byte);
    let is_value = |byte: &u8| matches!(byte, b' '..=b'~') && !b",=".contains(byte);
    (1..=WORD_BYTES_MAX).contains(&key.len())
        && (1..=WORD_BYTES_MAX).contains(&value.len())
        && is_letter(&key[0])
        && key.iter().all(is_key)
        && value.iter().all(is_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const FRESH: FreshIds = FreshIds { trace_id: 0xabc, span_id: 0xdef };

    fn trace(fields: &str) -> Trace {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        match parse(text.as_bytes(), HeadLimits::main_port()) {
            Ok(Parsed::Complete { head, .. }) => Trace::of(&head, FRESH),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn with(traceparent: &str) -> String {
        trace(&format!("Traceparent: {traceparent}\r\n")).traceparent().to_string()
    }

    fn state_of(fields: &str) -> Option<String> {
        let parent = format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n");
        trace(&(parent + fields)).tracestate().map(ToString::to_string)
    }

    const BEGUN: &str = "00-00000000000000000000000000000abc-0000000000000def-00";

    #[test]
    fn a_request_without_a_trace_begins_an_unsampled_one() {
        let begun = trace("tracestate: a=1\r\n");
        assert_eq!((begun.traceparent().to_string().as_str(), begun.tracestate()), (BEGUN, None));
        assert_eq!(begun.traceparent().trace_id(), b"00000000000000000000000000000abc");
        assert_eq!(begun.traceparent().span_id(), b"0000000000000def");
        assert_eq!((begun.parent_id(), begun.is_sampled()), (None, false));
    }

    #[test]
    fn a_valid_trace_is_joined_with_a_span_of_our_own() {
        for (came, flags) in [("00", "00"), ("01", "01"), ("03", "03"), ("ff", "03"), ("04", "00")] {
            let joined = with(&format!("00-{TRACE}-b7ad6b7169203331-{came}"));
            assert_eq!(joined, format!("00-{TRACE}-0000000000000def-{flags}"));
        }
    }

    #[test]
    fn the_parent_is_known_and_the_decision_changes_one_flag() {
        let mut joined = trace(&format!("traceparent: 00-{TRACE}-b7ad6b7169203331-03\r\n"));
        assert_eq!((joined.parent_id(), joined.is_sampled()), (Some(0xb7ad_6b71_6920_3331), true));
        joined.decide(false);
        assert_eq!((joined.flags(), joined.is_sampled()), (0b10, false));
        joined.decide(true);
        assert_eq!(joined.flags(), 0b11);
        assert_eq!(Trace::begin(FRESH).traceparent().to_string(), BEGUN);
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        let known = format!("{TRACE}-b7ad6b7169203331-01");
        let joined = format!("00-{TRACE}-0000000000000def-01");
        for line in
            [format!("01-{known}"), format!("cc-{known}-what-the-future-brings"), format!("fe-{known}-")]
        {
            assert_eq!(with(&line), joined, "{line}");
        }
        for line in
            [format!("cc-{known}.x"), format!("ff-{known}"), format!("00-{known}-"), format!("00-{known}-x")]
        {
            assert_eq!(with(&line), BEGUN, "{line}");
        }
    }

    #[test]
    fn a_malformed_traceparent_begins_a_new_trace() {
        let zero = "0".repeat(32);
        for line in [
            String::new(),
            format!("00-{TRACE}-b7ad6b7169203331"),
            format!("00-{TRACE}-b7ad6b7169203331-0"),
            format!("00-{TRACE}-b7ad6b7169203331-0x"),
            format!("00-{TRACE}-b7ad6b716920333-011"),
            format!("00_{TRACE}-b7ad6b7169203331-01"),
            format!("0-{TRACE}-b7ad6b7169203331-011"),
            format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-B7AD6B7169203331-01"),
            format!("00-{zero}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!(".0-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-b7ad6b7169203331-01, 00-{TRACE}-b7ad6b7169203331-01"),
        ] {
            assert_eq!(with(&line), BEGUN, "{line}");
        }
        let twice = format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n").repeat(2);
        let begun = trace(&(twice + "tracestate: a=1\r\n"));
        assert_eq!((begun.traceparent().to_string().as_str(), begun.tracestate()), (BEGUN, None));
    }

    #[test]
    fn a_state_is_joined_from_its_lines() {
        assert_eq!(
            state_of("tracestate: foo=1 \t,, bar=2\r\nTracestate:\r\nTraceState: t@s=x y\r\n").unwrap(),
            "foo=1,bar=2,t@s=x y"
        );
        assert_eq!(state_of("tracestate: ,\r\n"), None);
        assert_eq!(state_of(""), None);
        assert_eq!(state_of("tracestate: foo=1,foo=1\r\n").unwrap(), "foo=1,foo=1");
    }

    #[test]
    fn a_state_with_a_malformed_member_or_too_many_is_dropped() {
        for state in ["foo", "foo=", "=1", "Foo=1", "foo@=1,f o=1", "foo=1=2", "foo=\u{e9}", "_a=1"] {
            assert_eq!(state_of(&format!("tracestate: a=1,{state}\r\n")), None, "{state}");
        }
        let key = "k".repeat(256);
        assert!(state_of(&format!("tracestate: {key}=1\r\n")).is_some());
        assert_eq!(state_of(&format!("tracestate: {key}k=1\r\n")), None);
        let members = |count| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(state_of(&format!("tracestate: {}\r\n", members(32))).unwrap(), members(32));
        assert_eq!(state_of(&format!("tracestate: {}\r\n", members(33))), None);
    }

    #[test]
    fn a_state_that_is_too_long_loses_long_members_and_then_the_last() {
        let word = |name: &str, length: usize| format!("{name}={}", "v".repeat(length - name.len() - 1));
        let members =
            [word("a", 120), word("b", 200), word("c", 120), word("d", 120), word("e", 120), word("f", 120)];
        let state = state_of(&format!("tracestate: {}\r\n", members.join(","))).unwrap();
        let kept: Vec<_> = state.split(',').map(|member| &member[..1]).collect();
        assert_eq!(kept, ["a", "c", "d", "e"]);
    }
}
