//! OpenTelemetry's rows in the table of settings.
//!
//! The names, defaults and units are those of OpenTelemetry's specification. Rows hold no code. An application's SDK
//! may read the same variables, so values that svc does not support are ignored (`lenient`).

use super::super::id::Id;
use super::super::key::{Exposure, Initial, Key, Section, ValueKind, ValueUnit};
use crate::limits::TRACE_QUEUE_SPANS_MAX;

/// The settings of tracing.
pub(in crate::config) const TRACING_KEYS: [Key; Id::OtelRedactQuery as usize - Id::OtelEnabled as usize + 1] = [
    Key::new(Id::OtelEnabled, "OTEL_ENABLED", ValueKind::Boolean, Initial::Is("false")).about(
        Section::Tracing,
        "Enables tracing: spans of requests are sent to a collector of OpenTelemetry, and W3C Trace Context is enabled \
         as with `TRACE_CONTEXT`. Invalid values of the other variables in this section are ignored with a warning in the log, \
         unless their description says otherwise; with `false`, none of them is read. See [tracing.md](tracing.md).",
    ),
    Key::new(Id::OtlpEndpoint, "OTEL_EXPORTER_OTLP_ENDPOINT", ValueKind::Text, Initial::Computed("port 4318 of localhost; with `grpc`, 4317"))
        .about(
            Section::Tracing,
            "The URL of the collector, with `http` or `https`. `v1/traces` is appended to its path. With `grpc`, the path is \
             not used, and `host:port` is accepted as well. A value that is not a URL stops the start.",
        ),
    Key::new(Id::TracesEndpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ValueKind::Text, Initial::Unset)
        .about(Section::Tracing, "The same for traces alone: nothing is appended to its path. It takes precedence."),
    Key::new(Id::OtlpProtocol, "OTEL_EXPORTER_OTLP_PROTOCOL", PROTOCOLS, Initial::Is("http/protobuf"))
        .lenient()
        .about(Section::Tracing, "The protocol of the collector."),
    Key::new(Id::TracesProtocol, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", PROTOCOLS, Initial::Unset)
        .lenient()
        .about(Section::Tracing, "The same for traces alone. It takes precedence."),
    Key::new(Id::OtlpHeaders, "OTEL_EXPORTER_OTLP_HEADERS", ValueKind::Pairs, Initial::Unset)
        .lenient()
        .exposed(Exposure::Secret)
        .about(
            Section::Tracing,
            "Header fields to send with each export, such as the key of a vendor; percent-encoded.",
        ),
    Key::new(Id::TracesHeaders, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", ValueKind::Pairs, Initial::Unset)
        .lenient()
        .exposed(Exposure::Secret)
        .about(Section::Tracing, "The same for traces alone. They replace the others."),
    Key::new(Id::OtlpTimeout, "OTEL_EXPORTER_OTLP_TIMEOUT", milliseconds(), Initial::Is("10000"))
        .lenient()
        .about(
            Section::Tracing,
            "The timeout of one attempt to export a batch. 0 means none. A second attempt is made only if the first one fails \
             without an answer within half of it, and within a second.",
        ),
    Key::new(Id::TracesTimeout, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", milliseconds(), Initial::Unset)
        .lenient()
        .about(Section::Tracing, "The same for traces alone. It takes precedence."),
    Key::new(Id::OtlpCompression, "OTEL_EXPORTER_OTLP_COMPRESSION", COMPRESSIONS, Initial::Is("none"))
        .lenient()
        .about(Section::Tracing, "The compression of exports."),
    Key::new(Id::TracesCompression, "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", COMPRESSIONS, Initial::Unset)
        .lenient()
        .about(Section::Tracing, "The same for traces alone. It takes precedence."),
    Key::new(Id::OtlpCertificate, "OTEL_EXPORTER_OTLP_CERTIFICATE", ValueKind::Path, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Section::Tracing,
            "The PEM file with the certificates to trust when the collector is `https`. If unset, those of the system are \
             trusted. A file that cannot be read stops the start.",
        ),
    Key::new(Id::TracesCertificate, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", ValueKind::Path, Initial::Unset)
        .exposed(Exposure::Local)
        .about(Section::Tracing, "The same for traces alone. It takes precedence."),
    Key::new(Id::OtlpClientCertificate, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", ValueKind::Path, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Section::Tracing,
            "The PEM file with the certificate chain to present to the collector. A file that cannot be read stops the start.",
        ),
    Key::new(Id::TracesClientCertificate, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", ValueKind::Path, Initial::Unset)
        .exposed(Exposure::Local)
        .about(Section::Tracing, "The same for traces alone. It takes precedence."),
    Key::new(Id::OtlpClientKey, "OTEL_EXPORTER_OTLP_CLIENT_KEY", ValueKind::Path, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Section::Tracing,
            "The PEM file with the unencrypted private key of that certificate. A file that cannot be read stops the start.",
        ),
    Key::new(Id::TracesClientKey, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", ValueKind::Path, Initial::Unset)
        .exposed(Exposure::Local)
        .about(Section::Tracing, "The same for traces alone. It takes precedence."),
    Key::new(Id::OtlpInsecure, "OTEL_EXPORTER_OTLP_INSECURE", ValueKind::StrictBoolean, Initial::Is("false"))
        .lenient()
        .about(
            Section::Tracing,
            "Whether the connection is not encrypted, if the protocol is `grpc` and the endpoint has no scheme.",
        ),
    Key::new(Id::TracesInsecure, "OTEL_EXPORTER_OTLP_TRACES_INSECURE", ValueKind::StrictBoolean, Initial::Unset)
        .lenient()
        .about(Section::Tracing, "The same for traces alone. It takes precedence."),
    Key::new(Id::ServiceName, "OTEL_SERVICE_NAME", ValueKind::Text, Initial::Computed("`unknown_service:svc`"))
        .lenient()
        .about(Section::Tracing, "The name of the service that the spans are from. It takes precedence over `service.name` in `OTEL_RESOURCE_ATTRIBUTES`."),
    Key::new(Id::ResourceAttributes, "OTEL_RESOURCE_ATTRIBUTES", ValueKind::Pairs, Initial::Unset)
        .lenient()
        .about(
            Section::Tracing,
            "Further attributes of the resource that the spans are from, such as `deployment.environment.name=staging`; \
             percent-encoded. They take precedence over those that svc finds out by itself.",
        ),
    Key::new(Id::TracesSampler, "OTEL_TRACES_SAMPLER", ValueKind::Choice(&SAMPLERS), Initial::Is("parentbased_always_on"))
        .lenient()
        .about(
            Section::Tracing,
            "Which traces are recorded: all, none, or a share of them; with `parentbased`, that is decided by the caller if \
             there is one.",
        ),
    Key::new(Id::TracesSamplerArg, "OTEL_TRACES_SAMPLER_ARG", ValueKind::Text, Initial::Unset)
        .lenient()
        .about(
            Section::Tracing,
            "The share of the traces that `traceidratio` and `parentbased_traceidratio` record, from 0 to 1. If unset, it is 1.",
        ),
    Key::new(Id::TracesExporter, "OTEL_TRACES_EXPORTER", ValueKind::List, Initial::Is("otlp"))
        .lenient()
        .about(Section::Tracing, "Where spans go: to the collector (`otlp`), or nowhere (`none`)."),
    Key::new(Id::Propagators, "OTEL_PROPAGATORS", ValueKind::List, Initial::Is("tracecontext,baggage"))
        .lenient()
        .about(
            Section::Tracing,
            "How traces are passed on: `tracecontext`, or `none`. `baggage` is accepted and left to the application.",
        ),
    Key::new(Id::BspScheduleDelay, "OTEL_BSP_SCHEDULE_DELAY", milliseconds(), Initial::Is("5000"))
        .lenient()
        .about(Section::Tracing, "How long a span waits for others to be exported with it."),
    Key::new(Id::BspExportTimeout, "OTEL_BSP_EXPORT_TIMEOUT", milliseconds(), Initial::Is("30000"))
        .lenient()
        .about(Section::Tracing, "The timeout for exporting a batch, both attempts included. 0 means none."),
    Key::new(Id::BspMaxQueueSize, "OTEL_BSP_MAX_QUEUE_SIZE", number(1, TRACE_QUEUE_SPANS_MAX as u64), Initial::Is("2048"))
        .lenient()
        .about(
            Section::Tracing,
            "The number of spans that can wait for their export. Further ones are dropped and counted \
             (`svc_otel_dropped_spans_total`).",
        ),
    Key::new(Id::BspMaxExportBatchSize, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", number(1, TRACE_QUEUE_SPANS_MAX as u64), Initial::Is("512"))
        .lenient()
        .about(
            Section::Tracing,
            "The maximum number of spans in a batch. When as many wait, they are exported at once. It is at most \
             `OTEL_BSP_MAX_QUEUE_SIZE`.",
        ),
    Key::new(Id::AttributeValueLengthLimit, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", any_number(), Initial::Unset)
        .lenient()
        .about(Section::Tracing, "The number of characters at which texts in attributes are cut off. If unset, they are not."),
    Key::new(Id::AttributeCountLimit, "OTEL_ATTRIBUTE_COUNT_LIMIT", any_number(), Initial::Is("128"))
        .lenient()
        .about(Section::Tracing, "The maximum number of attributes of a span, an event or a link. Further ones are dropped."),
    Key::new(Id::SpanAttributeValueLengthLimit, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", any_number(), Initial::Unset)
        .lenient()
        .about(Section::Tracing, "Takes precedence over `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`."),
    Key::new(Id::SpanAttributeCountLimit, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", any_number(), Initial::Unset)
        .lenient()
        .about(Section::Tracing, "Takes precedence over `OTEL_ATTRIBUTE_COUNT_LIMIT` for the attributes of a span."),
    Key::new(Id::SpanEventCountLimit, "OTEL_SPAN_EVENT_COUNT_LIMIT", any_number(), Initial::Is("128"))
        .lenient()
        .about(Section::Tracing, "The maximum number of events of a span, such as exceptions. Further ones are dropped."),
    Key::new(Id::SpanLinkCountLimit, "OTEL_SPAN_LINK_COUNT_LIMIT", any_number(), Initial::Is("128"))
        .lenient()
        .about(Section::Tracing, "The maximum number of links of a span. Further ones are dropped."),
    Key::new(Id::EventAttributeCountLimit, "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", any_number(), Initial::Unset)
        .lenient()
        .about(Section::Tracing, "Takes precedence over `OTEL_ATTRIBUTE_COUNT_LIMIT` for the attributes of an event."),
    Key::new(Id::LinkAttributeCountLimit, "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", any_number(), Initial::Unset)
        .lenient()
        .about(Section::Tracing, "Takes precedence over `OTEL_ATTRIBUTE_COUNT_LIMIT` for the attributes of a link."),
    Key::new(Id::OtelSdkDisabled, "OTEL_SDK_DISABLED", ValueKind::StrictBoolean, Initial::Is("false"))
        .lenient()
        .about(Section::Tracing, "Whether spans are neither recorded nor exported. Trace context is still propagated."),
    Key::new(Id::KnownMethods, "OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS", ValueKind::List, Initial::Is(KNOWN_METHODS))
        .lenient()
        .about(
            Section::Tracing,
            "The HTTP methods that spans record, of requests and of calls by scripts. All others become `_OTHER`. Case-sensitive. \
             The list replaces the default.",
        ),
    Key::new(Id::OtelRedactQuery, "OTEL_REDACT_QUERY", ValueKind::List, Initial::Is(REDACTED))
        .lenient()
        .about(
            Section::Tracing,
            "The parameters of a query whose values spans do not contain, or `none`. Case-sensitive. It replaces the default.",
        ),
];

/// The methods of RFC 9110, and `PATCH` and `QUERY`.
const KNOWN_METHODS: &str = "CONNECT,DELETE,GET,HEAD,OPTIONS,PATCH,POST,PUT,QUERY,TRACE";

/// The parameters of signed URLs that the semantic conventions redact.
const REDACTED: &str =
    "X-Amz-Signature,X-Amz-Credential,X-Amz-Security-Token,AWSAccessKeyId,Signature,sig,X-Goog-Signature";

pub(super) const PROTOCOLS: ValueKind = ValueKind::Choice(&["grpc", "http/protobuf", "http/json"]);

pub(super) const COMPRESSIONS: ValueKind = ValueKind::Choice(&["none", "gzip"]);

const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// The largest number that every SDK accepts.
pub(super) const NUMBER_MAX: u64 = i32::MAX as u64;

pub(super) const fn milliseconds() -> ValueKind {
    ValueKind::Integer { min: 0, max: NUMBER_MAX, unit: ValueUnit::Milliseconds }
}

const fn any_number() -> ValueKind {
    number(0, NUMBER_MAX)
}

pub(super) const fn number(min: u64, max: u64) -> ValueKind {
    ValueKind::Integer { min, max, unit: ValueUnit::Count }
}
