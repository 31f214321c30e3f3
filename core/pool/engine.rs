//! The engine: the interface between the pool and the interpreter.
//!
//! The pool promises that `start` and every call of the worker it returned happen on one thread, and that the worker is
//! dropped on that thread. It requires that a worker settles each job it takes; one that it does not settle
//! [fails](Job::fail).

use svc_types::OpcacheFacts;

use crate::sync::idle_workers::Wake;
use crate::sync::primitive::Arc;

use super::boot_fault::BootFault;
use super::context::WorkerContext;
use super::events::RecycleReason;
use super::job::Job;
use super::probe::ThreadProbe;

/// Makes workers, one for each thread.
pub trait Engine<J: Job>: Send + Sync + 'static {
    /// Prepares the calling thread to run jobs. `slot` is its place in the pool.
    ///
    /// # Errors
    ///
    /// [`WorkerStartError`] if the thread cannot run jobs; it ends, and another one is started later.
    fn start(&self, slot: usize) -> Result<Started<J>, WorkerStartError>;

    /// Returns the state of the cache that persistent workers share; `None` if they share none.
    fn cache(&self) -> Option<OpcacheFacts> {
        None
    }
}

/// A worker that is ready for its loop.
pub enum Started<J> {
    /// The pool runs its loop: one job after another.
    Classic(Box<dyn Worker<J>>),
    /// The worker runs its own loop.
    Persistent(Box<dyn PersistentWorker<J>>),
}

/// Runs one job after another on its own thread.
pub trait Worker<J> {
    /// Runs a claimed job to its end.
    fn serve(&mut self, job: &Arc<J>);

    /// Returns whether the thread can run no more jobs and must be replaced. Called after each job.
    fn is_spent(&self) -> bool {
        false
    }

    /// Returns the probe of the thread. Called once, before the first job.
    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        None
    }
}

/// A worker that boots an application once and runs many jobs with it, several at a time.
///
/// ```text
///   context.booted()
///   loop ── run what can run ──▶ context.try_take() ── a claim ──▶ a new fiber
///     │                            │ none
///     │                            ▼
///     │                          context.directive()
///     │                            │ Serve: context.prepare_park(), wait for descriptors,
///     │                            │        times and the wake, context.unpark()
///     │                            │ Drain: no fiber left? return
///     └────────────────────────────┘ Stop:  return
/// ```
pub trait PersistentWorker<J: Job> {
    /// Returns the waker that ends the thread's wait. Called once, before [`run`](Self::run).
    fn waker(&self) -> Arc<dyn Wake>;

    /// Boots the application, reports that, and serves until its directive ends the loop or it asks to be replaced.
    /// Jobs that it still holds when it returns fail.
    fn run(&mut self, context: &WorkerContext<J>) -> WorkerExit;

    /// Returns the probe of the thread. Called once, before [`run`](Self::run).
    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        None
    }
}

/// Why the loop of a persistent worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerExit {
    /// Its directive ended the loop.
    Stopped,
    /// The application failed to boot, for this reason.
    NotBooted(BootFault),
    /// It failed after its boot, for this reason; its claims are dropped.
    Lost(String),
    /// It asked to be replaced.
    Recycled(RecycleReason),
}

/// Why a thread cannot run jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStartError(pub String);

impl std::fmt::Display for WorkerStartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
