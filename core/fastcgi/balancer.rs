//! Chooses one of several responders for a request.
//!
//! It is the one with the fewest requests in progress. A responder that fails at once is always the least busy one, so it
//! would get most requests: after [`FAILURES_MAX`] failures without a response in between, it gets none for a pause, and then
//! one at a time until it responds. Each further failure doubles the pause. If all that can be reached are in this state, they
//! get requests as if none were: an attempt may succeed, and a refusal cannot.

use std::time::{Duration, Instant};

/// Chooses a responder for each request of an executor.
#[derive(Debug)]
pub struct Balancer {
    responders: Vec<Responder>,
}

/// A responder.
#[derive(Clone, Debug, Default)]
struct Responder {
    in_use: usize,
    /// Why the last connection to it failed.
    error: Option<String>,
    /// The number of failures since its last response.
    failures: u32,
    pauses_until: Option<Instant>,
}

impl Responder {
    fn is_failing(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// Returns whether it should get no request now: it pauses, or is being tried.
    fn is_pausing(&self, now: Instant) -> bool {
        self.is_failing() && (self.in_use > 0 || self.pauses_until.is_some_and(|until| now < until))
    }
}

impl Balancer {
    /// Assumes that all `count` responders can be reached.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { responders: vec![Responder::default(); count] }
    }

    /// Takes a place at a responder that can be reached; `None` if there is none. Another one than `failed` is preferred.
    pub fn take(&mut self, now: Instant, failed: Option<usize>) -> Option<usize> {
        let reachable = self.responders.iter().enumerate().filter(|(_, it)| it.error.is_none());
        let (index, _) =
            reachable.min_by_key(|(index, it)| (it.is_pausing(now), Some(*index) == failed, it.in_use))?;
        self.responders[index].in_use += 1;
        Some(index)
    }

    /// Gives a place back.
    pub fn give_back(&mut self, index: usize) {
        self.responders[index].in_use -= 1;
    }

    /// Notes a complete response. Returns whether the responder was failing.
    pub fn succeeded(&mut self, index: usize) -> bool {
        let responder = &mut self.responders[index];
        let was_failing = responder.is_failing();
        (responder.failures, responder.pauses_until) = (0, None);
        was_failing
    }

    /// Notes a request without a complete response. Returns whether this begins the first pause.
    pub fn failed(&mut self, index: usize, now: Instant) -> bool {
        if self.responders.len() == 1 {
            return false;
        }
        let responder = &mut self.responders[index];
        // Of requests that were in progress at the same time, only one counts.
        if responder.pauses_until.is_some_and(|until| now < until) {
            return false;
        }
        responder.failures = responder.failures.saturating_add(1);
        if let Some(doublings) = responder.failures.checked_sub(FAILURES_MAX) {
            let pause = PAUSE_MIN.saturating_mul(1 << doublings.min(16)).min(PAUSE_MAX);
            responder.pauses_until = Some(now + pause);
        }
        responder.failures == FAILURES_MAX
    }

    /// Notes whether a connection to the responder has failed. Returns the reason that was noted before.
    pub fn set_error(&mut self, index: usize, error: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.responders[index].error, error)
    }

    /// Returns why each responder cannot be reached; `None` if one can.
    #[must_use]
    pub fn errors(&self) -> Option<Vec<&str>> {
        self.responders.iter().map(|it| it.error.as_deref()).collect()
    }
}

/// The number of failures in a row that begin a pause. A single script that ends its process must not.
const FAILURES_MAX: u32 = 3;

