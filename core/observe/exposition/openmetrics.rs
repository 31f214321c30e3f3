//! OpenMetrics, version 1.0.0; version 0.0.1 differs in name only.

use crate::observe::exporter::{Distribution, Exporter, Labels, Number};
use crate::observe::family::{FamilyHead, MetricKind};

use super::lines::PageLines;

/// A page of OpenMetrics.
#[derive(Debug)]
pub(super) struct OpenMetricsPage {
    lines: PageLines,
    /// The name of the current family.
    name: String,
}

impl OpenMetricsPage {
    /// Writes into `out`.
    pub(super) fn new(out: Vec<u8>) -> Self {
        Self { lines: PageLines::new(out), name: String::new() }
    }

    /// Ends the page and returns it.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.lines.put("# EOF\n");
        self.lines.into_bytes()
    }
}

impl Exporter for OpenMetricsPage {
    fn family(&mut self, family: FamilyHead<'_>) {
        // The name of a family lacks the suffix of its series.
        let (kind, suffix) = match family.kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
            MetricKind::Histogram => ("histogram", ""),
            MetricKind::Info => ("info", "_info"),
        };
        self.name.clear();
        self.name.push_str(family.name);
        let family_name = family.name.strip_suffix(suffix).unwrap_or(family.name);
        self.lines.family(family_name, family.help, kind);
    }

    fn number(&mut self, labels: Labels<'_>, value: Number) {
        self.lines.series(&self.name, labels, value);
    }

    fn histogram(&mut self, labels: Labels<'_>, distribution: &Distribution<'_>) {
        self.lines.histogram(&self.name, labels, distribution, put_bound);
    }
}

/// Writes a bound, which always has a fraction.
fn put_bound(lines: &mut PageLines, bound: Number) {
    lines.number(bound);
    let has_point = match bound {
        Number::Whole(_) => false,
        Number::Decimal(value) => value.fract() != 0.0,
    };
    lines.put(if has_point { "" } else { ".0" });
}
