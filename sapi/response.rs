//! Turns the output of a script into the parts of a response.
//!
//! A response that fits in [`RESPONSE_GATHER_MAX`] and is not flushed is sent in one piece with its length. If a script
//! fails before anything was sent, the response is 500 or 504; if it fails later, the response is visibly incomplete. A
//! response that names a file is complete with its head: it ends at the first flush, and output is dropped. A body is
//! compressed if the client accepts it and [`svc_core::compress`] allows it. HTTP encoding is up to the core.
//!
//! ```text
//!   Gathering ──flush, or much output──▶ Streaming ──▶ Ended
//!       └──────────────── the script ends ────────────▲
//! ```

use std::rc::Rc;
use std::sync::Arc;

use svc_core::compress::{CodingDecision, UncodedResponse, decide};
use svc_core::config::Executor;
use svc_core::dev::{DevResponse, Failure};
use svc_core::http::{MethodKind, NamedFile};
use svc_core::limits::RESPONSE_GATHER_MAX;
use svc_core::pool::{End, Exchange, Origin, Recording, RecordingEnd, ResponseHead};

use svc_ffi::{PhpHead, PhpOutcome};

use crate::coded_body::{CodedBody, Urgency};
use crate::response_copy::ResponseCopy;
use crate::response_head::{FieldUse, plain_head, remove_connection_options, response_head};
use crate::thread_context::ThreadContext;

/// The stage of the response; see the diagram of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseStage {
    Gathering,
    Streaming,
    Ended,
}

/// The response of one exchange, written by its script.
#[derive(Debug)]
pub(crate) struct Response {
    exchange: Arc<Exchange>,
    stage: ResponseStage,
    head: Option<ResponseHead>,
    gathered: Vec<u8>,
    /// Whether the method is HEAD: then bytes are counted and discarded.
    counts_only: bool,
    written_bytes: u64,
    /// The body, once it is streamed compressed.
    coded: Option<CodedBody>,
    /// The copy for the response cache, once the head is known.
    copy: Option<Box<ResponseCopy>>,
    /// Development's part in the response.
    development: Option<Box<DevResponse>>,
    /// Whether an error has ended the script, although its process presents the response as complete.
    has_error: bool,
    /// Makes the response one of a failure: an error has ended the script before anything was sent.
    failure: Option<Origin>,
    /// Whether the head was passed on after that failure, so that its status is intended.
    is_head_of_failure: bool,
    thread_context: Rc<ThreadContext>,
}

impl Response {
    /// Begins the response of a claimed exchange, with the context of this thread.
    pub(crate) fn new(exchange: Arc<Exchange>, thread_context: Rc<ThreadContext>) -> Self {
        if let Some(recorder) = &exchange.request.recorder {
            recorder.start();
        }
        Self {
            stage: ResponseStage::Gathering,
            head: None,
            gathered: Vec::new(),
            counts_only: exchange.request.head.method_kind() == MethodKind::Head,
            written_bytes: 0,
            coded: None,
            copy: None,
            development: thread_context.shared.development.as_ref().map(DevResponse::new),
            has_error: false,
            failure: None,
            is_head_of_failure: false,
            exchange,
            thread_context,
        }
    }

    /// Takes over the status and the headers from PHP.
    pub(crate) fn set_head(&mut self, head: &PhpHead<'_>) {
        if self.stage == ResponseStage::Gathering {
            let mut own = response_head(head, FieldUse::of(&self.thread_context.shared.config));
            if self.exchange.request.recorder.is_some() {
                remove_connection_options(head, &mut own.fields);
            }
            self.head = Some(own);
            self.is_head_of_failure = self.failure.is_some();
        }
    }

    /// Sends an informational response.
    #[cfg(feature = "php")]
    pub(crate) fn interim(&self, head: &PhpHead<'_>) {
        if self.stage == ResponseStage::Gathering
            && let Ok(status) = u16::try_from(head.status)
        {
            // A disconnected client needs no interim response.
            let _ = self.exchange.interim(status, response_head(head, FieldUse::default()).fields);
        }
    }

