use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use svc_testing::otlp;

use super::*;
use crate::config::{AttributeLimits, ExportEndpoint, ExportSignal, Level, SpanLimits};
use crate::otlp::{HistogramPoint, MetricData, NumberPoint, PointValue, Temporality};
use crate::sync::primitive::Arc;
use crate::trace::{
    AttributeValue, Attributes, EncodedSpan, ParentSpan, Span, SpanContext, SpanEvent, SpanId, SpanKind,
    SpanLink, SpanStatus, TraceId, UnixNanos,
};

const LIMITS: AttributeLimits = AttributeLimits { count: 128, value_chars: None };

fn context(number: u64) -> SpanContext {
    let mut context =
        SpanContext::new(TraceId::new(0xabc).unwrap(), SpanId::new(number).unwrap(), SpanContext::SAMPLED);
    context.state = Some(Arc::from("a=1,b=\"2\""));
    context
}

fn attributes(entries: impl IntoIterator<Item = (&'static str, AttributeValue)>) -> Attributes {
    let mut attributes = Attributes::default();
    entries.into_iter().for_each(|(key, value)| attributes.set(key, value, &LIMITS));
    attributes
}

/// Returns a span with all fields set.
fn full() -> Span {
    let start = UnixNanos::default().plus(std::time::Duration::from_secs(1_700_000_000));
    let mut span = Span::new(context(2), "GET", SpanKind::Server, start);
    span.parent = Some(ParentSpan { span_id: SpanId::new(1).unwrap(), is_remote: true });
    span.end = start.plus(std::time::Duration::from_nanos(5));
    span.attributes = attributes([
        ("text", "a \"quoted\"\n\u{1}line ä€".into()),
        ("empty", "".into()),
        ("yes", true.into()),
        ("no", false.into()),
        ("zero", 0_i64.into()),
        ("negative", AttributeValue::Int(i64::MIN)),
        ("pi", 3.25.into()),
        ("nan", f64::NAN.into()),
        ("infinite", AttributeValue::Double(f64::NEG_INFINITY)),
        ("texts", AttributeValue::Texts(vec!["a".into(), "".into()])),
        ("bools", AttributeValue::Bools(vec![true, false])),
        ("ints", AttributeValue::Ints(vec![-1, 0, i64::MAX])),
        ("doubles", AttributeValue::Doubles(vec![0.0, 1e300])),
        ("none", AttributeValue::Ints(Vec::new())),
    ]);
    span.attributes.set("dropped", 1_i64, &AttributeLimits { count: 0, value_chars: None });
    let limits = SpanLimits { events: 1, links: 1, ..SpanLimits::default() };
    for _ in 0..3 {
        let attributes = attributes([("exception.type", "E".into())]);
        span.add_event(SpanEvent { name: "exception".into(), time: start, attributes }, &limits);
        span.add_link(
            SpanLink { context: context(9), is_remote: true, attributes: Attributes::default() },
            &limits,
        );
    }
    span.status = SpanStatus::Error("500".into());
    span
}

/// Returns a span without optional fields.
fn bare() -> Span {
    let context = SpanContext::new(TraceId::new(u128::MAX).unwrap(), SpanId::new(u64::MAX).unwrap(), 3);
    let mut span = Span::new(context, "x".repeat(300), SpanKind::Internal, UnixNanos::default());
    span.status = SpanStatus::Ok;
    span
}

fn encoder(signal: ExportSignal, protocol: ExportProtocol, has_gzip: bool) -> BatchEncoder {
    let endpoint = ExportEndpoint { is_tls: false, host: "c".to_owned(), port: 1, target: "/".to_owned() };
    let config = ExportConfig {
        signal,
        protocol,
        endpoint,
        headers: Vec::new(),
        timeout: None,
        has_gzip,
        trusted: None,
        identity: None,
    };
    BatchEncoder::new(&config, attributes([("service.name", "shop".into()), ("process.pid", 7_i64.into())]))
}

fn encoded(protocol: ExportProtocol, has_gzip: bool) -> Bytes {
    let spans = [full(), bare()].map(|span| EncodedSpan::of(&span, span_format(protocol)));
    encoder(ExportSignal::Traces, protocol, has_gzip).encode(&spans).unwrap().0
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

fn expected() -> Value {
    let text = |key: &str, text: &str| json!({"key": key, "value": {"stringValue": text}});
    let flags = 0x301;
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", "shop"), {"key": "process.pid", "value": {"intValue": "7"}}]},
        "scopeSpans": [{
            "scope": {"name": "svc", "version": env!("CARGO_PKG_VERSION")},
            "schemaUrl": "https://opentelemetry.io/schemas/1.37.0",
            "spans": [
                {
                    "traceId": "00000000000000000000000000000abc",
                    "spanId": "0000000000000002",
                    "traceState": "a=1,b=\"2\"",
                    "parentSpanId": "0000000000000001",
                    "name": "GET",
                    "kind": 2,
                    "startTimeUnixNano": "1700000000000000000",
                    "endTimeUnixNano": "1700000000000000005",
                    "attributes": [
                        text("text", "a \"quoted\"\n\u{1}line ä€"),
                        text("empty", ""),
                        {"key": "yes", "value": {"boolValue": true}},
                        {"key": "no", "value": {"boolValue": false}},
                        {"key": "zero", "value": {"intValue": "0"}},
                        {"key": "negative", "value": {"intValue": "-9223372036854775808"}},
                        {"key": "pi", "value": {"doubleValue": 3.25}},
                        {"key": "nan", "value": {"doubleValue": "NaN"}},
                        {"key": "infinite", "value": {"doubleValue": "-Infinity"}},
                        {"key": "texts", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": ""}]}}},
                        {"key": "bools", "value": {"arrayValue": {"values": [{"boolValue": true}, {"boolValue": false}]}}},
                        {"key": "ints", "value": {"arrayValue": {"values": [{"intValue": "-1"}, {"intValue": "0"}, {"intValue": "9223372036854775807"}]}}},
                        {"key": "doubles", "value": {"arrayValue": {"values": [{"doubleValue": 0.0}, {"doubleValue": 1e300}]}}},
                        {"key": "none", "value": {"arrayValue": {}}},
                    ],
                    "droppedAttributesCount": 1,
                    "events": [{"timeUnixNano": "1700000000000000000", "name": "exception", "attributes": [text("exception.type", "E")]}],
                    "droppedEventsCount": 2,
                    "links": [{"traceId": "00000000000000000000000000000abc", "spanId": "0000000000000009", "traceState": "a=1,b=\"2\"", "flags": flags}],
                    "droppedLinksCount": 2,
                    "status": {"message": "500", "code": 2},
                    "flags": flags,
                },
                {
                    "traceId": "ffffffffffffffffffffffffffffffff",
                    "spanId": "ffffffffffffffff",
                    "name": "x".repeat(300),
                    "kind": 1,
                    "startTimeUnixNano": "0",
                    "endTimeUnixNano": "0",
                    "status": {"code": 1},
                    "flags": 0x103,
                },
            ],
        }],
    }]})
}

