//! The age of a stored response, and its permitted uses at that age.
//!
//! RFC 9111, section 4.2, with the extensions of RFC 5861. Times are arguments: a monotonic time for the residence in
//! the cache, a date for the statements of the fields.
//!
//! ```text
//!   stored            lifetime         + stale-while-revalidate      + stale-if-error, or the operator's limit
//!     │     Fresh        │        Refreshing        │         for an error, or for overload         │
//!     └──────────────────┴──────────────────────────┴────────────────────────────────────────────────┴─ revalidate
//! ```

use std::time::{Duration, Instant, SystemTime};

use super::directives::{Directives, delta_seconds};
use super::expiry::{Expiry, date};
use crate::http::Fields;
use crate::http::token::list;

/// The operator's settings about time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreshnessPolicy {
    /// How long a response that states no time is fresh from its arrival on.
    pub default_ttl: Duration,
    /// How long beyond its freshness a response may answer instead of a refusal or an error.
    pub stale: Duration,
}

/// When a response was received, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedAt {
    /// The monotonic time.
    pub now: Instant,
    /// The date.
    pub wall: SystemTime,
    /// The time since its script began.
    pub delay: Duration,
}

/// How old a stored response is, and how long it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    stored_at: Instant,
    initial_age: Duration,
    lifetime: Duration,
    while_revalidate: Duration,
    if_error: Duration,
    /// The operator's time.
    if_failed: Duration,
    /// Whether each use needs a validation, however fresh it is.
    is_always_validated: bool,
}

/// The permitted uses of a stored response without validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usability {
    /// Any request.
    Fresh,
    /// Requests while one refresh runs.
    WhileRevalidating,
    /// Only requests that would be refused, or that failed, if at all.
    Stale,
}

impl Freshness {
    /// Computes the freshness of a response that has just been received. `is_heuristic`: the operator's time applies if
    /// the response states none.
    pub fn of(
        fields: &Fields,
        directives: &Directives,
        policy: FreshnessPolicy,
        at: ReceivedAt,
        is_heuristic: bool,
    ) -> Self {
        let lifetime = stated_lifetime(fields, directives, at.wall).unwrap_or(if is_heuristic {
            // The operator's time counts from now, however long the script took.
            policy.default_ttl + at.delay
        } else {
            Duration::ZERO
        });
        let forbids = directives.forbids_stale();
        let unless_forbidden = |time: Duration| if forbids { Duration::ZERO } else { time };
        Self {
            stored_at: at.now,
            initial_age: initial_age(fields, at),
            lifetime,
            while_revalidate: unless_forbidden(directives.stale_while_revalidate.unwrap_or_default()),
            if_error: unless_forbidden(directives.stale_if_error.unwrap_or_default()),
            if_failed: unless_forbidden(policy.stale),
            is_always_validated: directives.no_cache,
        }
    }

    /// Returns the current age (section 4.2.3).
    pub fn age(&self, now: Instant) -> Duration {
        self.initial_age + now.saturating_duration_since(self.stored_at)
    }

    /// Returns how long it stays fresh from now on, in seconds; negative once it is stale, if only for a moment.
    pub fn ttl_seconds(&self, now: Instant) -> i64 {
        let [lifetime, age] =
            [self.lifetime, self.age(now)].map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        let ttl = lifetime.saturating_sub(age);
        if self.staleness(now).is_some() { ttl.min(-1) } else { ttl }
    }

    /// Returns its permitted uses without validation.
    pub fn usability(&self, now: Instant) -> Usability {
        let staleness = self.staleness(now);
        match staleness {
            _ if self.is_always_validated => Usability::Stale,
            None => Usability::Fresh,
            Some(staleness) if staleness < self.while_revalidate => Usability::WhileRevalidating,
            Some(_) => Usability::Stale,
        }
    }

    /// Returns whether it may answer in place of an error with this status. `stale-if-error` concerns the statuses of RFC
    /// 5861, section 4, the operator's time all errors of servers.
    pub fn answers_error(&self, status: u16, now: Instant) -> bool {
        let is_named = matches!(status, 500 | 502..=504 | OVERLOADED);
        let stale_max = if is_named { self.if_error.max(self.if_failed) } else { self.if_failed };
        !self.is_always_validated && self.staleness(now).is_none_or(|staleness| staleness < stale_max)
    }

