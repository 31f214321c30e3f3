//! The common part of both text formats: lines of names, labels and numbers.

use std::io::Write;

use crate::observe::exporter::{Distribution, Labels, Number};

/// The lines of a page.
#[derive(Debug)]
pub(super) struct PageLines {
    out: Vec<u8>,
}

impl PageLines {
    /// Writes into `out`.
    pub(super) fn new(out: Vec<u8>) -> Self {
        Self { out }
    }

    /// Returns the page.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Writes the two lines before the series of a family.
    pub(super) fn family(&mut self, name: &str, help: &str, kind: &str) {
        for (keyword, text) in [("# HELP ", help), ("# TYPE ", kind)] {
            self.put(keyword);
            self.put(name);
            self.put(" ");
            self.put(text);
            self.put("\n");
        }
    }

    /// Writes a series with a single number.
    pub(super) fn series(&mut self, name: &str, labels: Labels<'_>, value: Number) {
        self.put(name);
        if !labels.is_empty() {
            self.labels(labels);
        }
        self.value(value);
    }

    /// Writes a histogram: cumulative buckets, their count and their sum; `put_bound` writes a bound.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        distribution: &Distribution<'_>,
        put_bound: impl Fn(&mut Self, Number),
    ) {
        for (bound, count) in distribution.buckets() {
            self.put(name);
            self.put("_bucket{");
            for label in labels {
                self.label(*label);
                self.put(",");
            }
            self.put("le=\"");
            match bound {
                Some(bound) => put_bound(self, bound),
                None => self.put("+Inf"),
            }
            self.put("\"}");
            self.value(count.into());
        }
        for (suffix, value) in [("_count", distribution.count().into()), ("_sum", distribution.sum())] {
            self.put(name);
            self.put(suffix);
            if !labels.is_empty() {
                self.labels(labels);
            }
            self.value(value);
        }
    }

    /// Writes text verbatim.
    pub(super) fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Writes a number.
    pub(super) fn number(&mut self, number: Number) {
        match number {
            Number::Whole(value) => self.put(itoa::Buffer::new().format(value)),
            // Writing to memory cannot fail.
            Number::Decimal(value) => drop(write!(self.out, "{value}")),
        }
    }

    fn value(&mut self, value: Number) {
        self.put(" ");
        self.number(value);
        self.put("\n");
    }

    fn labels(&mut self, labels: Labels<'_>) {
        for (index, label) in labels.iter().enumerate() {
            self.put(if index == 0 { "{" } else { "," });
            self.label(*label);
        }
        self.put("}");
    }

    fn label(&mut self, (name, value): (&str, &str)) {
        self.put(name);
        self.put("=\"");
        if value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
            self.put(&value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
        } else {
            self.put(value);
        }
        self.put("\"");
    }
}
