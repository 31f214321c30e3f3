//! The handle by which C holds a request.
//!
//! A panic of the server's side is caught; the request then continues as if its client were gone.

use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bindings::shim_pair;
use crate::host::{Host, WorkerHost, WorkerRequest};
use crate::pairs::Pairs;

/// The host of a request for C: the request in progress, and the storage of values returned by callbacks.
pub(crate) struct RequestHandle<'a> {
    pub(crate) role: Role<'a>,
    pub(crate) storage: Storage,
    pub(crate) panicked: bool,
}

/// The handler of a request's callbacks.
pub(crate) enum Role<'a> {
    /// A request in classic mode.
    Plain(&'a mut dyn Host),
    /// The boot request of a worker.
    Worker(&'a mut dyn WorkerHost),
    /// A request of a worker.
    WorkerRequest(Box<dyn WorkerRequest>),
}

impl RequestHandle<'_> {
    pub(crate) fn host(&mut self) -> &mut dyn Host {
        match &mut self.role {
            Role::Plain(host) => *host,
            Role::Worker(host) => *host,
            Role::WorkerRequest(host) => &mut **host,
        }
    }

    pub(crate) fn worker_request(&mut self) -> Option<&mut dyn WorkerRequest> {
        match &mut self.role {
            Role::WorkerRequest(host) => Some(&mut **host),
            Role::Plain(_) | Role::Worker(_) => None,
        }
    }

    pub(crate) fn worker(&mut self) -> Option<&mut dyn WorkerHost> {
        match &mut self.role {
            Role::Worker(host) => Some(*host),
            Role::Plain(_) | Role::WorkerRequest(_) => None,
        }
    }
}

/// Buffers that stay valid while a request runs, reused from request to request.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    pub(crate) variables: Pairs,
    pub(crate) variable_views: Vec<shim_pair>,
    pub(crate) fields: Pairs,
    pub(crate) field_views: Vec<shim_pair>,
}

impl Storage {
    /// Clears the buffers but keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.variables.clear();
        self.variable_views.clear();
        self.fields.clear();
        self.field_views.clear();
    }
}

// SAFETY: the views point into the `Pairs` of the same struct, which own their bytes; between requests there are no
// views.
unsafe impl Send for Storage {}

/// Runs `call` on the request behind `pointer`; a panic marks the request and returns `fallback`.
pub(crate) fn with_request<T>(
    pointer: *mut c_void,
    fallback: T,
    call: impl FnOnce(&mut RequestHandle<'_>) -> T,
) -> T {
    // SAFETY: the pointer is the `RequestHandle` that `Interpreter` keeps in its stack frame and lends to C for the
    // duration of its call, or that `RequestHandle::into_raw` gave to C until `freed`. Callbacks of one request come
    // one at a time on that thread, and the requests of a worker have other handles, so the borrow is unique.
    let request_handle = unsafe { &mut *pointer.cast::<RequestHandle<'_>>() };
    if request_handle.panicked {
        return fallback;
    }
    match catch_unwind(AssertUnwindSafe(|| call(&mut *request_handle))) {
        Ok(value) => value,
        Err(_) => {
            request_handle.panicked = true;
            fallback
        }
    }
}

impl RequestHandle<'static> {
    /// Gives a request of a worker to C.
    pub(crate) fn into_raw(worker_request: Box<dyn WorkerRequest>) -> *mut c_void {
        let storage = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        Box::into_raw(Box::new(Self { role: Role::WorkerRequest(worker_request), storage, panicked: false }))
            .cast()
    }

    /// Takes the request back from C.
    ///
    /// # Safety
    ///
    /// The pointer came from [`into_raw`](Self::into_raw) and is not used afterwards.
    pub(crate) unsafe fn from_raw(pointer: *mut c_void) -> Self {
        // SAFETY: as the caller promises.
        *unsafe { Box::from_raw(pointer.cast::<Self>()) }
    }

    /// Drops the request, and keeps its storage for reuse.
    pub(crate) fn leave(self) {
        let Self { role, mut storage, .. } = self;
        let _ = catch_unwind(AssertUnwindSafe(|| drop(role)));
        storage.clear();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(storage);
            }
        });
    }
}

thread_local! {
    /// The storage of ended requests, for later ones.
    static SPARE: RefCell<Vec<Storage>> = const { RefCell::new(Vec::new()) };
}

const SPARE_MAX: usize = 32;