    /// Returns whether it can ever be used: without a validator, only if there is a time during which it answers.
    pub fn is_useful(&self, has_validator: bool) -> bool {
        let stale = self.if_error.max(self.if_failed).max(self.while_revalidate);
        let usable = self.lifetime + stale;
        has_validator || (!self.is_always_validated && usable > self.initial_age)
    }

    /// Returns how long it has been stale; `None` while it is fresh. Its lifetime excludes its end.
    fn staleness(&self, now: Instant) -> Option<Duration> {
        self.age(now).checked_sub(self.lifetime)
    }
}

/// The status of a refusal, to which the rules for 503 apply.
const OVERLOADED: u16 = 529;

/// Returns the lifetime that the response states (section 4.2.1); `None` if it states none.
pub(super) fn stated_lifetime(
    fields: &Fields,
    directives: &Directives,
    received: SystemTime,
) -> Option<Duration> {
    if let Some(lifetime) = directives.s_maxage.or(directives.max_age) {
        return Some(lifetime);
    }
    match Expiry::of(fields) {
        _ if directives.is_targeted => None,
        Expiry::Absent => None,
        Expiry::Past => Some(Duration::ZERO),
        Expiry::At(expires) => {
            let sent = fields.get(b"date").and_then(date).unwrap_or(received);
            Some(expires.duration_since(sent).unwrap_or_default())
        }
    }
}

