//! Completions for C: events on other threads that requests of a worker wait for.
//!
//! C holds the two ends of a completion by pointers to the server's own types, and returns them when it releases them, on
//! whatever thread that happens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::bindings::{self, shim_completer, shim_completion, shim_completion_callbacks};
use crate::host::WorkerRequests;
use crate::runtime::Runtime;

/// The number of groups of waiters. A waiter belongs to the group with the number that is the remainder of the waiter's
/// number divided by this; the waiters of a group are woken together.
pub const WAITER_GROUPS: u32 = bindings::SHIM_WAITER_GROUPS;

/// [`Runtime::take_woken`].
type TakeWoken = fn(&mut dyn FnMut(u32));

static TAKE_WOKEN: OnceLock<TakeWoken> = OnceLock::new();

/// Sets the source of wake-ups; the first one wins.
pub(crate) fn set_source<R: Runtime>() {
    // Called once: PHP starts once in a process.
    let _ = TAKE_WOKEN.set(R::take_woken);
}

/// Wakes the requests of the thread whose completions other threads have completed; returns their number. Called after
/// the thread's wake-ups have been consumed, so a completion that is missed here ends the next sleep.
pub(crate) fn notify_waiters(_requests: &mut WorkerRequests) -> usize {
    let mut ready = 0;
    // SAFETY: on the worker's thread while it serves, which `WorkerRequests` proves.
    let mut notify = |group| ready += unsafe { bindings::shim_waiters_notify(group) };
    if let Some(take_woken) = TAKE_WOKEN.get() {
        // A panic loses the remaining groups.
        let _ = catch_unwind(AssertUnwindSafe(|| take_woken(&mut notify)));
    }
    ready
}

pub(crate) fn callbacks<R: Runtime>() -> shim_completion_callbacks {
    shim_completion_callbacks {
        make: Some(make::<R>),
        complete: Some(complete::<R>),
        poll: Some(poll),
        wait: Some(wait::<R>),
        stop_waiting: Some(stop_waiting::<R>),
        is_complete: Some(is_complete::<R>),
        drop: Some(drop_completion::<R>),
    }
}

/// Gives the waiting end of a completion to C.
pub(crate) fn into_raw<R: Runtime>(awaited: R::Awaited) -> *mut shim_completion {
    Box::into_raw(Box::new(awaited)).cast()
}

unsafe extern "C" fn poll() {
    notify_waiters(&mut WorkerRequests::of_this_thread());
}

unsafe extern "C" fn make<R: Runtime>(
    completion: *mut *mut shim_completion,
    completer: *mut *mut shim_completer,
) -> bool {
    let Ok(Some((awaited, completing))) = catch_unwind(R::completion) else { return false };
    // SAFETY: an out parameter of C.
    unsafe { *completion = into_raw::<R>(awaited) };
    // SAFETY: as above.
    unsafe { *completer = Box::into_raw(Box::new(completing)).cast() };
    true
}

unsafe extern "C" fn complete<R: Runtime>(completer: *mut shim_completer) {
    // SAFETY: made by `make`, and C releases it now.
    let completer = unsafe { Box::from_raw(completer.cast::<R::Completer>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(completer)));
}

/// Calls a completion that C holds; a panic returns `fallback`.
///
/// # Safety
///
/// `completion` is from `into_raw`, has not been released, and this is the thread that made it.
unsafe fn with<R: Runtime, T>(
    completion: *mut shim_completion,
    fallback: T,
    call: impl FnOnce(&R::Awaited) -> T,
) -> T {
    // SAFETY: as the caller promises; it is only read, and only on this thread.
    let awaited = unsafe { &*completion.cast::<R::Awaited>() };
    catch_unwind(AssertUnwindSafe(|| call(awaited))).unwrap_or(fallback)
}

unsafe extern "C" fn wait<R: Runtime>(completion: *mut shim_completion, waiter: u32) -> bool {
    // SAFETY: C keeps to the contract in shim.h. After a panic, the completion counts as complete, so that no request
    // waits forever.
    unsafe { with::<R, _>(completion, false, |awaited| R::wait(awaited, waiter)) }
}

unsafe extern "C" fn stop_waiting<R: Runtime>(completion: *mut shim_completion) {
    // SAFETY: as in `wait`.
    unsafe { with::<R, _>(completion, (), R::stop_waiting) }
}

unsafe extern "C" fn is_complete<R: Runtime>(completion: *mut shim_completion) -> bool {
    // SAFETY: as in `wait`.
    unsafe { with::<R, _>(completion, true, R::is_complete) }
}

unsafe extern "C" fn drop_completion<R: Runtime>(completion: *mut shim_completion) {
    // SAFETY: from `into_raw`, and C releases it now.
    let awaited = unsafe { Box::from_raw(completion.cast::<R::Awaited>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(awaited)));
}
