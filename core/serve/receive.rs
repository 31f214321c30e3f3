//! Receiving: heads and bodies, and the answers to those that are no good.
//!
//! Promises: a body is read only when it will be used; a client that waits for `100 Continue` hears it then and not
//! before, or hears the refusal instead. Refuses: it does not look at what a request means.

use crate::http::method::wants_head_only;
use crate::http::{BodyDecoder, BodyError, BodyFraming, Head, MethodKind, Parsed, Version, encode};
use crate::limits::{FIRST_BYTE_GRACE, LINGER_BYTES_MAX};

use super::answer::{Answer, METHODS};
use super::disk::{Done, Job};
use super::intake::{Intake, Need};
use super::io::Io;
use super::link::{Got, Link, Pending, Phase, Step, clocks};
use super::turn::Turn;

impl Link {
    /// Reads and parses a head.
    pub(super) fn step_head(&mut self, io: &mut Io) -> Step {
        if self.leftover.is_some() {
            return self.step_leftover(io);
        }
        if self.has_begun() {
            match self.reader.read(&self.input) {
                Ok(Parsed::Partial) => {}
                Ok(Parsed::Complete { head, length, framing, keep_alive, expect_continue }) => {
                    self.consume(length);
                    self.begin_turn(io, head, framing, keep_alive, expect_continue);
                    return Step::Again;
                }
                Err(error) => {
                    self.refuse_unread(io, error.status());
                    return Step::Again;
                }
            }
        }
        let is_ending = !self.has_begun() && io.shared.lifecycle.is_closing();
        // The poller may not have told yet what came before the closing.
        self.is_readable |= is_ending;
        match self.read(io) {
            Got::Bytes(count) => {
                if !self.has_begun() {
                    self.began = clocks();
                    self.since = self.began.0;
                }
                self.input.extend_from_slice(&io.scratch[..count]);
                Step::Again
            }
            Got::End => Step::Close,
            Got::Nothing if is_ending && (self.has_served || io.now >= self.since + FIRST_BYTE_GRACE) => {
                Step::Close
            }
            Got::Nothing => Step::Wait,
        }
    }

    /// Throws the rest of a body away that nobody needed; one that is too long costs the connection.
    fn step_leftover(&mut self, io: &mut Io) -> Step {
        if self.input.is_empty() {
            match self.read(io) {
                Got::Bytes(count) => self.input.extend_from_slice(&io.scratch[..count]),
                Got::End => return Step::Close,
                Got::Nothing => return Step::Wait,
            }
        }
        let Some(leftover) = &mut self.leftover else { return Step::Again };
        let Ok((used, body_bytes)) = leftover.intake.discard(&self.input) else { return Step::Close };
        leftover.bytes += body_bytes as u64;
        let (is_read, bytes) = (leftover.intake.is_read(), leftover.bytes);
        io.shared.metrics.request_bytes_received(body_bytes as u64);
        self.consume(used);
        self.since = io.now;
        if bytes > LINGER_BYTES_MAX {
            return Step::Close;
        }
        if is_read {
            self.leftover = None;
            self.began = clocks();
        }
        Step::Again
    }

    fn begin_turn(
        &mut self,
        io: &mut Io,
        head: Head,
        framing: BodyFraming,
        keep_alive: bool,
        expects_continue: bool,
    ) {
        let method = head.method_kind();
        io.shared.metrics.request_received(method);
        let request_id = io.ids.name(head.header("x-request-id"));
        let config = &io.shared.config;
        let body_bytes_max =
            if method == MethodKind::Query { config.max_query_body } else { config.max_body_bytes };
        let answer = answer_to_method(&head);
        self.turn = Some(Turn::new(head, request_id, keep_alive, self.began));
        let intake = match BodyDecoder::new(framing, body_bytes_max) {
            Ok(decoder) => Intake::new(decoder),
            Err(_) => return self.refuse(413),
        };
        let pending = Pending { intake, script: None, expects_continue };
        match answer {
            Some(answer) => self.answer_before_body(io, answer, pending),
            None => self.find(io, pending),
        }
    }

    /// Reads the body of a request for PHP.
    pub(super) fn step_body(&mut self, io: &mut Io) -> Step {
        let Phase::Body(pending) = &mut self.phase else { return Step::Again };
        match pending.intake.next() {
            Need::Bytes => self.read_body(io),
            Need::Disk => Step::Wait,
            Need::Nothing(body) => {
                let script = pending.script.take();
                self.offer(io, script, body);
                Step::Again
            }
            Need::Room => {
                io.starved.push(self.key);
                Step::Wait
            }
            Need::Spool(file, bytes) => {
                let job = Job::Append(io.shared.spool.clone(), file, bytes);
                io.disk.order(job, self.key, &io.inbox);
                Step::Wait
            }
        }
    }

