//! Log records about tracing: settings that are ignored, and the export of spans.
//!
//! As for [`Event`](super::Event), of which this is a part. The emitter ensures that an unreachable collector does not
//! fill the log.

use super::record::Record;
use crate::config::{Level, Problem};

/// An event of tracing.
#[derive(Clone, Copy, Debug)]
pub enum TraceEvent<'a> {
    /// A setting has a value that svc does not support.
    SettingIgnored {
        /// The setting, its value, and the error.
        problem: &'a Problem,
    },
    /// An export failed after a successful one.
    ExportFailed {
        /// Why.
        reason: &'a str,
        /// The number of spans in the batch.
        spans: u64,
    },
    /// Exports still fail.
    ExportsFail {
        /// The reason of the last failure.
        reason: &'a str,
        /// The number of exports that have failed since the last successful one.
        exports: u64,
        /// The number of their spans.
        spans: u64,
    },
    /// An export was successful again.
    ExportsRecovered {
        /// The number of exports that had failed.
        exports: u64,
        /// The number of their spans.
        spans: u64,
    },
    /// The collector accepted a batch and reported a warning or rejected spans.
    PartialSuccess {
        /// The number of rejected spans.
        rejected: u64,
        /// The collector's message.
        message: &'a str,
    },
    /// Spans were dropped because the queue was full.
    SpansDropped {
        /// The number of spans dropped since the last such event.
        spans: u64,
    },
    /// The process ends before all spans were exported.
    SpansLeft {
        /// The number of spans that were not exported.
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
