//! W3C Trace Context: the trace that a request belongs to, and what is passed on about it.
//!
//! A request with a valid `traceparent` joins that trace: its trace ID and flags are kept, and the span of this server
//! becomes the parent of what follows. Any other request starts a new trace with the flags `00`: no sampling decision
//! has been made, and this server records no spans.
//!
//! Promises: what is passed on is valid, whatever was received. `tracestate` is passed on only with a valid
//! `traceparent`, in order, as one line within the limits of the standard. Refuses: it draws no random numbers; IDs are
//! arguments.

use std::fmt;

use super::Head;
use super::token::trim_ows;

/// The position of this server's span in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Vec<u8>>,
}

/// Unique IDs; neither is 0.
#[derive(Clone, Copy, Debug)]
pub struct FreshIds {
    /// The trace ID for a request that belongs to no trace.
    pub trace_id: u128,
    /// The ID of this server's span.
    pub span_id: u64,
}

/// The contents of a valid `traceparent`; the parent's span ID is not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace_id: u128,
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
            Some(Parent { trace_id, flags }) => Self {
                trace_id,
                span_id: fresh.span_id,
                flags,
                state: state(head.header_values("tracestate")),
            },
            None => Self { trace_id: fresh.trace_id, span_id: fresh.span_id, flags: 0, state: None },
        }
    }

    /// Returns the trace ID as 32 digits.
    pub fn trace_id(&self) -> impl fmt::Display + use<> {
        Hex(self.trace_id, 32)
    }

    /// Returns the ID of this server's span as 16 digits.
    pub fn span_id(&self) -> impl fmt::Display + use<> {
        Hex(self.span_id.into(), 16)
    }

    /// Returns the `traceparent` to pass on.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id(), self.span_id(), self.flags)
    }

    /// Returns the `tracestate` to pass on.
    pub fn tracestate(&self) -> Option<&[u8]> {
        self.state.as_deref()
    }
}

/// A number in hexadecimal digits with leading zeros.
struct Hex(u128, usize);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$x}", self.0, width = self.1)
    }
}

/// The known flags: sampled and random trace ID. Unknown flags are not passed on.
const KNOWN_FLAGS: u8 = 0b11;

/// The maximum number of members in a `tracestate`.
const MEMBERS_MAX: usize = 32;

/// The maximum length of a `tracestate` that is passed on, in bytes.
const STATE_BYTES_MAX: usize = 512;

/// Members longer than this number of bytes are dropped first if a `tracestate` is too long.
const LONG_MEMBER_BYTES: usize = 128;

/// The maximum lengths of the key and of the value of a member.
const WORD_BYTES_MAX: usize = 256;

/// Parses a `traceparent`. Later versions may append data, but the known part keeps its position.
fn parent(line: &[u8]) -> Option<Parent> {
    let (known, more) = line.split_at_checked(55)?;
    let [version, trace_id, span_id, flags] = [&known[..2], &known[3..35], &known[36..52], &known[53..]];
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
    let (trace_id, span_id) = (hex(trace_id)?, hex(span_id)?);
    (trace_id != 0 && span_id != 0).then_some(Parent { trace_id, flags })
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
fn state<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
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
    (!kept.is_empty()).then(|| kept.join(&b','))
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
        trace(&format!("Traceparent: {traceparent}\r\n")).traceparent()
    }

    fn state_of(fields: &str) -> Option<String> {
        let parent = format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n");
        trace(&(parent + fields)).tracestate().map(|state| String::from_utf8(state.to_vec()).unwrap())
    }

    const BEGUN: &str = "00-00000000000000000000000000000abc-0000000000000def-00";

    #[test]
    fn a_request_without_a_trace_begins_one_that_nobody_decided_to_record() {
        let begun = trace("tracestate: a=1\r\n");
        assert_eq!((begun.traceparent().as_str(), begun.tracestate()), (BEGUN, None));
        assert_eq!(begun.trace_id().to_string(), "00000000000000000000000000000abc");
        assert_eq!(begun.span_id().to_string(), "0000000000000def");
    }

    #[test]
    fn a_valid_trace_is_joined_with_a_span_of_our_own() {
        for (came, flags) in [("00", "00"), ("01", "01"), ("03", "03"), ("ff", "03"), ("04", "00")] {
            let joined = with(&format!("00-{TRACE}-b7ad6b7169203331-{came}"));
            assert_eq!(joined, format!("00-{TRACE}-0000000000000def-{flags}"));
        }
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
    fn what_is_malformed_begins_a_new_trace() {
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
        assert_eq!((begun.traceparent().as_str(), begun.tracestate()), (BEGUN, None));
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
