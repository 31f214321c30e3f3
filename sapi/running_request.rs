//! An exchange being run by PHP.
//!
//! The output of a script goes only to its exchange. Messages from PHP become log records with PHP's level, file and
//! line. The type does not depend on the thread or fiber of the script.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use svc_core::config::RuntimeHook;
use svc_core::dev::Failure;
use svc_core::http::{Traceparent, Version, ip_text};
use svc_core::observe::{Event, HookObstacle, Log, PhpLevel, PhpMessage};
use svc_core::pool::{Claim, Exchange, Origin, Script};
use svc_core::time;
use svc_core::trace::{RequestPart, SpanContext, SpanStatus};

use svc_ffi::{
    CachePurge, Host, LogSource, Pairs, PhpHead, PhpOutcome, PhpRequest, ScriptFailure, ScriptLevel,
    ScriptSpans, WorkerRequest,
};

use crate::cgi;
use crate::response::Response;
use crate::script_spans::{OpenSpans, ParkWatch};
use crate::thread_context::ThreadContext;
use crate::variables::Variables;

/// One exchange being run by PHP.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    exchange: Arc<Exchange>,
    /// The script of the request, or the one found when its path was resolved again.
    script: Arc<Script>,
    response: Response,
    /// The claim of a persistent worker, held until all of the request has ended.
    claim: Option<Claim<Exchange>>,
    body_read: u64,
    target: Vec<u8>,
    client: String,
    /// The spans of the script, once it has created any.
    spans: Option<OpenSpans>,
    park_watch: ParkWatch,
    /// The run has ended.
    has_ended: bool,
    thread_context: Rc<ThreadContext>,
}

impl RunningRequest {
    /// Begins the response of a claimed exchange.
    pub(crate) fn new(exchange: &Arc<Exchange>, thread_context: &Rc<ThreadContext>) -> Self {
        if let Some(span) = &exchange.request.span {
            span.note(|notes| notes.worker_id = Some(thread_context.slot));
        }
        Self {
            exchange: Arc::clone(exchange),
            script: Arc::clone(&exchange.request.script),
            response: Response::new(Arc::clone(exchange), Rc::clone(thread_context)),
            claim: None,
            body_read: 0,
            target: Vec::new(),
            client: String::new(),
            spans: None,
            park_watch: ParkWatch::default(),
            has_ended: false,
            thread_context: Rc::clone(thread_context),
        }
    }

    /// Retries after [`PhpOutcome::NoScript`] with the script that now handles the path; `None` if there is none, or if
    /// a part of the response has been sent.
    pub(crate) fn with_present_script(&self) -> Option<Self> {
        if !self.response.is_unsent() {
            return None;
        }
        let script = self.thread_context.shared.find_script(&self.exchange.request.head)?;
        Some(Self { script, ..Self::new(&self.exchange, &self.thread_context) })
    }

    /// Returns the running script.
    pub(crate) fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script)
    }

    /// Begins the response of an exchange that a persistent worker has claimed.
    pub(crate) fn of_claim(claim: Claim<Exchange>, thread_context: &Rc<ThreadContext>) -> Self {
        let mut running = Self::new(claim.job(), thread_context);
        claim.run();
        running.claim = Some(claim);
        running
    }

    /// Ends the response according to how the script ended.
    pub(crate) fn end(&mut self, outcome: PhpOutcome) {
        // Taken before the response is sent, so that the request does not end before its child spans.
        let ended_at = self.exchange.request.span.as_ref().map(|_| time::now());
        self.response.end(outcome);
        if let Some(ended_at) = ended_at.filter(|_| !std::mem::replace(&mut self.has_ended, true)) {
            self.end_spans(outcome, ended_at);
        }
    }

    /// Exports the span of the run, and the spans that the script left open.
    fn end_spans(&mut self, outcome: PhpOutcome, ended_at: Instant) {
        let Some(own) = &self.exchange.request.span else { return };
        let began = self.exchange.offered_at + self.exchange.waited().unwrap_or_default();
        let mut run = own.part(RequestPart::PhpRun, began, ended_at);
        if let Some(spans) = &mut self.spans {
            spans.end_all(ended_at);
            spans.record_run(&mut run);
        }
        if !matches!(outcome, PhpOutcome::Complete | PhpOutcome::Aborted) {
            run.status = SpanStatus::Error(Cow::Borrowed(""));
        }
        own.tracer().offer(&run);
    }

    /// Returns the trace position of work in this span; 0 is the span of the request.
    fn place(&self, span: u64) -> Option<Traceparent> {
        let trace = self.exchange.request.trace.as_ref()?;
        let span = self.spans.as_ref().map_or(trace.span_id(), |spans| spans.span_id(span).get());
        Some(Traceparent::new(trace.trace_id(), span, trace.flags()))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        match self.exchange.request.body.read_at(buffer, offset) {
            Ok(count) => count,
            Err(error) => {
                self.thread_context
                    .shared
                    .log
                    .emit(&Event::Failure { what: &format!("cannot read a spooled request body: {error}") });
                0
            }
        }
    }
}