    /// Notes that an error has ended the script, whose output so far follows. If nothing was sent, the response has the
    /// status of a failure, however long it is.
    #[cfg(feature = "php")]
    pub(crate) fn fail_script(&mut self, origin: Origin) {
        if self.stage == ResponseStage::Gathering {
            self.failure = Some(origin);
            self.has_error = true;
        }
    }

    /// Notes a failure of the script, which a server for development shows.
    pub(crate) fn note_failure(&mut self, failure: impl FnOnce() -> Failure) {
        if let Some(development) = &mut self.development {
            development.fail(failure);
        }
    }

    /// Takes output. Returns false if the client is gone.
    pub(crate) fn write(&mut self, output: &[u8]) -> bool {
        self.written_bytes += output.len() as u64;
        match self.stage {
            ResponseStage::Ended => return true,
            // A request whose client left before it started is not aborted by its first output.
            ResponseStage::Gathering if self.exchange.is_gone() && !self.exchange.is_detached() => {
                return false;
            }
            ResponseStage::Gathering | ResponseStage::Streaming => {}
        }
        if self.counts_only || self.names_file() || self.is_replaced() {
            return true;
        }
        self.gathered.extend_from_slice(output);
        self.gathered.len() < RESPONSE_GATHER_MAX || self.hand_over(Urgency::Gather)
    }

    /// Returns whether more output would have to wait for the reader.
    #[cfg(feature = "php")]
    pub(crate) fn is_full(&self) -> bool {
        self.stage == ResponseStage::Streaming && self.exchange.is_full()
    }

    /// Sends the pending output. Returns false if the client is gone.
    pub(crate) fn flush(&mut self) -> bool {
        match self.stage {
            ResponseStage::Ended => true,
            ResponseStage::Gathering if self.is_replaced() => true,
            ResponseStage::Streaming if self.gathered.is_empty() && !self.holds_back() => {
                self.goes_on(!self.exchange.is_gone())
            }
            ResponseStage::Gathering if self.names_file() => {
                self.end(PhpOutcome::Complete);
                self.goes_on(!self.exchange.is_gone())
            }
            ResponseStage::Gathering | ResponseStage::Streaming => self.hand_over(Urgency::Flush),
        }
    }

    /// Completes the response although the script continues.
    #[cfg(feature = "php")]
    pub(crate) fn finish(&mut self) {
        self.end(PhpOutcome::Complete);
    }

    /// Ends the response according to how the script ended. After [`finish`](Self::finish), it does nothing.
    pub(crate) fn end(&mut self, outcome: PhpOutcome) {
        match (std::mem::replace(&mut self.stage, ResponseStage::Ended), outcome) {
            (ResponseStage::Ended, _) => {}
            (ResponseStage::Gathering, PhpOutcome::Aborted) if self.exchange.request.recorder.is_some() => {
                // The client has left, and the output may be cut off.
                ResponseCopy::give_up(&self.exchange, RecordingEnd::ClientLeft);
                self.complete(Origin::Script);
            }
            (ResponseStage::Gathering, PhpOutcome::Complete | PhpOutcome::Aborted) => {
                let is_shown = self.has_error && self.development.is_some();
                let origin = if is_shown { Origin::Fatal } else { Origin::Script };
                self.complete(self.failure.unwrap_or(origin));
            }
            (ResponseStage::Gathering, PhpOutcome::Fatal) => self.complete(Origin::Fatal),
            (ResponseStage::Gathering, PhpOutcome::Lost) => self.complete(Origin::WorkerLost),
            (ResponseStage::Gathering, PhpOutcome::NoScript) => self.leave_to_the_path(),
            (ResponseStage::Gathering, PhpOutcome::TimeLimit) => self.complete(Origin::TimeLimit),
            (ResponseStage::Streaming, outcome) => {
                if outcome == PhpOutcome::Aborted {
                    ResponseCopy::give_up(&self.exchange, RecordingEnd::ClientLeft);
                }
                let is_of_failure =
                    self.failure.is_some() && matches!(outcome, PhpOutcome::Fatal | PhpOutcome::Lost);
                self.end_stream(outcome == PhpOutcome::Complete || is_of_failure);
            }
        }
    }

