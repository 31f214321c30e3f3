//! OTLP, the protocol between exporters and collectors, without sockets.
//!
//! Encodes spans, metrics and log records as the messages of OpenTelemetry's protocol; takes received bytes and the end of
//! the stream, and returns responses; decides when to export, when to try again, and what to log about it. The memory that
//! a collector can make us use is bounded. Owns no socket and reads no clock: time is an argument.
//!
//! A *batch* contains the items (spans, metrics, log records) of one export, and an *export* is a batch with its *attempts*,
//! whose response is a status unless the connection is lost first.
//!
//! | file | about |
//! |---|---|
//! | `wire`, `json_writer` | the two encodings: Protocol Buffers and JSON |
//! | `protobuf`, `json` | a batch in the two encodings, and spans |
//! | `metric`, `log_record` | a metric and a log record, in both encodings |
//! | `payload` | an encoded batch, optionally compressed |
//! | `answer` | the response of the collector |
//! | `http1` | one export over HTTP/1.1 |
//! | `grpc`, `pipe` | exports over gRPC: a library's HTTP/2, polled by hand |
//! | `exchange` | a connection of either kind |
//! | `request_fields`, `connection_lost` | shared by both |
//! | `batcher`, `schedule` | when spans and log records are exported, and when metrics are |
//! | `retry` | the attempts of an export |
//! | `export_watch` | which results of exports are logged |

mod answer;
mod batcher;
mod connection_lost;
mod exchange;
mod export_watch;
mod grpc;
mod http1;
mod json;
mod json_writer;
mod log_record;
mod metric;
mod payload;
mod pipe;
mod protobuf;
mod request_fields;
mod retry;
mod schedule;
mod wire;

pub use answer::{CollectorAnswer, PartialSuccess, RetryAdvice};
pub use batcher::{BatchStep, Batcher};
pub use connection_lost::ConnectionLost;
pub use exchange::Exchange;
pub use export_watch::{ExportEvent, ExportWatch};
pub use log_record::LogRecord;
pub use metric::{HistogramPoint, Metric, MetricData, NumberPoint, PointAttributes, PointValue, Temporality};
pub use payload::{BatchEncoder, Payload, TooLarge, log_format, metric_format, span_format};
pub use retry::{AfterAttempt, AttemptEnd, Export, ExportTimeouts, RetryRules};
pub use schedule::ExportSchedule;

/// The source of the items: the attributes of the resource.
pub type Resource = crate::trace::Attributes;

/// The name of the instrumentation scope.
const SCOPE_NAME: &str = "svc";

/// Its version.
const SCOPE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the semantic conventions that attributes follow.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// A flag of a span or link: it is known whether the parent or linked span is remote.
const HAS_IS_REMOTE: u32 = 0x100;

/// A flag of a span or link: the parent or linked span is remote.
const IS_REMOTE: u32 = 0x200;
