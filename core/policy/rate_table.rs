//! The memory of the rate limiter: the used allowance of each client, in a table of fixed size.
//!
//! A client is identified by the hash of its address: some bits select a set, others are the tag that distinguishes the
//! clients of a set. An entry is a single word of tag and time, so that it changes atomically.
//!
//! ```text
//!   word:  63 ── tag (24) ── 40 39 ── due (40) ── 0       due: when the client's allowance is whole again
//! ```
//!
//! The usage of a client is kept unless its whole set is in use; then the entry closest to being idle is replaced, so
//! that clients over the limit are replaced last. There is no scan of the table, no lock, and no allocation after
//! startup.
//!
//! Addresses are not handled here, and no clock is read. Time is given in ticks, sixteen per request that the rate
//! allows; they may wrap.

use crate::sync::primitive::{AtomicU64, CachePadded, Ordering};

/// The ticks per request that the rate allows, that is, the resolution of the allowance.
pub const TICKS_PER_REQUEST: u64 = 16;

/// The number of clients per set; their words fill one padded cell.
const WAYS: usize = if cfg!(loom) { 2 } else { 16 };

const DUE_BITS: u32 = 40;

const DUE_MASK: u64 = (1 << DUE_BITS) - 1;

/// The entries of all clients seen recently.
///
/// # Ordering
///
/// Relaxed throughout: a word contains everything about its client and orders nothing else.
///
/// # Progress
///
/// Lock-free: a `take` that must retry lost to another one in the same set that succeeded.
#[derive(Debug)]
pub struct RateTable {
    sets: Box<[CachePadded<[RateEntry; WAYS]>]>,
    /// The maximum number of ticks that a client may be ahead.
    burst: u64,
    /// How far in the future a due time can be; a time that seems further ahead lies in the past.
    horizon: u64,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    /// The request is within the limit.
    Granted {
        /// The ticks until the full allowance is restored.
        used: u64,
    },
    /// The request exceeds the limit.
    Refused {
        /// The ticks until one request is allowed.
        wait: u64,
    },
}

/// The word of one client; 0 if unused.
#[derive(Debug)]
struct RateEntry(AtomicU64);

/// A reading of an entry.
#[derive(Clone, Copy, Debug)]
struct RateReading {
    way: usize,
    word: u64,
    /// The ticks used; 0 for an idle entry.
    used: u64,
}

impl RateTable {
    /// Creates a table with this number of sets, a power of two. A client may make `requests` at once. Clock readings
    /// of different threads may differ by `slack` ticks.
    pub fn new(sets: usize, requests: u64, slack: u64) -> Self {
        debug_assert!(sets.is_power_of_two(), "bits of the hash choose the set");
        let burst = requests * TICKS_PER_REQUEST;
        debug_assert!(burst + slack < DUE_MASK / 2, "the future must be the smaller half");
        let set = || CachePadded::new(std::array::from_fn(|_| RateEntry(AtomicU64::new(0))));
        Self { sets: (0..sets).map(|_| set()).collect(), burst, horizon: burst + slack }
    }

    /// Counts one request of a client at `now`.
    pub fn take(&self, hash: u64, now: u64) -> RateDecision {
        let set = &self.sets[(hash & (self.sets.len() as u64 - 1)) as usize];
        let tag = hash & !DUE_MASK;
        loop {
            let (found, victim) = self.lookup(set, tag, now);
            let (reading, used) = found.map_or((victim, 0), |found| (found, found.used));
            let wanted = used + TICKS_PER_REQUEST;
            if wanted > self.burst {
                return RateDecision::Refused { wait: wanted - self.burst };
            }
            let word = tag | (now.wrapping_add(wanted) & DUE_MASK);
            if set[reading.way].replace(reading.word, word) {
                return RateDecision::Granted { used: wanted };
            }
        }
    }

