//! HTTP/1 on one connection: heads and bodies in, responses out.
//!
//! Promises: requests are answered one after the other, in order; what a client sends ahead waits unread, so it is
//! bounded; a body is read only when it will be used; a client that waits for `100 Continue` hears it then and not
//! before, or hears the refusal instead. Refuses: it does not look at what a request means; see
//! [`stream`](crate::serve::request::stream).
//!
//! ```text
//!   Head ──complete, malformed, late──▶ Serving ──kept──▶ Head
//!                                          │
//!                                          └──closing──▶ Lingering
//! ```

use std::time::Instant;

use crate::http::method::wants_head_only;
use crate::http::preface;
use crate::http::{
    Framing, HeadLimits, HeadReader, Parsed, Persistence, RequestLine, ResponseHead, Version, encode,
};
use crate::limits::{FIRST_BYTE_GRACE, LINGER_BYTES_MAX, LINGER_TIMEOUT};
use crate::pool::{End, StreamKey};
use crate::sync::primitive::Arc;
use crate::time;

use super::step::ConnectionStep;
use crate::serve::disk::file_job::Job;
use crate::serve::io_thread::io::Io;
use crate::serve::net::output::{Flushed, Output};
use crate::serve::net::wire::{Got, Wire};
use crate::serve::request::answer::Answer;
use crate::serve::request::body_reader::BodyReader;
use crate::serve::request::endpoints::Endpoints;
use crate::serve::request::meta::Began;
use crate::serve::request::reply::Frame;
use crate::serve::request::stream::{Announced, Incoming, Stream, StreamStep};

/// A connection that speaks HTTP/1.
#[derive(Debug)]
pub(in crate::serve) struct Http1 {
    key: StreamKey,
    ends: Arc<Endpoints>,
    /// What came and has not been used.
    input: Vec<u8>,
    output: Output,
    reader: HeadReader,
    state: State,
    /// The connection ends with the present response.
    closes: bool,
    /// The client may still be sending what belongs to the present request.
    has_unread: bool,
    /// The body of the request before, which nobody needs.
    leftover: Option<Leftover>,
    /// The same of a request after which the connection ends, if its framing can be told.
    remnant: Option<BodyReader>,
    /// At least one request was answered.
    has_served: bool,
    /// When the first byte of the present head came.
    began: Began,
    /// Since when the present wait lasts.
    since: Instant,
    /// When output last made progress, or began to wait.
    output_since: Instant,
    /// The wire holds back what it took from the output.
    is_held_back: bool,
    /// How much of it the session has taken, and not yet given to the socket.
    held_back: usize,
}

/// What the connection is busy with; see the diagram above.
#[derive(Debug)]
enum State {
    /// Between requests, or within a head.
    Head,
    /// A request is being served.
    Serving(Box<Stream>),
    /// Everything is sent; what the client still sends is thrown away.
    Lingering {
        /// How much was thrown away.
        bytes: u64,
    },
}

/// A body that is thrown away after the answer to its request.
#[derive(Debug)]
struct Leftover {
    body_reader: BodyReader,
    /// How much was thrown away.
    bytes: u64,
}

/// Input buffers up to this size are kept between requests, in bytes.
const INPUT_SPARE_BYTES: usize = 4096;

impl Http1 {
    /// Starts before the first byte.
    pub(in crate::serve) fn new(connection: u64, ends: Arc<Endpoints>, now: Instant) -> Self {
        Self {
            key: StreamKey { connection, stream: 0 },
            ends,
            input: Vec::new(),
            output: Output::default(),
            reader: HeadReader::new(HeadLimits::main_port()),
            state: State::Head,
            closes: false,
            has_unread: false,
            leftover: None,
            remnant: None,
            has_served: false,
            began: (now, std::time::SystemTime::UNIX_EPOCH),
            since: now,
            output_since: now,
            is_held_back: false,
            held_back: 0,
        }
    }

    /// Takes a step.
    pub(in crate::serve) fn step(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        match self.state {
            State::Head => self.step_head(wire, io),
            State::Serving(_) => self.step_stream(wire, io),
            State::Lingering { .. } => self.step_linger(wire, io),
        }
    }

    /// The request that is being served.
    pub(in crate::serve) fn stream(&mut self) -> Option<(&mut Stream, &mut Output)> {
        match &mut self.state {
            State::Serving(stream) => Some((stream, &mut self.output)),
            State::Head | State::Lingering { .. } => None,
        }
    }

