//! Traces: spans, which of them are recorded, and their way to the collector, as far as it needs no socket.
//!
//! Promises: whoever records a span never waits for the collector. What is sent, when, and what an answer means is
//! decided here, by values and with time as an argument. Refuses: it knows no request and no script, who builds the spans
//! does; it owns no socket and no thread, the exporter in `serve` does.
//!
//! | file | about |
//! |---|---|
//! | `ids` | the names of traces and spans, and times |
//! | `span`, `attributes` | a finished span |
//! | `sampler` | whether a trace is recorded |
//! | `sink` | the bounded queue of finished spans |
//! | `batcher` | when spans are exported |
//! | `retry` | whether an export is attempted again |
//! | `news` | what is worth a log record |
//! | `tracer` | what decides about the trace of a request, and takes its spans |
//! | `request_span` | the span of a request that is being served |
//! | `client_call` | what a span says about a call of a database, a store, or an HTTP server |
//! | `data_source` | what a client of a database is told about the server |
//! | `sql`, `sql_tokens`, `sql_words` | what a query does, and its text without values |
//! | `statement` | both, kept for queries that come again |

mod attributes;
mod batcher;
mod client_call;
mod data_source;
mod ids;
mod news;
mod request_span;
mod retry;
mod sampler;
mod sink;
mod span;
mod sql;
mod sql_tokens;
mod sql_words;
mod statement;
mod tracer;

pub use attributes::{Attribute, AttributeValue, Attributes};
pub use batcher::{BatchStep, Batcher};
pub use client_call::{ClientCall, ClientEnd, ClientKind, ClientTeller, redact};
pub use ids::{SpanId, TraceId, UnixNanos};
pub use news::{ExportNews, ExportWatch};
pub use request_span::{RequestPart, RequestSpan, ScriptNotes, SpanClock, exception_event};
pub use retry::{AfterAttempt, AttemptEnd, Export, ExportTimeouts};
pub use sink::{EncodedSpan, SpanFormat, TraceSink};
pub use span::{ParentSpan, Span, SpanContext, SpanEvent, SpanKind, SpanLink, SpanStatus};
pub use sql::{SqlSummary, summarize, without_literals};
pub use sql_tokens::SqlDialect;
pub use statement::{Statement, Statements};
pub use tracer::{SpanIds, Tracer};
