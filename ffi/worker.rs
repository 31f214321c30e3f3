//! The requests of a worker: starting, resuming, waiting.
//!
//! All calls are made on the worker's thread while its script serves. Each started request ends with
//! [`WorkerRequest::ended`], whatever happens to it, unless the worker's host panics: then its unfinished requests are
//! dropped. The worker's host decides which request comes next, and when the worker ends.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use crate::bindings::{self, shim_worker_facts};
use crate::completion;
use crate::host::{WorkerRequest, WorkerRequests};
use crate::interpreter::Interpreter;
use crate::request::PhpRequest;
use crate::request_handle::RequestHandle;
use crate::restart_barrier::BARRIER;
use crate::view::view;

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestProgress {
    /// It waits for something; its thread is free.
    Waits,
    /// It has ended.
    Ended,
}

/// Facts about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhpWorkerFacts {
    /// The size of PHP's heap, in bytes.
    pub heap_bytes: usize,
    /// A request has leaked memory that only a new boot frees, or a connection is closed that only a new boot reopens.
    pub tainted: bool,
    /// The script has requested a new boot.
    pub exit_scheduled: bool,
    /// Calling [`WorkerRequests::collect_garbage`] is worthwhile now.
    pub collection_wanted: bool,
}

impl WorkerRequests {
    /// Starts a request on a fiber and runs it until it waits or ends. If there is no memory for the fiber, the request
    /// ends at once.
    pub fn begin(
        &mut self,
        request: &PhpRequest<'_>,
        worker_request: Box<dyn WorkerRequest>,
    ) -> RequestProgress {
        let raw = request.raw();
        let request_handle = RequestHandle::into_raw(worker_request);
        // SAFETY: on the worker's thread while it serves; the views are read before this returns, and the handle
        // belongs to C until `freed`.
        match unsafe { bindings::shim_request_start(&raw const raw, request_handle) } {
            bindings::shim_progress_SHIM_WAITS => RequestProgress::Waits,
            _ => RequestProgress::Ended,
        }
    }

    /// Runs a request to its end on the thread's own stack; no other request runs meanwhile.
    pub fn here(&mut self, request: &PhpRequest<'_>, worker_request: Box<dyn WorkerRequest>) {
        let raw = request.raw();
        let request_handle = RequestHandle::into_raw(worker_request);
        // SAFETY: as in `begin`; it always calls `freed`.
        unsafe { bindings::shim_request_here(&raw const raw, request_handle) }
    }

    /// Resumes the request that has been ready for the longest time; `None` if none is ready.
    pub fn resume(&mut self) -> Option<RequestProgress> {
        // SAFETY: on the worker's thread while it serves.
        match unsafe { bindings::shim_fiber_resume() } {
            bindings::shim_progress_SHIM_NOTHING => None,
            bindings::shim_progress_SHIM_WAITS => Some(RequestProgress::Waits),
            _ => Some(RequestProgress::Ended),
        }
    }

    /// Finds requests that are ready, without sleeping. Returns their number.
    pub fn poll(&mut self) -> usize {
        // SAFETY: on the worker's thread while it serves.
        let ready = unsafe { bindings::shim_poll() };
        ready + completion::notify_waiters(self)
    }

    /// Sleeps until a request is ready or the worker is woken, at most for `longest` if that is given. Returns the
    /// number of ready requests.
    pub fn wait(&mut self, longest: Option<Duration>) -> usize {
        let longest = longest.map_or(-1, |longest| i64::try_from(longest.as_nanos()).unwrap_or(i64::MAX));
        // SAFETY: on the worker's thread while it serves.
        let ready = unsafe { bindings::shim_wait(longest) };
        ready + completion::notify_waiters(self)
    }

    /// Wakes the cancelled tasks of this thread; returns their number. Called after a cancellation.
    pub fn wake_cancelled(&mut self) -> usize {
        // SAFETY: on the worker's thread while it serves.
        unsafe { bindings::shim_tasks_wake_cancelled() }
    }

    /// Reads the worker's facts.
    pub fn facts(&self) -> PhpWorkerFacts {
        let mut raw = shim_worker_facts {
            heap_bytes: 0,
            tainted: false,
            exit_scheduled: false,
            collection_wanted: false,
        };
        // SAFETY: on the worker's thread; `raw` is an out parameter.
        unsafe { bindings::shim_worker_facts_read(&raw mut raw) };
        PhpWorkerFacts {
            heap_bytes: raw.heap_bytes,
            tainted: raw.tainted,
            exit_scheduled: raw.exit_scheduled,
            collection_wanted: raw.collection_wanted,
        }
    }

    /// Returns how long an idle worker should sleep before it collects garbage; `None` if there is none.
    pub fn time_to_garbage(&self) -> Option<Duration> {
        // SAFETY: on the worker's thread while it serves.
        let wait = unsafe { bindings::shim_worker_idle_wait() };
        u64::try_from(wait).ok().map(Duration::from_nanos)
    }

    /// Collects the garbage of ended requests, outside any request: the output of destructors is discarded.
    pub fn collect_garbage(&mut self) {
        // SAFETY: on the worker's thread while it serves, and no request is running: the same loop runs them.
        unsafe { bindings::shim_worker_collect_garbage() }
    }

    /// Returns whether the worker does not use OPcache because the cache was waiting for a restart.
    pub fn is_uncached(&self) -> bool {
        BARRIER.is_uncached()
    }

    /// Stops taking requests, for this reason, which the worker's scripts can read.
    pub fn leaves(&mut self, reason: &str) {
        // SAFETY: the text is copied.
        unsafe { bindings::shim_worker_leaves(view(reason.as_bytes())) }
    }
}

/// Wakes one thread's [`WorkerRequests::wait`] from any other thread.
#[derive(Debug)]
pub struct Waker(File);

impl Waker {
    /// Ends the thread's wait, or prevents its next one.
    pub fn wake(&self) {
        // A full counter means that the thread has already been woken.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }
}

impl Interpreter {
    /// Returns a waker of this thread's worker. It may outlive the thread.
    ///
    /// # Errors
    ///
    /// If the system is out of descriptors.
    pub fn waker(&self) -> io::Result<Waker> {
        // SAFETY: on the interpreter's thread.
        let descriptor = unsafe { bindings::shim_wake_descriptor() };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: newly created, without another owner.
        Ok(Waker(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }
}
