//! The bounded queue between threads that must not wait and the one thread that takes what they offer in batches.
//!
//! Promises: whoever offers never waits; what does not fit is dropped and counted; the items of one thread keep their
//! order; of those who offer, one is told to wake the consumer when as many items wait as the consumer has asked for.
//! Refuses: it wakes nobody itself. The consumer waits for its sockets and its timers too, so how it sleeps is its own
//! business.

use super::counter::Counter;
use super::primitive::{ArrayQueue, AtomicBool, AtomicUsize, Ordering, fence};

/// A bounded queue with many producers, which drop, and one consumer, which sleeps until a batch is complete.
///
/// The consumer calls [`arm`](Self::arm) before it sleeps; whoever completes the batch is told so, once.
///
/// # Ordering
///
/// Both sides put a `SeqCst` fence between their write (the consumer's alarm, the producer's item) and their read of the
/// other's, so that at least one of them sees the other: an alarm that is armed too late to ring is refused. Closing is
/// Release and is read with Acquire; what the closing thread has offered is in the queue.
///
/// # Progress
///
/// `offer` is lock-free.
#[derive(Debug)]
pub struct BatchQueue<T> {
    items: ArrayQueue<T>,
    /// How many items ring; 0 while the consumer is awake.
    alarm: AtomicUsize,
    dropped: Counter,
    closed: AtomicBool,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// There was no room for it, or the queue is closed.
    Dropped,
    /// It is in the queue.
    Queued,
    /// It is in the queue, and the caller is to wake the consumer.
    Ring,
}

impl<T> BatchQueue<T> {
    /// Makes one that holds so many items.
    ///
    /// # Panics
    ///
    /// If `items_max` is 0.
    pub fn new(items_max: usize) -> Self {
        Self {
            items: ArrayQueue::new(items_max),
            alarm: AtomicUsize::new(0),
            dropped: Counter::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether the queue is full or closed now. If so, the item that the caller has not made yet counts as dropped.
    pub fn is_refusing(&self) -> bool {
        let is_refusing = self.closed.load(Ordering::Relaxed) || self.items.is_full();
        if is_refusing {
            self.dropped.incr();
        }
        is_refusing
    }

    /// Queues an item, or drops and counts it if the queue is full or closed.
    pub fn offer(&self, item: T) -> Enqueued {
        if self.closed.load(Ordering::Relaxed) || self.items.push(item).is_err() {
            self.dropped.incr();
            return Enqueued::Dropped;
        }
        // SeqCst: pairs with the fence in `arm`.
        fence(Ordering::SeqCst);
        let wanted = self.alarm.load(Ordering::Relaxed);
        // Of several who see a complete batch, the one that takes the alarm rings.
        if wanted > 0 && self.items.len() >= wanted && self.alarm.swap(0, Ordering::Relaxed) > 0 {
            Enqueued::Ring
        } else {
            Enqueued::Queued
        }
    }

    /// Announces that the consumer is about to sleep until so many items wait. Returns false if it must not, because they
    /// do, or because the queue is closed.
    pub fn arm(&self, wanted: usize) -> bool {
        debug_assert!(wanted > 0, "an alarm for nothing");
        self.alarm.store(wanted, Ordering::Relaxed);
        // SeqCst: pairs with the fences in `offer` and `close`.
        fence(Ordering::SeqCst);
        let may_sleep = self.items.len() < wanted && !self.is_closed();
        if !may_sleep {
            self.disarm();
        }
        may_sleep
    }

    /// Announces that the consumer is awake.
    pub fn disarm(&self) {
        self.alarm.store(0, Ordering::Relaxed);
    }

    /// Takes the oldest item.
    pub fn take(&self) -> Option<T> {
        self.items.pop()
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes no more items. The caller then wakes the consumer.
    pub fn close(&self) {
        // Release: pairs with the Acquire in `is_closed`.
        self.closed.store(true, Ordering::Release);
        // SeqCst: pairs with the fence in `arm`.
        fence(Ordering::SeqCst);
    }

    /// Whether it is closed. What others than the closing thread offer meanwhile is taken, dropped, or left in the queue.
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `close`, so that a later look at the queue finds what was offered before.
        self.closed.load(Ordering::Acquire)
    }

    /// Items that were dropped.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let queue = BatchQueue::new(2);
        assert_eq!(
            [1, 2, 3].map(|item| queue.offer(item)),
            [Enqueued::Queued, Enqueued::Queued, Enqueued::Dropped]
        );
        assert_eq!((queue.len(), queue.dropped_total()), (2, 1));
        assert_eq!([queue.take(), queue.take(), queue.take()], [Some(1), Some(2), None]);
        assert_eq!(queue.offer(4), Enqueued::Queued);
    }

    #[test]
    fn the_item_that_completes_the_batch_rings_once() {
        let queue = BatchQueue::new(8);
        assert_eq!(queue.offer(0), Enqueued::Queued, "the consumer is awake");
        assert!(queue.arm(3));
        assert_eq!(
            [1, 2, 3].map(|item| queue.offer(item)),
            [Enqueued::Queued, Enqueued::Ring, Enqueued::Queued]
        );
    }

    #[test]
    fn an_alarm_that_comes_too_late_is_refused() {
        let queue = BatchQueue::new(8);
        queue.offer(1);
        assert!(!queue.arm(1));
        assert_eq!(queue.offer(2), Enqueued::Queued, "nobody sleeps");
        assert!(queue.arm(3));
        queue.disarm();
        assert_eq!(queue.offer(3), Enqueued::Queued);
    }

    #[test]
    fn a_closed_queue_gives_what_it_has_and_takes_nothing() {
        let queue = BatchQueue::new(2);
        queue.offer("before");
        queue.close();
        assert_eq!(queue.offer("after"), Enqueued::Dropped);
        assert!(queue.is_closed() && !queue.arm(2));
        assert_eq!((queue.take(), queue.take(), queue.dropped_total()), (Some("before"), None, 1));
    }
}
