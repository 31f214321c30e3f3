//! Log records about OpenTelemetry: settings that are ignored, and the exports.
//!
//! As for [`Event`](super::Event), of which this is a part. The emitter ensures that an unreachable collector does not
//! fill the log.

use super::record::Record;
use crate::config::{ExportSignal, Level, Problem};

/// An event of tracing, or of an exporter.
#[derive(Clone, Copy, Debug)]
pub enum TraceEvent<'a> {
    /// A setting has a value that svc does not support.
    SettingIgnored {
        /// The setting, its value, and the error.
        problem: &'a Problem,
    },
    /// An export failed after a successful one.
    ExportFailed {
        /// What was exported.
        signal: ExportSignal,
        /// Why.
        reason: &'a str,
        /// The number of items in the batch.
        items: u64,
    },
    /// Exports still fail.
    ExportsFail {
        /// What is exported.
        signal: ExportSignal,
        /// The reason of the last failure.
        reason: &'a str,
        /// The number of exports that have failed since the last successful one.
        exports: u64,
        /// The number of their items.
        items: u64,
    },
    /// An export was successful again.
    ExportsRecovered {
        /// What was exported.
        signal: ExportSignal,
        /// The number of exports that had failed.
        exports: u64,
        /// The number of their items.
        items: u64,
    },
    /// The collector accepted a batch and reported a warning or rejected items.
    PartialSuccess {
        /// What was exported.
        signal: ExportSignal,
        /// The number of rejected items.
        rejected: u64,
        /// The collector's message.
        message: &'a str,
    },
    /// Items were dropped because the queue was full.
    ItemsDropped {
        /// What was to be exported.
        signal: ExportSignal,
        /// The number of items dropped since the last such event.
        items: u64,
    },
    /// The process ends before everything was exported.
    ItemsLeft {
        /// What was to be exported.
        signal: ExportSignal,
        /// The number of items that were not exported.
        items: u64,
    },
}

impl TraceEvent<'_> {
    /// Returns the level of the event.
    pub fn level(self) -> Level {
        match self {
            Self::ExportsRecovered { .. } => Level::Info,
            Self::SettingIgnored { .. }
            | Self::ExportFailed { .. }
            | Self::ExportsFail { .. }
            | Self::PartialSuccess { .. }
            | Self::ItemsDropped { .. }
            | Self::ItemsLeft { .. } => Level::Warn,
        }
    }

    /// Returns whether the event is about the export itself.
    pub(super) fn is_about_export(self) -> bool {
        !matches!(self, Self::SettingIgnored { .. })
    }

    /// Creates its record.
    pub(super) fn record(self, svc: impl Fn(&str) -> Record) -> Record {
        match self {
            Self::SettingIgnored { problem } => svc("setting of tracing is ignored")
                .text("setting", problem.setting)
                .text_or_null("value", problem.value.as_deref())
                .text("error", problem.fault.to_string())
                .text("accepted", &problem.accepted),
            Self::ExportFailed { signal, reason, items } => {
                let Words { things, field, .. } = Words::of(signal);
                svc(&format!("failed to export {things}")).text("reason", reason).number(field, items)
            }
            Self::ExportsFail { signal, reason, exports, items } => {
                let Words { thing, field, .. } = Words::of(signal);
                svc(&format!("{thing} exports are still failing"))
                    .text("reason", reason)
                    .number("exports", exports)
                    .number(field, items)
            }
            Self::ExportsRecovered { signal, exports, items } => {
                let Words { things, field, .. } = Words::of(signal);
                svc(&format!("{things} are exported again")).number("exports", exports).number(field, items)
            }
            Self::PartialSuccess { signal, rejected, message } => {
                let Words { items, .. } = Words::of(signal);
                svc(&format!("collector rejected {items}, or has a warning"))
                    .number("rejected", rejected)
                    .text("reason", message)
            }
            Self::ItemsDropped { signal, items } => {
                let Words { dropped, field, .. } = Words::of(signal);
                svc(dropped).number(field, items)
            }
            Self::ItemsLeft { signal, items } => {
                let Words { things, field, .. } = Words::of(signal);
                svc(&format!("drain deadline passed; remaining {things} were not exported"))
                    .number(field, items)
            }
        }
    }
}

/// The words of the records about a signal.
struct Words {
    thing: &'static str,
    things: &'static str,
    /// The items of a batch.
    items: &'static str,
    /// The field with their number.
    field: &'static str,
    dropped: &'static str,
}

impl Words {
    fn of(signal: ExportSignal) -> Self {
        match signal {
            ExportSignal::Traces => Self {
                thing: "span",
                things: "spans",
                items: "spans",
                field: "spans",
                dropped: "spans were dropped: OTEL_BSP_MAX_QUEUE_SIZE spans were waiting for their export",
            },
            ExportSignal::Metrics => Self {
                thing: "metric",
                things: "metrics",
                items: "data points",
                field: "data_points",
                dropped: "",
            },
            ExportSignal::Logs => Self {
                thing: "log",
                things: "log records",
                items: "log records",
                field: "records",
                dropped: "log records were not exported: OTEL_BLRP_MAX_QUEUE_SIZE records were waiting for their export",
            },
        }
    }
}
