//! A task thread: PHP that boots once and runs many tasks, each in a fiber.
//!
//! A cancelled task is notified whatever it is doing. After a fatal error, a thread completes its other tasks before it
//! ends. The pool assigns tasks to threads.

use std::rc::Rc;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use svc_core::pool::{
    Claim, Engine, OpcacheFacts, PersistentWorker, Started, ThreadProbe, WorkerContext, WorkerExit,
    WorkerStartError,
};
use svc_core::sync::counter::Flag;
use svc_core::sync::idle_workers::Wake;
use svc_core::tasks::{Task, TaskThread};
use svc_core::time;
use svc_serve::Shared;

use svc_ffi::{
    Host, Interpreter, Interrupter, Pairs, PhpFacts, PhpLog, PhpOutcome, PhpRequest, RequestProgress,
    Threads, WorkerInfo, WorkerRequests,
};

use crate::boot_messages::BootMessages;
use crate::cgi;
use crate::running_request::{RecordOrigin, write_log};
use crate::running_task::RunningTask;
use crate::serve_loop::ServeLoop;
use crate::thread_context::ThreadContext;
use crate::thread_waker::ThreadWaker;
use crate::variables::Variables;

/// Creates task threads.
#[derive(Debug)]
pub(crate) struct PhpTaskEngine {
    threads: Threads,
    shared: Arc<Shared>,
    has_cache: bool,
}

impl PhpTaskEngine {
    /// Creates the engine of the running PHP behind `threads`, described by `facts`.
    pub(crate) fn new(threads: Threads, facts: &PhpFacts, shared: Arc<Shared>) -> Self {
        Self { threads, shared, has_cache: facts.opcache_enabled }
    }
}

impl Engine<Task> for PhpTaskEngine {
    fn start(&self, slot: usize) -> Result<Started<Task>, WorkerStartError> {
        let interpreter = self.threads.enter();
        let waker = ThreadWaker::install(&interpreter)?;
        let thread = Arc::new(CancelledTasks {
            any: Flag::new(),
            interrupter: interpreter.interrupter(),
            waker: Arc::clone(&waker),
        });
        let thread_context = ThreadContext::new(&self.shared, slot);
        Ok(Started::Persistent(Box::new(PhpTaskWorker { slot, interpreter, waker, thread, thread_context })))
    }

    fn cache(&self) -> Option<OpcacheFacts> {
        self.has_cache.then(|| self.threads.cache())
    }
}

/// The PHP of one thread.
#[derive(Debug)]
struct PhpTaskWorker {
    slot: usize,
    interpreter: Interpreter,
    waker: Arc<ThreadWaker>,
    thread: Arc<CancelledTasks>,
    thread_context: Rc<ThreadContext>,
}

/// Notifies a thread of cancelled tasks.
#[derive(Debug)]
struct CancelledTasks {
    /// A task was cancelled since the thread's last check.
    any: Flag,
    interrupter: Interrupter,
    waker: Arc<ThreadWaker>,
}

impl TaskThread for CancelledTasks {
    fn cancel(&self, _task: u64) {
        self.any.set();
        self.interrupter.notify();
        self.waker.wake();
    }
}

/// Probes the thread like any PHP thread. Each tick also interrupts a task that continues after its cancellation; the
/// task's own clock decides whether its second is over.
#[derive(Debug)]
struct TaskThreadProbe(Interrupter);

impl ThreadProbe for TaskThreadProbe {
    fn ask(&self) {
        self.0.ask();
    }

    fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    fn tick(&self) -> Option<u64> {
        self.0.notify();
        self.0.check()
    }
}

