//! Completions as C uses them: events on other threads that requests of a worker wait for.
//!
//! Promises: each end that C receives is returned to the server when C gives it back, on whatever thread that happens.
//! Refuses: what threads share about a completion is the server's; only the handles that cross into C are here.

use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bindings::{self, shim_completer, shim_completion, shim_completion_callbacks};
use crate::host::WorkerRequests;
use crate::task_ends::{TaskEnd, TaskWatchEnd, TaskWatchMode};

/// Waiters whose numbers leave the same remainder when divided by this are woken together: they are a group, which has
/// the number of that remainder.
pub const WAITER_GROUPS: u32 = bindings::SHIM_WAITER_GROUPS;

/// Creates completions that the requests of one thread can wait for.
pub trait Completions {
    /// Creates one: the end that is waited for, and the end that completes it.
    fn make(&self) -> (Box<dyn AwaitedEnd>, Box<dyn CompleterEnd>);
    /// Takes the groups of the waiters for which other threads have completed something. Called each time after the
    /// worker has consumed its wake-ups, so whoever completes something later wakes it again.
    fn take_woken(&self, woken: &mut dyn FnMut(u32));
    /// Watches these tasks, at least one, for a request of the thread; `None` if they are not its server's.
    fn watch(
        &self,
        tasks: &[&dyn TaskEnd],
        mode: TaskWatchMode,
    ) -> Option<(Box<dyn AwaitedEnd>, Box<dyn TaskWatchEnd>)>;
}

/// The end of the thread that waits. Dropping it abandons the completion.
pub trait AwaitedEnd {
    /// The waiter with this number waits from now on; once it is complete, [`Completions::take_woken`] yields the
    /// group of that number, and the thread is woken. Returns false if it is complete already.
    fn wait(&self, waiter: u32) -> bool;
    /// Stops waiting.
    fn stop_waiting(&self);
    /// Whether it is complete.
    fn is_complete(&self) -> bool;
}

/// The end that completes it, on any thread.
pub trait CompleterEnd: Send {
    /// Completes it.
    fn complete(self: Box<Self>);
}

thread_local! {
    static COMPLETIONS: RefCell<Option<Box<dyn Completions>>> = const { RefCell::new(None) };
}

/// Sets what creates completions for the requests of this thread from now on.
pub(crate) fn set(completions: Box<dyn Completions>) {
    COMPLETIONS.set(Some(completions));
}

/// The thread's interpreter is dropped.
pub(crate) fn forget() {
    COMPLETIONS.set(None);
}

/// Wakes the requests of the thread that wait for what other threads have completed; returns how many. Called after the
/// thread's wake-ups have been consumed, so a completion that is missed here ends the next sleep.
pub(crate) fn notify_waiters(_requests: &mut WorkerRequests) -> usize {
    let mut ready = 0;
    // SAFETY: on the worker's thread while it serves, as who has its requests.
    let mut notify = |group| ready += unsafe { bindings::shim_waiters_notify(group) };
    // A panic loses the remaining groups.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        COMPLETIONS.with_borrow(|own| own.iter().for_each(|own| own.take_woken(&mut notify)));
    }));
    ready
}

/// Calls what creates completions for this thread, if anything does.
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

/// A thin pointer for C; pointers to trait objects are wide.
fn into_raw<T: ?Sized>(end: Box<T>) -> *mut c_void {
    Box::into_raw(Box::new(end)).cast()
}

unsafe extern "C" fn make(
    completion: *mut *mut shim_completion,
    completer: *mut *mut shim_completer,
) -> bool {
    let made = catch_unwind(|| COMPLETIONS.with_borrow(|own| own.as_ref().map(|own| own.make())));
    let Ok(Some((awaited, completing))) = made else { return false };
    // SAFETY: C's to be filled.
    unsafe { *completion = into_raw::<dyn AwaitedEnd>(awaited).cast() };
    // SAFETY: as above.
    unsafe { *completer = into_raw::<dyn CompleterEnd>(completing).cast() };
    true
}

unsafe extern "C" fn complete(completer: *mut shim_completer) {
    // SAFETY: `make` gave it to C, which gives it back now.
    let completer = unsafe { Box::from_raw(completer.cast::<Box<dyn CompleterEnd>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| completer.complete()));
}

/// Calls one that C waits for; a panic returns `fallback`.
///
/// # Safety
///
/// `completion` is from `make`, has not been given back, and this is the thread that made it.
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
    // SAFETY: C keeps to the contract in shim.h. After a panic it counts as complete, so that nobody waits for ever.
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
    // SAFETY: `make` gave it to C, which gives it back now.
    let awaited = unsafe { Box::from_raw(completion.cast::<Box<dyn AwaitedEnd>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(awaited)));
}
