//! Renewing what persistent workers share: a cache that can only be emptied while nobody uses it.
//!
//! A worker that has booted uses the cache for as long as it lives, so all of them have to be replaced, and since another
//! one boots before an old one leaves, those that come meanwhile must do without the cache. So a renewal takes two rolls:
//! the first brings workers that are outsiders to the cache, the second, when the last user has gone, workers that use
//! the new one. Somebody serves all the time; how long the old ones linger delays the second roll and nothing else.
//!
//! Promises: pure; a renewal goes on from whatever state workers that come and go for other reasons have brought about;
//! renewals that follow each other without end become rare. Refuses: it starts and ends nobody; who empties the cache is
//! the first worker that boots while there is no user.
//!
//! ```text
//!            wanted          all are replaced        the last user has gone     one has booted: renewed
//!   Resting ───────▶ roll ────────────────▶ Waiting ──────────────────▶ roll ─────────────────────▶ Resting
//! ```

use std::time::{Duration, Instant};

/// What there is to know of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFacts {
    /// It wants to be renewed.
    pub is_stale: bool,
    /// Workers that use it, those that boot and those that linger included.
    pub users: usize,
}

/// What the pool looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenewalSample {
    /// The cache.
    pub cache: CacheFacts,
    /// Workers that serve, use the cache, and have not been told to end.
    pub staff_users: usize,
    /// The same of those that do without it, because it wanted to be renewed when they booted.
    pub staff_outsiders: usize,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalStep {
    /// All workers are to be replaced.
    Roll,
    /// Nothing; old workers linger for longer than a moment, which is worth telling.
    Held,
}

/// The machine; to be asked while no roll is under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Renewal {
    /// Rolls that were ordered since the last quiet time, and those that did not get to their end counted several times.
    rolls: u32,
    rolled_at: Option<Instant>,
    /// No roll is ordered before this moment.
    rest_until: Option<Instant>,
    held_since: Option<Instant>,
    is_told: bool,
}

/// Rolls that may follow each other at once: two renewals.
const ROLLS_AT_ONCE: u32 = 4;

/// The first pause between further ones; doubled each time.
const PAUSE_MIN: Duration = Duration::from_secs(5);

/// The longest of these pauses.
const PAUSE_MAX: Duration = Duration::from_secs(320);

/// After so long without a roll nothing of the ones before is remembered.
const FORGET_AFTER: Duration = Duration::from_secs(640);

/// Old workers may linger for so long without a word.
const HELD_MIN: Duration = Duration::from_secs(1);

impl Renewal {
    /// Says what to do about what the pool looks like.
    pub fn decide(&mut self, sample: RenewalSample, now: Instant) -> Option<RenewalStep> {
        let RenewalSample { cache: CacheFacts { is_stale, users }, staff_users, staff_outsiders } = sample;
        let is_held = is_stale && users > 0 && staff_users == 0;
        if is_held {
            return self.hold(now);
        }
        (self.held_since, self.is_told) = (None, false);
        // While it is stale: either its users are to go, or they have gone, and it is renewed by the first that comes.
        let wants_roll = if is_stale { staff_users + staff_outsiders > 0 } else { staff_outsiders > 0 };
        (wants_roll && self.may_roll(now)).then(|| self.roll(now))
    }

    /// A roll has not got to its end, because a new worker did not boot.
    pub fn stopped(&mut self, now: Instant) {
        self.rolls = self.rolls.saturating_add(ROLLS_AT_ONCE);
        self.rest_until = Some(now + self.pause());
    }

    /// Somebody who knows why has ordered a roll: what came before is forgotten.
    pub fn begin_anew(&mut self) {
        (self.rolls, self.rest_until) = (0, None);
    }

    /// Old workers keep the cache from being renewed.
    fn hold(&mut self, now: Instant) -> Option<RenewalStep> {
        let held_since = *self.held_since.get_or_insert(now);
        let is_news = !self.is_told && now.saturating_duration_since(held_since) >= HELD_MIN;
        self.is_told |= is_news;
        is_news.then_some(RenewalStep::Held)
    }

    fn may_roll(&mut self, now: Instant) -> bool {
        if self.rolled_at.is_some_and(|at| now.saturating_duration_since(at) >= FORGET_AFTER) {
            self.begin_anew();
        }
        self.rest_until.is_none_or(|rest| now >= rest)
    }

