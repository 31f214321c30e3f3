//! Requests that keep workers busy, and those that hold them up.

use std::time::Duration;

/// A job that keeps a worker busy: it is not settled, or still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its serial number among the jobs of the slot.
    pub serial: u64,
    /// For how long.
    pub age: Duration,
    /// Whether its fiber waits for something instead of running.
    pub is_parked: bool,
}

/// What holds a worker up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckKind {
    /// It waits: in a system call, or its fiber is parked.
    Io,
    /// It is inside a function that does not come back.
    CCall,
    /// It executes the script's own instructions.
    Cpu,
}

impl StuckKind {
    /// Every kind, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::Io, Self::CCall, Self::Cpu];

    /// The kind's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::CCall => "c_call",
            Self::Cpu => "cpu",
        }
    }
}

/// What a look at one worker found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// One of its requests is older than the threshold.
    pub is_long: bool,
    /// The requests that were sorted just now, by their serial numbers.
    pub stuck: Vec<(u64, StuckKind)>,
}
