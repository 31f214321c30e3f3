//! The unit of work of a pool, as the pool sees it.
//!
//! The pool requires nothing else of a job, and knows neither its code nor its waiters. A job has no queue and no
//! deadline; the owner of a job, which offers it, watches both.

use std::time::Instant;

/// One unit of work: an HTTP exchange, or a task in the background.
///
/// ```text
///             offered           claim                   settled by its worker, or in its worker's place
///   its owner ───────▶ Offered ───────▶ Running ──────────────────────────────────────────────────▶ Settled
///                         │                │                                                            ▲
///                         │                └── fail: its worker died, panicked or dropped the claim ────┤
///                         └── settled by its owner before a worker came: claim is refused ──────────────┘
/// ```
///
/// # Ownership
///
/// - *Offered*: the job belongs to the owner that offered it, which may settle it at any time and alone watches its
///   deadline.
///   The queue holds a reference until a worker takes it off.
/// - *Running*: the job belongs to the worker that claimed it. The worker's slot holds a reference until the worker
///   drops the [`Claim`](super::Claim), so that other threads can find the job by its serial number.
/// - *Settled*: the outcome is final. The worker may still run the job's code.
///
/// # Invariants
///
/// - Of all calls of [`claim`](Self::claim), at most one succeeds.
/// - The pool calls [`fail`](Self::fail) at the end of every claim, so that no claimed job stays unsettled.
/// - [`is_settled`](Self::is_settled) never changes from true to false.
///
/// Generic code is instantiated once for each type of job: taking a job from the queue, claiming it and settling it are
/// direct calls. Only the seams that tests replace (engine, source, events) are trait objects.
pub trait Job: Send + Sync + std::fmt::Debug + 'static {
    /// Claims the job for the worker that takes it off the queue. `serial` is the job's number among those that its
    /// slot has claimed; a [`ThreadProbe`](super::ThreadProbe) names the job by it.
    ///
    /// # Errors
    ///
    /// [`NotClaimed`] if the job is settled or has expired; its owner settles it.
    fn claim(&self, serial: u64, now: Instant) -> Result<(), NotClaimed>;

    /// Returns whether the job has an outcome. Called for claimed jobs only.
    fn is_settled(&self) -> bool;

    /// Settles a claimed job as failed, unless it is settled. The job's worker calls it, whether or not it ran the job
    /// to its end.
    fn fail(&self);

    /// Returns whether the owner of an offered job no longer waits for its outcome. A pool that is shutting down does
    /// not start such a job.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// Called when its worker has released it: its code, and all that its code left behind, have ended. The pool calls
    /// it once for each successful claim, after the last call of [`fail`](Self::fail).
    fn left(&self) {}
}

/// The worker must not run the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotClaimed;
