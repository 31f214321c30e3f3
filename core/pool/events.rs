//! The events of worker threads, for the metrics.

use std::time::{Duration, Instant};

/// Receives the events of worker threads. The methods are called on the worker's thread and must not block.
pub trait PoolEvents<J>: Send + Sync + 'static {
    /// A worker claimed a job at `now`, and runs it.
    fn claimed(&self, job: &J, now: Instant);
    /// A worker took a job off the queue and did not run it, because it was settled or had expired.
    fn skipped(&self, job: &J);
    /// A worker ran a job for `ran`.
    fn served(&self, job: &J, ran: Duration);
    /// A worker failed to boot or ended unexpectedly. The supervisor reports the reason.
    fn worker_failed(&self);
    /// A persistent worker ended and is replaced.
    fn recycled(&self, slot: usize, reason: RecycleReason);
    /// A worker ended because it was not needed.
    fn retired(&self, slot: usize);
    /// A persistent worker was reset after a request, and continues.
    fn soft_reset(&self, slot: usize);
}

/// Why a persistent worker is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecycleReason {
    /// A script or an operator asked for it.
    Scheduled,
    /// It uses too much memory.
    MaxMemory,
    /// Its state can no longer be trusted.
    Error,
}

impl RecycleReason {
    /// Every reason, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::Scheduled, Self::MaxMemory, Self::Error];

    /// Returns the reason's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::MaxMemory => "max_memory",
            Self::Error => "error",
        }
    }
}
