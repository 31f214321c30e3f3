//! A batch as JSON, and spans, in OTLP's mapping: IDs in hexadecimal digits, names in lower camel case, 64-bit integers
//! as strings, and enums as numbers.
//!
//! The content is the same as in Protocol Buffers. There is no insignificant white space.

use crate::config::ExportSignal;
use crate::trace::{Attribute, AttributeValue, Attributes, Span, SpanEvent, SpanLink, SpanStatus};

use super::json_writer::JsonWriter;
use super::protobuf::{flags, kind};
use super::{Resource, SCHEMA_URL, SCOPE_NAME, SCOPE_VERSION};

/// The parts of a batch around its items.
#[derive(Debug)]
pub(super) struct BatchFrame {
    resource: Resource,
    /// The names of the lists of resources, scopes and items.
    lists: [&'static str; 3],
}

impl BatchFrame {
    /// Creates the frame of items that belong to `resource`.
    pub(super) fn new(signal: ExportSignal, resource: Resource) -> Self {
        let lists = match signal {
            ExportSignal::Traces => ["resourceSpans", "scopeSpans", "spans"],
            ExportSignal::Metrics => ["resourceMetrics", "scopeMetrics", "metrics"],
            ExportSignal::Logs => ["resourceLogs", "scopeLogs", "logRecords"],
        };
        Self { resource, lists }
    }

    /// Builds the message around encoded items.
    pub(super) fn around<B: AsRef<[u8]>>(&self, items: &[B]) -> Vec<u8> {
        let [resources, scopes, list] = self.lists;
        let mut out = JsonWriter::behind(Vec::new());
        out.object(|message| {
            message.list(resources, [()], |resource_items, ()| {
                resource_items.object(|message| {
                    message.member("resource", |value| {
                        value.object(|message| attributes(message, &self.resource));
                    });
                    message.list(scopes, [()], |scope_items, ()| {
                        scope_items.object(|message| {
                            message.member("scope", |value| {
                                value.object(|scope| {
                                    scope.text("name", SCOPE_NAME);
                                    scope.text("version", SCOPE_VERSION);
                                });
                            });
                            message.list(list, items, |value, one| value.encoded(one.as_ref()));
                            message.text("schemaUrl", SCHEMA_URL);
                        });
                    });
                });
            });
        });
        out.into_bytes()
    }
}

/// Appends a span to `buffer`.
pub(super) fn encode_span(one: &Span, buffer: Vec<u8>) -> Vec<u8> {
    let mut out = JsonWriter::behind(buffer);
    out.object(|message| span(message, one));
    out.into_bytes()
}

fn span(message: &mut JsonWriter, span: &Span) {
    message.shown("traceId", span.context.trace_id);
    message.shown("spanId", span.context.span_id);
    if let Some(state) = &span.context.state {
        message.text("traceState", state);
    }
    if let Some(parent) = span.parent {
        message.shown("parentSpanId", parent.span_id);
    }
    message.text("name", &span.name);
    message.number("kind", kind(span.kind));
    message.shown("startTimeUnixNano", span.start.get());
    message.shown("endTimeUnixNano", span.end.get());
    attributes(message, &span.attributes);
    message.list("events", &span.events, |value, one| value.object(|message| event(message, one)));
    message.count("droppedEventsCount", span.events_dropped);
    message.list("links", &span.links, |value, one| value.object(|message| link(message, one)));
    message.count("droppedLinksCount", span.links_dropped);
    match &span.status {
        SpanStatus::Unset => {}
        SpanStatus::Ok => message.member("status", |value| value.object(|status| status.number("code", 1))),
        SpanStatus::Error(why) => message.member("status", |value| {
            value.object(|status| {
                if !why.is_empty() {
                    status.text("message", why);
                }
                status.number("code", 2);
            });
        }),
    }
    let is_remote = span.parent.is_some_and(|parent| parent.is_remote);
    message.number("flags", flags(&span.context, is_remote).into());
}

fn event(message: &mut JsonWriter, event: &SpanEvent) {
    message.shown("timeUnixNano", event.time.get());
    message.text("name", &event.name);
    attributes(message, &event.attributes);
}

fn link(message: &mut JsonWriter, link: &SpanLink) {
    message.shown("traceId", link.context.trace_id);
    message.shown("spanId", link.context.span_id);
    if let Some(state) = &link.context.state {
        message.text("traceState", state);
    }
    attributes(message, &link.attributes);
    message.number("flags", flags(&link.context, link.is_remote).into());
}

fn attributes(message: &mut JsonWriter, attributes: &Attributes) {
    message.list("attributes", attributes, |value, Attribute { key, value: one }| {
        value.object(|message| {
            message.text("key", key);
            message.member("value", |message| any_value(message, one));
        });
    });
    message.count("droppedAttributesCount", attributes.dropped());
}

fn any_value(out: &mut JsonWriter, value: &AttributeValue) {
    match value {
        AttributeValue::Text(text) => out.object(|message| message.text("stringValue", text)),
        AttributeValue::Bool(yes) => {
            out.object(|message| message.member("boolValue", |value| value.raw(yes)));
        }
        AttributeValue::Int(number) => out.object(|message| message.shown("intValue", number)),
        AttributeValue::Double(number) => {
            out.object(|message| message.member("doubleValue", |value| value.double(*number)));
        }
        AttributeValue::Texts(texts) => {
            array(out, texts, |value, text| value.object(|message| message.text("stringValue", text)));
        }
        AttributeValue::Bools(values) => array(out, values, |value, yes| {
            value.object(|message| message.member("boolValue", |value| value.raw(yes)));
        }),
        AttributeValue::Ints(values) => {
            array(out, values, |value, number| value.object(|message| message.shown("intValue", number)));
        }
        AttributeValue::Doubles(values) => array(out, values, |value, number| {
            value.object(|message| message.member("doubleValue", |value| value.double(*number)));
        }),
    }
}

fn array<T>(out: &mut JsonWriter, values: &[T], write: impl Fn(&mut JsonWriter, &T)) {
    out.object(|message| {
        message.member("arrayValue", |value| {
            value.object(|message| message.list("values", values, |value, one| write(value, one)));
        });
    });
}
