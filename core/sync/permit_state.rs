//! The admission word of a gate: free permits, waiters, and whether the gate is closed.
//!
//! A permit is free, held by an entry of the queue, or on its way between the two; a newcomer never gets one while an
//! entry waits. The entries themselves are in the gate's waiting set.

use super::primitive::{AtomicU64, Ordering};

/// Free permits, waiters and the closed bit in one word.
///
/// # Ordering
///
/// Transitions are AcqRel: writes of a thread before it returned a permit are visible to the thread that takes it.
///
/// # Progress
///
/// All transitions are lock-free.
#[derive(Debug)]
pub struct PermitState(AtomicU64);

/// The result of an attempt to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnterOutcome {
    /// The gate is closed.
    Closed,
    /// The caller holds a permit.
    Permit,
    /// No permit is free, or other entries already wait.
    Wait,
}

/// The destination of a returned permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// An entry waits: the caller still holds the permit and passes it on.
    Owed,
    /// The permit is free.
    Free,
}

/// A value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PermitReading(u64);

const PERMITS: u64 = (1 << 32) - 1;
const WAITER: u64 = 1 << 32;
const WAITERS: u64 = (1 << 63) - 1 - PERMITS;
const CLOSED: u64 = 1 << 63;

impl PermitReading {
    fn permits(self) -> u64 {
        self.0 & PERMITS
    }

    fn waiters(self) -> u64 {
        (self.0 & WAITERS) / WAITER
    }

    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
}

impl PermitState {
    /// Creates an open gate with `permits` free permits.
    pub fn new(permits: u32) -> Self {
        Self(AtomicU64::new(u64::from(permits)))
    }

    /// Takes a permit if one is free and no entry waits.
    pub fn enter(&self) -> EnterOutcome {
        self.change(|seen| match seen {
            _ if seen.is_closed() => Err(EnterOutcome::Closed),
            _ if seen.permits() == 0 || seen.waiters() > 0 => Err(EnterOutcome::Wait),
            _ => Ok(seen.0 - 1),
        })
        .map_or_else(|entry| entry, |_| EnterOutcome::Permit)
    }

    /// Takes a permit like [`enter`](Self::enter), or counts the caller as waiting. Called under the lock of the
    /// waiting set, so that the count and the set agree.
    pub fn enter_or_wait(&self) -> EnterOutcome {
        let before = self.change(|seen| match seen {
            _ if seen.is_closed() => Err(EnterOutcome::Closed),
            _ if seen.permits() == 0 || seen.waiters() > 0 => Ok(seen.0 + WAITER),
            _ => Ok(seen.0 - 1),
        });
        match before {
            Err(entry) => entry,
            Ok(seen) if seen.permits() == 0 || seen.waiters() > 0 => EnterOutcome::Wait,
            Ok(_) => EnterOutcome::Permit,
        }
    }

    /// Decrements the number of waiters. Called under the lock of the waiting set.
    pub fn stop_waiting(&self) {
        let before = PermitReading(self.0.fetch_sub(WAITER, Ordering::AcqRel));
        debug_assert!(before.waiters() > 0, "nothing waited");
    }

    /// Returns a permit, unless an entry waits for it. Permits of a closed gate become free, because it admits no
    /// entry.
    pub fn leave(&self) -> Returned {
        self.change(|seen| {
            if seen.waiters() > 0 && !seen.is_closed() { Err(Returned::Owed) } else { Ok(seen.0 + 1) }
        })
        .map_or_else(|owed| owed, |_| Returned::Free)
    }

    /// Closes the gate: it admits no further entry.
    pub fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Returns the number of free permits.
    pub fn free(&self) -> usize {
        usize::try_from(self.read().permits()).unwrap_or(usize::MAX)
    }

    /// Returns the number of waiters.
    pub fn waiting(&self) -> usize {
        usize::try_from(self.read().waiters()).unwrap_or(usize::MAX)
    }

    fn read(&self) -> PermitReading {
        // Acquire: pairs with the AcqRel of the last transition.
        PermitReading(self.0.load(Ordering::Acquire))
    }

    /// Changes the word to the result of `next`; returns the previous reading.
    fn change<E>(&self, next: impl Fn(PermitReading) -> Result<u64, E>) -> Result<PermitReading, E> {
        let mut seen = self.read();
        loop {
            let word = next(seen)?;
            // AcqRel and Acquire: see the type.
            match self.0.compare_exchange_weak(seen.0, word, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(seen),
                Err(actual) => seen = PermitReading(actual),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_run_out_and_come_back() {
        let permit_state = PermitState::new(2);
        assert_eq!(
            (permit_state.enter(), permit_state.enter()),
            (EnterOutcome::Permit, EnterOutcome::Permit)
        );
        assert_eq!(permit_state.enter(), EnterOutcome::Wait);
        assert_eq!(permit_state.leave(), Returned::Free);
        assert_eq!(permit_state.free(), 1);
        assert_eq!(permit_state.enter(), EnterOutcome::Permit);
    }

    #[test]
    fn a_permit_goes_to_a_waiter_before_a_new_request() {
        let permit_state = PermitState::new(1);
        permit_state.enter();
        assert_eq!(permit_state.enter_or_wait(), EnterOutcome::Wait);
        assert_eq!(permit_state.leave(), Returned::Owed);
        assert_eq!((permit_state.free(), permit_state.enter()), (0, EnterOutcome::Wait));
        permit_state.stop_waiting();
        assert_eq!(permit_state.leave(), Returned::Free);
    }

    #[test]
    fn a_waiter_takes_a_permit_freed_meanwhile() {
        let permit_state = PermitState::new(1);
        assert_eq!(permit_state.enter_or_wait(), EnterOutcome::Permit);
        assert_eq!((permit_state.free(), permit_state.waiting()), (0, 0));
    }

    #[test]
    fn a_closed_gate_refuses_and_takes_permits_back() {
        let permit_state = PermitState::new(2);
        permit_state.enter();
        permit_state.enter();
        permit_state.enter_or_wait();
        permit_state.close();
        assert_eq!(
            (permit_state.enter(), permit_state.enter_or_wait()),
            (EnterOutcome::Closed, EnterOutcome::Closed)
        );
        assert_eq!(permit_state.leave(), Returned::Free);
        assert_eq!((permit_state.free(), permit_state.waiting()), (1, 1));
    }
}
