//! Spans for C.
//!
//! For a request without a trace, and after a panic of the server, the callbacks behave as if tracing were off. The
//! server decides which spans are exported.

use std::ffi::c_void;
use std::slice;

use svc_types::{AttributeValue, SpanKind, SpanStatus};

use crate::bindings::{
    self, shim_attribute, shim_scalar, shim_span_callbacks, shim_span_kind, shim_span_status, shim_view,
};
use crate::request_handle::with_request;
use crate::script_spans::{ScriptAttribute, ScriptSpans};
use crate::view::{bytes, view};

pub(crate) fn callbacks() -> shim_span_callbacks {
    shim_span_callbacks {
        own: Some(own),
        begin: Some(begin),
        set_attribute: Some(set_attribute),
        add_event: Some(add_event),
        set_status: Some(set_status),
        end: Some(end),
        traceparent: Some(traceparent),
        tracestate: Some(tracestate),
    }
}

/// Runs `call` on the spans of the request, if it is traced.
pub(crate) fn with_spans<T: Copy>(
    request: *mut c_void,
    fallback: T,
    call: impl FnOnce(&mut dyn ScriptSpans) -> T,
) -> T {
    with_request(request, fallback, |request_handle| match request_handle.host().spans() {
        Some(spans) => call(spans),
        None => fallback,
    })
}

unsafe extern "C" fn own(request: *mut c_void) -> u64 {
    with_spans(request, 0, |spans| spans.own())
}

unsafe extern "C" fn begin(request: *mut c_void, parent: u64, name: shim_view, kind: shim_span_kind) -> u64 {
    // SAFETY: C's view is valid for this call.
    let name = unsafe { bytes(name) };
    let kind = match kind {
        bindings::shim_span_kind_SHIM_SPAN_SERVER => SpanKind::Server,
        bindings::shim_span_kind_SHIM_SPAN_CLIENT => SpanKind::Client,
        bindings::shim_span_kind_SHIM_SPAN_PRODUCER => SpanKind::Producer,
        bindings::shim_span_kind_SHIM_SPAN_CONSUMER => SpanKind::Consumer,
        _ => SpanKind::Internal,
    };
    with_spans(request, 0, |spans| spans.begin(parent, name, kind))
}

unsafe extern "C" fn set_attribute(request: *mut c_void, span: u64, attribute: *const shim_attribute) {
    // SAFETY: C's struct is valid for this call.
    let attribute = unsafe { &*attribute };
    // SAFETY: C filled it, and its views are valid for this call.
    let attribute = unsafe { attribute_of(attribute) };
    with_spans(request, (), |spans| spans.set_attribute(span, &attribute));
}

unsafe extern "C" fn add_event(
    request: *mut c_void,
    span: u64,
    name: shim_view,
    attributes: *const shim_attribute,
    count: usize,
) {
    // SAFETY: C's view is valid for this call.
    let name = unsafe { bytes(name) };
    let attributes = if count == 0 {
        &[]
    } else {
        // SAFETY: C filled `count` structs.
        unsafe { slice::from_raw_parts(attributes, count) }
    };
    // SAFETY: they are valid for this call, each of them.
    let attributes: Vec<_> = attributes.iter().map(|one| unsafe { attribute_of(one) }).collect();
    with_spans(request, (), |spans| spans.add_event(span, name, &attributes));
}

unsafe extern "C" fn set_status(
    request: *mut c_void,
    span: u64,
    status: shim_span_status,
    description: shim_view,
) {
    // SAFETY: C's view is valid for this call.
    let description = unsafe { bytes(description) };
    let status = match status {
        bindings::shim_span_status_SHIM_SPAN_OK => SpanStatus::Ok,
        bindings::shim_span_status_SHIM_SPAN_ERROR => SpanStatus::Error(description),
        _ => SpanStatus::Unset,
    };
    with_spans(request, (), |spans| spans.set_status(span, status));
}

unsafe extern "C" fn end(request: *mut c_void, span: u64, is_cut: bool) {
    with_spans(request, (), |spans| spans.end(span, is_cut));
}

unsafe extern "C" fn traceparent(request: *mut c_void, span: u64, out: *mut shim_view) {
    with_spans(request, (), |spans| {
        // SAFETY: `out` is C's to be filled.
        unsafe { *out = view(spans.traceparent(span)) };
    });
}

unsafe extern "C" fn tracestate(request: *mut c_void, out: *mut shim_view) {
    with_spans(request, (), |spans| {
        // SAFETY: `out` is C's to be filled.
        unsafe { *out = view(spans.tracestate()) };
    });
}

/// # Safety
///
/// `raw` is a struct that C filled; its views are valid for `'a`.
unsafe fn attribute_of<'a>(raw: &shim_attribute) -> ScriptAttribute<'a> {
    // SAFETY: a view of C's, valid as the caller promises.
    let name = unsafe { bytes(raw.name) };
    let values: &'a [shim_scalar] = if raw.count == 0 {
        &[]
    } else {
        // SAFETY: C filled `count` values, which are valid as the caller promises.
        unsafe { slice::from_raw_parts(raw.values, raw.count) }
    };
    // SAFETY: as above, each of them.
    let texts = || values.iter().map(|value| unsafe { bytes(value.text) });
    let value = match (raw.type_, raw.is_list, values.first()) {
        (bindings::shim_scalar_type_SHIM_SCALAR_BOOL, true, _) => {
            AttributeValue::Bools(values.iter().map(|value| value.integer != 0).collect())
        }
        (bindings::shim_scalar_type_SHIM_SCALAR_INT, true, _) => {
            AttributeValue::Ints(values.iter().map(|value| value.integer).collect())
        }
        (bindings::shim_scalar_type_SHIM_SCALAR_FLOAT, true, _) => {
            AttributeValue::Doubles(values.iter().map(|value| value.number).collect())
        }
        (_, true, _) => AttributeValue::Texts(texts().collect()),
        (bindings::shim_scalar_type_SHIM_SCALAR_BOOL, false, Some(value)) => {
            AttributeValue::Bool(value.integer != 0)
        }
        (bindings::shim_scalar_type_SHIM_SCALAR_INT, false, Some(value)) => {
            AttributeValue::Int(value.integer)
        }
        (bindings::shim_scalar_type_SHIM_SCALAR_FLOAT, false, Some(value)) => {
            AttributeValue::Double(value.number)
        }
        (_, false, _) => AttributeValue::Text(texts().next().unwrap_or_default()),
    };
    ScriptAttribute { name, value }
}
