//! One request on a connection to a responder, from its parameters to the end of its response.
//!
//! The body is sent from memory or from its file while the response is read, so that neither side can block the other. A
//! response is passed on in one piece if PHP writes it without pausing. The worker waits for the socket, its process and
//! its waker together.
//!
//! ```text
//!   Answering ──time limit: the client gets 504──▶ Overdue ──hard limit: SIGTERM──▶ Ending ──a second: SIGKILL──▶ …
//!       │                                             │                                │
//!       └──────────── END_REQUEST, a fault, or the end of the process ─────────────────┴──▶ TransferEnd
//! ```

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use svc_core::dev::Failure;
use svc_core::fastcgi::{Connection, Event};
use svc_core::pool::{Directive, Exchange, WorkerContext};
use svc_core::time;
use svc_ffi::{Pairs, PhpHead, PhpOutcome};

use super::message::{LoggedError, Messages};
use super::process::{Process, TERM_WAIT};
use super::stream::Stream;
use super::waker::EventWaker;
use crate::response::Response;
use crate::thread_context::ThreadContext;

/// A connection with the state of its protocol.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) stream: Stream,
    pub(super) machine: Connection,
}

impl OpenConnection {
    pub(super) fn new(stream: Stream, keeps: bool) -> Self {
        Self { stream, machine: Connection::new(keeps) }
    }

    /// Returns whether it can carry another request, as far as this side can see. A process of svc does not end a connection
    /// before it ends itself, and then a write fails. Others may end it and go on reading: php-fpm discards what arrives.
    pub(super) fn is_usable(&self, is_of_process: bool) -> bool {
        let is_silent = || {
            let mut watched = [PollFd::new(&self.stream, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
        };
        self.machine.is_idle() && (is_of_process || is_silent())
    }
}

/// How a transfer has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransferEnd {
    /// The response was received to its end.
    Complete,
    /// Its client has left, and the connection was given up.
    ClientGone,
    /// Nothing was transferred, because no script handles the path any longer.
    NoScript,
    /// The connection ended before any byte of the request was taken.
    NothingTaken,
    /// The responder failed.
    Failed(String),
    /// The process has ended.
    ProcessEnded,
    /// The time limit, or the end of the server, has ended it.
    GivenUp,
}

/// When svc answers a request instead of PHP, and when it ends the process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// When the client gets 504.
    pub(super) soft: Option<Instant>,
    /// When the process gets SIGTERM.
    pub(super) hard: Option<Instant>,
}

/// The buffers of a worker, reused from request to request.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) parameters: Pairs,
    output: Vec<u8>,
    body: Vec<u8>,
    input: Box<[u8]>,
}

impl Default for Buffers {
    fn default() -> Self {
        let input = vec![0; INPUT_BYTES].into_boxed_slice();
        Self { parameters: Pairs::default(), output: Vec::new(), body: Vec::new(), input }
    }
}

/// A request that is being run.
pub(super) struct Transfer<'a> {
    pub(super) context: &'a WorkerContext<Exchange>,
    pub(super) thread_context: &'a ThreadContext,
    pub(super) exchange: &'a Exchange,
    pub(super) response: &'a mut Response,
    pub(super) waker: &'a EventWaker,
    /// The process on the other side, if it is one of svc.
    pub(super) process: Option<&'a mut Process>,
    pub(super) limits: Limits,
    pub(super) messages: &'a mut Messages,
}

/// The progress of a transfer.
struct Progress {
    stage: Stage,
    /// How much of the output has been written.
    written: usize,
    has_written: bool,
    /// How much of the request's body is in the output.
    body_read: u64,
    /// The responder takes no more of the request.
    has_stopped_reading: bool,
    /// When the part of the response that is held back is passed on.
    held_until: Option<Instant>,
    /// The server ends, and waits for no more requests.
    is_stopping: bool,
    /// When the clock was read last.
    now: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client waits for the response.
    Answering,
    /// The client was answered, and the script still runs.
    Overdue,
    /// The process got SIGTERM, and gets SIGKILL at this time.
    Ending(Instant),
    /// The process got SIGKILL.
    Killed,
}