/// Describes an exchange as a PHP request that runs `script`.
pub(crate) fn with_description<T>(
    exchange: &Exchange,
    script: &Script,
    run: impl FnOnce(&PhpRequest<'_>) -> T,
) -> T {
    let request = &exchange.request;
    let cookies = cgi::cookies(&request.head);
    let uri = match &script.path_info[..] {
        [] => Cow::Borrowed(&script.name[..]),
        path_info => Cow::Owned([&script.name[..], path_info].concat()),
    };
    let since_epoch = request.received_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    run(&PhpRequest {
        number: exchange.serial(),
        method: request.head.method().as_bytes(),
        uri: &uri,
        query: request.head.path_and_query().1.unwrap_or_default(),
        content_type: request.head.header("content-type"),
        cookies: cookies.as_deref(),
        authorization: request.head.header("authorization").unwrap_or_default(),
        script: &script.filename,
        script_file: &script.real_path,
        folder: &script.folder,
        content_length: request.body.len(),
        protocol: match request.head.version() {
            Version::Http10 => 1000,
            Version::Http11 => 1001,
            Version::Http2 => 2000,
        },
        time: since_epoch.as_secs_f64(),
    })
}

impl Host for RunningRequest {
    fn write(&mut self, output: &[u8]) -> bool {
        self.response.write(output)
    }

    fn is_gone(&self) -> bool {
        // A script that runs for the response cache alone has no client that could leave.
        self.exchange.is_gone() && !self.exchange.has_no_client()
    }

    fn is_full(&self) -> bool {
        self.response.is_full()
    }

    fn flush(&mut self) -> bool {
        self.response.flush()
    }

    fn send_head(&mut self, head: &PhpHead<'_>) {
        self.response.set_head(head);
    }

    fn send_interim(&mut self, head: &PhpHead<'_>) {
        self.response.interim(head);
    }

    fn finish(&mut self) {
        self.response.finish();
    }

    fn fail(&mut self, failure: &ScriptFailure<'_>) {
        if let Some(spans) = self.spans() {
            spans.fail(failure);
        }
        self.response.note_failure(|| failure_of(failure));
    }

    fn failed(&mut self, is_lost: bool) {
        self.response.fail_script(if is_lost { Origin::WorkerLost } else { Origin::Fatal });
    }

    fn time_limit(&mut self) {
        self.response.end(PhpOutcome::TimeLimit);
    }

    fn read_body(&mut self, buffer: &mut [u8]) -> usize {
        let count = self.read_at(buffer, self.body_read);
        self.body_read += count as u64;
        count
    }

    fn read_body_at(&mut self, buffer: &mut [u8], offset: u64) -> usize {
        self.read_at(buffer, offset)
    }

    fn target(&mut self) -> &[u8] {
        if self.target.is_empty() {
            self.target = self.exchange.request.head.request_uri().into_owned();
        }
        &self.target
    }

    fn client(&mut self) -> &[u8] {
        if self.client.is_empty() {
            self.client = ip_text(self.exchange.request.client.ip());
        }
        self.client.as_bytes()
    }

    fn variables(&mut self, out: &mut Pairs) {
        let set = &self.thread_context.shared.config.php.server_variables;
        cgi::variables(&self.exchange.request, &self.script, &mut Variables::new(set, out));
    }

    fn fields(&mut self, out: &mut Pairs) {
        for (name, value) in cgi::joined_fields(&self.exchange.request) {
            out.push(name, &value);
        }
    }

    fn request_id(&mut self) -> &[u8] {
        self.exchange.request.request_id.as_bytes()
    }

    fn purge(&mut self, purge: CachePurge<'_>) -> Option<u64> {
        crate::purge::purge(self.thread_context.shared.cache.as_deref(), purge, Some(&self.exchange.request))
    }

    fn log(&mut self, record: &svc_ffi::PhpLog<'_>) {
        // A debugger may replace the error hook that reports failures.
        if is_fatal(record.source) {
            self.response.note_failure(|| Failure::of_message(record.message, record.file, record.line));
        }
        let whose = RecordOrigin {
            request_id: Some(&self.exchange.request.request_id),
            traceparent: self.place(record.span),
        };
        write_log(&self.thread_context.shared.log, record, whose);
    }

    fn spans(&mut self) -> Option<&mut dyn ScriptSpans> {
        if self.spans.is_none() {
            let request = &self.exchange.request;
            let root = request.trace.as_ref().and_then(SpanContext::of)?;
            self.spans = Some(OpenSpans::of_request(root, request.span.as_ref()));
        }
        self.spans.as_mut().map(|spans| spans as &mut dyn ScriptSpans)
    }

    fn ends(&mut self, outcome: PhpOutcome) {
        self.end(outcome);
    }
}

impl WorkerRequest for RunningRequest {
    fn parks(&mut self) {
        if self.exchange.request.span.is_some() {
            self.park_watch.parks();
        }
        if let Some(claim) = &self.claim {
            claim.park();
        }
    }

    fn resumes(&mut self) {
        if let Some(span) = &self.exchange.request.span {
            let parked = self.park_watch.resumes();
            span.note(|notes| notes.parked += parked);
        }
        if let Some(claim) = &self.claim {
            claim.run();
        }
    }

    fn blocks(&mut self, hook: RuntimeHook, obstacle: HookObstacle) {
        self.thread_context.shared.metrics.hook_blocked.incr(hook, obstacle);
    }

    fn waited_for_connection(&mut self, wait: Duration) {
        self.thread_context.shared.metrics.connection_waited(wait);
    }

    fn ended(&mut self, outcome: PhpOutcome) {
        self.end(outcome);
        if let Some(claim) = &mut self.claim {
            claim.finish();
        }
    }
}

/// Returns the failure as development shows it.
pub(crate) fn failure_of(failure: &ScriptFailure<'_>) -> Failure {
    Failure::new(failure.class, failure.message, failure.trace)
}

/// Returns whether the message is that of an error which ends the script.
pub(crate) fn is_fatal(source: LogSource) -> bool {
    matches!(source, LogSource::Error(_)) && level(source) == PhpLevel::Error
}

/// The origin of a message from PHP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordOrigin<'a> {
    /// The request, if there is one.
    pub(crate) request_id: Option<&'a str>,
    /// The span of that request, if it is traced.
    pub(crate) traceparent: Option<Traceparent>,
}

