//! A persistent worker: a PHP script that boots an application once and serves many exchanges with it.
//!
//! Promises: the worker claims new exchanges when none of its own requests can run. A waiting request holds no thread.
//! A worker that is to be replaced claims nothing more and first completes the requests that it carries. Refuses: the
//! pool decides which worker takes an exchange, and when a worker is needed.

use std::rc::Rc;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use svc_core::pool::{
    Claim, Departure, Directive, Exchange, PersistentWorker, RecycleReason, ThreadProbe, WorkerContext,
    WorkerStartError,
};
use svc_core::sync::completion::WakeSet;
use svc_core::sync::idle_workers::Wake;
use svc_core::time;

use svc_ffi::{
    Host, Interpreter, Pairs, PhpHead, PhpOutcome, PhpRequest, RequestProgress, Waker, WorkerInfo,
    WorkerRequests,
};

use crate::cgi;
use crate::completions::ThreadCompletions;
use crate::invocation::{Invocation, with_description, write_log};
use crate::probe::probe;
use crate::response::ThreadContext;
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
        mut interpreter: Interpreter,
        thread_context: Rc<ThreadContext>,
    ) -> Result<Self, WorkerStartError> {
        let waker = interpreter
            .waker()
            .map_err(|error| WorkerStartError(format!("no descriptor to wait with: {error}")))?;
        let waker = Arc::new(ThreadWaker(waker));
        let wakes = WakeSet::new(Arc::clone(&waker) as Arc<dyn Wake>);
        interpreter.set_completions(Box::new(ThreadCompletions(wakes)));
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

    fn run(&mut self, context: &WorkerContext<Exchange>) -> Departure {
        let entry = self
            .thread_context
            .shared
            .config
            .serving
            .entry_file
            .as_deref()
            .unwrap_or_default()
            .trim_start_matches('/');
        let name = format!("/{entry}");
        let script = self.thread_context.shared.config.serving.document_root.join(entry);
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
            content_length: 0,
            protocol: 1001,
            time: started,
        };
        let mut script_run = ScriptRun::new(context, &self.thread_context, &name, request.script);
        let outcome = self.interpreter.boot(&request, &mut script_run, WorkerInfo { id: self.slot, started });
        script_run.departure(outcome)
    }
}

/// Wakes the thread of a worker.
#[derive(Debug)]
struct ThreadWaker(Waker);

impl Wake for ThreadWaker {
    fn wake(&self) {
        self.0.wake();
    }
}

/// One run of the script, from its boot to its end.
struct ScriptRun<'a> {
    context: &'a WorkerContext<Exchange>,
    thread_context: &'a Rc<ThreadContext>,
    /// The URL path of the script.
    name: &'a str,
    script: &'a [u8],
    document_root: &'a [u8],
    /// The last message of the script, which explains why it did not boot.
    last_words: String,
    memory_max: Option<u64>,
    /// The number of waiting requests.
    waiting: usize,
    has_served: bool,
    leaves: Option<RecycleReason>,
}

impl<'a> ScriptRun<'a> {
    fn new(
        context: &'a WorkerContext<Exchange>,
        thread_context: &'a Rc<ThreadContext>,
        name: &'a str,
        script: &'a [u8],
    ) -> Self {
        let config = &thread_context.shared.config;
        Self {
            context,
            thread_context,
            name,
            script,
            document_root: config.serving.document_root.as_os_str().as_encoded_bytes(),
            last_words: String::new(),
            memory_max: (config.php.worker_max_memory_mib > 0)
                .then_some(config.php.worker_max_memory_mib << 20),
            waiting: 0,
            has_served: false,
            leaves: None,
        }
    }

    /// Notes that the script has booted.
    fn begin_serving(&mut self, visits: &WorkerRequests) {
        self.has_served = true;
        if visits.is_outsider() {
            self.context.stay_outside();
        }
        self.context.booted();
    }

    /// Returns why the script ended.
    fn departure(self, outcome: PhpOutcome) -> Departure {
        if !self.has_served {
            let why = if self.last_words.is_empty() {
                "the script ended without waiting for requests (Svc\\Worker::serve())".to_owned()
            } else {
                self.last_words
            };
            return Departure::NotBooted(why);
        }
        match self.leaves {
            Some(reason) => Departure::Recycled(reason),
            None if self.context.directive() != Directive::Serve => Departure::Stopped,
            // The script ended by itself.
            None if outcome == PhpOutcome::Complete => Departure::Recycled(RecycleReason::Scheduled),
            None => Departure::Recycled(RecycleReason::Error),
        }
    }

