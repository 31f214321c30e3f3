//! One client connection: a [`Connection`] and its socket.
//!
//! Each command is carried out before the next one is polled; a busy connection yields to the others after a few steps.
//! A connection never blocks, and it decides nothing about a request; see [`request`](crate::request).

use std::sync::OnceLock;
use std::time::Instant;

use mio::event::Event;
use mio::net::TcpStream;

use svc_core::connection::{Armed, Ask, Command, Connection, Decision, Ended, Input, Stream};
use svc_core::http::{BodyError, NamedFile};
use svc_core::limits::OUTPUT_BYTES_MAX;
use svc_core::observe::{Event as Record, TlsHandshake};
use svc_core::pool::StreamKey;
use svc_core::spool::Share;
use svc_core::sync::permits::Permit;
use svc_core::sync::primitive::Arc;

use crate::disk::file_job::{Done, FileJob};
use crate::disk::slices::slice_now;
use crate::io_thread::io::Io;
use crate::io_thread::new_connection::{Endpoints, ListenerKind, NewConnection};
use crate::net::tls_stream::TlsStream;
use crate::net::transport::{ReadResult, Transport};
use crate::request::meta::RequestMeta;
use crate::request::server_response::refusal;
use crate::request::start::{start, start_unreadable};
use crate::shared::Shared;

/// One client connection.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    /// Identifies the connection to other threads; set by its I/O thread.
    pub(crate) key: u64,
    /// Its entry among the deadlines.
    pub(crate) armed: Armed,
    /// The last round of handovers that considered it.
    pub(super) handover_round: u32,
    transport: Transport,
    endpoints: Arc<Endpoints>,
    connection: Connection<RequestMeta>,
    /// The share of the memory of all responses for the buffers of HTTP/2 and TLS.
    copied: Share,
    /// Whether it continues after all messages and events of the present turn.
    is_in_line: bool,
    _counted: CountedConnection,
    _permit: Permit,
}

/// Counts an open connection in the metrics while it exists.
#[derive(Debug)]
struct CountedConnection(Arc<Shared>);

impl CountedConnection {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.metrics.connections.enter();
        Self(Arc::clone(shared))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.metrics.connections.leave();
    }
}

/// The state of a connection after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// It has ended and must be dropped.
    Ended,
    /// It continues.
    Open,
}

impl ClientConnection {
    /// Takes over an accepted connection.
    ///
    /// # Errors
    ///
    /// If the client has already disconnected, or the system has no randomness for a TLS session.
    pub(crate) fn new(new: NewConnection, io: &Io) -> std::io::Result<Self> {
        let local = new.local.map_or_else(|| new.socket.local_addr(), Ok)?;
        let (peer, listener) = (new.peer, new.listener);
        let terms = io.shared.tls.as_ref().filter(|_| listener == ListenerKind::Main);
        let endpoints =
            Arc::new(Endpoints { peer, local, listener, is_tls: terms.is_some(), tls: OnceLock::new() });
        let transport = match terms {
            Some(terms) => {
                let session = terms.session().map_err(std::io::Error::other)?;
                Transport::tls(TlsStream::new(new.socket, session))
            }
            None => Transport::plain(new.socket),
        };
        let connection = Connection::new(Arc::clone(&io.terms), transport.can_send_files(), io.now);
        Ok(Self {
            key: 0,
            armed: Armed::default(),
            handover_round: 0,
            transport,
            connection,
            endpoints,
            copied: Share::default(),
            is_in_line: false,
            _counted: CountedConnection::new(&io.shared),
            _permit: new.permit,
        })
    }

