//! Tasks for C: the requester's end, the running side, and the payloads passed between them.
//!
//! Each end and each payload that C receives is returned to the server when C releases it, on whatever thread that
//! happens. A panic of the server returns a value that ends a wait. The server schedules the tasks and keeps their
//! outcomes.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::bindings::{
    self, shim_completion, shim_dispatched, shim_parcel, shim_task, shim_task_callbacks, shim_task_state,
    shim_task_watch, shim_view, shim_watch_mode,
};
use crate::completion::{self, AwaitedEnd};
use crate::parcel::Parcel;
use crate::request_handle::with_request;
use crate::task_ends::{
    TaskEnd, TaskReading, TaskRefusal, TaskRequester, TaskWatchEnd, TaskWatchMode, Tasks,
};
use crate::view::{bytes, view};

static TASKS: OnceLock<Box<dyn Tasks>> = OnceLock::new();

/// Sets the implementation of tasks; the first call wins.
pub(crate) fn set(tasks: Box<dyn Tasks>) {
    // Called once: a process has one server.
    let _ = TASKS.set(tasks);
}

pub(crate) fn callbacks() -> shim_task_callbacks {
    shim_task_callbacks {
        bytes_max: Some(bytes_max),
        dispatch: Some(dispatch),
        share: Some(share),
        drop: Some(drop_task),
        state: Some(state),
        cancel: Some(cancel),
        detach: Some(detach),
        is_owned: Some(is_owned),
        strand: Some(strand),
        watch: Some(watch),
        watch_stranded: Some(watch_stranded),
        winner: Some(winner),
        unwatch: Some(unwatch),
        input: Some(input),
        leave_cache: Some(leave_cache),
        settle: Some(settle),
        is_cancelled: Some(is_cancelled),
        is_behind: Some(is_behind),
    }
}

/// Returns a thin pointer for C; pointers to trait objects are wide.
fn into_raw<T: ?Sized>(end: Box<T>) -> *mut c_void {
    Box::into_raw(Box::new(end)).cast()
}

/// Runs `call`; a panic returns `fallback`.
fn guarded<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(fallback)
}

/// # Safety
///
/// `task` is an end that C holds and has not released.
unsafe fn end<'a>(task: *const shim_task) -> &'a dyn TaskEnd {
    // SAFETY: `dispatch` or `share` made it; it is only read.
    unsafe { &**task.cast::<Box<dyn TaskEnd>>() }
}

unsafe extern "C" fn bytes_max() -> u64 {
    guarded(0, || TASKS.get().map_or(0, |tasks| tasks.bytes_max()))
}

unsafe extern "C" fn dispatch(
    request: *mut c_void,
    span: u64,
    input: *mut shim_parcel,
    pins_code: bool,
    task: *mut *mut shim_task,
    id: *mut u64,
    bound: *mut u64,
) -> shim_dispatched {
    // SAFETY: C has passed the ownership of the payload.
    let Some(input) = (unsafe { Parcel::of(input, pins_code) }) else {
        return bindings::shim_dispatched_SHIM_TASK_OFF;
    };
    let Some(tasks) = TASKS.get() else { return bindings::shim_dispatched_SHIM_TASK_OFF };
    let dispatched = if request.is_null() {
        guarded(Err(TaskRefusal::NoThread), || tasks.dispatch(input, TaskRequester::default()))
    } else {
        with_request(request, Err(TaskRefusal::NoThread), |request_handle| {
            let host = request_handle.host();
            let seat = host.spans().and_then(|spans| spans.seat(span));
            tasks.dispatch(input, TaskRequester { request_id: host.request_id(), seat })
        })
    };
    let (refusal, reached) = match dispatched {
        Ok((number, end)) => {
            // SAFETY: an out parameter of C.
            unsafe { *task = into_raw::<dyn TaskEnd>(end).cast() };
            // SAFETY: as above.
            unsafe { *id = number };
            return bindings::shim_dispatched_SHIM_TASK_DISPATCHED;
        }
        Err(TaskRefusal::QueueFull(most)) => (bindings::shim_dispatched_SHIM_TASK_QUEUE_FULL, most),
        Err(TaskRefusal::CapReached(most)) => (bindings::shim_dispatched_SHIM_TASK_CAP_REACHED, most),
        Err(TaskRefusal::NoThread) => (bindings::shim_dispatched_SHIM_TASK_NO_THREAD, 0),
        Err(TaskRefusal::Closed) => (bindings::shim_dispatched_SHIM_TASK_CLOSED, 0),
    };
    // SAFETY: an out parameter of C.
    unsafe { *bound = reached as u64 };
    refusal
}

