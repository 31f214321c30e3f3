//! The loop of a worker thread, which drives one connection after another.
//!
//! A worker that owns a process starts another one when it has ended; if it ended before its first request, the pool's
//! back-off decides when. A worker without a process ends when no address can be reached.
//!
//! ```text
//!   boot ── process answers, or an address can be reached ──▶ idle ⇄ request
//!    │                                                          │ the process has ended: boot again
//!    └── NotBooted                                              └── Stopped, Lost or Recycled
//! ```

use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use svc_core::observe::{Event, WorkerEvent};
use svc_core::pool::{
    Claim, Directive, Exchange, PersistentWorker, RecycleReason, Script, ThreadProbe, WorkerContext,
    WorkerExit,
};
use svc_core::sync::idle_workers::Wake;
use svc_core::time;
use svc_core::trace::{RequestPart, SpanStatus};
use svc_ffi::PhpOutcome;

use super::endpoints::{PROBE_PAUSE, Place};
use super::message::Messages;
use super::plan::{Plan, Target};
use super::process::{self, Process};
use super::process_probe::ProcessProbe;
use super::script;
use super::stream::Stream;
use super::transfer::{Buffers, Limits, OpenConnection, Transfer, TransferEnd};
use super::waker::EventWaker;
use crate::cgi;
use crate::response::Response;
use crate::thread_context::ThreadContext;
use crate::variables::Variables;

/// The state of one worker.
pub(super) struct FastcgiWorker {
    plan: Arc<Plan>,
    thread_context: Rc<ThreadContext>,
    waker: Arc<EventWaker>,
    probe: Arc<ProcessProbe>,
    /// The connection that is kept, with its place at an address. Dropped before the process, which only then
    /// reacts to SIGTERM.
    kept: Option<(OpenConnection, Option<Place>)>,
    /// The process of the worker, if it has one.
    process: Option<Process>,
    /// The number of requests that the process was given.
    taken: u64,
    /// How the last process has ended, if there is no new one.
    ended: String,
    /// The number of requests after which the process is replaced.
    requests_max: Option<u64>,
    buffers: Buffers,
    /// The output of the process outside of requests.
    messages: Messages,
}

impl std::fmt::Debug for FastcgiWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastcgiWorker")
            .field("slot", &self.thread_context.slot)
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

/// Why a worker cannot begin to serve.
enum NotBooted {
    /// It has an order to end.
    Stopped,
    Failed(String),
}

impl PersistentWorker<Exchange> for FastcgiWorker {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.waker) as Arc<dyn Wake>
    }

    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        Some(Arc::clone(&self.probe) as Arc<dyn ThreadProbe>)
    }

    fn run(&mut self, context: &WorkerContext<Exchange>) -> WorkerExit {
        match self.boot(context) {
            Ok(()) => {}
            Err(NotBooted::Stopped) => return WorkerExit::Stopped,
            Err(NotBooted::Failed(reason)) => return WorkerExit::NotBooted(reason.into()),
        }
        context.booted();
        loop {
            let exit = if let Some(claim) = context.try_take() {
                self.serve(claim, context);
                self.look_after(context)
            } else if context.directive() != Directive::Serve {
                Some(WorkerExit::Stopped)
            } else if context.prepare_park() {
                self.sleep();
                context.unpark(false);
                self.look_after(context)
            } else {
                None
            };
            if let Some(exit) = exit {
                return exit;
            }
        }
    }
}

impl FastcgiWorker {
    /// Prepares the worker of a slot.
    pub(super) fn new(plan: Arc<Plan>, thread_context: Rc<ThreadContext>, waker: EventWaker) -> Self {
        let requests_max = plan.requests_max();
        Self {
            plan,
            thread_context,
            waker: Arc::new(waker),
            probe: Arc::default(),
            process: None,
            taken: 0,
            ended: String::new(),
            requests_max,
            kept: None,
            buffers: Buffers::default(),
            messages: Messages::default(),
        }
    }

    /// Starts a process and waits until it answers, or looks for an address that can be reached.
    fn boot(&mut self, context: &WorkerContext<Exchange>) -> Result<(), NotBooted> {
        let command = match &self.plan.target {
            Target::External(endpoints) => {
                endpoints.probe(time::now());
                return endpoints.trouble().map_or(Ok(()), |trouble| Err(NotBooted::Failed(trouble)));
            }
            Target::Managed(command) => command,
        };
        let started = Process::start(command);
        let process = started.map_err(|error| {
            NotBooted::Failed(format!("cannot start {}: {error}", command.program.display()))
        })?;
        self.probe.set_process(Some(process.id()));
        (self.process, self.taken) = (Some(process), 0);
        self.await_answer(context)
    }

