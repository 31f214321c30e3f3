//! What happens on worker threads, for whoever counts it.

use std::time::{Duration, Instant};

/// Told what happens on worker threads. Called on the worker's thread; must not block.
pub trait PoolEvents<J>: Send + Sync + 'static {
    /// A worker claimed a job at `now`, and runs it.
    fn claimed(&self, job: &J, now: Instant);
    /// A worker took a job off the queue and did not run it, because it was settled or too late.
    fn skipped(&self, job: &J);
    /// A worker ran a job for `ran`.
    fn served(&self, job: &J, ran: Duration);
    /// A worker did not boot, or has ended without being asked to; the pool's supervisor hears why.
    fn worker_failed(&self);
    /// A persistent worker has ended and is replaced.
    fn recycled(&self, slot: usize, reason: RecycleReason);
    /// A worker has ended because it was not needed.
    fn retired(&self, slot: usize);
    /// A persistent worker was reset after a request, and goes on.
    fn soft_reset(&self, slot: usize);
}

/// Why a persistent worker is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecycleReason {
    /// Somebody asked for it.
    Scheduled,
    /// It holds too much memory.
    MaxMemory,
    /// Its state cannot be trusted any more.
    Error,
}

impl RecycleReason {
    /// Every reason, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::Scheduled, Self::MaxMemory, Self::Error];

    /// The reason's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::MaxMemory => "max_memory",
            Self::Error => "error",
        }
    }
}
