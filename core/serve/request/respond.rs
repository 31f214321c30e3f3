//! Responding: the parts of a reply become the head of a response and bytes in the output.
//!
//! Promises: what a connection is told to announce is what follows. Refuses: it makes no answer of its own beyond the
//! page of an error that has none; how a head is encoded is the protocol's affair.

use crate::files::EVERYTHING_ELSE;
use crate::http::status::is_bodiless;
use crate::http::uri;
use crate::policy::error_pages::ERROR_PAGE_TYPE;
use crate::pool::{Origin, Part, ReplyHead};

use super::answer::{Answer, PAGE_TYPE, page};
use super::reply::{Frame, ReplyStep};
use super::stream::{Announced, Phase, Stream, StreamStep, Unwanted};
use crate::serve::disk::file_job::Job;
use crate::serve::io_thread::io::Io;
use crate::serve::net::output::Output;

impl Stream {
    /// Starts to send `answer` as the response.
    pub(in crate::serve) fn answer(&mut self, answer: Answer) {
        self.phase = Phase::Replying(answer.into_reply());
    }

    /// Answers with an error before the body was read; the connection is of no more use then.
    pub(in crate::serve) fn refuse(&mut self, status: u16) {
        self.refuse_with(Answer::plain(status));
    }

    /// The same, with this answer.
    pub(in crate::serve) fn refuse_with(&mut self, answer: Answer) {
        self.meta.keep_alive = false;
        self.is_cut_short = true;
        if let Phase::Body(pending) | Phase::Finding(pending) =
            std::mem::replace(&mut self.phase, Phase::awaiting())
        {
            let body_reader = pending.body_reader.unwanted();
            self.unwanted = Some(Unwanted { body_reader, is_doubtful: true });
        }
        self.answer(answer);
    }

    /// Puts what there is of the reply into `output`.
    pub(in crate::serve) fn step_reply(&mut self, io: &mut Io, output: &mut Output) -> StreamStep {
        let Phase::Replying(reply) = &mut self.phase else { return StreamStep::Again };
        match reply.pump(output) {
            ReplyStep::Disk => StreamStep::Wait,
            ReplyStep::End(end) => StreamStep::End(end),
            ReplyStep::Head(head, length) => {
                self.announce(io, head, length).map_or(StreamStep::Again, StreamStep::Announce)
            }
            ReplyStep::Interim(status, fields) => StreamStep::Interim(status, fields),
            ReplyStep::Parts if std::mem::take(&mut self.has_parts) => {
                if let Some(exchange) = self.meta.exchange() {
                    reply.collect(exchange);
                }
                StreamStep::Again
            }
            ReplyStep::Parts if self.is_deserted => StreamStep::Lost,
            ReplyStep::Parts => StreamStep::Wait,
            ReplyStep::Room => StreamStep::Room,
            ReplyStep::Slice(source, offset, len) => {
                match source.slice_now(offset, len) {
                    Some(bytes) => reply.sliced(bytes, output),
                    None => io.order(Job::Slice(source, offset, len), self.key),
                }
                StreamStep::Again
            }
        }
    }

    /// The head has been encoded; the body goes out like this.
    pub(in crate::serve) fn begin_body(&mut self, frame: Frame) {
        if let Phase::Replying(reply) = &mut self.phase {
            reply.begin_body(frame);
        }
    }

    /// Fixes status, fields and length of the response.
    fn announce(&mut self, io: &mut Io, mut head: ReplyHead, mut length: Option<u64>) -> Option<Announced> {
        let Phase::Replying(reply) = &mut self.phase else { return None };
        let meta = &mut self.meta;
        let status = if (200..=999).contains(&head.status) { head.status } else { 500 };
        meta.ending.head_goes_out(status, head.origin, &io.shared.metrics);
        let is_servers = !matches!(head.origin, Origin::Script | Origin::Server);
        if let Some(page) = io.rules.error_pages.page(status).filter(|_| head.origin != Origin::Script) {
            length = Some(page.len() as u64);
            reply.replace_body(page);
            let typed = head.fields.set(b"Content-Type", ERROR_PAGE_TYPE);
            debug_assert!(typed.is_ok(), "the server's own fields are valid");
            // It told of the bytes that were replaced.
            head.fields.remove(b"Content-Encoding");
        } else if is_servers && length == Some(0) && !is_bodiless(status) {
            let page = page(status);
            length = Some(page.len() as u64);
            reply.parts().push_front(Part::Data(page));
            let typed = head.fields.set(b"Content-Type", PAGE_TYPE);
            debug_assert!(typed.is_ok(), "the server's own fields are valid");
        }
        if meta.head_only && length == Some(0) && head.content_length.is_none() {
            // The script left its body out; its length is unknown.
            length = None;
        }
        let resets_content = status == 205;
        if resets_content {
            length = Some(0);
        }
        // A request's name is made of bytes that a field may have.
        let _ = head.fields.set(b"X-Request-ID", meta.request_id().as_bytes());
        meta.client_context.tell(io, &mut head.fields);
        if !head.fields.contains(b"server") {
            let _ = head.fields.push(b"Server", b"svc");
        }
        let has_body = !meta.head_only && !is_bodiless(status) && !resets_content;
        if has_body && meta.coding().is_some() && head.fields.contains(b"content-encoding") {
            meta.is_coded = true;
            io.shared.metrics.response_coded();
        }
        if matches!(head.origin, Origin::Fatal | Origin::WorkerLost) {
            self.forget_route(io);
        }
        Some(Announced { status, reason: head.reason, fields: head.fields, length, has_body })
    }

    /// Lets the next request for the same path look for its script anew: this one may have failed because its script
    /// is no longer there.
    fn forget_route(&self, io: &mut Io) {
        if let Some(head) = self.meta.head()
            && let Ok(normalised) = uri::normalise(head.path_and_query().0)
        {
            io.routes.forget(&normalised.path);
            io.routes.forget(EVERYTHING_ELSE);
        }
    }
}
