//! The text format, version 0.0.4.

use crate::observe::exporter::{Distribution, Exporter, Labels, Number};
use crate::observe::family::{FamilyHead, MetricKind};

use super::lines::PageLines;

/// A page of the text format.
#[derive(Debug)]
pub(super) struct TextPage {
    lines: PageLines,
    /// The name of the current family.
    name: String,
}

impl TextPage {
    /// Writes into `out`.
    pub(super) fn new(out: Vec<u8>) -> Self {
        Self { lines: PageLines::new(out), name: String::new() }
    }

    /// Returns the page.
    pub(super) fn end(self) -> Vec<u8> {
        self.lines.into_bytes()
    }
}

impl Exporter for TextPage {
    fn family(&mut self, family: FamilyHead<'_>) {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge | MetricKind::Info => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.name.clear();
        self.name.push_str(family.name);
        self.lines.family(family.name, family.help, kind);
    }

    fn number(&mut self, labels: Labels<'_>, value: Number) {
        self.lines.series(&self.name, labels, value);
    }

    fn histogram(&mut self, labels: Labels<'_>, distribution: &Distribution<'_>) {
        self.lines.histogram(&self.name, labels, distribution, PageLines::number);
    }
}
