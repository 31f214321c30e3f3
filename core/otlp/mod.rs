//! OTLP, the protocol between exporters and collectors, without sockets.
//!
//! Encodes spans as the messages of OpenTelemetry's protocol; takes received bytes and the end of the stream, and
//! returns responses. The memory that a collector can make us use is bounded. Owns no socket, reads no clock, and does
//! not decide about retries.
//!
//! | file | about |
//! |---|---|
//! | `wire` | the encoding of Protocol Buffers |
//! | `protobuf`, `json` | a batch of spans in the two encodings |
//! | `payload` | an encoded batch, optionally compressed |
//! | `answer` | the response of the collector |
//! | `http1` | one export over HTTP/1.1 |
//! | `grpc`, `pipe` | exports over gRPC: a library's HTTP/2, polled by hand |
//! | `exchange` | a connection of either kind |
//! | `request_fields`, `connection_lost` | shared by both |

mod answer;
mod connection_lost;
mod exchange;
mod grpc;
mod http1;
mod json;
mod payload;
mod pipe;
mod protobuf;
mod request_fields;
mod wire;

pub use answer::{CollectorAnswer, PartialSuccess};
pub use connection_lost::ConnectionLost;
pub use exchange::Exchange;
pub use payload::{BatchEncoder, Payload, span_format};

/// The source of the spans: the attributes of the resource.
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
