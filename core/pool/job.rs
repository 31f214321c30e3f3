//! The unit of work of a pool, as far as the pool has to know it.
//!
//! Promises: the pool asks nothing else of a job, and knows neither what it computes nor who waits for it. Refuses: it
//! has no queue and no deadline; whoever offers a job watches both.

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
/// - *Offered*: the job belongs to whoever offered it, who may settle it at any time and alone watches its deadline.
///   The queue holds a reference until a worker takes it off.
/// - *Running*: the job belongs to the worker that claimed it. The worker's slot holds a reference until the worker
///   drops the [`Claim`](super::Claim), so that other threads can find the job by its serial number.
/// - *Settled*: nobody can change the outcome. The worker may still run the job's code.
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
    /// A worker takes the job off the queue. `serial` is the job's number among those that its slot has claimed; a
    /// [`ThreadProbe`](super::ThreadProbe) names the job by it.
    ///
    /// # Errors
    ///
    /// [`NotClaimed`] when the job is settled or too late to run; its owner settles it.
    fn claim(&self, serial: u64, now: Instant) -> Result<(), NotClaimed>;

    /// Returns whether the job has an outcome. Asked about claimed jobs only.
    fn is_settled(&self) -> bool;

    /// Settles a claimed job as failed, unless it is settled. The job's worker calls it, whether it has run the job to
    /// its end or not.
    fn fail(&self);

    /// Returns whether nobody waits for the outcome of an offered job any more. A pool that is shutting down does not
    /// begin it.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// Hears that its worker has nothing of it left: its code and all that its code left behind have ended. The pool
    /// calls it once for each successful claim, after the last call of [`fail`](Self::fail).
    fn left(&self) {}
}

/// The job is not the worker's to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotClaimed;