/// The descriptors that are ready.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    socket: bool,
    waker: bool,
    ended: bool,
    output: bool,
}

impl Progress {
    /// Notes that a part of the response waits for more of it.
    fn hold_back(&mut self) {
        self.held_until.get_or_insert(self.now + GATHER_TIME);
    }

    fn is_held_long_enough(&self) -> bool {
        self.stage == Stage::Answering && self.held_until.is_some_and(|until| self.now >= until)
    }
}

impl Transfer<'_> {
    /// Runs the request with the parameters in `buffers`.
    pub(super) fn run(&mut self, open: &mut OpenConnection, buffers: &mut Buffers) -> TransferEnd {
        let OpenConnection { stream, machine } = open;
        let mut progress = Progress {
            stage: Stage::Answering,
            written: 0,
            has_written: false,
            body_read: 0,
            has_stopped_reading: false,
            held_until: None,
            is_stopping: false,
            now: time::now(),
        };
        buffers.output.clear();
        // Errors outside of the request are not its own.
        self.messages.take_error();
        machine.begin(buffers.parameters.iter(), &mut buffers.output);
        self.fill(machine, buffers, &mut progress);
        let end = loop {
            if let Some(end) = self.write(stream, machine, buffers, &mut progress) {
                break end;
            }
            let ready = self.wait(stream, buffers, &mut progress);
            progress.now = time::now();
            if ready.output {
                self.log_output(buffers);
            }
            let has_paused = !ready.socket && !ready.ended;
            if !has_paused && let Some(end) = self.read(stream, machine, buffers, &mut progress, ready.ended)
            {
                break end;
            }
            if progress.is_held_long_enough() {
                progress.held_until = None;
                if has_paused {
                    self.messages.finish(&self.thread_context.shared.log, Some(&self.exchange.request));
                }
                if !self.response.flush() && self.is_left(&progress) {
                    break TransferEnd::ClientGone;
                }
            }
            if let Some(end) = self.watch(stream, machine, ready.waker, &mut progress) {
                break end;
            }
        };
        self.messages.finish(&self.thread_context.shared.log, Some(&self.exchange.request));
        if let Some(LoggedError { text, place }) = self.messages.take_error() {
            let (file, line) = place.unwrap_or_default();
            self.response.note_error(|| Failure::of_message(&text, &file, line));
        }
        buffers.output.shrink_to(KEPT_BYTES);
        end
    }

    /// Appends the next part of the request's body to the output, and the end after the last one.
    fn fill(&self, machine: &mut Connection, buffers: &mut Buffers, progress: &mut Progress) {
        let body = &self.exchange.request.body;
        let left = body.len() - progress.body_read;
        if left > 0 {
            buffers.body.resize(usize::try_from(left).unwrap_or(BODY_BYTES).min(BODY_BYTES), 0);
            match body.read_at(&mut buffers.body, progress.body_read) {
                Ok(count @ 1..) => {
                    machine.put_body(&buffers.body[..count], &mut buffers.output);
                    progress.body_read += count as u64;
                }
                outcome => {
                    let error =
                        outcome.err().map_or_else(|| "it is too short".to_owned(), |error| error.to_string());
                    let what = &format!("cannot read a spooled request body: {error}");
                    self.thread_context.shared.log.emit(&svc_core::observe::Event::Failure { what });
                    progress.body_read = body.len();
                }
            }
        }
        if progress.body_read == body.len() {
            machine.end_body(&mut buffers.output);
        }
    }

    /// Writes what the responder takes.
    fn write(
        &self,
        stream: &mut Stream,
        machine: &mut Connection,
        buffers: &mut Buffers,
        progress: &mut Progress,
    ) -> Option<TransferEnd> {
        while !progress.has_stopped_reading && progress.written < buffers.output.len() {
            match stream.write(&buffers.output[progress.written..]) {
                Ok(count) => {
                    progress.has_written = true;
                    progress.written += count;
                    if progress.written == buffers.output.len() {
                        buffers.output.clear();
                        progress.written = 0;
                        if progress.body_read < self.exchange.request.body.len() {
                            self.fill(machine, buffers, progress);
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) if !progress.has_written => return Some(TransferEnd::NothingTaken),
                // It may have answered before it closed the connection.
                Err(_) => progress.has_stopped_reading = true,
            }
        }
        None
    }

    /// Waits until something is ready, or a time has come.
    fn wait(&self, stream: &Stream, buffers: &Buffers, progress: &mut Progress) -> Ready {
        let has_output = !progress.has_stopped_reading && progress.written < buffers.output.len();
        let interest = if has_output { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut watched = [
            PollFd::new(stream, interest),
            PollFd::new(self.waker, PollFlags::IN),
            PollFd::new(self.waker, PollFlags::empty()),
            PollFd::new(self.waker, PollFlags::empty()),
        ];
        if let Some(process) = &self.process {
            if let Some(output) = process.output() {
                watched[2] = PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN);
            }
            if let Some(ended) = process.end_descriptor() {
                watched[3] = PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN);
            }
        }
        let pause = self.pause(progress);
        let wait = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        // An interrupted wait finds nothing ready.
        let _ = poll(&mut watched, Some(&wait));
        let is_ready = |at: usize| !watched[at].revents().is_empty();
        let is_readable = watched[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        let has_process = self.process.is_some();
        Ready {
            socket: is_readable,
            waker: is_ready(1),
            output: has_process && is_ready(2),
            ended: has_process && is_ready(3),
        }
    }

    /// Returns how long to wait: briefly while a part of the response is held back, and never beyond a limit.
    fn pause(&self, progress: &Progress) -> Duration {
        let held_until = progress.held_until.filter(|_| progress.stage == Stage::Answering);
        let look_pause = if progress.is_stopping { STOP_PAUSE } else { LOOK_PAUSE };
        let pause = held_until.map_or(look_pause, |until| until.saturating_duration_since(progress.now));
        let until = match progress.stage {
            Stage::Answering => self.limits.soft,
            Stage::Overdue => self.limits.hard,
            Stage::Ending(until) => Some(until),
            Stage::Killed => None,
        };
        until.map_or(pause, |until| until.saturating_duration_since(progress.now).min(pause))
    }

    /// Reads once, or to the end if the process has ended, and passes on what has arrived.
    fn read(
        &mut self,
        stream: &mut Stream,
        machine: &mut Connection,
        buffers: &mut Buffers,
        progress: &mut Progress,
        has_ended: bool,
    ) -> Option<TransferEnd> {
        loop {
            let count = match stream.read(&mut buffers.input) {
                Ok(0) => return Some(self.closed(machine)),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Another program may have inherited the process's side of the connection.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return has_ended.then_some(TransferEnd::ProcessEnded);
                }
                Err(_) => return Some(self.closed(machine)),
            };
            let mut bytes = &buffers.input[..count];
            let was_ended = self.pass_on(machine, &mut bytes, progress);
            if was_ended.is_some() || !has_ended {
                return was_ended;
            }
        }
    }

    /// Passes on the events in `bytes`.
    fn pass_on(
        &mut self,
        machine: &mut Connection,
        bytes: &mut &[u8],
        progress: &mut Progress,
    ) -> Option<TransferEnd> {
        loop {
            match machine.receive(bytes) {
                Ok(None) => return None,
                Ok(Some(Event::Head(head))) => {
                    progress.hold_back();
                    let lines = head.lines;
                    self.response.set_head(&PhpHead {
                        status: head.status,
                        status_line: head.status_line,
                        lines,
                    });
                }
                Ok(Some(Event::Body(output))) => {
                    progress.hold_back();
                    if !self.response.write(output) && self.is_left(progress) {
                        return Some(TransferEnd::ClientGone);
                    }
                }
                Ok(Some(Event::Stderr(text))) => {
                    let shared = &self.thread_context.shared;
                    self.messages.take(text, &shared.log, Some(&self.exchange.request));
                }
                Ok(Some(Event::End { .. })) => {
                    // Bytes that follow break the protocol, and concern no request.
                    let is_ending = matches!(progress.stage, Stage::Ending(_) | Stage::Killed);
                    return Some(if is_ending { TransferEnd::GivenUp } else { TransferEnd::Complete });
                }
                Err(fault) => return Some(TransferEnd::Failed(fault.to_string())),
            }
        }
    }

    /// Returns whether to give the connection up, because its client has left: the script then ends at its next output,
    /// as it would in a thread. A body is sent to its end before that.
    fn is_left(&self, progress: &Progress) -> bool {
        progress.stage == Stage::Answering
            && progress.body_read == self.exchange.request.body.len()
            && self.exchange.is_gone()
    }

    /// Returns whether the client has an answer, or has left. Before that, the end of the server must not reach the script:
    /// a signal ends a pause of the script, whose response would look as if the pause had been over.
    fn is_settled(&self) -> bool {
        !self.exchange.is_unanswered() || self.exchange.is_gone()
    }

    /// Returns the meaning of the end of the connection.
    fn closed(&mut self, machine: &Connection) -> TransferEnd {
        if let Some(process) = &mut self.process
            && process.ends_within(END_WAIT).is_some()
        {
            return TransferEnd::ProcessEnded;
        }
        match machine.closed() {
            Some(fault) => TransferEnd::Failed(fault.to_string()),
            None => TransferEnd::Complete,
        }
    }

    /// Looks at the limits, the client and the server's state.
    fn watch(
        &mut self,
        stream: &mut Stream,
        machine: &mut Connection,
        is_woken: bool,
        progress: &mut Progress,
    ) -> Option<TransferEnd> {
        if is_woken {
            self.waker.clear();
        }
        if progress.stage == Stage::Answering && self.limits.soft.is_some_and(|soft| progress.now >= soft) {
            // The client is answered at once; another thread may have done so.
            self.response.end(PhpOutcome::TimeLimit);
            progress.stage = Stage::Overdue;
        }
        progress.is_stopping |= is_woken && self.context.directive() == Directive::Stop;
        let is_stopping = progress.is_stopping && self.is_settled();
        if self.process.is_none() {
            let is_left = self.exchange.is_gone() && !self.exchange.is_detached();
            if progress.stage == Stage::Overdue || is_left || is_stopping {
                let mut farewell = Vec::new();
                machine.abort(&mut farewell);
                // A failed write does not matter: the end of the connection has the same meaning.
                let _ = stream.write(&farewell);
                return Some(if is_left { TransferEnd::ClientGone } else { TransferEnd::GivenUp });
            }
            return None;
        }
        let is_due = self.limits.hard.is_some_and(|hard| progress.now >= hard);
        let step = match progress.stage {
            Stage::Answering | Stage::Overdue if is_due || is_stopping => {
                progress.stage = Stage::Ending(progress.now + TERM_WAIT);
                Signal::TERM
            }
            Stage::Ending(until) if progress.now >= until => {
                progress.stage = Stage::Killed;
                Signal::KILL
            }
            _ => return None,
        };
        if let Some(process) = &mut self.process {
            process.signal(step);
        }
        None
    }

    /// Logs the output of the process.
    fn log_output(&mut self, buffers: &mut Buffers) {
        let Some(process) = &mut self.process else { return };
        let count = process.read_output(&mut buffers.input);
        let shared = &self.thread_context.shared;
        self.messages.take(&buffers.input[..count], &shared.log, Some(&self.exchange.request));
    }
}

/// The number of bytes that are read at once.
const INPUT_BYTES: usize = 64 * 1024;

/// The number of bytes of a request's body that are written at once.
const BODY_BYTES: usize = 64 * 1024;

/// The memory for output that a worker keeps.
const KEPT_BYTES: usize = 16 * 1024;

/// How long output waits for more, with which it is passed on.
const GATHER_TIME: Duration = Duration::from_millis(10);

/// How often the client is checked while PHP writes nothing.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// How often the exchange is checked for the answer of the I/O thread when the server ends.
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// How long the end of a process may follow the end of its connection.
const END_WAIT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_that_the_other_side_has_ended_is_unusable_although_it_can_be_written_to() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut open = OpenConnection::new(Stream::Unix(near), true);
        assert!(open.is_usable(false));
        far.shutdown(Shutdown::Write).unwrap();
        assert!(!open.is_usable(false));
        open.stream.write_all(b"discarded").unwrap();
        far.read_exact(&mut [0; 9]).unwrap();
    }
}
