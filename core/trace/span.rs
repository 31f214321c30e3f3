//! A span: one unit of work in a trace.
//!
//! Events and links beyond the limits are dropped and counted. Measures nothing; the sampling decision comes earlier.

use std::borrow::Cow;

use svc_types::{AttributeValue, SpanKind, SpanStatus};

use crate::config::SpanLimits;
use crate::sync::primitive::Arc;

use super::attributes::Attributes;
use super::ids::{SpanId, TraceId, UnixNanos};

/// A span.
///
/// # Examples
///
/// ```
/// use svc_core::config::SpanLimits;
/// use svc_core::trace::{Span, SpanContext, SpanId, SpanKind, TraceId, UnixNanos};
///
/// let context = SpanContext::new(TraceId::new(1).unwrap(), SpanId::new(2).unwrap(), SpanContext::SAMPLED);
/// let mut span = Span::new(context, "GET", SpanKind::Server, UnixNanos::default());
/// span.set("http.response.status_code", 200_u16, &SpanLimits::default());
/// assert_eq!(span.attributes.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its trace and span ID.
    pub context: SpanContext,
    /// The parent span; `None` for the root of a trace.
    pub parent: Option<ParentSpan>,
    /// Its name, which should have a low cardinality.
    pub name: Cow<'static, str>,
    /// Its kind.
    pub kind: SpanKind,
    /// The start time.
    pub start: UnixNanos,
    /// The end time.
    pub end: UnixNanos,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its events in order.
    pub events: Vec<SpanEvent>,
    /// The number of dropped events.
    pub events_dropped: u32,
    /// Links to related spans other than the parent.
    pub links: Vec<SpanLink>,
    /// The number of dropped links.
    pub links_dropped: u32,
    /// Its status.
    pub status: SpanStatus,
}

/// The position of a span in a trace, which is propagated to its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The ID of the trace.
    pub trace_id: TraceId,
    /// The ID of the span.
    pub span_id: SpanId,
    /// The flags of W3C Trace Context.
    pub flags: u8,
    /// The `tracestate`; shared by the spans of a request.
    pub state: Option<Arc<str>>,
}

/// The parent of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentSpan {
    /// Its ID.
    pub span_id: SpanId,
    /// Whether the parent belongs to another process.
    pub is_remote: bool,
}

/// Something that happened during a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    /// Its name.
    pub name: Cow<'static, str>,
    /// When it happened.
    pub time: UnixNanos,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A link to a related span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanLink {
    /// The other span.
    pub context: SpanContext,
    /// Whether the other span belongs to another process.
    pub is_remote: bool,
    /// The attributes of the link.
    pub attributes: Attributes,
}

impl Span {
    /// Creates a span without a parent whose end is its start.
    pub fn new(
        context: SpanContext,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        start: UnixNanos,
    ) -> Self {
        Self {
            context,
            parent: None,
            name: name.into(),
            kind,
            start,
            end: start,
            attributes: Attributes::default(),
            events: Vec::new(),
            events_dropped: 0,
            links: Vec::new(),
            links_dropped: 0,
            status: SpanStatus::Unset,
        }
    }

    /// Sets an attribute.
    pub fn set(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        value: impl Into<AttributeValue>,
        limits: &SpanLimits,
    ) {
        self.attributes.set(key, value, &limits.span_attributes());
    }

    /// Adds an event, or drops and counts it. Its attributes were set within [`SpanLimits::event_attributes`].
    pub fn add_event(&mut self, event: SpanEvent, limits: &SpanLimits) {
        if self.events.len() < limits.events {
            self.events.push(event);
        } else {
            self.events_dropped = self.events_dropped.saturating_add(1);
        }
    }

    /// Adds a link, or drops and counts it. Its attributes were set within [`SpanLimits::link_attributes`].
    pub fn add_link(&mut self, link: SpanLink, limits: &SpanLimits) {
        if self.links.len() < limits.links {
            self.links.push(link);
        } else {
            self.links_dropped = self.links_dropped.saturating_add(1);
        }
    }
}

impl SpanContext {
    /// The flag of a sampled trace.
    pub const SAMPLED: u8 = 0b01;

    /// Creates a context without a `tracestate`.
    pub fn new(trace_id: TraceId, span_id: SpanId, flags: u8) -> Self {
        Self { trace_id, span_id, flags, state: None }
    }

    /// Returns whether the trace is sampled.
    pub fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> SpanContext {
        SpanContext::new(TraceId::new(1).unwrap(), SpanId::new(2).unwrap(), SpanContext::SAMPLED)
    }

    #[test]
    fn events_and_links_beyond_the_limits_are_dropped_and_counted() {
        let limits = SpanLimits { events: 2, links: 1, ..SpanLimits::default() };
        let mut span = Span::new(context(), "GET", SpanKind::Server, UnixNanos::default());
        let event = SpanEvent { name: "e".into(), time: span.start, attributes: Attributes::default() };
        let link = SpanLink { context: context(), is_remote: true, attributes: Attributes::default() };
        for _ in 0..5 {
            span.add_event(event.clone(), &limits);
            span.add_link(link.clone(), &limits);
        }
        assert_eq!((span.events.len(), span.events_dropped), (2, 3));
        assert_eq!((span.links.len(), span.links_dropped), (1, 4));
    }

    #[test]
    fn a_context_is_sampled_by_its_first_flag() {
        let sampled = |flags| SpanContext { flags, ..context() }.is_sampled();
        assert_eq!([0b00, 0b01, 0b10, 0b11].map(sampled), [false, true, false, true]);
    }
}
