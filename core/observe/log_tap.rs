//! The queue of log records that are exported, besides being written to standard output.
//!
//! The thread of the log fills it, so that the threads that log do no more than without it. It never waits: a record that
//! does not fit is dropped and counted. Records about exporters are not queued; each would cause another one.

use std::fmt;
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::config::Level;
use crate::otlp::LogRecord;
use crate::sync::batch_queue::{BatchQueue, Enqueued};
use crate::trace::{SpanId, TraceId, UnixNanos};

/// A record on its way through the log.
#[derive(Debug)]
pub struct LogLine {
    /// The record as a line of JSON.
    pub(super) line: Vec<u8>,
    /// When it was made.
    pub(super) at: SystemTime,
    /// The flags of the trace that it names.
    pub(super) trace_flags: u8,
    /// Whether it may be exported.
    pub(super) is_exported: bool,
}

/// The bounded queue of records for the exporter.
pub struct LogTap {
    queue: BatchQueue<LogLine>,
    /// Wakes the exporter; unset until it exists.
    ring: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl LogTap {
    /// Creates a queue of at most `records_max` records.
    pub fn new(records_max: usize) -> Self {
        Self { queue: BatchQueue::new(records_max), ring: OnceLock::new() }
    }

    /// Sets the function that wakes the exporter, which must not wait for it. Must be called once.
    pub fn set_ring(&self, ring: impl Fn() + Send + Sync + 'static) {
        let is_first = self.ring.set(Box::new(ring)).is_ok();
        debug_assert!(is_first, "two exporters of one log");
    }

    /// Queues a record, or drops and counts it.
    pub(super) fn offer(&self, line: LogLine) {
        if line.is_exported && self.queue.offer(line) == Enqueued::Ring {
            self.ring();
        }
    }

    /// Returns the number of dropped records.
    pub fn dropped_total(&self) -> u64 {
        self.queue.dropped_total()
    }

    /// Refuses further records and wakes the exporter, which exports the queued ones and ends.
    pub fn close(&self) {
        self.queue.close();
        self.ring();
    }

    /// Returns the exporter's side.
    pub fn queue(&self) -> &BatchQueue<LogLine> {
        &self.queue
    }

    fn ring(&self) {
        if let Some(ring) = self.ring.get() {
            ring();
        }
    }
}

impl fmt::Debug for LogTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTap").field("queue", &self.queue.len()).finish_non_exhaustive()
    }
}

impl LogLine {
    /// Converts the line to a record of OpenTelemetry: `message` is the body, the IDs of the trace have their own places,
    /// and all other fields are attributes of the same name, as is `target`.
    pub fn to_record(&self) -> LogRecord {
        let mut parsed: Map<String, Value> = serde_json::from_slice(&self.line).unwrap_or_default();
        let mut fields = match parsed.remove("fields") {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (trace_id, span_id) = (text(fields.remove("trace_id")), text(fields.remove("span_id")));
        let hex = |id: &str| u128::from_str_radix(id, 16).ok();
        let level = text(parsed.remove("level"));
        LogRecord {
            time: UnixNanos::of(self.at),
            level: Level::ALL
                .into_iter()
                .find(|one| level.as_deref() == Some(one.as_str()))
                .unwrap_or(Level::Info),
            body: text(fields.remove("message")).unwrap_or_default(),
            trace_id: trace_id.and_then(|id| TraceId::new(hex(&id)?)),
            span_id: span_id.and_then(|id| SpanId::new(u64::try_from(hex(&id)?).ok()?)),
            trace_flags: self.trace_flags,
            attributes: parsed
                .remove("target")
                .map(|target| ("target".to_owned(), target))
                .into_iter()
                .chain(fields)
                .filter(|(_, value)| !value.is_null())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::json;

    use super::*;
    use crate::observe::record::Record;
    use crate::sync::counter::RareCounter;
    use crate::sync::primitive::Arc;

    fn line(record: Record) -> LogLine {
        let at = UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_001);
        LogLine { line: record.end(), at, trace_flags: 1, is_exported: true }
    }

    fn begun(level: Level) -> Record {
        Record::begin(UNIX_EPOCH, level.as_str(), "php", "it \"failed\"\n\u{1}")
    }

    #[test]
    fn fields_become_attributes_and_the_ids_of_the_trace_do_not() {
        let record = begun(Level::Warn)
            .text("trace_id", "0af7651916cd43dd8448eb211c80319c")
            .text("span_id", "b7ad6b7169203331")
            .number("line", 7)
            .text_or_null("file", None::<&str>)
            .json("context", br#"{"list":[1,-2.5,true,null],"text":"a"}"#);
        let record = line(record).to_record();
        assert_eq!(
            record,
            LogRecord {
                time: UnixNanos::of(UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_001)),
                level: Level::Warn,
                body: "it \"failed\"\n\u{1}".to_owned(),
                attributes: vec![
                    ("target".to_owned(), json!("php")),
                    ("context".to_owned(), json!({"list": [1, -2.5, true, null], "text": "a"})),
                    ("line".to_owned(), json!(7)),
                ],
                trace_id: TraceId::new(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c),
                span_id: SpanId::new(0xb7ad_6b71_6920_3331),
                trace_flags: 1,
            }
        );
    }

    #[test]
    fn a_record_outside_of_requests_has_no_trace() {
        for level in Level::ALL {
            let record = line(begun(level).text_or_null("trace_id", None::<&str>)).to_record();
            assert_eq!((record.level, record.trace_id, record.span_id), (level, None, None));
        }
        let odd = begun(Level::Info).text("trace_id", "0").text("span_id", "no hexadecimal number");
        let odd = line(odd).to_record();
        assert_eq!((odd.trace_id, odd.span_id), (None, None));
    }

    #[test]
    fn a_full_queue_drops_and_a_complete_batch_rings() {
        let tap = LogTap::new(2);
        let rings = Arc::new(RareCounter::default());
        let counted = Arc::clone(&rings);
        tap.set_ring(move || counted.incr());
        assert!(tap.queue().arm(2));
        for _ in 0..3 {
            tap.offer(line(begun(Level::Info)));
        }
        assert_eq!((rings.value(), tap.dropped_total()), (1, 1));
        tap.offer(LogLine { is_exported: false, ..line(begun(Level::Info)) });
        assert_eq!(tap.dropped_total(), 1, "a record about exports is not for the queue");
        tap.close();
        assert_eq!(rings.value(), 2);
    }
}
