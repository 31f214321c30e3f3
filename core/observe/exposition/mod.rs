//! The metrics as text: version 0.0.4 of the text format, and OpenMetrics.
//!
//! Each family appears once, with its help and type before its series; a family whose condition does not hold is
//! absent; the page is written into one buffer, whose size depends on the size of the pool and on plugins, not on
//! traffic. Reading blocks no writer, so the series of one page may be a few requests apart.

use super::exporter::{Exporter, Number, Series};
use super::facts::ScrapeFacts;
use super::families::{ALL, Metrics, SOURCES};
use super::family::{Condition, FamilyHead, MetricKind};

use crate::plugins::{PluginFamily, PluginMetricKind};

mod format;
mod lines;
mod openmetrics;
mod text;

pub use format::Format;
use openmetrics::OpenMetricsPage;
use text::TextPage;

/// The size of a full page, so that the buffer does not grow: a constant part, and a part for each slot.
const PAGE_BYTES: usize = 30 * 1024;
const SLOT_BYTES: usize = 768;

/// Writes the whole exposition as a page of text.
pub fn render(metrics: &Metrics, facts: &ScrapeFacts<'_>, format: Format) -> Vec<u8> {
    let out = Vec::with_capacity(PAGE_BYTES + facts.slots.len() * SLOT_BYTES);
    match format {
        Format::OpenMetrics(_) => {
            let mut page = OpenMetricsPage::new(out);
            export(metrics, facts, &mut page);
            page.end()
        }
        Format::Text => {
            let mut page = TextPage::new(out);
            export(metrics, facts, &mut page);
            page.end()
        }
    }
}

/// Passes every family that has a source to an exporter.
pub fn export(metrics: &Metrics, facts: &ScrapeFacts<'_>, exporter: &mut dyn Exporter) {
    let counted = metrics.read(|condition| holds(condition, facts));
    for (family, source) in ALL.iter().zip(SOURCES) {
        if holds(family.condition, facts) {
            source(facts, &counted, &mut Series::new(family.head(), exporter));
        }
    }
    facts.plugins.iter().flat_map(|plugin| plugin.families.iter()).for_each(|family| write(family, exporter));
}

/// Passes the family of a plugin to an exporter.
fn write(family: &PluginFamily, exporter: &mut dyn Exporter) {
    let kind = match family.kind {
        PluginMetricKind::Counter => MetricKind::Counter,
        PluginMetricKind::Gauge => MetricKind::Gauge,
    };
    let head = FamilyHead { name: &family.name, kind, help: &family.help };
    let mut series = Series::new(head, exporter);
    for sample in &family.samples {
        let labels: Vec<_> =
            sample.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        series.labelled(&labels, Number::Decimal(sample.value));
    }
}

fn holds(condition: Condition, facts: &ScrapeFacts<'_>) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Php => facts.pool.is_some(),
        Condition::Interpreter => facts.pool.is_some() && facts.has_interpreter,
        Condition::Tls => facts.certificates.is_some(),
        Condition::WorkerMode => facts.pool.is_some() && facts.worker_mode,
        Condition::TaskDispatched => facts.tasks.is_some_and(|tasks| tasks.dispatched + tasks.rejected > 0),
        Condition::TaskThreads => facts.tasks.is_some_and(|tasks| tasks.in_flight.is_some()),
        Condition::RuntimeHooks => facts.runtime_hooks,
        Condition::Tracing => facts.tracing.is_some(),
        Condition::Plugins => !facts.plugins.is_empty(),
        Condition::TaskOutput => facts.tasks.is_some_and(|tasks| tasks.output_discarded_bytes > 0),
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
