//! One client connection: a [`Connection`] and its socket.
//!
//! Each command is carried out before the next one is polled; a busy connection yields to the others after a few steps.
//! A connection never blocks, and it decides nothing about a request; see [`request`](crate::serve::request).

use std::sync::OnceLock;
use std::time::Instant;

use mio::event::Event;
use mio::net::TcpStream;

use crate::connection::{Armed, Ask, Command, Connection, Decision, Ended};
use crate::http::{BodyError, NamedFile};
use crate::limits::OUTPUT_BYTES_MAX;
use crate::observe::{Event as Record, TlsHandshake};
use crate::pool::StreamKey;
use crate::spool::Share;
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use crate::serve::disk::file_job::{Done, FileJob};
use crate::serve::disk::slices::slice_now;
use crate::serve::io_thread::arrival::{Arrival, Door};
use crate::serve::io_thread::io::Io;
use crate::serve::net::tls_stream::TlsStream;
use crate::serve::net::transport::Transport;
use crate::serve::net::wire::{Got, Wire};
use crate::serve::request::answer::refusal;
use crate::serve::request::endpoints::Endpoints;
use crate::serve::request::meta::RequestMeta;
use crate::serve::request::start::{start, start_unreadable};
use crate::serve::shared::Shared;

/// One client connection.
#[derive(Debug)]
pub(in crate::serve) struct ClientConnection {
    /// Identifies the connection to other threads; set by its io thread.
    pub(in crate::serve) key: u64,
    /// Its entry among the deadlines.
    pub(in crate::serve) armed: Armed,
    /// The last round of handovers that considered it.
    pub(super) handover_round: u32,
    wire: Wire,
    ends: Arc<Endpoints>,
    connection: Connection<RequestMeta>,
    /// The share of the memory of all replies for the buffers of HTTP/2 and TLS.
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
pub(in crate::serve) enum Fate {
    /// It has ended and must be dropped.
    Ended,
    /// It continues.
    Lives,
}

impl ClientConnection {
    /// Takes over an accepted connection.
    ///
    /// # Errors
    ///
    /// If the client has already disconnected, or the system has no randomness for a TLS session.
    pub(in crate::serve) fn new(arrival: Arrival, io: &Io) -> std::io::Result<Self> {
        let local = arrival.local.map_or_else(|| arrival.socket.local_addr(), Ok)?;
        let (peer, door) = (arrival.peer, arrival.door);
        let terms = io.shared.tls.as_ref().filter(|_| door == Door::Main);
        let ends = Arc::new(Endpoints { peer, local, door, is_tls: terms.is_some(), tls: OnceLock::new() });
        let transport = match terms {
            Some(terms) => {
                let session = terms.session().map_err(std::io::Error::other)?;
                Transport::Tls(Box::new(TlsStream::new(arrival.socket, session)))
            }
            None => Transport::Plain(arrival.socket),
        };
        let connection = Connection::new(Arc::clone(&io.terms), transport.can_send_files(), io.now);
        Ok(Self {
            key: 0,
            armed: Armed::default(),
            handover_round: 0,
            wire: Wire::new(transport),
            connection,
            ends,
            copied: Share::default(),
            is_in_line: false,
            _counted: CountedConnection::new(&io.shared),
            _permit: arrival.permit,
        })
    }

    /// Returns the socket, for the poller.
    pub(in crate::serve) fn socket(&mut self) -> &mut TcpStream {
        self.wire.transport.socket()
    }

    /// Returns whether the connection has nothing under way, so that another thread can take it.
    pub(in crate::serve) fn is_at_rest(&self) -> bool {
        let peer = self.wire.peer();
        let is_quiet = !(peer.is_readable || peer.is_closed || peer.is_broken || peer.is_owed);
        is_quiet && !self.is_in_line && self.connection.is_at_rest()
    }

    /// Handles an event of the poller.
    pub(in crate::serve) fn on_event(&mut self, io: &mut Io, event: &Event) -> Fate {
        self.wire.note(event);
        self.advance(io)
    }

    /// Handles a notice that the worker of the stream has parts of the reply.
    pub(in crate::serve) fn on_reply_ready(&mut self, io: &mut Io, stream: u32) -> Fate {
        if self.connection.is_waiting(stream) {
            if io.shared.cache.is_some()
                && self.connection.request(stream).is_some_and(|it| it.is_following())
            {
                self.decide(io, stream, RequestMeta::released);
            } else {
                // The first parts always find room.
                self.collect(stream);
            }
        } else {
            self.connection.note_reply(stream);
        }
        self.advance_later(io)
    }

    /// Handles the result of a job that a file thread has finished for the stream.
    pub(in crate::serve) fn on_disk(&mut self, io: &mut Io, stream: u32, done: Done) -> Fate {
        self.take_disk(io, stream, done);
        self.advance_later(io)
    }

    /// Tries again to spool: there may be room now.
    pub(in crate::serve) fn retry_spool(&mut self, io: &mut Io, stream: u32) -> Fate {
        self.connection.retry_spool(stream);
        self.advance(io)
    }

