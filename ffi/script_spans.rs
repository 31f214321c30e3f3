//! Spans as scripts make them, with plain Rust types.
//!
//! Promises: a script names a span by a number, and a number that means nothing to its request has no effect. Refuses:
//! which spans are recorded, and what becomes of them, is the server's.

use std::any::Any;

use crate::called_client::{CalledClient, CalledEnd};

/// The position of a span in its trace, for a task that continues the trace. Opaque here.
pub type TraceSeat = Box<dyn Any + Send + Sync>;

/// The role of a span, according to its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptSpanKind {
    /// Work inside of the script.
    Internal,
    /// Work for a request that came in.
    Server,
    /// A request that goes out.
    Client,
    /// A message that is sent.
    Producer,
    /// Work for a message that came in.
    Consumer,
}

/// How a span ended, according to its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptSpanStatus {
    /// The script does not say.
    Unset,
    /// As it should.
    Ok,
    /// It failed.
    Error,
}

/// An attribute that a script sets. Texts are raw bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptAttribute<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: ScriptValue<'a>,
}

/// The value of an attribute that a script sets.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptValue<'a> {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(&'a [u8]),
    /// A list of booleans.
    Bools(Vec<bool>),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of floating-point numbers.
    Floats(Vec<f64>),
    /// A list of texts.
    Texts(Vec<&'a [u8]>),
}

/// What has ended a script, or a part of it.
#[derive(Clone, Copy, Debug)]
pub struct ScriptFailure<'a> {
    /// The class of the exception, or the name of PHP's constant for the error.
    pub class: &'a [u8],
    /// The message.
    pub message: &'a [u8],
    /// Where it was thrown, without arguments.
    pub trace: &'a [u8],
    /// It is an exception.
    pub is_exception: bool,
}

/// The spans of a request that has a trace. Numbers are IDs of spans; 0 stands for none.
pub trait ScriptSpans {
    /// The request's own span, if it is recorded.
    fn own(&mut self) -> u64;
    /// Begins a span below another one, or below the request's own. Returns 0 if it is not recorded.
    fn begin(&mut self, parent: u64, name: &[u8], kind: ScriptSpanKind) -> u64;
    /// Sets an attribute.
    fn set_attribute(&mut self, span: u64, attribute: &ScriptAttribute<'_>);
    /// Adds an event.
    fn add_event(&mut self, span: u64, name: &[u8], attributes: &[ScriptAttribute<'_>]);
    /// Sets the status.
    fn set_status(&mut self, span: u64, status: ScriptSpanStatus, description: &[u8]);
    /// Ends a span, which says so if it was cut off. The request's own span goes on.
    fn end(&mut self, span: u64, is_cut: bool);
    /// Says what a span stands for: a call of a client.
    fn describe(&mut self, span: u64, call: &CalledClient<'_>);
    /// Ends the span of such a call.
    fn finish(&mut self, span: u64, end: &CalledEnd<'_>);
    /// Forgets a span: the call was none.
    fn discard(&mut self, span: u64);
    /// What to pass on to others that a span calls, as a `traceparent`.
    fn traceparent(&mut self, span: u64) -> &[u8];
    /// Returns the `tracestate` to propagate with it; empty if there is none.
    fn tracestate(&self) -> &[u8];
    /// The position of a span, for a task that continues the trace.
    fn seat(&mut self, span: u64) -> Option<TraceSeat>;
    /// Something has ended the script that nobody has caught.
    fn fail(&mut self, failure: &ScriptFailure<'_>);
}
