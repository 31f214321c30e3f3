//! Jobs that keep workers busy, and jobs that hold workers up.

use std::time::Duration;

/// A job that keeps a worker busy: it is not settled, or still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldJob {
    /// Its serial number among the jobs of the slot.
    pub serial: u64,
    /// How long it has been with the worker.
    pub age: Duration,
    /// Whether its fiber waits for something instead of running.
    pub is_parked: bool,
}

/// How a job holds its worker up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckKind {
    /// It waits in a system call, or its fiber is parked.
    Io,
    /// It is inside a function that does not return.
    CCall,
    /// It executes the script's own instructions.
    Cpu,
}

impl StuckKind {
    /// Every kind, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::Io, Self::CCall, Self::Cpu];

    /// Returns the kind's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::CCall => "c_call",
            Self::Cpu => "cpu",
        }
    }
}

/// The findings of a tick about one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// One of its jobs is older than the threshold.
    pub is_long: bool,
    /// The jobs that were classified at this tick, by their serial numbers.
    pub stuck: Vec<(u64, StuckKind)>,
}
