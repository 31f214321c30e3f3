//! A pool of slots that carries out the steps of a rolling restart.

use super::super::slot::WorkerOrder;
use super::*;

/// Slots by number; workers boot when the test orders it.
struct FakePool {
    rolling_restart: RollingRestart,
    slots: Vec<SlotReading>,
}

impl FakePool {
    fn new(workers: usize, spare: usize) -> Self {
        let slot = |slot| SlotReading {
            slot,
            phase: if slot < workers { SlotPhase::Serving } else { SlotPhase::Vacant },
            number: u64::from(slot < workers),
            ..SlotReading::default()
        };
        Self { rolling_restart: RollingRestart::default(), slots: (0..workers + spare).map(slot).collect() }
    }

    fn ask(&mut self) {
        self.rolling_restart.ask(&self.slots);
    }

    /// Takes steps until none is left; returns them.
    fn steps(&mut self) -> Vec<RollingRestartStep> {
        let mut steps = Vec::new();
        loop {
            let vacant = self.slots.iter().position(|slot| slot.phase == SlotPhase::Vacant);
            let Some(step) = self.rolling_restart.step(&self.slots, vacant) else { return steps };
            match step {
                RollingRestartStep::Spawn(slot) => {
                    self.slots[slot].phase = SlotPhase::Booting;
                    self.slots[slot].order = WorkerOrder::Serve;
                    self.slots[slot].number += 1;
                    self.rolling_restart.spawned(slot, self.slots[slot].number);
                }
                RollingRestartStep::HandOver(slot) => self.slots[slot].order = WorkerOrder::HandOver,
                RollingRestartStep::Finished(_) | RollingRestartStep::Stopped { .. } => {}
            }
            steps.push(step);
        }
    }

    fn set(&mut self, slot: usize, phase: SlotPhase) {
        self.slots[slot].phase = phase;
    }
}

#[test]
fn it_does_nothing_without_a_request() {
    let mut pool = FakePool::new(2, 1);
    assert_eq!(pool.steps(), []);
}

#[test]
fn an_old_worker_hands_over_only_when_the_new_one_serves() {
    let mut pool = FakePool::new(1, 1);
    pool.ask();
    assert_eq!(pool.steps(), [RollingRestartStep::Spawn(1)]);
    assert_eq!(pool.steps(), [], "it boots");
    pool.set(1, SlotPhase::Serving);
    assert_eq!(pool.steps(), [RollingRestartStep::HandOver(0), RollingRestartStep::Finished(1)]);
    assert!(!pool.rolling_restart.is_under_way());
}

#[test]
fn workers_are_replaced_one_by_one_as_slots_become_free() {
    let mut pool = FakePool::new(3, 1);
    pool.ask();
    for (new, old) in [(3, 0), (0, 1), (1, 2)] {
        assert_eq!(pool.steps().last(), Some(&RollingRestartStep::Spawn(new)));
        pool.set(new, SlotPhase::Serving);
        let steps = pool.steps();
        assert_eq!(steps[0], RollingRestartStep::HandOver(old));
        pool.set(old, SlotPhase::Vacant);
        if old == 2 {
            assert_eq!(steps[1..], [RollingRestartStep::Finished(3)]);
        } else {
            assert_eq!(steps.len(), 1, "no slot is vacant: {steps:?}");
        }
    }
}

#[test]
fn a_new_one_that_does_not_boot_stops_it_and_the_others_stay() {
    let mut pool = FakePool::new(3, 2);
    pool.ask();
    pool.steps();
    pool.set(3, SlotPhase::Serving);
    assert_eq!(pool.steps(), [RollingRestartStep::HandOver(0), RollingRestartStep::Spawn(4)]);
    pool.set(0, SlotPhase::Vacant);
    pool.set(4, SlotPhase::Vacant);
    assert_eq!(pool.steps(), [RollingRestartStep::Stopped { slot: 4, replaced: 1, left: 2 }]);
    assert_eq!(pool.slots[1].order, WorkerOrder::Serve);
    assert_eq!(pool.steps(), []);
}

#[test]
fn workers_replaced_or_gone_meanwhile_are_skipped() {
    let mut pool = FakePool::new(3, 1);
    pool.ask();
    pool.steps();
    pool.slots[0].number += 1;
    pool.slots[1].order = WorkerOrder::Retire;
    pool.set(3, SlotPhase::Serving);
    assert_eq!(pool.steps(), [RollingRestartStep::HandOver(2), RollingRestartStep::Finished(1)]);
}

#[test]
fn a_second_restart_replaces_the_new_workers_too() {
    let mut pool = FakePool::new(1, 2);
    pool.ask();
    assert_eq!(pool.steps(), [RollingRestartStep::Spawn(1)]);
    pool.ask();
    pool.set(1, SlotPhase::Serving);
    assert_eq!(pool.steps(), [RollingRestartStep::HandOver(0), RollingRestartStep::Spawn(2)]);
    pool.set(0, SlotPhase::Vacant);
    pool.set(2, SlotPhase::Serving);
    assert_eq!(pool.steps(), [RollingRestartStep::HandOver(1), RollingRestartStep::Finished(2)]);
}

#[test]
fn a_new_one_from_before_the_question_decides_nothing() {
    let mut pool = FakePool::new(2, 1);
    pool.ask();
    assert_eq!(pool.steps(), [RollingRestartStep::Spawn(2)]);
    pool.ask();
    assert_eq!(pool.steps(), []);
    pool.set(2, SlotPhase::Vacant);
    assert_eq!(pool.steps(), [RollingRestartStep::Spawn(2)], "the workers that it booted may be gone");
    pool.set(2, SlotPhase::Vacant);
    assert_eq!(pool.steps(), [RollingRestartStep::Stopped { slot: 2, replaced: 0, left: 2 }]);
}

#[test]
fn a_new_one_that_was_replaced_at_once_did_boot() {
    let mut pool = FakePool::new(1, 1);
    pool.ask();
    pool.steps();
    pool.slots[1].number += 1;
    pool.set(1, SlotPhase::Booting);
    assert_eq!(pool.steps(), [RollingRestartStep::HandOver(0), RollingRestartStep::Finished(1)]);
}

#[test]
fn a_pool_without_workers_is_done_at_once() {
    let mut pool = FakePool::new(0, 1);
    pool.ask();
    assert_eq!(pool.steps(), [RollingRestartStep::Finished(0)]);
}
