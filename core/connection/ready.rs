//! The parts of an HTTP/2 connection that have work to do.
//!
//! A woken part is taken once, in wake order, even if it was woken several times. Idle parts cost nothing. After
//! [`close`](ReadySet::close) the set stays empty. Waking does not reach the I/O thread: all wake-ups happen on that
//! thread, while it works on the connection, so there is nothing to check with loom.

use std::task::{Wake, Waker};

use crate::sync::primitive::{Arc, AtomicBool, Ordering, SegQueue};

/// The woken parts of one connection: streams by ID, and the connection itself.
#[derive(Debug, Default)]
pub(super) struct ReadySet {
    woken: SegQueue<Arc<Alarm>>,
    is_connection_woken: AtomicBool,
    /// Wake-ups are ignored.
    is_closed: AtomicBool,
}

/// Wakes the connection itself.
#[derive(Debug)]
struct ConnectionWaker(Arc<ReadySet>);

/// Wakes one part.
#[derive(Debug)]
pub(super) struct Alarm {
    part: u32,
    is_woken: AtomicBool,
    set: Arc<ReadySet>,
}

impl ReadySet {
    /// Creates the alarm of `part`.
    pub(super) fn alarm(self: &Arc<Self>, part: u32) -> Arc<Alarm> {
        Arc::new(Alarm { part, is_woken: AtomicBool::new(false), set: Arc::clone(self) })
    }

    /// Returns the waker of the connection, for the library.
    pub(super) fn connection_waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::new(ConnectionWaker(Arc::clone(self))))
    }

    /// Wakes the connection.
    pub(super) fn wake_connection(&self) {
        // Relaxed: as in `take`.
        self.is_connection_woken.store(true, Ordering::Relaxed);
    }

    /// Returns whether the connection was woken; clears the flag.
    pub(super) fn take_connection_wake(&self) -> bool {
        self.is_connection_woken.swap(false, Ordering::Relaxed)
    }

    /// Closes the set. Alarms hold the set; clearing it breaks the reference cycle.
    pub(super) fn close(&self) {
        // Relaxed: as in `take`.
        self.is_closed.store(true, Ordering::Relaxed);
        while self.woken.pop().is_some() {}
    }

    /// Returns whether neither a stream nor the connection was woken.
    pub(super) fn is_empty(&self) -> bool {
        self.woken.is_empty() && !self.is_connection_woken.load(Ordering::Relaxed)
    }

    /// Takes the stream that was woken first.
    pub(super) fn take(&self) -> Option<u32> {
        let alarm = self.woken.pop()?;
        // Relaxed: one thread wakes and takes; atomics are needed only because the library requires `Send + Sync`
        // wakers.
        alarm.is_woken.store(false, Ordering::Relaxed);
        Some(alarm.part)
    }
}

impl Alarm {
    /// Returns the waker of the part, for the library.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Wakes the part.
    pub(super) fn wake_part(self: &Arc<Self>) {
        // Relaxed: as in `take`.
        if !self.is_woken.swap(true, Ordering::Relaxed) && !self.set.is_closed.load(Ordering::Relaxed) {
            self.set.woken.push(Arc::clone(self));
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_part();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_part();
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake_connection();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_connection();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_is_woken_apart_from_its_streams() {
        let set = Arc::new(ReadySet::default());
        let waker = set.connection_waker();
        assert!(set.is_empty() && !set.take_connection_wake());
        waker.wake_by_ref();
        waker.wake();
        assert!(!set.is_empty() && set.take().is_none());
        assert!(set.take_connection_wake() && !set.take_connection_wake() && set.is_empty());
    }

    #[test]
    fn it_is_a_queue_without_repetitions_whatever_is_done() {
        for seed in 1..200u64 {
            let set = Arc::new(ReadySet::default());
            let alarms: Vec<_> = (0..9).map(|part| set.alarm(part)).collect();
            let wakers: Vec<_> = alarms.iter().map(Alarm::waker).collect();
            let mut model = std::collections::VecDeque::new();
            let mut random = seed;
            for step in 0..300 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let part = u32::try_from(random % 9).unwrap();
                if random >> 32 & 3 == 0 {
                    assert_eq!(set.take(), model.pop_front(), "seed {seed}, step {step}");
                } else {
                    let index = usize::try_from(part).unwrap();
                    if random >> 40 & 1 == 0 {
                        alarms[index].wake_part();
                    } else {
                        wakers[index].wake_by_ref();
                    }
                    if !model.contains(&part) {
                        model.push_back(part);
                    }
                }
                assert_eq!(set.is_empty(), model.is_empty(), "seed {seed}, step {step}");
            }
        }
    }

    #[test]
    fn a_closed_set_drops_all_wakeups() {
        let set = Arc::new(ReadySet::default());
        let (one, two) = (set.alarm(1), set.alarm(2));
        one.wake_part();
        set.close();
        two.wake_part();
        assert!(set.is_empty() && set.take().is_none());
    }

    #[test]
    fn a_part_is_taken_once_until_it_is_woken_again() {
        let set = Arc::new(ReadySet::default());
        let (one, two) = (set.alarm(1), set.alarm(2));
        one.waker().wake();
        one.waker().wake_by_ref();
        two.wake_part();
        assert_eq!([set.take(), set.take(), set.take()], [Some(1), Some(2), None]);
        one.wake_part();
        assert_eq!(set.take(), Some(1));
    }
}