    /// Decides after the end of a request whether the worker continues.
    fn look_after(&mut self, visits: &mut WorkerRequests) {
        let facts = visits.facts();
        let heap_bytes = facts.heap_bytes as u64;
        self.context.note_heap(heap_bytes);
        if self.leaves.is_some() {
            return;
        }
        self.leaves = if facts.tainted {
            Some(RecycleReason::Error)
        } else if facts.exit_scheduled {
            Some(RecycleReason::Scheduled)
        } else if self.memory_max.is_some_and(|max| heap_bytes > max) {
            Some(RecycleReason::MaxMemory)
        } else {
            None
        };
        if let Some(reason) = self.leaves {
            visits.leaves(reason.as_str());
            return self.context.close();
        }
        self.context.note_soft_reset();
        if facts.tidy_wanted {
            self.context.run(|| visits.tidy());
        }
    }

    fn count(&mut self, visits: &mut WorkerRequests, progress: RequestProgress) {
        match progress {
            RequestProgress::Waits => self.waiting += 1,
            RequestProgress::Ended => self.look_after(visits),
        }
    }

    /// Resumes the requests that are ready.
    fn resume_all(&mut self, visits: &mut WorkerRequests) {
        if self.waiting == 0 {
            return;
        }
        // Only those that are ready now, so that a request that is ready again at once does not starve the others.
        for _ in 0..visits.look() {
            let Some(progress) = visits.resume() else { return };
            self.waiting -= 1;
            self.count(visits, progress);
        }
    }

    fn begin(&mut self, visits: &mut WorkerRequests, claim: Claim<Exchange>) {
        let exchange = Arc::clone(claim.job());
        let call = Box::new(Invocation::of_claim(claim, self.thread_context));
        let progress = with_description(&exchange, |request| visits.begin(request, call));
        self.count(visits, progress);
    }

    /// Claims an exchange, unless the worker is about to be replaced.
    fn take(&self) -> Option<Claim<Exchange>> {
        if self.leaves.is_some() { None } else { self.context.try_take() }
    }

    /// Sleeps until there is something to do. Returns false if the worker ends.
    fn sleep(&self, visits: &mut WorkerRequests) -> bool {
        let takes_more = self.leaves.is_none() && self.context.directive() == Directive::Serve;
        if !takes_more {
            if self.waiting == 0 {
                return false;
            }
            visits.wait();
        } else if self.context.prepare_park() {
            let ready = visits.wait();
            self.context.unpark(ready > 0);
        }
        true
    }
}

impl svc_ffi::WorkerHost for ScriptRun<'_> {
    fn serve(&mut self, visits: &mut WorkerRequests) {
        self.begin_serving(visits);
        loop {
            self.resume_all(visits);
            if let Some(claim) = self.take() {
                self.begin(visits, claim);
            } else if !self.sleep(visits) {
                return;
            }
        }
    }

    fn serve_one(&mut self, visits: &mut WorkerRequests) -> bool {
        self.begin_serving(visits);
        loop {
            if let Some(claim) = self.take() {
                let exchange = Arc::clone(claim.job());
                let call = Box::new(Invocation::of_claim(claim, self.thread_context));
                with_description(&exchange, |request| visits.here(request, call));
                self.look_after(visits);
                return self.leaves.is_none();
            }
            if !self.sleep(visits) {
                return false;
            }
        }
    }
}

/// The script while it boots and ends: it has no client, so its output goes nowhere.
impl Host for ScriptRun<'_> {
    fn write(&mut self, _output: &[u8]) -> bool {
        true
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn is_crowded(&self) -> bool {
        false
    }

    fn flush(&mut self) -> bool {
        true
    }

    fn send_head(&mut self, _head: &PhpHead<'_>) {}

    fn send_interim(&mut self, _head: &PhpHead<'_>) {}

    fn finish(&mut self) {}

    fn time_limit(&mut self) {}

    fn read_body(&mut self, _buffer: &mut [u8]) -> usize {
        0
    }

    fn read_body_at(&mut self, _buffer: &mut [u8], _offset: u64) -> usize {
        0
    }

    fn target(&mut self) -> &[u8] {
        self.name.as_bytes()
    }

    fn client(&mut self) -> &[u8] {
        b""
    }

    fn variables(&mut self, out: &mut Pairs) {
        let mut out = Variables::new(&self.thread_context.shared.config.php.server_variables, out);
        cgi::boot_variables(self.document_root, self.name.as_bytes(), self.script, &mut out);
    }

    fn fields(&mut self, _out: &mut Pairs) {}

    fn request_id(&mut self) -> &[u8] {
        b""
    }

    fn log(&mut self, record: &svc_ffi::PhpLog<'_>) {
        if !self.has_served {
            self.last_words = String::from_utf8_lossy(record.message).into_owned();
        }
        write_log(&self.thread_context.shared.log, record, None);
    }
}
