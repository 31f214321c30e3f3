//! The rows about exported metrics and logs in the table of settings.
//!
//! The names, defaults and units are those of OpenTelemetry's specification, except for the two switches. Rows hold no
//! code. An application's SDK may read the same variables, so values that svc does not support are ignored (`lenient`).

use super::super::id::Id;
use super::super::key::{Exposure, Initial, Key, Section, ValueKind, ValueUnit};
use super::keys::{COMPRESSIONS, NUMBER_MAX, PROTOCOLS, milliseconds, number};
use crate::limits::LOG_EXPORT_QUEUE_RECORDS_MAX;

macro_rules! over {
    ($signal:literal, $suffix:literal) => {
        concat!("For ", $signal, " alone. It takes precedence over `OTEL_EXPORTER_OTLP", $suffix, "`.")
    };
}

/// The rows of the variables that apply to one signal and take precedence over those for all signals.
macro_rules! transport {
    ($word:literal, $signal:literal, [$endpoint:ident, $protocol:ident, $headers:ident, $timeout:ident, $compression:ident,
        $certificate:ident, $client_certificate:ident, $client_key:ident, $insecure:ident]) => {
        [
            Key::new(
                Id::$endpoint,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_ENDPOINT"),
                ValueKind::Text,
                Initial::Unset,
            )
            .about(
                Section::Telemetry,
                concat!(
                    "The URL for ",
                    $signal,
                    " alone: nothing is appended to its path. If unset, `v1/",
                    $signal,
                    "` is appended to the path of `OTEL_EXPORTER_OTLP_ENDPOINT`."
                ),
            ),
            Key::new(
                Id::$protocol,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_PROTOCOL"),
                PROTOCOLS,
                Initial::Unset,
            )
            .lenient()
            .about(Section::Telemetry, over!($signal, "_PROTOCOL")),
            Key::new(
                Id::$headers,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_HEADERS"),
                ValueKind::Pairs,
                Initial::Unset,
            )
            .lenient()
            .exposed(Exposure::Secret)
            .about(
                Section::Telemetry,
                concat!("For ", $signal, " alone. They replace `OTEL_EXPORTER_OTLP_HEADERS`."),
            ),
            Key::new(
                Id::$timeout,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_TIMEOUT"),
                milliseconds(),
                Initial::Unset,
            )
            .lenient()
            .about(Section::Telemetry, over!($signal, "_TIMEOUT")),
            Key::new(
                Id::$compression,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_COMPRESSION"),
                COMPRESSIONS,
                Initial::Unset,
            )
            .lenient()
            .about(Section::Telemetry, over!($signal, "_COMPRESSION")),
            Key::new(
                Id::$certificate,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_CERTIFICATE"),
                ValueKind::Path,
                Initial::Unset,
            )
            .exposed(Exposure::Local)
            .about(Section::Telemetry, over!($signal, "_CERTIFICATE")),
            Key::new(
                Id::$client_certificate,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_CLIENT_CERTIFICATE"),
                ValueKind::Path,
                Initial::Unset,
            )
            .exposed(Exposure::Local)
            .about(Section::Telemetry, over!($signal, "_CLIENT_CERTIFICATE")),
            Key::new(
                Id::$client_key,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_CLIENT_KEY"),
                ValueKind::Path,
                Initial::Unset,
            )
            .exposed(Exposure::Local)
            .about(Section::Telemetry, over!($signal, "_CLIENT_KEY")),
            Key::new(
                Id::$insecure,
                concat!("OTEL_EXPORTER_OTLP_", $word, "_INSECURE"),
                ValueKind::StrictBoolean,
                Initial::Unset,
            )
            .lenient()
            .about(Section::Telemetry, over!($signal, "_INSECURE")),
        ]
    };
}