    fn roll(&mut self, now: Instant) -> RenewalStep {
        self.rolls = self.rolls.saturating_add(1);
        self.rolled_at = Some(now);
        let is_pausing = self.rolls >= ROLLS_AT_ONCE;
        self.rest_until = is_pausing.then(|| now + self.pause());
        RenewalStep::Roll
    }

    fn pause(&self) -> Duration {
        let doublings = self.rolls.saturating_sub(ROLLS_AT_ONCE).min(16);
        (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// So many that linger use the stale cache, and so many of the staff, and so many of the staff do without.
    fn stale(lingering: usize, staff_users: usize, staff_outsiders: usize) -> RenewalSample {
        let cache = CacheFacts { is_stale: true, users: lingering + staff_users };
        RenewalSample { cache, staff_users, staff_outsiders }
    }

    fn fresh(staff_users: usize, staff_outsiders: usize) -> RenewalSample {
        let cache = CacheFacts { is_stale: false, users: staff_users };
        RenewalSample { cache, staff_users, staff_outsiders }
    }

    #[test]
    fn a_cache_that_is_fresh_is_left_alone() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(fresh(4, 0), now), None);
        assert_eq!(renewal.decide(RenewalSample::default(), now), None, "and so is one that nobody uses");
    }

    #[test]
    fn wanted_to_roll_to_waiting_to_roll_to_resting() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Roll));
        assert_eq!(renewal.decide(stale(2, 0, 4), now), None, "two of the old ones linger");
        assert_eq!(renewal.decide(stale(0, 0, 4), now), Some(RenewalStep::Roll));
        assert_eq!(renewal.decide(fresh(4, 0), now), None);
    }

    #[test]
    fn a_user_that_booted_too_early_is_replaced_too() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(1, 1, 3), now), Some(RenewalStep::Roll));
    }

    #[test]
    fn outsiders_that_were_left_when_the_cache_was_renewed_by_chance_are_replaced() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(fresh(1, 3), now), Some(RenewalStep::Roll));
    }

    #[test]
    fn without_anybody_to_replace_there_is_nothing_to_do() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(0, 0, 0), now), None);
    }

    #[test]
    fn old_workers_that_linger_are_told_of_once() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(1, 0, 4), now), None);
        assert_eq!(renewal.decide(stale(1, 0, 4), now + HELD_MIN / 2), None);
        assert_eq!(renewal.decide(stale(1, 0, 4), now + HELD_MIN), Some(RenewalStep::Held));
        assert_eq!(renewal.decide(stale(1, 0, 4), now + 9 * HELD_MIN), None);
        assert_eq!(renewal.decide(stale(0, 0, 4), now + 9 * HELD_MIN), Some(RenewalStep::Roll));
        assert_eq!(renewal.decide(stale(1, 0, 4), now + 20 * HELD_MIN), None, "the next time anew");
        assert_eq!(renewal.decide(stale(1, 0, 4), now + 21 * HELD_MIN), Some(RenewalStep::Held));
    }

    #[test]
    fn renewals_without_end_become_rare_and_are_forgotten_in_a_quiet_time() {
        let (mut renewal, start) = (Renewal::default(), crate::time::now());
        let mut rolls = Vec::new();
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            if renewal.decide(stale(0, 4, 0), now).is_some() {
                rolls.push(second);
            }
        }
        assert_eq!(rolls[..8], [0, 1, 2, 3, 8, 18, 38, 78]);
        let last = rolls[rolls.len() - 1];
        assert_eq!(last - rolls[rolls.len() - 2], PAUSE_MAX.as_secs());
        let later = start + Duration::from_secs(last) + FORGET_AFTER;
        for second in 0..3 {
            let now = later + Duration::from_secs(second);
            assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Roll));
        }
    }

    #[test]
    fn after_a_roll_that_stopped_there_is_a_pause_unless_somebody_orders_one() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Roll));
        renewal.stopped(now);
        assert_eq!(renewal.decide(stale(0, 4, 0), now + PAUSE_MIN), None);
        assert_eq!(renewal.decide(stale(0, 4, 0), now + 2 * PAUSE_MIN), Some(RenewalStep::Roll));
        renewal.stopped(now);
        renewal.begin_anew();
        assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Roll));
    }
}