    /// Returns the socket, for the poller.
    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        self.transport.socket()
    }

    /// Returns whether the connection has nothing under way, so that another thread can take it.
    pub(crate) fn is_at_rest(&self) -> bool {
        let peer = self.transport.peer();
        let is_quiet = !(peer.is_readable || peer.is_closed || peer.is_broken || peer.has_pending_tls_output);
        is_quiet && !self.is_in_line && self.connection.is_at_rest()
    }

    /// Handles an event of the poller.
    pub(crate) fn on_event(&mut self, io: &mut Io, event: &Event) -> ConnectionState {
        self.transport.note(event);
        self.advance(io)
    }

    /// Handles a notice that the worker of the stream has parts of the response.
    pub(crate) fn on_response_ready(&mut self, io: &mut Io, stream: u32) -> ConnectionState {
        match self.connection.stream(stream) {
            Some(stream) if stream.is_waiting() && stream.request.is_following() => {
                decide(stream, io, RequestMeta::released);
            }
            Some(stream) if stream.is_waiting() && stream.request.is_awaiting_change() => {
                decide(stream, io, |request, _| request.change_noted());
            }
            // The first parts always find room.
            Some(stream) if stream.is_waiting() => collect(stream),
            Some(stream) => stream.note_response(),
            None => {}
        }
        self.advance_later(io)
    }

    /// Handles the result of a job that a file thread has finished for the stream.
    pub(crate) fn on_disk(&mut self, io: &mut Io, stream: u32, done: Done) -> ConnectionState {
        self.take_disk(io, stream, done);
        self.advance_later(io)
    }

    /// Tries again to spool: there may be room now.
    pub(crate) fn retry_spool(&mut self, io: &mut Io, stream: u32) -> ConnectionState {
        if let Some(stream) = self.connection.stream(stream) {
            stream.retry_spool();
        }
        self.advance(io)
    }

    /// Answers requests that wait for a worker, because no worker is left.
    pub(crate) fn on_pool_gone(&mut self, io: &mut Io) -> ConnectionState {
        for stream in self.connection.streams() {
            if let Some(stream) = self.connection.stream(stream)
                && stream.is_waiting()
            {
                decide(stream, io, RequestMeta::on_pool_gone);
            }
        }
        self.advance(io)
    }

    /// Answers all requests because the drain deadline has passed, tries once to send the answers, and ends.
    pub(crate) fn cut_off(&mut self, io: &mut Io) -> ConnectionState {
        for stream in self.connection.streams() {
            if let Some(stream) = self.connection.stream(stream) {
                cut_off(stream, io);
            }
        }
        // Slow clients get no more time.
        if self.advance(io) == ConnectionState::Open {
            self.connection.handle(Input::Abort, io.now);
            self.run(io);
        }
        ConnectionState::Ended
    }

    /// Begins a turn: takes all steps that are possible now.
    pub(crate) fn advance(&mut self, io: &mut Io) -> ConnectionState {
        self.is_in_line = false;
        let is_memory_tight = !io.shared.spool.has_memory_for(OUTPUT_BYTES_MAX as u64);
        let is_closing = io.shared.lifecycle.is_closing();
        self.connection.handle(Input::Turn { is_closing, is_memory_tight }, io.now);
        self.transport.set_memory_tight(is_memory_tight);
        self.run(io)
    }

    /// Advances now, or at the end of the I/O thread's present turn if that combines the output of several streams into
    /// one write.
    fn advance_later(&mut self, io: &mut Io) -> ConnectionState {
        if self.connection.is_multiplexed() { self.line_up(io) } else { self.advance(io) }
    }

    fn run(&mut self, io: &mut Io) -> ConnectionState {
        let state = self.carry_out(io);
        let received = self.connection.take_received();
        if received > 0 {
            io.shared.metrics.request_bytes.add(received);
        }
        let copied = self.connection.copied_bytes() + self.transport.held_back() as u64;
        self.copied.set(&io.shared.spool, copied);
        state
    }

    /// Carries out commands until the connection waits or ends.
    fn carry_out(&mut self, io: &mut Io) -> ConnectionState {
        loop {
            match self.connection.poll_command(self.transport.peer(), io.now) {
                Command::Close { is_whole } => {
                    if is_whole {
                        self.transport.send_close_notify();
                    }
                    return ConnectionState::Ended;
                }
                Command::Ended(Ended { sent_bytes, is_lost, is_whole, .. }) => {
                    match self.connection.ended() {
                        Some(request) if is_lost => request.abort(io, sent_bytes),
                        Some(request) => request.finish(&io.shared, sent_bytes, is_whole),
                        None => debug_assert!(false, "nothing has ended"),
                    }
                }
                Command::Read { looks_again } => self.read(io, looks_again),
                Command::Rejected(rejection) => {
                    RequestMeta::answered_unseen(io, self.key, &self.endpoints, rejection);
                }
                Command::Request(incoming) => {
                    start(&mut self.connection, io, self.key, &self.endpoints, incoming);
                }
                Command::ShutDown { is_whole } => {
                    if is_whole {
                        self.transport.send_close_notify();
                    }
                    self.transport.shut_down();
                }
                Command::Stream(stream, ask) => self.handle_ask(io, stream, ask),
                Command::Transmit => self.write(io),
                Command::Unreadable(unreadable) => {
                    start_unreadable(&mut self.connection, io, self.key, &self.endpoints, unreadable);
                }
                Command::Wait => return ConnectionState::Open,
                // Other connections go first.
                Command::Yield => return self.line_up(io),
            }
        }
    }

    fn read(&mut self, io: &mut Io, looks_again: bool) {
        self.transport.is_readable |= looks_again;
        let got = self.transport.read(&mut io.scratch);
        self.note_handshake(io, false);
        match got {
            ReadResult::Bytes(count) => {
                if let Some(protocol) = self.transport.protocol() {
                    self.connection.handle(Input::Protocol(protocol), io.now);
                }
                self.connection.handle(Input::Bytes(&io.scratch[..count]), io.now);
            }
            ReadResult::End => self.connection.handle(Input::End, io.now),
            ReadResult::Nothing => self.connection.handle(Input::WouldBlock, io.now),
        }
    }

    fn write(&mut self, io: &mut Io) {
        let (transport, mut cold) = (&mut self.transport, None);
        let result = self.connection.transmit(io.now, |output| {
            let sent = transport.flush(output)?;
            cold = output.take_cold();
            std::io::Result::Ok(sent)
        });
        if let Some((file, offset, len)) = cold {
            io.disk
                .order(FileJob::ReadAhead(file, offset, len), StreamKey { connection: self.key, stream: 0 });
        }
        // After a failed write, the connection has already aborted.
        drop(result);
        self.note_handshake(io, false);
    }

    /// Carries out an order of a request.
    fn handle_ask(&mut self, io: &mut Io, stream: u32, ask: Ask) {
        let key = StreamKey { connection: self.key, stream };
        let Some(stream) = self.connection.stream(stream) else { return };
        match ask {
            Ask::Announce { head, length, head_only } => {
                let announced = stream.request.announce(io, head, length, head_only);
                stream.announce(announced);
            }
            Ask::AwaitSpoolRoom => io.starved.push(key),
            Ask::BodyLate { is_starved } => refuse(stream, io, if is_starved { 503 } else { 408 }),
            Ask::BodyRefused(error) => {
                refuse(stream, io, if error == BodyError::TooLarge { 413 } else { 400 });
            }
            Ask::Collect => collect(stream),
            Ask::Offer { body, client_gone } => {
                decide(stream, io, |request, io| request.offer(io, body, client_gone));
            }
            Ask::SendFile(head) if head.file == Some(NamedFile::Stored) => {
                decide(stream, io, |request, io| Some(request.send_stored_instead(io)));
            }
            Ask::SendFile(head) => stream.request.order_file(io, head),
            Ask::Slice(source, offset, len) => match slice_now(&source, offset, len) {
                Some(bytes) => stream.sliced(bytes),
                None => io.disk.order(FileJob::Slice(source, offset, len), key),
            },
            Ask::Spool(file, bytes) => {
                io.disk.order(FileJob::Append(io.shared.spool.clone(), file, bytes), key);
            }
            Ask::WaitOver if stream.is_waiting() => {
                decide(stream, io, RequestMeta::on_wait_over);
            }
            Ask::WaitOver => {}
        }
    }

    fn take_disk(&mut self, io: &mut Io, stream: u32, done: Done) {
        if let Done::ReadAhead = done {
            return self.connection.handle(Input::Cached, io.now);
        }
        let Some(stream) = self.connection.stream(stream) else { return };
        match done {
            Done::Appended(file, buffer) => stream.spooled(file, buffer, io.now),
            Done::Refused(file, bytes, error) => {
                if !stream.spool_refused(file, bytes, &error) {
                    refuse(stream, io, 503);
                }
            }
            // The request was answered in the meantime.
            Done::Found(..) | Done::Named(_) if stream.has_response() => {}
            Done::Found(path, found) => {
                decide(stream, io, |request, io| Some(request.found(io, &path, found)));
            }
            Done::Named(found) => decide(stream, io, |request, io| request.file_opened(io, found)),
            Done::Slice(Ok(bytes)) => stream.sliced(bytes),
            Done::Slice(Err(_)) => stream.fail_response(),
            Done::Failed if stream.has_response() => stream.fail_response(),
            Done::Failed => refuse(stream, io, 500),
            Done::ReadAhead => {}
        }
    }

    /// Returns when the present wait ends; `None` while the connection waits for the server itself.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// Handles its entry among the deadlines, which has fired; the deadline itself may have moved since.
    pub(crate) fn on_deadline(&mut self, io: &mut Io) -> ConnectionState {
        self.armed.fired();
        if self.deadline().is_none_or(|deadline| deadline > io.now) {
            return ConnectionState::Open;
        }
        self.connection.handle(Input::Timeout, io.now);
        self.advance(io)
    }

    /// Counts an incomplete handshake of a connection that has ended.
    pub(crate) fn on_closed(&mut self, io: &Io) {
        self.note_handshake(io, true);
    }

    /// Counts the handshake once it is over, and keeps the facts about the session for scripts.
    fn note_handshake(&mut self, io: &Io, is_last_look: bool) {
        let Some(tls) = self.transport.session() else { return };
        let Some(outcome) = tls.take_handshake(is_last_look) else { return };
        io.shared.metrics.tls_handshakes.incr(outcome);
        match outcome {
            TlsHandshake::Full | TlsHandshake::Resumed => {
                if let Some(facts) = tls.facts() {
                    // Set only once: a connection has one handshake.
                    let _ = self.endpoints.tls.set(Arc::new(facts));
                }
            }
            TlsHandshake::Failed | TlsHandshake::PlainHttp => {
                let error = match (outcome, tls.failure()) {
                    (TlsHandshake::PlainHttp, _) => "the client sent plain HTTP".to_owned(),
                    (_, Some(error)) => error.to_string(),
                    (_, None) => "the connection was closed before the handshake was complete".to_owned(),
                };
                let client = self.endpoints.peer.ip().to_canonical();
                io.shared.log.emit(&Record::HandshakeFailed { client, error: &error });
            }
        }
    }

    /// Continues at the end of the present turn, so that the output of other streams goes out in the same write.
    fn line_up(&mut self, io: &mut Io) -> ConnectionState {
        if !std::mem::replace(&mut self.is_in_line, true) {
            io.again.push(self.key);
        }
        ConnectionState::Open
    }
}

