//! The thread `svc-otel`: it takes finished spans off their queue and exports them in batches.
//!
//! No thread that serves requests waits for it; at the end, the remaining spans are exported until the deadline, and the
//! number of lost ones is logged. When to export, whether to retry and what to log is decided by `trace`.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use mio::Poll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConfig;

use svc_core::config::{BatchConfig, ExportProtocol};
use svc_core::observe::{Event, TraceEvent};
use svc_core::otlp::span_format;
use svc_core::sync::primitive::Arc;
use svc_core::time;
use svc_core::trace::{BatchStep, Batcher, EncodedSpan, ExportNews, ExportWatch, TraceSink};

use super::otlp_client::{Delivery, OtlpClient};
use super::resource::resource;
use crate::shared::Shared;

/// An exporter that has not started; its queue already accepts spans.
#[derive(Debug)]
pub(crate) struct PreparedExporter {
    sink: Arc<TraceSink>,
    poll: Poll,
    tls: Option<Arc<ClientConfig>>,
}

/// A running exporter.
#[derive(Debug)]
pub(crate) struct SpanExporter {
    sink: Arc<TraceSink>,
    /// The latest time until which the thread may run; set once, at the end.
    deadline: Arc<OnceLock<Instant>>,
    /// Becomes readable when the thread, which holds the other end, has ended.
    ended: PipeReader,
}

/// The state of the thread.
struct ExporterThread {
    shared: Arc<Shared>,
    sink: Arc<TraceSink>,
    deadline: Arc<OnceLock<Instant>>,
    client: OtlpClient,
    batcher: Batcher,
    watch: ExportWatch,
    batch: Vec<EncodedSpan>,
}

impl PreparedExporter {
    /// Makes the queue and the waker of the thread.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor.
    pub(crate) fn new(
        batch: &BatchConfig,
        protocol: ExportProtocol,
        tls: Option<Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = OtlpClient::waker(&poll)?;
        let ring = move || {
            // If the wake-up fails, the thread exports after its delay.
            let _ = waker.wake();
        };
        let BatchConfig { queue_spans_max, batch_spans_max, .. } = *batch;
        let sink = TraceSink::new(queue_spans_max, batch_spans_max, span_format(protocol), ring);
        Ok(Self { sink: Arc::new(sink), poll, tls })
    }

    /// Returns the queue.
    pub(crate) fn sink(&self) -> Arc<TraceSink> {
        Arc::clone(&self.sink)
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor or a thread.
    pub(crate) fn start(self, shared: &Arc<Shared>) -> io::Result<Option<SpanExporter>> {
        let Some(config) = &shared.config.tracing else { return Ok(None) };
        let Some(export) = &config.export else { return Ok(None) };
        let resource = resource(config, shared.php_version());
        let (ended, ending) = io::pipe()?;
        let deadline = Arc::new(OnceLock::new());
        let thread = ExporterThread {
            shared: Arc::clone(shared),
            sink: Arc::clone(&self.sink),
            deadline: Arc::clone(&deadline),
            client: OtlpClient::new(export, &config.batch, self.tls, self.poll, resource, time::now),
            batcher: Batcher::new(&config.batch),
            watch: ExportWatch::default(),
            batch: Vec::with_capacity(config.batch.batch_spans_max.min(BATCH_SPANS)),
        };
        thread::Builder::new().name("svc-otel".to_owned()).spawn(move || thread.run(ending))?;
        Ok(Some(SpanExporter { sink: self.sink, deadline, ended }))
    }
}

impl SpanExporter {
    /// Closes the queue, exports the remaining spans, and waits for that until the deadline.
    pub(crate) fn finish(self, deadline: Instant) {
        // Set before the queue is closed, so that a thread that sees the closed queue sees the deadline.
        let _ = self.deadline.set(deadline);
        self.sink.close();
        let left = deadline.saturating_duration_since(time::now()) + END_GRACE;
        let mut waits = [PollFd::new(&self.ended, PollFlags::IN)];
        // The pipe carries no data; it becomes readable when its other end is closed. A thread that is resolving a name
        // is not waited for.
        let _ = poll(&mut waits, Timespec::try_from(left).ok().as_ref());
    }
}

impl ExporterThread {
    /// Exports until the queue is closed and empty; `_ending` is closed at that moment.
    fn run(mut self, _ending: PipeWriter) {
        loop {
            let queue = self.sink.queue();
            let is_closed = queue.is_closed();
            match self.batcher.next(queue.len(), is_closed, self.client.now()) {
                BatchStep::End => return,
                BatchStep::Export(_) if self.is_over() => return self.leave(),
                BatchStep::Export(spans) => self.export(spans),
                BatchStep::Sleep { spans, until } => {
                    if queue.arm(spans) {
                        self.client.sleep(until);
                        self.sink.queue().disarm();
                    }
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.deadline.get().is_some_and(|deadline| *deadline <= self.client.now())
    }

    fn export(&mut self, spans: usize) {
        self.batch.extend(std::iter::from_fn(|| self.sink.queue().take()).take(spans));
        if self.batch.is_empty() {
            return;
        }
        let deadline = &self.deadline;
        let delivery = self.client.deliver(&self.batch, &|| deadline.get().copied());
        let spans = self.batch.len() as u64;
        self.batch.drain(..).for_each(|span| self.sink.reuse(span));
        self.account(spans, delivery);
    }

    fn account(&mut self, spans: u64, delivery: Delivery) {
        let (metrics, now) = (&self.shared.metrics, self.client.now());
        if delivery.is_retried {
            metrics.otel_export_retries.incr();
        }
        match delivery.result {
            Ok(success) => {
                if let Some(ExportNews::Recovered { exports, spans }) = self.watch.delivered() {
                    self.tell(TraceEvent::ExportsRecovered { exports, spans });
                }
                if success.is_remarkable() && self.watch.warned(now) {
                    let message = &success.message;
                    self.tell(TraceEvent::PartialSuccess { rejected: success.rejected, message });
                }
            }
            Err(reason) => {
                metrics.otel_export_failures.incr();
                metrics.otel_export_failed_spans.add(spans);
                match self.watch.failed(spans, now) {
                    Some(ExportNews::Failed) => {
                        self.tell(TraceEvent::ExportFailed { reason: &reason, spans });
                    }
                    Some(ExportNews::StillFailing { exports, spans }) => {
                        self.tell(TraceEvent::ExportsFail { reason: &reason, exports, spans });
                    }
                    Some(ExportNews::Recovered { .. }) | None => {}
                }
            }
        }
        if let Some(spans) = self.watch.dropped(self.sink.dropped_total(), now) {
            self.tell(TraceEvent::SpansDropped { spans });
        }
    }

    /// Reports the spans that are left at the deadline.
    fn leave(&self) {
        let spans = self.sink.queue().len() as u64;
        self.tell(TraceEvent::SpansLeft { spans });
    }

    fn tell(&self, event: TraceEvent<'_>) {
        self.shared.log.emit(&Event::Tracing(event));
    }
}

/// The initial capacity of a batch.
const BATCH_SPANS: usize = 512;

/// How long to wait for the thread beyond its deadline, so that its last records reach the log.
const END_GRACE: std::time::Duration = std::time::Duration::from_millis(100);
