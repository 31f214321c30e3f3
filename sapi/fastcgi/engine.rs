//! FastCGI as the engine of the pool.

use std::sync::Arc;

use svc_core::pool::{Engine, Exchange, Started, WorkerStartError};
use svc_serve::Shared;

use super::inspection::PhpSelfReport;
use super::plan::Plan;
use super::waker::EventWaker;
use super::worker::FastcgiWorker;
use crate::thread_context::ThreadContext;

/// Makes workers that drive FastCGI connections.
#[derive(Debug)]
pub(super) struct FastcgiEngine {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
}

impl FastcgiEngine {
    /// Creates the engine for the settings. `report` is PHP's report about itself, if svc starts that PHP.
    pub(super) fn new(shared: &Arc<Shared>, report: Option<&PhpSelfReport>) -> Self {
        let plan = Plan::new(&shared.config, report, &shared.log);
        Self { plan: Arc::new(plan), shared: Arc::clone(shared) }
    }
}

impl Engine<Exchange> for FastcgiEngine {
    fn start(&self, slot: usize) -> Result<Started<Exchange>, WorkerStartError> {
        let waker = EventWaker::new()
            .map_err(|error| WorkerStartError(format!("no descriptor to wait with: {error}")))?;
        let thread_context = ThreadContext::new(&self.shared, slot);
        let worker = FastcgiWorker::new(Arc::clone(&self.plan), thread_context, waker);
        Ok(Started::Persistent(Box::new(worker)))
    }
}
