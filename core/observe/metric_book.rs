//! The metrics as points of OTLP, as totals or as differences.
//!
//! The families and series are those of `/metrics`, because both read the same source. A difference is computed here, from
//! the totals of the last export that the collector has accepted: a failed export loses nothing, because the next one
//! starts where the last accepted one ended. A total that has decreased, as that of a plugin may, begins anew.
//!
//! Reads no clock and sends nothing. The memory grows with the number of series, which does not depend on traffic.

use std::collections::HashMap;

use crate::config::TemporalityPreference;
use crate::otlp::{
    HistogramPoint, Metric, MetricData, NumberPoint, PointAttributes, PointValue, Temporality,
};
use crate::trace::UnixNanos;

use super::exporter::{Distribution, Exporter, Labels, Number};
use super::family::{FamilyHead, MetricKind, MetricUnit};

/// Converts readings of the metrics to points, and keeps the totals that were last accepted.
#[derive(Debug)]
pub struct MetricBook {
    counters: Temporality,
    histograms: Temporality,
    /// When the process started.
    began: UnixNanos,
    /// When the last accepted totals were read.
    accepted_at: Option<UnixNanos>,
    accepted: HashMap<String, Account>,
    /// The totals of the last reading.
    read: Vec<(String, Account)>,
    read_at: UnixNanos,
}

/// A total.
#[derive(Clone, Debug)]
struct Account {
    total: Total,
    /// When it began.
    start: UnixNanos,
}

/// The total of a counter, or the totals of a histogram.
#[derive(Clone, Debug, PartialEq)]
enum Total {
    Number(Number),
    Histogram { counts: Vec<u64>, sum: Number },
}

impl MetricBook {
    /// Starts with a process that began at this time.
    pub fn new(preference: TemporalityPreference, began: UnixNanos) -> Self {
        use Temporality::{Cumulative, Delta};
        let (counters, histograms) = match preference {
            TemporalityPreference::Cumulative => (Cumulative, Cumulative),
            TemporalityPreference::Delta => (Delta, Delta),
            // Counters are read, not counted here, so that their totals need no memory.
            TemporalityPreference::LowMemory => (Cumulative, Delta),
        };
        Self {
            counters,
            histograms,
            began,
            accepted_at: None,
            accepted: HashMap::new(),
            read: Vec::new(),
            read_at: began,
        }
    }

    /// Returns the points of the metrics that `export` passes on; they were read at `time`, or later if the clock was set
    /// back.
    pub fn read(&mut self, time: UnixNanos, export: impl FnOnce(&mut dyn Exporter)) -> Vec<Metric> {
        self.read.clear();
        self.read_at = time.max(self.read_at);
        let mut page = PointPage { book: self, metrics: Vec::new() };
        export(&mut page);
        page.metrics
    }

    /// Records that the collector has accepted the last reading.
    pub fn accepted(&mut self) {
        self.accepted_at = Some(self.read_at);
        self.accepted.extend(self.read.drain(..));
    }

    /// Records a total; returns when the point begins, and its value.
    fn settle(&mut self, key: String, total: Total, temporality: Temporality) -> (UnixNanos, Total) {
        // A series that was absent when the last export was accepted was 0 at that time.
        let known_at = self.accepted_at.unwrap_or(self.began);
        let before = self.accepted.get(&key);
        let is_reset = before.is_some_and(|before| total.is_below(&before.total));
        let start = match before {
            Some(_) if is_reset => known_at,
            Some(before) => before.start,
            None => self.began,
        };
        let point = match (temporality, before) {
            (Temporality::Cumulative, _) => (start, total.clone()),
            (Temporality::Delta, Some(before)) if !is_reset => (known_at, total.since(&before.total)),
            (Temporality::Delta, _) => (known_at, total.clone()),
        };
        self.read.push((key, Account { total, start }));
        point
    }
}

