//! The waker of a PHP thread, and the completions that its requests wait for.

use std::sync::Arc;

use svc_core::pool::WorkerStartError;
use svc_core::sync::completion::WakeSet;
use svc_core::sync::idle_workers::Wake;

use svc_ffi::{Interpreter, Waker};

use crate::runtime::ServerRuntime;

/// Wakes the thread of an interpreter.
#[derive(Debug)]
pub(crate) struct ThreadWaker(Waker);

impl ThreadWaker {
    /// Lets the requests of `interpreter` wait for other threads, and returns the waker of the thread.
    ///
    /// # Errors
    ///
    /// [`WorkerStartError`] if the system has no descriptors left to wait with.
    pub(crate) fn install(interpreter: &Interpreter) -> Result<Arc<Self>, WorkerStartError> {
        let waker = interpreter
            .waker()
            .map_err(|error| WorkerStartError(format!("no descriptor to wait with: {error}")))?;
        let waker = Arc::new(Self(waker));
        let wakes = WakeSet::new(Arc::clone(&waker) as Arc<dyn Wake>);
        ServerRuntime::set_wakes(wakes);
        Ok(waker)
    }
}

impl Wake for ThreadWaker {
    fn wake(&self) {
        self.0.wake();
    }
}
