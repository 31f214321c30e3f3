//! The requests of a worker: beginning, resuming, waiting.
//!
//! Promises: all of it happens on the worker's thread while its script serves; a request that has been begun ends by
//! [`WorkerRequest::ended`], whatever becomes of it. Refuses: which request comes next, and when the worker ends, is the
//! worker host's affair.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use crate::bindings::{self, shim_worker_facts};
use crate::callbacks::{BARRIER, RequestHandle};
use crate::completion;
use crate::host::{WorkerRequest, WorkerRequests};
use crate::interpreter::Interpreter;
use crate::request::Request;
use crate::view::view;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It waits for something; its thread is free.
    Waits,
    /// It has ended.
    Ended,
}

/// What there is to know of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerFacts {
    /// PHP's heap.
    pub heap_bytes: usize,
    /// A request has left memory behind that only a new boot frees.
    pub tainted: bool,
    /// The script has asked to be booted anew.
    pub exit_scheduled: bool,
    /// [`WorkerRequests::tidy`] is worth its time now.
    pub tidy_wanted: bool,
}

impl WorkerRequests {
    /// Begins a request on a fiber and runs it until it waits or ends; where there is no memory for it, it ends at once.
    pub fn begin(&mut self, request: &Request<'_>, visit: Box<dyn WorkerRequest>) -> Progress {
        let raw = request.raw();
        let request_handle = RequestHandle::into_raw(visit);
        // SAFETY: on the worker's thread while it serves; the views are read before this returns, and the request_handle is C's
        // until `freed`.
        match unsafe { bindings::shim_request_start(&raw const raw, request_handle) } {
            bindings::shim_progress_SHIM_WAITS => Progress::Waits,
            _ => Progress::Ended,
        }
    }

    /// Runs a request to its end on the thread's own stack: nothing else runs meanwhile.
    pub fn here(&mut self, request: &Request<'_>, visit: Box<dyn WorkerRequest>) {
        let raw = request.raw();
        let request_handle = RequestHandle::into_raw(visit);
        // SAFETY: as in `begin`; it always calls `freed`.
        unsafe { bindings::shim_request_here(&raw const raw, request_handle) }
    }

    /// Resumes the request that has been ready for longest; `None` when none is.
    pub fn resume(&mut self) -> Option<Progress> {
        // SAFETY: on the worker's thread while it serves.
        match unsafe { bindings::shim_fiber_resume() } {
            bindings::shim_progress_SHIM_NOTHING => None,
            bindings::shim_progress_SHIM_WAITS => Some(Progress::Waits),
            _ => Some(Progress::Ended),
        }
    }

    /// Looks for requests that can go on, without sleeping. Returns how many there are.
    pub fn look(&mut self) -> usize {
        // SAFETY: on the worker's thread while it serves.
        let ready = unsafe { bindings::shim_look() };
        ready + completion::notify_waiters(self)
    }

    /// Sleeps until a request can go on, or the worker is woken. Returns how many can go on.
    pub fn wait(&mut self) -> usize {
        // SAFETY: on the worker's thread while it serves.
        let ready = unsafe { bindings::shim_wait() };
        ready + completion::notify_waiters(self)
    }

    /// Reads the worker's facts.
    pub fn facts(&self) -> WorkerFacts {
        let mut raw =
            shim_worker_facts { heap_bytes: 0, tainted: false, exit_scheduled: false, tidy_wanted: false };
        // SAFETY: on the worker's thread; `raw` is ours to be filled.
        unsafe { bindings::shim_worker_facts_read(&raw mut raw) };
        WorkerFacts {
            heap_bytes: raw.heap_bytes,
            tainted: raw.tainted,
            exit_scheduled: raw.exit_scheduled,
            tidy_wanted: raw.tidy_wanted,
        }
    }

    /// Collects the garbage that requests have left, in nobody's name: what destructors print goes nowhere.
    pub fn tidy(&mut self) {
        // SAFETY: on the worker's thread while it serves, and no request runs: they are called by the same loop.
        unsafe { bindings::shim_worker_tidy() }
    }

    /// Whether the worker does without OPcache because that waits for a restart.
    pub fn is_outsider(&self) -> bool {
        BARRIER.is_outsider()
    }

    /// The worker takes no more requests, for this reason; its scripts can read it.
    pub fn leaves(&mut self, reason: &str) {
        // SAFETY: the text is copied.
        unsafe { bindings::shim_worker_leaves(view(reason.as_bytes())) }
    }
}

/// Wakes one thread's [`WorkerRequests::wait`] from any other thread.
#[derive(Debug)]
pub struct Waker(File);

impl Waker {
    /// Ends the wait of the thread, or keeps it from its next one.
    pub fn wake(&self) {
        // Full means that it has been woken already.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }
}

impl Interpreter {
    /// What wakes this thread's worker. It may outlive the thread.
    ///
    /// # Errors
    ///
    /// What the system says when it has no descriptor left.
    pub fn waker(&self) -> io::Result<Waker> {
        // SAFETY: on the interpreter's thread.
        let descriptor = unsafe { bindings::shim_wake_descriptor() };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new, and nobody else's.
        Ok(Waker(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }
}
