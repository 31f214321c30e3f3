//! Where finished spans go.
//!
//! Promises: [`offer`](TraceSink::offer) never waits and makes a system call only when a batch is complete; a span for which
//! the queue has no room is dropped and counted. Refuses: it sends nothing; the exporter takes spans out of it.

use std::fmt;

use crate::sync::batch_queue::{BatchQueue, Enqueued};

use super::span::Span;

/// The bounded queue of finished spans, on their way to the exporter.
pub struct TraceSink {
    /// Boxed, so that a long queue costs little while it is empty.
    queue: BatchQueue<Box<Span>>,
    /// Wakes the exporter.
    ring: Box<dyn Fn() + Send + Sync>,
}

impl TraceSink {
    /// Makes one that holds so many spans. `ring` wakes the exporter, and does not wait for it.
    pub fn new(spans_max: usize, ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self { queue: BatchQueue::new(spans_max), ring: Box::new(ring) }
    }

    /// Queues a finished span, or drops and counts it.
    pub fn offer(&self, span: Span) {
        debug_assert!(span.context.is_sampled(), "{span:?} is not to be recorded");
        if self.queue.offer(Box::new(span)) == Enqueued::Ring {
            (self.ring)();
        }
    }

    /// Spans that were dropped.
    pub fn dropped_total(&self) -> u64 {
        self.queue.dropped_total()
    }

    /// Takes no more spans, and wakes the exporter, which exports those that are there and ends.
    pub fn close(&self) {
        self.queue.close();
        (self.ring)();
    }

    /// The exporter's side.
    pub(crate) fn queue(&self) -> &BatchQueue<Box<Span>> {
        &self.queue
    }
}

impl fmt::Debug for TraceSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSink").field("queue", &self.queue.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::counter::RareCounter;
    use crate::sync::primitive::Arc;
    use crate::trace::{SpanContext, SpanId, SpanKind, TraceId, UnixNanos};

    fn span(number: u64) -> Span {
        let context =
            SpanContext::new(TraceId::new(1).unwrap(), SpanId::new(number).unwrap(), SpanContext::SAMPLED);
        Span::new(context, "GET", SpanKind::Server, UnixNanos::default())
    }

    #[test]
    fn the_exporter_is_woken_when_a_batch_is_complete_and_at_the_end() {
        let rings = Arc::new(RareCounter::default());
        let counted = Arc::clone(&rings);
        let sink = TraceSink::new(4, move || counted.incr());
        assert!(sink.queue().arm(3));
        (1..=2).for_each(|number| sink.offer(span(number)));
        assert_eq!(rings.value(), 0);
        (3..=5).for_each(|number| sink.offer(span(number)));
        assert_eq!((rings.value(), sink.dropped_total()), (1, 1));
        sink.close();
        sink.offer(span(6));
        assert_eq!((rings.value(), sink.dropped_total()), (2, 2));
        assert_eq!(sink.queue().take().unwrap().context.span_id.get(), 1);
    }
}
