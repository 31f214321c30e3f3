//! The calls of PHP that let other requests run while they wait.

use crate::bindings::{self, shim_hook, shim_obstacle};

/// A kind of call that a request can wait in without blocking its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// `sleep()` and its kin.
    Sleep,
    /// Sockets.
    Net,
    /// Names of hosts.
    Dns,
    /// Programs, and pipes.
    Process,
}

/// Why such a call blocks its thread nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The engine does not allow a switch of fibers.
    Switch,
    /// Code is being loaded, or a constant evaluated.
    Loading,
    /// The cycle collector runs.
    Collecting,
    /// An output handler runs.
    Output,
    /// A function that marks values runs.
    Marks,
    /// The system refused what a wait needs.
    Memory,
    /// All helper threads are busy.
    Helpers,
}

impl Hook {
    pub(crate) fn raw(self) -> shim_hook {
        match self {
            Self::Sleep => bindings::shim_hook_SHIM_HOOK_SLEEP,
            Self::Net => bindings::shim_hook_SHIM_HOOK_NET,
            Self::Dns => bindings::shim_hook_SHIM_HOOK_DNS,
            Self::Process => bindings::shim_hook_SHIM_HOOK_PROCESS,
        }
    }

    pub(crate) fn of(raw: shim_hook) -> Option<Self> {
        [Self::Sleep, Self::Net, Self::Dns, Self::Process].into_iter().find(|hook| hook.raw() == raw)
    }
}

impl Obstacle {
    pub(crate) fn of(raw: shim_obstacle) -> Option<Self> {
        match raw {
            bindings::shim_obstacle_SHIM_OBSTACLE_SWITCH => Some(Self::Switch),
            bindings::shim_obstacle_SHIM_OBSTACLE_LOADING => Some(Self::Loading),
            bindings::shim_obstacle_SHIM_OBSTACLE_COLLECTING => Some(Self::Collecting),
            bindings::shim_obstacle_SHIM_OBSTACLE_OUTPUT => Some(Self::Output),
            bindings::shim_obstacle_SHIM_OBSTACLE_MARKS => Some(Self::Marks),
            bindings::shim_obstacle_SHIM_OBSTACLE_MEMORY => Some(Self::Memory),
            bindings::shim_obstacle_SHIM_OBSTACLE_HELPERS => Some(Self::Helpers),
            _ => None,
        }
    }
}
