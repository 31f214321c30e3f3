//! The settings of tracing: OpenTelemetry's variables, by OpenTelemetry's rules.
//!
//! Promises: what svc cannot follow is listed in [`TraceConfig::ignored`], to be logged, and has no effect. Refuses: with
//! `OTEL_ENABLED=false`, no other variable is looked at.

use std::path::PathBuf;
use std::time::Duration;

use super::problem::Problem;

mod endpoint;
mod keys;
mod pairs;
mod resolve;

pub(super) use keys::TRACING_KEYS;
pub(super) use pairs::{decoded, pairs};

/// How requests are traced.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// Whether `OTEL_SDK_DISABLED` is set: traces are passed on, as with `TRACE_CONTEXT` alone, and no span is recorded.
    pub is_disabled: bool,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// How much a span may hold.
    pub limits: SpanLimits,
    /// Whether `traceparent` and `tracestate` are read and passed on (`OTEL_PROPAGATORS`).
    pub has_trace_context: bool,
    /// The HTTP methods that spans record; all others become `_OTHER`.
    pub known_methods: Vec<String>,
    /// The parameters whose values are redacted in `url.query` and `url.full`.
    pub redacted_parameters: Vec<String>,
    /// The attributes of the resource that were chosen: `service.name`, and those of `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource: Vec<(String, String)>,
    /// How spans are put into batches.
    pub batch: BatchConfig,
    /// Where spans are sent; `None` if they are not sent, so that none need be recorded.
    pub export: Option<ExportConfig>,
    /// What was set, and is ignored.
    pub ignored: Vec<Problem>,
}

/// Which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Decides about a span without a parent, and about all spans if the parent does not decide.
    pub root: RootSampler,
    /// Whether a span with a parent follows it.
    pub is_parent_based: bool,
}

/// Which traces that begin here are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RootSampler {
    /// None.
    AlwaysOff,
    /// All.
    AlwaysOn,
    /// This share of them, from 0 to 1.
    Ratio(f64),
}

/// How much a span may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLimits {
    /// The number of its attributes.
    pub attributes: usize,
    /// The number of characters of a text, in an attribute of a span, an event or a link; `None` is no limit.
    pub value_chars: Option<usize>,
    /// The number of its events.
    pub events: usize,
    /// The number of attributes of an event.
    pub attributes_per_event: usize,
    /// The number of its links.
    pub links: usize,
    /// The number of attributes of a link.
    pub attributes_per_link: usize,
}

/// How much a list of attributes may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeLimits {
    /// The number of attributes.
    pub count: usize,
    /// The number of characters of a text; `None` is no limit.
    pub value_chars: Option<usize>,
}

/// How spans are put into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchConfig {
    /// The longest time that a span waits for others.
    pub schedule_delay: Duration,
    /// The time for an export with all its attempts; `None` is no limit.
    pub export_timeout: Option<Duration>,
    /// The number of spans that can wait for the exporter.
    pub queue_spans_max: usize,
    /// The number of spans in a batch, not greater than that.
    pub batch_spans_max: usize,
}

/// Where spans are sent, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// The protocol.
    pub protocol: ExportProtocol,
    /// The collector.
    pub endpoint: ExportEndpoint,
    /// Fields of each request; secret.
    pub headers: Vec<(String, String)>,
    /// The time for one attempt; `None` is no limit.
    pub timeout: Option<Duration>,
    /// Whether requests are compressed with gzip.
    pub has_gzip: bool,
    /// The file with the certificates of the authorities to trust; `None` trusts those of the system.
    pub trusted: Option<PemFile>,
    /// The certificate to present to the collector, and its key.
    pub identity: Option<(PemFile, PemFile)>,
}

/// A file that a setting names. It was readable when the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFile {
    /// The setting.
    pub setting: &'static str,
    /// Its absolute path.
    pub path: PathBuf,
}

/// A protocol of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportProtocol {
    /// gRPC.
    Grpc,
    /// JSON over HTTP.
    HttpJson,
    /// Protocol buffers over HTTP.
    HttpProtobuf,
}

/// The URL of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEndpoint {
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// The host: a name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, and what follows it; begins with a slash. gRPC does not use it.
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
    /// The limits for the attributes of a span.
    pub fn span_attributes(&self) -> AttributeLimits {
        AttributeLimits { count: self.attributes, value_chars: self.value_chars }
    }

    /// The limits for the attributes of an event.
    pub fn event_attributes(&self) -> AttributeLimits {
        AttributeLimits { count: self.attributes_per_event, value_chars: self.value_chars }
    }

    /// The limits for the attributes of a link.
    pub fn link_attributes(&self) -> AttributeLimits {
        AttributeLimits { count: self.attributes_per_link, value_chars: self.value_chars }
    }
}

impl TraceConfig {
    /// Whether spans are recorded.
    pub fn records(&self) -> bool {
        self.export.is_some()
    }
}

impl std::fmt::Debug for ExportConfig {
    /// Without the headers, which are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportConfig")
            .field("protocol", &self.protocol)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