/// Passes the decision that `choose` makes about a request to its stream.
fn decide(
    stream: &mut Stream<RequestMeta>,
    io: &mut Io,
    choose: impl FnOnce(&mut RequestMeta, &mut Io) -> Option<Decision>,
) {
    if let Some(decision) = choose(&mut stream.request, io) {
        stream.decide(decision, io.now);
    }
}

/// Refuses a request before its body has been read.
fn refuse(stream: &mut Stream<RequestMeta>, io: &Io, status: u16) {
    stream.decide(refusal(status), io.now);
}

/// Takes the parts of a response that are ready.
fn collect(stream: &mut Stream<RequestMeta>) {
    stream.collect(|request, parts| {
        request.exchange.as_ref().map_or_else(Share::default, |exchange| exchange.collect(parts))
    });
}

/// Answers a request because the drain deadline has passed: with the parts of its response that are ready, if there are any.
fn cut_off(stream: &mut Stream<RequestMeta>, io: &mut Io) {
    let mut stage = None;
    stream.request.note_drain_deadline(&io.pool);
    stream.collect(|request, parts| match &request.exchange {
        Some(exchange) => {
            let (was, share) = exchange.withdraw_collecting(parts);
            stage = Some(was);
            share
        }
        None => Share::default(),
    });
    if !stream.has_response() {
        decide(stream, io, |request, _| Some(request.cut_off(stage)));
    }
}
