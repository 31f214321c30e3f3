//! The span of a request that is being served, as far as threads share it.
//!
//! The thread that owns the connection builds the span when it records the request. What only the request's script knows
//! travels to it in [`ScriptNotes`].
//!
//! Promises: there is one for each request that is recorded, and none for others; all times of a request come from one
//! reading of the wall clock, so that they are in order. Refuses: it knows no request; who records it builds the span.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use crate::config::{AttributeLimits, SpanLimits};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

use super::attributes::Attributes;
use super::ids::{SpanId, UnixNanos};
use super::span::{ParentSpan, Span, SpanContext, SpanEvent, SpanKind, SpanStatus};
use super::tracer::Tracer;

/// The span of a request that is recorded, from its head to its record.
#[derive(Debug)]
pub struct RequestSpan {
    tracer: Arc<Tracer>,
    context: SpanContext,
    clock: SpanClock,
    /// Short: a field is set, or a value appended. `None` once the request has been recorded.
    notes: ShortLock<Option<ScriptNotes>>,
}

/// Converts times of one request.
#[derive(Clone, Copy, Debug)]
pub struct SpanClock {
    instant: Instant,
    wall: UnixNanos,
}

/// What the script of a request says about it.
#[derive(Debug, Default)]
pub struct ScriptNotes {
    /// The attributes that it has set.
    pub attributes: Attributes,
    /// What has happened to it: its events, and exceptions that it has not caught.
    pub events: Vec<SpanEvent>,
    /// The number of events beyond the limit.
    pub events_dropped: u32,
    /// The status that it has set.
    pub status: SpanStatus,
    /// The class of the exception that has ended it.
    pub exception: Option<String>,
    /// How long it was parked.
    pub parked: Duration,
    /// The worker that runs it.
    pub worker_id: Option<usize>,
}

/// A part of a request that has a span of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// Its wait for a worker.
    AdmissionWait,
    /// The run of its script, shutdown functions included.
    PhpRun,
}

impl SpanClock {
    /// For a request that began at this time, on both clocks.
    pub fn new(instant: Instant, wall: SystemTime) -> Self {
        Self { instant, wall: UnixNanos::of(wall) }
    }

    /// Converts a time; one before the request began becomes its beginning.
    pub fn at(&self, instant: Instant) -> UnixNanos {
        self.wall.plus(instant.saturating_duration_since(self.instant))
    }
}

impl RequestSpan {
    /// Makes the span of a request that is recorded.
    pub fn new(tracer: &Arc<Tracer>, context: SpanContext, clock: SpanClock) -> Arc<Self> {
        let notes = ShortLock::new(Some(ScriptNotes::default()));
        Arc::new(Self { tracer: Arc::clone(tracer), context, clock, notes })
    }

    /// Its position in the trace.
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Converts times of the request.
    pub fn clock(&self) -> &SpanClock {
        &self.clock
    }

    /// What takes its spans.
    pub fn tracer(&self) -> &Arc<Tracer> {
        &self.tracer
    }

    /// Notes something for the record. Returns false, and changes nothing, if the request has been recorded.
    pub fn note(&self, change: impl FnOnce(&mut ScriptNotes)) -> bool {
        match &mut *self.notes.lock() {
            Some(notes) => {
                change(notes);
                true
            }
            None => false,
        }
    }

    /// Takes the notes for the record.
    pub fn take_notes(&self) -> ScriptNotes {
        self.notes.lock().take().unwrap_or_default()
    }

    /// Makes the span of a part of the request.
    pub fn part(&self, part: RequestPart, start: Instant, end: Instant) -> Span {
        let (name, salt) = match part {
            RequestPart::AdmissionWait => ("admission wait", 0x9e37_79b9_7f4a_7c15),
            RequestPart::PhpRun => ("PHP run", 0xbf58_476d_1ce4_e5b9),
        };
        // It need not be random again: within the trace, it differs from that of the request.
        let own = self.context.span_id;
        let span_id = SpanId::new(own.get() ^ salt).unwrap_or(own);
        let start = self.clock.at(start);
        let mut span = Span::new(self.context.with_span(span_id), name, SpanKind::Internal, start);
        span.end = self.clock.at(end).max(start);
        span.parent = Some(ParentSpan { span_id: own, is_remote: false });
        span
    }
}

impl ScriptNotes {
    /// Adds an event, or drops and counts it.
    pub fn add_event(&mut self, event: SpanEvent, limits: &SpanLimits) {
        if self.events.len() < limits.events {
            self.events.push(event);
        } else {
            self.events_dropped = self.events_dropped.saturating_add(1);
        }
    }

    /// Puts what the script has said into the span. What the server says comes first and stands: an attribute that it has
    /// set, or that is in `own_keys`, is not the script's to set, and an error stays one.
    pub fn tell(self, span: &mut Span, limits: &SpanLimits, own_keys: &[&str]) {
        span.attributes.add_dropped(self.attributes.dropped());
        for entry in self.attributes.into_entries() {
            if own_keys.contains(&&*entry.key) || span.attributes.get(&entry.key).is_some() {
                span.attributes.add_dropped(1);
            } else {
                span.attributes.add(entry.key, entry.value, &limits.span_attributes());
            }
        }
        span.events = self.events;
        span.events_dropped = self.events_dropped;
        if span.status == SpanStatus::Unset {
            span.status = self.status;
        }
    }
}

/// Describes an exception as an event: its class, its message, and where it was thrown.
pub fn exception_event(
    time: UnixNanos,
    [class, message, trace]: [String; 3],
    limits: &AttributeLimits,
) -> SpanEvent {
    let mut attributes = Attributes::with_capacity(3);
    attributes.set("exception.type", class, limits);
    attributes.set("exception.message", message, limits);
    attributes.set("exception.stacktrace", trace, limits);
    SpanEvent { name: Cow::Borrowed("exception"), time, attributes }
}
