//! Which parts of an HTTP/2 connection have something to do.
//!
//! Promises: a part that was woken is taken once, however often it was woken since; parts that nobody woke cost
//! nothing. Refuses: it does not wake the io thread; all waking happens while it works on the connection.

use std::task::{Wake, Waker};

use crate::sync::primitive::{Arc, AtomicBool, Ordering, SegQueue};

/// The parts of one connection that were woken, by their numbers.
#[derive(Debug, Default)]
pub(super) struct ReadySet {
    woken: SegQueue<Arc<Alarm>>,
}

/// Wakes one part.
#[derive(Debug)]
pub(super) struct Alarm {
    part: u32,
    is_ringing: AtomicBool,
    set: Arc<ReadySet>,
}

impl ReadySet {
    /// Makes the alarm of `part`.
    pub(super) fn alarm(self: &Arc<Self>, part: u32) -> Arc<Alarm> {
        Arc::new(Alarm { part, is_ringing: AtomicBool::new(false), set: Arc::clone(self) })
    }

    /// Whether nobody was woken.
    pub(super) fn is_empty(&self) -> bool {
        self.woken.is_empty()
    }

    /// Takes a part that was woken.
    pub(super) fn take(&self) -> Option<u32> {
        let alarm = self.woken.pop()?;
        // Relaxed: one thread rings and takes; the type serves the library, which asks for wakers that any could.
        alarm.is_ringing.store(false, Ordering::Relaxed);
        Some(alarm.part)
    }
}

impl Alarm {
    /// The alarm, as the library wants it.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Wakes the part.
    pub(super) fn ring(self: &Arc<Self>) {
        if !self.is_ringing.swap(true, Ordering::Relaxed) {
            self.set.woken.push(Arc::clone(self));
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_taken_once_until_it_is_woken_again() {
        let set = Arc::new(ReadySet::default());
        let (one, two) = (set.alarm(1), set.alarm(2));
        one.waker().wake();
        one.waker().wake_by_ref();
        two.ring();
        assert_eq!([set.take(), set.take(), set.take()], [Some(1), Some(2), None]);
        one.ring();
        assert_eq!(set.take(), Some(1));
    }
}
