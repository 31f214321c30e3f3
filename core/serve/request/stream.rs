//! One request on a connection, from its head to its place in the books, whatever the protocol.
//!
//! Promises: it takes its steps when it is told that something has come, and says what it needs; each request ends in
//! the books exactly once. Refuses: it knows no socket and no framing of messages: HTTP/1 carries one stream after the
//! other ([`http1`](crate::serve::connection::http1)), HTTP/2 many at a time ([`http2`](crate::serve::connection::http2)).
//!
//! ```text
//!   Finding ──script──▶ Body ──complete──▶ Replying ──▶ (its connection closes the books)
//!      └──file, error──────────────────────▶ │
//! ```
//!
//! The steps of each phase are in `body_reader`, `dispatch` and `respond`; the end of it all is in `books`.

use std::time::Instant;

use bytes::Bytes;

use crate::http::{BodyDecoder, BodyError, BodyFraming, Fields, Head, MethodKind, RequestLine};
use crate::pool::{End, Script, StreamKey};
use crate::sync::primitive::Arc;

use super::answer::{Answer, METHODS};
use super::body_reader::{BodyReader, BodyStep};
use super::client_context::ClientContext;
use super::endpoints::Endpoints;
use super::meta::{Began, RequestMeta};
use super::reply::Reply;
use crate::serve::disk::file_job::{Done, Job};
use crate::serve::io_thread::io::Io;
use crate::serve::net::output::Output;

/// One request that is being served.
#[derive(Debug)]
pub(in crate::serve) struct Stream {
    /// What other threads call it.
    pub(in crate::serve) key: StreamKey,
    /// Whose request it is.
    pub(in crate::serve) ends: Arc<Endpoints>,
    pub(in crate::serve) meta: RequestMeta,
    pub(in crate::serve) phase: Phase,
    /// The worker has parts that were not collected.
    pub(in crate::serve) has_parts: bool,
    /// The client will not read an answer that is yet to be made.
    pub(in crate::serve) is_deserted: bool,
    /// Since when the present wait lasts.
    pub(in crate::serve) since: Instant,
    /// The body that nobody needs, until the connection has taken it away.
    pub(in crate::serve) unwanted: Option<Unwanted>,
    /// It was refused before its body was read; the client may still be sending.
    pub(in crate::serve) is_cut_short: bool,
}

/// What a stream is busy with; see the diagram above.
#[derive(Debug)]
pub(in crate::serve) enum Phase {
    /// A file thread finds out what answers.
    Finding(Pending),
    /// Its body is read for PHP.
    Body(Pending),
    /// The answer is being made or sent.
    Replying(Reply),
}

/// What is known about a request before it is offered to the pool.
#[derive(Debug)]
pub(in crate::serve) struct Pending {
    pub(in crate::serve) body_reader: BodyReader,
    /// What runs, once that has been found.
    pub(in crate::serve) script: Option<Arc<Script>>,
    /// The client waits for `100 Continue`.
    pub(in crate::serve) expects_continue: bool,
}

/// A body that nobody needs.
#[derive(Debug)]
pub(in crate::serve) struct Unwanted {
    pub(in crate::serve) body_reader: BodyReader,
    /// It may or may not come: the client has asked whether to send it, or it is refused in the middle of it.
    pub(in crate::serve) is_doubtful: bool,
}

/// A request as its connection read it.
#[derive(Debug)]
pub(in crate::serve) struct Incoming {
    pub(in crate::serve) head: Head,
    pub(in crate::serve) framing: BodyFraming,
    pub(in crate::serve) keep_alive: bool,
    pub(in crate::serve) expects_continue: bool,
}

/// What a step leads to.
#[derive(Debug)]
pub(in crate::serve) enum StreamStep {
    /// Another step.
    Again,
    /// The head of the response is to be encoded; then [`Stream::begin_body`].
    Announce(Announced),
    /// Bytes of the body, by [`Stream::take_body`].
    Bytes,
    /// The reply has ended like this and is in the output.
    End(End),
    /// An informational response is to be encoded.
    Interim(u16, Fields),
    /// The client is gone: [`Stream::abort`].
    Lost,
    /// Room in the output.
    Room,
    /// A message or a deadline.
    Wait,
}

