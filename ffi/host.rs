//! The server's side of a request: the calls that PHP makes, with plain Rust types.

use std::marker::PhantomData;
use std::time::Duration;

use svc_types::{HookObstacle, RuntimeHook};

use crate::head::PhpHead;
use crate::outcome::PhpOutcome;
use crate::pairs::Pairs;
use crate::payload::Payload;
use crate::script_spans::{ScriptFailure, ScriptSpans};

/// Handles the calls of one request. All calls come on the thread that runs it, one at a time.
///
/// A call must not run PHP. It may block until there is room or until a disk access completes, but not on this request.
///
/// The defaults are those of a request without a client: its output is accepted and discarded, and its input is empty.
pub trait Host {
    /// Takes output of the script. Returns false if the client is gone; the script may then be ended.
    fn write(&mut self, _output: &[u8]) -> bool {
        true
    }
    /// Returns whether the client has disconnected.
    fn is_gone(&self) -> bool {
        false
    }
    /// Returns whether `write` would block until the client has made room.
    fn is_full(&self) -> bool {
        false
    }
    /// Sends pending output to the client now. Returns false if the client is gone.
    fn flush(&mut self) -> bool {
        true
    }
    /// Takes status and header fields; called once, before the first output.
    fn send_head(&mut self, _head: &PhpHead<'_>) {}
    /// Sends an informational response; the final one follows.
    fn send_interim(&mut self, _head: &PhpHead<'_>) {}
    /// Ends the response, although the script continues.
    fn finish(&mut self) {}
    /// Ends the response because `max_execution_time` has ended the script; shutdown functions still run.
    fn time_limit(&mut self) {}
    /// Notes that an error has ended the script, whose output so far may still follow. `is_lost`: it ends the worker, too.
    fn failed(&mut self, _is_lost: bool) {}
    /// Takes an uncaught failure that ends the script, if the request is recorded or all failures are reported.
    fn fail(&mut self, failure: &ScriptFailure<'_>) {
        if let Some(spans) = self.spans() {
            spans.fail(failure);
        }
    }
    /// Copies bytes of the body to `buffer`; returns their number, 0 at the end of the body.
    fn read_body(&mut self, _buffer: &mut [u8]) -> usize {
        0
    }
    /// Copies bytes of the body, starting at `offset`, to `buffer`; does not move the position of
    /// [`read_body`](Self::read_body). Returns their number, 0 at the end of the body.
    fn read_body_at(&mut self, _buffer: &mut [u8], _offset: u64) -> usize {
        0
    }
    /// Appends the variables of `$_SERVER`.
    fn variables(&mut self, out: &mut Pairs);
    /// Appends the header fields of the request, as received.
    fn fields(&mut self, _out: &mut Pairs) {}
    /// Returns path and query, as received.
    fn target(&mut self) -> &[u8] {
        b""
    }
    /// Returns the client's address.
    fn client(&mut self) -> &[u8] {
        b""
    }
    /// Returns the ID of the request in logs.
    fn request_id(&mut self) -> &[u8] {
        b""
    }
    /// Removes stored responses; returns their number, or `None` if the URL is none that the request can refer to.
    fn purge(&mut self, _purge: CachePurge<'_>) -> Option<u64> {
        Some(0)
    }
    /// Takes a log record of this request.
    fn log(&mut self, record: &PhpLog<'_>);
    /// Returns the spans of the request, if it is traced.
    fn spans(&mut self) -> Option<&mut dyn ScriptSpans> {
        None
    }
    /// In classic mode: ends the response with this outcome, because cleaning up after the request will take a while.
    fn ends(&mut self, _outcome: PhpOutcome) {}
}

/// The stored responses that a script removes from the response cache.
#[derive(Clone, Copy, Debug)]
pub enum CachePurge<'a> {
    /// All.
    All,
    /// Those with one of these tags.
    Tags(&'a [&'a [u8]]),
    /// Those to this URL.
    Url(&'a [u8]),
}

/// Handles the calls of one request of a worker; kept while the request waits.
pub trait WorkerRequest: Host {
    /// Records that the request waits from now on, without blocking its thread.
    fn parks(&mut self);
    /// Records that the request resumes.
    fn resumes(&mut self);
    /// Records that a call with a hook waits and blocks its thread, for this reason.
    fn blocks(&mut self, _hook: RuntimeHook, _obstacle: HookObstacle) {}
    /// Records how long the request has waited for a connection owned by another request of its thread.
    fn waited_for_connection(&mut self, _wait: Duration) {}
    /// Called when the response has ended with this outcome. Destructors run now, and may wait; this is dropped once
    /// all of the request has ended.
    fn ended(&mut self, outcome: PhpOutcome);
    /// Returns the number of the task, if the request is one. The methods below are called for tasks only.
    fn task(&self) -> Option<u64> {
        None
    }
    /// Returns the payload of the dispatch.
    fn input(&self) -> Option<&Payload> {
        None
    }
    /// Records that the payload no longer refers to OPcache's memory.
    fn leave_cache(&mut self) {}
    /// Settles the task with its result, or its exception, which `thrown` describes for the log.
    fn settle(&mut self, _answer: Payload, _thrown: Option<&[u8]>) {}
    /// Returns whether the task should end.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Handles the calls of a worker: its own while its script serves, and those of [`Host`] while the script boots and
/// ends.
pub trait WorkerHost: Host {
    /// Serves requests, for which the script is ready: starts them, resumes them and sleeps; returns once the worker
    /// ends and no request is left.
    fn serve(&mut self, requests: &mut WorkerRequests);
    /// Serves one request, for which the script is ready: runs it [`here`](WorkerRequests::here), or returns false
    /// because the worker ends.
    fn serve_one(&mut self, requests: &mut WorkerRequests) -> bool;
}

/// The requests that the calling thread's worker carries.
#[derive(Debug)]
pub struct WorkerRequests {
    /// Neither `Send` nor `Sync`: fibers stay on their thread.
    _thread: PhantomData<*const ()>,
}

impl WorkerRequests {
    /// Creates the handle for callbacks, which are called on the worker's thread while its script serves.
    pub(crate) fn of_this_thread() -> Self {
        Self { _thread: PhantomData }
    }
}

/// The source of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// An error of the engine, with its `E_` constant.
    Error(i32),
    /// `error_log()` and messages without a type, with their syslog priority.
    Message(i32),
    /// `frankenphp_log()`, with the level set by the script.
    Script(ScriptLevel),
}

/// The severity of a script's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptLevel {
    /// Information for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// A possible problem.
    Warning,
    /// A problem.
    Error,
}

/// One log record.
#[derive(Debug)]
pub struct PhpLog<'a> {
    /// The source.
    pub source: LogSource,
    /// The text, without PHP's prefix and without file and line.
    pub message: &'a [u8],
    /// JSON added by the script, or empty.
    pub context: &'a [u8],
    /// The script file, or empty.
    pub file: &'a [u8],
    /// The line in `file`, or 0.
    pub line: u32,
    /// The current span of the script; 0 if it has created none.
    pub span: u64,
}