/// Returns the age of a response at its arrival: `corrected_initial_age` of section 4.2.3.
fn initial_age(fields: &Fields, at: ReceivedAt) -> Duration {
    // Section 5.1: the first member counts, and an invalid value is ignored.
    let stated = fields.get(b"age").and_then(|value| list(value).next()).and_then(delta_seconds).unwrap_or(0);
    let sent = fields.get(b"date").and_then(date).unwrap_or(at.wall);
    let apparent = at.wall.duration_since(sent).unwrap_or_default();
    // A date has no fractions: a response is not a second old because the second is almost over.
    let apparent = Duration::from_secs(apparent.as_secs());
    apparent.max(Duration::from_secs(stated.min(u64::from(u32::MAX))) + at.delay)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::http::imf_fixdate;
    use crate::time;

    const DAY: u64 = 1_700_000_000;

    fn at() -> ReceivedAt {
        ReceivedAt {
            now: time::now(),
            wall: UNIX_EPOCH + Duration::from_secs(DAY) + Duration::from_millis(900),
            delay: Duration::ZERO,
        }
    }

    fn dated(seconds: i64) -> String {
        let time = UNIX_EPOCH + Duration::from_secs(DAY.checked_add_signed(seconds).unwrap());
        String::from_utf8(imf_fixdate(time).to_vec()).unwrap()
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    fn fresh(lines: &[(&str, &str)], policy: FreshnessPolicy) -> (Freshness, Instant) {
        let (fields, at) = (fields(lines), at());
        (Freshness::of(&fields, &Directives::of(&fields), policy, at, true), at.now)
    }

    fn lifetime(lines: &[(&str, &str)]) -> Option<u64> {
        let fields = fields(lines);
        stated_lifetime(&fields, &Directives::of(&fields), at().wall).map(|lifetime| lifetime.as_secs())
    }

    #[test]
    fn the_lifetime_is_that_of_the_first_field_that_states_one() {
        let (past, future) = (dated(-100), dated(100));
        for (lines, expected) in [
            (&[("Cache-Control", "max-age=1, s-maxage=2"), ("Expires", &future)][..], Some(2)),
            (&[("Cache-Control", "max-age=1"), ("Expires", &future)], Some(1)),
            (&[("Cache-Control", "public"), ("Expires", &future), ("Date", &dated(0))], Some(100)),
            (&[("Expires", &future), ("Date", &dated(90))], Some(10)),
            (&[("Expires", &future), ("Date", &dated(101))], Some(0)),
            (&[("Expires", &past)], Some(0)),
            (&[("Expires", "0")], Some(0)),
            (&[("Expires", &future), ("Date", "yesterday")], Some(99)),
            (&[("CDN-Cache-Control", "public"), ("Cache-Control", "max-age=9"), ("Expires", &future)], None),
            (&[], None),
        ] {
            assert_eq!(lifetime(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_age_at_arrival_is_the_larger_of_two_estimates() {
        for (lines, expected) in [
            (&[][..], 0),
            (&[("Date", dated(0))], 0),
            (&[("Date", dated(-30))], 30),
            (&[("Date", dated(30))], 0),
            (&[("Age", "40".to_owned())], 40),
            (&[("Age", "7200, 0".to_owned())], 7200),
            (&[("Age", "0, 7200".to_owned())], 0),
            (&[("Age", "-1".to_owned())], 0),
            (&[("Age", "1.5".to_owned())], 0),
            (&[("Age", "99999999999999999999999".to_owned())], u64::from(u32::MAX)),
        ] {
            let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let (freshness, now) = fresh(&lines, FreshnessPolicy::default());
            assert_eq!(freshness.age(now).as_secs(), expected, "{lines:?}");
        }
    }

    #[test]
    fn fresh_then_refreshing_then_stale() {
        let lines = [("Cache-Control", "max-age=10, stale-while-revalidate=5, stale-if-error=20")];
        let (freshness, now) = fresh(&lines, FreshnessPolicy::default());
        for (age, usability, for_errors) in [
            (0, Usability::Fresh, true),
            (9, Usability::Fresh, true),
            (10, Usability::WhileRevalidating, true),
            (14, Usability::WhileRevalidating, true),
            (15, Usability::Stale, true),
            (29, Usability::Stale, true),
            (30, Usability::Stale, false),
        ] {
            let now = now + seconds(age);
            assert_eq!(
                (freshness.usability(now), freshness.answers_error(503, now)),
                (usability, for_errors),
                "{age}"
            );
        }
        for (age, expected) in [(0, 10), (9500, 1), (10_000, -1), (10_300, -1), (12_000, -2)] {
            assert_eq!(freshness.ttl_seconds(now + Duration::from_millis(age)), expected, "{age}");
        }
    }

    #[test]
    fn the_operators_limit_holds_where_nothing_forbids_it() {
        let policy = FreshnessPolicy { default_ttl: seconds(1), stale: seconds(60) };
        let (freshness, now) = fresh(&[], policy);
        assert!(freshness.usability(now) == Usability::Fresh && freshness.is_useful(false));
        let stale = now + seconds(30);
        assert!(freshness.usability(stale) == Usability::Stale && freshness.answers_error(500, stale));
        assert!(!freshness.answers_error(500, now + seconds(61)));
        for forbidding in ["must-revalidate", "proxy-revalidate", "s-maxage=1"] {
            let (freshness, now) = fresh(&[("Cache-Control", forbidding)], policy);
            assert!(!freshness.answers_error(500, now + seconds(2)), "{forbidding}");
        }
    }

    #[test]
    fn a_directive_names_four_errors_and_the_operator_all() {
        let stated = [("Cache-Control", "max-age=0, stale-if-error=60")];
        let operators = FreshnessPolicy { stale: seconds(60), ..FreshnessPolicy::default() };
        for (status, is_named) in
            [(500, true), (501, false), (502, true), (503, true), (504, true), (505, false), (529, true)]
        {
            let (freshness, now) = fresh(&stated, FreshnessPolicy::default());
            assert_eq!(freshness.answers_error(status, now), is_named, "{status}");
            let (freshness, now) = fresh(&[("Cache-Control", "max-age=0")], operators);
            assert!(freshness.answers_error(status, now), "{status}");
        }
    }

    #[test]
    fn the_operators_time_counts_from_the_arrival() {
        let policy = FreshnessPolicy { default_ttl: seconds(1), ..FreshnessPolicy::default() };
        let at = ReceivedAt { delay: seconds(5), ..at() };
        let freshness = Freshness::of(&Fields::new(), &Directives::default(), policy, at, true);
        assert!(freshness.usability(at.now) == Usability::Fresh && freshness.is_useful(false));
        assert_eq!(freshness.usability(at.now + seconds(1)), Usability::Stale);
    }

    #[test]
    fn no_cache_is_never_used_without_validation() {
        let lines = [("Cache-Control", "no-cache, max-age=60, stale-while-revalidate=60")];
        let (freshness, now) =
            fresh(&lines, FreshnessPolicy { stale: seconds(60), ..FreshnessPolicy::default() });
        assert_eq!(freshness.usability(now), Usability::Stale);
        assert!(!freshness.answers_error(500, now));
        assert!(freshness.is_useful(true) && !freshness.is_useful(false));
    }
}
