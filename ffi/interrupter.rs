//! What other threads do to a thread that runs PHP: find out whether it executes instructions of a script, and watch
//! its time limit.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bindings::{self, shim_interrupter};

/// Asks the thread of one [`Interpreter`](crate::Interpreter); may outlive it.
#[derive(Clone, Debug)]
pub struct Interrupter(Arc<Mutex<Raw>>);

/// What C keeps for the thread; `None` once the thread has shut PHP down, and if there was no memory.
#[derive(Debug)]
struct Raw(Option<NonNull<shim_interrupter>>);

// SAFETY: C's functions may be called on any thread while it exists, which the mutex around it ensures.
unsafe impl Send for Raw {}

impl Interrupter {
    /// Creates the one for the calling thread, which has called `shim_thread_start`.
    pub(crate) fn new() -> Self {
        // SAFETY: this thread has PHP's storage, as the caller promises.
        let raw = unsafe { bindings::shim_interrupter_start() };
        Self(Arc::new(Mutex::new(Raw(NonNull::new(raw)))))
    }

    /// Asks the thread; forgets earlier answers.
    pub fn ask(&self) {
        if let Raw(Some(raw)) = *self.raw() {
            // SAFETY: it exists, and cannot be stopped while the lock is held.
            unsafe { bindings::shim_interrupter_ask(raw.as_ptr()) };
        }
    }

    /// A task of the thread has been cancelled: if the thread executes instructions, it notices.
    pub fn poke(&self) {
        if let Raw(Some(raw)) = *self.raw() {
            // SAFETY: as in `ask`.
            unsafe { bindings::shim_interrupter_poke(raw.as_ptr()) };
        }
    }

    /// Whether the last question has been answered.
    pub fn is_answered(&self) -> bool {
        match *self.raw() {
            // SAFETY: as in `ask`.
            Raw(Some(raw)) => unsafe { bindings::shim_interrupter_is_answered(raw.as_ptr()) },
            Raw(None) => false,
        }
    }

    /// Watches the time limit of the thread's script. Calling this about once a second saves each request two system
    /// calls: a limit is only passed to the kernel when it is near, or immediately if nobody has called this for two
    /// seconds. Returns the [number](crate::PhpRequest::number) of the request whose limit has expired without its
    /// thread reacting to it.
    pub fn look(&self) -> Option<u64> {
        let number = match *self.raw() {
            // SAFETY: as in `ask`; the lock is held, so nobody else looks.
            Raw(Some(raw)) => unsafe { bindings::shim_interrupter_look(raw.as_ptr()) },
            Raw(None) => 0,
        };
        (number != 0).then_some(number)
    }

    /// The thread is about to free PHP's storage: from now on, nothing is asked. Called on that thread.
    pub(crate) fn revoke(&self) {
        if let Some(raw) = self.raw().0.take() {
            // SAFETY: on its thread, and nobody can reach it any more.
            unsafe { bindings::shim_interrupter_stop(raw.as_ptr()) };
        }
    }

    fn raw(&self) -> MutexGuard<'_, Raw> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