#[test]
fn json_follows_the_mapping() {
    let json: Value = serde_json::from_slice(&encoded(ExportProtocol::HttpJson, false)).unwrap();
    assert_eq!(json, expected());
    let zipped = unzipped(&encoded(ExportProtocol::HttpJson, true));
    assert_eq!(serde_json::from_slice::<Value>(&zipped).unwrap(), expected());
}

#[test]
fn protocol_buffers_say_the_same() {
    let plain = encoded(ExportProtocol::HttpProtobuf, false);
    assert_eq!(otlp::read(&otlp::REQUEST, &plain), expected());
    let zipped = encoded(ExportProtocol::HttpProtobuf, true);
    assert_eq!(unzipped(&zipped), plain);
}

#[test]
fn a_message_of_grpc_begins_with_its_length() {
    let plain = encoded(ExportProtocol::Grpc, false);
    let body = encoded(ExportProtocol::HttpProtobuf, false);
    assert_eq!((plain[0], &plain[1..5], &plain[5..]), (0, &(body.len() as u32).to_be_bytes()[..], &body[..]));
    let zipped = encoded(ExportProtocol::Grpc, true);
    assert_eq!((zipped[0], &zipped[1..5]), (1, &(zipped.len() as u32 - 5).to_be_bytes()[..]));
    assert_eq!(unzipped(&zipped[5..]), body);
}

