//! The cells of the metrics: where code counts, and what a scrape reads.
//!
//! Counting costs as much as the underlying cell of `sync`; the values that were read write themselves. A cell stores
//! neither its name nor a format.

use std::marker::PhantomData;

use crate::sync::counter::{Counter, Flag, RareCounter, UpDown};
use crate::sync::histogram::{Histogram, Snapshot};

use super::exporter::Series;
use super::label::Label;

/// A cell in which code counts.
pub(super) trait MetricCell {
    /// The values that a scrape reads.
    type Values: CellValues + Default;

    /// Reads the cell without blocking writers.
    fn read(&self) -> Self::Values;
}

/// The values that a scrape has read from a cell.
pub(super) trait CellValues {
    /// Writes the series of its family.
    fn write(&self, series: &mut Series<'_>);
}

impl MetricCell for Counter {
    type Values = u64;

    fn read(&self) -> u64 {
        self.value()
    }
}

impl MetricCell for UpDown {
    type Values = u64;

    fn read(&self) -> u64 {
        self.value()
    }
}

impl CellValues for u64 {
    fn write(&self, series: &mut Series<'_>) {
        series.one(*self);
    }
}

impl MetricCell for Flag {
    type Values = bool;

    fn read(&self) -> bool {
        self.is_set()
    }
}

impl CellValues for bool {
    fn write(&self, series: &mut Series<'_>) {
        series.one(*self);
    }
}

impl MetricCell for Histogram {
    type Values = Snapshot;

    fn read(&self) -> Snapshot {
        self.snapshot()
    }
}

impl CellValues for Snapshot {
    fn write(&self, series: &mut Series<'_>) {
        series.histogram(self);
    }
}

/// A counter for each value of a label.
#[derive(Debug)]
pub struct CountersBy<L, const N: usize> {
    counters: [Counter; N],
    label: PhantomData<fn(L)>,
}

impl<L: Label, const N: usize> CountersBy<L, N> {
    /// Counts one with this value of the label.
    #[inline]
    pub fn incr(&self, label: L) {
        self.counters[label.index()].incr();
    }

    /// Reads the counter of one value of the label.
    pub fn value(&self, label: L) -> u64 {
        self.counters[label.index()].value()
    }

    /// Reads the sum over all values of the label.
    pub fn total(&self) -> u64 {
        self.counters.iter().map(Counter::value).sum()
    }
}

impl<L, const N: usize> Default for CountersBy<L, N> {
    fn default() -> Self {
        Self { counters: std::array::from_fn(|_| Counter::new()), label: PhantomData }
    }
}

impl<L, const N: usize> Default for ValuesBy<L, N> {
    fn default() -> Self {
        Self { values: [0; N], label: PhantomData }
    }
}

/// The values read from [`CountersBy`] or [`RareCountersBy`].
#[derive(Clone, Debug)]
pub(super) struct ValuesBy<L, const N: usize> {
    values: [u64; N],
    label: PhantomData<fn(L)>,
}

impl<L: Label, const N: usize> ValuesBy<L, N> {
    /// Returns the value that was read for one value of the label.
    pub(super) fn of(&self, label: L) -> u64 {
        self.values[label.index()]
    }
}

impl<L, const N: usize> ValuesBy<L, N> {
    /// Returns the sum of the values that were read; a new reading could be larger.
    pub(super) fn total(&self) -> u64 {
        self.values.iter().sum()
    }
}

impl<L: Label, const N: usize> MetricCell for CountersBy<L, N> {
    type Values = ValuesBy<L, N>;