    /// Waits until the process accepts connections for the first time.
    fn await_answer(&mut self, context: &WorkerContext<Exchange>) -> Result<(), NotBooted> {
        let Some(mut stream) = self.ask() else { return Err(NotBooted::Failed(self.note_end(""))) };
        loop {
            if self.wait(Some(&stream), None) && is_answered(&mut stream) && !self.has_ended() {
                return Ok(());
            }
            if self.has_ended() {
                return Err(NotBooted::Failed(self.note_end("")));
            }
            if context.directive() != Directive::Serve {
                return Err(NotBooted::Stopped);
            }
        }
    }

    /// Waits until the process has ended the script of a client that has left, within the limits of a request.
    fn await_script(&mut self, context: &WorkerContext<Exchange>, request_id: &str, hard: Option<Instant>) {
        let mut stream = self.ask();
        if stream.is_none() {
            return;
        }
        let mut signals = [Signal::TERM, Signal::KILL].into_iter();
        let mut until = hard;
        loop {
            let time = until.map(|until| until.saturating_duration_since(time::now()));
            if self.wait(stream.as_ref(), time) && stream.as_mut().is_some_and(is_answered) {
                if signals.len() == 2 {
                    return;
                }
                // After SIGTERM, it ends instead of accepting another connection.
                stream = None;
            }
            if self.has_ended() {
                self.note_end(request_id);
                return;
            }
            let now = time::now();
            let is_stopping = context.directive() == Directive::Stop && signals.len() == 2;
            if is_stopping || until.is_some_and(|until| now >= until) {
                let Some(signal) = signals.next() else { return };
                if let Some(process) = &mut self.process {
                    process.signal(signal);
                }
                until = Some(now + process::TERM_WAIT);
            }
        }
    }

    /// Opens a connection and asks the process for an answer, which it gives when it runs no script.
    fn ask(&self) -> Option<Stream> {
        let mut stream = self.process.as_ref()?.connect().ok()?;
        stream.write_all(&svc_core::fastcgi::probe()).ok()?;
        Some(stream)
    }

