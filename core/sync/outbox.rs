//! The bounded queue between threads that must not wait and the one thread that writes what they say.
//!
//! Promises: whoever offers never waits; what does not fit is dropped and counted; the items of one thread keep their
//! order; the writing thread sleeps while there is nothing, and takes everything that was offered before the end.
//! Refuses: it knows no thread, no file and no batch.

use super::counter::Counter;
use super::event_count::EventCount;
use super::primitive::{ArrayQueue, AtomicBool, Ordering};

/// A bounded queue with many producers, which drops, and one consumer, which sleeps.
///
/// # Ordering
///
/// Closing is Release and the consumer reads it with Acquire before it looks at the queue for the last time: it finds
/// what the closing thread has offered. What others offer meanwhile is taken, dropped, or left in the queue.
///
/// # Progress
///
/// `offer` is lock-free.
#[derive(Debug)]
pub struct Outbox<T> {
    items: ArrayQueue<T>,
    /// Notified when an item was queued, or when the outbox was closed.
    work: EventCount,
    dropped: Counter,
    closed: AtomicBool,
}

impl<T> Outbox<T> {
    /// Makes one that holds so many items.
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

    /// Sleeps until there may be an item; returns `false` once the outbox is closed, and then does not sleep. What was
    /// offered before that is in the queue.
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

    /// Takes no more items, and wakes the consumer.
    pub fn close(&self) {
        // Release: pairs with the Acquire in `wait`, whose caller then looks at the queue once more.
        self.closed.store(true, Ordering::Release);
        self.work.notify_all();
    }

    /// Counts items that were taken and then lost.
    pub fn lost(&self, count: u64) {
        self.dropped.add(count);
    }

    /// Items that were dropped or lost.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
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
    fn a_closed_outbox_gives_what_it_has_and_takes_nothing() {
        let outbox = Outbox::new(2);
        outbox.offer("before");
        assert!(outbox.wait(), "there is an item, so nobody sleeps");
        outbox.close();
        outbox.offer("after");
        assert!(!outbox.wait());
        assert_eq!((outbox.take(), outbox.take(), outbox.dropped_total()), (Some("before"), None, 1));
    }
}