    fn read_body(&mut self, io: &mut Io) -> Step {
        let used = if self.input.is_empty() {
            match self.read(io) {
                Got::Bytes(count) => self.take_body(io, count),
                Got::End => {
                    self.lose(io);
                    return Step::Close;
                }
                Got::Nothing => return self.ask_for_body(io),
            }
        } else {
            let ahead = std::mem::take(&mut self.input);
            let used = self.take_from(io, &ahead);
            self.input = ahead;
            used.map(|count| self.consume(count))
        };
        match used {
            Ok(()) => {
                self.since = io.now;
                Step::Again
            }
            Err(BodyError::TooLarge) => {
                self.refuse(413);
                Step::Again
            }
            Err(_) => {
                self.refuse(400);
                Step::Again
            }
        }
    }

    /// Takes body bytes from the io thread's buffer; what belongs to the next request is kept.
    fn take_body(&mut self, io: &mut Io, count: usize) -> Result<(), BodyError> {
        let scratch = std::mem::take(&mut io.scratch);
        let used = self.take_from(io, &scratch[..count]);
        if let Ok(used) = used
            && used < count
        {
            self.input.extend_from_slice(&scratch[used..count]);
        }
        io.scratch = scratch;
        used.map(|_| ())
    }

    fn take_from(&mut self, io: &Io, bytes: &[u8]) -> Result<usize, BodyError> {
        let Phase::Body(pending) = &mut self.phase else { return Ok(0) };
        let (used, body_bytes) = pending.intake.take(bytes)?;
        pending.expects_continue = false;
        io.shared.metrics.request_bytes_received(body_bytes as u64);
        Ok(used)
    }

    /// Tells a client that waits for it that its body is wanted.
    fn ask_for_body(&mut self, io: &mut Io) -> Step {
        let is_old = self.turn.as_ref().is_none_or(|turn| turn.version == Version::Http10);
        let Phase::Body(pending) = &mut self.phase else { return Step::Again };
        if std::mem::take(&mut pending.expects_continue) && !is_old {
            self.output.append(|out| out.extend_from_slice(encode::CONTINUE));
            self.output_since = io.now;
        }
        if self.flush(io).is_err() {
            self.lose(io);
            return Step::Close;
        }
        Step::Wait
    }

    /// Takes the result of a file thread.
    pub(super) fn take_disk(&mut self, io: &mut Io, done: Done) -> Step {
        match (&mut self.phase, done) {
            (Phase::Body(pending), Done::Appended(file, buffer)) => {
                pending.intake.spooled(file, buffer);
                self.since = io.now;
            }
            (Phase::Body(pending), Done::Refused(file, bytes, error)) => {
                let may_retry = pending.intake.refused(file, bytes, &error);
                if !may_retry {
                    self.refuse(503);
                }
            }
            (Phase::Finding(_), Done::Found(path, found)) => self.found(io, path, found),
            (Phase::Replying(reply), Done::Slice(Ok(bytes))) => reply.sliced(bytes, &mut self.output),
            (Phase::Replying(reply), Done::Slice(Err(_)) | Done::Failed) => reply.fail(),
            (Phase::Body(_) | Phase::Finding(_), Done::Failed) => self.refuse(500),
            // The link went on without the result.
            _ => {}
        }
        Step::Again
    }

    /// There may be room in the spool again.
    pub(super) fn retry_spool(&mut self) {
        if let Phase::Body(pending) = &mut self.phase {
            pending.intake.retry();
        }
    }

    /// Answers a request that could not be read, and closes.
    pub(super) fn refuse_unread(&mut self, io: &mut Io, status: u16) {
        io.shared.metrics.request_received(MethodKind::Other);
        let mut turn = Turn::unread(io.ids.name(None), self.began);
        turn.head_only = wants_head_only(&self.input);
        self.turn = Some(turn);
        self.has_unread = true;
        self.answer(Answer::plain(status));
    }

    /// Answers the present request with an error before its body was read, and closes.
    pub(super) fn refuse(&mut self, status: u16) {
        if let Some(turn) = &mut self.turn {
            turn.keep_alive = false;
        }
        self.has_unread = true;
        self.answer(Answer::plain(status));
    }
}

/// The answer to a request whose method decides it.
fn answer_to_method(head: &Head) -> Option<Answer> {
    match head.method_kind() {
        MethodKind::Connect => Some(Answer::not_allowed(METHODS)),
        MethodKind::Other if head.method() == "TRACE" => Some(Answer::not_allowed(METHODS)),
        MethodKind::Options if head.target() == b"*" => Some(Answer::options(METHODS)),
        _ => None,
    }
}
