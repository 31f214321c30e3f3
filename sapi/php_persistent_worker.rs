//! A persistent worker: a PHP script that boots an application once and serves many exchanges with it.
//!
//! The worker claims new exchanges when none of its requests can run. A waiting request holds no thread. A worker that
//! is being replaced claims no more exchanges and first completes its requests. The pool decides which worker takes an
//! exchange, and when a worker is needed.

use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use svc_core::dev::Failure;
use svc_core::pool::{
    BootFault, Claim, Exchange, PersistentWorker, ThreadProbe, WorkerContext, WorkerExit, WorkerStartError,
    lifetime,
};
use svc_core::sync::idle_workers::Wake;
use svc_core::time;

use svc_ffi::{
    Host, Interpreter, Pairs, PhpOutcome, PhpRequest, RequestProgress, ScriptFailure, WorkerInfo,
    WorkerRequests,
};

use crate::boot_messages::BootMessages;
use crate::cgi;
use crate::probe::probe;
use crate::running_request::{RecordOrigin, RunningRequest, failure_of, with_description, write_log};
use crate::serve_loop::ServeLoop;
use crate::thread_context::ThreadContext;
use crate::thread_waker::ThreadWaker;
use crate::variables::Variables;

/// The PHP of one thread, with its persistent script.
#[derive(Debug)]
pub(crate) struct PhpPersistentWorker {
    slot: usize,
    interpreter: Interpreter,
    waker: Arc<ThreadWaker>,
    thread_context: Rc<ThreadContext>,
}

impl PhpPersistentWorker {
    /// Prepares the calling thread.
    ///
    /// # Errors
    ///
    /// [`WorkerStartError`] if the system has no descriptors left to wait with.
    pub(crate) fn new(
        slot: usize,
        interpreter: Interpreter,
        thread_context: Rc<ThreadContext>,
    ) -> Result<Self, WorkerStartError> {
        let waker = ThreadWaker::install(&interpreter)?;
        Ok(Self { slot, interpreter, waker, thread_context })
    }
}

impl PersistentWorker<Exchange> for PhpPersistentWorker {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.waker) as Arc<dyn Wake>
    }

    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        Some(probe(&self.interpreter))
    }

    fn run(&mut self, context: &WorkerContext<Exchange>) -> WorkerExit {
        let serving = &self.thread_context.shared.config.serving;
        let entry = serving.entry_files.first().map(|entry| &*entry.file).unwrap_or_default();
        let name = format!("/{entry}");
        let script = self.thread_context.script_path(&serving.document_root.join(entry));
        let started = time::wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let request = PhpRequest {
            number: 0,
            method: b"GET",
            uri: name.as_bytes(),
            query: b"",
            content_type: None,
            cookies: None,
            authorization: b"",
            script: script.as_os_str().as_encoded_bytes(),
            script_file: script.as_os_str().as_encoded_bytes(),
            folder: b"",
            content_length: 0,
            protocol: 1001,
            time: started,
        };
        let mut script_run = ScriptRun::new(context, &self.thread_context, &name, request.script);
        let outcome = self.interpreter.boot(&request, &mut script_run, WorkerInfo { id: self.slot, started });
        let exit = script_run.exit(outcome);
        if let WorkerExit::NotBooted(_) = exit {
            // A file that was fixed without a new modification time would still be served from OPcache.
            self.interpreter.renew_unused_code();
        }
        exit
    }
}

/// One run of the script, from its boot to its end.
struct ScriptRun<'a> {
    context: &'a WorkerContext<Exchange>,
    thread_context: &'a Rc<ThreadContext>,
    /// The URL path of the script.
    name: &'a str,
    script: &'a [u8],
    messages: BootMessages,
    /// The failure of the boot, for a server for development.
    failure: Option<Failure>,
    has_served: bool,
    serve_loop: ServeLoop<'a, Exchange>,
}