    /// Ends the response of a script in another process, which does not report how the script has ended. PHP answers with 500
    /// if an error ends a script that has sent nothing, and with nothing else unless the script has written something.
    pub(crate) fn end_foreign(&mut self) {
        let is_blank = self.written_bytes == 0 && !self.counts_only;
        let is_500 = self.head.as_ref().is_some_and(|head| head.status == 500);
        let is_of_error = self.stage == ResponseStage::Gathering && is_500 && (self.has_error || is_blank);
        self.end(if is_of_error { PhpOutcome::Fatal } else { PhpOutcome::Complete });
    }

    /// Ends the response because whatever runs the script has failed: with this status if nothing was sent.
    pub(crate) fn fail(&mut self, status: u16) {
        if self.stage == ResponseStage::Gathering {
            self.head = Some(ResponseHead { status, ..plain_head() });
            self.gathered = Vec::new();
            self.written_bytes = 0;
        }
        self.end(PhpOutcome::Lost);
    }

    /// Notes that an error has ended the script: the response is sent, and not stored.
    /// A server for development shows it instead.
    pub(crate) fn note_error(&mut self, failure: impl FnOnce() -> Failure) {
        self.has_error = true;
        self.note_failure(failure);
    }

    /// Returns whether no part of it has been sent.
    #[cfg(feature = "php")]
    pub(crate) fn is_unsent(&self) -> bool {
        self.stage == ResponseStage::Gathering
    }

    /// Makes the server resolve the path of the request again.
    fn leave_to_the_path(&self) {
        let head = ResponseHead { file: Some(NamedFile::Requested), ..ResponseHead::bare(Origin::Server) };
        // A client that has left gets no response.
        let _ = self.exchange.complete(head, Vec::new());
    }

    /// Returns whether a page about a failure will replace the output. PHP displays the failure too, perhaps at length.
    fn is_replaced(&self) -> bool {
        self.stage == ResponseStage::Gathering
            && self.development.as_ref().is_some_and(|development| development.has_failed())
    }

