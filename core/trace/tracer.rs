//! The sampling of requests, and the destination of their spans.
//!
//! A trace is sampled once, at its first request on this server, and the propagated flags say so. Builds no spans.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::config::{SpanLimits, TraceConfig};
use crate::http::Trace;
use crate::sync::primitive::Arc;

use super::ids::{SpanId, TraceId};
use super::sink::TraceSink;
use super::span::{Span, SpanContext};

/// Decides which traces are recorded, and takes their spans.
pub struct Tracer {
    config: TraceConfig,
    /// The queue of spans; `None` if they are not exported.
    sink: Option<Arc<TraceSink>>,
}

impl Tracer {
    /// Creates a tracer with these settings.
    pub fn new(config: TraceConfig, sink: Option<Arc<TraceSink>>) -> Self {
        Self { config, sink }
    }

    /// Returns the settings.
    pub fn config(&self) -> &TraceConfig {
        &self.config
    }

    /// Returns the limits of a span.
    pub fn limits(&self) -> &SpanLimits {
        &self.config.limits
    }

    /// Makes the sampling decision for a request, and sets the trace's flags accordingly. Returns whether to build
    /// spans.
    pub fn decide(&self, trace: &mut Trace) -> bool {
        if !self.config.has_trace_context {
            trace.keep_private();
        }
        // With the SDK disabled, a trace is propagated unchanged.
        if self.config.is_disabled {
            return false;
        }
        let parent = trace.parent_id().map(|_| trace.is_sampled());
        let state = trace.tracestate().map(|state| &**state);
        let is_sampled = TraceId::new(trace.trace_id())
            .is_some_and(|trace_id| self.config.sampler.decides(trace_id, state, parent));
        trace.decide(is_sampled);
        is_sampled && self.sink.is_some()
    }

    /// Returns whether spans are built at all.
    pub fn is_recording(&self) -> bool {
        self.sink.is_some() && !self.config.is_disabled
    }

    /// Takes a finished span; never waits.
    pub fn offer(&self, span: &Span) {
        if let Some(sink) = &self.sink {
            sink.offer(span);
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("sampler", &self.config.sampler).finish_non_exhaustive()
    }
}

impl SpanContext {
    /// Returns the position of the server's own span in the trace of a request.
    pub fn of(trace: &Trace) -> Option<Self> {
        Some(Self {
            trace_id: TraceId::new(trace.trace_id())?,
            span_id: SpanId::new(trace.span_id())?,
            flags: trace.flags(),
            state: trace.tracestate().cloned(),
        })
    }

    /// Returns the position of another span in the same trace.
    #[must_use]
    pub fn with_span(&self, span_id: SpanId) -> Self {
        Self { span_id, ..self.clone() }
    }
}

/// Generates the IDs of spans for one thread.
#[derive(Debug)]
pub struct SpanIds {
    seed: u64,
    /// How many numbers of the sequence were used.
    used: u64,
}

impl Default for SpanIds {
    /// Seeds the generator from the system's randomness.
    fn default() -> Self {
        Self { seed: RandomState::new().build_hasher().finish(), used: 0 }
    }
}

impl SpanIds {
    /// Generates an ID that is unique in this thread.
    pub fn draw(&mut self) -> SpanId {
        loop {
            self.used = self.used.wrapping_add(1);
            // A bijection of the sequence number: neighbours look unrelated, and no value repeats.
            if let Some(id) = SpanId::new(mix(self.seed.wrapping_add(self.used.wrapping_mul(STEP)))) {
                return id;
            }
        }
    }

    /// Returns whether this generator produced the ID. It inverts the sequence instead of storing the IDs.
    pub fn has_drawn(&self, id: SpanId) -> bool {
        let number = unmix(id.get()).wrapping_sub(self.seed).wrapping_mul(STEP_INVERSE);
        (1..=self.used).contains(&number)
    }
}

fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(FACTORS[0]);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(FACTORS[1]);
    mixed ^ (mixed >> 31)
}

