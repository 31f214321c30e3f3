//! The text format, version 0.0.4.

use crate::observe::exporter::{Distribution, Exporter, Labels, Number};
use crate::observe::family::{Family, MetricKind};

use super::lines::PageLines;

/// A page of the text format.
#[derive(Debug)]
pub(super) struct TextPage {
    lines: PageLines,
    name: &'static str,
}

impl TextPage {
    /// Writes into `out`.
    pub(super) fn new(out: Vec<u8>) -> Self {
        Self { lines: PageLines::new(out), name: "" }
    }

    /// The page.
    pub(super) fn end(self) -> Vec<u8> {
        self.lines.into_bytes()
    }
}

impl Exporter for TextPage {
    fn family(&mut self, family: &'static Family) {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge | MetricKind::Info => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.name = family.name;
        self.lines.family(family.name, family.help, kind);
    }

    fn number(&mut self, labels: Labels<'_>, value: Number) {
        self.lines.series(self.name, labels, value);
    }

    fn histogram(&mut self, labels: Labels<'_>, distribution: &Distribution<'_>) {
        self.lines.histogram(self.name, labels, distribution, PageLines::number);
    }
}
