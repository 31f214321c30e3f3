//! A bounded queue whose producers never wait and whose single consumer takes items in batches.
//!
//! An item that does not fit is dropped and counted. The items of one thread keep their order. One producer is asked to
//! wake the consumer when the requested number of items waits. The queue does not wake the consumer itself, because the
//! consumer also sleeps on sockets and timers.

use super::counter::Counter;
use super::primitive::{ArrayQueue, AtomicBool, AtomicUsize, Ordering, fence};

/// A bounded queue with many producers, which drop, and one consumer, which sleeps until a batch is complete.
///
/// The consumer calls [`arm`](Self::arm) before it sleeps; the producer that completes the batch gets
/// [`Enqueued::Ring`], once.
///
/// # Ordering
///
/// Both sides put a `SeqCst` fence between their write (the consumer's alarm, the producer's item) and their read of
/// the other's, so that at least one of them sees the other: arming too late for a wake-up fails. Closing is Release
/// and is read with Acquire; the items that the closing thread has offered are in the queue.
///
/// # Progress
///
/// `offer` is lock-free.
#[derive(Debug)]
pub struct BatchQueue<T> {
    items: ArrayQueue<T>,
    /// The number of items that triggers the alarm; 0 while the consumer is awake.
    alarm: AtomicUsize,
    dropped: Counter,
    closed: AtomicBool,
}

/// The result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The item was dropped: the queue is full or closed.
    Dropped,
    /// The item is queued.
    Queued,
    /// The item is queued, and the caller must wake the consumer.
    Ring,
}

impl<T> BatchQueue<T> {
    /// Creates a queue for at most `items_max` items.
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

    /// Returns whether the queue is full or closed. If so, counts an item as dropped, so that the caller need not build
    /// it.
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
        // If several producers see a complete batch, the one that takes the alarm rings.
        if wanted > 0 && self.items.len() >= wanted && self.alarm.swap(0, Ordering::Relaxed) > 0 {
            Enqueued::Ring
        } else {
            Enqueued::Queued
        }
    }

    /// Announces that the consumer will sleep until `wanted` items wait. Returns false if it must not sleep, because
    /// they already do or the queue is closed.
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

    /// Records that the consumer is awake.
    pub fn disarm(&self) {
        self.alarm.store(0, Ordering::Relaxed);
    }

    /// Takes the oldest item.
    pub fn take(&self) -> Option<T> {
        self.items.pop()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Refuses further items. The caller must wake the consumer afterwards.
    pub fn close(&self) {
        // Release: pairs with the Acquire in `is_closed`.
        self.closed.store(true, Ordering::Release);
        // SeqCst: pairs with the fence in `arm`.
        fence(Ordering::SeqCst);
    }

    /// Returns whether the queue is closed. Items that other threads offer during the closing are taken, dropped, or
    /// left in the queue.
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `close`, so that a later look at the queue finds the items offered before.
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the number of dropped items.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_dropped_and_counted() {
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
        assert_eq!(queue.offer(2), Enqueued::Queued, "the consumer does not sleep");
        assert!(queue.arm(3));
        queue.disarm();
        assert_eq!(queue.offer(3), Enqueued::Queued);
    }

    #[test]
    fn a_closed_queue_returns_its_entries_and_accepts_no_more() {
        let queue = BatchQueue::new(2);
        queue.offer("before");
        queue.close();
        assert_eq!(queue.offer("after"), Enqueued::Dropped);
        assert!(queue.is_closed() && !queue.arm(2));
        assert_eq!((queue.take(), queue.take(), queue.dropped_total()), (Some("before"), None, 1));
    }
}
