//! Request IDs, taken from the client if well-formed and generated otherwise, and the IDs that place a request in a trace.
//!
//! Generated IDs have 32 hexadecimal digits and do not repeat. They are not secret; others can be guessed from a few of
//! them.

use std::hash::{BuildHasher, Hasher, RandomState};

use svc_core::http::FreshIds;
use svc_core::pool::RequestId;

/// The longest request ID accepted from a client, in bytes.
const CLIENT_ID_BYTES_MAX: usize = 128;

/// Generates the IDs of one I/O thread: a random number drawn when the thread starts, and a sequence number.
#[derive(Debug)]
pub(crate) struct RequestIds {
    thread: u64,
    next: u64,
}

impl RequestIds {
    /// Seeds the generator from the system's randomness.
    pub(crate) fn new() -> Self {
        let draw = || RandomState::new().build_hasher().finish();
        Self { thread: draw(), next: draw() }
    }

    /// Returns the ID of a request whose client sent `requested` as its ID.
    pub(crate) fn name(&mut self, requested: Option<&[u8]>) -> RequestId {
        match requested.and_then(well_formed) {
            Some(requested) => requested.into(),
            None => self.new_id(),
        }
    }

    /// Generates the IDs that place a request in a trace.
    pub(crate) fn for_trace(&mut self) -> FreshIds {
        let [(high, low), (_, span_id)] = [self.numbers(), self.numbers()];
        FreshIds { trace_id: (u128::from(high) << 64 | u128::from(low)).max(1), span_id: span_id.max(1) }
    }

    /// Generates an ID of 32 hexadecimal digits.
    pub(crate) fn new_id(&mut self) -> RequestId {
        let (thread, mixed) = self.numbers();
        RequestId::of_numbers(thread, mixed)
    }

    /// Returns the thread's random number, and one that does not repeat on this thread.
    fn numbers(&mut self) -> (u64, u64) {
        self.next = self.next.wrapping_add(1);
        // A bijection of the sequence number: neighbours look different, and nothing repeats.
        let mut mixed = self.next;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (self.thread, mixed)
    }
}

fn well_formed(requested: &[u8]) -> Option<&str> {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:-".contains(byte);
    ((1..=CLIENT_ID_BYTES_MAX).contains(&requested.len()) && requested.iter().all(legal))
        .then(|| std::str::from_utf8(requested).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_formed_name_is_kept() {
        assert_eq!(&*RequestIds::new().name(Some(b"Ab3.x:y-_")), "Ab3.x:y-_");
    }

    #[test]
    fn other_names_are_replaced() {
        let mut ids = RequestIds::new();
        for requested in [&b""[..], b"a b", b"a\"b", "\u{e4}".as_bytes(), &[b'a'; 129]] {
            let name = ids.name(Some(requested));
            assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        }
    }

    #[test]
    fn identifiers_of_traces_differ_too() {
        let mut ids = RequestIds::new();
        let made: std::collections::HashSet<_> =
            (0..1000).map(|_| ids.for_trace()).map(|ids| (ids.trace_id, ids.span_id)).collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|(trace_id, span_id)| *trace_id != 0 && *span_id != 0));
    }

    #[test]
    fn made_names_differ() {
        let mut ids = RequestIds::new();
        let names: std::collections::HashSet<_> = (0..1000).map(|_| ids.name(None).to_string()).collect();
        assert_eq!(names.len(), 1000);
    }
}
