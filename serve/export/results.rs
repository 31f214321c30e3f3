//! The results of the exports of one signal: counts and log records.

use std::time::Instant;

use svc_core::config::ExportSignal;
use svc_core::observe::{Event, TraceEvent};
use svc_core::otlp::{ExportEvent, ExportWatch};
use svc_core::sync::primitive::Arc;

use super::otlp_client::Delivery;
use crate::shared::Shared;

/// Counts and logs the results of exports.
pub(crate) struct ExportResults {
    shared: Arc<Shared>,
    signal: ExportSignal,
    watch: ExportWatch,
}

impl ExportResults {
    /// Starts without exports.
    pub(crate) fn new(shared: &Arc<Shared>, signal: ExportSignal) -> Self {
        Self { shared: Arc::clone(shared), signal, watch: ExportWatch::default() }
    }

    /// Records an export of this number of items.
    pub(crate) fn account(&mut self, items: u64, delivery: Delivery, now: Instant) {
        let (metrics, signal) = (&self.shared.metrics, self.signal);
        if delivery.is_retried && signal == ExportSignal::Traces {
            metrics.otel_export_retries.incr();
        }
        match delivery.result {
            Ok(success) => {
                let rejected = success.rejected.min(items);
                metrics.otel_exported_items.add(signal, items - rejected);
                metrics.otel_lost_items.add(signal, rejected);
                if let Some(ExportEvent::Recovered { exports, items }) = self.watch.delivered() {
                    self.tell(TraceEvent::ExportsRecovered { signal, exports, items });
                }
                if success.is_remarkable() && self.watch.warned(now) {
                    let (rejected, message) = (success.rejected, &success.message);
                    self.tell(TraceEvent::PartialSuccess { signal, rejected, message });
                }
            }
            Err(reason) => {
                self.count_failure(items);
                match self.watch.failed(items, now) {
                    Some(ExportEvent::Failed) => {
                        self.tell(TraceEvent::ExportFailed { signal, reason: &reason, items });
                    }
                    Some(ExportEvent::StillFailing { exports, items }) => {
                        self.tell(TraceEvent::ExportsFail { signal, reason: &reason, exports, items });
                    }
                    Some(ExportEvent::Recovered { .. }) | None => {}
                }
            }
        }
    }

    fn count_failure(&self, items: u64) {
        let metrics = &self.shared.metrics;
        metrics.otel_failed_exports.add(self.signal, 1);
        match self.signal {
            ExportSignal::Traces => {
                metrics.otel_export_failures.incr();
                metrics.otel_export_failed_spans.add(items);
            }
            // The next export contains the changes.
            ExportSignal::Metrics => return,
            ExportSignal::Logs => {}
        }
        metrics.otel_lost_items.add(self.signal, items);
    }

    /// Records the total of items that the queue has dropped.
    pub(crate) fn dropped(&mut self, total: u64, now: Instant) {
        if let Some(items) = self.watch.dropped(total, now) {
            self.tell(TraceEvent::ItemsDropped { signal: self.signal, items });
        }
    }

    /// Records the items that are left at the deadline.
    pub(crate) fn left(&self, items: u64) {
        self.tell(TraceEvent::ItemsLeft { signal: self.signal, items });
    }

    fn tell(&self, event: TraceEvent<'_>) {
        self.shared.log.emit(&Event::Tracing(event));
    }
}