    /// What came and has not been used, for another protocol.
    pub(in crate::serve) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// When the present wait is over; `None` while the wait is for the server itself.
    pub(in crate::serve) fn deadline(&self, io: &Io) -> Option<Instant> {
        let config = &io.shared.config;
        if self.waits_for_reader() {
            return Some(self.output_since + config.write_timeout);
        }
        match &self.state {
            State::Head if self.leftover.is_some() => Some(self.since + config.body_timeout),
            State::Head if self.is_silent() && io.shared.lifecycle.is_closing() => {
                Some(self.since + config.header_timeout.min(FIRST_BYTE_GRACE))
            }
            State::Head if self.has_begun() || !self.has_served => Some(self.since + config.header_timeout),
            State::Head => Some(self.since + config.keepalive_timeout),
            State::Serving(stream) => stream.deadline(io),
            State::Lingering { .. } => Some(self.since + LINGER_TIMEOUT),
        }
    }

    /// The deadline has passed.
    pub(in crate::serve) fn on_deadline(&mut self, io: &mut Io) -> ConnectionStep {
        if self.waits_for_reader() {
            return self.give_up(io);
        }
        let is_within_head = self.leftover.is_none() && self.has_begun();
        match &mut self.state {
            State::Head if is_within_head => self.refuse_unread(io, Answer::plain(408)),
            State::Head | State::Lingering { .. } => return ConnectionStep::Close,
            State::Serving(stream) => stream.on_deadline(io),
        }
        ConnectionStep::Again
    }

    /// The connection is of no more use: closes the books on what was served.
    pub(in crate::serve) fn abort(&mut self, io: &Io) {
        if let State::Serving(stream) = std::mem::replace(&mut self.state, State::Lingering { bytes: 0 }) {
            let unsent = self.output.len() + self.held_back;
            let sent = stream.reply_bytes().saturating_sub(unsent as u64);
            stream.abort(io, sent);
        }
    }

    fn give_up(&mut self, io: &Io) -> ConnectionStep {
        self.abort(io);
        ConnectionStep::Cut
    }

    /// Whether something waits until the client reads.
    fn waits_for_reader(&self) -> bool {
        !self.output.is_empty() || self.is_held_back
    }

    /// Reads and parses a head.
    fn step_head(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        if self.leftover.is_some() {
            return self.step_leftover(wire, io);
        }
        if self.has_begun() && wire.transport.is_misled() {
            self.refuse_unread(io, Answer::tls_expected());
            return ConnectionStep::Again;
        }
        let agreed = wire.transport.agrees_on_http2();
        if self.has_begun() && agreed == Some(true) {
            // Who does not begin with the preface then hears of it from there.
            return ConnectionStep::Upgrade;
        }
        let may_upgrade = !self.has_served && agreed.is_none();
        if self.has_begun() && !(may_upgrade && preface::is_preface_or_part(&self.input)) {
            match self.reader.read(&self.input) {
                Ok(Parsed::Partial) => {}
                Ok(Parsed::Complete { head, length, framing, keep_alive, expect_continue }) => {
                    self.consume(length);
                    let incoming = Incoming { head, framing, keep_alive, expects_continue: expect_continue };
                    let stream = Stream::begin(io, self.key, &self.ends, self.began, incoming);
                    self.state = State::Serving(Box::new(stream));
                    return ConnectionStep::Again;
                }
                Err(error) => {
                    self.refuse_unread(io, Answer::plain(error.status()));
                    return ConnectionStep::Again;
                }
            }
        } else if may_upgrade && preface::is_preface(&self.input) {
            return ConnectionStep::Upgrade;
        }
        let is_ending = !self.has_begun() && io.shared.lifecycle.is_closing();
        // The poller may not have told yet what came before the closing.
        wire.is_readable |= is_ending;
        match wire.read(&mut io.scratch) {
            Got::Bytes(count) => {
                if !self.has_begun() {
                    self.began = clocks();
                    self.since = self.began.0;
                }
                self.input.extend_from_slice(&io.scratch[..count]);
                ConnectionStep::Again
            }
            Got::End => ConnectionStep::Close,
            Got::Nothing if is_ending && (self.has_served || io.now >= self.since + FIRST_BYTE_GRACE) => {
                ConnectionStep::Close
            }
            Got::Nothing => ConnectionStep::Wait,
        }
    }

