//! The executor of requests for scripts: the pool behind its gate, or none.
//!
//! A [`PoolBackend`] always has a gate; only the workers behind it may not have started yet, and a request that arrives
//! before them is refused. The backend decides nothing; the gate and the pool do.

use std::sync::OnceLock;
use std::time::Instant;

use svc_core::admission::{Gate, OfferOutcome, ShedReason, WaitingLimits};
use svc_core::config::{BackgroundConfig, Config, Executor};
use svc_core::pool::{Exchange, PoolFacts, PoolSize, WorkerPool};
use svc_core::sync::counter::Flag;
use svc_core::sync::last_time::LastTime;
use svc_core::sync::primitive::Arc;
use svc_core::tasks::{TaskLimits, TaskPool};

/// The executor of requests for scripts.
#[derive(Debug)]
pub enum Backend {
    /// The pool of PHP workers.
    Pool(PoolBackend),
    /// No executor: the answer for every script is a fixed page.
    Stub,
}

/// The pool of PHP workers and its gate.
#[derive(Debug)]
pub struct PoolBackend {
    /// The gate in front of the pool.
    pub gate: Arc<Gate<Arc<Exchange>>>,
    /// When a worker last claimed a request.
    pub last_claim: LastTime,
    /// Set to request the replacement of all persistent workers.
    pub restart_wanted: Flag,
    /// Set once, when PHP has started. The control thread watches the pool earlier, and the workers' own events use this
    /// backend. Until then, the pool counts as not started, and all its facts are zero.
    workers: OnceLock<WorkerPool<Exchange>>,
}

/// Creates the pool of background tasks that `config` requires, if any.
pub(super) fn new_tasks(config: &BackgroundConfig) -> Option<Arc<TaskPool>> {
    let limits = TaskLimits {
        workers: config.async_workers,
        fibers_max: config.async_max_fibers,
        queue_capacity: config.async_queue_capacity,
        in_flight_cap: config.async_in_flight_cap(),
    };
    (limits.workers > 0).then(|| TaskPool::new(limits))
}

impl Backend {
    /// Creates the backend that `config` selects.
    pub(super) fn new(config: &Config, now: Instant) -> Self {
        match config.serving.executor {
            Executor::Fastcgi | Executor::Sapi => Self::Pool(PoolBackend::new(config, now)),
            Executor::Stub => Self::Stub,
        }
    }

    /// Returns the pool, if there is one.
    pub fn pool(&self) -> Option<&PoolBackend> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::Stub => None,
        }
    }

    /// Returns the workers, once they have started.
    pub fn workers(&self) -> Option<&WorkerPool<Exchange>> {
        self.pool().and_then(PoolBackend::workers)
    }
}

impl PoolBackend {
    fn new(config: &Config, now: Instant) -> Self {
        let admission = &config.admission;
        let limits = WaitingLimits {
            count_max: admission.queue_max_waiting,
            bytes_max: admission.queue_max_waiting_bytes,
        };
        let slots = Self::size(config).slots();
        let capacity = admission.queue_capacity.max(1);
        Self {
            gate: Arc::new(Gate::new(capacity, slots, limits, admission.queue_wait_timeout)),
            last_claim: LastTime::new(now),
            restart_wanted: Flag::new(),
            workers: OnceLock::new(),
        }
    }

    /// Returns the number of workers that `config` allows.
    pub(super) fn size(config: &Config) -> PoolSize {
        PoolSize { min: config.php.workers.min, max: config.php.workers.max }
    }

    /// Sets the workers, which have started. Must be called once.
    pub(super) fn set_workers(&self, workers: WorkerPool<Exchange>) {
        let is_first = self.workers.set(workers).is_ok();
        debug_assert!(is_first, "the pool was started twice");
    }

    /// Returns the workers, once they have started.
    pub fn workers(&self) -> Option<&WorkerPool<Exchange>> {
        self.workers.get()
    }

    /// Returns the number of workers that take requests.
    pub(super) fn taking(&self) -> usize {
        self.workers().map_or(0, WorkerPool::taking)
    }

    /// Returns the state of the pool; all zero before it has started.
    pub fn facts(&self) -> PoolFacts {
        self.workers().map(WorkerPool::facts).unwrap_or_default()
    }

    /// Offers an exchange at the gate; refuses it if no worker takes requests.
    pub(super) fn offer(&self, exchange: Arc<Exchange>) -> OfferOutcome {
        if self.taking() == 0 {
            return OfferOutcome::Refused(ShedReason::PoolUnavailable);
        }
        self.gate.offer(exchange)
    }
}