    /// Finds the entry of a client in its set, and the entry that would be replaced for it.
    fn lookup(&self, set: &[RateEntry; WAYS], tag: u64, now: u64) -> (Option<RateReading>, RateReading) {
        let mut victim: Option<RateReading> = None;
        for (way, entry) in set.iter().enumerate() {
            let word = entry.read();
            let ahead = word.wrapping_sub(now) & DUE_MASK;
            let used = if ahead > self.horizon { 0 } else { ahead };
            let reading = RateReading { way, word, used };
            if word & !DUE_MASK == tag && word != 0 {
                return (Some(reading), reading);
            }
            if victim.is_none_or(|victim| used < victim.used) {
                victim = Some(reading);
            }
        }
        (None, victim.unwrap_or(RateReading { way: 0, word: 0, used: 0 }))
    }
}

impl RateEntry {
    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn replace(&self, seen: u64, word: u64) -> bool {
        self.0.compare_exchange(seen, word, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a hash that falls into the only set, with this tag.
    fn client(tag: u64) -> u64 {
        tag << DUE_BITS
    }

    fn is_granted(table: &RateTable, hash: u64, now: u64) -> bool {
        matches!(table.take(hash, now), RateDecision::Granted { .. })
    }

    #[test]
    fn a_burst_is_granted_and_then_one_request_at_a_time() {
        let table = RateTable::new(1, 3, 0);
        let used: Vec<_> = (0..3).map(|_| table.take(client(1), 100)).collect();
        assert_eq!(used, [16, 32, 48].map(|used| RateDecision::Granted { used }));
        assert_eq!(table.take(client(1), 100), RateDecision::Refused { wait: 16 });
        assert_eq!(table.take(client(1), 115), RateDecision::Refused { wait: 1 });
        assert_eq!(table.take(client(1), 116), RateDecision::Granted { used: 48 });
        assert_eq!(table.take(client(1), 116), RateDecision::Refused { wait: 16 });
        assert_eq!(table.take(client(1), 116 + 48), RateDecision::Granted { used: 16 });
    }

    #[test]
    fn a_refusal_costs_nothing() {
        let table = RateTable::new(1, 1, 0);
        assert!(is_granted(&table, client(1), 0));
        for now in 0..16 {
            assert_eq!(table.take(client(1), now), RateDecision::Refused { wait: 16 - now });
        }
        assert!(is_granted(&table, client(1), 16));
    }

    #[test]
    fn a_full_set_gives_up_the_entry_that_is_nearest_to_being_idle() {
        let table = RateTable::new(1, 4, 0);
        for tag in 1..=WAYS as u64 {
            for _ in 0..if tag == 5 { 1 } else { 4 } {
                assert!(is_granted(&table, client(tag), 0));
            }
        }
        assert!(is_granted(&table, client(99), 0));
        for tag in (1..=WAYS as u64).filter(|&tag| tag != 5) {
            assert!(!is_granted(&table, client(tag), 0), "{tag} was forgotten");
        }
    }

    #[test]
    fn entries_of_the_past_are_idle_even_after_the_ticks_have_wrapped() {
        let table = RateTable::new(1, 2, 100);
        let wrap = 1 << DUE_BITS;
        for now in [5, wrap - 300, wrap - 3, wrap + 100, 7 * wrap + 200] {
            assert_eq!(table.take(client(7), now), RateDecision::Granted { used: 16 }, "{now}");
            assert_eq!(table.take(client(7), now), RateDecision::Granted { used: 32 }, "{now}");
            assert_eq!(table.take(client(7), now), RateDecision::Refused { wait: 16 }, "{now}");
        }
    }

    #[test]
    fn a_clock_that_lags_behind_another_thread_s_gains_nothing() {
        let table = RateTable::new(1, 2, 100);
        assert!(is_granted(&table, client(1), 200) && is_granted(&table, client(1), 200));
        assert_eq!(table.take(client(1), 150), RateDecision::Refused { wait: 66 });
    }

    #[test]
    fn many_threads_get_no_more_than_the_burst() {
        let table = RateTable::new(1, 1000, 0);
        let granted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).filter(|_| is_granted(&table, client(3), 9)).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(granted, 1000);
    }
}
