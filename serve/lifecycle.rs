//! The phase of the server between its start and its end.
//!
//! Phases follow each other in one direction; a phase that is visible has begun. This module causes no transition;
//! `server` does, and all others read.
//!
//! ```text
//!   Starting ──▶ Running ──signal──▶ Draining ──delay over──▶ Closing ──all ended──▶ Stopped
//! ```

use svc_core::sync::primitive::{AtomicU8, Ordering};

/// A phase of the server's life, in the order of the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Listeners are bound; the main port does not serve yet.
    Starting = 0,
    /// The main port serves.
    Running = 1,
    /// The stop signal has arrived; service continues as usual, but readiness fails.
    Draining = 2,
    /// The gate is closed, and connections end with their current request.
    Closing = 3,
    /// Every request has ended or was cut off.
    Stopped = 4,
}

impl Phase {
    /// Returns the name of the phase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Closing => "closing",
            Self::Stopped => "stopped",
        }
    }
}

/// The phase of the server, shared by all its threads.
///
/// # Ordering
///
/// Phases are stored with Release and read with Acquire: a thread that sees a phase sees everything done to enter it.
#[derive(Debug)]
pub struct Lifecycle(AtomicU8);

impl Default for Lifecycle {
    fn default() -> Self {
        Self(AtomicU8::new(Phase::Starting as u8))
    }
}

impl Lifecycle {
    /// Reads the phase.
    pub fn phase(&self) -> Phase {
        // Acquire: pairs with the AcqRel in `enter`.
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Running,
            2 => Phase::Draining,
            3 => Phase::Closing,
            _ => Phase::Stopped,
        }
    }

    /// Returns whether the stop signal has arrived.
    pub fn is_draining(&self) -> bool {
        self.phase() >= Phase::Draining
    }

    /// Returns whether connections end with their current request.
    pub fn is_closing(&self) -> bool {
        self.phase() >= Phase::Closing
    }

    /// Returns whether the server has stopped.
    pub fn is_stopped(&self) -> bool {
        self.phase() == Phase::Stopped
    }

    /// Enters `phase`, never backwards; returns whether this call moved it.
    pub(super) fn enter(&self, phase: Phase) -> bool {
        // AcqRel: pairs with the Acquire in `phase`.
        self.0.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_never_go_backwards() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.enter(Phase::Running));
        assert!(lifecycle.enter(Phase::Closing));
        assert!(!lifecycle.enter(Phase::Draining));
        assert_eq!(lifecycle.phase(), Phase::Closing);
        assert!(lifecycle.is_draining() && lifecycle.is_closing() && !lifecycle.is_stopped());
    }

    #[test]
    fn only_one_caller_enters_a_phase() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.enter(Phase::Draining));
        assert!(!lifecycle.enter(Phase::Draining));
    }
}
