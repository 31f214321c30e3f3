//! Traces: spans, and which traces are recorded.
//!
//! Recording a span never waits for the collector. Requests and scripts are not known here: their owners build the spans.
//! Their export is the business of `otlp`, as far as it needs no socket; sockets and threads belong to the exporter in
//! `serve`.
//!
//! | file | about |
//! |---|---|
//! | `ids` | IDs of traces and spans, and timestamps |
//! | `span`, `attributes` | a finished span |
//! | `sampler` | the sampling decision |
//! | `sink` | the bounded queue of finished spans |
//! | `tracer` | decides whether to record the trace of a request, and takes its spans |
//! | `request_span` | the span of a request that is being served |
//! | `client_call` | the spans of calls to databases, key-value stores and HTTP servers |
//! | `data_source` | the connection parameters of database clients |
//! | `sql`, `sql_tokens`, `sql_words` | the operations of a query, and its text without values |
//! | `statement` | a cache of both for repeated queries |
//! | `uncaught` | the text of an uncaught exception |
//!
//! The sampler decides when the header of a request has been read, and the flags that are passed on agree with its decision.
//! Only a recorded request has a `RequestSpan`; for others, none of this is allocated.
//!
//! Two threads build the spans of a request. The thread of its connection builds the span of the request when it records
//! it; facts that only the script knows (attributes, events, the uncaught exception) travel there as notes. Later facts
//! belong to the span of the run, which the worker builds. The thread that ends a span encodes it; the exporter only
//! concatenates encoded spans.
//!
//! The *sink* is the bounded queue of finished spans.

mod attributes;
mod client_call;
mod data_source;
mod ids;
mod request_span;
mod sampler;
mod sink;
mod span;
mod sql;
mod sql_tokens;
mod sql_words;
mod statement;
mod tracer;
mod uncaught;

pub use attributes::{Attribute, Attributes};
pub use client_call::{SpanRecorder, record_call, record_end, redact};
pub use ids::{SpanId, TraceId, UnixNanos};
pub use request_span::{RequestPart, RequestSpan, ScriptNotes, SpanClock, exception_event};
pub use sink::{EncodedSpan, SpanFormat, TraceSink};
pub use span::{ParentSpan, Span, SpanContext, SpanEvent, SpanLink};
pub use sql::{SqlSummary, summarize, without_literals};
pub use sql_tokens::SqlDialect;
pub use statement::{Statement, Statements};
pub use tracer::{SpanIds, Tracer};
pub use uncaught::without_previous;

pub use svc_types::{AttributeValue, ClientCall, ClientEnd, ClientKind, SpanKind, SpanStatus};
