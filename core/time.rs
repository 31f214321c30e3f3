//! The one place that reads a clock.
//!
//! State machines take `now` as an argument, so that tests can set the time. Only shells (threads that own a socket or
//! a queue) call these functions.

use std::time::{Duration, Instant, SystemTime};

/// A source of time: [`now`], or the clock of a test, which must not run slower.
pub type Clock = fn() -> Instant;

/// Reads the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the monotonic clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Reads the wall clock, for timestamps that people or other machines read.
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the wall clock")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Reads the monotonic clock in microseconds; other processes of the machine read the same clock.
pub fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)
}

/// Returns the processor time used by the calling thread. Costs a system call.
pub fn thread_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Converts to whole milliseconds; values that do not fit become the maximum.
pub fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Converts to whole microseconds; values that do not fit (half a million years) become the maximum.
pub fn as_micros(duration: Duration) -> u64 {
    // Avoids a 128-bit division, because this is called for every request.
    duration.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(duration.subsec_micros()))
}
