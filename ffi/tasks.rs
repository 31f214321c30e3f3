//! Tasks for C: the requester's side, the running side, and the payloads passed between them.
//!
//! Each handle and each payload that C receives is returned to the server when C releases it, on whatever thread that
//! happens. A panic of the server returns a value that ends a wait. The server schedules the tasks and keeps their
//! outcomes.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use svc_types::{TaskRejection, WatchMode};

use crate::bindings::{
    self, shim_completion, shim_dispatched, shim_payload, shim_task, shim_task_callbacks, shim_task_state,
    shim_task_watch, shim_view, shim_watch_mode,
};
use crate::completion;
use crate::host::WorkerRequest;
use crate::payload::Payload;
use crate::request_handle::with_request;
use crate::runtime::{Runtime, TaskReading, TaskRequester};
use crate::view::{bytes, view};

pub(crate) fn callbacks<R: Runtime>() -> shim_task_callbacks {
    shim_task_callbacks {
        bytes_max: Some(bytes_max::<R>),
        dispatch: Some(dispatch::<R>),
        share: Some(share::<R>),
        drop: Some(drop_task::<R>),
        state: Some(state::<R>),
        cancel: Some(cancel::<R>),
        detach: Some(detach::<R>),
        is_owned: Some(is_owned::<R>),
        strand: Some(strand::<R>),
        watch: Some(watch::<R>),
        watch_stranded: Some(watch_stranded::<R>),
        winner: Some(winner::<R>),
        unwatch: Some(unwatch::<R>),
        input: Some(input),
        leave_cache: Some(leave_cache),
        settle: Some(settle),
        is_cancelled: Some(is_cancelled),
        runs_task: Some(runs_task::<R>),
    }
}

/// Runs `call`; a panic returns `fallback`.
fn guarded<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(fallback)
}

/// Gives a handle of a task to C.
fn into_raw<R: Runtime>(task: R::Task) -> *mut shim_task {
    Box::into_raw(Box::new(task)).cast()
}

/// # Safety
///
/// `task` is a handle that C holds and has not released.
unsafe fn handle<'a, R: Runtime>(task: *const shim_task) -> &'a R::Task {
    // SAFETY: `into_raw` made it; it is only read.
    unsafe { &*task.cast::<R::Task>() }
}

unsafe extern "C" fn bytes_max<R: Runtime>() -> u64 {
    guarded(0, R::bytes_max)
}

unsafe extern "C" fn dispatch<R: Runtime>(
    request: *mut c_void,
    span: u64,
    input: *mut shim_payload,
    pins_code: bool,
    task: *mut *mut shim_task,
    id: *mut u64,
    bound: *mut u64,
) -> shim_dispatched {
    // SAFETY: C has passed the ownership of the payload.
    let Some(input) = (unsafe { Payload::of(input, pins_code) }) else {
        return bindings::shim_dispatched_SHIM_TASK_OFF;
    };
    let dispatched = if request.is_null() {
        guarded(Err(TaskRejection::NoThread), || R::dispatch(input, TaskRequester::default()))
    } else {
        with_request(request, Err(TaskRejection::NoThread), |request_handle| {
            let host = request_handle.host();
            let trace = host.spans().and_then(|spans| spans.context(span));
            R::dispatch(input, TaskRequester { request_id: host.request_id(), trace })
        })
    };
    let (rejection, reached) = match dispatched {
        Ok(dispatched) => {
            // SAFETY: an out parameter of C.
            unsafe { *id = R::id(&dispatched) };
            // SAFETY: as above.
            unsafe { *task = into_raw::<R>(dispatched) };
            return bindings::shim_dispatched_SHIM_TASK_DISPATCHED;
        }
        Err(TaskRejection::Queue { capacity }) => (bindings::shim_dispatched_SHIM_TASK_QUEUE_FULL, capacity),
        Err(TaskRejection::InFlight { cap }) => (bindings::shim_dispatched_SHIM_TASK_CAP_REACHED, cap),
        Err(TaskRejection::NoThread) => (bindings::shim_dispatched_SHIM_TASK_NO_THREAD, 0),
        Err(TaskRejection::Closed) => (bindings::shim_dispatched_SHIM_TASK_CLOSED, 0),
    };
    // SAFETY: an out parameter of C.
    unsafe { *bound = reached as u64 };
    rejection
}

unsafe extern "C" fn share<R: Runtime>(task: *mut shim_task) -> *mut shim_task {
    // SAFETY: C holds it.
    let own = unsafe { handle::<R>(task) };
    into_raw::<R>(own.clone())
}

unsafe extern "C" fn drop_task<R: Runtime>(task: *mut shim_task) {
    // SAFETY: C releases it.
    let own = unsafe { Box::from_raw(task.cast::<R::Task>()) };
    guarded((), || drop(own));
}

unsafe extern "C" fn state<R: Runtime>(
    task: *mut shim_task,
    answer: *mut *const shim_payload,
    why: *mut shim_view,
) -> shim_task_state {
    // SAFETY: C holds it.
    let own = unsafe { handle::<R>(task) };
    let (state, payload, reason) = match guarded(TaskReading::Cancelled, || R::read(own)) {
        TaskReading::Open => (bindings::shim_task_state_SHIM_TASK_OPEN, None, ""),
        TaskReading::Completed(payload) => (bindings::shim_task_state_SHIM_TASK_COMPLETED, Some(payload), ""),
        TaskReading::Failed(payload) => (bindings::shim_task_state_SHIM_TASK_FAILED, Some(payload), ""),
        TaskReading::Lost(reason) => (bindings::shim_task_state_SHIM_TASK_LOST, None, reason),
        TaskReading::Cancelled => (bindings::shim_task_state_SHIM_TASK_CANCELLED, None, ""),
    };
    if let Some(payload) = payload {
        // SAFETY: an out parameter of C; the payload lives as long as the task, of which C holds a handle.
        unsafe { *answer = payload.raw.as_ptr() };
    }
    // SAFETY: an out parameter of C, set to a text that lives as long as the task.
    unsafe { *why = view(reason.as_bytes()) };
    state
}

