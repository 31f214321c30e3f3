//! The completions of a worker's thread: the core's word behind the interpreter's handles.
//!
//! Promises: a request that waits for a completion is resumed once another thread has completed it. Refuses: whoever creates
//! a completion decides what is completed, and by whom.

use std::sync::Arc;

use svc_core::limits::REQUEST_FIBERS_MAX;
use svc_core::sync::completion::{self, WakeSet};

use svc_ffi::WAITERS_MAX;

// Each request waits for one set at a time, so there is a number for each.
const _: () = assert!(WAITERS_MAX <= WakeSet::WAITERS_MAX && REQUEST_FIBERS_MAX <= WAITERS_MAX as usize);

/// Creates completions for the requests of one thread.
#[derive(Debug)]
pub(crate) struct ThreadCompletions(pub(crate) Arc<WakeSet>);

impl svc_ffi::Completions for ThreadCompletions {
    fn make(&self) -> (Box<dyn svc_ffi::Awaited>, Box<dyn svc_ffi::Completer>) {
        let (awaited, completer) = completion::completion(&self.0);
        (Box::new(Awaited(awaited)), Box::new(Completer(completer)))
    }

    fn take_woken(&self, woken: &mut dyn FnMut(u32)) {
        self.0.take(woken);
    }
}

#[derive(Debug)]
struct Awaited(completion::Awaited);

impl svc_ffi::Awaited for Awaited {
    fn wait(&self, waiter: u32) -> bool {
        self.0.wait(waiter)
    }

    fn stop_waiting(&self) {
        self.0.stop_waiting();
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}

#[derive(Debug)]
struct Completer(completion::Completer);

impl svc_ffi::Completer for Completer {
    fn complete(self: Box<Self>) {
        self.0.complete();
    }
}
