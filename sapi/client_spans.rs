//! The spans of calls of databases, key-value stores and HTTP servers.
//!
//! Texts are bounded like those of scripts. The core defines names and attributes; the interpreter side identifies the
//! calls.

use std::cell::RefCell;
use std::time::Duration;

use svc_core::trace::{
    AttributeValue, ClientCall, ClientEnd, ClientKind, ClientTeller, Span, SpanStatus, Statements, Tracer,
};

use svc_ffi::{CalledClient, CalledEnd, CalledKind};

use crate::span_text::{ATTRIBUTE_BYTES, cut};

thread_local! {
    /// The statements prepared by scripts of this thread.
    static STATEMENTS: RefCell<Statements> = RefCell::default();
}

/// The usual number of attributes of a database call that succeeds.
const ATTRIBUTES_USUAL: usize = 8;

/// Sets the attributes known at the start of a call.
pub(crate) fn describe(tracer: &Tracer, span: &mut Span, bytes_left: &mut usize, call: &CalledClient<'_>) {
    let call = ClientCall {
        kind: kind_of(call.kind),
        system: call.system,
        operation: cut(call.operation),
        text: cut(call.text),
        is_prepared: call.is_prepared,
        has_other_backslash: call.has_other_backslash,
        source: cut(call.source),
        host: cut(call.host),
        port: call.port,
        namespace: cut(call.database),
    };
    span.attributes.reserve(ATTRIBUTES_USUAL);
    let mut teller = ToldClient { tracer, span, bytes_left };
    STATEMENTS.with_borrow_mut(|statements| {
        call.tell(&tracer.config().redacted_parameters, statements, &mut teller);
    });
}

/// Sets the attributes known at the end of a call.
pub(crate) fn finish(tracer: &Tracer, span: &mut Span, bytes_left: &mut usize, end: &CalledEnd<'_>) {
    let kind = kind_of(end.kind);
    let slow = Duration::from_millis(end.slow_ms.into());
    let lasted = Duration::from_nanos(span.end.get().saturating_sub(span.start.get()));
    let said = ClientEnd {
        is_failed: end.is_failed,
        error: cut(class_name(end.error)),
        code: cut(end.code),
        status: end.status,
        method: cut(end.method),
        version: match end.version {
            10 => "1.0",
            11 => "1.1",
            20 => "2",
            30 => "3",
            _ => "",
        },
    };
    let mut teller = ToldClient { tracer, span, bytes_left };
    let is_failed = said.tell(kind, &tracer.config().known_methods, &mut teller);
    if kind != ClientKind::Http && lasted >= slow {
        teller.say("svc.slow_query", true.into());
    }
    if end.is_cut {
        teller.say("svc.unfinished", true.into());
    }
    if is_failed {
        span.status = SpanStatus::Error("".into());
    }
}

/// Returns the name of a class. In the name of an anonymous class, a NUL precedes its location.
fn class_name(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn kind_of(kind: CalledKind) -> ClientKind {
    match kind {
        CalledKind::Sql => ClientKind::Sql,
        CalledKind::Store => ClientKind::Store,
        CalledKind::Http => ClientKind::Http,
    }
}

/// The span of a call, while attributes are added.
struct ToldClient<'a> {
    tracer: &'a Tracer,
    span: &'a mut Span,
    bytes_left: &'a mut usize,
}

impl ClientTeller for ToldClient<'_> {
    fn name(&mut self, name: String) {
        self.span.name = name.into();
    }

    fn say(&mut self, key: &'static str, value: AttributeValue) {
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
