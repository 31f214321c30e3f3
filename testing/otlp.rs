//! Decodes OTLP's Protocol Buffers to the JSON of OTLP's mapping.
//!
//! The tables below are transcribed from OpenTelemetry's definitions, and share no code with the server's encoder. A
//! field that is not listed, or has another type, fails the test.

use serde_json::{Map, Value, json};

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    number: u64,
    name: &'static str,
    kind: Kind,
    is_repeated: bool,
}

#[derive(Debug)]
enum Kind {
    Bool,
    Double,
    /// A list of eight-byte values.
    Doubles,
    Fixed32,
    Fixed64,
    Fixed64s,
    Hex,
    Int64,
    Message(&'static [Field]),
    Sfixed64,
    Text,
    Uint32,
}

const fn one(number: u64, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_repeated: false }
}

const fn many(number: u64, name: &'static str, message: &'static [Field]) -> Field {
    Field { number, name, kind: Kind::Message(message), is_repeated: true }
}

/// `ExportTraceServiceRequest`.
pub static REQUEST: [Field; 1] = [many(1, "resourceSpans", &RESOURCE_SPANS)];

static RESOURCE_SPANS: [Field; 3] = [
    one(1, "resource", Kind::Message(&RESOURCE)),
    many(2, "scopeSpans", &SCOPE_SPANS),
    one(3, "schemaUrl", Kind::Text),
];

static RESOURCE: [Field; 2] =
    [many(1, "attributes", &KEY_VALUE), one(2, "droppedAttributesCount", Kind::Uint32)];

static SCOPE_SPANS: [Field; 3] =
    [one(1, "scope", Kind::Message(&SCOPE)), many(2, "spans", &SPAN), one(3, "schemaUrl", Kind::Text)];

static SCOPE: [Field; 2] = [one(1, "name", Kind::Text), one(2, "version", Kind::Text)];

static SPAN: [Field; 16] = [
    one(1, "traceId", Kind::Hex),
    one(2, "spanId", Kind::Hex),
    one(3, "traceState", Kind::Text),
    one(4, "parentSpanId", Kind::Hex),
    one(5, "name", Kind::Text),
    one(6, "kind", Kind::Uint32),
    one(7, "startTimeUnixNano", Kind::Fixed64),
    one(8, "endTimeUnixNano", Kind::Fixed64),
    many(9, "attributes", &KEY_VALUE),
    one(10, "droppedAttributesCount", Kind::Uint32),
    many(11, "events", &EVENT),
    one(12, "droppedEventsCount", Kind::Uint32),
    many(13, "links", &LINK),
    one(14, "droppedLinksCount", Kind::Uint32),
    one(15, "status", Kind::Message(&STATUS)),
    one(16, "flags", Kind::Fixed32),
];

static EVENT: [Field; 4] = [
    one(1, "timeUnixNano", Kind::Fixed64),
    one(2, "name", Kind::Text),
    many(3, "attributes", &KEY_VALUE),
    one(4, "droppedAttributesCount", Kind::Uint32),
];

static LINK: [Field; 6] = [
    one(1, "traceId", Kind::Hex),
    one(2, "spanId", Kind::Hex),
    one(3, "traceState", Kind::Text),
    many(4, "attributes", &KEY_VALUE),
    one(5, "droppedAttributesCount", Kind::Uint32),
    one(6, "flags", Kind::Fixed32),
];

static STATUS: [Field; 2] = [one(2, "message", Kind::Text), one(3, "code", Kind::Uint32)];

static KEY_VALUE: [Field; 2] = [one(1, "key", Kind::Text), one(2, "value", Kind::Message(&ANY_VALUE))];

static ANY_VALUE: [Field; 6] = [
    one(1, "stringValue", Kind::Text),
    one(2, "boolValue", Kind::Bool),
    one(3, "intValue", Kind::Int64),
    one(4, "doubleValue", Kind::Double),
    one(5, "arrayValue", Kind::Message(&ARRAY_VALUE)),
    one(6, "kvlistValue", Kind::Message(&KEY_VALUE_LIST)),
];

static KEY_VALUE_LIST: [Field; 1] = [many(1, "values", &KEY_VALUE)];

static ARRAY_VALUE: [Field; 1] = [many(1, "values", &ANY_VALUE)];

/// `ExportMetricsServiceRequest`.
pub static METRICS_REQUEST: [Field; 1] = [many(1, "resourceMetrics", &RESOURCE_METRICS)];

static RESOURCE_METRICS: [Field; 3] = [
    one(1, "resource", Kind::Message(&RESOURCE)),
    many(2, "scopeMetrics", &SCOPE_METRICS),
    one(3, "schemaUrl", Kind::Text),
];

static SCOPE_METRICS: [Field; 3] =
    [one(1, "scope", Kind::Message(&SCOPE)), many(2, "metrics", &METRIC), one(3, "schemaUrl", Kind::Text)];

static METRIC: [Field; 6] = [
    one(1, "name", Kind::Text),
    one(2, "description", Kind::Text),
    one(3, "unit", Kind::Text),
    one(5, "gauge", Kind::Message(&GAUGE)),
    one(7, "sum", Kind::Message(&SUM)),
    one(9, "histogram", Kind::Message(&HISTOGRAM)),
];

