//! The one place that reads a clock.
//!
//! Machines take `now` as an argument, so that tests can move time by hand; only shells (threads that own a socket
//! or a queue) call these functions.

use std::time::{Duration, Instant, SystemTime};

/// What tells the time: [`now`], or the clock of a test, which may only go faster.
pub type Clock = fn() -> Instant;

/// Reads the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the monotonic clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Reads the wall clock, for stamps that people or other machines read.
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the wall clock")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Whole milliseconds; what does not fit is cut off.
pub fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whole microseconds; what does not fit (half a million years) is cut off.
pub fn as_micros(duration: Duration) -> u64 {
    // Without a division of 128 bits, as this is counted for each request.
    duration.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(duration.subsec_micros()))
}
