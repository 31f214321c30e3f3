//! A batch of spans as JSON, in OTLP's mapping: IDs in hexadecimal digits, names in lower camel case, 64-bit integers
//! as strings, and enums as numbers.
//!
//! The content is the same as in Protocol Buffers. There is no insignificant white space.

use std::fmt::Display;
use std::io::Write as _;

use crate::trace::{
    Attribute, AttributeValue, Attributes, EncodedSpan, Span, SpanEvent, SpanLink, SpanStatus,
};

use super::protobuf::{flags, kind};
use super::{Resource, SCHEMA_URL, SCOPE_NAME, SCOPE_VERSION};

/// Appends a span to `buffer`.
pub(super) fn encode_span(one: &Span, buffer: Vec<u8>) -> Vec<u8> {
    let mut out = JsonWriter(buffer);
    out.object(|message| span(message, one));
    out.0
}

/// Builds the message around encoded spans.
pub(super) fn encode(resource: &Resource, spans: &[EncodedSpan]) -> Vec<u8> {
    let mut out = JsonWriter(Vec::new());
    out.object(|message| {
        message.list("resourceSpans", [()], |resource_spans, ()| {
            resource_spans.object(|message| {
                message.member("resource", |value| value.object(|message| attributes(message, resource)));
                message.list("scopeSpans", [()], |scope_spans, ()| {
                    scope_spans.object(|message| {
                        message.member("scope", |value| {
                            value.object(|scope| {
                                scope.text("name", SCOPE_NAME);
                                scope.text("version", SCOPE_VERSION);
                            });
                        });
                        message.list("spans", spans, |value, one| value.0.extend_from_slice(one.as_bytes()));
                        message.text("schemaUrl", SCHEMA_URL);
                    });
                });
            });
        });
    });
    out.0
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

/// Writes JSON.
struct JsonWriter(Vec<u8>);

impl JsonWriter {
    fn object(&mut self, write: impl FnOnce(&mut Self)) {
        self.0.push(b'{');
        write(self);
        self.0.push(b'}');
    }

    /// Writes a member; `write` writes its value.
    fn member(&mut self, name: &'static str, write: impl FnOnce(&mut Self)) {
        self.separate(b'{');
        self.raw(format_args!("\"{name}\":"));
        write(self);
    }

    /// Writes a list; omits an empty one, which is the default.
    fn list<T>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        self.member(name, |out| {
            out.0.push(b'[');
            for value in values {
                out.separate(b'[');
                write(out, value);
            }
            out.0.push(b']');
        });
    }

    fn text(&mut self, name: &'static str, text: &str) {
        self.member(name, |out| {
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(&mut out.0, text);
        });
    }

    /// Writes a value that needs no escaping as a string.
    fn shown(&mut self, name: &'static str, value: impl Display) {
        self.member(name, |out| out.raw(format_args!("\"{value}\"")));
    }

    fn number(&mut self, name: &'static str, number: u64) {
        self.member(name, |out| out.raw(number));
    }

    /// Writes a number; omits 0, which is the default.
    fn count(&mut self, name: &'static str, number: u32) {
        if number > 0 {
            self.number(name, number.into());
        }
    }

    /// Writes a floating-point number. JSON has no literals for NaN and infinities; the mapping uses strings.
    fn double(&mut self, number: f64) {
        if number.is_nan() {
            self.raw("\"NaN\"");
        } else if number.is_infinite() {
            self.raw(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
        } else {
            let _ = serde_json::to_writer(&mut self.0, &number);
        }
    }

    fn raw(&mut self, value: impl Display) {
        let _ = write!(self.0, "{value}");
    }

    /// Writes a comma unless this is the first element.
    fn separate(&mut self, opening: u8) {
        if self.0.last() != Some(&opening) {
            self.0.push(b',');
        }
    }
}
