//! What others do to a thread that runs PHP: they ask whether it executes a script's own instructions, and look after its
//! time limit.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bindings::{self, shim_interrupter};

/// Asks the thread of one [`Interpreter`](crate::Interpreter); may be kept for longer than that exists.
#[derive(Clone, Debug)]
pub struct Interrupter(Arc<Mutex<Raw>>);

/// What C keeps for the thread; `None` once the thread has ended its PHP, and when there was no memory for it.
#[derive(Debug)]
struct Raw(Option<NonNull<shim_interrupter>>);

// SAFETY: C's functions on it may be called by any thread while it exists; the mutex around it sees to the latter.
unsafe impl Send for Raw {}

impl Interrupter {
    /// Makes the one of the calling thread, which has called `shim_thread_start`.
    pub(crate) fn new() -> Self {
        // SAFETY: this thread has PHP's storage, as the caller promises.
        let raw = unsafe { bindings::shim_interrupter_start() };
        Self(Arc::new(Mutex::new(Raw(NonNull::new(raw)))))
    }

    /// Asks. What was answered before is forgotten.
    pub fn ask(&self) {
        if let Raw(Some(raw)) = *self.raw() {
            // SAFETY: it exists, and cannot be stopped while the lock is held.
            unsafe { bindings::shim_interrupter_ask(raw.as_ptr()) };
        }
    }

    /// Whether the last question was answered.
    pub fn is_answered(&self) -> bool {
        match *self.raw() {
            // SAFETY: as in `ask`.
            Raw(Some(raw)) => unsafe { bindings::shim_interrupter_is_answered(raw.as_ptr()) },
            Raw(None) => false,
        }
    }

    /// Looks after the time limit of the thread's script. Called about once a second, it saves each request two system
    /// calls; a limit is told to the kernel when it comes near, and at once if nobody has looked for two seconds. Returns
    /// the [number](crate::Request::number) of the request whose limit is over while its thread has not come to ending it.
    pub fn look(&self) -> Option<u64> {
        let number = match *self.raw() {
            // SAFETY: as in `ask`; the lock is held, so nobody else looks.
            Raw(Some(raw)) => unsafe { bindings::shim_interrupter_look(raw.as_ptr()) },
            Raw(None) => 0,
        };
        (number != 0).then_some(number)
    }

    /// The thread is about to free PHP's storage: questions go nowhere from now on. On that thread.
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
