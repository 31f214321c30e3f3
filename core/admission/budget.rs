//! The wait budget: the ceiling while clients are patient, and less while the pool works for clients that have left.
//!
//! The budget stays between the floor and the ceiling. It is halved at most once per tick, and only on the evidence
//! of at least `STARTED_MIN` requests. The controller neither counts nor reads a clock; a tick is one call.
//!
//! ```text
//!               a quarter or more of the started work was abandoned: halve
//!   ceiling ──────────────────────────────────────────────────────────────▶ floor
//!           ◀──────────────────────────────────────────────────────────────
//!               nothing waits, and less than a quarter was abandoned: an eighth of the ceiling up
//! ```

use std::time::Duration;

/// The data of a tick. The counts never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetSample {
    /// Requests that workers took off the queue, including those already answered with 499.
    pub started: u64,
    /// The subset of these whose client left before the response.
    pub abandoned: u64,
    /// Whether a request is queued or waits for a queue slot.
    pub has_backlog: bool,
}

/// The controller of the wait budget.
#[derive(Clone, Debug)]
pub struct BudgetController {
    ceiling: Duration,
    floor: Duration,
    budget: Duration,
    /// The counts at the last decision.
    decided: BudgetSample,
}

impl BudgetController {
    /// Starts at the ceiling. A ceiling of zero is fail-fast mode: the budget is always zero.
    pub fn new(ceiling: Duration) -> Self {
        let floor = (ceiling / FLOOR_PARTS).max(FLOOR_MIN).min(ceiling);
        Self { ceiling, floor, budget: ceiling, decided: BudgetSample::default() }
    }

    /// Processes the data of one tick and returns the new budget.
    pub fn tick(&mut self, sample: BudgetSample) -> Duration {
        let started = sample.started.saturating_sub(self.decided.started);
        let abandoned = sample.abandoned.saturating_sub(self.decided.abandoned);
        let is_wasteful = started > 0 && abandoned.saturating_mul(4) >= started;
        if started >= STARTED_MIN && is_wasteful {
            self.budget = (self.budget / 2).max(self.floor);
            self.decided = sample;
        } else if !is_wasteful && !sample.has_backlog {
            self.budget = (self.budget + self.ceiling / STEP_PARTS).min(self.ceiling);
            self.decided = sample;
        } else if started >= STARTED_MIN {
            // Enough evidence, and no waste, but work still waits: the budget stays.
            self.decided = sample;
        }
        debug_assert!(self.floor <= self.budget && self.budget <= self.ceiling, "{self:?}");
        self.budget
    }
}

/// The number of requests needed as evidence for halving the budget.
const STARTED_MIN: u64 = 8;

/// The floor as a fraction of the ceiling.
const FLOOR_PARTS: u32 = 64;

/// The minimum of the floor, unless the ceiling is lower.
const FLOOR_MIN: Duration = Duration::from_millis(10);

/// The step up as a fraction of the ceiling.
const STEP_PARTS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const CEILING: Duration = Duration::from_millis(1000);

    fn sample(started: u64, abandoned: u64, has_backlog: bool) -> BudgetSample {
        BudgetSample { started, abandoned, has_backlog }
    }

    fn lowered() -> BudgetController {
        let mut controller = BudgetController::new(CEILING);
        assert_eq!(controller.tick(sample(8, 2, true)), CEILING / 2);
        controller
    }

    #[test]
    fn the_floor_is_a_sixty_fourth_but_ten_milliseconds_at_least() {
        let floor = |ceiling| BudgetController::new(Duration::from_millis(ceiling)).floor;
        assert_eq!(floor(6400), Duration::from_millis(100));
        assert_eq!(floor(640), Duration::from_millis(10));
        assert_eq!(floor(100), Duration::from_millis(10));
        assert_eq!(floor(4), Duration::from_millis(4));
        assert_eq!(floor(0), Duration::ZERO);
    }

    #[test]
    fn a_quarter_abandoned_halves_and_less_does_not() {
        let mut controller = BudgetController::new(CEILING);
        assert_eq!(controller.tick(sample(100, 24, true)), CEILING);
        assert_eq!(controller.tick(sample(200, 49, true)), CEILING / 2);
    }

    #[test]
    fn seven_requests_are_no_evidence_and_the_eighth_completes_it() {
        let mut controller = BudgetController::new(CEILING);
        assert_eq!(controller.tick(sample(7, 7, true)), CEILING);
        assert_eq!(controller.tick(sample(8, 7, true)), CEILING / 2);
    }

    #[test]
    fn each_halving_needs_new_evidence() {
        let mut controller = lowered();
        assert_eq!(controller.tick(sample(8, 2, true)), CEILING / 2);
        assert_eq!(controller.tick(sample(15, 9, true)), CEILING / 2);
        assert_eq!(controller.tick(sample(16, 9, true)), CEILING / 4);
    }

    #[test]
    fn halving_ends_at_the_floor() {
        let mut controller = BudgetController::new(CEILING);
        for round in 1..20 {
            controller.tick(sample(round * 8, round * 8, true));
        }
        assert_eq!(controller.budget, controller.floor);
    }

    #[test]
    fn an_empty_queue_steps_up_to_the_ceiling() {
        let mut controller = lowered();
        for eighths in 5..=8 {
            assert_eq!(controller.tick(sample(8, 2, false)), CEILING / 8 * eighths);
        }
        assert_eq!(controller.tick(sample(8, 2, false)), CEILING);
    }

    #[test]
    fn a_backlog_or_departed_clients_forbid_the_step_up() {
        let mut controller = lowered();
        assert_eq!(controller.tick(sample(50, 2, true)), CEILING / 2);
        assert_eq!(controller.tick(sample(54, 3, false)), CEILING / 2, "one of four is a quarter");
        assert_eq!(controller.tick(sample(55, 3, false)), CEILING / 8 * 5, "one of five is less");
    }

    #[test]
    fn a_pool_that_starts_nothing_while_work_waits_changes_nothing() {
        let mut controller = lowered();
        for _ in 0..100 {
            assert_eq!(controller.tick(sample(8, 2, true)), CEILING / 2);
        }
    }

    #[test]
    fn fail_fast_mode_has_no_budget() {
        let mut controller = BudgetController::new(Duration::ZERO);
        assert_eq!(controller.tick(sample(8, 8, true)), Duration::ZERO);
        assert_eq!(controller.tick(sample(8, 8, false)), Duration::ZERO);
    }
}
