//! Who of the workers that want to be replaced is stood in for while it ends.
//!
//! Promises: pure; a worker that ends at once is replaced in its own place, and only one that is held back, by what it
//! carries or by its own end, gets a stand-in; never more linger than may, so that a storm of such workers cannot fill the
//! memory with old ones. Refuses: it starts and ends nobody; beyond the bound a worker keeps its place until it has ended.

use std::time::Duration;

use super::slot::SlotReading;

/// How long the end of a worker that carries nothing may take before somebody stands in for it.
const ENDING_MAX: Duration = Duration::from_millis(500);

/// The slots of those who are to linger from now on, at most so many that `lingering_max` linger in all.
pub fn relieved(slots: &[SlotReading], lingering_max: usize) -> Vec<usize> {
    let lingering = slots.iter().filter(|slot| slot.is_lingering()).count();
    let held_back = slots.iter().filter(|slot| slot.is_staff() && is_held_back(slot));
    held_back.map(|slot| slot.slot).take(lingering_max.saturating_sub(lingering)).collect()
}

fn is_held_back(slot: &SlotReading) -> bool {
    slot.leaving_for.is_some_and(|leaving_for| slot.fibers > 0 || leaving_for >= ENDING_MAX)
}

#[cfg(all(test, not(loom)))]
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
    fn one_that_is_held_back_by_what_it_carries_is_relieved_at_once() {
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
    fn no_more_linger_than_may_whoever_ordered_it() {
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
}