    /// Answers requests that wait for a worker, because no worker is left.
    pub(in crate::serve) fn on_pool_gone(&mut self, io: &mut Io) -> Fate {
        for stream in self.connection.streams() {
            if self.connection.is_waiting(stream) {
                self.decide(io, stream, |request, io| request.on_pool_gone(&io.pool));
            }
        }
        self.advance(io)
    }

    /// Answers all requests because the drain deadline has passed, tries once to send the answers, and ends.
    pub(in crate::serve) fn cut_off(&mut self, io: &mut Io) -> Fate {
        for stream in self.connection.streams() {
            self.cut_off_stream(io, stream);
        }
        // Slow clients get no more time.
        if self.advance(io) == Fate::Lives {
            self.connection.abort();
            self.run(io);
        }
        Fate::Ended
    }

    fn cut_off_stream(&mut self, io: &mut Io, stream: u32) {
        let Some(request) = self.connection.request(stream) else { return };
        let exchange = request.exchange().cloned();
        request.cut(&io.pool);
        let mut stage = None;
        if let Some(exchange) = exchange {
            self.connection.collect(stream, |parts| {
                let (was, share) = exchange.withdraw_collecting(parts);
                stage = Some(was);
                share
            });
        }
        if !self.connection.has_reply(stream) {
            self.decide(io, stream, |request, _| Some(request.cut_off(stage)));
        }
    }

    /// Begins a turn: takes all steps that are possible now.
    pub(in crate::serve) fn advance(&mut self, io: &mut Io) -> Fate {
        self.is_in_line = false;
        let is_memory_tight = !io.shared.spool.has_memory_for(OUTPUT_BYTES_MAX as u64);
        self.connection.begin_turn(io.shared.lifecycle.is_closing(), is_memory_tight);
        self.wire.transport.set_memory_tight(is_memory_tight);
        self.run(io)
    }

    /// Advances now, or at the end of the io thread's present turn if that combines the output of several streams into
    /// one write.
    fn advance_later(&mut self, io: &mut Io) -> Fate {
        if self.connection.is_multiplexed() { self.line_up(io) } else { self.advance(io) }
    }

    fn run(&mut self, io: &mut Io) -> Fate {
        let fate = self.carry_out(io);
        let received = self.connection.take_received();
        if received > 0 {
            io.shared.metrics.request_bytes.add(received);
        }
        let copied = self.connection.copied_bytes() + self.wire.transport.held_back() as u64;
        self.copied.set(&io.shared.spool, copied);
        fate
    }

    /// Carries out commands until the connection waits or ends.
    fn carry_out(&mut self, io: &mut Io) -> Fate {
        loop {
            match self.connection.poll_command(self.wire.peer(), io.now) {
                Command::Close { is_whole } => {
                    if is_whole {
                        self.wire.transport.send_close_notify();
                    }
                    return Fate::Ended;
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
                    RequestMeta::answered_unseen(io, self.key, &self.ends, rejection);
                }
                Command::Request(incoming) => start(&mut self.connection, io, self.key, &self.ends, incoming),
                Command::ShutDown { is_whole } => {
                    if is_whole {
                        self.wire.transport.send_close_notify();
                    }
                    self.wire.transport.shut_down();
                }
                Command::Stream(stream, ask) => self.see_to(io, stream, ask),
                Command::Transmit => self.write(io),
                Command::Unreadable(unreadable) => {
                    start_unreadable(&mut self.connection, io, self.key, &self.ends, unreadable);
                }
                Command::Wait => return Fate::Lives,
                // Other connections go first.
                Command::Yield => return self.line_up(io),
            }
        }
    }

    fn read(&mut self, io: &mut Io, looks_again: bool) {
        self.wire.is_readable |= looks_again;
        let got = self.wire.read(&mut io.scratch);
        self.note_handshake(io, false);
        match got {
            Got::Bytes(count) => {
                if let Some(protocol) = self.wire.transport.protocol() {
                    self.connection.note_protocol(protocol);
                }
                self.connection.receive(&io.scratch[..count], io.now);
            }
            Got::End => self.connection.end_input(),
            Got::Nothing => self.connection.note_dry(),
        }
    }

