//! The spans of calls of databases, key-value stores and HTTP servers.
//!
//! Texts are bounded like those of scripts. The core defines names and attributes; the interpreter side identifies the
//! calls.

use std::cell::RefCell;
use std::time::Duration;

use svc_core::trace::{
    AttributeValue, ClientCall, ClientEnd, ClientKind, Span, SpanRecorder, SpanStatus, Statements, Tracer,
    record_call, record_end,
};

use crate::span_text::{ATTRIBUTE_BYTES, cut};

thread_local! {
    /// The statements prepared by scripts of this thread.
    static STATEMENTS: RefCell<Statements> = RefCell::default();
}

/// The usual number of attributes of a database call that succeeds.
const ATTRIBUTES_USUAL: usize = 8;

/// Sets the attributes known at the start of a call.
pub(crate) fn describe(tracer: &Tracer, span: &mut Span, bytes_left: &mut usize, call: &ClientCall<'_>) {
    let call = ClientCall {
        operation: cut(call.operation),
        text: cut(call.text),
        source: cut(call.source),
        host: cut(call.host),
        database: cut(call.database),
        ..*call
    };
    span.attributes.reserve(ATTRIBUTES_USUAL);
    let mut recorder = CallRecorder { tracer, span, bytes_left };
    STATEMENTS.with_borrow_mut(|statements| {
        record_call(&call, &tracer.config().redacted_parameters, statements, &mut recorder);
    });
}

/// Sets the attributes known at the end of a call.
pub(crate) fn finish(tracer: &Tracer, span: &mut Span, bytes_left: &mut usize, end: &ClientEnd<'_>) {
    let slow = Duration::from_millis(end.slow_ms.into());
    let duration = Duration::from_nanos(span.end.get().saturating_sub(span.start.get()));
    let end =
        ClientEnd { error: cut(class_name(end.error)), code: cut(end.code), method: cut(end.method), ..*end };
    let mut recorder = CallRecorder { tracer, span, bytes_left };
    let is_failed = record_end(&end, &tracer.config().known_methods, &mut recorder);
    if end.kind != ClientKind::Http && duration >= slow {
        recorder.set_attribute("svc.slow_query", true.into());
    }
    if end.is_cut {
        recorder.set_attribute("svc.unfinished", true.into());
    }
    if is_failed {
        span.status = SpanStatus::Error("".into());
    }
}

/// Returns the name of a class. In the name of an anonymous class, a NUL precedes its location.
fn class_name(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The span of a call, while attributes are added.
struct CallRecorder<'a> {
    tracer: &'a Tracer,
    span: &'a mut Span,
    bytes_left: &'a mut usize,
}

impl SpanRecorder for CallRecorder<'_> {
    fn set_name(&mut self, name: String) {
        self.span.name = name.into();
    }

    fn set_attribute(&mut self, key: &'static str, value: AttributeValue) {
        let text_bytes = if let AttributeValue::Text(text) = &value { text.len() } else { 0 };
        match self.bytes_left.checked_sub(ATTRIBUTE_BYTES + text_bytes) {
            Some(left) => {
                *self.bytes_left = left;
                self.span.set(key, value, self.tracer.limits());
            }
            None => self.span.attributes.add_dropped(1),
        }
    }
}