/// The head of a response, framing aside.
#[derive(Debug)]
pub(in crate::serve) struct Announced {
    /// The status code, 200 to 999.
    pub(in crate::serve) status: u16,
    /// A phrase of the script's own.
    pub(in crate::serve) reason: Option<Vec<u8>>,
    /// The fields, without those of the connection.
    pub(in crate::serve) fields: Fields,
    /// The length of the body, or of the one that a `GET` would have; `None` when it is not known.
    pub(in crate::serve) length: Option<u64>,
    /// Whether the body's bytes follow.
    pub(in crate::serve) has_body: bool,
}

impl Phase {
    /// A worker is to fill the reply.
    pub(in crate::serve) fn awaiting() -> Self {
        Self::Replying(Reply::default())
    }
}

impl Stream {
    /// Begins with a request that was read.
    pub(in crate::serve) fn begin(
        io: &mut Io,
        key: StreamKey,
        ends: &Arc<Endpoints>,
        began: Began,
        incoming: Incoming,
    ) -> Self {
        let Incoming { head, framing, keep_alive, expects_continue } = incoming;
        let method = head.method_kind();
        io.shared.metrics.request_received(method);
        let client_context = ClientContext::of(io, ends, &head);
        let too_many = client_context.must_wait().map(Answer::too_many);
        if too_many.is_some() {
            io.shared.metrics.rate_limited();
        }
        let mut wishes = head.header_values("x-request-id");
        let request_id = io.ids.name(wishes.next().filter(|_| wishes.next().is_none()));
        drop(wishes);
        let config = &io.shared.config;
        let body_bytes_max =
            if method == MethodKind::Query { config.max_query_body } else { config.max_body_bytes };
        let is_limited = too_many.is_some();
        let answer = too_many.or_else(|| answer_to_method(&head));
        let mut stream = Self::of(
            key,
            ends,
            began.0,
            RequestMeta::new(head, request_id, client_context, keep_alive, began),
        );
        let Ok(decoder) = BodyDecoder::new(framing, body_bytes_max) else {
            stream.refuse_with(answer.filter(|_| is_limited).unwrap_or_else(|| Answer::plain(413)));
            let decoder = BodyDecoder::new(framing, u64::MAX).ok();
            stream.unwanted =
                decoder.map(|decoder| Unwanted { body_reader: BodyReader::new(decoder), is_doubtful: true });
            return stream;
        };
        let pending = Pending { body_reader: BodyReader::new(decoder), script: None, expects_continue };
        match answer {
            Some(answer) => stream.answer_before_body(answer, pending),
            None => stream.find(io, pending),
        }
        stream
    }

    /// Begins with a request that cannot be read, but perhaps its first line, and answers it; its connection is of no more use then.
    pub(in crate::serve) fn unreadable(
        io: &mut Io,
        key: StreamKey,
        ends: &Arc<Endpoints>,
        began: Began,
        (answer, head_only, line): (Answer, bool, Option<RequestLine>),
    ) -> Self {
        io.shared.metrics.request_received(MethodKind::Other);
        let mut meta = RequestMeta::unread(io.ids.name(None), line, ClientContext::unread(io, ends), began);
        meta.head_only = head_only;
        let mut stream = Self::of(key, ends, began.0, meta);
        stream.answer(answer);
        stream
    }

    fn of(key: StreamKey, ends: &Arc<Endpoints>, since: Instant, meta: RequestMeta) -> Self {
        Self {
            key,
            ends: Arc::clone(ends),
            meta,
            phase: Phase::awaiting(),
            has_parts: false,
            is_deserted: false,
            since,
            unwanted: None,
            is_cut_short: false,
        }
    }

    /// Takes a step.
    pub(in crate::serve) fn step(&mut self, io: &mut Io, output: &mut Output) -> StreamStep {
        match self.phase {
            Phase::Finding(_) => StreamStep::Wait,
            Phase::Body(_) => self.step_body(io),
            Phase::Replying(_) => self.step_reply(io, output),
        }
    }

    fn step_body(&mut self, io: &mut Io) -> StreamStep {
        let Phase::Body(pending) = &mut self.phase else { return StreamStep::Again };
        match pending.body_reader.next() {
            BodyStep::Bytes => StreamStep::Bytes,
            BodyStep::Disk => StreamStep::Wait,
            BodyStep::Nothing(body) => {
                let script = pending.script.take();
                self.offer(io, script, body);
                StreamStep::Again
            }
            BodyStep::Room => {
                io.starved.push(self.key);
                StreamStep::Wait
            }
            BodyStep::Spool(file, bytes) => {
                let job = Job::Append(io.shared.spool.clone(), file, bytes);
                io.order(job, self.key);
                StreamStep::Wait
            }
        }
    }

