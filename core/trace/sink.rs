//! Where finished spans go.
//!
//! Promises: [`offer`](TraceSink::offer) never waits and makes a system call only when a batch is complete; a span for which
//! the queue has no room is dropped and counted. Refuses: it sends nothing; the exporter takes spans out of it.
//!
//! A span is encoded by the thread that has built it, so that its texts are freed where they were allocated, and what the
//! exporter takes is one buffer, which goes back to be used again.

use std::fmt;

use crate::limits::SPAN_BUFFER_KEPT_MAX;
use crate::sync::batch_queue::{BatchQueue, Enqueued};
use crate::sync::primitive::ArrayQueue;

use super::span::Span;

/// The bounded queue of finished spans, on their way to the exporter.
pub struct TraceSink {
    queue: BatchQueue<EncodedSpan>,
    format: SpanFormat,
    /// Empty buffers.
    spares: ArrayQueue<Vec<u8>>,
    /// Wakes the exporter.
    ring: Box<dyn Fn() + Send + Sync>,
}

/// A finished span in the encoding in which it is exported.
#[derive(Debug)]
pub struct EncodedSpan(Vec<u8>);

/// Encodes a span behind what is in a buffer.
pub type SpanFormat = fn(&Span, Vec<u8>) -> Vec<u8>;

impl TraceSink {
    /// Makes one that holds so many spans, of which the exporter takes so many at a time. `ring` wakes the exporter, and does
    /// not wait for it.
    pub fn new(
        spans_max: usize,
        batch_spans_max: usize,
        format: SpanFormat,
        ring: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            queue: BatchQueue::new(spans_max),
            format,
            spares: ArrayQueue::new(batch_spans_max.min(SPARES_MAX)),
            ring: Box::new(ring),
        }
    }

    /// Queues a finished span, or drops and counts it.
    pub fn offer(&self, span: &Span) {
        debug_assert!(span.context.is_sampled(), "{span:?} is not to be recorded");
        // What nobody will read is not encoded.
        if self.queue.is_refusing() {
            return;
        }
        let buffer = self.spares.pop().unwrap_or_else(|| Vec::with_capacity(SPAN_BYTES_TYPICAL));
        if self.queue.offer(EncodedSpan((self.format)(span, buffer))) == Enqueued::Ring {
            (self.ring)();
        }
    }

    /// Takes a buffer back whose span has been exported.
    pub fn reuse(&self, span: EncodedSpan) {
        let EncodedSpan(mut buffer) = span;
        if buffer.capacity() <= SPAN_BUFFER_KEPT_MAX {
            buffer.clear();
            // One too many is freed.
            let _ = self.spares.push(buffer);
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
    pub(crate) fn queue(&self) -> &BatchQueue<EncodedSpan> {
        &self.queue
    }
}

impl EncodedSpan {
    /// Encodes a span.
    pub fn of(span: &Span, format: SpanFormat) -> Self {
        Self(format(span, Vec::new()))
    }

    /// What is exported.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for TraceSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSink").field("queue", &self.queue.len()).finish_non_exhaustive()
    }
}

/// So many buffers are kept at most.
const SPARES_MAX: usize = 1024;

/// The span of a request finds room without growing its buffer.
const SPAN_BYTES_TYPICAL: usize = 640;

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

    /// Writes the ID of the span.
    fn format(span: &Span, mut buffer: Vec<u8>) -> Vec<u8> {
        buffer.extend_from_slice(&span.context.span_id.get().to_be_bytes());
        buffer
    }

    fn id(span: &EncodedSpan) -> u64 {
        u64::from_be_bytes(span.as_bytes().try_into().unwrap())
    }

    #[test]
    fn the_exporter_is_woken_when_a_batch_is_complete_and_at_the_end() {
        let rings = Arc::new(RareCounter::default());
        let counted = Arc::clone(&rings);
        let sink = TraceSink::new(4, 3, format, move || counted.incr());
        assert!(sink.queue().arm(3));
        (1..=2).for_each(|number| sink.offer(&span(number)));
        assert_eq!(rings.value(), 0);
        (3..=5).for_each(|number| sink.offer(&span(number)));
        assert_eq!((rings.value(), sink.dropped_total()), (1, 1));
        sink.close();
        sink.offer(&span(6));
        assert_eq!((rings.value(), sink.dropped_total()), (2, 2));
        assert_eq!(id(&sink.queue().take().unwrap()), 1);
    }

    #[test]
    fn a_buffer_is_used_again_unless_it_is_large_or_one_too_many() {
        let sink = TraceSink::new(4, 1, format, || {});
        sink.offer(&span(1));
        let first = sink.queue().take().unwrap();
        let address = first.as_bytes().as_ptr();
        sink.reuse(first);
        sink.reuse(EncodedSpan(Vec::with_capacity(8)));
        sink.offer(&span(2));
        let second = sink.queue().take().unwrap();
        assert_eq!((id(&second), second.as_bytes().as_ptr()), (2, address));
        sink.reuse(EncodedSpan(Vec::with_capacity(SPAN_BUFFER_KEPT_MAX + 1)));
        assert!(sink.spares.is_empty());
    }
}
