//! An event count: threads sleep until another thread announces possible work.
//!
//! A thread that announced its sleep before its last check for work cannot miss work published afterwards. There are no
//! timeouts; every sleeper has a waker.

use super::primitive::{AtomicU32, Ordering, fence, wait, wake_all, wake_one};

/// Lets threads sleep until one of them is needed.
///
/// A sleeper calls [`prepare_wait`](Self::prepare_wait), checks for work once more, and then [`wait`](Self::wait)s on
/// the ticket; a producer publishes its work and then calls [`notify_one`](Self::notify_one). Wake-ups may be spurious.
///
/// # Ordering
///
/// Both sides put a `SeqCst` fence between their write (the sleeper's announcement, the producer's work) and their
/// read of the other's, so that at least one of them sees the other (store buffering).
///
/// # Progress
///
/// `notify_one` is wait-free, and costs two loads while no thread sleeps.
#[derive(Debug, Default)]
pub struct EventCount {
    rings: AtomicU32,
    sleepers: AtomicU32,
}

/// The result of [`EventCount::prepare_wait`]: a wait on it returns immediately if there was a notification since.
#[derive(Debug)]
pub struct WaitTicket(u32);

impl EventCount {
    /// Creates an event count without sleepers.
    pub fn new() -> Self {
        Self { rings: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }

    /// Announces that the caller is about to sleep. Every ticket must be passed to `wait` or `cancel_wait`.
    pub fn prepare_wait(&self) -> WaitTicket {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with the Release in `ring`; what happened before a ring that this ticket has seen is visible.
        let ticket = WaitTicket(self.rings.load(Ordering::Acquire));
        // SeqCst: pairs with the fence in `notify_one`.
        fence(Ordering::SeqCst);
        ticket
    }

    /// Sleeps until notified; returns immediately if that happened since the ticket was drawn.
    pub fn wait(&self, ticket: &WaitTicket) {
        wait(&self.rings, ticket.0);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Withdraws the announcement, because the caller found work.
    pub fn cancel_wait(&self, _ticket: WaitTicket) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes one sleeper, if any. The caller must have published its work.
    pub fn notify_one(&self) {
        // SeqCst: pairs with the fence in `prepare_wait`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.ring();
            wake_one(&self.rings);
        }
    }

    /// Wakes all sleepers.
    pub fn notify_all(&self) {
        // SeqCst: pairs with the fence in `prepare_wait`.
        fence(Ordering::SeqCst);
        self.ring();
        wake_all(&self.rings);
    }

    fn ring(&self) {
        // Release: pairs with the Acquire in `prepare_wait`.
        self.rings.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_after_the_ticket_does_not_sleep() {
        let event_count = EventCount::new();
        let ticket = event_count.prepare_wait();
        event_count.notify_one();
        event_count.wait(&ticket);
    }

    #[test]
    fn a_cancelled_ticket_leaves_no_sleeper() {
        let event_count = EventCount::new();
        let ticket = event_count.prepare_wait();
        event_count.cancel_wait(ticket);
        assert_eq!(event_count.sleepers.load(Ordering::Relaxed), 0);
    }
}
