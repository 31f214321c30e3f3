//! Replacing all persistent workers, one after the other, without a gap.
//!
//! Promises: pure; an old worker is told to end only after a new one serves, so that there are never fewer than before;
//! the first new one that does not boot stops it, and the old ones that are left go on. Refuses: it starts and ends
//! nobody; an old worker takes as long to end as what it carries.
//!
//! ```text
//!             asked                a slot is vacant: spawn
//!   Resting ─────────▶ Waiting ──────────────────────────▶ Booting ──did not boot: stopped──▶ Resting
//!     ▲                  │ ▲                                  │
//!     └── none is left ──┘ └── serves: an old one hands over ─┘
//! ```

use std::collections::VecDeque;

use super::slot::{Phase, SlotReading};

/// The machine.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    under_way: Option<UnderWay>,
}

#[derive(Clone, Debug)]
struct UnderWay {
    /// Who is to be replaced.
    old: VecDeque<Engagement>,
    replacement: Option<Engagement>,
    replaced: usize,
}

/// One worker of a slot, among those that the slot has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Engagement {
    slot: usize,
    number: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollStep {
    /// A worker is to be started in this slot; [`Roll::spawned`] is to be called.
    Hire(usize),
    /// The worker of this slot is to end.
    HandOver(usize),
    /// All are replaced: so many.
    Finished(usize),
    /// A new one did not boot: so many are replaced, so many go on as they are.
    Stopped {
        /// The slot of the new one.
        slot: usize,
        /// Those that were replaced before.
        replaced: usize,
        /// Those that were not.
        left: usize,
    },
}

impl Roll {
    /// All workers that are there now are to be replaced; also those that were new a moment ago.
    pub fn ask(&mut self, slots: &[SlotReading]) {
        let staff = slots.iter().filter(|slot| slot.is_staff());
        let old: VecDeque<_> = staff.map(Engagement::of).collect();
        let (replacement, replaced) =
            self.under_way.take().map_or((None, 0), |roll| (roll.replacement, roll.replaced));
        self.under_way = Some(UnderWay { old, replacement, replaced });
    }

    /// Whether it is under way.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// A worker was started as ordered: the slot's so-manieth.
    pub fn spawned(&mut self, slot: usize, number: u64) {
        if let Some(roll) = &mut self.under_way {
            roll.replacement = Some(Engagement { slot, number });
        }
    }

    /// Takes the next step that the slots allow, if there is one. `vacant` is a slot in which a worker may start.
    pub fn step(&mut self, slots: &[SlotReading], vacant: Option<usize>) -> Option<RollStep> {
        let roll = self.under_way.as_mut()?;
        let is_there = |one: &Engagement| {
            let found = slots.iter().find(|slot| Engagement::of(slot) == *one);
            found.is_some_and(SlotReading::is_staff)
        };
        // Whoever was replaced or retired meanwhile is not old any more.
        roll.old.retain(is_there);
        if let Some(new) = roll.replacement {
            let slot = slots.iter().find(|slot| slot.slot == new.slot)?;
            if slot.phase == Phase::Booting && slot.number == new.number {
                return None;
            }
            if slot.phase == Phase::Vacant {
                let (replaced, left) = (roll.replaced, roll.old.len());
                self.under_way = None;
                return Some(RollStep::Stopped { slot: new.slot, replaced, left });
            }
            roll.replacement = None;
            // Asked again while it booted, it is old itself; it is not to be followed by nobody.
            let next = roll.old.iter().position(|old| *old != new);
            if let Some(old) = next.and_then(|next| roll.old.remove(next)) {
                roll.replaced += 1;
                return Some(RollStep::HandOver(old.slot));
            }
        }
        if roll.old.is_empty() {
            let replaced = roll.replaced;
            self.under_way = None;
            return Some(RollStep::Finished(replaced));
        }
        vacant.map(RollStep::Hire)
    }
}

impl Engagement {
    fn of(slot: &SlotReading) -> Self {
        Self { slot: slot.slot, number: slot.number }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "roll_tests.rs"]
mod tests;
