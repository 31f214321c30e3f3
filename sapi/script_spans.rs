//! The spans that a script creates in one request or task.
//!
//! A span is exported when it ends, or with its request; it is then marked as unfinished. The number and the size of
//! spans are bounded. Without a trace, or if the trace is not recorded, nothing is allocated. Only the interpreter side
//! tracks the current span of a script.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svc_core::config::{AttributeLimits, SpanLimits};
use svc_core::http::Traceparent;
use svc_core::limits::{SCRIPT_SPANS_MAX, SCRIPT_SPANS_OPEN_MAX, SPAN_BYTES_MAX, SPAN_TEXT_BYTES_MAX};
use svc_core::time;
use svc_core::trace::{
    AttributeValue, Attributes, ClientCall, ClientEnd, ParentSpan, RequestSpan, Span, SpanClock, SpanContext,
    SpanEvent, SpanId, SpanIds, SpanKind, SpanStatus, Tracer, UnixNanos, exception_event,
};

use crate::client_spans;
use crate::span_text::{LISTED_TEXT_BYTES, attribute_bytes, text};

use svc_ffi::{ScriptAttribute, ScriptFailure, ScriptSpans, TraceContext};

/// The spans of one request or task.
#[derive(Debug)]
pub(crate) struct OpenSpans {
    /// The span of the request, or the one that dispatched the task.
    root: SpanContext,
    recorder: Option<Recorder>,
    /// The value last returned by `traceparent`.
    text: Option<Traceparent>,
}

/// Additional state of a recorded trace.
#[derive(Debug)]
struct Recorder {
    tracer: Arc<Tracer>,
    clock: SpanClock,
    /// The span of the request; `None` in a task.
    own: Option<Arc<RequestSpan>>,
    /// The rest of [`SPAN_BYTES_MAX`] for the span of the request.
    own_bytes_left: usize,
    /// In the order of their start.
    open: Vec<OpenSpan>,
    ids: SpanIds,
    begun: usize,
    /// Spans that were not recorded because there were too many.
    dropped: u64,
    /// Failures of the script after its request was recorded.
    late: Vec<SpanEvent>,
    /// The number of failures that are still kept.
    failures_left: usize,
}

#[derive(Debug)]
struct OpenSpan {
    span: Span,
    bytes_left: usize,
}

impl OpenSpans {
    /// Creates the spans of a request in this trace, which is recorded if there is a request span.
    pub(crate) fn of_request(root: SpanContext, own: Option<&Arc<RequestSpan>>) -> Self {
        let recorder = own.map(|own| Recorder::new(own.tracer(), *own.clock(), Some(Arc::clone(own))));
        Self::new(root, recorder)
    }

    /// Creates the spans of a task that continues a trace. `tracer` exports them.
    pub(crate) fn of_task(root: SpanContext, tracer: Option<&Arc<Tracer>>) -> Self {
        let tracer = tracer.filter(|tracer| root.is_sampled() && tracer.is_recording());
        let clock = || SpanClock::new(time::now(), time::wall());
        let recorder = tracer.map(|tracer| Recorder::new(tracer, clock(), None));
        Self::new(root, recorder)
    }

    fn new(root: SpanContext, recorder: Option<Recorder>) -> Self {
        Self { root, recorder, text: None }
    }

    /// Returns the ID of a span created here, else of the root. A fiber that outlives its request keeps the ID of a
    /// span of that request, which does not belong to this trace.
    pub(crate) fn span_id(&self, span: u64) -> SpanId {
        let ids = self.recorder.as_ref().map(|recorder| &recorder.ids);
        let own = SpanId::new(span).filter(|id| ids.is_some_and(|ids| ids.has_drawn(*id)));
        own.unwrap_or(self.root.span_id)
    }

    /// Ends the spans that are still open, because the request has ended.
    pub(crate) fn end_all(&mut self, ended_at: Instant) {
        let Some(recorder) = &mut self.recorder else { return };
        let now = recorder.clock.at(ended_at);
        for OpenSpan { mut span, .. } in recorder.open.drain(..) {
            mark_unfinished(&mut span, &recorder.tracer);
            span.end = now.max(span.start);
            recorder.tracer.offer(&span);
        }
    }

