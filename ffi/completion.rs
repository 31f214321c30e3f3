//! Completions for C: events on other threads that requests of a worker wait for.
//!
//! Each end that C receives is returned to the server when C releases it, on whatever thread that happens. The server
//! owns the shared state of a completion; this file contains only the handles for C.

use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bindings::{self, shim_completer, shim_completion, shim_completion_callbacks};
use crate::host::WorkerRequests;
use crate::task_ends::{TaskEnd, TaskWatchEnd, TaskWatchMode};

/// The number of groups of waiters. A waiter belongs to the group with the number that is the remainder of the waiter's
/// number divided by this; the waiters of a group are woken together.
pub const WAITER_GROUPS: u32 = bindings::SHIM_WAITER_GROUPS;

/// Creates completions for the requests of one thread.
pub trait Completions {
    /// Creates a completion: the waiting end and the completing end.
    fn make(&self) -> (Box<dyn AwaitedEnd>, Box<dyn CompleterEnd>);
    /// Passes the groups of waiters whose completions other threads have completed to `woken`. Called each time after
    /// the worker has consumed its wake-ups, so a later completion wakes it again.
    fn take_woken(&self, woken: &mut dyn FnMut(u32));
    /// Watches these tasks, at least one, for a request of the thread; `None` if they belong to another server.
    fn watch(
        &self,
        tasks: &[&dyn TaskEnd],
        mode: TaskWatchMode,
    ) -> Option<(Box<dyn AwaitedEnd>, Box<dyn TaskWatchEnd>)>;
}

/// The waiting end. Dropping it abandons the completion.
pub trait AwaitedEnd {
    /// Registers the waiter with this number: when the completion completes, [`Completions::take_woken`] yields the
    /// waiter's group, and the thread is woken. Returns false if the completion is already complete.
    fn wait(&self, waiter: u32) -> bool;
    /// Unregisters the waiter.
    fn stop_waiting(&self);
    /// Returns whether the completion is complete.
    fn is_complete(&self) -> bool;
}

/// The completing end, for any thread.
pub trait CompleterEnd: Send {
    /// Completes the completion.
    fn complete(self: Box<Self>);
}

thread_local! {
    static COMPLETIONS: RefCell<Option<Box<dyn Completions>>> = const { RefCell::new(None) };
}

/// Sets the source of completions for the requests of this thread.
pub(crate) fn set(completions: Box<dyn Completions>) {
    COMPLETIONS.set(Some(completions));
}

/// Removes the source of completions, as the thread's interpreter is dropped.
pub(crate) fn forget() {
    COMPLETIONS.set(None);
}

/// Wakes the requests of the thread whose completions other threads have completed; returns their number. Called after
/// the thread's wake-ups have been consumed, so a completion that is missed here ends the next sleep.
pub(crate) fn notify_waiters(_requests: &mut WorkerRequests) -> usize {
    let mut ready = 0;
    // SAFETY: on the worker's thread while it serves, which `WorkerRequests` proves.
    let mut notify = |group| ready += unsafe { bindings::shim_waiters_notify(group) };
    // A panic loses the remaining groups.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        COMPLETIONS.with_borrow(|own| own.iter().for_each(|own| own.take_woken(&mut notify)));
    }));
    ready
}

/// Calls this thread's source of completions, if it has one.
pub(crate) fn with_own<T>(call: impl FnOnce(&dyn Completions) -> T) -> Option<T> {
    COMPLETIONS.with_borrow(|own| own.as_ref().map(|own| call(&**own)))
}

unsafe extern "C" fn look() {
    notify_waiters(&mut WorkerRequests::of_this_thread());
}

pub(crate) fn callbacks() -> shim_completion_callbacks {
    shim_completion_callbacks {
        make: Some(make),
        complete: Some(complete),
        look: Some(look),
        wait: Some(wait),
        stop_waiting: Some(stop_waiting),
        is_complete: Some(is_complete),
        drop: Some(drop_completion),
    }
}

/// Returns a thin pointer for C; pointers to trait objects are wide.
fn into_raw<T: ?Sized>(end: Box<T>) -> *mut c_void {
    Box::into_raw(Box::new(end)).cast()
}

unsafe extern "C" fn make(
    completion: *mut *mut shim_completion,
    completer: *mut *mut shim_completer,
) -> bool {
    let made = catch_unwind(|| COMPLETIONS.with_borrow(|own| own.as_ref().map(|own| own.make())));
    let Ok(Some((awaited, completing))) = made else { return false };
    // SAFETY: an out parameter of C.
    unsafe { *completion = into_raw::<dyn AwaitedEnd>(awaited).cast() };
    // SAFETY: as above.
    unsafe { *completer = into_raw::<dyn CompleterEnd>(completing).cast() };
    true
}

unsafe extern "C" fn complete(completer: *mut shim_completer) {
    // SAFETY: made by `make`, and C releases it now.
    let completer = unsafe { Box::from_raw(completer.cast::<Box<dyn CompleterEnd>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| completer.complete()));
}

/// Calls a completion that C holds; a panic returns `fallback`.
///
/// # Safety
///
/// `completion` is from `make`, has not been released, and this is the thread that made it.
unsafe fn with<T>(
    completion: *mut shim_completion,
    fallback: T,
    call: impl FnOnce(&dyn AwaitedEnd) -> T,
) -> T {
    // SAFETY: as the caller promises; it is only read, and only on this thread.
    let awaited = unsafe { &*completion.cast::<Box<dyn AwaitedEnd>>() };
    catch_unwind(AssertUnwindSafe(|| call(&**awaited))).unwrap_or(fallback)
}

unsafe extern "C" fn wait(completion: *mut shim_completion, waiter: u32) -> bool {
    // SAFETY: C keeps to the contract in shim.h. After a panic, the completion counts as complete, so that no request
    // waits forever.
    unsafe { with(completion, false, |awaited| awaited.wait(waiter)) }
}

unsafe extern "C" fn stop_waiting(completion: *mut shim_completion) {
    // SAFETY: as in `wait`.
    unsafe { with(completion, (), |awaited| awaited.stop_waiting()) }
}

unsafe extern "C" fn is_complete(completion: *mut shim_completion) -> bool {
    // SAFETY: as in `wait`.
    unsafe { with(completion, true, |awaited| awaited.is_complete()) }
}

unsafe extern "C" fn drop_completion(completion: *mut shim_completion) {
    // SAFETY: made by `make`, and C releases it now.
    let awaited = unsafe { Box::from_raw(completion.cast::<Box<dyn AwaitedEnd>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(awaited)));
}
