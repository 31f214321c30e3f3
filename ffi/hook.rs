//! The PHP calls that let other requests run while they wait.

use crate::bindings::{self, shim_hook, shim_obstacle};

/// A kind of call that does not block its thread while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// `sleep()`, `usleep()` and similar functions.
    Sleep,
    /// Sockets.
    Net,
    /// Name resolution.
    Dns,
    /// Processes and pipes.
    Process,
}

/// Why such a call blocks its thread nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The engine does not allow a fiber switch.
    Switch,
    /// Code is being loaded, or a constant is being evaluated.
    Loading,
    /// The cycle collector is running.
    Collecting,
    /// An output handler is running.
    Output,
    /// A function that marks values against recursion is running.
    Marks,
    /// The system lacks a resource that the wait needs.
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
