//! One client connection: its wire, its protocol, and what it does next.
//!
//! Promises: every wait has a deadline but the one for what a worker or a disk is doing; a busy connection gives way
//! to the others after a few steps. Refuses: it never blocks, and it knows no message; its protocol does.

use std::sync::OnceLock;
use std::time::Instant;

use mio::event::Event;
use mio::net::TcpStream;

use crate::limits::{HTTP2_STEPS_MAX, LINK_STEPS_MAX};
use crate::observe::{Event as Record, TlsHandshake};
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

use super::http1::Http1;
use super::http2::Http2;
use super::step::ConnectionStep;
use crate::serve::disk::file_job::Done;
use crate::serve::io_thread::arrival::Arrival;
use crate::serve::io_thread::io::Io;
use crate::serve::io_thread::timers::Armed;
use crate::serve::net::tls_stream::TlsStream;
use crate::serve::net::transport::Transport;
use crate::serve::net::wire::Wire;
use crate::serve::request::endpoints::Endpoints;

/// One client connection.
#[derive(Debug)]
pub(in crate::serve) struct ClientConnection {
    /// What other threads call it.
    pub(in crate::serve) key: u64,
    /// Its entry among the deadlines.
    pub(in crate::serve) armed: Armed,
    wire: Wire,
    ends: Arc<Endpoints>,
    protocol: Protocol,
    /// It has its turn when the messages and events of the present one have been looked at.
    is_in_line: bool,
    _permit: Permit,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the larger one is what nearly every connection speaks")]
enum Protocol {
    Http1(Http1),
    Http2(Box<Http2>),
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Fate {
    /// It is to be dropped.
    Ended,
    /// It lives on.
    Lives,
}

impl ClientConnection {
    /// Takes a connection over.
    ///
    /// # Errors
    ///
    /// When the connection is gone already, or the system has no randomness for a session.
    pub(in crate::serve) fn new(arrival: Arrival, key: u64, io: &Io) -> std::io::Result<Self> {
        let local = arrival.socket.local_addr()?;
        let (peer, terms) = (arrival.peer, io.shared.tls.get());
        let ends = Arc::new(Endpoints { peer, local, is_tls: terms.is_some(), tls: OnceLock::new() });
        let transport = match terms {
            Some(terms) => {
                let session = terms.session().map_err(std::io::Error::other)?;
                Transport::Tls(Box::new(TlsStream::new(arrival.socket, session)))
            }
            None => Transport::Plain(arrival.socket),
        };
        Ok(Self {
            key,
            armed: Armed::default(),
            wire: Wire::new(transport),
            protocol: Protocol::Http1(Http1::new(key, Arc::clone(&ends), io.now)),
            ends,
            is_in_line: false,
            _permit: arrival.permit,
        })
    }

    /// The socket, for the poller.
    pub(in crate::serve) fn socket(&mut self) -> &mut TcpStream {
        self.wire.transport.socket()
    }

    /// The poller reports something.
    pub(in crate::serve) fn on_event(&mut self, io: &mut Io, event: &Event) -> Fate {
        self.wire.note(event);
        self.advance(io)
    }

    /// The worker of the stream has parts of the reply.
    pub(in crate::serve) fn on_reply_ready(&mut self, io: &mut Io, stream: u32) -> Fate {
        match &mut self.protocol {
            Protocol::Http1(http1) => {
                if let Some((stream, _)) = http1.stream() {
                    stream.has_parts = true;
                }
            }
            Protocol::Http2(http2) => {
                http2.visit(stream, |stream, _| stream.has_parts = true);
                return self.line_up(io);
            }
        }
        self.advance(io)
    }

    /// A file thread has done its job for the stream.
    pub(in crate::serve) fn on_disk(&mut self, io: &mut Io, stream: u32, done: Done) -> Fate {
        match &mut self.protocol {
            Protocol::Http1(http1) => {
                if let Some((stream, output)) = http1.stream() {
                    stream.take_disk(io, output, done);
                }
            }
            Protocol::Http2(http2) => {
                http2.visit(stream, |stream, output| stream.take_disk(io, output, done));
                return self.line_up(io);
            }
        }
        self.advance(io)
    }

    /// There may be room in the spool again.
    pub(in crate::serve) fn retry_spool(&mut self, io: &mut Io, stream: u32) -> Fate {
        match &mut self.protocol {
            Protocol::Http1(http1) => {
                if let Some((stream, _)) = http1.stream() {
                    stream.retry_spool();
                }
            }
            Protocol::Http2(http2) => http2.visit(stream, |stream, _| stream.retry_spool()),
        }
        self.advance(io)
    }

    /// No worker is left: requests that wait for one are answered.
    pub(in crate::serve) fn on_pool_gone(&mut self, io: &mut Io) -> Fate {
        match &mut self.protocol {
            Protocol::Http1(http1) => {
                if let Some((stream, _)) = http1.stream() {
                    stream.on_pool_gone(io);
                }
            }
            Protocol::Http2(http2) => http2.visit_all(|stream| stream.on_pool_gone(io)),
        }
        self.advance(io)
    }

