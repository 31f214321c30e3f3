//! The one place that reads a clock.
//!
//! Machines take `now` as an argument, so that tests can move time by hand; only shells (threads that own a socket
//! or a queue) call these functions.

use std::time::{Instant, SystemTime};

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
