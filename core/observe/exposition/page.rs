//! The page being written: families and their series, by the rules of one format.

use std::io::Write;
use std::time::Duration;

use crate::observe::names::{Family, Kind};
use crate::sync::histogram::Snapshot;

use super::Format;

/// A page in one format.
#[derive(Debug)]
pub(super) struct Page {
    out: Vec<u8>,
    format: Format,
}

/// What a full page fits in, so that it is written without growing: so much, and for each slot so much more.
const PAGE_BYTES: usize = 28 * 1024;
const SLOT_BYTES: usize = 768;

impl Page {
    /// An empty page for a pool of so many slots.
    pub(super) fn new(format: Format, slots: usize) -> Self {
        Self { out: Vec::with_capacity(PAGE_BYTES + slots * SLOT_BYTES), format }
    }

    /// A family of one series, whose value is a whole number.
    pub(super) fn count(&mut self, family: &Family, value: u64) {
        self.head(family);
        self.put(family.name);
        self.whole(value);
    }

    /// A family of one series, whose value is a fraction.
    pub(super) fn decimal(&mut self, family: &Family, value: f64) {
        self.head(family);
        self.put(family.name);
        self.put(" ");
        // Writing to memory cannot fail.
        let _ = writeln!(self.out, "{value}");
    }

    /// A family with one series for each value of `label`; absent without series.
    pub(super) fn labelled(
        &mut self,
        family: &Family,
        label: &str,
        series: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        for (index, (name, value)) in series.into_iter().enumerate() {
            if index == 0 {
                self.head(family);
            }
            self.put(family.name);
            self.labels([(label, name)]);
            self.whole(value);
        }
    }

    /// A family with one series for each slot of the pool; absent without series.
    pub(super) fn by_slot<V: std::fmt::Display>(
        &mut self,
        family: &Family,
        label: &str,
        series: impl IntoIterator<Item = (usize, V)>,
    ) {
        for (index, (slot, value)) in series.into_iter().enumerate() {
            if index == 0 {
                self.head(family);
            }
            self.put(family.name);
            self.labels([(label, itoa::Buffer::new().format(slot))]);
            // Writing to memory cannot fail.
            let _ = writeln!(self.out, " {value}");
        }
    }

    /// A family with one series for each slot of the pool and value of another label; absent without series.
    pub(super) fn by_slot_and(
        &mut self,
        family: &Family,
        label: &str,
        series: impl IntoIterator<Item = (usize, (&'static str, &'static str), u64)>,
    ) {
        for (index, (slot, other, value)) in series.into_iter().enumerate() {
            if index == 0 {
                self.head(family);
            }
            self.put(family.name);
            self.labels([(label, itoa::Buffer::new().format(slot)), other]);
            self.whole(value);
        }
    }

    /// A family of one series that is 1 and tells by its labels.
    pub(super) fn info<'a>(&mut self, family: &Family, labels: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.head(family);
        self.put(family.name);
        self.labels(labels);
        self.whole(1);
    }

    /// A histogram: cumulative buckets, their sum and their count.
    pub(super) fn histogram(&mut self, family: &Family, snapshot: &Snapshot) {
        self.head(family);
        self.buckets(family, snapshot, |page, bound| page.put(itoa::Buffer::new().format(bound)));
        self.put(family.name);
        self.put("_sum");
        self.whole(snapshot.sum);
    }

    /// A histogram that was recorded in microseconds and is shown in seconds.
    pub(super) fn histogram_in_seconds(&mut self, family: &Family, snapshot: &Snapshot) {
        self.head(family);
        // Writing to memory cannot fail.
        self.buckets(family, snapshot, |page, bound| drop(write!(page.out, "{}", seconds(bound))));
        self.put(family.name);
        self.put("_sum ");
        let _ = writeln!(self.out, "{}", seconds(snapshot.sum));
    }

    /// The buckets and the count, which is the last of them; `put_bound` writes a bound.
    fn buckets(&mut self, family: &Family, snapshot: &Snapshot, put_bound: impl Fn(&mut Self, u64)) {
        let mut cumulative = 0;
        for (index, bucket) in snapshot.buckets().iter().enumerate() {
            cumulative += bucket;
            self.put(family.name);
            self.put("_bucket{le=\"");
            match snapshot.bounds.get(index) {
                Some(bound) => {
                    let from = self.out.len();
                    put_bound(self, *bound);
                    let has_point = self.out[from..].contains(&b'.');
                    self.put(if self.format.is_openmetrics() && !has_point { ".0" } else { "" });
                }
                None => self.put("+Inf"),
            }
            self.put("\"}");
            self.whole(cumulative);
        }
        self.put(family.name);
        self.put("_count");
        self.whole(cumulative);
    }

    /// Ends the page as its format demands.
    pub(super) fn end(mut self) -> Vec<u8> {
        if self.format.is_openmetrics() {
            self.put("# EOF\n");
        }
        self.out
    }

    fn head(&mut self, family: &Family) {
        let name = if self.format.is_openmetrics() { base_name(family) } else { family.name };
        for (keyword, text) in [("# HELP ", family.help), ("# TYPE ", self.kind_name(family.kind))] {
            self.put(keyword);
            self.put(name);
            self.put(" ");
            self.put(text);
            self.put("\n");
        }
    }

    fn kind_name(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
            Kind::Info if self.format.is_openmetrics() => "info",
            Kind::Gauge | Kind::Info => "gauge",
        }
    }

    fn labels<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (index, (name, value)) in labels.into_iter().enumerate() {
            self.put(if index == 0 { "{" } else { "," });
            self.put(name);
            self.put("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.put("\\\\"),
                    '"' => self.put("\\\""),
                    '\n' => self.put("\\n"),
                    plain => self.put(plain.encode_utf8(&mut [0; 4])),
                }
            }
            self.put("\"");
        }
        self.put("}");
    }

    fn whole(&mut self, value: u64) {
        self.put(" ");
        self.put(itoa::Buffer::new().format(value));
        self.put("\n");
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// Microseconds as seconds.
fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

/// The name of the family where it differs from that of its series.
fn base_name(family: &Family) -> &'static str {
    let suffix = match family.kind {
        Kind::Counter => "_total",
        Kind::Info => "_info",
        Kind::Gauge | Kind::Histogram => "",
    };
    family.name.strip_suffix(suffix).unwrap_or(family.name)
}