impl PersistentWorker<Task> for PhpTaskWorker {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.waker) as Arc<dyn Wake>
    }

    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        Some(Arc::new(TaskThreadProbe(self.interpreter.interrupter())))
    }

    fn run(&mut self, context: &WorkerContext<Task>) -> WorkerExit {
        let config = &self.thread_context.shared.config;
        let entry = config.background.async_entry_file.as_deref();
        let entry = entry.map(|file| self.thread_context.script_path(file));
        let script = entry.as_ref().map(|file| file.as_os_str().as_encoded_bytes());
        let started = time::wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut thread_run = ThreadRun {
            context,
            thread_context: &self.thread_context,
            script,
            thread: &self.thread,
            messages: BootMessages::default(),
            has_served: false,
            serve_loop: ServeLoop::new(context, config.php.worker_max_memory_mib, None),
        };
        let info = WorkerInfo { id: self.slot, started };
        let outcome = self.interpreter.boot_for_tasks(
            &request(0, script.unwrap_or_default(), started),
            &mut thread_run,
            info,
        );
        thread_run.exit(outcome)
    }
}

/// Describes a task, or the boot of its thread, as a PHP request.
fn request(number: u64, script: &[u8], time: f64) -> PhpRequest<'_> {
    PhpRequest {
        number,
        method: b"GET",
        uri: b"",
        query: b"",
        content_type: None,
        cookies: None,
        authorization: b"",
        script,
        script_file: script,
        folder: b"",
        content_length: 0,
        protocol: 1001,
        time,
    }
}

/// One run of the thread, from its boot to its end.
struct ThreadRun<'a> {
    context: &'a WorkerContext<Task>,
    thread_context: &'a Rc<ThreadContext>,
    /// The path of `ASYNC_ENTRY_FILE`.
    script: Option<&'a [u8]>,
    thread: &'a Arc<CancelledTasks>,
    messages: BootMessages,
    has_served: bool,
    serve_loop: ServeLoop<'a, Task>,
}

impl ThreadRun<'_> {
    fn begin(
        thread: &Arc<CancelledTasks>,
        thread_context: &Rc<ThreadContext>,
        requests: &mut WorkerRequests,
        claim: Claim<Task>,
    ) -> RequestProgress {
        let task = Arc::clone(claim.job());
        if !task.run_on(Arc::clone(thread) as Arc<dyn TaskThread>) {
            // It was cancelled during its claim, so it never starts.
            drop(claim);
            return RequestProgress::Ended;
        }
        let now = time::wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        requests.begin(&request(claim.serial(), b"", now), Box::new(RunningTask::new(claim, thread_context)))
    }

    /// Returns why the thread has ended.
    fn exit(self, outcome: PhpOutcome) -> WorkerExit {
        if !self.has_served {
            return WorkerExit::NotBooted(self.messages.fault("ASYNC_ENTRY_FILE has not run to its end"));
        }
        self.serve_loop.exit(outcome)
    }
}

impl svc_ffi::WorkerHost for ThreadRun<'_> {
    fn serve(&mut self, requests: &mut WorkerRequests) {
        self.has_served = true;
        if requests.is_uncached() {
            self.context.run_uncached();
        }
        self.context.booted();
        let (thread, thread_context) = (self.thread, self.thread_context);
        let look = |requests: &mut WorkerRequests| {
            if thread.any.is_set() {
                // Cleared first: a later cancellation sets it again.
                thread.any.clear();
                requests.wake_cancelled();
            }
        };
        self.serve_loop
            .run(requests, look, |requests, claim| Self::begin(thread, thread_context, requests, claim));
    }

    fn serve_one(&mut self, _requests: &mut WorkerRequests) -> bool {
        false
    }
}

/// The entry file during boot and shutdown: it has no client, so its output is discarded.
impl Host for ThreadRun<'_> {
    fn variables(&mut self, out: &mut Pairs) {
        let config = &self.thread_context.shared.config;
        let mut out = Variables::new(&config.php.server_variables, out);
        let document_root = self.thread_context.document_root();
        match self.script {
            Some(file) => cgi::entry_variables(document_root, file, &mut out),
            None => cgi::task_variables(document_root, &mut out),
        }
    }

    fn log(&mut self, record: &PhpLog<'_>) {
        if !self.has_served {
            self.messages.note(record);
        }
        write_log(&self.thread_context.shared.log, record, RecordOrigin::default());
    }
}
