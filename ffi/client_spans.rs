//! Spans of client calls, for C.
//!
//! For a request without a trace, and after a panic of the server, the callbacks behave as if tracing were off. The
//! server chooses the attributes.

use std::ffi::c_void;

use svc_types::{ClientCall, ClientEnd, ClientKind};

use crate::bindings::{self, shim_client_call, shim_client_callbacks, shim_client_end, shim_client_kind};
use crate::spans::with_spans;
use crate::view::bytes;

pub(crate) fn callbacks() -> shim_client_callbacks {
    shim_client_callbacks { describe: Some(describe), finish: Some(finish), discard: Some(discard) }
}

fn kind_of(raw: shim_client_kind) -> ClientKind {
    match raw {
        bindings::shim_client_kind_SHIM_CLIENT_STORE => ClientKind::Store,
        bindings::shim_client_kind_SHIM_CLIENT_HTTP => ClientKind::Http,
        _ => ClientKind::Sql,
    }
}

unsafe extern "C" fn describe(request: *mut c_void, span: u64, call: *const shim_client_call) {
    // SAFETY: C's struct is valid for this call.
    let raw = unsafe { &*call };
    let views = [raw.system, raw.operation, raw.text, raw.source, raw.host, raw.database];
    // SAFETY: C's views are valid for this call, each of them.
    let [system, operation, text, source, host, database] = views.map(|text| unsafe { bytes(text) });
    let call = ClientCall {
        kind: kind_of(raw.kind),
        system,
        operation,
        text,
        is_prepared: raw.is_prepared,
        has_other_backslash: raw.has_other_backslash,
        source,
        host,
        port: raw.port,
        database,
    };
    with_spans(request, (), |spans| spans.describe(span, &call));
}

unsafe extern "C" fn finish(request: *mut c_void, span: u64, end: *const shim_client_end) {
    // SAFETY: C's struct is valid for this call.
    let raw = unsafe { &*end };
    // SAFETY: C's views are valid for this call, each of them.
    let [error, code, method] = [raw.error, raw.code, raw.method].map(|text| unsafe { bytes(text) });
    let end = ClientEnd {
        kind: kind_of(raw.kind),
        is_failed: raw.failed,
        is_cut: raw.is_cut,
        error,
        code,
        status: raw.status,
        method,
        version: raw.version,
        slow_ms: raw.slow_ms,
    };
    with_spans(request, (), |spans| spans.finish(span, &end));
}

unsafe extern "C" fn discard(request: *mut c_void, span: u64) {
    with_spans(request, (), |spans| spans.discard(span));
}