fn unmix(mixed: u64) -> u64 {
    let mut number = mixed ^ (mixed >> 31) ^ (mixed >> 62);
    number = number.wrapping_mul(FACTOR_INVERSES[1]);
    number = number ^ (number >> 27) ^ (number >> 54);
    number = number.wrapping_mul(FACTOR_INVERSES[0]);
    number ^ (number >> 30) ^ (number >> 60)
}

/// The step of the sequence; odd, so that it has an inverse modulo 2^64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const STEP_INVERSE: u64 = 0xf1de_83e1_9937_733d;
const _: () = assert!(STEP.wrapping_mul(STEP_INVERSE) == 1);

const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
const FACTOR_INVERSES: [u64; 2] = [0x96de_1b17_3f11_9089, 0x3196_42b2_d24d_8ec3];
const _: () = assert!(FACTORS[0].wrapping_mul(FACTOR_INVERSES[0]) == 1);
const _: () = assert!(FACTORS[1].wrapping_mul(FACTOR_INVERSES[1]) == 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BatchConfig, RootSampler, Sampler};
    use crate::http::FreshIds;
    use std::time::Duration;

    const FRESH: FreshIds = FreshIds { trace_id: 7, span_id: 8 };

    fn tracer(root: RootSampler, change: impl FnOnce(&mut TraceConfig)) -> Tracer {
        let mut config = TraceConfig {
            is_disabled: false,
            sampler: Sampler { root, is_parent_based: true },
            limits: SpanLimits::default(),
            has_trace_context: true,
            known_methods: Vec::new(),
            redacted_parameters: Vec::new(),
            resource: Vec::new(),
            batch: BatchConfig {
                schedule_delay: Duration::from_secs(5),
                export_timeout: None,
                queue_items_max: 4,
                batch_items_max: 4,
            },
            metrics: None,
            logs: None,
            export: None,
            ignored: Vec::new(),
        };
        change(&mut config);
        Tracer::new(config, Some(Arc::new(TraceSink::new(4, 4, |_, buffer| buffer, || {}))))
    }

    #[test]
    fn the_sampler_decides_and_sets_the_flags() {
        let mut trace = Trace::begin(FRESH);
        assert!(tracer(RootSampler::AlwaysOn, |_| {}).decide(&mut trace));
        assert!(trace.is_sampled() && !trace.is_private());
        let mut trace = Trace::begin(FRESH);
        assert!(!tracer(RootSampler::AlwaysOff, |_| {}).decide(&mut trace));
        assert!(!trace.is_sampled());
    }

    #[test]
    fn unexported_traces_are_sampled_and_not_recorded() {
        let mut trace = Trace::begin(FRESH);
        let config = tracer(RootSampler::AlwaysOn, |_| {}).config.clone();
        assert!(!Tracer::new(config, None).decide(&mut trace));
        assert!(trace.is_sampled());
    }

    #[test]
    fn without_an_sdk_nothing_is_decided() {
        let mut trace = Trace::begin(FRESH);
        assert!(!tracer(RootSampler::AlwaysOn, |config| config.is_disabled = true).decide(&mut trace));
        assert!(!trace.is_sampled());
    }

    #[test]
    fn without_the_propagator_no_field_tells_about_the_trace() {
        let mut trace = Trace::begin(FRESH);
        assert!(tracer(RootSampler::AlwaysOn, |config| config.has_trace_context = false).decide(&mut trace));
        assert!(trace.is_private());
    }

    #[test]
    fn ids_of_spans_differ() {
        let mut ids = SpanIds::default();
        let drawn: std::collections::HashSet<_> = (0..1000).map(|_| ids.draw()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(drawn.iter().all(|id| ids.has_drawn(*id)));
    }

    #[test]
    fn a_generator_knows_its_own_ids() {
        let (mut ids, mut others) = (SpanIds::default(), SpanIds::default());
        assert!((0..1000).all(|_| !ids.has_drawn(others.draw())));
        let mut ahead = SpanIds { seed: ids.seed, used: 0 };
        assert!(!ids.has_drawn(ahead.draw()), "it will, but it has not yet");
        let own = ids.draw();
        assert!(ids.has_drawn(own));
    }
}
