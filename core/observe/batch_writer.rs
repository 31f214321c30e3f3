//! A thread that writes, in batches, items whose writing must not delay other threads.
//!
//! [`offer`](BatchWriter::offer) never waits for a pipe, a disk or a lock; items that do not fit into the queue, or
//! that the sink could not write, are counted as dropped, and the sink learns of them once there is room again; a
//! shutdown writes the queued items, up to its timeout. The thread does not know what an item is, or how it is
//! written.

use std::io::{self, PipeReader, PipeWriter};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sync::outbox::Outbox;
use crate::sync::primitive::Arc;

/// Writes items on a dedicated thread.
#[derive(Debug)]
pub struct BatchWriter<T> {
    outbox: Arc<Outbox<T>>,
    /// Becomes readable when the thread, which holds the other end, has written everything.
    written: PipeReader,
}

/// The destination of the items of a [`BatchWriter`]; called on its thread only.
pub trait BatchSink<T> {
    /// Adds an item to the batch; returns whether the batch has room for another one.
    fn add(&mut self, item: T) -> bool;

    /// Writes the batch and begins an empty one.
    ///
    /// # Errors
    ///
    /// If the batch was not written: its items count as dropped.
    fn write(&mut self) -> io::Result<()>;

    /// Reports, once the queue is empty, that `count` items were dropped since the last report.
    fn report_dropped(&mut self, count: u64);

    /// Writes what was held back: no more items follow.
    fn close(&mut self) {}
}

impl<T: Send + 'static> BatchWriter<T> {
    /// Starts a thread of this name, with a queue of `items_max` items.
    ///
    /// # Errors
    ///
    /// If the system cannot create a pipe or a thread.
    pub fn start(name: &str, items_max: usize, sink: impl BatchSink<T> + Send + 'static) -> io::Result<Self> {
        let (written, writing) = io::pipe()?;
        let outbox = Arc::new(Outbox::new(items_max));
        let thread = WriterThread { outbox: Arc::clone(&outbox), sink, dropped_reported: 0 };
        thread::Builder::new().name(name.to_owned()).spawn(move || thread.run(writing))?;
        Ok(Self { outbox, written })
    }

    /// Queues an item, or drops and counts it.
    pub fn offer(&self, item: T) {
        self.outbox.offer(item);
    }

    /// Returns the number of items that were dropped because the queue was full, or that could not be written.
    pub fn dropped_total(&self) -> u64 {
        self.outbox.dropped_total()
    }

    /// Writes the queued items and ends the thread; returns whether that finished in time. Later items are dropped.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        self.outbox.close();
        let timeout = Timespec::try_from(timeout).ok();
        let mut waits = [PollFd::new(&self.written, PollFlags::IN)];
        // The pipe carries nothing; it becomes readable when its other end is closed.
        matches!(poll(&mut waits, timeout.as_ref()), Ok(1..))
    }
}

/// The state of the thread.
struct WriterThread<T, S> {
    outbox: Arc<Outbox<T>>,
    sink: S,
    dropped_reported: u64,
}

impl<T, S: BatchSink<T>> WriterThread<T, S> {
    /// Writes until the outbox is closed and empty; `_writing` is closed at that moment.
    fn run(mut self, _writing: PipeWriter) {
        loop {
            if self.write_batch() {
                continue;
            }
            self.report_dropped();
            let is_closed = !self.outbox.wait();
            if is_closed && !self.write_batch() {
                self.sink.close();
                return;
            }
        }
    }

    /// Writes the queued items, up to one batch; returns whether there were any.
    fn write_batch(&mut self) -> bool {
        let mut items = 0;
        let mut has_room = true;
        while has_room && let Some(item) = self.outbox.take() {
            has_room = self.sink.add(item);
            items += 1;
        }
        if items > 0 && self.sink.write().is_err() {
            self.outbox.lost(items);
        }
        items > 0
    }

