//! OTLP: what is said to a collector, and what it answers, without sockets.
//!
//! Promises: spans become the messages of OpenTelemetry's protocol; bytes and the end of the stream go in, an answer comes
//! out. What a collector can make us keep is bounded. Refuses: it owns no socket, reads no clock and decides nothing about a
//! second attempt.
//!
//! | file | about |
//! |---|---|
//! | `wire` | the encoding of protocol buffers |
//! | `protobuf`, `json` | a batch of spans in the two encodings |
//! | `payload` | a batch as it is sent: encoded, and perhaps compressed |
//! | `answer` | what the collector has answered |
//! | `http1` | one export over HTTP/1.1 |
//! | `grpc`, `pipe` | exports over gRPC: a library's HTTP/2, polled by hand |
//! | `conversation` | one of the two |
//! | `request_fields`, `lost` | what both have in common |

mod answer;
mod conversation;
mod grpc;
mod http1;
mod json;
mod lost;
mod payload;
mod pipe;
mod protobuf;
mod request_fields;
mod wire;

pub use answer::{CollectorAnswer, PartialSuccess};
pub use conversation::Conversation;
pub use lost::Lost;
pub use payload::{BatchEncoder, Payload, span_format};

/// Whom the spans are from: the attributes of the resource.
pub type Resource = crate::trace::Attributes;

/// The name of the instrumentation.
const SCOPE_NAME: &str = "svc";

/// Its version.
const SCOPE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the semantic conventions that attributes follow.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// What the parent's process has to do with the flags of a span: it is known whether the parent is remote.
const HAS_IS_REMOTE: u32 = 0x100;

/// The parent is remote.
const IS_REMOTE: u32 = 0x200;
