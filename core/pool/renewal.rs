//! The renewal of a cache that persistent workers share, which can be emptied only while no worker uses it.
//!
//! A worker uses the cache from its boot to its end, so a renewal must replace all workers. Since a replacement boots
//! before an old worker leaves, the replacements cannot use the cache while an old worker lives. It therefore takes two
//! rolling restarts: the first brings workers that do not use the cache; the second, once the last user has gone,
//! brings workers that use the new cache. The pool never stops serving. Old workers that linger delay only the second
//! restart.
//!
//! Pure: a renewal continues from any state, even if workers come and go for other reasons; endless successive renewals
//! become rare. The machine starts and stops no worker; the first worker that boots while the cache has no user empties
//! it.
//!
//! ```text
//!            wanted             all are replaced        the last user has gone        one has booted: renewed
//!   Resting ───────▶ restart ────────────────▶ Waiting ──────────────────▶ restart ─────────────────────▶ Resting
//! ```
//!
//! The pauses between successive restarts also apply to a requested restart that failed and is attempted again, with or
//! without a cache.
//!
//! In classic mode, requests also use the cache, one after the other. There, the workers of the pool are the threads for
//! tasks, and the first task thread or request that is alone renews the cache.

use std::time::{Duration, Instant};

use svc_types::OpcacheFacts;

/// The state of the pool and its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenewalSample {
    /// The cache.
    pub cache: OpcacheFacts,
    /// The number of workers that serve, use the cache, and were not ordered to end.
    pub active_users: usize,
    /// The number of those that do not use the cache, because a renewal was wanted when they booted.
    pub active_uncached: usize,
    /// Whether a requested restart has failed, and workers from before it may be left. This needs no cache.
    pub is_behind: bool,
}

/// The next step of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalStep {
    /// Begin a rolling restart.
    Restart,
    /// Log that old workers linger and delay the renewal.
    Held,
}

/// Decides when to restart all workers to renew the cache. Must be called only while no rolling restart is under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Renewal {
    /// Rolling restarts since the last quiet period; one that was stopped counts several times.
    restarts: u32,
    restarted_at: Option<Instant>,
    /// No restart begins before this time.
    rest_until: Option<Instant>,
    held_since: Option<Instant>,
    is_reported: bool,
}

/// The number of rolling restarts that may follow each other immediately: two renewals.
const RESTARTS_AT_ONCE: u32 = 4;

/// The first pause between further restarts. It doubles each time.
const PAUSE_MIN: Duration = Duration::from_secs(5);

/// The longest of these pauses.
const PAUSE_MAX: Duration = Duration::from_secs(320);

/// After this long without a rolling restart, earlier ones no longer count.
const FORGET_AFTER: Duration = Duration::from_secs(640);

/// How long old workers may delay the renewal before it is logged.
const HELD_MIN: Duration = Duration::from_secs(1);

impl Renewal {
    /// Returns what to do about the state of the pool.
    pub fn decide(&mut self, sample: RenewalSample, now: Instant) -> Option<RenewalStep> {
        let RenewalSample { cache, active_users, active_uncached, is_behind } = sample;
        let OpcacheFacts { is_stale, users, is_occupied } = cache;
        let is_held = is_stale && users > 0 && active_users == 0;
        if !is_held {
            (self.held_since, self.is_reported) = (None, false);
        } else if let Some(step) = self.hold(now) {
            return Some(step);
        }
        // A stale cache needs a restart to lose its users, and another one for a worker that renews it. While the cache
        // has other users, that worker would boot uncached again; if those are requests, the next one renews it.
        let needs_restart = if is_stale {
            active_users > 0 || (active_uncached > 0 && !is_occupied && !is_held)
        } else {
            active_uncached > 0
        };
        ((needs_restart || is_behind) && self.may_restart(now)).then(|| self.restart(now))
    }

    /// Notes that a rolling restart was stopped, because a replacement failed to boot.
    pub fn stopped(&mut self, now: Instant) {
        self.restarts = self.restarts.saturating_add(RESTARTS_AT_ONCE);
        self.rest_until = Some(now + self.pause());
    }

    /// Forgets earlier restarts, because an operator has requested one.
    pub fn begin_anew(&mut self) {
        (self.restarts, self.rest_until) = (0, None);
    }

    /// Handles a renewal that old workers delay.
    fn hold(&mut self, now: Instant) -> Option<RenewalStep> {
        let held_since = *self.held_since.get_or_insert(now);
        let is_news = !self.is_reported && now.saturating_duration_since(held_since) >= HELD_MIN;
        self.is_reported |= is_news;
        is_news.then_some(RenewalStep::Held)
    }

    fn may_restart(&mut self, now: Instant) -> bool {
        if self.restarted_at.is_some_and(|at| now.saturating_duration_since(at) >= FORGET_AFTER) {
            self.begin_anew();
        }
        self.rest_until.is_none_or(|rest| now >= rest)
    }

    fn restart(&mut self, now: Instant) -> RenewalStep {
        self.restarts = self.restarts.saturating_add(1);
        self.restarted_at = Some(now);
        let is_pausing = self.restarts >= RESTARTS_AT_ONCE;
        self.rest_until = is_pausing.then(|| now + self.pause());
        RenewalStep::Restart
    }