unsafe extern "C" fn share(task: *mut shim_task) -> *mut shim_task {
    // SAFETY: C holds it.
    let own = unsafe { end(task) };
    into_raw::<dyn TaskEnd>(own.share()).cast()
}

unsafe extern "C" fn drop_task(task: *mut shim_task) {
    // SAFETY: C releases it.
    let own = unsafe { Box::from_raw(task.cast::<Box<dyn TaskEnd>>()) };
    guarded((), || drop(own));
}

unsafe extern "C" fn state(
    task: *mut shim_task,
    answer: *mut *const shim_parcel,
    why: *mut shim_view,
) -> shim_task_state {
    // SAFETY: C holds it.
    let own = unsafe { end(task) };
    let (state, parcel, reason) = match guarded(TaskReading::Cancelled, || own.read()) {
        TaskReading::Open => (bindings::shim_task_state_SHIM_TASK_OPEN, None, ""),
        TaskReading::Completed(parcel) => (bindings::shim_task_state_SHIM_TASK_COMPLETED, Some(parcel), ""),
        TaskReading::Failed(parcel) => (bindings::shim_task_state_SHIM_TASK_FAILED, Some(parcel), ""),
        TaskReading::Lost(reason) => (bindings::shim_task_state_SHIM_TASK_LOST, None, reason),
        TaskReading::Cancelled => (bindings::shim_task_state_SHIM_TASK_CANCELLED, None, ""),
    };
    if let Some(parcel) = parcel {
        // SAFETY: an out parameter of C; the payload lives as long as the task, of which C holds an end.
        unsafe { *answer = parcel.raw.as_ptr() };
    }
    // SAFETY: an out parameter of C, set to a text that lives as long as the task.
    unsafe { *why = view(reason.as_bytes()) };
    state
}

unsafe extern "C" fn cancel(task: *mut shim_task) -> bool {
    // SAFETY: C holds it.
    let own = unsafe { end(task) };
    guarded(false, || own.cancel())
}

unsafe extern "C" fn detach(task: *mut shim_task) {
    // SAFETY: C holds it.
    let own = unsafe { end(task) };
    guarded((), || own.detach());
}

unsafe extern "C" fn is_owned(task: *mut shim_task) -> bool {
    // SAFETY: C holds it.
    let own = unsafe { end(task) };
    guarded(false, || own.is_owned())
}

unsafe extern "C" fn strand(task: *mut shim_task) {
    // SAFETY: C holds it.
    let own = unsafe { end(task) };
    guarded((), || own.strand());
}

