//! A task being run by PHP.
//!
//! The task is settled exactly once, however its code ends. Its output is discarded and counted. Messages from PHP are
//! logged under the ID of the request that dispatched it. Results and exceptions are opaque here.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use svc_core::config::RuntimeHook;
use svc_core::http::Traceparent;
use svc_core::observe::HookObstacle;
use svc_core::pool::Claim;
use svc_core::tasks::{Task, TaskOutcome};
use svc_core::time;

use svc_ffi::{CachePurge, Host, LogSource, Pairs, Payload, PhpLog, PhpOutcome, ScriptSpans, WorkerRequest};

use crate::cgi;
use crate::running_request::{RecordOrigin, write_log};
use crate::script_spans::OpenSpans;
use crate::task_answer::TaskAnswer;
use crate::thread_context::ThreadContext;
use crate::variables::Variables;

/// One task on its thread.
#[derive(Debug)]
pub(crate) struct RunningTask {
    task: Arc<Task>,
    claim: Claim<Task>,
    /// The payload of the dispatch; kept to the end, because objects in it may be in use until then.
    input: Option<Box<Payload>>,
    /// The last fatal message, which explains a missing result.
    last_fatal: String,
    /// The spans of the task, once it has created any.
    spans: Option<OpenSpans>,
    thread_context: Rc<ThreadContext>,
}

impl RunningTask {
    /// Takes over a task that the thread has claimed.
    pub(crate) fn new(claim: Claim<Task>, thread_context: &Rc<ThreadContext>) -> Self {
        let task = Arc::clone(claim.job());
        let input = task.take_input().and_then(|payload| payload.downcast::<Payload>().ok());
        claim.run();
        let thread_context = Rc::clone(thread_context);
        Self { task, claim, input, last_fatal: String::new(), spans: None, thread_context }
    }

    /// Returns the trace position of work in this span; 0 is the span that dispatched the task.
    fn place(&self, span: u64) -> Option<Traceparent> {
        let root = self.task.trace()?;
        let span = self.spans.as_ref().map_or(root.span_id, |spans| spans.span_id(span)).get();
        Some(Traceparent::new(root.trace_id.get(), span, root.flags))
    }

    /// Returns why there is no result.
    fn why_lost(&mut self, outcome: PhpOutcome) -> String {
        match outcome {
            PhpOutcome::Complete | PhpOutcome::Aborted => "the task has ended without a result".to_owned(),
            PhpOutcome::Fatal | PhpOutcome::Lost | PhpOutcome::TimeLimit | PhpOutcome::NoScript
                if self.last_fatal.is_empty() =>
            {
                "the task has ended by a fatal error".to_owned()
            }
            PhpOutcome::Fatal | PhpOutcome::Lost | PhpOutcome::TimeLimit | PhpOutcome::NoScript => {
                std::mem::take(&mut self.last_fatal)
            }
        }
    }
}

impl WorkerRequest for RunningTask {
    fn task(&self) -> Option<u64> {
        Some(self.task.id())
    }

    fn input(&self) -> Option<&Payload> {
        self.input.as_deref()
    }

    fn leave_cache(&mut self) {
        if let Some(input) = &mut self.input {
            input.leave_cache();
        }
    }

    fn settle(&mut self, answer: Payload, thrown: Option<&[u8]>) {
        let outcome = match thrown {
            None => TaskOutcome::Completed(Box::new(TaskAnswer::Result(answer))),
            Some(what) => {
                let what = String::from_utf8_lossy(what).into_owned();
                TaskOutcome::Failed(Box::new(TaskAnswer::Thrown(answer, what)))
            }
        };
        self.task.settle(outcome);
    }

    fn is_cancelled(&self) -> bool {
        self.task.is_cancelled()
    }

    fn parks(&mut self) {
        self.claim.park();
    }

    fn resumes(&mut self) {
        self.claim.run();
    }

    fn blocks(&mut self, hook: RuntimeHook, obstacle: HookObstacle) {
        self.thread_context.shared.metrics.hook_blocked.incr(hook, obstacle);
    }

    fn waited_for_connection(&mut self, wait: Duration) {
        self.thread_context.shared.metrics.connection_waited(wait);
    }

    fn ended(&mut self, outcome: PhpOutcome) {
        if self.task.outcome().is_none() {
            let why = self.why_lost(outcome);
            self.task.settle(TaskOutcome::Failed(Box::new(TaskAnswer::Lost(why))));
        }
        if let Some(spans) = &mut self.spans {
            spans.end_all(time::now());
        }
        self.claim.finish();
    }
}

impl Host for RunningTask {
    fn write(&mut self, output: &[u8]) -> bool {
        if let Some(tasks) = &self.thread_context.shared.tasks {
            tasks.discard_output(output.len() as u64);
        }
        true
    }

    fn variables(&mut self, out: &mut Pairs) {
        let config = &self.thread_context.shared.config;
        let mut out = Variables::new(&config.php.server_variables, out);
        cgi::task_variables(self.thread_context.document_root(), &mut out);
    }

    fn request_id(&mut self) -> &[u8] {
        self.task.request_id().as_bytes()
    }

    fn purge(&mut self, purge: CachePurge<'_>) -> Option<u64> {
        crate::purge::purge(self.thread_context.shared.cache.as_deref(), purge, None)
    }

    fn log(&mut self, record: &PhpLog<'_>) {
        if is_fatal(record.source) {
            self.last_fatal = String::from_utf8_lossy(record.message).into_owned();
        }
        let whose =
            RecordOrigin { request_id: Some(self.task.request_id()), traceparent: self.place(record.span) };
        write_log(&self.thread_context.shared.log, record, whose);
    }

    fn spans(&mut self) -> Option<&mut dyn ScriptSpans> {
        if self.spans.is_none() {
            let root = self.task.trace()?.clone();
            self.spans = Some(OpenSpans::of_task(root, self.thread_context.shared.tracer.as_ref()));
        }
        self.spans.as_mut().map(|spans| spans as &mut dyn ScriptSpans)
    }
}

/// Returns whether PHP ends the script with this message: `E_ERROR`, `E_CORE_ERROR`, `E_COMPILE_ERROR`, `E_USER_ERROR`,
/// `E_RECOVERABLE_ERROR`, `E_PARSE`.
fn is_fatal(source: LogSource) -> bool {
    const FATAL: i32 = 1 | 4 | 16 | 64 | 256 | 4096;
    matches!(source, LogSource::Error(kind) if kind & FATAL != 0)
}
