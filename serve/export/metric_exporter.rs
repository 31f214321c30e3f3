//! The exporter of metrics: it reads them at each interval, from the same source as `/metrics`, and once more at the end.

use svc_core::observe::MetricBook;
use svc_core::observe::exposition::export;
use svc_core::otlp::{ExportSchedule, Metric};
use svc_core::sync::primitive::Arc;
use svc_core::time;
use svc_core::trace::UnixNanos;

use super::exporter::Deadline;
use super::otlp_client::OtlpClient;
use super::results::ExportResults;
use crate::ops::facts::OpsFacts;
use crate::shared::Shared;

/// The state of the thread.
pub(crate) struct MetricExporter {
    /// The state of the server.
    pub(crate) shared: Arc<Shared>,
    /// The readings of the server.
    pub(crate) facts: OpsFacts,
    /// The totals that were exported.
    pub(crate) book: MetricBook,
    /// When to export.
    pub(crate) schedule: ExportSchedule,
    /// Encodes a metric.
    pub(crate) format: fn(&Metric, Vec<u8>) -> Vec<u8>,
    /// Delivers batches.
    pub(crate) client: OtlpClient,
    /// The results of exports.
    pub(crate) results: ExportResults,
    /// Set when the end begins.
    pub(crate) deadline: Deadline,
}

impl MetricExporter {
    /// Exports until the end begins, and then once more.
    pub(crate) fn run(mut self) {
        while self.deadline.get().is_none() {
            if self.schedule.is_due(self.client.now()) {
                self.export();
            } else {
                self.client.sleep(Some(self.schedule.due()));
            }
        }
        if self.deadline.get().is_some_and(|deadline| deadline <= self.client.now()) {
            let points = self.read().1;
            return self.results.left(points);
        }
        self.export();
    }

    /// Reads the metrics; returns them encoded, and the number of their points.
    fn read(&mut self) -> (Vec<Vec<u8>>, u64) {
        let facts = self.facts.scrape_facts();
        let metrics = self.book.read(UnixNanos::of(time::wall()), |exporter| {
            export(&self.shared.metrics, &facts, exporter);
        });
        let points = metrics.iter().map(|metric| metric.data.len() as u64).sum();
        (metrics.iter().map(|metric| (self.format)(metric, Vec::new())).collect(), points)
    }

    fn export(&mut self) {
        let (metrics, points) = self.read();
        let deadline = &self.deadline;
        let delivery = self.client.deliver(&metrics, &|| deadline.get());
        if delivery.result.is_ok() {
            self.book.accepted();
        }
        if let Some(until) = delivery.not_before {
            self.schedule.hold(until);
        }
        self.results.account(points, delivery, self.client.now());
    }
}
