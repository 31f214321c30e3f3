//! The rate limiter, and the header fields that describe its state to clients.
//!
//! The algorithm is GCRA, the generic cell rate algorithm. A client has an allowance of `RATE_LIMIT` requests, which is
//! restored evenly: one request per `RATE_WINDOW_SECONDS / RATE_LIMIT`. It needs one timestamp per client. Unlike fixed
//! windows, it does not allow twice the limit around a window boundary, and does not make all clients return in the
//! same second.
//!
//! A client is an IPv4 address or the /64 network of an IPv6 address, which is the least that a subscriber has.
//!
//! A client that keeps to the rate is never refused. A client that exceeds it gets the requests that the rate allows,
//! and learns when to retry. Memory is fixed. Clients behind one address share its limit. Reads no clock.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::rate_table::{RateDecision, RateTable, TICKS_PER_REQUEST};
use crate::limits::{RATE_CLOCK_SLACK, RATE_TABLE_SETS};

/// Limits the request rate of each client.
#[derive(Debug)]
pub struct RateLimiter {
    table: RateTable,
    /// Seeded at startup, so that clients cannot choose addresses that fall into the same set.
    hasher: RandomState,
    start: Instant,
    limit: u64,
    window: Duration,
    policy: String,
}

/// The state of a client after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Whether the request is within the limit.
    pub is_granted: bool,
    /// The number of requests that the client could make now.
    pub remaining: u64,
    /// Seconds until a request is allowed, if none remains; otherwise until the full allowance is restored.
    pub reset_seconds: u64,
}

impl RateLimiter {
    /// Allows each client `limit` requests at once, and the same number in each further `window`. Returns `None` if
    /// `limit` is 0, which disables the limit.
    pub fn new(limit: u64, window: Duration, start: Instant) -> Option<Self> {
        if limit == 0 || window.is_zero() {
            return None;
        }
        let slack = ticks(RATE_CLOCK_SLACK, limit, window);
        Some(Self {
            table: RateTable::new(RATE_TABLE_SETS, limit, slack),
            hasher: RandomState::new(),
            start,
            limit,
            window,
            policy: format!("\"default\";q={limit};w={}", window.as_secs()),
        })
    }

    /// Counts a request of `client`.
    pub fn take(&self, client: IpAddr, now: Instant) -> Quota {
        let hash = self.hasher.hash_one(subscriber(client));
        let now = ticks(now.saturating_duration_since(self.start), self.limit, self.window);
        match self.table.take(hash, now) {
            RateDecision::Granted { used } => {
                let remaining =
                    self.limit - used / TICKS_PER_REQUEST - u64::from(used % TICKS_PER_REQUEST > 0);
                let wait = if remaining > 0 {
                    used
                } else {
                    used + TICKS_PER_REQUEST - self.limit * TICKS_PER_REQUEST
                };
                Quota { is_granted: true, remaining, reset_seconds: self.seconds(wait) }
            }
            RateDecision::Refused { wait } => {
                Quota { is_granted: false, remaining: 0, reset_seconds: self.seconds(wait) }
            }
        }
    }

    /// Returns the value of the `RateLimit-Policy` header field.
    pub fn policy_field(&self) -> &str {
        &self.policy
    }

    /// Converts ticks to whole seconds, rounded up, at least one.
    fn seconds(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * self.window.as_nanos();
        let per_tick = u128::from(self.limit * TICKS_PER_REQUEST) * 1_000_000_000;
        u64::try_from(nanos.div_ceil(per_tick)).unwrap_or(u64::MAX).max(1)
    }
}

impl Quota {
    /// Returns the value of the field `RateLimit`.
    pub fn field(&self) -> String {
        format!("\"default\";r={};t={}", self.remaining, self.reset_seconds)
    }
}

/// Returns the identity of a client: an IPv4 address, or the first half of an IPv6 address.
fn subscriber(client: IpAddr) -> (bool, u64) {
    match client.to_canonical() {
        IpAddr::V4(address) => (false, u64::from(address.to_bits())),
        IpAddr::V6(address) => (true, (address.to_bits() >> 64) as u64),
    }
}

/// Converts a duration to ticks; they wrap like those of the table.
fn ticks(duration: Duration, limit: u64, window: Duration) -> u64 {
    (duration.as_nanos() * u128::from(limit * TICKS_PER_REQUEST) / window.as_nanos()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn limiter(limit: u64, seconds: u64) -> (RateLimiter, Instant) {
        let start = crate::time::now();
        (RateLimiter::new(limit, Duration::from_secs(seconds), start).unwrap(), start)
    }

    #[test]
    fn no_limit_is_no_limiter() {
        assert!(RateLimiter::new(0, HOUR, crate::time::now()).is_none());
    }

    #[test]
    fn responses_state_the_remaining_requests_and_the_reset_time() {
        let (limiter, start) = limiter(5, 60);
        let fields: Vec<_> = (0..6).map(|_| limiter.take(ip("192.0.2.1"), start).field()).collect();
        assert_eq!(
            fields,
            [
                r#""default";r=4;t=12"#,
                r#""default";r=3;t=24"#,
                r#""default";r=2;t=36"#,
                r#""default";r=1;t=48"#,
                r#""default";r=0;t=12"#,
                r#""default";r=0;t=12"#,
            ]
        );
        let refused = limiter.take(ip("192.0.2.1"), start + Duration::from_millis(11_999));
        assert_eq!((refused.is_granted, refused.reset_seconds), (false, 1));
        assert!(limiter.take(ip("192.0.2.1"), start + Duration::from_secs(12)).is_granted);
        assert!(!limiter.take(ip("192.0.2.1"), start + Duration::from_secs(12)).is_granted);
        assert_eq!(limiter.policy_field(), r#""default";q=5;w=60"#);
    }

    #[test]
    fn a_client_that_retries_on_time_is_granted() {
        for (limit, seconds) in [(1, 1), (1, 86_400), (3, 7), (7, 60), (1_000_000, 1), (1_000_000, 86_400)] {
            let (limiter, start) = limiter(limit, seconds);
            let mut now = start;
            for _ in 0..50 {
                while limiter.take(ip("192.0.2.1"), now).is_granted && limit < 10 {}
                let quota = limiter.take(ip("192.0.2.1"), now);
                now += Duration::from_secs(quota.reset_seconds);
                assert!(limiter.take(ip("192.0.2.1"), now).is_granted, "{limit} in {seconds}");
            }
        }
    }

    #[test]
    fn a_client_that_keeps_to_the_rate_is_never_refused() {
        let (limiter, start) = limiter(7, 60);
        for n in 0..10_000u32 {
            let now = start + Duration::from_secs(60) * n / 7 + Duration::from_nanos(10);
            assert!(limiter.take(ip("192.0.2.1"), now).is_granted, "{n}");
        }
    }

    #[test]
    fn clients_are_addresses_or_halves_of_them() {
        let (limiter, start) = limiter(1, 60);
        let is_granted = |client: &str| limiter.take(ip(client), start).is_granted;
        assert!(is_granted("192.0.2.1"));
        assert!(!is_granted("::ffff:192.0.2.1"));
        assert!(is_granted("192.0.2.2"));
        assert!(is_granted("2001:db8::1"));
        assert!(!is_granted("2001:db8::ffff:1"));
        assert!(is_granted("2001:db8:0:1::1"));
        // An IPv6 prefix that looks like an IPv4 address is another client.
        assert!(is_granted("0:0:c000:201::"));
    }
}