/// The first pause, and the longest one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    /// Takes a place and gives it back.
    fn next(balancer: &mut Balancer, now: Instant) -> Option<usize> {
        let index = balancer.take(now, None)?;
        balancer.give_back(index);
        Some(index)
    }

    fn fail(balancer: &mut Balancer, index: usize, times: u32, now: Instant) {
        for _ in 0..times {
            balancer.failed(index, now);
        }
    }

    #[test]
    fn the_least_busy_one_is_taken() {
        let (mut balancer, now) = (Balancer::new(2), time::now());
        assert_eq!([balancer.take(now, None), balancer.take(now, None)], [Some(0), Some(1)]);
        balancer.give_back(1);
        assert_eq!(balancer.take(now, None), Some(1));
        balancer.give_back(0);
        assert_eq!(balancer.take(now, None), Some(0));
        balancer.give_back(0);
        assert_eq!(balancer.take(now, Some(0)), Some(1), "the request has failed at the first one");
    }

    #[test]
    fn one_that_cannot_be_reached_gets_nothing() {
        let (mut balancer, now) = (Balancer::new(2), time::now());
        assert_eq!(balancer.set_error(0, Some("gone".into())), None);
        assert_eq!((next(&mut balancer, now), balancer.errors()), (Some(1), None));
        assert_eq!(balancer.take(now, Some(1)), Some(1));
        balancer.set_error(1, Some("away".into()));
        assert_eq!((balancer.take(now, None), balancer.errors()), (None, Some(vec!["gone", "away"])));
        assert_eq!(balancer.set_error(0, None).as_deref(), Some("gone"));
        assert_eq!(next(&mut balancer, now), Some(0));
    }

    #[test]
    fn one_that_fails_at_once_does_not_attract_requests() {
        let (mut balancer, begin) = (Balancer::new(2), time::now());
        let mut lost = 0;
        // The second one has a request in progress all the time, and the first one never.
        assert_eq!(balancer.take(begin, Some(0)), Some(1));
        for millis in 0..60_000 {
            let now = begin + Duration::from_millis(millis);
            if next(&mut balancer, now) == Some(0) {
                lost += 1;
                balancer.failed(0, now);
            }
        }
        // Pauses of 1, 2, 4, 8, 16 and 30 seconds.
        assert_eq!(lost, FAILURES_MAX + 5);
    }

    #[test]
    fn a_response_ends_the_failures() {
        let (mut balancer, now) = (Balancer::new(2), time::now());
        for _ in 0..10 {
            fail(&mut balancer, 0, FAILURES_MAX - 1, now);
            assert_eq!(next(&mut balancer, now), Some(0));
            assert!(!balancer.succeeded(0));
        }
        fail(&mut balancer, 0, FAILURES_MAX, now);
        assert_eq!(next(&mut balancer, now), Some(1));
        assert!(balancer.succeeded(0));
        assert_eq!(next(&mut balancer, now), Some(0));
    }

    #[test]
    fn after_the_pause_one_request_tries_it() {
        let (mut balancer, begin) = (Balancer::new(2), time::now());
        assert!(!balancer.failed(0, begin) && !balancer.failed(0, begin) && balancer.failed(0, begin));
        let now = begin + PAUSE_MIN;
        assert_eq!([balancer.take(now, None), balancer.take(now, None)], [Some(0), Some(1)]);
        assert_eq!(balancer.take(now, None), Some(1), "one is being tried");
        assert!(!balancer.failed(0, now));
        balancer.give_back(0);
        assert_eq!(next(&mut balancer, now + PAUSE_MIN), Some(1), "the second pause is longer");
        assert_eq!(next(&mut balancer, now + 2 * PAUSE_MIN), Some(0));
    }

    #[test]
    fn failures_at_the_same_time_are_one() {
        let (mut balancer, begin) = (Balancer::new(2), time::now());
        fail(&mut balancer, 0, 100, begin);
        assert_eq!(next(&mut balancer, begin + PAUSE_MIN), Some(0));
    }

    #[test]
    fn the_last_ones_get_requests_although_they_fail() {
        let (mut balancer, now) = (Balancer::new(2), time::now());
        fail(&mut balancer, 0, 100, now);
        fail(&mut balancer, 1, 100, now);
        assert_eq!([balancer.take(now, None), balancer.take(now, None)], [Some(0), Some(1)]);
        let mut alone = Balancer::new(1);
        fail(&mut alone, 0, 100, now);
        assert_eq!(alone.take(now, Some(0)), Some(0));
        assert!(!alone.succeeded(0));
    }
}
