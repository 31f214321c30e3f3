//! The deadlines of one connection by name, and the nearest deadlines of many connections, sorted.
//!
//! A connection derives its [`TimerTable`] from its state, so that no timer outlives its reason; the table returns the
//! timer that has expired. [`Deadlines`] has one entry for each connection of an I/O thread, or each stream of a
//! connection. None is missed. An entry may fire early because its owner's deadline has moved; the owner then arms it again. A
//! deadline that only moves back, as on a busy kept connection, therefore costs nothing. The caller passes the time in.

use std::collections::BTreeSet;
use std::time::Instant;

/// The timers of a connection; of several that have expired, the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The end of an exchange, on a port that limits its whole duration.
    Exchange,
    /// The peer reads pending output.
    Write,
    /// The rest of a head.
    Header,
    /// The next part of a body.
    Body,
    /// The response of a worker.
    Response,
    /// The first or the next request.
    Idle,
    /// The end of the input after the last response.
    Linger,
    /// A stream of the connection, which has separate timers.
    Stream,
}

/// The running timers of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimerTable {
    expiries: [Option<Instant>; Timer::ALL.len()],
    /// The earliest of them.
    next: Option<Instant>,
}

impl Timer {
    const ALL: [Self; 8] = [
        Self::Exchange,
        Self::Write,
        Self::Header,
        Self::Body,
        Self::Response,
        Self::Idle,
        Self::Linger,
        Self::Stream,
    ];
}

impl TimerTable {
    /// Starts a timer that is not running.
    #[inline]
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        debug_assert!(self.expiries[timer as usize].is_none(), "{timer:?} runs already");
        self.expiries[timer as usize] = Some(at);
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Returns when the next timer expires.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the first timer that has expired.
    pub(super) fn expired(&self, now: Instant) -> Option<Timer> {
        Timer::ALL.into_iter().find(|timer| self.expiries[*timer as usize].is_some_and(|at| at <= now))
    }
}

/// The armed deadlines, by time.
#[derive(Debug, Default)]
pub struct Deadlines {
    entries: BTreeSet<(Instant, u64)>,
}

/// When the entry of one owner fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Armed(Option<Instant>);

impl Deadlines {
    /// Ensures that `key` fires at `deadline` or earlier.
    pub fn arm(&mut self, key: u64, armed: &mut Armed, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        match armed.0 {
            Some(at) if at <= deadline => {}
            earlier => {
                if let Some(at) = earlier {
                    self.entries.remove(&(at, key));
                }
                self.entries.insert((deadline, key));
                armed.0 = Some(deadline);
            }
        }
    }

    /// Removes the entry of an owner that ends.
    pub fn disarm(&mut self, key: u64, armed: &mut Armed) {
        if let Some(at) = armed.0.take() {
            self.entries.remove(&(at, key));
        }
    }

    /// Takes one entry that has fired by `now`; its owner's `Armed` must be cleared with [`Armed::fired`].
    pub fn pop(&mut self, now: Instant) -> Option<u64> {
        let (at, key) = *self.entries.first()?;
        if at > now {
            return None;
        }
        self.entries.pop_first();
        Some(key)
    }

    /// Returns when the next entry fires.
    pub fn next(&self) -> Option<Instant> {
        self.entries.first().map(|(at, _)| *at)
    }
}

impl Armed {
    /// Records that the entry has fired.
    pub fn fired(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_expired_timer_has_a_name_and_the_first_one_counts() {
        let (mut timers, start) = (TimerTable::default(), crate::time::now());
        assert_eq!((timers.next(), timers.expired(start)), (None, None));
        timers.set(Timer::Response, start + Duration::from_secs(1));
        timers.set(Timer::Write, start + Duration::from_secs(2));
        assert_eq!(timers.next(), Some(start + Duration::from_secs(1)));
        let expired = [0, 1, 2].map(|seconds| timers.expired(start + Duration::from_secs(seconds)));
        assert_eq!(expired, [None, Some(Timer::Response), Some(Timer::Write)]);
        assert!(Timer::ALL.iter().enumerate().all(|(place, timer)| *timer as usize == place));
    }

    #[test]
    fn a_deadline_that_moves_back_keeps_its_entry() {
        let (mut timers, mut armed, start) = (Deadlines::default(), Armed::default(), crate::time::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        timers.arm(7, &mut armed, Some(at(5)));
        timers.arm(7, &mut armed, Some(at(9)));
        assert_eq!(timers.next(), Some(at(5)));
        assert_eq!(timers.pop(at(4)), None);
        assert_eq!(timers.pop(at(5)), Some(7));
        armed.fired();
        timers.arm(7, &mut armed, Some(at(9)));
        assert_eq!(timers.next(), Some(at(9)));
    }

    #[test]
    fn a_nearer_deadline_replaces_the_entry() {
        let (mut timers, mut armed, start) = (Deadlines::default(), Armed::default(), crate::time::now());
        timers.arm(1, &mut armed, Some(start + Duration::from_secs(60)));
        timers.arm(1, &mut armed, Some(start + Duration::from_secs(5)));
        assert_eq!(timers.entries.len(), 1);
        timers.disarm(1, &mut armed);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn entries_come_up_in_the_order_of_time() {
        let (mut timers, start) = (Deadlines::default(), crate::time::now());
        let mut armed = [Armed::default(); 3];
        for (key, seconds) in [(0u64, 3), (1, 1), (2, 2)] {
            let deadline = Some(start + Duration::from_secs(seconds));
            timers.arm(key, &mut armed[usize::try_from(key).unwrap()], deadline);
        }
        let late = start + Duration::from_secs(9);
        assert_eq!([timers.pop(late), timers.pop(late), timers.pop(late)], [Some(1), Some(2), Some(0)]);
    }
}
