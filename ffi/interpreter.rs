//! The interpreter of one thread.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::{self, shim_outcome, shim_request, shim_worker_info};
use crate::callbacks::report_restart;
use crate::code_renewal::renew_code;
use crate::host::{Host, WorkerHost};
use crate::interrupter::Interrupter;
use crate::outcome::{PhpOutcome, outcome_of};
use crate::request::PhpRequest;
use crate::request_handle::{RequestHandle, Role, Storage};
use crate::restart_barrier::BARRIER;

/// A worker, as described to its script.
#[derive(Clone, Copy, Debug)]
pub struct WorkerInfo {
    /// The number of the worker.
    pub id: usize,
    /// The Unix time of its start, in seconds.
    pub started: f64,
}

/// PHP on the calling thread; dropping it frees PHP's data of this thread.
#[derive(Debug)]
pub struct Interpreter {
    storage: Storage,
    interrupter: Interrupter,
    /// Neither `Send` nor `Sync`: its storage belongs to the thread.
    _thread: PhantomData<*const ()>,
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

impl Interpreter {
    pub(crate) fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        // SAFETY: PHP has started (only `Threads` of a running `Php` come here). Any other interpreter of this thread
        // would share its storage, which PHP allows.
        unsafe { bindings::shim_thread_start() };
        Self { storage: Storage::default(), interrupter: Interrupter::new(), _thread: PhantomData }
    }

    /// Returns a handle by which other threads probe this thread.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Returns the number of threads that have an interpreter.
    pub fn alive() -> usize {
        ALIVE.load(Ordering::SeqCst)
    }

    /// Runs one request from startup to shutdown. Returns how the script ended; a panic of `host` counts as fatal.
    pub fn run(&mut self, request: &PhpRequest<'_>, host: &mut dyn Host) -> PhpOutcome {
        let raw = request.raw();
        self.run_with(Role::Plain(host), |host| {
            // SAFETY: this thread has called shim_thread_start; the request's views and `host` outlive the call.
            unsafe { bindings::shim_run(&raw const raw, host) }
        })
    }

    /// Returns whether PHP could not shut down a request of this thread completely, so that the thread can run no
    /// further requests.
    pub fn is_spent(&self) -> bool {
        // SAFETY: it reads what this thread has written.
        unsafe { bindings::shim_thread_is_tainted() }
    }

    /// Runs the script of a worker, which serves requests, from startup to shutdown. Returns how the script ended; a
    /// panic of `worker` counts as fatal.
    pub fn boot(
        &mut self,
        request: &PhpRequest<'_>,
        worker: &mut dyn WorkerHost,
        info: WorkerInfo,
    ) -> PhpOutcome {
        self.boot_by(bindings::shim_boot, request, worker, info)
    }

    /// Makes workers that start later run the code on disk, as a reload does, unless a worker uses OPcache.
    pub fn renew_unused_code(&mut self) {
        if BARRIER.cache().users == 0 {
            // SAFETY: this thread has called shim_thread_start, and `self` is borrowed while it runs a request.
            unsafe { renew_code(false) };
        }
    }

    /// Runs the script of a task thread, if `request` names one, and then serves tasks. Returns how it ended; a panic
    /// of `worker` counts as fatal.
    pub fn boot_for_tasks(
        &mut self,
        request: &PhpRequest<'_>,
        worker: &mut dyn WorkerHost,
        info: WorkerInfo,
    ) -> PhpOutcome {
        self.boot_by(bindings::shim_boot_for_tasks, request, worker, info)
    }

    /// Calls `boot`, one of the shim's two boot functions.
    fn boot_by(
        &mut self,
        boot: unsafe extern "C" fn(*const shim_request, *mut c_void, *const shim_worker_info) -> shim_outcome,
        request: &PhpRequest<'_>,
        worker: &mut dyn WorkerHost,
        info: WorkerInfo,
    ) -> PhpOutcome {
        let info = shim_worker_info { id: i64::try_from(info.id).unwrap_or(i64::MAX), started: info.started };
        let raw = request.raw();
        self.run_with(Role::Worker(worker), |host| {
            // SAFETY: as in `run`; the info is read before the call returns.
            unsafe { boot(&raw const raw, host, &raw const info) }
        })
    }

    fn run_with(&mut self, role: Role<'_>, call: impl FnOnce(*mut c_void) -> shim_outcome) -> PhpOutcome {
        self.storage.clear();
        let storage = std::mem::take(&mut self.storage);
        let mut request_handle = RequestHandle { role, storage, panicked: false };
        if let Some(event) = BARRIER.enter() {
            report_restart(event);
        }
        let outcome = call((&raw mut request_handle).cast::<c_void>());
        BARRIER.leave();
        self.storage = request_handle.storage;
        if request_handle.panicked { PhpOutcome::Fatal } else { outcome_of(outcome) }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.interrupter.revoke();
        // OPcache must not restart while this thread frees its references to the cache.
        if let Some(event) = BARRIER.enter() {
            report_restart(event);
        }
        // SAFETY: on the thread that called shim_thread_start, after its last request.
        unsafe { bindings::shim_thread_stop() };
        BARRIER.leave();
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}
