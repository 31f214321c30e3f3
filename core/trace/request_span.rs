//! The part of a running request's span that threads share.
//!
//! The thread that owns the connection builds the span when it records the request. The script's contributions reach it
//! in [`ScriptNotes`].
//!
//! Exists only for recorded requests. All times of a request derive from one reading of the wall clock, so that they
//! are in order. The request is not known here; its recorder builds the span.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use svc_types::{SpanKind, SpanStatus};

use crate::config::{AttributeLimits, SpanLimits};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

use super::attributes::Attributes;
use super::ids::{SpanId, UnixNanos};
use super::span::{ParentSpan, Span, SpanContext, SpanEvent};
use super::tracer::Tracer;

/// The span of a recorded request, from its head until it is recorded.
#[derive(Debug)]
pub struct RequestSpan {
    tracer: Arc<Tracer>,
    context: SpanContext,
    clock: SpanClock,
    /// Held briefly: to set a field or append a value. `None` once the request has been recorded.
    notes: ShortLock<Option<ScriptNotes>>,
}

/// Converts the times of one request.
#[derive(Clone, Copy, Debug)]
pub struct SpanClock {
    instant: Instant,
    wall: UnixNanos,
}

/// The script's contributions to the span of its request.
#[derive(Debug, Default)]
pub struct ScriptNotes {
    /// The attributes set by the script.
    pub attributes: Attributes,
    /// The script's events, and its uncaught exceptions.
    pub events: Vec<SpanEvent>,
    /// The number of events dropped beyond the limit.
    pub events_dropped: u32,
    /// The status set by the script.
    pub status: SpanStatus,
    /// The class of the exception that ended the script.
    pub exception: Option<String>,
    /// How long the request was parked.
    pub parked: Duration,
    /// The worker that runs the request.
    pub worker_id: Option<usize>,
}

/// A part of a request that gets a separate span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// The wait for a worker.
    AdmissionWait,
    /// The execution of the script, including shutdown functions.
    PhpRun,
}

impl SpanClock {
    /// Creates the clock of a request that began at this time, given on both clocks.
    pub fn new(instant: Instant, wall: SystemTime) -> Self {
        Self { instant, wall: UnixNanos::of(wall) }
    }

    /// Converts a time; clamps it to the beginning of the request.
    pub fn at(&self, instant: Instant) -> UnixNanos {
        self.wall.plus(instant.saturating_duration_since(self.instant))
    }
}

impl RequestSpan {
    /// Creates the span of a recorded request.
    pub fn new(tracer: &Arc<Tracer>, context: SpanContext, clock: SpanClock) -> Arc<Self> {
        let notes = ShortLock::new(Some(ScriptNotes::default()));
        Arc::new(Self { tracer: Arc::clone(tracer), context, clock, notes })
    }

    /// Returns its position in the trace.
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Returns the clock of the request.
    pub fn clock(&self) -> &SpanClock {
        &self.clock
    }

    /// Returns the tracer that takes its spans.
    pub fn tracer(&self) -> &Arc<Tracer> {
        &self.tracer
    }

    /// Changes the notes. Returns false without calling `change` if the request has already been recorded.
    pub fn note(&self, change: impl FnOnce(&mut ScriptNotes)) -> bool {
        match &mut *self.notes.lock() {
            Some(notes) => {
                change(notes);
                true
            }
            None => false,
        }
    }

    /// Takes the notes when the request is recorded.
    pub fn take_notes(&self) -> ScriptNotes {
        self.notes.lock().take().unwrap_or_default()
    }

    /// Builds the span of a part of the request.
    pub fn part(&self, part: RequestPart, start: Instant, end: Instant) -> Span {
        let (name, salt) = match part {
            RequestPart::AdmissionWait => ("admission wait", 0x9e37_79b9_7f4a_7c15),
            RequestPart::PhpRun => ("PHP run", 0xbf58_476d_1ce4_e5b9),
        };
        // Derived rather than random: it only has to differ from the request's span ID in the same trace.
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
    /// Adds an event, or drops and counts it beyond the limit.
    pub fn add_event(&mut self, event: SpanEvent, limits: &SpanLimits) {
        if self.events.len() < limits.events {
            self.events.push(event);
        } else {
            self.events_dropped = self.events_dropped.saturating_add(1);
        }
    }

    /// Merges the notes into the span. The server has precedence: the script cannot set an attribute that the server
    /// has set or that is in `own_keys`, and an error status stays.
    pub fn merge_into(self, span: &mut Span, limits: &SpanLimits, own_keys: &[&str]) {
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

/// Describes an exception as an event: its class, message, and where it was thrown.
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
