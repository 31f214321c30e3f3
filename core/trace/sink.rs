//! The queue of finished spans.
//!
//! [`offer`](TraceSink::offer) never waits and makes a system call only when a batch is complete; a span that does not
//! fit is dropped and counted. Sends nothing; the exporter takes the spans.
//!
//! The thread that built a span encodes it, so that its texts are freed where they were allocated. The exporter takes a
//! single buffer and returns it for reuse.

use std::fmt;

use crate::limits::SPAN_BUFFER_KEPT_MAX;
use crate::sync::batch_queue::{BatchQueue, Enqueued};
use crate::sync::primitive::ArrayQueue;

use super::span::Span;

/// The bounded queue of finished spans for the exporter.
pub struct TraceSink {
    queue: BatchQueue<EncodedSpan>,
    format: SpanFormat,
    /// Empty buffers for reuse.
    spares: ArrayQueue<Vec<u8>>,
    /// Wakes the exporter.
    ring: Box<dyn Fn() + Send + Sync>,
}

/// A finished span in its wire encoding.
#[derive(Debug)]
pub struct EncodedSpan(Vec<u8>);

/// Encodes a span at the end of a buffer.
pub type SpanFormat = fn(&Span, Vec<u8>) -> Vec<u8>;

impl TraceSink {
    /// Creates a queue of at most `spans_max` spans, which the exporter takes in batches. `ring` wakes the exporter and
    /// must not wait for it.
    pub fn new(
        spans_max: usize,
        batch_items_max: usize,
        format: SpanFormat,
        ring: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            queue: BatchQueue::new(spans_max),
            format,
            spares: ArrayQueue::new(batch_items_max.min(SPARES_MAX)),
            ring: Box::new(ring),
        }
    }

    /// Queues a finished span, or drops and counts it.
    pub fn offer(&self, span: &Span) {
        debug_assert!(span.context.is_sampled(), "{span:?} is not to be recorded");
        // Skips encoding a span that will be dropped.
        if self.queue.is_refusing() {
            return;
        }
        let buffer = self.spares.pop().unwrap_or_else(|| Vec::with_capacity(SPAN_BYTES_TYPICAL));
        if self.queue.offer(EncodedSpan((self.format)(span, buffer))) == Enqueued::Ring {
            (self.ring)();
        }
    }

    /// Takes back the buffer of an exported span.
    pub fn reuse(&self, span: EncodedSpan) {
        let EncodedSpan(mut buffer) = span;
        if buffer.capacity() <= SPAN_BUFFER_KEPT_MAX {
            buffer.clear();
            // Frees the buffer if there are enough.
            let _ = self.spares.push(buffer);
        }
    }

    /// Returns the number of dropped spans.
    pub fn dropped_total(&self) -> u64 {
        self.queue.dropped_total()
    }

    /// Refuses further spans and wakes the exporter, which exports the queued ones and ends.
    pub fn close(&self) {
        self.queue.close();
        (self.ring)();
    }

    /// Returns the exporter's side.
    pub fn queue(&self) -> &BatchQueue<EncodedSpan> {
        &self.queue
    }
}

impl EncodedSpan {
    /// Encodes a span.
    pub fn of(span: &Span, format: SpanFormat) -> Self {
        Self(format(span, Vec::new()))
    }

    /// Returns the encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for EncodedSpan {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for TraceSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSink").field("queue", &self.queue.len()).finish_non_exhaustive()
    }
}

/// The maximum number of spare buffers.
const SPARES_MAX: usize = 1024;

/// Large enough for a typical span of a request, so that its buffer does not grow.
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