    /// Throws the rest of a body away that nobody needed; one that is too long costs the connection.
    fn step_leftover(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        if self.input.is_empty() {
            match wire.read(&mut io.scratch) {
                Got::Bytes(count) => self.input.extend_from_slice(&io.scratch[..count]),
                Got::End => return ConnectionStep::Close,
                Got::Nothing => return ConnectionStep::Wait,
            }
        }
        let Some(leftover) = &mut self.leftover else { return ConnectionStep::Again };
        let Ok((used, body_bytes)) = leftover.body_reader.discard(&self.input) else {
            return ConnectionStep::Close;
        };
        leftover.bytes += body_bytes as u64;
        let (is_read, bytes) = (leftover.body_reader.is_read(), leftover.bytes);
        io.shared.metrics.request_bytes_received(body_bytes as u64);
        self.consume(used);
        self.since = io.now;
        if bytes > LINGER_BYTES_MAX {
            return ConnectionStep::Close;
        }
        if is_read {
            self.leftover = None;
            self.began = clocks();
        }
        ConnectionStep::Again
    }

    /// Lets the present request take a step, and does what it needs.
    fn step_stream(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        let was_waiting = self.waits_for_reader();
        let State::Serving(stream) = &mut self.state else { return ConnectionStep::Again };
        stream.is_deserted = wire.is_peer_closed || wire.is_broken;
        self.output.set_sends_files(wire.transport.can_send_files());
        if stream.unwanted.is_some() {
            self.skip_body(io);
            return ConnectionStep::Again;
        }
        let next = stream.step(io, &mut self.output);
        if !was_waiting {
            self.output_since = io.now;
        }
        match next {
            StreamStep::Again => ConnectionStep::Again,
            StreamStep::Announce(announced) => {
                self.announce(io, &announced);
                ConnectionStep::Again
            }
            StreamStep::Bytes => self.read_body(wire, io),
            StreamStep::End(end) => match self.flush(wire, io) {
                Some(Flushed::All) => self.finish(wire, io, end),
                Some(Flushed::Some(_)) => ConnectionStep::Wait,
                None => self.give_up(io),
            },
            StreamStep::Interim(status, fields) => {
                if stream.meta.version != Version::Http10 {
                    self.output.append(|out| encode::encode_interim(out, status, &fields));
                }
                ConnectionStep::Again
            }
            StreamStep::Lost => self.give_up(io),
            StreamStep::Room => match self.flush(wire, io) {
                Some(Flushed::All) => ConnectionStep::Again,
                Some(Flushed::Some(_)) => ConnectionStep::Wait,
                None => self.give_up(io),
            },
            StreamStep::Wait => self.flush_and_wait(wire, io),
        }
    }

    /// Writes what waits, as far as the system takes it; `None` when the connection is of no more use.
    fn flush(&mut self, wire: &mut Wire, io: &Io) -> Option<Flushed> {
        let flushed = wire.flush(&mut self.output).ok()?;
        self.is_held_back = flushed != Flushed::All;
        if matches!(flushed, Flushed::Some(count) if count > 0) {
            self.output_since = io.now;
        }
        self.held_back = wire.transport.held_back();
        if let State::Serving(stream) = &mut self.state {
            stream.note_unsent(self.output.len());
        }
        if let Some((file, offset, len)) = self.output.take_cold() {
            io.order(Job::Warm(file, offset, len), self.key);
        }
        Some(flushed)
    }

    fn flush_and_wait(&mut self, wire: &mut Wire, io: &Io) -> ConnectionStep {
        if self.flush(wire, io).is_none() { self.give_up(io) } else { ConnectionStep::Wait }
    }

    /// Throws away what is here of a body that nobody needs; the rest goes after the answer, unless only the end of
    /// the connection makes clear whether there is a rest.
    fn skip_body(&mut self, io: &Io) {
        let State::Serving(stream) = &mut self.state else { return };
        let Some(unwanted) = stream.unwanted.take() else { return };
        let mut body_reader = unwanted.body_reader;
        let discarded = body_reader.discard(&self.input);
        let mut remnant = None;
        if discarded.is_ok() && body_reader.is_read() {
            // The whole body was here.
        } else if discarded.is_ok() && !unwanted.is_doubtful {
            self.leftover = Some(Leftover { body_reader, bytes: 0 });
        } else {
            stream.meta.keep_alive = false;
            self.has_unread = true;
            remnant = Some(body_reader);
        }
        if let Ok((used, body_bytes)) = discarded {
            io.shared.metrics.request_bytes_received(body_bytes as u64);
            self.consume(used);
            self.remnant = remnant;
        }
    }

    fn read_body(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        let State::Serving(stream) = &mut self.state else { return ConnectionStep::Again };
        if !self.input.is_empty() {
            let used = stream.take_body(io, &self.input);
            self.consume(used);
            return ConnectionStep::Again;
        }
        match wire.read(&mut io.scratch) {
            Got::Bytes(count) => {
                let scratch = std::mem::take(&mut io.scratch);
                let used = stream.take_body(io, &scratch[..count]);
                // What belongs to the next request is kept.
                self.input.extend_from_slice(&scratch[used..count]);
                io.scratch = scratch;
                ConnectionStep::Again
            }
            Got::End => self.give_up(io),
            Got::Nothing => {
                if stream.takes_continue() && stream.meta.version != Version::Http10 {
                    self.output.append(|out| out.extend_from_slice(encode::CONTINUE));
                    self.output_since = io.now;
                }
                self.flush_and_wait(wire, io)
            }
        }
    }