    /// The drain deadline has passed: answers what was not answered, gives the answers one attempt, and ends.
    pub(in crate::serve) fn cut_off(&mut self, io: &mut Io) -> Fate {
        match &mut self.protocol {
            Protocol::Http1(http1) => {
                if let Some((stream, _)) = http1.stream() {
                    stream.cut_off(io);
                }
            }
            Protocol::Http2(http2) => http2.visit_all(|stream| stream.cut_off(io)),
        }
        // Nobody waits for a slow client any more.
        if self.advance(io) == Fate::Lives {
            self.abort(io);
        }
        Fate::Ended
    }

    /// Makes all steps that can be made now.
    pub(in crate::serve) fn advance(&mut self, io: &mut Io) -> Fate {
        if self.wire.is_broken && !self.goes_on_alone(io) {
            self.abort(io);
            return Fate::Ended;
        }
        self.is_in_line = false;
        let steps = if let Protocol::Http2(_) = self.protocol { HTTP2_STEPS_MAX } else { LINK_STEPS_MAX };
        for _ in 0..steps {
            let step = match &mut self.protocol {
                Protocol::Http1(http1) => http1.step(&mut self.wire, io),
                Protocol::Http2(http2) => http2.step(&mut self.wire, io),
            };
            self.note_handshake(io, false);
            match step {
                ConnectionStep::Again => {}
                ConnectionStep::Close => return self.close(),
                ConnectionStep::Cut => return Fate::Ended,
                ConnectionStep::Upgrade => self.upgrade(io),
                ConnectionStep::Wait => return Fate::Lives,
            }
        }
        // The others first.
        self.line_up(io)
    }

    /// Whether the request is on its way to the gate, and goes there without its client.
    fn goes_on_alone(&mut self, io: &Io) -> bool {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.stream().is_some_and(|(stream, _)| stream.goes_on_alone(io)),
            Protocol::Http2(_) => false,
        }
    }

    /// Waits for the end of the present turn: what else it brings to other streams goes out in the same write.
    fn line_up(&mut self, io: &mut Io) -> Fate {
        if !std::mem::replace(&mut self.is_in_line, true) {
            io.again.push(self.key);
        }
        Fate::Lives
    }

    /// When the present wait is over; `None` while the wait is for the server itself.
    pub(in crate::serve) fn deadline(&self, io: &Io) -> Option<Instant> {
        match &self.protocol {
            Protocol::Http1(http1) => http1.deadline(io),
            Protocol::Http2(http2) => http2.deadline(io),
        }
    }

    /// The entry among the deadlines has come up; the deadline itself may have moved since.
    pub(in crate::serve) fn on_deadline(&mut self, io: &mut Io) -> Fate {
        self.armed.fired();
        if self.deadline(io).is_none_or(|deadline| deadline > io.now) {
            return Fate::Lives;
        }
        let step = match &mut self.protocol {
            Protocol::Http1(http1) => http1.on_deadline(io),
            Protocol::Http2(http2) => http2.on_deadline(io),
        };
        match step {
            ConnectionStep::Close => self.close(),
            ConnectionStep::Cut => Fate::Ended,
            ConnectionStep::Again | ConnectionStep::Upgrade | ConnectionStep::Wait => self.advance(io),
        }
    }

    /// The connection has ended: counts what has not been counted.
    pub(in crate::serve) fn on_closed(&mut self, io: &Io) {
        self.note_handshake(io, true);
    }

    /// Ends the connection so that the client can tell that nothing is missing.
    fn close(&mut self) -> Fate {
        self.wire.transport.send_close_notify();
        Fate::Ended
    }

    /// Counts the handshake once it is over, and keeps what scripts may know of the session.
    fn note_handshake(&mut self, io: &Io, is_last_look: bool) {
        let Some(tls) = self.wire.transport.tls() else { return };
        let Some(outcome) = tls.take_handshake(is_last_look) else { return };
        io.shared.metrics.tls_handshake(outcome);
        match outcome {
            TlsHandshake::Full | TlsHandshake::Resumed => {
                if let Some(facts) = tls.facts() {
                    // Set once: a connection has one handshake.
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

    fn upgrade(&mut self, io: &Io) {
        if let Protocol::Http1(http1) = &mut self.protocol {
            let input = http1.take_input();
            let http2 = Http2::new(self.key, Arc::clone(&self.ends), &input, io.now);
            self.protocol = Protocol::Http2(Box::new(http2));
        }
    }

    /// The connection is of no more use: closes the books.
    fn abort(&mut self, io: &Io) {
        match &mut self.protocol {
            Protocol::Http1(http1) => http1.abort(io),
            Protocol::Http2(http2) => http2.abort(io),
        }
    }
}
