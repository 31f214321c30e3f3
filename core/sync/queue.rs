//! The bounded queue between I/O threads and PHP threads.
//!
//! First in, first out, with at most `capacity` entries. Closing it wakes every sleeper, and entries queued before can
//! still be taken. The queue does not know which entries were answered in the meantime.

use super::idle_workers::IdleWorkers;
use super::primitive::{ArrayQueue, AtomicBool, Ordering};

/// A bounded FIFO queue, and the seats on which its consumers sleep.
///
/// # Ordering
///
/// What happened before `push` happens before the `try_take` that returns the entry (the ring's own Release/Acquire).
///
/// # Progress
///
/// No method blocks. A consumer that finds the queue empty and open [parks](IdleWorkers::park).
#[derive(Debug)]
pub struct WorkQueue<T> {
    ring: ArrayQueue<T>,
    idle_workers: IdleWorkers,
    closed: AtomicBool,
}

impl<T> WorkQueue<T> {
    /// Creates an open, empty queue for `seats` consumers.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    pub fn new(capacity: usize, seats: usize) -> Self {
        Self {
            ring: ArrayQueue::new(capacity),
            idle_workers: IdleWorkers::new(seats),
            closed: AtomicBool::new(false),
        }
    }

    /// Adds an entry without waking a consumer; [`announce`](Self::announce) must follow.
    ///
    /// A producer that adds several entries in a row announces them once: a consumer woken on the producer's core would
    /// otherwise preempt it after each of them.
    ///
    /// # Errors
    ///
    /// Returns the entry if the queue is full.
    pub fn push(&self, entry: T) -> Result<(), T> {
        self.ring.push(entry)
    }

    /// Wakes a sleeping consumer. A consumer that takes an entry and leaves others wakes the next one.
    pub fn announce(&self) {
        self.idle_workers.notify_one();
    }

    /// Takes the oldest entry, if there is one.
    pub fn try_take(&self) -> Option<T> {
        let entry = self.ring.pop()?;
        self.pass_on();
        Some(entry)
    }

    /// Wakes a consumer if there is an entry to take.
    fn pass_on(&self) {
        if !self.is_empty() {
            self.announce();
        }
    }

    /// Allows consumers to end once the queue is empty. Entries pushed afterwards may remain in it.
    pub fn close(&self) {
        // Release: pairs with the Acquire in `is_closed`.
        self.closed.store(true, Ordering::Release);
        self.idle_workers.wake_all();
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `close`, so that a later read of the queue sees all entries queued before.
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the seats of the consumers.
    pub fn idle_workers(&self) -> &IdleWorkers {
        &self.idle_workers
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of entries.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes an entry like a worker; sleeps while the queue is empty and open.
    fn take<T>(queue: &WorkQueue<T>, seat: usize) -> Option<T> {
        loop {
            let is_closed = queue.is_closed();
            match queue.try_take() {
                None if !is_closed => {
                    queue.idle_workers().park(seat, || !queue.is_empty() || queue.is_closed());
                }
                taken => return taken,
            }
        }
    }

    #[test]
    fn entries_leave_in_the_order_they_came() {
        let queue = WorkQueue::new(3, 3);
        for n in 0..3 {
            queue.push(n).unwrap();
        }
        assert_eq!((0..3).map(|_| queue.try_take().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_full_queue_gives_the_entry_back() {
        let queue = WorkQueue::new(1, 3);
        queue.push('a').unwrap();
        assert_eq!(queue.push('b'), Err('b'));
        assert_eq!(queue.len(), queue.capacity());
    }

    #[test]
    fn a_closed_queue_is_emptied_before_it_ends() {
        let queue = WorkQueue::new(2, 3);
        queue.push(1).unwrap();
        queue.close();
        assert_eq!(take(&queue, 0), Some(1));
        assert_eq!(take(&queue, 0), None);
    }

    #[test]
    fn one_announcement_brings_all_consumers_that_are_needed() {
        let queue = WorkQueue::new(3, 3);
        std::thread::scope(|scope| {
            // Each consumer takes only one entry, so three are needed.
            let consumers: Vec<_> = (0..3)
                .map(|seat| {
                    scope.spawn({
                        let queue = &queue;
                        move || take(queue, seat)
                    })
                })
                .collect();
            for n in 0..3 {
                queue.push(n).unwrap();
            }
            queue.announce();
            let mut taken: Vec<_> = consumers.into_iter().map(|one| one.join().unwrap().unwrap()).collect();
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 2]);
        });
    }

    #[test]
    fn closing_wakes_a_sleeper() {
        let queue = WorkQueue::<u8>::new(1, 1);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| take(&queue, 0));
            queue.close();
            assert_eq!(sleeper.join().unwrap(), None);
        });
    }
}
