//! The settings of tracing, and of exported metrics and logs: OpenTelemetry's variables, by OpenTelemetry's rules.
//!
//! Values that svc does not support have no effect, and are listed in [`TraceConfig::ignored`] for the log. With
//! `OTEL_ENABLED=false`, no other variable is evaluated; without `OTEL_METRICS_ENABLED` and `OTEL_LOGS_ENABLED`, none of
//! those for metrics and logs.

use std::path::PathBuf;
use std::time::Duration;

use super::problem::Problem;

mod endpoint;
mod keys;
mod pairs;
mod resolve;
mod telemetry_keys;

pub(super) use keys::TRACING_KEYS;
pub(super) use pairs::{decoded, pairs};
pub(super) use telemetry_keys::{LOG_KEYS, LOG_TRANSPORT_KEYS, METRIC_KEYS, METRIC_TRANSPORT_KEYS};

/// How requests are traced, and which metrics and logs are exported.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// Whether `OTEL_SDK_DISABLED` is set: traces are propagated, as with `TRACE_CONTEXT` alone, and no span is
    /// recorded.
    pub is_disabled: bool,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// The limits of a span.
    pub limits: SpanLimits,
    /// Whether `traceparent` and `tracestate` are read and propagated (`OTEL_PROPAGATORS`).
    pub has_trace_context: bool,
    /// The HTTP methods that spans record; all others become `_OTHER`.
    pub known_methods: Vec<String>,
    /// The parameters whose values are redacted in `url.query` and `url.full`.
    pub redacted_parameters: Vec<String>,
    /// The configured attributes of the resource: `service.name`, and those of `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource: Vec<(String, String)>,
    /// The batching of spans.
    pub batch: BatchConfig,
    /// The export of spans; `None` if spans are not exported, and so need not be recorded.
    pub export: Option<ExportConfig>,
    /// The export of metrics; `None` if they are not exported.
    pub metrics: Option<MetricExportConfig>,
    /// The export of log records; `None` if they are not exported.
    pub logs: Option<LogExportConfig>,
    /// The ignored values.
    pub ignored: Vec<Problem>,
}

/// Which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Decides about a span without a parent, and about all spans if `is_parent_based` is false.
    pub root: RootSampler,
    /// Whether a span with a parent inherits its decision.
    pub is_parent_based: bool,
}

/// Which traces that start here are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RootSampler {
    /// None.
    AlwaysOff,
    /// All.
    AlwaysOn,
    /// This share of the traces, from 0 to 1.
    Ratio(f64),
}

/// The limits of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLimits {
    /// The maximum number of attributes.
    pub attributes: usize,
    /// The maximum number of characters of a text, in an attribute of a span, an event or a link; `None` means no
    /// limit.
    pub value_chars: Option<usize>,
    /// The maximum number of events.
    pub events: usize,
    /// The maximum number of attributes of an event.
    pub attributes_per_event: usize,
    /// The maximum number of links.
    pub links: usize,
    /// The maximum number of attributes of a link.
    pub attributes_per_link: usize,
}

/// The limits of a list of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeLimits {
    /// The maximum number of attributes.
    pub count: usize,
    /// The maximum number of characters of a text; `None` means no limit.
    pub value_chars: Option<usize>,
}

/// The batching of spans or log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchConfig {
    /// The maximum time that an item waits for others.
    pub schedule_delay: Duration,
    /// The timeout of an export with all its attempts; `None` means no limit.
    pub export_timeout: Option<Duration>,
    /// The maximum number of items that wait for the exporter.
    pub queue_items_max: usize,
    /// The maximum number of items in a batch; at most `queue_items_max`.
    pub batch_items_max: usize,
}

/// The export of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricExportConfig {
    /// The destination and the transport.
    pub export: ExportConfig,
    /// The time between two exports.
    pub interval: Duration,
    /// The timeout of an export with all its attempts; `None` means no limit.
    pub timeout: Option<Duration>,
    /// Totals, or differences.
    pub temporality: TemporalityPreference,
}

/// Whether counters and histograms are exported as totals since the start, or as differences from the export before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporalityPreference {
    /// As totals.
    Cumulative,
    /// As differences.
    Delta,
    /// Histograms as differences, counters as totals.
    LowMemory,
}

/// The export of log records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogExportConfig {
    /// The destination and the transport.
    pub export: ExportConfig,
    /// The batching.
    pub batch: BatchConfig,
}

/// A kind of exported data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportSignal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
}

/// The destination and the transport of a signal.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// The signal.
    pub signal: ExportSignal,
    /// The protocol.
    pub protocol: ExportProtocol,
    /// The collector.
    pub endpoint: ExportEndpoint,
    /// Additional fields of each request; secret.
    pub headers: Vec<(String, String)>,
    /// The timeout of one attempt; `None` means no limit.
    pub timeout: Option<Duration>,
    /// Whether requests are compressed with gzip.
    pub has_gzip: bool,
    /// The file with the trusted certificate authorities; `None` trusts those of the system.
    pub trusted: Option<PemFile>,
    /// The client certificate to present to the collector, and its key.
    pub identity: Option<(PemFile, PemFile)>,
}

/// A file given by a setting. It was readable when the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFile {
    /// The setting.
    pub setting: &'static str,
    /// Its absolute path.
    pub path: PathBuf,
}

/// A transport of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportProtocol {
    /// gRPC.
    Grpc,
    /// JSON over HTTP.
    HttpJson,
    /// Protocol Buffers over HTTP.
    HttpProtobuf,
}

/// The URL of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEndpoint {
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// The host name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path and the query; begins with a slash. gRPC does not use it.
    pub target: String,
}

impl Default for SpanLimits {
    fn default() -> Self {
        Self {
            attributes: 128,
            value_chars: None,
            events: 128,
            attributes_per_event: 128,
            links: 128,
            attributes_per_link: 128,
        }
    }
}

impl SpanLimits {
    /// Returns the limits for the attributes of a span.
    pub fn span_attributes(&self) -> AttributeLimits {
        AttributeLimits { count: self.attributes, value_chars: self.value_chars }
    }

    /// Returns the limits for the attributes of an event.
    pub fn event_attributes(&self) -> AttributeLimits {
        AttributeLimits { count: self.attributes_per_event, value_chars: self.value_chars }
    }

    /// Returns the limits for the attributes of a link.
    pub fn link_attributes(&self) -> AttributeLimits {
        AttributeLimits { count: self.attributes_per_link, value_chars: self.value_chars }
    }
}

impl ExportSignal {
    /// Every signal, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Returns OpenTelemetry's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}

impl std::fmt::Debug for ExportConfig {
    /// Omits the headers, which are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportConfig")
            .field("protocol", &self.protocol)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