    fn write(&mut self, io: &mut Io) {
        let (wire, mut cold) = (&mut self.wire, None);
        let result = self.connection.transmit(io.now, |output| {
            let sent = wire.flush(output)?;
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
    fn see_to(&mut self, io: &mut Io, stream: u32, ask: Ask) {
        let key = StreamKey { connection: self.key, stream };
        match ask {
            Ask::Announce { head, length, head_only } => {
                if let Some(request) = self.connection.request(stream) {
                    let announced = request.announce(io, head, length, head_only);
                    self.connection.announce(stream, announced);
                }
            }
            Ask::AwaitSpoolRoom => io.starved.push(key),
            Ask::BodyLate { is_starved } => self.refuse(io, stream, if is_starved { 503 } else { 408 }),
            Ask::BodyRefused(error) => {
                self.refuse(io, stream, if error == BodyError::TooLarge { 413 } else { 400 });
            }
            Ask::Collect => self.collect(stream),
            Ask::Offer { body, is_deserted } => {
                self.decide(io, stream, |request, io| request.offer(io, body, is_deserted));
            }
            Ask::SendFile(head) if head.file == Some(NamedFile::Stored) => {
                self.decide(io, stream, |request, io| Some(request.send_stored_instead(io)));
            }
            Ask::SendFile(head) => {
                if let Some(request) = self.connection.request(stream) {
                    request.order_file(io, head);
                }
            }
            Ask::Slice(source, offset, len) => match slice_now(&source, offset, len) {
                Some(bytes) => self.connection.sliced(stream, bytes),
                None => io.disk.order(FileJob::Slice(source, offset, len), key),
            },
            Ask::Spool(file, bytes) => {
                io.disk.order(FileJob::Append(io.shared.spool.clone(), file, bytes), key);
            }
            Ask::WaitOver if self.connection.is_waiting(stream) => {
                self.decide(io, stream, RequestMeta::on_wait_over);
            }
            Ask::WaitOver => {}
        }
    }

    /// Takes the parts of a reply that are ready.
    fn collect(&mut self, stream: u32) {
        let exchange = self.connection.request(stream).and_then(|request| request.exchange().cloned());
        if let Some(exchange) = exchange {
            self.connection.collect(stream, |parts| exchange.collect(parts));
        }
    }

    fn take_disk(&mut self, io: &mut Io, stream: u32, done: Done) {
        match done {
            Done::Appended(file, buffer) => self.connection.spooled(stream, file, buffer, io.now),
            Done::Refused(file, bytes, error) => {
                if !self.connection.spool_refused(stream, file, bytes, &error) {
                    self.refuse(io, stream, 503);
                }
            }
            // The request was answered in the meantime.
            Done::Found(..) | Done::Named(_) if self.connection.has_reply(stream) => {}
            Done::Found(path, found) => {
                self.decide(io, stream, |request, io| Some(request.found(io, &path, found)));
            }
            Done::Named(found) => self.decide(io, stream, |request, io| request.file_opened(io, found)),
            Done::Slice(Ok(bytes)) => self.connection.sliced(stream, bytes),
            Done::Slice(Err(_)) => self.connection.fail_reply(stream),
            Done::Failed if self.connection.has_reply(stream) => self.connection.fail_reply(stream),
            Done::Failed => self.refuse(io, stream, 500),
            Done::ReadAhead => self.connection.note_warmed(),
        }
    }

    /// Refuses a request before its body has been read.
    fn refuse(&mut self, io: &Io, stream: u32, status: u16) {
        self.connection.decide(stream, refusal(status), io.now);
    }

    /// Passes the decision that `choose` makes about a request to the connection.
    fn decide(
        &mut self,
        io: &mut Io,
        stream: u32,
        choose: impl FnOnce(&mut RequestMeta, &mut Io) -> Option<Decision>,
    ) {
        let Some(request) = self.connection.request(stream) else { return };
        if let Some(decision) = choose(request, io) {
            self.connection.decide(stream, decision, io.now);
        }
    }

    /// Returns when the present wait ends; `None` while the connection waits for the server itself.
    pub(in crate::serve) fn deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// Handles its entry among the deadlines, which has fired; the deadline itself may have moved since.
    pub(in crate::serve) fn on_deadline(&mut self, io: &mut Io) -> Fate {
        self.armed.fired();
        if self.deadline().is_none_or(|deadline| deadline > io.now) {
            return Fate::Lives;
        }
        self.connection.handle_timeout(io.now);
        self.advance(io)
    }

    /// Counts an incomplete handshake of a connection that has ended.
    pub(in crate::serve) fn on_closed(&mut self, io: &Io) {
        self.note_handshake(io, true);
    }

    /// Counts the handshake once it is over, and keeps the facts about the session for scripts.
    fn note_handshake(&mut self, io: &Io, is_last_look: bool) {
        let Some(tls) = self.wire.transport.tls() else { return };
        let Some(outcome) = tls.take_handshake(is_last_look) else { return };
        io.shared.metrics.tls_handshakes.incr(outcome);
        match outcome {
            TlsHandshake::Full | TlsHandshake::Resumed => {
                if let Some(facts) = tls.facts() {
                    // Set only once: a connection has one handshake.
                    let _ = self.ends.tls.set(Arc::new(facts));
                }
            }
            TlsHandshake::Failed | TlsHandshake::PlainHttp => {
                let error = match (outcome, tls.failure()) {
                    (TlsHandshake::PlainHttp, _) => "the client sent plain HTTP".to_owned(),
                    (_, Some(error)) => error.to_string(),
                    (_, None) => "the connection was closed before the handshake was complete".to_owned(),
                };
                let client = self.ends.peer.ip().to_canonical();
                io.shared.log.emit(&Record::HandshakeFailed { client, error: &error });
            }
        }
    }

    /// Continues at the end of the present turn, so that the output of other streams goes out in the same write.
    fn line_up(&mut self, io: &mut Io) -> Fate {
        if !std::mem::replace(&mut self.is_in_line, true) {
            io.again.push(self.key);
        }
        Fate::Lives
    }
}
