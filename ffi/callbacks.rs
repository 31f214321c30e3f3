//! The callbacks that C calls.
//!
//! A panic does not cross into C: the callback returns its documented fallback, and the request continues as if its
//! client had disconnected. Every pointer passed in is valid for the call, as `c/shim.h` specifies.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::OnceLock;
use std::time::Duration;

use crate::bindings::{
    self, shim_callbacks, shim_head, shim_hook, shim_io_callbacks, shim_log, shim_obstacle, shim_pair,
    shim_pairs, shim_purge, shim_restart_callbacks, shim_view, shim_worker_callbacks,
};
use crate::client_spans;
use crate::completion;
use crate::head::PhpHead;
use crate::helper;
use crate::hook::{hook_of, obstacle_of};
use crate::host::{CachePurge, LogSource, PhpLog, ScriptLevel, WorkerRequests};
use crate::outcome::{PhpOutcome, outcome_of};
use crate::pairs::Pairs;
use crate::request_handle::{RequestHandle, Role, with_request};
use crate::restart_barrier::{BARRIER, RestartEvent};
use crate::runtime::Runtime;
use crate::script_spans::ScriptFailure;
use crate::spans;
use crate::tasks;
use crate::view::{bytes, view};

/// Receives log records that belong to no request.
pub(crate) type LogSink = Box<dyn Fn(&PhpLog<'_>) + Send + Sync>;

/// Receives the errors that PHP raises.
pub(crate) type ErrorSink = Box<dyn Fn(&PhpLog<'_>) + Send + Sync>;

/// Receives events of OPcache's restarts.
pub(crate) type RestartSink = Box<dyn Fn(RestartEvent) + Send + Sync>;

pub(crate) static RESTART_SINK: OnceLock<RestartSink> = OnceLock::new();
pub(crate) static ERROR_SINK: OnceLock<ErrorSink> = OnceLock::new();
pub(crate) static LOG_SINK: OnceLock<LogSink> = OnceLock::new();

/// Returns the table of callbacks, which C copies at startup.
pub(crate) fn callbacks<R: Runtime>() -> shim_callbacks {
    shim_callbacks {
        size: size_of::<shim_callbacks>(),
        io: shim_io_callbacks {
            write: Some(write),
            flush: Some(flush),
            send_head: Some(send_head),
            send_interim: Some(send_interim),
            finish: Some(finish),
            time_limit: Some(time_limit),
            failed: Some(failed),
            fail: Some(fail),
            is_gone: Some(is_gone),
            is_full: Some(is_full),
            read_body: Some(read_body),
            read_body_at: Some(read_body_at),
            variables: Some(variables),
            fields: Some(fields),
            target: Some(target),
            client: Some(client),
            request_id: Some(request_id),
            purge: Some(purge),
            log: Some(log),
            error: Some(error),
        },
        worker: shim_worker_callbacks {
            serve: Some(serve),
            serve_one: Some(serve_one),
            ended: Some(ended),
            freed: Some(freed),
            parks: Some(parks),
            blocks: Some(blocks),
            waited_for_connection: Some(waited_for_connection),
            resumes: Some(resumes),
        },
        completion: completion::callbacks::<R>(),
        helper: helper::callbacks(),
        span: spans::callbacks(),
        client: client_spans::callbacks(),
        task: tasks::callbacks::<R>(),
        restart: shim_restart_callbacks {
            may_begin: Some(restart_may_begin),
            done: Some(restart_done),
            wanted: Some(restart_wanted),
            worker_started: Some(worker_started),
        },
    }
}

/// Defines callbacks on a request: `fn name(argument: Type) -> Result = fallback, |request_handle| body`.
macro_rules! callbacks {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty = $fallback:expr,
       |$request_handle:ident| $body:expr;)*) => {
        $($(#[$doc])*
        unsafe extern "C" fn $name(request: *mut c_void $(, $arg: $type)*) -> $result {
            with_request(request, $fallback, |$request_handle| $body)
        })*
    };
}

callbacks! {
    fn write(output: shim_view) -> bool = false, |request_handle| {
        // SAFETY: C's view is valid for this call.
        request_handle.host().write(unsafe { bytes(output) })
    };
    fn is_gone() -> bool = false, |request_handle| request_handle.host().is_gone();
    fn is_full() -> bool = false, |request_handle| request_handle.host().is_full();
    fn flush() -> bool = false, |request_handle| request_handle.host().flush();
    fn send_head(head: *const shim_head) -> () = (), |request_handle| {
        // SAFETY: C's struct is valid for this call.
        request_handle.host().send_head(&unsafe { head_of(head) });
    };
    fn send_interim(head: *const shim_head) -> () = (), |request_handle| {
        // SAFETY: C's struct is valid for this call.
        request_handle.host().send_interim(&unsafe { head_of(head) });
    };
    fn finish() -> () = (), |request_handle| request_handle.host().finish();
    fn time_limit() -> () = (), |request_handle| request_handle.host().time_limit();
    fn failed(is_lost: bool) -> () = (), |request_handle| request_handle.host().failed(is_lost);
    fn fail(class: shim_view, message: shim_view, trace: shim_view, is_exception: bool) -> () = (), |request_handle| {
        // SAFETY: each view is valid for the duration of this call.
        let [class, message, trace] = [class, message, trace].map(|text| unsafe { bytes(text) });
        request_handle.host().fail(&ScriptFailure { class, message, trace, is_exception });
    };
    fn read_body(buffer: *mut c_char, size: usize) -> usize = 0, |request_handle| {
        // SAFETY: C's buffer has `size` writable bytes, initialised or not; they are only written.
        let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), size) };
        request_handle.host().read_body(buffer)
    };
    fn variables(out: *mut shim_pairs) -> () = (), |request_handle| {
        if request_handle.storage.variables.is_empty() {
            let mut variables = std::mem::take(&mut request_handle.storage.variables);
            request_handle.host().variables(&mut variables);
            request_handle.storage.variables = variables;
        }
        let storage = &mut request_handle.storage;
        // SAFETY: `out` is C's to be filled.
        unsafe { *out = list(&storage.variables, &mut storage.variable_views) };
    };
    fn fields(out: *mut shim_pairs) -> () = (), |request_handle| {
        if request_handle.storage.fields.is_empty() {
            let mut fields = std::mem::take(&mut request_handle.storage.fields);
            request_handle.host().fields(&mut fields);
            request_handle.storage.fields = fields;
        }
        let storage = &mut request_handle.storage;
        // SAFETY: `out` is C's to be filled.
        unsafe { *out = list(&storage.fields, &mut storage.field_views) };
    };
    fn request_id(out: *mut shim_view) -> () = (), |request_handle| {
        // SAFETY: `out` is C's to be filled.
        unsafe { *out = view(request_handle.host().request_id()) };
    };
    fn purge(what: shim_purge, names: *const shim_view, count: usize) -> i64 = 0, |request_handle| {
        let names = if count == 0 { &[][..] } else {
            // SAFETY: C's list of views is valid for this call.
            unsafe { slice::from_raw_parts(names, count) }
        };
        // SAFETY: the views are valid for this call.
        let names = names.iter().map(|name| unsafe { bytes(*name) }).collect::<Vec<_>>();
        let purge = match what {
            bindings::shim_purge_SHIM_PURGE_TAGS => CachePurge::Tags(&names),
            bindings::shim_purge_SHIM_PURGE_URL => CachePurge::Url(names.first().copied().unwrap_or_default()),
            _ => CachePurge::All,
        };
        request_handle.host().purge(purge).map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX))
    };
    fn target(out: *mut shim_view) -> () = (), |request_handle| {
        // SAFETY: `out` is C's to be filled.
        unsafe { *out = view(request_handle.host().target()) };
    };
    fn client(out: *mut shim_view) -> () = (), |request_handle| {
        // SAFETY: `out` is C's to be filled.
        unsafe { *out = view(request_handle.host().client()) };
    };
    fn read_body_at(buffer: *mut c_char, size: usize, offset: u64) -> usize = 0, |request_handle| {
        // SAFETY: C's buffer has `size` writable bytes, initialised or not; they are only written.
        let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), size) };
        request_handle.host().read_body_at(buffer, offset)
    };
    fn parks() -> () = (), |request_handle| {
        if let Some(worker_request) = request_handle.worker_request() {
            worker_request.parks();
        }
    };
    fn resumes() -> () = (), |request_handle| {
        if let Some(worker_request) = request_handle.worker_request() {
            worker_request.resumes();
        }
    };
    fn blocks(hook: shim_hook, obstacle: shim_obstacle) -> () = (), |request_handle| {
        let named = hook_of(hook).zip(obstacle_of(obstacle));
        if let Some(((hook, obstacle), worker_request)) = named.zip(request_handle.worker_request()) {
            worker_request.blocks(hook, obstacle);
        }
    };
    fn waited_for_connection(microseconds: u64) -> () = (), |request_handle| {
        if let Some(worker_request) = request_handle.worker_request() {
            worker_request.waited_for_connection(Duration::from_micros(microseconds));
        }
    };
    fn serve() -> () = (), |request_handle| {
        if let Some(worker) = request_handle.worker() {
            worker.serve(&mut WorkerRequests::of_this_thread());
        }
    };
    fn serve_one() -> bool = false, |request_handle| {
        request_handle.worker().is_some_and(|worker| worker.serve_one(&mut WorkerRequests::of_this_thread()))
    };
}

