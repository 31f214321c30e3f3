//! A log record in both encodings: the message `LogRecord`.
//!
//! Attributes are values of JSON, because records are; `null` is an empty value.

use serde_json::Value;

use crate::config::Level;
use crate::trace::{SpanId, TraceId, UnixNanos};

use super::json_writer::JsonWriter;
use super::wire::Writer;

/// A log record.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    /// When it was made.
    pub time: UnixNanos,
    /// Its level.
    pub level: Level,
    /// Its text.
    pub body: String,
    /// Its attributes.
    pub attributes: Vec<(String, Value)>,
    /// The trace of its request.
    pub trace_id: Option<TraceId>,
    /// The span that it belongs to.
    pub span_id: Option<SpanId>,
    /// The flags of the trace.
    pub trace_flags: u8,
}

impl LogRecord {
    /// Returns OpenTelemetry's number of the level.
    fn severity(&self) -> u64 {
        match self.level {
            Level::Debug => 5,
            Level::Info => 9,
            Level::Warn => 13,
            Level::Error => 17,
        }
    }
}

/// Appends a log record to `buffer`, as a field of the message around it.
pub(super) fn to_protobuf(record: &LogRecord, buffer: Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::behind(buffer);
    writer.message(2, |message| {
        message.fixed64(1, record.time.get());
        message.varint(2, record.severity());
        message.text(3, record.level.as_str());
        message.message(5, |body| body.bytes(1, record.body.as_bytes()));
        for (key, value) in &record.attributes {
            message.message(6, |attribute| entry(attribute, key, value));
        }
        if record.trace_flags > 0 {
            message.fixed32(8, record.trace_flags.into());
        }
        if let Some(id) = record.trace_id {
            message.bytes(9, &id.to_bytes());
        }
        if let Some(id) = record.span_id {
            message.bytes(10, &id.to_bytes());
        }
        message.fixed64(11, record.time.get());
    });
    writer.into_bytes()
}

fn entry(message: &mut Writer, key: &str, one: &Value) {
    message.text(1, key);
    message.message(2, |message| any_value(message, one));
}

/// Writes the message `AnyValue`. Whole numbers beyond 63 bits become floating-point numbers.
fn any_value(message: &mut Writer, value: &Value) {
    match value {
        Value::Null => {}
        Value::Bool(yes) => message.varint(2, (*yes).into()),
        Value::Number(number) => match number.as_i64() {
            Some(number) => message.varint(3, number.cast_unsigned()),
            None => message.double(4, number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => message.bytes(1, text.as_bytes()),
        Value::Array(values) => message.message(5, |array| {
            for one in values {
                array.message(1, |message| any_value(message, one));
            }
        }),
        Value::Object(members) => message.message(6, |list| {
            for (key, one) in members {
                list.message(1, |message| entry(message, key, one));
            }
        }),
    }
}

/// Appends a log record to `buffer`.
pub(super) fn to_json(record: &LogRecord, buffer: Vec<u8>) -> Vec<u8> {
    let mut out = JsonWriter::behind(buffer);
    out.object(|message| {
        message.shown("timeUnixNano", record.time.get());
        message.number("severityNumber", record.severity());
        message.text("severityText", record.level.as_str());
        message.member("body", |value| value.object(|body| body.text("stringValue", &record.body)));
        message.list("attributes", &record.attributes, |value, (key, one)| json_entry(value, key, one));
        message.count("flags", record.trace_flags.into());
        if let Some(id) = record.trace_id {
            message.shown("traceId", id);
        }
        if let Some(id) = record.span_id {
            message.shown("spanId", id);
        }
        message.shown("observedTimeUnixNano", record.time.get());
    });
    out.into_bytes()
}

fn json_entry(out: &mut JsonWriter, key: &str, one: &Value) {
    out.object(|message| {
        message.text("key", key);
        message.member("value", |value| json_value(value, one));
    });
}

fn json_value(out: &mut JsonWriter, value: &Value) {
    out.object(|message| match value {
        Value::Null => {}
        Value::Bool(yes) => message.member("boolValue", |value| value.raw(yes)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => message.shown("intValue", number),
            None => {
                message.member("doubleValue", |value| value.double(number.as_f64().unwrap_or(f64::NAN)));
            }
        },
        Value::String(text) => message.text("stringValue", text),
        Value::Array(values) => message.member("arrayValue", |value| {
            value.object(|array| array.list("values", values, json_value));
        }),
        Value::Object(members) => message.member("kvlistValue", |value| {
            value.object(|list| {
                list.list("values", members, |value, (key, one)| json_entry(value, key, one));
            });
        }),
    });
}
