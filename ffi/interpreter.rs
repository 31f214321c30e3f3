//! The interpreter of one thread.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::{self, shim_request};
use crate::border::{BARRIER, Guest, Storage, tell, view};
use crate::host::Host;
use crate::interrupter::Interrupter;

/// One request, as PHP is told of it. All paths and texts are raw bytes.
#[derive(Debug)]
pub struct Request<'a> {
    /// The method, as it came.
    pub method: &'a [u8],
    /// The script's name and what follows it in the path, decoded, without the query.
    pub uri: &'a [u8],
    /// The query without its question mark; empty when there is none.
    pub query: &'a [u8],
    /// The `Content-Type` field.
    pub content_type: Option<&'a [u8]>,
    /// All `Cookie` fields, joined with `; `.
    pub cookies: Option<&'a [u8]>,
    /// The `Authorization` field; empty when there is none.
    pub authorization: &'a [u8],
    /// The script's absolute path.
    pub script: &'a [u8],
    /// The length of the body in bytes.
    pub content_length: u64,
    /// 1000 for HTTP/1.0, 1001 for HTTP/1.1.
    pub protocol: i32,
    /// Unix time of the request's arrival, in seconds.
    pub time: f64,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end, or called `exit()`.
    Complete,
    /// A fatal error or an uncaught exception.
    Fatal,
    /// `max_execution_time`.
    TimeLimit,
    /// Nobody read its output any more.
    Aborted,
}

/// PHP on the calling thread; freed there.
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
        // SAFETY: PHP has started (only `Threads` of a running `Php` come here), and this thread has no interpreter
        // that matters: a second one would share its storage, which PHP allows.
        unsafe { bindings::shim_thread_start() };
        Self { storage: Storage::default(), interrupter: Interrupter::new(), _thread: PhantomData }
    }

    /// What asks this thread whether it executes a script's own instructions.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// The number of threads that have an interpreter.
    pub fn alive() -> usize {
        ALIVE.load(Ordering::SeqCst)
    }

    /// Runs one request from start-up to shut-down. Returns how the script ended; a panic of `host` counts as fatal.
    pub fn run(&mut self, request: &Request<'_>, host: &mut dyn Host) -> Outcome {
        let raw = shim_request {
            method: view(request.method),
            uri: view(request.uri),
            query: view(request.query),
            content_type: view(request.content_type.unwrap_or_default()),
            has_content_type: request.content_type.is_some(),
            cookies: view(request.cookies.unwrap_or_default()),
            has_cookies: request.cookies.is_some(),
            authorization: view(request.authorization),
            script: view(request.script),
            content_length: i64::try_from(request.content_length).unwrap_or(i64::MAX),
            protocol: request.protocol,
            time: request.time,
        };
        self.storage.clear();
        let mut guest = Guest { host, storage: &mut self.storage, panicked: false };
        if let Some(news) = BARRIER.enter() {
            tell(news);
        }
        // SAFETY: this thread has called shim_thread_start; `raw`, its views and `guest` outlive the call.
        let outcome = unsafe { bindings::shim_run(&raw const raw, (&raw mut guest).cast::<c_void>()) };
        BARRIER.leave();
        if guest.panicked {
            return Outcome::Fatal;
        }
        match outcome {
            bindings::shim_outcome_SHIM_COMPLETE => Outcome::Complete,
            bindings::shim_outcome_SHIM_TIME_LIMIT => Outcome::TimeLimit,
            bindings::shim_outcome_SHIM_ABORTED => Outcome::Aborted,
            _ => Outcome::Fatal,
        }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.interrupter.revoke();
        // SAFETY: on the thread that called shim_thread_start, after its last request.
        unsafe { bindings::shim_thread_stop() };
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}
