//! Access to a PHP thread from other threads: probes whether it is executing instructions of a script, and watches its
//! time limit.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bindings::{self, shim_interrupter};

/// Probes the thread of one [`Interpreter`](crate::Interpreter); may outlive it.
#[derive(Clone, Debug)]
pub struct Interrupter(Arc<Mutex<Raw>>);

/// C's handle of the thread; `None` after the thread has shut PHP down, or if memory ran out.
#[derive(Debug)]
struct Raw(Option<NonNull<shim_interrupter>>);

// SAFETY: C's functions may be called on any thread while the handle exists, which the mutex ensures.
unsafe impl Send for Raw {}

impl Interrupter {
    /// Creates the interrupter of the calling thread, which has called `shim_thread_start`.
    pub(crate) fn new() -> Self {
        // SAFETY: this thread has PHP's storage, as the caller promises.
        let raw = unsafe { bindings::shim_interrupter_start() };
        Self(Arc::new(Mutex::new(Raw(NonNull::new(raw)))))
    }

    /// Sends a probe to the thread; discards earlier answers.
    pub fn ask(&self) {
        if let Raw(Some(raw)) = *self.raw() {
            // SAFETY: the handle exists, and cannot be freed while the lock is held.
            unsafe { bindings::shim_interrupter_ask(raw.as_ptr()) };
        }
    }

    /// Signals that a task of the thread was cancelled; the thread notices if it is executing instructions.
    pub fn notify(&self) {
        if let Raw(Some(raw)) = *self.raw() {
            // SAFETY: as in `ask`.
            unsafe { bindings::shim_interrupter_notify(raw.as_ptr()) };
        }
    }

    /// Returns whether the last probe has been answered.
    pub fn is_answered(&self) -> bool {
        match *self.raw() {
            // SAFETY: as in `ask`.
            Raw(Some(raw)) => unsafe { bindings::shim_interrupter_is_answered(raw.as_ptr()) },
            Raw(None) => false,
        }
    }

    /// Watches the time limit of the thread's script. Calling this about once a second saves each request two system
    /// calls: a limit is only passed to the kernel when it is near, or immediately if this was not called for two
    /// seconds. Returns the [number](crate::PhpRequest::number) of a request whose limit has expired without a reaction
    /// of its thread.
    pub fn check(&self) -> Option<u64> {
        let number = match *self.raw() {
            // SAFETY: as in `ask`; the lock also prevents concurrent calls.
            Raw(Some(raw)) => unsafe { bindings::shim_interrupter_check(raw.as_ptr()) },
            Raw(None) => 0,
        };
        (number != 0).then_some(number)
    }

    /// Revokes the handle before the thread frees PHP's data: later probes have no effect. Called on that thread.
    pub(crate) fn revoke(&self) {
        if let Some(raw) = self.raw().0.take() {
            // SAFETY: on its thread, and the handle has been removed, so no other thread can use it.
            unsafe { bindings::shim_interrupter_stop(raw.as_ptr()) };
        }
    }

    fn raw(&self) -> MutexGuard<'_, Raw> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