unsafe extern "C" fn ended(request: *mut c_void, outcome: c_int) {
    // SAFETY: as in `with_request`; the pointer came from `into_raw` below.
    let request_handle = unsafe { &mut *request.cast::<RequestHandle<'_>>() };
    // A panic counts as fatal.
    let outcome =
        if request_handle.panicked { PhpOutcome::Fatal } else { outcome_of(outcome.unsigned_abs()) };
    // After a panic, dropping the worker request reports its end.
    let _ = catch_unwind(AssertUnwindSafe(|| match &mut request_handle.role {
        Role::WorkerRequest(worker_request) => worker_request.ended(outcome),
        Role::Plain(host) => host.ends(outcome),
        Role::Worker(_) => {}
    }));
}

unsafe extern "C" fn freed(request: *mut c_void) {
    // SAFETY: the pointer came from `into_raw` below, and this is the last callback of its request.
    let request_handle = unsafe { RequestHandle::from_raw(request) };
    request_handle.leave();
}

fn list(pairs: &Pairs, views: &mut Vec<shim_pair>) -> shim_pairs {
    views.clear();
    views.extend(pairs.iter().map(|(name, value)| shim_pair { name: view(name), value: view(value) }));
    shim_pairs { pairs: views.as_ptr(), count: views.len() }
}

/// # Safety
///
/// `head` is a struct that C filled; it and its views are valid for `'a`.
unsafe fn head_of<'a>(head: *const shim_head) -> PhpHead<'a> {
    // SAFETY: valid, as the caller promises.
    let head = unsafe { &*head };
    let lines = if head.count == 0 {
        &[]
    } else {
        // SAFETY: C filled `count` views.
        unsafe { slice::from_raw_parts(head.lines, head.count) }
    };
    PhpHead {
        status: head.status,
        // SAFETY: a view of C's, valid as the caller promises.
        status_line: unsafe { bytes(head.status_line) },
        // SAFETY: as above, each of them.
        lines: lines.iter().map(|line| unsafe { bytes(*line) }).collect(),
    }
}

unsafe extern "C" fn log(request: *mut c_void, record: *const shim_log) {
    // SAFETY: C's record and its views are valid for this call.
    let record = unsafe { record_of(record) };
    if !request.is_null() {
        with_request(request, (), |request_handle| request_handle.host().log(&record));
    } else if let Some(sink) = LOG_SINK.get() {
        // A panic in the sink loses one record.
        let _ = catch_unwind(AssertUnwindSafe(|| sink(&record)));
    }
}

unsafe extern "C" fn error(record: *const shim_log) {
    if let Some(sink) = ERROR_SINK.get() {
        // SAFETY: C's record and its views are valid for this call.
        let record = unsafe { record_of(record) };
        // A panic in the sink loses one error.
        let _ = catch_unwind(AssertUnwindSafe(|| sink(&record)));
    }
}

/// # Safety
///
/// `record` is a struct that C filled; it and its views are valid for `'a`.
unsafe fn record_of<'a>(record: *const shim_log) -> PhpLog<'a> {
    // SAFETY: valid, as the caller promises.
    let raw = unsafe { &*record };
    let source = match raw.source {
        bindings::shim_log_source_SHIM_LOG_ERROR => LogSource::Error(raw.error_type),
        bindings::shim_log_source_SHIM_LOG_SCRIPT => LogSource::Script(match raw.script_level {
            bindings::shim_script_level_SHIM_SCRIPT_DEBUG => ScriptLevel::Debug,
            bindings::shim_script_level_SHIM_SCRIPT_INFO => ScriptLevel::Info,
            bindings::shim_script_level_SHIM_SCRIPT_WARNING => ScriptLevel::Warning,
            _ => ScriptLevel::Error,
        }),
        _ => LogSource::Message(raw.syslog_priority),
    };
    // SAFETY: a view of C's, valid as the caller promises.
    let message = unsafe { bytes(raw.message) };
    // SAFETY: as above.
    let file = unsafe { bytes(raw.file) };
    // SAFETY: as above.
    let context = unsafe { bytes(raw.context) };
    PhpLog { source, message, context, file, line: raw.line, span: raw.span }
}

/// Reports a restart; a panic in the sink loses the report.
pub(crate) fn report_restart(event: RestartEvent) {
    if let Some(sink) = RESTART_SINK.get() {
        let _ = catch_unwind(AssertUnwindSafe(|| sink(event)));
    }
}

unsafe extern "C" fn restart_may_begin() -> bool {
    hear_of_restart();
    BARRIER.try_exclusive()
}

unsafe extern "C" fn restart_wanted() {
    hear_of_restart();
}

fn hear_of_restart() {
    if BARRIER.note_wanted() && !IS_SILENT.get() {
        report_restart(RestartEvent::Wanted);
    }
}

/// Calls `action` without reporting the restart of OPcache that it requests.
pub(crate) fn without_news(action: impl FnOnce()) {
    IS_SILENT.set(true);
    action();
    IS_SILENT.set(false);
}

thread_local! {
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" fn worker_started(uses_cache: bool) {
    BARRIER.worker_started(uses_cache);
}

unsafe extern "C" fn restart_done() {
    report_restart(BARRIER.end_exclusive());
}

#[cfg(test)]
#[path = "callbacks_tests.rs"]
mod tests;
