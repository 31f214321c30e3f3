//! Spans created by scripts, with plain Rust types.
//!
//! A script identifies a span by a number; a number unknown to its request has no effect. The server decides which
//! spans are recorded and exported.

use std::any::Any;

use svc_types::{AttributeValue, ClientCall, ClientEnd, SpanKind, SpanStatus};

/// The position of a span in its trace, for a task that continues the trace. Opaque here.
pub type TraceContext = Box<dyn Any + Send + Sync>;

/// An attribute that a script sets. Texts are raw bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptAttribute<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: AttributeValue<&'a [u8]>,
}

/// The failure that has ended a script, or a part of it.
#[derive(Clone, Copy, Debug)]
pub struct ScriptFailure<'a> {
    /// The class of the exception, or the name of PHP's constant for the error.
    pub class: &'a [u8],
    /// The message.
    pub message: &'a [u8],
    /// The stack trace, without arguments.
    pub trace: &'a [u8],
    /// Whether it is an exception.
    pub is_exception: bool,
}

/// The spans of a traced request. Numbers are span IDs; 0 is none.
pub trait ScriptSpans {
    /// Returns the span of the request; 0 if it is not recorded.
    fn own(&mut self) -> u64;
    /// Begins a child of another span, or of the span of the request. Returns 0 if it is not recorded.
    fn begin(&mut self, parent: u64, name: &[u8], kind: SpanKind) -> u64;
    /// Sets an attribute.
    fn set_attribute(&mut self, span: u64, attribute: &ScriptAttribute<'_>);
    /// Adds an event.
    fn add_event(&mut self, span: u64, name: &[u8], attributes: &[ScriptAttribute<'_>]);
    /// Sets the status.
    fn set_status(&mut self, span: u64, status: SpanStatus<&[u8]>);
    /// Ends a span, and marks it if it was cut off. The span of the request continues.
    fn end(&mut self, span: u64, is_cut: bool);
    /// Sets the attributes of a client call.
    fn describe(&mut self, span: u64, call: &ClientCall<'_>);
    /// Ends the span of a client call.
    fn finish(&mut self, span: u64, end: &ClientEnd<'_>);
    /// Drops a span that turned out not to be a call.
    fn discard(&mut self, span: u64);
    /// Returns the `traceparent` to propagate to servers called within a span.
    fn traceparent(&mut self, span: u64) -> &[u8];
    /// Returns the `tracestate` to propagate with it; empty if there is none.
    fn tracestate(&self) -> &[u8];
    /// Returns the position of a span, for a task that continues the trace.
    fn context(&mut self, span: u64) -> Option<TraceContext>;
    /// Records an uncaught failure that has ended the script.
    fn fail(&mut self, failure: &ScriptFailure<'_>);
}
