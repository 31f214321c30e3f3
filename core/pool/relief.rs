//! Relief: which workers that want to be replaced get a stand-in while they end.
//!
//! Pure: a worker that ends immediately is replaced in its own slot, and only one that is held back, by jobs in flight
//! or by its own end, gets a stand-in; the number of lingering workers is bounded, so that many such workers cannot
//! fill the memory. This module starts and stops no worker; beyond the bound, a worker keeps its slot until it has
//! ended, and may have to carry on meanwhile.

use std::time::Duration;

use super::slot::SlotReading;

/// How long a worker with nothing in flight may take to end before it gets a stand-in.
const ENDING_MAX: Duration = Duration::from_millis(500);

/// Returns the slots whose workers linger from now on, so that at most `lingering_max` linger in total.
pub fn relieved(slots: &[SlotReading], lingering_max: usize) -> Vec<usize> {
    let lingering = slots.iter().filter(|slot| slot.is_lingering()).count();
    let held_back = slots.iter().filter(|slot| slot.is_active() && is_held_back(slot));
    held_back.map(|slot| slot.slot).take(lingering_max.saturating_sub(lingering)).collect()
}

/// Returns the slots whose workers take work although they want to be replaced: jobs in flight hold them back, no more
/// may linger, and no other worker takes work or is about to. If the jobs in flight wait for jobs in the queue, none of
/// these workers would ever end otherwise.
pub(super) fn carrying_on(slots: &[SlotReading]) -> Vec<usize> {
    let active = || slots.iter().filter(|slot| slot.is_active());
    if active().any(|slot| slot.leaving_for.is_none()) {
        return Vec::new();
    }
    active().filter(|slot| slot.fibers > 0).map(|slot| slot.slot).collect()
}

fn is_held_back(slot: &SlotReading) -> bool {
    slot.leaving_for.is_some_and(|leaving_for| slot.fibers > 0 || leaving_for >= ENDING_MAX)
}

#[cfg(test)]
mod tests {

    use super::super::slot::{SlotPhase, WorkerOrder};
    use super::*;

    fn serving(slot: usize, fibers: usize, leaving_ms: Option<u64>) -> SlotReading {
        let leaving_for = leaving_ms.map(Duration::from_millis);
        SlotReading { slot, fibers, leaving_for, phase: SlotPhase::Serving, ..SlotReading::default() }
    }

    fn lingering(slot: usize, order: WorkerOrder) -> SlotReading {
        SlotReading { order, ..serving(slot, 1, Some(0)) }
    }

    #[test]
    fn a_worker_that_its_suspended_requests_hold_is_relieved_at_once() {
        assert_eq!(
            relieved(&[serving(0, 2, None), serving(1, 2, Some(0)), serving(2, 1, Some(9))], 4),
            [1, 2]
        );
    }

    #[test]
    fn one_that_carries_nothing_has_a_moment_to_end() {
        assert_eq!(
            relieved(&[serving(0, 0, Some(0)), serving(1, 0, Some(499)), serving(2, 0, Some(500))], 4),
            [2]
        );
    }

    #[test]
    fn lingering_workers_are_bounded_for_any_order() {
        let mut slots =
            vec![serving(0, 1, Some(0)), serving(1, 1, Some(0)), lingering(2, WorkerOrder::HandOver)];
        assert_eq!(relieved(&slots, 2), [0]);
        slots.push(lingering(3, WorkerOrder::Retire));
        assert_eq!(relieved(&slots, 2), [0; 0]);
        slots.push(lingering(4, WorkerOrder::HandOver));
        assert_eq!(relieved(&slots, 2), [0; 0]);
    }

    #[test]
    fn a_slot_without_a_worker_is_not_asked() {
        let gone = SlotReading { phase: SlotPhase::Vacant, ..serving(0, 0, Some(900)) };
        assert_eq!(relieved(&[gone], 4), [0; 0]);
    }

    #[test]
    fn workers_carry_on_where_no_other_one_takes_work() {
        let mut slots =
            vec![serving(0, 1, Some(0)), serving(1, 0, Some(0)), lingering(2, WorkerOrder::HandOver)];
        assert_eq!(carrying_on(&slots), [0], "one without jobs ends, and its slot has another one");
        slots.push(SlotReading { phase: SlotPhase::Booting, ..serving(3, 0, None) });
        assert!(carrying_on(&slots).is_empty(), "one is about to");
        slots[3].phase = SlotPhase::Vacant;
        assert_eq!(carrying_on(&slots), [0], "it has not booted");
        slots[3] = serving(3, 7, None);
        assert!(carrying_on(&slots).is_empty());
    }
}