/// The settings of exported metrics, without their transport.
pub(in crate::config) const METRIC_KEYS: [Key; 5] = [
    Key::new(Id::OtelMetricsEnabled, "OTEL_METRICS_ENABLED", ValueKind::Boolean, Initial::Is("false")).about(
        Section::Telemetry,
        "Whether the metrics of `/metrics` are also sent to a collector of OpenTelemetry; requires `OTEL_ENABLED=true`. With \
         `false`, the variables for metrics are not evaluated. See [telemetry.md](telemetry.md).",
    ),
    Key::new(Id::MetricsExporter, "OTEL_METRICS_EXPORTER", ValueKind::List, Initial::Is("otlp"))
        .lenient()
        .about(Section::Telemetry, "Where metrics go: to the collector (`otlp`), or nowhere (`none`)."),
    Key::new(Id::MetricExportInterval, "OTEL_METRIC_EXPORT_INTERVAL", INTERVAL, Initial::Is("60000"))
        .lenient()
        .about(Section::Telemetry, "The time between two exports of the metrics."),
    Key::new(Id::MetricExportTimeout, "OTEL_METRIC_EXPORT_TIMEOUT", milliseconds(), Initial::Is("30000"))
        .lenient()
        .about(Section::Telemetry, "The timeout for an export of the metrics, all attempts included. 0 means none."),
    Key::new(
        Id::MetricsTemporality,
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        ValueKind::Choice(&["cumulative", "delta", "lowmemory"]),
        Initial::Is("cumulative"),
    )
    .lenient()
    .about(
        Section::Telemetry,
        "Whether counters and histograms are sent as totals since the start (`cumulative`) or as the difference from the last \
         export that the collector has accepted (`delta`). `lowmemory` sends histograms as differences and counters as totals.",
    ),
];

/// The settings of exported logs, without their transport.
pub(in crate::config) const LOG_KEYS: [Key; 6] = [
    Key::new(Id::OtelLogsEnabled, "OTEL_LOGS_ENABLED", ValueKind::Boolean, Initial::Is("false")).about(
        Section::Telemetry,
        "Whether the records of the log are also sent to a collector of OpenTelemetry; requires `OTEL_ENABLED=true`. With \
         `false`, the variables for logs are not evaluated. See [telemetry.md](telemetry.md#logs).",
    ),
    Key::new(Id::LogsExporter, "OTEL_LOGS_EXPORTER", ValueKind::List, Initial::Is("otlp"))
        .lenient()
        .about(Section::Telemetry, "Where log records go, besides standard output: to the collector (`otlp`), or nowhere (`none`)."),
    Key::new(Id::BlrpScheduleDelay, "OTEL_BLRP_SCHEDULE_DELAY", milliseconds(), Initial::Is("1000"))
        .lenient()
        .about(Section::Telemetry, "How long a log record waits for others to be exported with it."),
    Key::new(Id::BlrpExportTimeout, "OTEL_BLRP_EXPORT_TIMEOUT", milliseconds(), Initial::Is("30000"))
        .lenient()
        .about(Section::Telemetry, "The timeout for exporting a batch of log records, all attempts included. 0 means none."),
    Key::new(
        Id::BlrpMaxQueueSize,
        "OTEL_BLRP_MAX_QUEUE_SIZE",
        number(1, LOG_EXPORT_QUEUE_RECORDS_MAX as u64),
        Initial::Is("2048"),
    )
    .lenient()
    .about(
        Section::Telemetry,
        "The number of log records that can wait for their export. Further ones are dropped and counted \
         (`svc_otel_dropped_items_total`); standard output still has them.",
    ),
    Key::new(
        Id::BlrpMaxExportBatchSize,
        "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
        number(1, LOG_EXPORT_QUEUE_RECORDS_MAX as u64),
        Initial::Is("512"),
    )
    .lenient()
    .about(
        Section::Telemetry,
        "The maximum number of log records in a batch. When as many wait, they are exported at once. It is at most \
         `OTEL_BLRP_MAX_QUEUE_SIZE`.",
    ),
];

/// The transport of exported metrics.
pub(in crate::config) const METRIC_TRANSPORT_KEYS: [Key; 9] = transport!(
    "METRICS",
    "metrics",
    [
        MetricsEndpoint,
        MetricsProtocol,
        MetricsHeaders,
        MetricsTimeout,
        MetricsCompression,
        MetricsCertificate,
        MetricsClientCertificate,
        MetricsClientKey,
        MetricsInsecure
    ]
);

/// The transport of exported logs.
pub(in crate::config) const LOG_TRANSPORT_KEYS: [Key; 9] = transport!(
    "LOGS",
    "logs",
    [
        LogsEndpoint,
        LogsProtocol,
        LogsHeaders,
        LogsTimeout,
        LogsCompression,
        LogsCertificate,
        LogsClientCertificate,
        LogsClientKey,
        LogsInsecure
    ]
);

/// An export reads every metric, so that exports must not follow each other at once.
const INTERVAL: ValueKind = ValueKind::Integer { min: 100, max: NUMBER_MAX, unit: ValueUnit::Milliseconds };
