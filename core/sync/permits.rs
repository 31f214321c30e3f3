//! A counting semaphore.
//!
//! There are never more permits out than were free at the start. A waiting thread wakes when a permit is returned or
//! the permits are closed. Waiters have no order.

use super::event_count::EventCount;
use super::primitive::{Arc, AtomicBool, AtomicUsize, Ordering};

/// A fixed number of permits, with waiting.
///
/// # Ordering
///
/// What happened before a permit was returned happens before the `acquire` that gets it (Release and Acquire on the
/// count). Waiting follows the protocol of [`EventCount`].
///
/// # Progress
///
/// Returning a permit is lock-free; `acquire` sleeps while no permit is free and the permits are open.
#[derive(Debug)]
pub struct Permits {
    free: AtomicUsize,
    closed: AtomicBool,
    event_count: EventCount,
}

/// One permit. It is returned when dropped.
#[derive(Debug)]
pub struct Permit(Arc<Permits>);

impl Permits {
    /// Creates `count` free permits.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(count),
            closed: AtomicBool::new(false),
            event_count: EventCount::new(),
        })
    }

    /// Takes a permit if one is free.
    pub fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        let take = |free: usize| free.checked_sub(1);
        // Acquire: pairs with the Release in `Permit::drop`.
        self.free
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, take)
            .ok()
            .map(|_| Permit(Arc::clone(self)))
    }

    /// Takes a permit, waiting until one is free; returns `None` if the permits are closed and none is free.
    pub fn acquire(self: &Arc<Self>) -> Option<Permit> {
        loop {
            if let Some(permit) = self.try_acquire() {
                return Some(permit);
            }
            let ticket = self.event_count.prepare_wait();
            let permit = self.try_acquire();
            // Acquire: pairs with the Release in `close`.
            if permit.is_some() || self.closed.load(Ordering::Acquire) {
                self.event_count.cancel_wait(ticket);
                return permit;
            }
            self.event_count.wait(&ticket);
        }
    }

    /// Ends all waits, current and future. Free permits can still be taken.
    pub fn close(&self) {
        // Release: pairs with the Acquire in `acquire`.
        self.closed.store(true, Ordering::Release);
        self.event_count.notify_all();
    }

    /// Returns the number of free permits.
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_acquire`.
        self.0.free.fetch_add(1, Ordering::Release);
        self.0.event_count.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_permits_than_there_are() {
        let permits = Permits::new(1);
        let held = permits.try_acquire();
        assert!(held.is_some());
        assert!(permits.try_acquire().is_none());
        drop(held);
        assert_eq!(permits.free(), 1);
        assert!(permits.try_acquire().is_some());
    }

    #[test]
    fn a_waiter_gets_the_permit_that_comes_back() {
        let permits = Permits::new(1);
        let held = permits.acquire();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| permits.acquire().is_some());
            drop(held);
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn closing_ends_the_waiting() {
        let permits = Permits::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| permits.acquire().is_none());
            permits.close();
            assert!(waiter.join().unwrap());
        });
    }
}
