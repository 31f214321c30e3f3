//! The exporter of metrics: the border between families and formats.
//!
//! An exporter receives each family before its series, and no family without series; its arguments (kind, unit, help,
//! labels, numbers, buckets with their sum and count) are enough for every format of Prometheus and for OTLP. Values
//! have neither exemplars nor time stamps.

use std::fmt;
use std::time::Duration;

use crate::sync::histogram::Snapshot;

use super::family::{FamilyHead, MetricUnit};

/// Writes families and their series in one format.
pub trait Exporter {
    /// Begins a family, which lasts until the next call. Called only before the first series of a family.
    fn family(&mut self, family: FamilyHead<'_>);

    /// Writes a series with a single number.
    fn number(&mut self, labels: Labels<'_>, value: Number);

    /// Writes a series with a distribution.
    fn histogram(&mut self, labels: Labels<'_>, distribution: &Distribution<'_>);
}

/// The labels of a series: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Whole(u64),
    /// A quantity.
    Decimal(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Self {
        Self::Whole(u64::from(value))
    }
}

impl From<Duration> for Number {
    /// Converts to seconds.
    fn from(value: Duration) -> Self {
        Self::Decimal(value.as_secs_f64())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Decimal(value) => value.fmt(f),
        }
    }
}

/// A distribution in the unit of its family.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    snapshot: &'a Snapshot,
    /// Whether the values, which were recorded in microseconds, are shown in seconds.
    is_in_seconds: bool,
}

impl<'a> Distribution<'a> {
    /// Returns a distribution that is shown in seconds.
    #[cfg(test)]
    pub(super) fn in_seconds(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, is_in_seconds: true }
    }

    /// Returns the upper bounds with the number of values up to each; the last bound, `None`, is infinity.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Number>, u64)> + use<'a> {
        let Self { snapshot, .. } = *self;
        let this = *self;
        let cumulative = snapshot.buckets().iter().scan(0, |sum, bucket| {
            *sum += bucket;
            Some(*sum)
        });
        cumulative
            .enumerate()
            .map(move |(index, count)| (snapshot.bounds.get(index).map(|bound| this.in_unit(*bound)), count))
    }

    /// Returns the upper bounds, without infinity.
    pub fn bounds(&self) -> impl Iterator<Item = Number> + use<'a> {
        let this = *self;
        self.snapshot.bounds.iter().map(move |bound| this.in_unit(*bound))
    }

    /// Returns the number of values in each bucket, not cumulative; the last bucket is above all bounds.
    pub fn counts(&self) -> &'a [u64] {
        self.snapshot.buckets()
    }

    /// Returns the sum of the values.
    pub fn sum(&self) -> Number {
        self.in_unit(self.snapshot.sum)
    }

    /// Returns the number of values; equals the last bucket.
    pub fn count(&self) -> u64 {
        self.snapshot.count()
    }

    fn in_unit(&self, micros: u64) -> Number {
        if self.is_in_seconds { Duration::from_micros(micros).into() } else { Number::Whole(micros) }
    }
}

/// The series of one family on their way to an exporter, which receives the family with the first of them.
pub(super) struct Series<'a> {
    family: FamilyHead<'a>,
    exporter: &'a mut dyn Exporter,
    has_begun: bool,
}

impl<'a> Series<'a> {
    /// Starts without series.
    pub(super) fn new(family: FamilyHead<'a>, exporter: &'a mut dyn Exporter) -> Self {
        Self { family, exporter, has_begun: false }
    }

    /// Adds the only series of its family.
    pub(super) fn one(&mut self, value: impl Into<Number>) {
        self.labelled(&[], value);
    }

    /// Adds a series if there is a value.
    pub(super) fn maybe(&mut self, value: Option<impl Into<Number>>) {
        if let Some(value) = value {
            self.one(value);
        }
    }

    /// Adds a series with labels.
    pub(super) fn labelled(&mut self, labels: Labels<'_>, value: impl Into<Number>) {
        self.begin();
        self.exporter.number(labels, value.into());
    }

    /// Adds a distribution that was recorded in microseconds.
    pub(super) fn histogram(&mut self, snapshot: &Snapshot) {
        let is_in_seconds = self.family.unit() == Some(MetricUnit::Seconds);
        self.begin();
        self.exporter.histogram(&[], &Distribution { snapshot, is_in_seconds });
    }

    fn begin(&mut self) {
        if !self.has_begun {
            self.exporter.family(self.family);
            self.has_begun = true;
        }
    }
}
