//! A pool of slots that does what the roll orders.

use super::super::slot::Order;
use super::*;

/// Slots by number; workers boot when told to.
struct Pool {
    roll: Roll,
    slots: Vec<SlotReading>,
}

impl Pool {
    fn new(workers: usize, spare: usize) -> Self {
        let slot = |slot| SlotReading {
            slot,
            phase: if slot < workers { Phase::Serving } else { Phase::Vacant },
            number: u64::from(slot < workers),
            ..SlotReading::default()
        };
        Self { roll: Roll::default(), slots: (0..workers + spare).map(slot).collect() }
    }

    fn ask(&mut self) {
        self.roll.ask(&self.slots);
    }

    /// Takes steps until there is none; returns them.
    fn steps(&mut self) -> Vec<RollStep> {
        let mut steps = Vec::new();
        loop {
            let vacant = self.slots.iter().position(|slot| slot.phase == Phase::Vacant);
            let Some(step) = self.roll.step(&self.slots, vacant) else { return steps };
            match step {
                RollStep::Hire(slot) => {
                    self.slots[slot].phase = Phase::Booting;
                    self.slots[slot].order = Order::Stay;
                    self.slots[slot].number += 1;
                    self.roll.spawned(slot, self.slots[slot].number);
                }
                RollStep::HandOver(slot) => self.slots[slot].order = Order::HandOver,
                RollStep::Finished(_) | RollStep::Stopped { .. } => {}
            }
            steps.push(step);
        }
    }

    fn set(&mut self, slot: usize, phase: Phase) {
        self.slots[slot].phase = phase;
    }
}

#[test]
fn without_being_asked_it_rests() {
    let mut pool = Pool::new(2, 1);
    assert_eq!(pool.steps(), []);
}

#[test]
fn an_old_worker_hands_over_only_when_the_new_one_serves() {
    let mut pool = Pool::new(1, 1);
    pool.ask();
    assert_eq!(pool.steps(), [RollStep::Hire(1)]);
    assert_eq!(pool.steps(), [], "it boots");
    pool.set(1, Phase::Serving);
    assert_eq!(pool.steps(), [RollStep::HandOver(0), RollStep::Finished(1)]);
    assert!(!pool.roll.is_under_way());
}

#[test]
fn one_after_the_other_is_replaced_as_slots_come_free() {
    let mut pool = Pool::new(3, 1);
    pool.ask();
    for (new, old) in [(3, 0), (0, 1), (1, 2)] {
        assert_eq!(pool.steps().last(), Some(&RollStep::Hire(new)));
        pool.set(new, Phase::Serving);
        let steps = pool.steps();
        assert_eq!(steps[0], RollStep::HandOver(old));
        pool.set(old, Phase::Vacant);
        if old == 2 {
            assert_eq!(steps[1..], [RollStep::Finished(3)]);
        } else {
            assert_eq!(steps.len(), 1, "no slot is vacant: {steps:?}");
        }
    }
}

#[test]
fn a_new_one_that_does_not_boot_stops_it_and_the_others_stay() {
    let mut pool = Pool::new(3, 2);
    pool.ask();
    pool.steps();
    pool.set(3, Phase::Serving);
    assert_eq!(pool.steps(), [RollStep::HandOver(0), RollStep::Hire(4)]);
    pool.set(0, Phase::Vacant);
    pool.set(4, Phase::Vacant);
    assert_eq!(pool.steps(), [RollStep::Stopped { slot: 4, replaced: 1, left: 2 }]);
    assert_eq!(pool.slots[1].order, Order::Stay);
    assert_eq!(pool.steps(), []);
}

#[test]
fn who_was_replaced_or_has_left_meanwhile_is_passed_over() {
    let mut pool = Pool::new(3, 1);
    pool.ask();
    pool.steps();
    pool.slots[0].number += 1;
    pool.slots[1].order = Order::Retire;
    pool.set(3, Phase::Serving);
    assert_eq!(pool.steps(), [RollStep::HandOver(2), RollStep::Finished(1)]);
}

#[test]
fn being_asked_again_replaces_the_new_ones_too() {
    let mut pool = Pool::new(1, 2);
    pool.ask();
    assert_eq!(pool.steps(), [RollStep::Hire(1)]);
    pool.ask();
    pool.set(1, Phase::Serving);
    assert_eq!(pool.steps(), [RollStep::HandOver(0), RollStep::Hire(2)]);
    pool.set(0, Phase::Vacant);
    pool.set(2, Phase::Serving);
    assert_eq!(pool.steps(), [RollStep::HandOver(1), RollStep::Finished(2)]);
}

#[test]
fn a_new_one_that_was_replaced_at_once_did_boot() {
    let mut pool = Pool::new(1, 1);
    pool.ask();
    pool.steps();
    pool.slots[1].number += 1;
    pool.set(1, Phase::Booting);
    assert_eq!(pool.steps(), [RollStep::HandOver(0), RollStep::Finished(1)]);
}

#[test]
fn a_pool_without_workers_is_done_at_once() {
    let mut pool = Pool::new(0, 1);
    pool.ask();
    assert_eq!(pool.steps(), [RollStep::Finished(0)]);
}