    /// Adds the events and counts that belong to no other span to the span of the run.
    pub(crate) fn record_run(&mut self, run: &mut Span) {
        let Some(recorder) = &mut self.recorder else { return };
        let limits = recorder.tracer.limits();
        for event in recorder.late.drain(..) {
            run.add_event(event, limits);
        }
        if recorder.dropped > 0 {
            run.set("svc.spans_dropped", recorder.dropped, limits);
        }
    }
}

impl Recorder {
    fn new(tracer: &Arc<Tracer>, clock: SpanClock, own: Option<Arc<RequestSpan>>) -> Self {
        Self {
            tracer: Arc::clone(tracer),
            clock,
            own,
            own_bytes_left: SPAN_BYTES_MAX,
            open: Vec::new(),
            ids: SpanIds::default(),
            begun: 0,
            dropped: 0,
            late: Vec::new(),
            failures_left: FAILURES_MAX,
        }
    }

    fn index_of(&self, span: u64) -> Option<usize> {
        self.open.iter().rposition(|open| open.span.context.span_id.get() == span)
    }

    /// Returns the span of the request, if this is its ID.
    fn own_of(&self, span: u64) -> Option<&Arc<RequestSpan>> {
        self.own.as_ref().filter(|own| own.context().span_id.get() == span)
    }

    fn now(&self) -> UnixNanos {
        self.clock.at(time::now())
    }
}

impl OpenSpans {
    /// Returns the open span with this ID, its tracer and its remaining bytes.
    fn open_span(&mut self, span: u64) -> Option<(&Tracer, &mut Span, &mut usize)> {
        let recorder = self.recorder.as_mut()?;
        let index = recorder.index_of(span)?;
        let OpenSpan { span, bytes_left } = &mut recorder.open[index];
        Some((&recorder.tracer, span, bytes_left))
    }

    /// Drops an open span, as if it had not begun.
    fn forget(&mut self, span: u64) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(index) = recorder.index_of(span) {
            recorder.open.remove(index);
            recorder.begun -= 1;
        }
    }

    /// Ends an open span now, and lets `conclude` update it before its export.
    fn conclude(&mut self, span: u64, conclude: impl FnOnce(&Tracer, &mut Span, &mut usize)) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(index) = recorder.index_of(span) {
            let OpenSpan { mut span, mut bytes_left } = recorder.open.remove(index);
            span.end = recorder.now().max(span.start);
            conclude(&recorder.tracer, &mut span, &mut bytes_left);
            recorder.tracer.offer(&span);
        }
    }
}

impl ScriptSpans for OpenSpans {
    fn own(&mut self) -> u64 {
        let own = self.recorder.as_ref().and_then(|recorder| recorder.own.as_ref());
        own.map_or(0, |own| own.context().span_id.get())
    }

    fn begin(&mut self, parent: u64, name: &[u8], kind: SpanKind) -> u64 {
        let parent = self.span_id(parent);
        let Some(recorder) = &mut self.recorder else { return 0 };
        if recorder.begun >= SCRIPT_SPANS_MAX || recorder.open.len() >= SCRIPT_SPANS_OPEN_MAX {
            recorder.dropped += 1;
            return 0;
        }
        recorder.begun += 1;
        let id = recorder.ids.draw();
        let name = text(name);
        let bytes_left = SPAN_BYTES_MAX.saturating_sub(name.len());
        let mut span = Span::new(self.root.with_span(id), name, kind, recorder.now());
        span.parent = Some(ParentSpan { span_id: parent, is_remote: false });
        recorder.open.push(OpenSpan { span, bytes_left });
        id.get()
    }

