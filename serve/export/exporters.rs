//! The exporters of a server: one for each signal that is exported.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::Instant;

use svc_core::config::{Config, ExportSignal, TraceConfig};
use svc_core::observe::{Log, LogTap, MetricBook};
use svc_core::otlp::{ExportSchedule, Resource, RetryRules, log_format, metric_format, span_format};
use svc_core::sync::primitive::Arc;
use svc_core::time;
use svc_core::trace::{TraceSink, UnixNanos};

use super::exporter::{CollectorLink, ExporterError, RunningExporter};
use super::metric_exporter::MetricExporter;
use super::queue_exporter::{LogSource, QueueExporter, SpanSource};
use super::resource::resource;
use super::results::ExportResults;
use crate::ops::facts::OpsFacts;
use crate::shared::Shared;

/// Exporters that have not started; their queues already accept items.
#[derive(Debug, Default)]
pub(crate) struct PreparedExporters {
    spans: Option<(Arc<TraceSink>, CollectorLink)>,
    metrics: Option<CollectorLink>,
    logs: Option<(Arc<LogTap>, CollectorLink)>,
}

/// Running exporters.
#[derive(Debug)]
pub(crate) struct Exporters {
    spans: Option<RunningExporter>,
    metrics: Option<RunningExporter>,
    logs: Option<RunningExporter>,
}

impl PreparedExporters {
    /// Makes the queues, and whatever the threads need of the system and of files.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor, or a file that a setting names cannot be used.
    pub(crate) fn new(config: &Config, log: &Log) -> Result<Self, ExporterError> {
        let Some(tracing) = &config.tracing else { return Ok(Self::default()) };
        let spans = tracing.export.as_ref().map(|export| {
            let link = CollectorLink::new(export)?;
            let batch = &tracing.batch;
            let (queue, batch) = (batch.queue_items_max, batch.batch_items_max);
            let sink = TraceSink::new(queue, batch, span_format(export.protocol), link.ring()?);
            Ok((Arc::new(sink), link))
        });
        let metrics = tracing.metrics.as_ref().map(|metrics| CollectorLink::new(&metrics.export));
        let logs = tracing.logs.as_ref().zip(log.tap()).map(|(logs, tap)| {
            let link = CollectorLink::new(&logs.export)?;
            tap.set_ring(link.ring()?);
            Ok((Arc::clone(tap), link))
        });
        Ok(Self { spans: spans.transpose()?, metrics: metrics.transpose()?, logs: logs.transpose()? })
    }

    /// Returns the queue of finished spans, if spans are exported.
    pub(crate) fn sink(&self) -> Option<Arc<TraceSink>> {
        self.spans.as_ref().map(|(sink, _)| Arc::clone(sink))
    }

    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor or a thread.
    pub(crate) fn start(self, shared: &Arc<Shared>) -> io::Result<Exporters> {
        let Some(config) = &shared.config.tracing else {
            return Ok(Exporters { spans: None, metrics: None, logs: None });
        };
        let resource = resource(config, shared.php_version());
        let spans = self.spans.map(|(sink, link)| spans(shared, config, &resource, sink, link));
        let metrics = self.metrics.map(|link| metrics(shared, config, &resource, link));
        let logs = self.logs.map(|(tap, link)| logs(shared, config, &resource, tap, link));
        Ok(Exporters {
            spans: spans.transpose()?.flatten(),
            metrics: metrics.transpose()?.flatten(),
            logs: logs.transpose()?.flatten(),
        })
    }
}

impl Exporters {
    /// Exports the remaining spans and the last metrics, and waits for that until the deadline.
    pub(crate) fn finish_spans_and_metrics(&self, deadline: Instant) {
        let both = [&self.spans, &self.metrics];
        both.into_iter().flatten().for_each(|exporter| exporter.close(deadline));
        both.into_iter().flatten().for_each(|exporter| exporter.wait(deadline));
    }

    /// Exports the remaining log records, including those that the calling thread has emitted, and waits for that until
    /// the deadline.
    pub(crate) fn finish_logs(&self, log: &Log, deadline: Instant) {
        let Some(exporter) = &self.logs else { return };
        // Without a pipe, the last records may come too late.
        let _ = log.hand_over();
        exporter.close(deadline);
        exporter.wait(deadline);
    }
}

fn spans(
    shared: &Arc<Shared>,
    config: &TraceConfig,
    resource: &Resource,
    sink: Arc<TraceSink>,
    link: CollectorLink,
) -> io::Result<Option<RunningExporter>> {
    let Some(export) = &config.export else { return Ok(None) };
    let client = link.client(export, (config.batch.export_timeout, RetryRules::Once), resource.clone());
    let results = ExportResults::new(shared, ExportSignal::Traces);
    let (batch, source) = (config.batch, SpanSource(Arc::clone(&sink)));
    let work = move |deadline| QueueExporter::new(source, client, &batch, results, deadline).run();
    RunningExporter::start("svc-otel", move || sink.close(), work).map(Some)
}

fn logs(
    shared: &Arc<Shared>,
    config: &TraceConfig,
    resource: &Resource,
    tap: Arc<LogTap>,
    link: CollectorLink,
) -> io::Result<Option<RunningExporter>> {
    let Some(logs) = &config.logs else { return Ok(None) };
    let client = link.client(&logs.export, (logs.batch.export_timeout, backoff()), resource.clone());
    let results = ExportResults::new(shared, ExportSignal::Logs);
    let source = LogSource { tap: Arc::clone(&tap), format: log_format(logs.export.protocol) };
    let batch = logs.batch;
    let work = move |deadline| QueueExporter::new(source, client, &batch, results, deadline).run();
    RunningExporter::start("svc-otel-log", move || tap.close(), work).map(Some)
}

fn metrics(
    shared: &Arc<Shared>,
    config: &TraceConfig,
    resource: &Resource,
    link: CollectorLink,
) -> io::Result<Option<RunningExporter>> {
    let Some(metrics) = &config.metrics else { return Ok(None) };
    let ring = link.ring().map_err(|error| match error {
        ExporterError::System(error) => error,
        ExporterError::Setting(problem) => io::Error::other(problem.to_string()),
    })?;
    let client = link.client(&metrics.export, (metrics.timeout, backoff()), resource.clone());
    let (shared, now) = (Arc::clone(shared), time::now());
    let results = ExportResults::new(&shared, ExportSignal::Metrics);
    let (preference, interval) = (metrics.temporality, metrics.interval);
    let format = metric_format(metrics.export.protocol);
    let work = move |deadline| {
        let facts = OpsFacts::new(Arc::clone(&shared));
        let book = MetricBook::new(preference, UnixNanos::of(facts.scrape_facts().started_at));
        let schedule = ExportSchedule::new(interval, now);
        MetricExporter { shared, facts, book, schedule, format, client, results, deadline }.run();
    };
    RunningExporter::start("svc-otel-metric", ring, work).map(Some)
}

/// Returns OTLP's rules for retries.
fn backoff() -> RetryRules {
    RetryRules::Backoff { seed: RandomState::new().build_hasher().finish() }
}