    /// Takes bytes of the body, after [`StreamStep::Bytes`]; returns how many of them belong to it. A body that is no good
    /// is answered.
    pub(in crate::serve) fn take_body(&mut self, io: &Io, bytes: &[u8]) -> usize {
        let Phase::Body(pending) = &mut self.phase else { return 0 };
        match pending.body_reader.take(bytes) {
            Ok((used, body_bytes)) => {
                pending.expects_continue = false;
                io.shared.metrics.request_bytes_received(body_bytes as u64);
                self.since = io.now;
                used
            }
            Err(error) => {
                self.refuse(if error == BodyError::TooLarge { 413 } else { 400 });
                0
            }
        }
    }

    /// Whether it goes on until it is offered although its client is gone: it is to run if it has come whole. What is
    /// missing of its body does not come, which ends it.
    pub(in crate::serve) fn goes_on_alone(&self, io: &Io) -> bool {
        matches!(self.phase, Phase::Finding(_) | Phase::Body(_))
            && self.meta.outlives_client(io.shared.config.abandoned_requests)
    }

    /// Something of the body is on its way that cannot be taken yet.
    pub(in crate::serve) fn note_body_progress(&mut self, now: Instant) {
        if let Phase::Body(_) = self.phase {
            self.since = now;
        }
    }

    /// The body has ended, in a protocol that tells so by itself.
    pub(in crate::serve) fn end_body(&mut self) {
        if let Phase::Body(pending) = &mut self.phase {
            pending.body_reader.end();
        }
    }

    /// Whether the client is to be told that its body is wanted; true once.
    pub(in crate::serve) fn takes_continue(&mut self) -> bool {
        let Phase::Body(pending) = &mut self.phase else { return false };
        std::mem::take(&mut pending.expects_continue)
    }

    /// Takes the result of a file thread.
    pub(in crate::serve) fn take_disk(&mut self, io: &mut Io, output: &mut Output, done: Done) {
        match (&mut self.phase, done) {
            (Phase::Body(pending), Done::Appended(file, buffer)) => {
                pending.body_reader.spooled(file, buffer);
                self.since = io.now;
            }
            (Phase::Body(pending), Done::Refused(file, bytes, error)) => {
                let may_retry = pending.body_reader.refused(file, bytes, &error);
                if !may_retry {
                    self.refuse(503);
                }
            }
            (Phase::Finding(_), Done::Found(path, found)) => self.found(io, path, found),
            (Phase::Replying(reply), Done::Slice(Ok(bytes))) => reply.sliced(bytes, output),
            (Phase::Replying(reply), Done::Slice(Err(_)) | Done::Failed) => reply.fail(),
            (Phase::Replying(_), Done::Warmed) => output.warmed(),
            (Phase::Body(_) | Phase::Finding(_), Done::Failed) => self.refuse(500),
            // The stream went on without the result.
            _ => {}
        }
    }

    /// There may be room in the spool again.
    pub(in crate::serve) fn retry_spool(&mut self) {
        if let Phase::Body(pending) = &mut self.phase {
            pending.body_reader.retry();
        }
    }

    /// The output has so many bytes left that have not been sent.
    pub(in crate::serve) fn note_unsent(&mut self, output_bytes: usize) {
        if let Phase::Replying(reply) = &mut self.phase {
            reply.note_unsent(output_bytes);
        }
    }

    /// Bytes from the output go to somebody who keeps them for a while.
    pub(in crate::serve) fn lend(&mut self, bytes: Bytes) -> Bytes {
        if let Phase::Replying(reply) = &mut self.phase { reply.lend(bytes) } else { bytes }
    }

    /// When the present wait is over; `None` while the wait is for the server itself, or for the output to be read.
    pub(in crate::serve) fn deadline(&self, io: &Io) -> Option<Instant> {
        match &self.phase {
            Phase::Body(pending) if !pending.body_reader.is_spooling() => {
                Some(self.since + io.shared.config.body_timeout)
            }
            Phase::Body(_) | Phase::Finding(_) => None,
            Phase::Replying(_) => {
                let exchange = self.meta.exchange()?;
                exchange.deadline.filter(|_| exchange.is_unclaimed())
            }
        }
    }

    /// The deadline has passed.
    pub(in crate::serve) fn on_deadline(&mut self, io: &mut Io) {
        match &self.phase {
            Phase::Body(pending) => {
                let status = if pending.body_reader.is_starved() { 503 } else { 408 };
                self.refuse(status);
            }
            Phase::Replying(_) => self.on_wait_over(io),
            Phase::Finding(_) => {}
        }
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
