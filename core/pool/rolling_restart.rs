//! The rolling restart: it replaces every worker, one after the other, without a gap in service.
//!
//! Pure: an old worker is ordered to end only after a new one serves, so that the pool never has fewer workers than
//! before; the first replacement that fails to boot stops the restart, and the remaining old workers keep running. The
//! machine starts and stops no thread; an old worker ends once its jobs in flight have ended.
//!
//! ```text
//!             asked                a slot is vacant: spawn
//!   Resting ─────────▶ Waiting ──────────────────────────▶ Booting ──failed to boot: stopped──▶ Resting
//!     ▲                  │ ▲                                  │
//!     └── none is left ──┘ └── serves: an old one hands over ─┘
//! ```

use std::collections::VecDeque;

use super::slot::{SlotPhase, SlotReading};

/// The state machine of the rolling restart.
#[derive(Clone, Debug, Default)]
pub struct RollingRestart {
    under_way: Option<UnderWay>,
}

#[derive(Clone, Debug)]
struct UnderWay {
    /// The workers still to be replaced.
    old: VecDeque<WorkerId>,
    replacement: Option<WorkerId>,
    /// Whether the replacement was started before the last request for a restart: it may have booted old code, so its failure
    /// does not count.
    is_stale: bool,
    replaced: usize,
}

/// Identifies one worker among all that its slot has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WorkerId {
    slot: usize,
    number: u64,
}

/// The next step of a rolling restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollingRestartStep {
    /// Start a worker in this slot, and call [`RollingRestart::spawned`].
    Spawn(usize),
    /// Order the worker of this slot to end.
    HandOver(usize),
    /// All workers were replaced: this many.
    Finished(usize),
    /// A replacement failed to boot.
    Stopped {
        /// The slot of the replacement.
        slot: usize,
        /// The number of workers replaced before.
        replaced: usize,
        /// The number of old workers that keep running.
        left: usize,
    },
}

impl RollingRestart {
    /// Begins to replace all current workers, including replacements.
    pub fn ask(&mut self, slots: &[SlotReading]) {
        let active = slots.iter().filter(|slot| slot.is_active());
        let old: VecDeque<_> = active.map(WorkerId::of).collect();
        let (replacement, replaced) =
            self.under_way.take().map_or((None, 0), |restart| (restart.replacement, restart.replaced));
        self.under_way = Some(UnderWay { old, replacement, is_stale: replacement.is_some(), replaced });
    }

    /// Returns whether a rolling restart is under way.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Notes that the replacement was started: it is worker `number` of the slot.
    pub fn spawned(&mut self, slot: usize, number: u64) {
        if let Some(restart) = &mut self.under_way {
            restart.replacement = Some(WorkerId { slot, number });
            restart.is_stale = false;
        }
    }

    /// Returns the next step that the state of the slots allows, if there is one. `vacant` is a slot in which a worker
    /// may start.
    pub fn step(&mut self, slots: &[SlotReading], vacant: Option<usize>) -> Option<RollingRestartStep> {
        let restart = self.under_way.as_mut()?;
        let is_there = |one: &WorkerId| {
            let found = slots.iter().find(|slot| WorkerId::of(slot) == *one);
            found.is_some_and(SlotReading::is_active)
        };
        // Some old workers were replaced or retired for other reasons meanwhile.
        restart.old.retain(is_there);
        if let Some(new) = restart.replacement {
            let slot = slots.iter().find(|slot| slot.slot == new.slot)?;
            if slot.phase == SlotPhase::Booting && slot.number == new.number {
                return None;
            }
            if slot.phase == SlotPhase::Vacant && !restart.is_stale {
                let (replaced, left) = (restart.replaced, restart.old.len());
                self.under_way = None;
                return Some(RollingRestartStep::Stopped { slot: new.slot, replaced, left });
            }
            restart.replacement = None;
            let has_failed = slot.phase == SlotPhase::Vacant;
            // If the restart was requested again meanwhile, the replacement is old itself; it must not be its own
            // successor.
            let next = restart.old.iter().position(|old| *old != new).filter(|_| !has_failed);
            if let Some(old) = next.and_then(|next| restart.old.remove(next)) {
                restart.replaced += 1;
                return Some(RollingRestartStep::HandOver(old.slot));
            }
        }
        if restart.old.is_empty() {
            let replaced = restart.replaced;
            self.under_way = None;
            return Some(RollingRestartStep::Finished(replaced));
        }
        vacant.map(RollingRestartStep::Spawn)
    }
}

impl WorkerId {
    fn of(slot: &SlotReading) -> Self {
        Self { slot: slot.slot, number: slot.number }
    }
}

#[cfg(test)]
#[path = "rolling_restart_tests.rs"]
mod tests;
