//! Log records about tracing: settings that are ignored, and the way of spans to the collector.
//!
//! Promises: the same as [`Event`](super::Event), which it is part of. Whoever emits them sees to it that a collector that
//! is gone does not fill the log.

use super::record::Record;
use crate::config::{Level, Problem};

/// An event of tracing.
#[derive(Clone, Copy, Debug)]
pub enum TraceEvent<'a> {
    /// A setting has a value that svc cannot follow.
    SettingIgnored {
        /// The setting, its value, and what is wrong with it.
        problem: &'a Problem,
    },
    /// An export has failed, and the one before had not.
    ExportFailed {
        /// Why.
        reason: &'a str,
        /// The spans of the batch.
        spans: u64,
    },
    /// Exports still fail.
    ExportsFail {
        /// Why the last one failed.
        reason: &'a str,
        /// Exports that have failed since they began to.
        exports: u64,
        /// Their spans.
        spans: u64,
    },
    /// An export was successful again.
    ExportsRecovered {
        /// Exports that had failed.
        exports: u64,
        /// Their spans.
        spans: u64,
    },
    /// The collector has taken a batch and said something about it.
    PartialSuccess {
        /// The spans that it rejected.
        rejected: u64,
        /// What it said.
        message: &'a str,
    },
    /// Spans were dropped because the queue was full.
    SpansDropped {
        /// How many since the last such event.
        spans: u64,
    },
    /// The process ends before all spans were exported.
    SpansLeft {
        /// How many were not.
        spans: u64,
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
            | Self::SpansDropped { .. }
            | Self::SpansLeft { .. } => Level::Warn,
        }
    }

    /// Creates its record.
    pub(super) fn record(self, svc: impl Fn(&str) -> Record) -> Record {
        match self {
            Self::SettingIgnored { problem } => svc("setting of tracing is ignored")
                .text("setting", problem.setting)
                .text_or_null("value", problem.value.as_deref())
                .text("error", problem.fault.to_string())
                .text("accepted", &problem.accepted),
            Self::ExportFailed { reason, spans } => {
                svc("failed to export spans").text("reason", reason).number("spans", spans)
            }
            Self::ExportsFail { reason, exports, spans } => svc("span exports are still failing")
                .text("reason", reason)
                .number("exports", exports)
                .number("spans", spans),
            Self::ExportsRecovered { exports, spans } => {
                svc("spans are exported again").number("exports", exports).number("spans", spans)
            }
            Self::PartialSuccess { rejected, message } => svc("collector rejected spans, or has a warning")
                .number("rejected", rejected)
                .text("reason", message),
            Self::SpansDropped { spans } => {
                svc("spans were dropped: OTEL_BSP_MAX_QUEUE_SIZE spans were waiting for their export")
                    .number("spans", spans)
            }
            Self::SpansLeft { spans } => {
                svc("drain deadline passed; remaining spans were not exported").number("spans", spans)
            }
        }
    }
}
