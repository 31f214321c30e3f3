//! The share of one response in the memory for all responses.
//!
//! The share is released when it is dropped, at the latest. A short response touches no memory that other threads
//! write. The share only counts the bytes; it must move together with them.

use super::Spool;

/// The granularity of counting in bytes; remainders are not counted, and most responses are that short.
const STEP_BYTES: u64 = 4096;

/// The bytes of one response that are buffered in memory.
#[derive(Debug, Default)]
pub struct Share {
    /// The spool that it belongs to; `None` while the count is zero.
    of: Option<Spool>,
    bytes: u64,
    /// The number of bytes counted in the budget, in whole steps.
    counted: u64,
}

impl Share {
    /// Returns the number of bytes that it represents.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether any of them are counted in the budget.
    pub fn is_counted(&self) -> bool {
        self.counted > 0
    }

    /// Adds bytes if the budget of `spool` has space for them. Returns whether it had.
    pub fn try_take(&mut self, spool: &Spool, bytes: u64) -> bool {
        let more = self.more_steps(bytes);
        if more > 0 && !spool.0.memory.try_take(more) {
            return false;
        }
        self.note(spool, bytes, more);
        true
    }

    /// Adds bytes even if there is no space for them.
    pub fn take(&mut self, spool: &Spool, bytes: u64) {
        let more = self.more_steps(bytes);
        if more > 0 {
            spool.0.memory.take(more);
        }
        self.note(spool, bytes, more);
    }

    /// Sets the number of bytes, even if there is no space for them.
    pub fn set(&mut self, spool: &Spool, bytes: u64) {
        if bytes > self.bytes {
            self.take(spool, bytes - self.bytes);
        } else {
            self.keep(bytes);
        }
    }

    /// Releases the bytes beyond `bytes`.
    pub fn keep(&mut self, bytes: u64) {
        if bytes >= self.bytes {
            return;
        }
        self.bytes = bytes;
        let counted = self.counted.min(in_steps(bytes));
        self.give_back(self.counted - counted);
    }

    /// Takes over the bytes of another share.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.counted += std::mem::take(&mut other.counted);
        self.of = self.of.take().or_else(|| other.of.take());
    }

    /// Splits off some of its bytes into a new share.
    pub fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        let counted = self.counted.min(in_steps(bytes));
        self.bytes -= bytes;
        self.counted -= counted;
        Self { of: self.of.clone().filter(|_| counted > 0), bytes, counted }
    }

    fn more_steps(&self, bytes: u64) -> u64 {
        in_steps(self.bytes + bytes).saturating_sub(self.counted)
    }

    fn note(&mut self, spool: &Spool, bytes: u64, more: u64) {
        self.bytes += bytes;
        self.counted += more;
        if self.counted > 0 && self.of.is_none() {
            self.of = Some(spool.clone());
        }
    }

    fn give_back(&mut self, bytes: u64) {
        if let Some(spool) = self.of.as_ref().filter(|_| bytes > 0) {
            spool.0.memory.give_back(bytes);
            self.counted -= bytes;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.counted);
    }
}

fn in_steps(bytes: u64) -> u64 {
    bytes - bytes % STEP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(memory_max: u64) -> Spool {
        Spool::with_memory(std::env::temp_dir(), 0, memory_max)
    }

    #[test]
    fn the_budget_is_shared_and_given_back() {
        let spool = spool(10 * STEP_BYTES);
        let (mut one, mut other) = (Share::default(), Share::default());
        assert!(one.try_take(&spool, 8 * STEP_BYTES));
        assert!(!other.try_take(&spool, 3 * STEP_BYTES));
        assert_eq!(other.bytes(), 0);
        other.take(&spool, 3 * STEP_BYTES);
        assert_eq!(spool.memory_bytes(), 11 * STEP_BYTES);
        one.keep(STEP_BYTES + 5);
        assert_eq!((one.bytes(), spool.memory_bytes()), (STEP_BYTES + 5, 4 * STEP_BYTES));
        drop(one);
        drop(other);
        assert_eq!(spool.memory_bytes(), 0);
    }

    #[test]
    fn a_few_bytes_are_not_counted() {
        let spool = spool(0);
        let mut share = Share::default();
        assert!(share.try_take(&spool, STEP_BYTES - 1));
        assert!(!share.try_take(&spool, 1));
        assert!(spool.has_memory_for(0) && !spool.has_memory_for(1));
    }

    #[test]
    fn shares_are_joined_and_parted() {
        let spool = spool(100 * STEP_BYTES);
        let (mut one, mut other) = (Share::default(), Share::default());
        one.take(&spool, 3 * STEP_BYTES - 1);
        other.take(&spool, 3 * STEP_BYTES - 1);
        one.absorb(other);
        assert_eq!((one.bytes(), spool.memory_bytes()), (6 * STEP_BYTES - 2, 4 * STEP_BYTES));
        let part = one.split(5 * STEP_BYTES);
        assert_eq!((part.bytes(), one.bytes()), (5 * STEP_BYTES, STEP_BYTES - 2));
        drop(one);
        assert_eq!(spool.memory_bytes(), 4 * STEP_BYTES);
        drop(part);
        assert_eq!(spool.memory_bytes(), 0);
    }
}
