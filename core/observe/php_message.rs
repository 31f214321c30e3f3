//! Messages from PHP in the log, with PHP's severity and the level that follows from it.

use std::time::SystemTime;

use super::record::Record;
use crate::config::Level;
use crate::http::Traceparent;

/// A message logged by PHP.
#[derive(Clone, Copy, Debug)]
pub struct PhpMessage<'a> {
    /// The severity according to PHP.
    pub level: PhpLevel,
    /// The text.
    pub message: &'a [u8],
    /// Context added by the script, as JSON.
    pub context: Option<&'a [u8]>,
    /// The script, if PHP reports one.
    pub file: Option<&'a [u8]>,
    /// The line in the script.
    pub line: Option<u32>,
    /// The request that caused the message, if there is one.
    pub request_id: Option<&'a str>,
    /// The trace of that request and the span that the script was in, if tracing is enabled.
    pub traceparent: Option<Traceparent>,
}

/// The severity of a PHP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpLevel {
    /// `E_ERROR` and similar errors that end the script, and uncaught exceptions.
    Error,
    /// `E_WARNING` and similar.
    Warning,
    /// `E_NOTICE`, `E_STRICT`, and messages passed to `error_log()`.
    Notice,
    /// `E_DEPRECATED` and similar.
    Deprecated,
    /// An informational message from a script.
    Info,
    /// A debug message from a script.
    Debug,
}

impl PhpLevel {
    /// Returns PHP's name for the severity.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Deprecated => "deprecated",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Returns the level of its log record.
    pub(super) fn of_record(self) -> Level {
        match self {
            Self::Error => Level::Error,
            Self::Warning => Level::Warn,
            Self::Notice | Self::Deprecated | Self::Info => Level::Info,
            Self::Debug => Level::Debug,
        }
    }
}

impl PhpMessage<'_> {
    /// Makes the record of the message, which was logged at `at`.
    pub(super) fn record(&self, at: SystemTime) -> Record {
        let record = Record::begin(at, self.level.of_record().as_str(), "php", self.message)
            .text("php_level", self.level.as_str())
            .text_or_null("file", self.file)
            .number_or_null("line", self.line.map(u64::from))
            .text_or_null("request_id", self.request_id);
        let record = match &self.traceparent {
            Some(place) => record.text("trace_id", place.trace_id()).text("span_id", place.span_id()),
            None => record,
        };
        match self.context {
            Some(context) => record.json("context", context),
            None => record,
        }
    }
}