unsafe extern "C" fn cancel<R: Runtime>(task: *mut shim_task) -> bool {
    // SAFETY: C holds it.
    let own = unsafe { handle::<R>(task) };
    guarded(false, || R::cancel(own))
}

unsafe extern "C" fn detach<R: Runtime>(task: *mut shim_task) {
    // SAFETY: C holds it.
    let own = unsafe { handle::<R>(task) };
    guarded((), || R::detach(own));
}

unsafe extern "C" fn is_owned<R: Runtime>(task: *mut shim_task) -> bool {
    // SAFETY: C holds it.
    let own = unsafe { handle::<R>(task) };
    guarded(false, || R::is_owned(own))
}

unsafe extern "C" fn strand<R: Runtime>(task: *mut shim_task) {
    // SAFETY: C holds it.
    let own = unsafe { handle::<R>(task) };
    guarded((), || R::strand(own));
}

/// # Safety
///
/// `tasks` are `count` handles that C holds, and `completion` is an out parameter of C.
unsafe fn watch_those<R: Runtime>(
    tasks: *const *mut shim_task,
    count: usize,
    mode: WatchMode,
    completion: *mut *mut shim_completion,
) -> *mut shim_task_watch {
    let tasks = if count == 0 {
        &[]
    } else {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts(tasks, count) }
    };
    // SAFETY: as the caller promises, each of them.
    let handles = tasks.iter().map(|task| unsafe { handle::<R>(*task) });
    let handles: Vec<_> = match mode {
        WatchMode::Left => handles.filter(|task| R::is_stranded(task)).collect(),
        WatchMode::All | WatchMode::Any | WatchMode::Race => handles.collect(),
    };
    if handles.is_empty() {
        return std::ptr::null_mut();
    }
    let watched = guarded(None, || R::watch(&handles, mode));
    let Some((watch, awaited)) = watched else { return std::ptr::null_mut() };
    // SAFETY: as the caller promises.
    unsafe { *completion = completion::into_raw::<R>(awaited) };
    Box::into_raw(Box::new(watch)).cast()
}

unsafe extern "C" fn watch<R: Runtime>(
    tasks: *const *mut shim_task,
    count: usize,
    mode: shim_watch_mode,
    completion: *mut *mut shim_completion,
) -> *mut shim_task_watch {
    let mode = match mode {
        bindings::shim_watch_mode_SHIM_WATCH_ALL => WatchMode::All,
        bindings::shim_watch_mode_SHIM_WATCH_ANY => WatchMode::Any,
        _ => WatchMode::Race,
    };
    // SAFETY: C keeps to the contract in shim.h.
    unsafe { watch_those::<R>(tasks, count, mode, completion) }
}

unsafe extern "C" fn watch_stranded<R: Runtime>(
    tasks: *const *mut shim_task,
    count: usize,
    completion: *mut *mut shim_completion,
) -> *mut shim_task_watch {
    // SAFETY: C keeps to the contract in shim.h.
    unsafe { watch_those::<R>(tasks, count, WatchMode::Left, completion) }
}

unsafe extern "C" fn winner<R: Runtime>(watch: *mut shim_task_watch) -> usize {
    // SAFETY: C holds it; it is only read.
    let own = unsafe { &*watch.cast::<R::Watch>() };
    guarded(usize::MAX, || R::winner(own))
}

unsafe extern "C" fn unwatch<R: Runtime>(watch: *mut shim_task_watch) {
    // SAFETY: C releases it.
    let own = unsafe { Box::from_raw(watch.cast::<R::Watch>()) };
    guarded((), || drop(own));
}

/// Calls `call` with the task that the request is.
fn with_task<T: Copy>(
    request: *mut c_void,
    fallback: T,
    call: impl FnOnce(&mut dyn WorkerRequest) -> T,
) -> T {
    with_request(request, fallback, |request_handle| request_handle.worker_request().map_or(fallback, call))
}

unsafe extern "C" fn input(request: *mut c_void) -> *const shim_payload {
    with_task(request, std::ptr::null(), |task| {
        task.input().map_or(std::ptr::null(), |payload| payload.raw.as_ptr().cast_const())
    })
}

unsafe extern "C" fn leave_cache(request: *mut c_void) {
    with_task(request, (), |task| task.leave_cache());
}

unsafe extern "C" fn settle(request: *mut c_void, thrown: *const shim_view, answer: *mut shim_payload) {
    // SAFETY: C has passed the ownership of the payload.
    let Some(answer) = (unsafe { Payload::of(answer, false) }) else { return };
    // SAFETY: NULL, or C's struct, which is valid for this call.
    let thrown = unsafe { thrown.as_ref() };
    // SAFETY: as above.
    let thrown = thrown.map(|thrown| unsafe { bytes(*thrown) });
    with_task(request, (), |task| task.settle(answer, thrown));
}

unsafe extern "C" fn is_cancelled(request: *mut c_void) -> bool {
    with_task(request, false, |task| task.is_cancelled())
}

unsafe extern "C" fn runs_task<R: Runtime>(request: *mut c_void, task: *mut shim_task) -> bool {
    // SAFETY: C holds the handle while it waits for the task.
    let own = unsafe { handle::<R>(task) };
    with_task(request, false, |running| running.task() == Some(R::id(own)))
}
