//! PHP as the engine of the pool: workers for classic mode and for worker mode.
//!
//! In classic mode, each exchange is a new PHP request, and no state of this file outlives it; the shim is responsible
//! for what PHP keeps. The settings determine the mode.

use std::rc::Rc;
use std::sync::Arc;

use svc_core::limits::FILE_READ_TRIES;
use svc_core::pool::{Engine, Exchange, OpcacheFacts, Started, ThreadProbe, Worker, WorkerStartError};
use svc_serve::Shared;

use svc_ffi::{Interpreter, PhpFacts, PhpOutcome, Threads};

use crate::php_persistent_worker::PhpPersistentWorker;
use crate::probe::probe;
use crate::running_request::{RunningRequest, with_description};
use crate::thread_context::ThreadContext;
use crate::thread_waker::ThreadWaker;

/// Creates workers that run PHP.
#[derive(Debug)]
pub(crate) struct PhpEngine {
    threads: Threads,
    shared: Arc<Shared>,
    has_cache: bool,
}

impl PhpEngine {
    /// Creates the engine of the running PHP behind `threads`, described by `facts`.
    pub(crate) fn new(threads: Threads, facts: &PhpFacts, shared: Arc<Shared>) -> Self {
        Self { threads, shared, has_cache: facts.opcache_enabled }
    }
}

impl Engine<Exchange> for PhpEngine {
    fn start(&self, slot: usize) -> Result<Started<Exchange>, WorkerStartError> {
        let (interpreter, thread_context) = (self.threads.enter(), ThreadContext::new(&self.shared, slot));
        if self.shared.config.php.worker_mode_enabled {
            return Ok(Started::Persistent(Box::new(PhpPersistentWorker::new(
                slot,
                interpreter,
                thread_context,
            )?)));
        }
        if self.shared.tasks.is_some() {
            // Requests block their thread while they await tasks; the waker ends the wait.
            ThreadWaker::install(&interpreter)?;
        }
        Ok(Started::Classic(Box::new(PhpWorker { interpreter, thread_context })))
    }

    fn cache(&self) -> Option<OpcacheFacts> {
        if !(self.has_cache && self.shared.config.php.worker_mode_enabled) {
            return None;
        }
        Some(self.threads.cache())
    }
}

/// The PHP of one thread in classic mode.
struct PhpWorker {
    interpreter: Interpreter,
    thread_context: Rc<ThreadContext>,
}

impl PhpWorker {
    fn run(&mut self, exchange: &Exchange, call: &mut RunningRequest) -> PhpOutcome {
        let script = call.script();
        with_description(exchange, &script, |request| self.interpreter.run(request, call))
    }
}

impl Worker<Exchange> for PhpWorker {
    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        Some(probe(&self.interpreter))
    }

    fn serve(&mut self, exchange: &Arc<Exchange>) {
        let mut call = RunningRequest::new(exchange, &self.thread_context);
        let mut outcome = self.run(exchange, &mut call);
        // The script may have been replaced again by another deployment.
        for _ in 1..FILE_READ_TRIES {
            if outcome != PhpOutcome::NoScript {
                break;
            }
            let Some(again) = call.with_present_script() else { break };
            call = again;
            outcome = self.run(exchange, &mut call);
        }
        call.end(outcome);
    }

    fn is_spent(&self) -> bool {
        self.interpreter.is_spent()
    }
}
