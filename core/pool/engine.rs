//! The seam behind which PHP stands.
//!
//! Promises to an engine: `start` and every call of the worker it returned happen on one thread, and the worker is
//! dropped on that thread. Asks of an engine: a worker settles each job it takes; one that it does not settle
//! [fails](Job::fail).

use crate::sync::idle_workers::Wake;
use crate::sync::primitive::Arc;

use super::context::WorkerContext;
use super::events::RecycleReason;
use super::job::Job;
use super::probe::ThreadProbe;
use super::renewal::SharedCacheFacts;

/// Makes workers, one a thread.
pub trait Engine<J: Job>: Send + Sync + 'static {
    /// Prepares the calling thread to run requests; `slot` is its place in the pool.
    ///
    /// # Errors
    ///
    /// [`WorkerStartError`] when the thread cannot run requests; it ends, and another one tries later.
    fn start(&self, slot: usize) -> Result<Started<J>, WorkerStartError>;

    /// What there is to know of the cache that its persistent workers share; `None`: they share none.
    fn cache(&self) -> Option<SharedCacheFacts> {
        None
    }

    /// Whoever starts from now on is to find code as it is on disk. Returns whether that makes a difference.
    fn refresh(&self) -> bool {
        false
    }
}

/// A worker that is ready for its loop.
pub enum Started<J> {
    /// The pool runs its loop: one job after another.
    Classic(Box<dyn Worker<J>>),
    /// It runs a loop of its own.
    Persistent(Box<dyn PersistentWorker<J>>),
}

/// Runs one job after another on its own thread.
pub trait Worker<J> {
    /// Runs a claimed job to its end.
    fn serve(&mut self, job: &Arc<J>);

    /// What tells whether the thread runs scripts; asked once, before the first job.
    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        None
    }
}

/// A worker that stays: it boots an application once and runs many jobs with it, several at a time.
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
    /// What brings the thread out of its wait. Asked once, before [`run`](Self::run).
    fn waker(&self) -> Arc<dyn Wake>;

    /// Boots, says so, and serves until its directive says otherwise or it asks to be replaced. Jobs that it still
    /// holds when it returns fail.
    fn run(&mut self, context: &WorkerContext<J>) -> Departure;

    /// What tells whether the thread runs scripts; asked once, before [`run`](Self::run).
    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        None
    }
}

/// Why the loop of a persistent worker has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its directive said so.
    Stopped,
    /// The application did not boot, for this reason.
    NotBooted(String),
    /// It wants to be replaced.
    Recycled(RecycleReason),
}

/// Why a thread cannot run requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStartError(pub String);

impl std::fmt::Display for WorkerStartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
