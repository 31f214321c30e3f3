//! A batch as Protocol Buffers, and spans: the messages `ExportTraceServiceRequest`, `ExportMetricsServiceRequest` and
//! `ExportLogsServiceRequest`, which have the same field numbers around their items.
//!
//! The field numbers are those of OpenTelemetry's definitions. The code is written by hand: generated types would
//! require a copy of each span, and there are only the five messages below.
//!
//! An item is encoded as a field of the surrounding message, a span by the thread that ends it; a batch concatenates these
//! fields.

use crate::trace::{
    Attribute, AttributeValue, Attributes, Span, SpanContext, SpanEvent, SpanKind, SpanLink, SpanStatus,
};

use super::wire::{DELIMITED, Writer, delimited, encode};
use super::{HAS_IS_REMOTE, IS_REMOTE, Resource, SCHEMA_URL, SCOPE_NAME, SCOPE_VERSION};

/// The encoded parts of a batch around its items.
#[derive(Debug)]
pub(super) struct BatchFrame {
    /// The resource, as a field of `ResourceSpans`.
    resource: Vec<u8>,
    /// The scope, as a field of `ScopeSpans`.
    scope: Vec<u8>,
    /// The schema URL, as a field of `ScopeSpans`.
    schema: Vec<u8>,
}

impl BatchFrame {
    /// Encodes the frame of items that belong to `resource`.
    pub(super) fn new(resource: &Resource) -> Self {
        let written = |write: &dyn Fn(&mut Writer)| {
            let mut writer = Writer::default();
            write(&mut writer);
            writer.into_bytes()
        };
        Self {
            resource: written(&|fields| fields.message(1, |message| attributes(message, 1, resource))),
            scope: written(&|fields| {
                fields.message(1, |scope| {
                    scope.text(1, SCOPE_NAME);
                    scope.text(2, SCOPE_VERSION);
                });
            }),
            schema: written(&|fields| fields.text(3, SCHEMA_URL)),
        }
    }

    /// Appends the message to `buffer`.
    pub(super) fn around<B: AsRef<[u8]>>(&self, items: &[B], mut buffer: Vec<u8>) -> Vec<u8> {
        let items_bytes: usize = items.iter().map(|item| item.as_ref().len()).sum();
        let scope_items = self.scope.len() + items_bytes + self.schema.len();
        let resource_items = self.resource.len() + delimited(scope_items);
        buffer.reserve_exact(delimited(resource_items));
        let mut writer = Writer::behind(buffer);
        writer.begin(1, resource_items);
        writer.encoded(&self.resource);
        writer.begin(2, scope_items);
        writer.encoded(&self.scope);
        items.iter().for_each(|item| writer.encoded(item.as_ref()));
        writer.encoded(&self.schema);
        writer.into_bytes()
    }
}

/// Appends a span to `buffer`, as a field of `ScopeSpans`.
pub(super) fn encode_span(one: &Span, buffer: Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::behind(buffer);
    writer.message(2, |message| span(message, one));
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
        let is_written = match one {
            AttributeValue::Text(text) => {
                short_attribute(message, field, key, [0x0a, text.len() as u8], text.as_bytes())
            }
            AttributeValue::Int(number) => {
                let mut digits = [0; 10];
                let count = encode(*number as u64, &mut digits);
                short_attribute(message, field, key, [0x18], &digits[..count])
            }
            _ => false,
        };
        if !is_written {
            message.message(field, |message| {
                message.text(1, key);
                message.message(2, |message| value(message, one));
            });
        }
    }
}

/// Writes an attribute in the same encoding if each length fits into one byte, and returns whether it did. Nearly all
/// do, and attributes make up most of a span. `tag` and `payload` are the bytes of the value.
#[inline]
fn short_attribute<const TAG_BYTES: usize>(
    message: &mut Writer,
    field: u32,
    key: &str,
    tag: [u8; TAG_BYTES],
    payload: &[u8],
) -> bool {
    let value_bytes = tag.len() + payload.len();
    let bytes = key.len() + value_bytes + 4;
    if bytes >= 0x80 || key.is_empty() {
        return false;
    }
    message.reserve(bytes + 2);
    message.encoded(&[(field << 3 | DELIMITED) as u8, bytes as u8, 0x0a, key.len() as u8]);
    message.encoded(key.as_bytes());
    message.encoded(&[0x12, value_bytes as u8]);
    message.encoded(&tag);
    message.encoded(payload);
    true
}

/// Fields of a `oneof` are written even if they are empty, because their presence selects the variant.
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

/// Returns the number of a span kind.
pub(super) fn kind(kind: SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

/// Returns the flags of a trace, including whether the span's parent or the linked span is remote.
pub(super) fn flags(context: &SpanContext, is_remote: bool) -> u32 {
    u32::from(context.flags) | HAS_IS_REMOTE | if is_remote { IS_REMOTE } else { 0 }
}