    /// Returns whether a file replaces the output.
    fn names_file(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.file.is_some())
    }

    /// Returns whether the encoder holds back bytes that the script wrote.
    fn holds_back(&self) -> bool {
        self.coded.as_ref().is_some_and(|body| !body.is_flushed())
    }

    fn hand_over(&mut self, urgency: Urgency) -> bool {
        let bytes = std::mem::take(&mut self.gathered);
        if self.stage == ResponseStage::Streaming {
            return self.send(bytes, urgency);
        }
        self.stage = ResponseStage::Streaming;
        let mut head = self.head.take().unwrap_or_else(plain_head);
        if let Some(origin) = self.failure {
            self.set_origin(&mut head, origin);
        }
        if !self.begin_copy(&head) {
            return self.defer_to_cache();
        }
        if let Some(copy) = &mut self.copy {
            copy.add(&self.exchange, &bytes);
        }
        head.is_streamed = true;
        if let Some(development) = &mut self.development {
            development.begin(&self.exchange.request.head, &mut head, &bytes);
        }
        let verdict = self.decide(&head, head.content_length);
        let (verdict, bytes) = self.begin_body(verdict, &mut head.content_length, bytes, urgency);
        verdict.amend(&mut head.fields);
        let is_read = self.exchange.head(head, bytes).is_ok();
        self.goes_on(is_read)
    }

    /// Sends more of a body whose header was sent. Returns false if the client is gone or the body cannot be continued.
    fn send(&mut self, bytes: Vec<u8>, urgency: Urgency) -> bool {
        if let Some(copy) = &mut self.copy {
            copy.add(&self.exchange, &bytes);
        }
        let Some(body) = &mut self.coded else { return self.goes_on(self.exchange.data(bytes).is_ok()) };
        let piece = body.piece(&bytes, urgency);
        note_coding(&self.exchange, body);
        match piece {
            // The encoder holds it back for now.
            Some(coded) if coded.is_empty() => self.goes_on(!self.exchange.is_gone()),
            Some(coded) => {
                let is_read = self.exchange.data(coded).is_ok();
                self.goes_on(is_read)
            }
            None => false,
        }
    }

    /// Returns whether the script should continue. If the server has already answered with a timeout, output is
    /// discarded, but the client has not left: the time limit ends the script. A script that runs for the cache has no
    /// client.
    fn goes_on(&self, is_read: bool) -> bool {
        is_read || self.exchange.is_overdue() || self.exchange.has_no_client()
    }

    /// Passes the head to the response cache. Returns false if the cache answers instead of the script.
    fn begin_copy(&mut self, head: &ResponseHead) -> bool {
        let Some(recorder) = &self.exchange.request.recorder else { return true };
        let recording = recorder.begin(head);
        self.copy = match recording {
            Recording::UpTo(_) if self.is_of_error(head) => {
                ResponseCopy::give_up(&self.exchange, RecordingEnd::Failed);
                None
            }
            Recording::UpTo(bytes) => Some(Box::new(ResponseCopy::new(head, bytes))),
            Recording::Nothing | Recording::Replaced => None,
        };
        recording != Recording::Replaced
    }

    /// Returns whether an error may have ended the script. A process that logs its errors elsewhere does not report them,
    /// but PHP sends 500 unless it displays them (php_error_cb in php-src main/main.c).
    fn is_of_error(&self, head: &ResponseHead) -> bool {
        self.has_error || (self.is_of_other_process() && head.status == 500)
    }

    /// Returns whether the length of the body for GET is unknown: PHP in another process writes no body for HEAD.
    fn has_unknown_length(&self, head: &ResponseHead, origin: Origin) -> bool {
        self.counts_only
            && self.written_bytes == 0
            && head.content_length.is_none()
            && origin == Origin::Script
            && self.is_of_other_process()
    }

    fn is_of_other_process(&self) -> bool {
        self.thread_context.shared.config.serving.executor == Executor::Fastcgi
    }

    /// Makes the server send a stored response. Further output is dropped.
    fn defer_to_cache(&mut self) -> bool {
        self.stage = ResponseStage::Ended;
        self.gathered = Vec::new();
        // A client that has left gets no response.
        let _ = self.exchange.complete(ResponseHead::replaced(), Vec::new());
        true
    }

    /// Ends a body whose header was sent. If the script failed, the body stays incomplete.
    fn end_stream(&mut self, is_complete: bool) {
        let mut rest = std::mem::take(&mut self.gathered);
        if let Some(mut copy) = self.copy.take() {
            copy.add(&self.exchange, &rest);
            copy.end(&self.exchange, is_complete && !self.has_error);
        }
        if let Some(development) = &mut self.development {
            rest.extend(development.end(&self.exchange.request, is_complete && !self.has_error));
        }
        let (rest, is_whole) = match self.coded.take() {
            None => (rest, is_complete),
            Some(mut body) => {
                let ended = body.end(&rest, is_complete);
                note_coding(&self.exchange, &body);
                self.thread_context.encoders.borrow_mut().put(body.into_encoder());
                ended
            }
        };
        let is_sent = rest.is_empty() || self.exchange.data(rest).is_ok();
        self.exchange.end(if is_whole && is_sent { End::Complete } else { End::Broken });
    }

    /// Sets the origin of the response. After a failure, the status is at least 500, and the file and the length that the script
    /// has set do not apply. If a shutdown function has set a lower status, the response counts as the script's own.
    fn set_origin(&self, head: &mut ResponseHead, origin: Origin) {
        head.origin = origin;
        if origin == Origin::Script {
            return;
        }
        head.file = None;
        head.content_length = None;
        let is_script_s = self.is_head_of_failure && head.status < 500 && self.development.is_none();
        if is_script_s && origin != Origin::TimeLimit {
            head.origin = Origin::Script;
            return;
        }
        let status = if origin == Origin::TimeLimit { 504 } else { head.status.max(500) };
        if status != head.status {
            head.status = status;
            head.reason = None;
        }
    }

    fn complete(&mut self, origin: Origin) {
        let mut head = self.head.take().unwrap_or_else(plain_head);
        self.set_origin(&mut head, origin);
        if head.origin != Origin::Script && self.counts_only && self.written_bytes > 0 {
            // Not empty, so the server sends no page in its place.
            head.content_length = Some(self.written_bytes);
        }
        if let Some(development) = self.development.as_mut().filter(|_| origin != Origin::Script) {
            development.replace(&self.exchange.request, &mut head, &mut self.gathered);
            self.written_bytes = self.gathered.len() as u64;
        }
        if !self.begin_copy(&head) {
            self.defer_to_cache();
            return;
        }
        if let Some(mut copy) = self.copy.take() {
            copy.add(&self.exchange, &self.gathered);
            if copy.end(&self.exchange, true) {
                self.defer_to_cache();
                return;
            }
        }
        if head.file.is_some() {
            // The coding and the length are those of the file.
            let _ = self.exchange.complete(head, Vec::new());
            return;
        }
        let is_unknown = self.has_unknown_length(&head, origin);
        let mut body = std::mem::take(&mut self.gathered);
        if let Some(development) = self.development.as_ref().filter(|_| origin == Origin::Script) {
            self.written_bytes += development.complete(&self.exchange.request.head, &mut head, &mut body);
        }
        let length = head.content_length.unwrap_or(self.written_bytes);
        let mut verdict = self.decide(&head, (!is_unknown).then_some(length));
        if is_unknown && verdict.coding().is_some() {
            verdict = CodingDecision::Varies;
        } else if verdict.coding().is_some() && !self.counts_only {
            match self.coded_whole(verdict, &body, length) {
                Some(coded) => {
                    head.content_length = Some(coded.len() as u64);
                    body = coded;
                }
                None => verdict = CodingDecision::Varies,
            }
        } else if verdict.coding().is_some() {
            // The body was not compressed, so its length is unknown.
            head.content_length = None;
            head.is_streamed |= head.origin != Origin::Script;
        }
        if head.origin == Origin::Script && verdict.coding().is_none() && !head.is_streamed && !is_unknown {
            head.content_length.get_or_insert(self.written_bytes);
        }
        verdict.amend(&mut head.fields);
        if verdict.coding().is_some() && !self.counts_only {
            self.exchange.note_coded(length, body.len() as u64);
        }
        // The client has disconnected, so the response is lost.
        let _ = self.exchange.complete(head, body);
    }

    fn decide(&self, head: &ResponseHead, length: Option<u64>) -> CodingDecision {
        // The page that a 304 stands for was not generated.
        let length = length.filter(|_| head.status != 304);
        let subject = UncodedResponse { status: head.status, fields: &head.fields, length };
        decide(
            &self.exchange.request.head,
            subject,
            &self.thread_context.encoders.borrow().levels().for_pages(),
        )
    }

    /// Begins a streamed body. Returns the decision and the first bytes to send: without memory for an encoder, they are
    /// sent uncompressed.
    fn begin_body(
        &mut self,
        verdict: CodingDecision,
        announced: &mut Option<u64>,
        bytes: Vec<u8>,
        urgency: Urgency,
    ) -> (CodingDecision, Vec<u8>) {
        let CodingDecision::Coded(coding) = verdict else { return (verdict, bytes) };
        if self.counts_only {
            *announced = None;
            return (verdict, bytes);
        }
        let begun = self.thread_context.encoders.borrow_mut().take(coding).ok().and_then(|encoder| {
            let mut body = CodedBody::new(encoder, *announced);
            let first = body.piece(&bytes, urgency)?;
            Some((body, first))
        });
        let Some((body, first)) = begun else { return (CodingDecision::Varies, bytes) };
        self.exchange.note_coded(0, 0);
        note_coding(&self.exchange, &body);
        self.coded = Some(body);
        *announced = None;
        (verdict, first)
    }

    /// Compresses a complete response. Returns nothing if it is not as long as its script announced, because the client
    /// can detect that only from the length.
    fn coded_whole(&mut self, verdict: CodingDecision, body: &[u8], length: u64) -> Option<Vec<u8>> {
        let coding = verdict.coding().filter(|_| body.len() as u64 == length)?;
        let mut whole = CodedBody::new(self.thread_context.encoders.borrow_mut().take(coding).ok()?, None);
        let (coded, is_complete) = whole.end(body, true);
        self.thread_context.encoders.borrow_mut().put(whole.into_encoder());
        is_complete.then_some(coded)
    }
}

/// Records how much the compression saved, if the encoder holds nothing back.
fn note_coding(exchange: &Exchange, body: &CodedBody) {
    if body.is_flushed() {
        let (before, after) = body.lengths();
        exchange.note_coded(before, after);
    }
}