/// # Safety
///
/// `tasks` are `count` ends that C holds, and `completion` is an out parameter of C.
unsafe fn watch_those(
    tasks: *const *mut shim_task,
    count: usize,
    mode: TaskWatchMode,
    completion: *mut *mut shim_completion,
) -> *mut shim_task_watch {
    let tasks = if count == 0 {
        &[]
    } else {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts(tasks, count) }
    };
    // SAFETY: as the caller promises, each of them.
    let ends = tasks.iter().map(|task| unsafe { end(*task) });
    let ends: Vec<_> = match mode {
        TaskWatchMode::Left => ends.filter(|task| task.is_stranded()).collect(),
        TaskWatchMode::All | TaskWatchMode::Any | TaskWatchMode::Race => ends.collect(),
    };
    if ends.is_empty() {
        return std::ptr::null_mut();
    }
    let watched = guarded(None, || completion::with_own(|own| own.watch(&ends, mode)).flatten());
    let Some((awaited, watch)) = watched else { return std::ptr::null_mut() };
    // SAFETY: as the caller promises.
    unsafe { *completion = into_raw::<dyn AwaitedEnd>(awaited).cast() };
    into_raw::<dyn TaskWatchEnd>(watch).cast()
}

unsafe extern "C" fn watch(
    tasks: *const *mut shim_task,
    count: usize,
    mode: shim_watch_mode,
    completion: *mut *mut shim_completion,
) -> *mut shim_task_watch {
    let mode = match mode {
        bindings::shim_watch_mode_SHIM_WATCH_ALL => TaskWatchMode::All,
        bindings::shim_watch_mode_SHIM_WATCH_ANY => TaskWatchMode::Any,
        _ => TaskWatchMode::Race,
    };
    // SAFETY: C keeps to the contract in shim.h.
    unsafe { watch_those(tasks, count, mode, completion) }
}

unsafe extern "C" fn watch_stranded(
    tasks: *const *mut shim_task,
    count: usize,
    completion: *mut *mut shim_completion,
) -> *mut shim_task_watch {
    // SAFETY: C keeps to the contract in shim.h.
    unsafe { watch_those(tasks, count, TaskWatchMode::Left, completion) }
}

unsafe extern "C" fn winner(watch: *mut shim_task_watch) -> usize {
    // SAFETY: C holds it; it is only read.
    let own = unsafe { &**watch.cast::<Box<dyn TaskWatchEnd>>() };
    guarded(usize::MAX, || own.winner())
}

unsafe extern "C" fn unwatch(watch: *mut shim_task_watch) {
    // SAFETY: C releases it.
    let own = unsafe { Box::from_raw(watch.cast::<Box<dyn TaskWatchEnd>>()) };
    guarded((), || drop(own));
}

unsafe extern "C" fn input(request: *mut c_void) -> *const shim_parcel {
    with_request(request, std::ptr::null(), |request_handle| {
        let parcel = request_handle.running_task().and_then(|task| task.input().map(|parcel| parcel.raw));
        parcel.map_or(std::ptr::null(), |raw| raw.as_ptr().cast_const())
    })
}

unsafe extern "C" fn leave_cache(request: *mut c_void) {
    with_request(request, (), |request_handle| {
        if let Some(task) = request_handle.running_task() {
            task.leave_cache();
        }
    });
}

unsafe extern "C" fn settle(request: *mut c_void, thrown: *const shim_view, answer: *mut shim_parcel) {
    // SAFETY: C has passed the ownership of the payload.
    let Some(answer) = (unsafe { Parcel::of(answer, false) }) else { return };
    // SAFETY: NULL, or C's struct, which is valid for this call.
    let thrown = unsafe { thrown.as_ref() };
    // SAFETY: as above.
    let thrown = thrown.map(|thrown| unsafe { bytes(*thrown) });
    with_request(request, (), |request_handle| {
        if let Some(task) = request_handle.running_task() {
            task.settle(answer, thrown);
        }
    });
}

unsafe extern "C" fn is_cancelled(request: *mut c_void) -> bool {
    with_request(request, false, |request_handle| {
        request_handle.running_task().is_some_and(|task| task.is_cancelled())
    })
}

unsafe extern "C" fn is_behind(request: *mut c_void, task: *mut shim_task) -> bool {
    // SAFETY: C holds the end while it waits for the task.
    let end = unsafe { end(task) };
    with_request(request, false, |request_handle| {
        request_handle.running_task().is_some_and(|running| running.is_behind(end))
    })
}