    fn set_attribute(&mut self, span: u64, attribute: &ScriptAttribute<'_>) {
        let Some(recorder) = &mut self.recorder else { return };
        let limits = recorder.tracer.limits().span_attributes();
        if let Some(index) = recorder.index_of(span) {
            let OpenSpan { span, bytes_left } = &mut recorder.open[index];
            set(&mut span.attributes, attribute, &limits, bytes_left);
        } else if let Some(own) = recorder.own_of(span).cloned() {
            let bytes_left = &mut recorder.own_bytes_left;
            own.note(|notes| set(&mut notes.attributes, attribute, &limits, bytes_left));
        }
    }

    fn add_event(&mut self, span: u64, name: &[u8], attributes: &[ScriptAttribute<'_>]) {
        let Some(recorder) = &mut self.recorder else { return };
        let (limits, time) = (*recorder.tracer.limits(), recorder.now());
        let event_of = |bytes_left: &mut usize| {
            let event_limits = limits.event_attributes();
            let name = text(name);
            let mut event = SpanEvent { time, attributes: Attributes::default(), name: Cow::Borrowed("") };
            *bytes_left = bytes_left.saturating_sub(name.len() + EVENT_BYTES);
            event.name = Cow::Owned(name);
            for attribute in attributes {
                set(&mut event.attributes, attribute, &event_limits, bytes_left);
            }
            event
        };
        // When no room is left, the span counts the event instead of keeping it.
        let limits_for = |bytes_left: usize| {
            if bytes_left > 0 { limits } else { SpanLimits { events: 0, ..limits } }
        };
        // Events that are only counted take no room.
        let nothing_left = &mut 0;
        if let Some(index) = recorder.index_of(span) {
            let OpenSpan { span, bytes_left } = &mut recorder.open[index];
            let bytes_left = if span.events.len() < limits.events { bytes_left } else { nothing_left };
            let limits = limits_for(*bytes_left);
            span.add_event(event_of(bytes_left), &limits);
        } else if let Some(own) = recorder.own_of(span).cloned() {
            let bytes_left = &mut recorder.own_bytes_left;
            own.note(|notes| {
                let bytes_left = if notes.events.len() < limits.events { bytes_left } else { nothing_left };
                let limits = limits_for(*bytes_left);
                notes.add_event(event_of(bytes_left), &limits);
            });
        }
    }

    fn set_status(&mut self, span: u64, status: SpanStatus<&[u8]>) {
        let Some(recorder) = &mut self.recorder else { return };
        let status = status.map(|description| Cow::Owned(text(description)));
        if let Some(index) = recorder.index_of(span) {
            recorder.open[index].span.status = status;
        } else if let Some(own) = recorder.own_of(span) {
            own.note(|notes| notes.status = status);
        }
    }

    fn end(&mut self, span: u64, is_cut: bool) {
        self.conclude(span, |tracer, span, _| {
            if is_cut {
                mark_unfinished(span, tracer);
            }
        });
    }

    fn describe(&mut self, span: u64, call: &ClientCall<'_>) {
        if let Some((tracer, span, bytes_left)) = self.open_span(span) {
            client_spans::describe(tracer, span, bytes_left, call);
        }
    }

    fn finish(&mut self, span: u64, end: &ClientEnd<'_>) {
        self.conclude(span, |tracer, span, bytes_left| client_spans::finish(tracer, span, bytes_left, end));
    }

    fn discard(&mut self, span: u64) {
        self.forget(span);
    }

    fn traceparent(&mut self, span: u64) -> &[u8] {
        let span_id = self.span_id(span);
        let text = Traceparent::new(self.root.trace_id.get(), span_id.get(), self.root.flags);
        self.text.insert(text).as_bytes()
    }

    fn tracestate(&self) -> &[u8] {
        self.root.state.as_deref().unwrap_or_default().as_bytes()
    }

    fn context(&mut self, span: u64) -> Option<TraceContext> {
        let span_id = self.span_id(span);
        Some(Box::new(self.root.with_span(span_id)))
    }

    fn fail(&mut self, failure: &ScriptFailure<'_>) {
        let Some(recorder) = &mut self.recorder else { return };
        // Each shutdown function may fail.
        let Some(left) = recorder.failures_left.checked_sub(1) else { return };
        recorder.failures_left = left;
        let time = recorder.now();
        let limits = *recorder.tracer.limits();
        let ScriptFailure { class, message, trace, is_exception } = *failure;
        let event = exception_event(time, [class, message, trace].map(text), &limits.event_attributes());
        let Some(own) = &recorder.own else { return };
        let mut event = Some(event);
        own.note(|notes| {
            if is_exception {
                notes.exception.get_or_insert_with(|| text(class));
            }
            if let Some(event) = event.take() {
                notes.add_event(event, &limits);
            }
        });
        // The request was already recorded, because its response was complete.
        recorder.late.extend(event);
    }
}

/// The maximum number of failures kept for a script.
const FAILURES_MAX: usize = 8;

/// The size of an event without its texts.
const EVENT_BYTES: usize = 64;

/// Marks a span that ends before its operation.
fn mark_unfinished(span: &mut Span, tracer: &Tracer) {
    span.set("svc.unfinished", true, tracer.limits());
}

/// Sets an attribute. If there is no room for it, or its name is empty, which OpenTelemetry does not allow, it is
/// dropped and counted, together with its earlier value, which is outdated.
fn set(
    attributes: &mut Attributes,
    attribute: &ScriptAttribute<'_>,
    limits: &AttributeLimits,
    bytes_left: &mut usize,
) {
    let name = text(attribute.name);
    let value = value_of(&attribute.value).truncated(limits.value_chars);
    let known = attributes.get(&name);
    // The replaced value frees its room.
    let room = *bytes_left + known.map_or(0, |known| attribute_bytes(&name, known));
    let has_place = !name.is_empty() && (known.is_some() || attributes.len() < limits.count);
    if let Some(left) = room.checked_sub(attribute_bytes(&name, &value)).filter(|_| has_place) {
        *bytes_left = left;
        attributes.set(name, value, limits);
    } else {
        *bytes_left = room;
        attributes.remove(&name);
        attributes.add_dropped(1);
    }
}

/// Converts a value; keeps at most [`SPAN_TEXT_BYTES_MAX`] bytes.
fn value_of(value: &AttributeValue<&[u8]>) -> AttributeValue {
    fn some<T: Copy>(list: &[T]) -> Vec<T> {
        list[..list.len().min(SPAN_TEXT_BYTES_MAX / size_of::<T>())].to_vec()
    }
    match value {
        AttributeValue::Bool(value) => AttributeValue::Bool(*value),
        AttributeValue::Int(value) => AttributeValue::Int(*value),
        AttributeValue::Double(value) => AttributeValue::Double(*value),
        AttributeValue::Text(value) => AttributeValue::Text(Cow::Owned(text(value))),
        AttributeValue::Bools(list) => AttributeValue::Bools(some(list)),
        AttributeValue::Ints(list) => AttributeValue::Ints(some(list)),
        AttributeValue::Doubles(list) => AttributeValue::Doubles(some(list)),
        AttributeValue::Texts(list) => {
            let (mut kept, mut bytes) = (Vec::new(), 0);
            for one in list {
                let one = text(one);
                bytes += one.len() + LISTED_TEXT_BYTES;
                if bytes > SPAN_TEXT_BYTES_MAX {
                    break;
                }
                kept.push(Cow::Owned(one));
            }
            AttributeValue::Texts(kept)
        }
    }
}

/// Measures how long a request is parked each time.
#[derive(Debug, Default)]
pub(crate) struct ParkWatch {
    since: Option<Instant>,
}

impl ParkWatch {
    /// Records that the request parks.
    pub(crate) fn parks(&mut self) {
        self.since = Some(time::now());
    }

    /// Records that the request resumes; returns how long it was parked.
    pub(crate) fn resumes(&mut self) -> Duration {
        let since = self.since.take();
        since.map(|since| time::now().saturating_duration_since(since)).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "script_spans_tests.rs"]
mod tests;