#[test]
fn a_batch_that_is_too_large_is_not_sent() {
    let mut span = bare();
    span.name = "x".repeat(EXPORT_BYTES_MAX).into();
    let protocol = ExportProtocol::HttpProtobuf;
    let refused = encoder(ExportSignal::Traces, protocol, true)
        .encode(&[EncodedSpan::of(&span, span_format(protocol))]);
    assert!(refused.unwrap_err().to_string().contains("too large"));
}

const PROTOCOLS: [ExportProtocol; 3] =
    [ExportProtocol::Grpc, ExportProtocol::HttpJson, ExportProtocol::HttpProtobuf];

/// Returns the only scope of a batch, decoded.
fn scope_of(signal: ExportSignal, protocol: ExportProtocol, items: &[Vec<u8>], names: [&str; 2]) -> Value {
    let body = encoder(signal, protocol, false).encode(items).unwrap().0;
    let table = match signal {
        ExportSignal::Traces => &otlp::REQUEST,
        ExportSignal::Metrics => &otlp::METRICS_REQUEST,
        ExportSignal::Logs => &otlp::LOGS_REQUEST,
    };
    let message = match protocol {
        ExportProtocol::HttpJson => serde_json::from_slice(&body).unwrap(),
        ExportProtocol::HttpProtobuf => otlp::read(table, &body),
        ExportProtocol::Grpc => otlp::read(table, &body[GRPC_PREFIX_BYTES..]),
    };
    let [resources, scopes] = names;
    let resource = &message[resources][0];
    assert_eq!(resource["resource"], expected()["resourceSpans"][0]["resource"], "{protocol:?}");
    let scope = resource[scopes][0].clone();
    assert_eq!(scope["scope"]["name"], "svc");
    scope
}

/// Returns a metric of each kind.
fn each_kind() -> [Metric; 3] {
    let at = |seconds| UnixNanos::default().plus(std::time::Duration::from_secs(seconds));
    let attributes =
        || vec![("method".to_owned(), "GET".to_owned()), ("odd".to_owned(), "a\"b\n".to_owned())];
    let number = |start: Option<u64>, value| NumberPoint {
        attributes: if start.is_some() { attributes() } else { Vec::new() },
        start: start.map(at),
        time: at(9),
        value,
    };
    let metric = |name: &str, unit, data| Metric {
        name: name.to_owned(),
        description: "Help.".to_owned(),
        unit,
        data,
    };
    [
        metric(
            "gauges",
            "By",
            MetricData::Gauge(vec![
                number(None, PointValue::Int(-3)),
                number(None, PointValue::Double(0.5)),
                number(None, PointValue::Double(f64::NAN)),
            ]),
        ),
        metric(
            "sums",
            "",
            MetricData::Sum(Temporality::Delta, vec![number(Some(3), PointValue::Int(i64::MAX))]),
        ),
        metric(
            "histograms",
            "s",
            MetricData::Histogram(
                Temporality::Cumulative,
                vec![HistogramPoint {
                    attributes: attributes(),
                    start: at(3),
                    time: at(9),
                    bounds: vec![0.5, 10.0],
                    counts: vec![0, 300, 1],
                    sum: 1234.5,
                }],
            ),
        ),
    ]
}

