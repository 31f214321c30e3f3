//! The interpreter of one thread.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::{self, shim_outcome, shim_request, shim_worker_card};
use crate::border::{BARRIER, Guest, Party, Storage, outcome_of, tell, view};
use crate::host::{Host, Resident};
use crate::interrupter::Interrupter;

/// One request, as PHP is told of it. All paths and texts are raw bytes.
#[derive(Debug)]
pub struct Request<'a> {
    /// The caller's name for it among the requests of its thread; 0 when nobody waits for its answer.
    pub number: u64,
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
    /// In worker mode: a fatal error that the worker does not outlive.
    Lost,
    /// `max_execution_time`.
    TimeLimit,
    /// Nobody read its output any more.
    Aborted,
}

/// A worker, as its script sees it.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Its number.
    pub id: usize,
    /// Unix time of its start, in seconds.
    pub started: f64,
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
        let raw = request.raw();
        self.run_with(Party::Plain(host), |host| {
            // SAFETY: this thread has called shim_thread_start; the request's views and `host` outlive the call.
            unsafe { bindings::shim_run(&raw const raw, host) }
        })
    }

    /// Runs the script of a worker from start-up to shut-down; it serves requests meanwhile. Returns how the script
    /// ended; a panic of `resident` counts as fatal.
    pub fn boot(&mut self, request: &Request<'_>, resident: &mut dyn Resident, card: Card) -> Outcome {
        let card = shim_worker_card { id: i64::try_from(card.id).unwrap_or(i64::MAX), started: card.started };
        let raw = request.raw();
        self.run_with(Party::Resident(resident), |host| {
            // SAFETY: as in `run`; the card is read at once.
            unsafe { bindings::shim_boot(&raw const raw, host, &raw const card) }
        })
    }

    fn run_with(&mut self, party: Party<'_>, call: impl FnOnce(*mut c_void) -> shim_outcome) -> Outcome {
        self.storage.clear();
        let storage = std::mem::take(&mut self.storage);
        let mut guest = Guest { host: party, storage, panicked: false };
        if let Some(news) = BARRIER.enter() {
            tell(news);
        }
        let outcome = call((&raw mut guest).cast::<c_void>());
        BARRIER.leave();
        self.storage = guest.storage;
        if guest.panicked { Outcome::Fatal } else { outcome_of(outcome) }
    }
}

impl Request<'_> {
    /// The same for C; its views are valid while `self` is.
    pub(crate) fn raw(&self) -> shim_request {
        shim_request {
            number: self.number,
            method: view(self.method),
            uri: view(self.uri),
            query: view(self.query),
            content_type: view(self.content_type.unwrap_or_default()),
            has_content_type: self.content_type.is_some(),
            cookies: view(self.cookies.unwrap_or_default()),
            has_cookies: self.cookies.is_some(),
            authorization: view(self.authorization),
            script: view(self.script),
            content_length: i64::try_from(self.content_length).unwrap_or(i64::MAX),
            protocol: self.protocol,
            time: self.time,
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
