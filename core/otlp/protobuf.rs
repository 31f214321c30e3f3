//! A batch of spans as protocol buffers: the message `ExportTraceServiceRequest`.
//!
//! Promises: the field numbers are those of OpenTelemetry's definitions. Why it is written by hand: types that a compiler
//! makes of the definitions would first want a copy of each span, and the five messages below are all there is.

use crate::trace::{
    Attribute, AttributeValue, Attributes, Span, SpanContext, SpanEvent, SpanKind, SpanLink, SpanStatus,
};

use super::wire::Writer;
use super::{HAS_IS_REMOTE, IS_REMOTE, Resource, SCHEMA_URL, SCOPE_NAME, SCOPE_VERSION};

/// Writes the message behind `buffer`.
pub(super) fn encode(resource: &Resource, spans: &[Span], buffer: Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::behind(buffer);
    writer.message(1, |resource_spans| {
        resource_spans.message(1, |message| attributes(message, 1, resource));
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.text(1, SCOPE_NAME);
                scope.text(2, SCOPE_VERSION);
            });
            for one in spans {
                scope_spans.message(2, |message| span(message, one));
            }
            scope_spans.text(3, SCHEMA_URL);
        });
    });
    writer.into_bytes()
}

fn span(message: &mut Writer, span: &Span) {
    message.bytes(1, &span.context.trace_id.to_bytes());
    message.bytes(2, &span.context.span_id.to_bytes());
    message.text(3, span.context.state.as_deref().unwrap_or_default());
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.span_id.to_bytes());
    }
    message.text(5, &span.name);
    message.varint(6, kind(span.kind));
    message.fixed64(7, span.start.get());
    message.fixed64(8, span.end.get());
    attributes(message, 9, &span.attributes);
    message.count(10, span.attributes.dropped());
    for one in &span.events {
        message.message(11, |message| event(message, one));
    }
    message.count(12, span.events_dropped);
    for one in &span.links {
        message.message(13, |message| link(message, one));
    }
    message.count(14, span.links_dropped);
    match &span.status {
        SpanStatus::Unset => {}
        SpanStatus::Ok => message.message(15, |status| status.varint(3, 1)),
        SpanStatus::Error(why) => message.message(15, |status| {
            status.text(2, why);
            status.varint(3, 2);
        }),
    }
    message.fixed32(16, flags(&span.context, span.parent.is_some_and(|parent| parent.is_remote)));
}

fn event(message: &mut Writer, event: &SpanEvent) {
    message.fixed64(1, event.time.get());
    message.text(2, &event.name);
    attributes(message, 3, &event.attributes);
    message.count(4, event.attributes.dropped());
}

fn link(message: &mut Writer, link: &SpanLink) {
    message.bytes(1, &link.context.trace_id.to_bytes());
    message.bytes(2, &link.context.span_id.to_bytes());
    message.text(3, link.context.state.as_deref().unwrap_or_default());
    attributes(message, 4, &link.attributes);
    message.count(5, link.attributes.dropped());
    message.fixed32(6, flags(&link.context, link.is_remote));
}

fn attributes(message: &mut Writer, field: u32, attributes: &Attributes) {
    for Attribute { key, value: one } in attributes {
        message.message(field, |message| {
            message.text(1, key);
            message.message(2, |message| value(message, one));
        });
    }
}

/// The fields of a choice are written even if they are empty: which one it is is what they say.
fn value(message: &mut Writer, value: &AttributeValue) {
    match value {
        AttributeValue::Text(text) => message.bytes(1, text.as_bytes()),
        AttributeValue::Bool(yes) => message.varint(2, (*yes).into()),
        AttributeValue::Int(number) => message.varint(3, *number as u64),
        AttributeValue::Double(number) => message.fixed64(4, number.to_bits()),
        AttributeValue::Texts(texts) => {
            list(message, texts, |message, text| message.bytes(1, text.as_bytes()));
        }
        AttributeValue::Bools(values) => {
            list(message, values, |message, yes| message.varint(2, (*yes).into()));
        }
        AttributeValue::Ints(values) => {
            list(message, values, |message, number| message.varint(3, *number as u64));
        }
        AttributeValue::Doubles(values) => {
            list(message, values, |message, number| message.fixed64(4, number.to_bits()));
        }
    }
}

fn list<T>(message: &mut Writer, values: &[T], write: impl Fn(&mut Writer, &T)) {
    message.message(5, |array| {
        for one in values {
            array.message(1, |message| write(message, one));
        }
    });
}

/// The number of a span's role.
pub(super) fn kind(kind: SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

/// The flags of a trace, and where the span's parent, or the linked span, comes from.
pub(super) fn flags(context: &SpanContext, is_remote: bool) -> u32 {
    u32::from(context.flags) | HAS_IS_REMOTE | if is_remote { IS_REMOTE } else { 0 }
}