/// Returns the same in OTLP's JSON, without empty texts.
fn each_kind_in_json() -> Value {
    let (start, time) = ("3000000000", "9000000000");
    let named = json!([
        {"key": "method", "value": {"stringValue": "GET"}}, {"key": "odd", "value": {"stringValue": "a\"b\n"}}
    ]);
    json!([
        {"name": "gauges", "description": "Help.", "unit": "By", "gauge": {"dataPoints": [
            {"timeUnixNano": time, "asInt": "-3"},
            {"timeUnixNano": time, "asDouble": 0.5},
            {"timeUnixNano": time, "asDouble": "NaN"},
        ]}},
        {"name": "sums", "description": "Help.", "sum": {
            "dataPoints": [{"startTimeUnixNano": start, "timeUnixNano": time, "asInt": "9223372036854775807", "attributes": named}],
            "aggregationTemporality": 1,
            "isMonotonic": true,
        }},
        {"name": "histograms", "description": "Help.", "unit": "s", "histogram": {
            "dataPoints": [{
                "startTimeUnixNano": start, "timeUnixNano": time, "count": "301", "sum": 1234.5,
                "bucketCounts": ["0", "300", "1"], "explicitBounds": [0.5, 10.0], "attributes": named,
            }],
            "aggregationTemporality": 2,
        }},
    ])
}

#[test]
fn metrics_are_the_same_in_each_encoding() {
    let metrics = each_kind();
    for protocol in PROTOCOLS {
        let items: Vec<_> =
            metrics.iter().map(|metric| metric_format(protocol)(metric, Vec::new())).collect();
        let scope = scope_of(ExportSignal::Metrics, protocol, &items, ["resourceMetrics", "scopeMetrics"]);
        assert_eq!(without_empty(scope["metrics"].clone()), each_kind_in_json(), "{protocol:?}");
    }
}

/// Removes empty texts, which Protocol Buffers omit.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(key, value)| key != "unit" || value != "")
            .map(|(key, value)| (key, without_empty(value)))
            .collect(),
        Value::Array(values) => values.into_iter().map(without_empty).collect(),
        other => other,
    }
}

#[test]
fn log_records_are_the_same_in_each_encoding() {
    let record = |level, has_trace: bool| LogRecord {
        time: UnixNanos::default().plus(std::time::Duration::from_nanos(1_700_000_000_000_000_001)),
        level,
        body: "it \"failed\"".to_owned(),
        attributes: vec![
            ("text".to_owned(), json!("")),
            ("count".to_owned(), json!(-7)),
            ("huge".to_owned(), json!(u64::MAX)),
            ("share".to_owned(), json!(0.5)),
            ("context".to_owned(), json!({"list": [true, null, "a"], "nested": {"a": 1}})),
        ],
        trace_id: TraceId::new(0xabc).filter(|_| has_trace),
        span_id: SpanId::new(7).filter(|_| has_trace),
        trace_flags: has_trace.into(),
    };
    let records = [record(Level::Error, true), record(Level::Debug, false)];
    let attribute = |key: &str, value: Value| json!({"key": key, "value": value});
    let attributes = json!([
        attribute("text", json!({"stringValue": ""})),
        attribute("count", json!({"intValue": "-7"})),
        attribute("huge", json!({"doubleValue": u64::MAX as f64})),
        attribute("share", json!({"doubleValue": 0.5})),
        attribute(
            "context",
            json!({"kvlistValue": {"values": [
                {"key": "list", "value": {"arrayValue": {"values": [{"boolValue": true}, {}, {"stringValue": "a"}]}}},
                {"key": "nested", "value": {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}}},
            ]}})
        ),
    ]);
    let time = "1700000000000000001";
    let common = |number: u64, text: &str| {
        json!({
            "timeUnixNano": time, "observedTimeUnixNano": time, "severityNumber": number, "severityText": text,
            "body": {"stringValue": "it \"failed\""}, "attributes": attributes,
        })
    };
    let mut first = common(17, "ERROR");
    first["traceId"] = "00000000000000000000000000000abc".into();
    first["spanId"] = "0000000000000007".into();
    first["flags"] = 1.into();
    for protocol in PROTOCOLS {
        let items: Vec<_> = records.iter().map(|record| log_format(protocol)(record, Vec::new())).collect();
        let scope = scope_of(ExportSignal::Logs, protocol, &items, ["resourceLogs", "scopeLogs"]);
        assert_eq!(scope["logRecords"], json!([first, common(5, "DEBUG")]), "{protocol:?}");
    }
}
