//! A bounded queue whose producers never wait and whose single consumer writes the items.
//!
//! An item that does not fit is dropped and counted. The items of one thread keep their order. The consumer sleeps
//! while the queue is empty, and takes all items offered before the close. Threads, files and batches are not known
//! here.

use super::counter::Counter;
use super::event_count::EventCount;
use super::primitive::{ArrayQueue, AtomicBool, Ordering};

/// A bounded queue with many producers, which drops, and one consumer, which sleeps.
///
/// # Ordering
///
/// Closing is Release, and the consumer reads it with Acquire before its last look at the queue: it finds the items
/// that the closing thread has offered. Items that other threads offer concurrently are taken, dropped, or left in the
/// queue.
///
/// # Progress
///
/// `offer` is lock-free.
#[derive(Debug)]
pub struct Outbox<T> {
    items: ArrayQueue<T>,
    /// Notified when an item is queued or the outbox is closed.
    work: EventCount,
    dropped: Counter,
    closed: AtomicBool,
}

impl<T> Outbox<T> {
    /// Creates an outbox for at most `items_max` items.
    pub fn new(items_max: usize) -> Self {
        Self {
            items: ArrayQueue::new(items_max),
            work: EventCount::new(),
            dropped: Counter::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Queues an item, or drops and counts it if the queue is full or closed.
    pub fn offer(&self, item: T) {
        if self.closed.load(Ordering::Relaxed) || self.items.push(item).is_err() {
            self.dropped.incr();
        } else {
            self.work.notify_one();
        }
    }

    /// Takes the oldest item.
    pub fn take(&self) -> Option<T> {
        self.items.pop()
    }

    /// Sleeps until there may be an item; returns `false`, without sleeping, once the outbox is closed. The items
    /// offered before the close are in the queue.
    pub fn wait(&self) -> bool {
        let ticket = self.work.prepare_wait();
        // Acquire: pairs with the Release in `close`.
        let is_closed = self.closed.load(Ordering::Acquire);
        if is_closed || !self.items.is_empty() {
            self.work.cancel_wait(ticket);
        } else {
            self.work.wait(&ticket);
        }
        !is_closed
    }

    /// Refuses further items, and wakes the consumer.
    pub fn close(&self) {
        // Release: pairs with the Acquire in `wait`, whose caller then looks at the queue once more.
        self.closed.store(true, Ordering::Release);
        self.work.notify_all();
    }

    /// Counts items that were taken and then lost.
    pub fn lost(&self, count: u64) {
        self.dropped.add(count);
    }

    /// Returns the number of dropped and lost items.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_dropped_and_counted() {
        let outbox = Outbox::new(2);
        (1..=5).for_each(|item| outbox.offer(item));
        assert_eq!(outbox.dropped_total(), 3);
        assert_eq!([outbox.take(), outbox.take(), outbox.take()], [Some(1), Some(2), None]);
        outbox.offer(6);
        assert_eq!(outbox.take(), Some(6));
        outbox.lost(1);
        assert_eq!(outbox.dropped_total(), 4);
    }

    #[test]
    fn a_closed_outbox_returns_its_entries_and_accepts_no_more() {
        let outbox = Outbox::new(2);
        outbox.offer("before");
        assert!(outbox.wait(), "there is an item, so the consumer does not sleep");
        outbox.close();
        outbox.offer("after");
        assert!(!outbox.wait());
        assert_eq!((outbox.take(), outbox.take(), outbox.dropped_total()), (Some("before"), None, 1));
    }
}