    fn read(&self) -> ValuesBy<L, N> {
        let values = std::array::from_fn(|index| self.counters[index].value());
        ValuesBy { values, label: PhantomData }
    }
}

/// A counter for each value of a label, for rare events.
#[derive(Debug)]
pub struct RareCountersBy<L, const N: usize> {
    counters: [RareCounter; N],
    label: PhantomData<fn(L)>,
}

impl<L: Label, const N: usize> RareCountersBy<L, N> {
    /// Counts `count` with this value of the label.
    pub fn add(&self, label: L, count: u64) {
        self.counters[label.index()].add(count);
    }
}

impl<L, const N: usize> Default for RareCountersBy<L, N> {
    fn default() -> Self {
        Self { counters: std::array::from_fn(|_| RareCounter::default()), label: PhantomData }
    }
}

impl<L: Label, const N: usize> MetricCell for RareCountersBy<L, N> {
    type Values = ValuesBy<L, N>;

    fn read(&self) -> ValuesBy<L, N> {
        let values = std::array::from_fn(|index| self.counters[index].value());
        ValuesBy { values, label: PhantomData }
    }
}

impl<L: Label, const N: usize> CellValues for ValuesBy<L, N> {
    fn write(&self, series: &mut Series<'_>) {
        for label in L::VALUES {
            let value = self.values[label.index()];
            if value > 0 || L::IS_SHOWN_FROM_THE_START {
                series.labelled(&[(L::NAME, label.as_str())], value);
            }
        }
    }
}

/// A counter for each pair of values of two labels, for rare events.
#[derive(Debug)]
pub struct CountersByTwo<A, B, const N: usize, const M: usize> {
    counters: [[RareCounter; M]; N],
    labels: PhantomData<fn(A, B)>,
}

impl<A: Label, B: Label, const N: usize, const M: usize> CountersByTwo<A, B, N, M> {
    /// Counts one with these values of the labels.
    #[inline]
    pub fn incr(&self, first: A, second: B) {
        self.counters[first.index()][second.index()].incr();
    }
}

impl<A, B, const N: usize, const M: usize> Default for CountersByTwo<A, B, N, M> {
    fn default() -> Self {
        let counters = std::array::from_fn(|_| std::array::from_fn(|_| RareCounter::default()));
        Self { counters, labels: PhantomData }
    }
}

/// The values read from [`CountersByTwo`].
#[derive(Clone, Debug)]
pub(super) struct ValuesByTwo<A, B, const N: usize, const M: usize> {
    values: [[u64; M]; N],
    labels: PhantomData<fn(A, B)>,
}

impl<A, B, const N: usize, const M: usize> Default for ValuesByTwo<A, B, N, M> {
    fn default() -> Self {
        Self { values: [[0; M]; N], labels: PhantomData }
    }
}

impl<A: Label, B: Label, const N: usize, const M: usize> MetricCell for CountersByTwo<A, B, N, M> {
    type Values = ValuesByTwo<A, B, N, M>;

    fn read(&self) -> ValuesByTwo<A, B, N, M> {
        let values = std::array::from_fn(|a| std::array::from_fn(|b| self.counters[a][b].value()));
        ValuesByTwo { values, labels: PhantomData }
    }
}

/// A pair appears once it was counted.
impl<A: Label, B: Label, const N: usize, const M: usize> CellValues for ValuesByTwo<A, B, N, M> {
    fn write(&self, series: &mut Series<'_>) {
        for first in A::VALUES {
            for second in B::VALUES {
                let value = self.values[first.index()][second.index()];
                if value > 0 {
                    series.labelled(&[(A::NAME, first.as_str()), (B::NAME, second.as_str())], value);
                }
            }
        }
    }
}

/// Requests whose client left, by the moment of detection: one that was running has also been counted as a wait in
/// the queue, one that was popped has not.
#[derive(Debug, Default)]
pub struct AbandonedWork {
    /// The client left while a worker ran the request.
    pub(super) running: Counter,
    /// The client had left when a worker took the request off the queue.
    pub(super) popped: Counter,
}

impl MetricCell for AbandonedWork {
    type Values = u64;

    fn read(&self) -> u64 {
        self.running.value() + self.popped.value()
    }
}
