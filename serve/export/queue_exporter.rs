//! The exporters of spans and of log records: they take finished items off a queue, and export them in batches.
//!
//! When to export, whether to retry and what to log is decided by `otlp`.

use svc_core::config::BatchConfig;
use svc_core::limits::LOG_BATCH_BYTES_MAX;
use svc_core::observe::{LogLine, LogTap};
use svc_core::otlp::{BatchStep, Batcher, LogRecord};
use svc_core::sync::batch_queue::BatchQueue;
use svc_core::sync::primitive::Arc;
use svc_core::trace::{EncodedSpan, TraceSink};

use super::exporter::Deadline;
use super::otlp_client::OtlpClient;
use super::results::ExportResults;

/// A queue of items, and their encoding.
pub(crate) trait ItemSource {
    /// An item in the queue.
    type Item;
    /// An encoded item.
    type Body: AsRef<[u8]>;

    /// Returns the queue.
    fn queue(&self) -> &BatchQueue<Self::Item>;

    /// Encodes an item.
    fn encode(&self, item: Self::Item) -> Self::Body;

    /// Takes back the buffer of an exported item.
    fn reuse(&self, body: Self::Body);

    /// Returns the maximum size of a batch, in bytes; its last item may exceed it.
    fn batch_bytes_max(&self) -> usize;
}

/// The spans, which were encoded when they ended.
pub(crate) struct SpanSource(pub(crate) Arc<TraceSink>);

/// The log records.
pub(crate) struct LogSource {
    /// Their queue.
    pub(crate) tap: Arc<LogTap>,
    /// Encodes a record.
    pub(crate) format: fn(&LogRecord, Vec<u8>) -> Vec<u8>,
}

/// The state of the thread.
pub(crate) struct QueueExporter<S: ItemSource> {
    source: S,
    client: OtlpClient,
    batcher: Batcher,
    results: ExportResults,
    batch: Vec<S::Body>,
    deadline: Deadline,
}

impl<S: ItemSource> QueueExporter<S> {
    /// Creates the state of a thread that has not exported anything.
    pub(crate) fn new(
        source: S,
        client: OtlpClient,
        batch: &BatchConfig,
        results: ExportResults,
        deadline: Deadline,
    ) -> Self {
        let batcher = Batcher::new(batch);
        let batch = Vec::with_capacity(batch.batch_items_max.min(BATCH_ITEMS));
        Self { source, client, batcher, results, batch, deadline }
    }

    /// Exports until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            let queue = self.source.queue();
            let is_closed = queue.is_closed();
            match self.batcher.next(queue.len(), is_closed, self.client.now()) {
                BatchStep::End => return,
                BatchStep::Export(_) if self.is_over() => return self.results.left(queue.len() as u64),
                BatchStep::Export(items) => self.export(items),
                BatchStep::Sleep { items, until } => {
                    if queue.arm(items) {
                        self.client.sleep(until);
                        self.source.queue().disarm();
                    }
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.deadline.get().is_some_and(|deadline| deadline <= self.client.now())
    }

    fn export(&mut self, items: usize) {
        let mut bytes = 0;
        while self.batch.len() < items
            && bytes < self.source.batch_bytes_max()
            && let Some(item) = self.source.queue().take()
        {
            let body = self.source.encode(item);
            bytes += body.as_ref().len();
            self.batch.push(body);
        }
        if self.batch.is_empty() {
            return;
        }
        let deadline = &self.deadline;
        let delivery = self.client.deliver(&self.batch, &|| deadline.get());
        if let Some(until) = delivery.not_before {
            self.batcher.hold(until);
        }
        let items = self.batch.len() as u64;
        self.batch.drain(..).for_each(|body| self.source.reuse(body));
        self.results.account(items, delivery, self.client.now());
        self.results.dropped(self.source.queue().dropped_total(), self.client.now());
    }
}

impl ItemSource for SpanSource {
    type Item = EncodedSpan;
    type Body = EncodedSpan;

    fn queue(&self) -> &BatchQueue<EncodedSpan> {
        self.0.queue()
    }

    fn encode(&self, item: EncodedSpan) -> EncodedSpan {
        item
    }

    fn reuse(&self, body: EncodedSpan) {
        self.0.reuse(body);
    }

    fn batch_bytes_max(&self) -> usize {
        usize::MAX
    }
}

impl ItemSource for LogSource {
    type Item = LogLine;
    type Body = Vec<u8>;

    fn queue(&self) -> &BatchQueue<LogLine> {
        self.tap.queue()
    }

    fn encode(&self, item: LogLine) -> Vec<u8> {
        (self.format)(&item.to_record(), Vec::new())
    }

    fn reuse(&self, _body: Vec<u8>) {}

    fn batch_bytes_max(&self) -> usize {
        LOG_BATCH_BYTES_MAX
    }
}

/// The initial capacity of a batch.
const BATCH_ITEMS: usize = 512;