static GAUGE: [Field; 1] = [many(1, "dataPoints", &NUMBER_POINT)];

static SUM: [Field; 3] = [
    many(1, "dataPoints", &NUMBER_POINT),
    one(2, "aggregationTemporality", Kind::Uint32),
    one(3, "isMonotonic", Kind::Bool),
];

static HISTOGRAM: [Field; 2] =
    [many(1, "dataPoints", &HISTOGRAM_POINT), one(2, "aggregationTemporality", Kind::Uint32)];

static NUMBER_POINT: [Field; 5] = [
    one(2, "startTimeUnixNano", Kind::Fixed64),
    one(3, "timeUnixNano", Kind::Fixed64),
    one(4, "asDouble", Kind::Double),
    one(6, "asInt", Kind::Sfixed64),
    many(7, "attributes", &KEY_VALUE),
];

static HISTOGRAM_POINT: [Field; 7] = [
    one(2, "startTimeUnixNano", Kind::Fixed64),
    one(3, "timeUnixNano", Kind::Fixed64),
    one(4, "count", Kind::Fixed64),
    one(5, "sum", Kind::Double),
    one(6, "bucketCounts", Kind::Fixed64s),
    one(7, "explicitBounds", Kind::Doubles),
    many(9, "attributes", &KEY_VALUE),
];

/// `ExportLogsServiceRequest`.
pub static LOGS_REQUEST: [Field; 1] = [many(1, "resourceLogs", &RESOURCE_LOGS)];

static RESOURCE_LOGS: [Field; 3] = [
    one(1, "resource", Kind::Message(&RESOURCE)),
    many(2, "scopeLogs", &SCOPE_LOGS),
    one(3, "schemaUrl", Kind::Text),
];

static SCOPE_LOGS: [Field; 3] = [
    one(1, "scope", Kind::Message(&SCOPE)),
    many(2, "logRecords", &LOG_RECORD),
    one(3, "schemaUrl", Kind::Text),
];

static LOG_RECORD: [Field; 10] = [
    one(1, "timeUnixNano", Kind::Fixed64),
    one(2, "severityNumber", Kind::Uint32),
    one(3, "severityText", Kind::Text),
    one(5, "body", Kind::Message(&ANY_VALUE)),
    many(6, "attributes", &KEY_VALUE),
    one(7, "droppedAttributesCount", Kind::Uint32),
    one(8, "flags", Kind::Fixed32),
    one(9, "traceId", Kind::Hex),
    one(10, "spanId", Kind::Hex),
    one(11, "observedTimeUnixNano", Kind::Fixed64),
];

/// Decodes a message.
pub fn read(message: &'static [Field], mut bytes: &[u8]) -> Value {
    let mut members = Map::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = message.iter().find(|field| field.number == tag >> 3);
        let field = field.unwrap_or_else(|| panic!("field {} is unknown in {message:?}", tag >> 3));
        let value = field.kind.read(tag & 7, &mut bytes);
        if field.is_repeated {
            let list = members.entry(field.name).or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(value);
        } else {
            assert!(members.insert(field.name.to_owned(), value).is_none(), "{} twice", field.name);
        }
    }
    Value::Object(members)
}

impl Kind {
    fn read(&self, wire_type: u64, bytes: &mut &[u8]) -> Value {
        let expected = match self {
            Self::Bool | Self::Int64 | Self::Uint32 => 0,
            Self::Double | Self::Fixed64 | Self::Sfixed64 => 1,
            Self::Doubles | Self::Fixed64s | Self::Hex | Self::Message(_) | Self::Text => 2,
            Self::Fixed32 => 5,
        };
        assert_eq!(wire_type, expected, "{self:?}");
        match self {
            Self::Bool => (varint(bytes) != 0).into(),
            Self::Int64 => (varint(bytes) as i64).to_string().into(),
            Self::Uint32 => varint(bytes).into(),
            Self::Double => double(f64::from_le_bytes(take(bytes, 8).try_into().unwrap())),
            Self::Fixed64 => u64::from_le_bytes(take(bytes, 8).try_into().unwrap()).to_string().into(),
            Self::Sfixed64 => i64::from_le_bytes(take(bytes, 8).try_into().unwrap()).to_string().into(),
            Self::Fixed32 => u32::from_le_bytes(take(bytes, 4).try_into().unwrap()).into(),
            Self::Doubles | Self::Fixed64s | Self::Hex | Self::Message(_) | Self::Text => {
                let length = varint(bytes) as usize;
                let mut content = take(bytes, length);
                match self {
                    Self::Hex => content.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
                    Self::Message(message) => read(message, content),
                    Self::Doubles | Self::Fixed64s => {
                        let kind = if matches!(self, Self::Doubles) { Self::Double } else { Self::Fixed64 };
                        let mut values = Vec::new();
                        while !content.is_empty() {
                            values.push(kind.read(1, &mut content));
                        }
                        values.into()
                    }
                    _ => str::from_utf8(content).unwrap().into(),
                }
            }
        }
    }
}

fn double(number: f64) -> Value {
    match number {
        _ if number.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        number => number.into(),
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
    }
    panic!("a number of more than 64 bits");
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}