    /// Encodes the head of the response and fixes how the body goes out.
    fn announce(&mut self, io: &mut Io, announced: &Announced) {
        let State::Serving(stream) = &mut self.state else { return };
        let Announced { status, reason, fields, length, has_body } = announced;
        let meta = &stream.meta;
        let framing = Framing::choose(*status, *length, meta.version, meta.head_only);
        let keeps = meta.keep_alive && framing != Framing::UntilClose && !io.shared.lifecycle.is_closing();
        let date = *io.date.at(time::wall());
        self.output.append(|out| {
            let head = ResponseHead { status: *status, reason: reason.as_deref(), fields };
            let connection = if keeps { Persistence::Keep } else { Persistence::Close };
            encode::encode_head(out, &head, framing, connection, meta.version, &date);
        });
        self.closes = !keeps;
        stream.begin_body(match framing {
            _ if !has_body => Frame::Absent,
            Framing::None => Frame::Absent,
            Framing::Length(left) => Frame::Length { left },
            Framing::Chunked => Frame::Chunked,
            Framing::UntilClose => Frame::Bare,
        });
    }

    /// The response is out: closes the books, then the connection or the request.
    fn finish(&mut self, wire: &mut Wire, io: &Io, end: End) -> ConnectionStep {
        if let State::Serving(stream) = std::mem::replace(&mut self.state, State::Head) {
            self.has_unread |= stream.is_cut_short;
            let sent = stream.reply_bytes();
            stream.finish(io, sent);
        }
        self.since = io.now;
        if self.has_begun() {
            // The next request was sent ahead; it begins now.
            self.began = clocks();
            self.since = self.began.0;
        }
        self.has_served = true;
        if !self.closes && end == End::Complete {
            return ConnectionStep::Again;
        }
        let has_unread =
            self.has_unread || wire.is_readable || !self.input.is_empty() || self.leftover.is_some();
        let is_whole = end == End::Complete;
        if !has_unread || (wire.is_peer_closed && !wire.is_readable) {
            return if is_whole { ConnectionStep::Close } else { ConnectionStep::Cut };
        }
        if is_whole {
            wire.transport.send_close_notify();
        }
        // Closing with unread input would make the system reset the connection, and the client lose the answer.
        wire.transport.shut_down();
        self.state = State::Lingering { bytes: 0 };
        ConnectionStep::Again
    }

    /// Answers a request that could not be read, and closes.
    fn refuse_unread(&mut self, io: &mut Io, answer: Answer) {
        let answer = (answer, wants_head_only(&self.input), RequestLine::find(&self.input));
        let stream = Stream::unreadable(io, self.key, &self.ends, self.began, answer);
        self.has_unread = true;
        self.state = State::Serving(Box::new(stream));
    }

    /// Throws away what the client still sends, so that it can read the answer before it sees the end.
    fn step_linger(&mut self, wire: &mut Wire, io: &mut Io) -> ConnectionStep {
        let State::Lingering { bytes } = &mut self.state else { return ConnectionStep::Close };
        match wire.read(&mut io.scratch) {
            Got::Bytes(count) => {
                *bytes += count as u64;
                if let Some(remnant) = &mut self.remnant
                    && let Ok((_, body_bytes)) = remnant.discard(&io.scratch[..count])
                {
                    io.shared.metrics.request_bytes_received(body_bytes as u64);
                }
                if *bytes > LINGER_BYTES_MAX { ConnectionStep::Close } else { ConnectionStep::Again }
            }
            Got::End => ConnectionStep::Close,
            Got::Nothing => ConnectionStep::Wait,
        }
    }

    /// Whether a part of a head is there.
    fn has_begun(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether nothing at all has come.
    fn is_silent(&self) -> bool {
        !self.has_begun() && !self.has_served
    }

    /// Cuts `count` used bytes off the input, and gives memory back once it is empty.
    fn consume(&mut self, count: usize) {
        self.input.drain(..count);
        if self.input.is_empty() && self.input.capacity() > INPUT_SPARE_BYTES {
            self.input = Vec::new();
        }
    }
}

/// Reads both clocks.
fn clocks() -> Began {
    (time::now(), time::wall())
}