impl<'a> ScriptRun<'a> {
    fn new(
        context: &'a WorkerContext<Exchange>,
        thread_context: &'a Rc<ThreadContext>,
        name: &'a str,
        script: &'a [u8],
    ) -> Self {
        let config = &thread_context.shared.config;
        let requests_max = lifetime(config.php.worker_max_requests, RandomState::new().hash_one(()));
        Self {
            context,
            thread_context,
            name,
            script,
            messages: BootMessages::default(),
            failure: None,
            has_served: false,
            serve_loop: ServeLoop::new(context, config.php.worker_max_memory_mib, requests_max),
        }
    }

    /// Records that the script has booted.
    fn begin_serving(&mut self, requests: &WorkerRequests) {
        if let Some(development) =
            self.thread_context.shared.development.as_ref().filter(|_| !self.has_served)
        {
            development.set_boot_failure(None);
        }
        self.has_served = true;
        if requests.is_uncached() {
            self.context.run_uncached();
        }
        self.context.booted();
    }

    /// Returns why the script ended.
    fn exit(self, outcome: PhpOutcome) -> WorkerExit {
        if !self.has_served {
            return WorkerExit::NotBooted(self.boot_fault());
        }
        self.serve_loop.exit(outcome)
    }

    /// Returns why the script has not booted.
    fn boot_fault(self) -> BootFault {
        let fault =
            self.messages.fault("the script ended without waiting for requests (Svc\\Worker::serve())");
        if let Some(development) = &self.thread_context.shared.development {
            let (file, line) = fault.place.as_ref().map_or(("", 0), |(file, line)| (file.as_str(), *line));
            let of_fault = || Failure::of_message(fault.message.as_bytes(), file.as_bytes(), line);
            development.set_boot_failure(Some(self.failure.unwrap_or_else(of_fault)));
        }
        fault
    }

    fn begin(
        thread_context: &Rc<ThreadContext>,
        requests: &mut WorkerRequests,
        claim: Claim<Exchange>,
    ) -> RequestProgress {
        let exchange = Arc::clone(claim.job());
        let running = Box::new(RunningRequest::of_claim(claim, thread_context));
        with_description(&exchange, &exchange.request.script, |request| requests.begin(request, running))
    }
}

impl svc_ffi::WorkerHost for ScriptRun<'_> {
    fn serve(&mut self, requests: &mut WorkerRequests) {
        self.begin_serving(requests);
        let thread_context = self.thread_context;
        self.serve_loop.run(requests, |_| {}, |requests, claim| Self::begin(thread_context, requests, claim));
    }

    fn serve_one(&mut self, requests: &mut WorkerRequests) -> bool {
        self.begin_serving(requests);
        loop {
            if let Some(claim) = self.serve_loop.take() {
                let exchange = Arc::clone(claim.job());
                let running = Box::new(RunningRequest::of_claim(claim, self.thread_context));
                with_description(&exchange, &exchange.request.script, |request| {
                    requests.here(request, running);
                });
                self.serve_loop.look_after(requests);
                return self.serve_loop.leaves().is_none();
            }
            if !self.serve_loop.sleep(requests) {
                return false;
            }
        }
    }
}

/// The script during boot and shutdown: it has no client, so its output is discarded.
impl Host for ScriptRun<'_> {
    fn target(&mut self) -> &[u8] {
        self.name.as_bytes()
    }

    fn variables(&mut self, out: &mut Pairs) {
        let mut out = Variables::new(&self.thread_context.shared.config.php.server_variables, out);
        cgi::boot_variables(self.thread_context.document_root(), self.name.as_bytes(), self.script, &mut out);
    }

    fn fail(&mut self, failure: &ScriptFailure<'_>) {
        if !self.has_served && self.thread_context.shared.development.is_some() {
            self.failure.get_or_insert_with(|| failure_of(failure));
        }
    }

    fn log(&mut self, record: &svc_ffi::PhpLog<'_>) {
        if !self.has_served {
            self.messages.note(record);
        }
        write_log(&self.thread_context.shared.log, record, RecordOrigin::default());
    }
}