    fn pause(&self) -> Duration {
        let doublings = self.restarts.saturating_sub(RESTARTS_AT_ONCE).min(16);
        (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stale cache with this many lingering users, active users and active uncached workers.
    fn stale(lingering: usize, active_users: usize, active_uncached: usize) -> RenewalSample {
        let cache = OpcacheFacts { is_stale: true, users: lingering + active_users, is_occupied: false };
        RenewalSample { cache, active_users, active_uncached, is_behind: false }
    }

    fn fresh(active_users: usize, active_uncached: usize) -> RenewalSample {
        let cache = OpcacheFacts { is_stale: false, users: active_users, is_occupied: false };
        RenewalSample { cache, active_users, active_uncached, is_behind: false }
    }

    #[test]
    fn a_cache_that_is_fresh_is_left_alone() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(fresh(4, 0), now), None);
        assert_eq!(renewal.decide(RenewalSample::default(), now), None, "and so is an unused one");
    }

    #[test]
    fn wanted_to_restart_to_waiting_to_restart_to_resting() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Restart));
        assert_eq!(renewal.decide(stale(2, 0, 4), now), None, "two of the old ones linger");
        assert_eq!(renewal.decide(stale(0, 0, 4), now), Some(RenewalStep::Restart));
        assert_eq!(renewal.decide(fresh(4, 0), now), None);
    }

    fn occupied(mut sample: RenewalSample) -> RenewalSample {
        sample.cache.is_occupied = true;
        sample
    }

    #[test]
    fn uncached_workers_wait_while_requests_use_the_cache() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(
            renewal.decide(occupied(stale(0, 2, 0)), now),
            Some(RenewalStep::Restart),
            "users leave it"
        );
        for second in 0..60 {
            let now = now + Duration::from_secs(second);
            assert_eq!(renewal.decide(occupied(stale(0, 0, 2)), now), None, "no boot could renew it");
        }
        let mut other = renewal;
        assert_eq!(other.decide(stale(0, 0, 2), now), Some(RenewalStep::Restart), "a boot renews it");
        assert_eq!(renewal.decide(occupied(fresh(0, 2)), now), Some(RenewalStep::Restart), "a request has");
        assert_eq!(renewal.decide(occupied(fresh(2, 0)), now), None);
    }

    #[test]
    fn a_user_that_booted_too_early_is_replaced_too() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(1, 1, 3), now), Some(RenewalStep::Restart));
    }

    #[test]
    fn uncached_workers_left_after_another_renewal_of_the_cache_are_replaced() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(fresh(1, 3), now), Some(RenewalStep::Restart));
    }

    #[test]
    fn without_workers_it_replaces_none() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(0, 0, 0), now), None);
    }

    #[test]
    fn lingering_old_workers_are_reported_once() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(1, 0, 4), now), None);
        assert_eq!(renewal.decide(stale(1, 0, 4), now + HELD_MIN / 2), None);
        assert_eq!(renewal.decide(stale(1, 0, 4), now + HELD_MIN), Some(RenewalStep::Held));
        assert_eq!(renewal.decide(stale(1, 0, 4), now + 9 * HELD_MIN), None);
        assert_eq!(renewal.decide(stale(0, 0, 4), now + 9 * HELD_MIN), Some(RenewalStep::Restart));
        assert_eq!(renewal.decide(stale(1, 0, 4), now + 20 * HELD_MIN), None, "the next time anew");
        assert_eq!(renewal.decide(stale(1, 0, 4), now + 21 * HELD_MIN), Some(RenewalStep::Held));
    }

    #[test]
    fn renewals_without_end_become_rare_and_are_forgotten_in_a_quiet_time() {
        let (mut renewal, start) = (Renewal::default(), crate::time::now());
        let mut restarts = Vec::new();
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            if renewal.decide(stale(0, 4, 0), now).is_some() {
                restarts.push(second);
            }
        }
        assert_eq!(restarts[..8], [0, 1, 2, 3, 8, 18, 38, 78]);
        let last = restarts[restarts.len() - 1];
        assert_eq!(last - restarts[restarts.len() - 2], PAUSE_MAX.as_secs());
        let later = start + Duration::from_secs(last) + FORGET_AFTER;
        for second in 0..3 {
            let now = later + Duration::from_secs(second);
            assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Restart));
        }
    }

    #[test]
    fn workers_from_before_a_failed_restart_are_replaced_with_and_without_a_cache() {
        for sample in [RenewalSample::default(), fresh(4, 0), stale(2, 0, 4)] {
            let (mut renewal, now) = (Renewal::default(), crate::time::now());
            assert_eq!(renewal.decide(sample, now), None);
            let behind = RenewalSample { is_behind: true, ..sample };
            let mut at = now;
            let mut pauses = Vec::new();
            for _ in 0..4 {
                renewal.stopped(at);
                let pause = (1..).find(|&second| {
                    let later = at + Duration::from_secs(second);
                    renewal.decide(behind, later) == Some(RenewalStep::Restart)
                });
                pauses.extend(pause);
                at += Duration::from_secs(pauses[pauses.len() - 1]);
            }
            assert_eq!(pauses, [5, 160, 320, 320]);
            renewal.stopped(at);
            renewal.begin_anew();
            assert_eq!(renewal.decide(behind, at), Some(RenewalStep::Restart));
        }
    }

    #[test]
    fn a_failed_restart_is_followed_by_a_pause_unless_one_is_ordered() {
        let (mut renewal, now) = (Renewal::default(), crate::time::now());
        assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Restart));
        renewal.stopped(now);
        assert_eq!(renewal.decide(stale(0, 4, 0), now + PAUSE_MIN), None);
        assert_eq!(renewal.decide(stale(0, 4, 0), now + 2 * PAUSE_MIN), Some(RenewalStep::Restart));
        renewal.stopped(now);
        renewal.begin_anew();
        assert_eq!(renewal.decide(stale(0, 4, 0), now), Some(RenewalStep::Restart));
    }
}
