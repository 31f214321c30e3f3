//! A metric in both encodings: the message `Metric`.
//!
//! Counters are monotonic sums, and histograms have explicit bounds. Nothing here knows how values are read, or what a
//! difference is made from.

use crate::trace::UnixNanos;

use super::json_writer::JsonWriter;
use super::wire::Writer;

/// A metric with its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// One sentence about it.
    pub description: String,
    /// Its unit, in UCUM; may be empty.
    pub unit: &'static str,
    /// Its points.
    pub data: MetricData,
}

/// The points of a metric, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricData {
    /// Readings.
    Gauge(Vec<NumberPoint>),
    /// Monotonic sums.
    Sum(Temporality, Vec<NumberPoint>),
    /// Distributions.
    Histogram(Temporality, Vec<HistogramPoint>),
}

/// Whether the points of a sum or a histogram are differences or totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// The changes since the point before.
    Delta = 1,
    /// Everything since the start of the process.
    Cumulative = 2,
}

/// The attributes of a point: names and texts.
pub type PointAttributes = Vec<(String, String)>;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberPoint {
    /// The attributes.
    pub attributes: PointAttributes,
    /// When a sum began; `None` for readings.
    pub start: Option<UnixNanos>,
    /// When the number was read.
    pub time: UnixNanos,
    /// The number.
    pub value: PointValue,
}

/// The value of a [`NumberPoint`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PointValue {
    /// A count.
    Int(i64),
    /// A quantity.
    Double(f64),
}

/// A distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramPoint {
    /// The attributes.
    pub attributes: PointAttributes,
    /// When the distribution began.
    pub start: UnixNanos,
    /// When it was read.
    pub time: UnixNanos,
    /// The upper bounds, in ascending order; inclusive.
    pub bounds: Vec<f64>,
    /// The number of values in each bucket; there is one more than bounds.
    pub counts: Vec<u64>,
    /// The sum of the values.
    pub sum: f64,
}

impl MetricData {
    /// Returns the number of points.
    pub fn len(&self) -> usize {
        match self {
            Self::Gauge(points) | Self::Sum(_, points) => points.len(),
            Self::Histogram(_, points) => points.len(),
        }
    }

    /// Returns whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Appends a metric to `buffer`, as a field of the message around it.
pub(super) fn to_protobuf(metric: &Metric, buffer: Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::behind(buffer);
    writer.message(2, |message| {
        message.text(1, &metric.name);
        message.text(2, &metric.description);
        message.text(3, metric.unit);
        match &metric.data {
            MetricData::Gauge(points) => message.message(5, |gauge| numbers(gauge, points)),
            MetricData::Sum(temporality, points) => message.message(7, |sum| {
                numbers(sum, points);
                sum.varint(2, *temporality as u64);
                sum.varint(3, 1);
            }),
            MetricData::Histogram(temporality, points) => message.message(9, |histogram| {
                for point in points {
                    histogram.message(1, |message| distribution(message, point));
                }
                histogram.varint(2, *temporality as u64);
            }),
        }
    });
    writer.into_bytes()
}

fn numbers(message: &mut Writer, points: &[NumberPoint]) {
    for point in points {
        message.message(1, |message| {
            if let Some(start) = point.start {
                message.fixed64(2, start.get());
            }
            message.fixed64(3, point.time.get());
            match point.value {
                PointValue::Double(value) => message.double(4, value),
                PointValue::Int(value) => message.fixed64(6, value.cast_unsigned()),
            }
            attributes(message, 7, &point.attributes);
        });
    }
}

fn distribution(message: &mut Writer, point: &HistogramPoint) {
    message.fixed64(2, point.start.get());
    message.fixed64(3, point.time.get());
    message.fixed64(4, point.counts.iter().sum());
    message.double(5, point.sum);
    message.fixed64_list(6, point.counts.iter().copied());
    message.fixed64_list(7, point.bounds.iter().map(|bound| bound.to_bits()));
    attributes(message, 9, &point.attributes);
}

fn attributes(message: &mut Writer, field: u32, attributes: &PointAttributes) {
    for (key, text) in attributes {
        message.message(field, |message| {
            message.text(1, key);
            message.message(2, |value| value.bytes(1, text.as_bytes()));
        });
    }
}

/// Appends a metric to `buffer`.
pub(super) fn to_json(metric: &Metric, buffer: Vec<u8>) -> Vec<u8> {
    let mut out = JsonWriter::behind(buffer);
    out.object(|message| {
        message.text("name", &metric.name);
        message.text("description", &metric.description);
        message.text("unit", metric.unit);
        match &metric.data {
            MetricData::Gauge(points) => {
                message.member("gauge", |value| value.object(|gauge| json_numbers(gauge, points)));
            }
            MetricData::Sum(temporality, points) => message.member("sum", |value| {
                value.object(|sum| {
                    json_numbers(sum, points);
                    sum.number("aggregationTemporality", *temporality as u64);
                    sum.member("isMonotonic", |value| value.raw(true));
                });
            }),
            MetricData::Histogram(temporality, points) => message.member("histogram", |value| {
                value.object(|histogram| {
                    histogram.list("dataPoints", points, |value, point| {
                        value.object(|message| json_distribution(message, point));
                    });
                    histogram.number("aggregationTemporality", *temporality as u64);
                });
            }),
        }
    });
    out.into_bytes()
}

fn json_numbers(message: &mut JsonWriter, points: &[NumberPoint]) {
    message.list("dataPoints", points, |value, point| {
        value.object(|message| {
            if let Some(start) = point.start {
                message.shown("startTimeUnixNano", start.get());
            }
            message.shown("timeUnixNano", point.time.get());
            match point.value {
                PointValue::Double(value) => message.member("asDouble", |out| out.double(value)),
                PointValue::Int(value) => message.shown("asInt", value),
            }
            json_attributes(message, &point.attributes);
        });
    });
}

fn json_distribution(message: &mut JsonWriter, point: &HistogramPoint) {
    message.shown("startTimeUnixNano", point.start.get());
    message.shown("timeUnixNano", point.time.get());
    message.shown("count", point.counts.iter().sum::<u64>());
    message.member("sum", |out| out.double(point.sum));
    message.list("bucketCounts", &point.counts, |value, count| value.raw(format_args!("\"{count}\"")));
    message.list("explicitBounds", &point.bounds, |value, bound| value.double(*bound));
    json_attributes(message, &point.attributes);
}

fn json_attributes(message: &mut JsonWriter, attributes: &PointAttributes) {
    message.list("attributes", attributes, |value, (key, text)| {
        value.object(|message| {
            message.text("key", key);
            message.member("value", |value| value.object(|message| message.text("stringValue", text)));
        });
    });
}