/// Logs a message from PHP.
pub(crate) fn write_log(log: &Log, record: &svc_ffi::PhpLog<'_>, origin: RecordOrigin<'_>) {
    log.emit(&Event::PhpMessage(PhpMessage {
        level: level(record.source),
        message: record.message,
        context: (!record.context.is_empty()).then_some(record.context),
        file: (!record.file.is_empty()).then_some(record.file),
        line: (record.line > 0).then_some(record.line),
        request_id: origin.request_id,
        traceparent: origin.traceparent,
    }));
}

/// Returns PHP's name of a level, from the `E_` constants and syslog's priorities.
pub(crate) fn level(source: LogSource) -> PhpLevel {
    const WARNINGS: i32 = 2 | 32 | 128 | 512;
    const NOTICES: i32 = 8 | 1024 | 2048;
    const DEPRECATED: i32 = 8192 | 16384;
    match source {
        LogSource::Error(kind) if kind & WARNINGS != 0 => PhpLevel::Warning,
        LogSource::Error(kind) if kind & NOTICES != 0 => PhpLevel::Notice,
        LogSource::Error(kind) if kind & DEPRECATED != 0 => PhpLevel::Deprecated,
        LogSource::Error(_) => PhpLevel::Error,
        LogSource::Message(0..=3) => PhpLevel::Error,
        LogSource::Message(4) => PhpLevel::Warning,
        LogSource::Message(_) => PhpLevel::Notice,
        LogSource::Script(ScriptLevel::Error) => PhpLevel::Error,
        LogSource::Script(ScriptLevel::Warning) => PhpLevel::Warning,
        LogSource::Script(ScriptLevel::Info) => PhpLevel::Info,
        LogSource::Script(ScriptLevel::Debug) => PhpLevel::Debug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_php_s_own() {
        assert_eq!(level(LogSource::Error(1)), PhpLevel::Error);
        assert_eq!(level(LogSource::Error(256)), PhpLevel::Error);
        assert_eq!(level(LogSource::Error(512)), PhpLevel::Warning);
        assert_eq!(level(LogSource::Error(8)), PhpLevel::Notice);
        assert_eq!(level(LogSource::Error(16384)), PhpLevel::Deprecated);
        assert_eq!(level(LogSource::Message(5)), PhpLevel::Notice);
    }
}