impl Total {
    /// Returns whether a part is smaller than it was `before`.
    fn is_below(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Number(now), Self::Number(before)) => as_double(*now) < as_double(*before),
            (Self::Histogram { counts, .. }, Self::Histogram { counts: before, .. }) => {
                counts.len() != before.len() || counts.iter().zip(before).any(|(now, before)| now < before)
            }
            _ => true,
        }
    }

    /// Returns the difference from `before`, which is not larger.
    fn since(&self, before: &Self) -> Self {
        match (self, before) {
            (Self::Number(now), Self::Number(before)) => Self::Number(difference(*now, *before)),
            (Self::Histogram { counts, sum }, Self::Histogram { counts: counts_before, sum: sum_before }) => {
                Self::Histogram {
                    counts: counts.iter().zip(counts_before).map(|(now, before)| now - before).collect(),
                    sum: difference(*sum, *sum_before),
                }
            }
            _ => self.clone(),
        }
    }
}

/// The points of one reading.
struct PointPage<'a> {
    book: &'a mut MetricBook,
    metrics: Vec<Metric>,
}

impl Exporter for PointPage<'_> {
    fn family(&mut self, family: FamilyHead<'_>) {
        self.metrics.push(Metric {
            name: family.name.to_owned(),
            description: family.help.to_owned(),
            unit: unit(family.unit()),
            data: match family.kind {
                MetricKind::Counter => MetricData::Sum(self.book.counters, Vec::new()),
                MetricKind::Gauge | MetricKind::Info => MetricData::Gauge(Vec::new()),
                MetricKind::Histogram => MetricData::Histogram(self.book.histograms, Vec::new()),
            },
        });
    }

    fn number(&mut self, labels: Labels<'_>, value: Number) {
        let Some(metric) = self.metrics.last_mut() else { return };
        let (attributes, time) = (attributes(labels), self.book.read_at);
        match &mut metric.data {
            MetricData::Gauge(points) => {
                points.push(NumberPoint { attributes, start: None, time, value: point_value(value) });
            }
            MetricData::Sum(temporality, points) => {
                let key = key(&metric.name, labels);
                let (start, total) = self.book.settle(key, Total::Number(value), *temporality);
                if let Total::Number(value) = total {
                    points.push(NumberPoint {
                        attributes,
                        start: Some(start),
                        time,
                        value: point_value(value),
                    });
                }
            }
            MetricData::Histogram(..) => debug_assert!(false, "{} has a number", metric.name),
        }
    }

    fn histogram(&mut self, labels: Labels<'_>, distribution: &Distribution<'_>) {
        let Some(metric) = self.metrics.last_mut() else { return };
        let MetricData::Histogram(temporality, points) = &mut metric.data else {
            debug_assert!(false, "{} has a distribution", metric.name);
            return;
        };
        let total = Total::Histogram { counts: distribution.counts().to_vec(), sum: distribution.sum() };
        let (start, total) = self.book.settle(key(&metric.name, labels), total, *temporality);
        if let Total::Histogram { counts, sum } = total {
            points.push(HistogramPoint {
                attributes: attributes(labels),
                start,
                time: self.book.read_at,
                bounds: distribution.bounds().map(as_double).collect(),
                counts,
                sum: as_double(sum),
            });
        }
    }
}

/// Returns the unit in UCUM. Microseconds are part of the name: a backend that appends units to names, as Prometheus
/// does, would make another name of it.
fn unit(unit: Option<MetricUnit>) -> &'static str {
    match unit {
        Some(MetricUnit::Bytes) => "By",
        Some(MetricUnit::Seconds) => "s",
        Some(MetricUnit::Microseconds) | None => "",
    }
}

/// Returns the identity of a series.
fn key(name: &str, labels: Labels<'_>) -> String {
    let mut key = name.to_owned();
    for (label, value) in labels {
        key.extend(["\0", label, "\0", value]);
    }
    key
}

fn attributes(labels: Labels<'_>) -> PointAttributes {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn point_value(number: Number) -> PointValue {
    match number {
        Number::Whole(value) => PointValue::Int(i64::try_from(value).unwrap_or(i64::MAX)),
        Number::Decimal(value) => PointValue::Double(value),
    }
}

fn as_double(number: Number) -> f64 {
    match number {
        Number::Whole(value) => value as f64,
        Number::Decimal(value) => value,
    }
}

fn difference(now: Number, before: Number) -> Number {
    match (now, before) {
        (Number::Whole(now), Number::Whole(before)) => Number::Whole(now.wrapping_sub(before)),
        _ => Number::Decimal(as_double(now) - as_double(before)),
    }
}

#[cfg(test)]
#[path = "metric_book_tests.rs"]
mod tests;