    /// Returns whether the process has ended. The kernel closes its connections a moment before.
    fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| process.ends_within(Duration::from_millis(1)).is_some())
    }

    /// Sleeps until there is work, or something else needs attention.
    fn sleep(&mut self) {
        let is_external = self.process.is_none();
        let kept = self.kept.take();
        let is_over =
            self.wait(kept.as_ref().map(|(open, _)| &open.stream), is_external.then_some(PROBE_PAUSE));
        // A connection that has ended, or sends bytes without a request, is unusable.
        self.kept = kept.filter(|_| !is_over);
    }

    /// Waits for the waker, the process, or the connection; returns whether the last one is readable.
    fn wait(&mut self, stream: Option<&Stream>, time_max: Option<Duration>) -> bool {
        let nothing = || PollFd::new(&*self.waker, PollFlags::empty());
        let mut watched = [PollFd::new(&*self.waker, PollFlags::IN), nothing(), nothing(), nothing()];
        if let Some(stream) = stream {
            watched[1] = PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN);
        }
        if let Some(process) = &self.process {
            if let Some(output) = process.output() {
                watched[2] = PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN);
            }
            if let Some(ended) = process.end_descriptor() {
                watched[3] = PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN);
            }
        }
        let time = time_max
            .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        // An interrupted wait finds nothing ready.
        let _ = poll(&mut watched, time.as_ref());
        let is_readable = |at: usize| !watched[at].revents().is_empty();
        let (is_woken, has_bytes) = (is_readable(0), stream.is_some() && is_readable(1));
        let has_printed = is_readable(2);
        if is_woken {
            self.waker.clear();
        }
        if has_printed {
            self.log_output();
        }
        has_bytes
    }

    /// Logs the output of the process outside of requests.
    fn log_output(&mut self) {
        let Some(process) = &mut self.process else { return };
        let mut bytes = [0; 4096];
        let log = &self.thread_context.shared.log;
        loop {
            let count = process.read_output(&mut bytes);
            self.messages.take(&bytes[..count], log, None);
            if count < bytes.len() {
                break;
            }
        }
        self.messages.finish(log, None);
    }

    /// Decides after a request, or after a sleep, whether the worker goes on.
    fn look_after(&mut self, context: &WorkerContext<Exchange>) -> Option<WorkerExit> {
        if let Target::External(endpoints) = &self.plan.target {
            endpoints.probe(time::now());
            return endpoints.trouble().map(WorkerExit::Lost);
        }
        if self.process.as_mut().is_some_and(|process| process.ended().is_some()) {
            self.note_end("");
        }
        let Some(process) = &self.process else {
            // One that has taken a request could start, so that the next one can.
            let reason = std::mem::take(&mut self.ended);
            return if self.taken == 0 { Some(WorkerExit::Lost(reason)) } else { self.boot_again(context) };
        };
        let memory_max = self.thread_context.shared.config.php.worker_max_memory_mib << 20;
        let is_large = || process.resident_bytes().is_some_and(|bytes| bytes > memory_max);
        let reason = if self.requests_max.is_some_and(|max| self.taken >= max) {
            RecycleReason::Scheduled
        } else if memory_max > 0 && self.taken > 0 && is_large() {
            RecycleReason::MaxMemory
        } else {
            return None;
        };
        context.close();
        Some(WorkerExit::Recycled(reason))
    }

    /// Starts another process, unless the worker has an order to end.
    fn boot_again(&mut self, context: &WorkerContext<Exchange>) -> Option<WorkerExit> {
        if context.directive() != Directive::Serve {
            return Some(WorkerExit::Stopped);
        }
        match self.boot(context) {
            Ok(()) => None,
            Err(NotBooted::Stopped) => Some(WorkerExit::Stopped),
            Err(NotBooted::Failed(reason)) => Some(WorkerExit::Lost(reason)),
        }
    }

    /// Reports the end of the process, which ran the request with this ID. Returns the reason.
    fn note_end(&mut self, request_id: &str) -> String {
        self.kept = None;
        self.probe.set_process(None);
        self.log_output();
        let Some(mut process) = self.process.take() else { return self.ended.clone() };
        let status = process.ended().map_or_else(|| "unknown".to_owned(), process::describe);
        let (slot, pid) = (self.thread_context.slot, process.id());
        let event = WorkerEvent::ProcessEnded { slot, pid, status: &status, request_id };
        self.thread_context.shared.log.emit(&Event::Worker(event));
        self.ended = format!("the process has ended: {status}");
        self.ended.clone()
    }

    /// Runs a request.
    fn serve(&mut self, mut claim: Claim<Exchange>, context: &WorkerContext<Exchange>) {
        let exchange = Arc::clone(claim.job());
        if let Some(span) = &exchange.request.span {
            span.note(|notes| notes.worker_id = Some(self.thread_context.slot));
        }
        claim.run();
        let now = time::now();
        let limit = |limit: Option<Duration>| limit.map(|limit| now + limit);
        let limits = Limits { soft: limit(self.plan.time_limit), hard: limit(self.plan.hard_limit) };
        self.probe.begin(claim.serial(), limits.soft);
        let mut response = Response::new(Arc::clone(&exchange), Rc::clone(&self.thread_context));
        let end = match script::present(&exchange.request, &self.thread_context.shared) {
            Some(script) => {
                self.describe(&exchange, &script);
                self.transfer(&exchange, &mut response, limits, context)
            }
            None => TransferEnd::NoScript,
        };
        self.conclude(&exchange, &mut response, end, limits.hard, context);
        self.probe.end();
        claim.finish();
    }

    /// Collects the variables of the request.
    fn describe(&mut self, exchange: &Exchange, script: &Script) {
        let config = &self.thread_context.shared.config;
        let script = match &self.plan.root {
            None => Cow::Borrowed(script),
            Some(root) => Cow::Owned(script::below(root, script)),
        };
        self.buffers.parameters.clear();
        let mut out = Variables::new(&config.php.server_variables, &mut self.buffers.parameters);
        cgi::variables(&exchange.request, &script, &mut out);
    }

    /// Sends the request on the kept connection or a new one, and once more if the responder took no part of it.
    fn transfer(
        &mut self,
        exchange: &Exchange,
        response: &mut Response,
        limits: Limits,
        context: &WorkerContext<Exchange>,
    ) -> TransferEnd {
        let mut failed = None;
        for is_last in [false, true] {
            let is_of_process = self.process.is_some();
            let kept = self.kept.take().filter(|(open, _)| open.is_usable(is_of_process));
            let is_kept = kept.is_some();
            let connected = match kept {
                Some(kept) => Ok(kept),
                None => self.connect(exchange, failed),
            };
            let (mut open, place) = match connected {
                Ok(connected) => connected,
                Err(_) if !is_last && self.has_new_process(context) => continue,
                Err(reason) => return TransferEnd::Failed(reason),
            };
            self.taken += 1;
            let end = Transfer {
                context,
                thread_context: &self.thread_context,
                exchange,
                response,
                waker: &self.waker,
                process: self.process.as_mut(),
                limits,
                messages: &mut self.messages,
            }
            .run(&mut open, &mut self.buffers);
            match (&place, &end) {
                (Some(place), TransferEnd::Complete) => place.succeeded(),
                // A kept connection may have reached the number of its requests.
                (Some(place), TransferEnd::Failed(_) | TransferEnd::NothingTaken) if !is_kept => {
                    place.failed();
                    failed = Some(place.index());
                }
                _ => {}
            }
            if end == TransferEnd::Complete && open.machine.is_idle() {
                self.kept = Some((open, place));
            }
            if end != TransferEnd::NothingTaken || is_last {
                return end;
            }
            // The connection may have ended with its process, which the kernel reports a moment later.
            self.has_new_process(context);
        }
        TransferEnd::NothingTaken
    }

    /// Opens a connection, to another address than `failed` if there is one. If responders are busy, waits for one.
    fn connect(
        &self,
        exchange: &Exchange,
        failed: Option<usize>,
    ) -> Result<(OpenConnection, Option<Place>), String> {
        let keeps = self.plan.keeps_connections;
        let endpoints = match (&self.plan.target, &self.process) {
            (Target::External(endpoints), _) => endpoints,
            (Target::Managed(_), Some(process)) => {
                let stream = process.connect().map_err(|error| error.to_string())?;
                return Ok((OpenConnection::new(stream, keeps), None));
            }
            (Target::Managed(_), None) => return Err(self.ended.clone()),
        };
        loop {
            let Some(place) = endpoints.take(failed) else {
                return Err(endpoints.trouble().unwrap_or_default());
            };
            match place.connect() {
                Ok(stream) => return Ok((OpenConnection::new(stream, keeps), Some(place))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // The end of the server answers the request, too.
                    if exchange.is_overdue() || exchange.is_gone() {
                        return Err(format!("{}: its backlog is full", place.addr()));
                    }
                }
                // The next address, if there is one that can be reached.
                Err(_) => {}
            }
        }
    }

    /// Starts another process if the last one has ended without a request.
    fn has_new_process(&mut self, context: &WorkerContext<Exchange>) -> bool {
        let Some(process) = &mut self.process else { return false };
        if process.ends_within(END_WAIT).is_none() {
            return false;
        }
        self.note_end("");
        self.boot(context).is_ok()
    }

    /// Ends the response according to how the transfer has ended.
    fn conclude(
        &mut self,
        exchange: &Exchange,
        response: &mut Response,
        end: TransferEnd,
        hard: Option<Instant>,
        context: &WorkerContext<Exchange>,
    ) {
        let request_id = &exchange.request.request_id;
        // Taken before the response is sent, so that the request does not end before its child spans.
        let ended_at = exchange.request.span.as_ref().map(|_| time::now());
        let is_well = matches!(end, TransferEnd::Complete | TransferEnd::ClientGone);
        match end {
            TransferEnd::Complete => response.end_foreign(),
            TransferEnd::ClientGone => {
                response.end(PhpOutcome::Aborted);
                self.await_script(context, request_id, hard);
            }
            TransferEnd::GivenUp => {
                response.end(PhpOutcome::Aborted);
                self.end_process();
                if self.process.is_some() {
                    self.note_end(request_id);
                }
            }
            TransferEnd::ProcessEnded => {
                response.fail(500);
                self.note_end(request_id);
            }
            TransferEnd::NoScript => response.end(PhpOutcome::NoScript),
            TransferEnd::NothingTaken => self.fail(response, request_id, "it takes no requests"),
            TransferEnd::Failed(reason) => self.fail(response, request_id, &reason),
        }
        let Some((span, ended_at)) = exchange.request.span.as_ref().zip(ended_at) else { return };
        let began = exchange.offered_at + exchange.waited().unwrap_or_default();
        let mut run = span.part(RequestPart::PhpRun, began, ended_at);
        if !is_well {
            run.status = SpanStatus::Error(Cow::Borrowed(""));
        }
        span.tracer().offer(&run);
    }

    /// Answers for a responder that has failed. The process may be in the middle of a script, so it is not used again.
    fn fail(&mut self, response: &mut Response, request_id: &str, reason: &str) {
        response.fail(502);
        let responder = &self.plan.name();
        let event =
            WorkerEvent::ResponderFailed { slot: self.thread_context.slot, responder, reason, request_id };
        self.thread_context.shared.log.emit(&Event::Worker(event));
        self.end_process();
    }

    /// Ends the process. Another one is started after the request.
    fn end_process(&mut self) {
        let Some(process) = &mut self.process else { return };
        process.terminate();
        if process.ends_within(process::TERM_WAIT).is_none() {
            process.signal(Signal::KILL);
            process.ends_within(process::TERM_WAIT);
        }
    }
}

/// Returns whether there is an answer on a connection: bytes, or its end. Both come from a process that accepts connections.
fn is_answered(stream: &mut Stream) -> bool {
    !matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// How long the end of a process may follow a connection that it refuses.
const END_WAIT: Duration = Duration::from_millis(100);