    /// Reports dropped items, except those that were dropped because this report failed: otherwise a failing sink
    /// would report its own failures forever.
    fn report_dropped(&mut self) {
        let dropped = self.outbox.dropped_total();
        let count = dropped - self.dropped_reported;
        if count > 0 {
            self.sink.report_dropped(count);
        }
        self.dropped_reported = dropped;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// An item that is not text: a span of some work.
    #[derive(Debug, PartialEq)]
    struct TestSpan {
        id: u32,
    }

    /// Sends batches of up to three spans while the test lets it.
    struct Collector {
        batch: Vec<TestSpan>,
        batches: Sender<Result<Vec<TestSpan>, u64>>,
        permits: Option<Receiver<()>>,
        fails_on: Option<u32>,
        thread: Sender<Option<String>>,
    }

    impl BatchSink<TestSpan> for Collector {
        fn add(&mut self, item: TestSpan) -> bool {
            self.batch.push(item);
            self.batch.len() < 3
        }

        fn write(&mut self) -> io::Result<()> {
            self.thread.send(thread::current().name().map(str::to_owned)).ok();
            if let Some(permits) = &self.permits {
                permits.recv().ok();
            }
            let batch = std::mem::take(&mut self.batch);
            if batch.iter().any(|span| Some(span.id) == self.fails_on) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.batches.send(Ok(batch)).map_err(|_| io::ErrorKind::BrokenPipe.into())
        }

        fn report_dropped(&mut self, count: u64) {
            self.batches.send(Err(count)).ok();
        }
    }

    type Batches = Receiver<Result<Vec<TestSpan>, u64>>;

    fn collector(
        permits: Option<Receiver<()>>,
        fails_on: Option<u32>,
    ) -> (Collector, Batches, Receiver<Option<String>>) {
        let (batches, received) = channel();
        let (thread, writes) = channel();
        (Collector { batch: Vec::new(), batches, permits, fails_on, thread }, received, writes)
    }

    fn ids(batches: Batches) -> Vec<Result<Vec<u32>, u64>> {
        let ids = |batch: Vec<TestSpan>| batch.into_iter().map(|span| span.id).collect();
        batches.into_iter().map(|batch| batch.map(ids)).collect()
    }

    #[test]
    fn items_are_written_in_order_and_in_batches_on_the_thread_of_that_name() {
        let (permit, permits) = channel();
        let (sink, batches, writes) = collector(Some(permits), None);
        let writer = BatchWriter::start("svc-span", 16, sink).unwrap();
        writer.offer(TestSpan { id: 0 });
        assert_eq!(writes.recv().unwrap().as_deref(), Some("svc-span"));
        (1..=7).for_each(|id| writer.offer(TestSpan { id }));
        drop(permit);
        assert!(writer.shutdown(Duration::MAX));
        assert_eq!(ids(batches), [Ok(vec![0]), Ok(vec![1, 2, 3]), Ok(vec![4, 5, 6]), Ok(vec![7])]);
        assert_eq!(writer.dropped_total(), 0);
    }

    #[test]
    fn a_full_queue_drops_and_reports_once_it_is_empty() {
        let (permit, permits) = channel();
        let (sink, batches, writes) = collector(Some(permits), None);
        let writer = BatchWriter::start("svc-span", 2, sink).unwrap();
        writer.offer(TestSpan { id: 0 });
        writes.recv().unwrap();
        (1..=5).for_each(|id| writer.offer(TestSpan { id }));
        assert_eq!(writer.dropped_total(), 3);
        assert!(!writer.shutdown(Duration::ZERO), "the sink is still blocked");
        drop(permit);
        assert!(writer.shutdown(Duration::MAX));
        assert_eq!(ids(batches), [Ok(vec![0]), Ok(vec![1, 2]), Err(3)]);
        writer.offer(TestSpan { id: 6 });
        assert_eq!(writer.dropped_total(), 4, "the thread has ended");
    }

    #[test]
    fn a_batch_that_was_not_written_is_dropped_and_the_next_one_is_not() {
        let (permit, permits) = channel();
        let (sink, batches, writes) = collector(Some(permits), Some(2));
        let writer = BatchWriter::start("svc-span", 16, sink).unwrap();
        writer.offer(TestSpan { id: 0 });
        writes.recv().unwrap();
        (1..=4).for_each(|id| writer.offer(TestSpan { id }));
        drop(permit);
        assert!(writer.shutdown(Duration::MAX));
        assert_eq!(ids(batches), [Ok(vec![0]), Ok(vec![4]), Err(3)]);
        assert_eq!(writer.dropped_total(), 3);
    }
}
