//! IDs of traces and spans, and timestamps.
//!
//! No ID is 0, which stands for a missing ID. Draws no random numbers and reads no clock.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The ID of a trace: 16 bytes, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(NonZeroU128);

/// The ID of a span in a trace: 8 bytes, written as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

/// A wall-clock time in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixNanos(u64);

impl TraceId {
    /// Returns the ID with this number; `None` for 0.
    pub fn new(number: u128) -> Option<Self> {
        NonZeroU128::new(number).map(Self)
    }

    /// Returns its number.
    pub fn get(self) -> u128 {
        self.0.get()
    }

    /// Returns its bytes in big-endian order, as on the wire.
    pub fn to_bytes(self) -> [u8; 16] {
        self.get().to_be_bytes()
    }
}

impl SpanId {
    /// Returns the ID with this number; `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns its number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns its bytes in big-endian order, as on the wire.
    pub fn to_bytes(self) -> [u8; 8] {
        self.get().to_be_bytes()
    }
}

impl UnixNanos {
    /// Converts a wall-clock time; clamps times outside of 1970 to 2554.
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(nanos(since))
    }

    /// Returns the time that is `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// Returns the nanoseconds since the Unix epoch.
    pub fn get(self) -> u64 {
        self.0
    }
}

fn nanos(duration: Duration) -> u64 {
    // Avoids a 128-bit division, because this is called for every span.
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_with_leading_zeros_and_are_never_0() {
        assert_eq!(TraceId::new(0xabc).unwrap().to_string(), "00000000000000000000000000000abc");
        assert_eq!(SpanId::new(0xdef).unwrap().to_string(), "0000000000000def");
        assert_eq!(SpanId::new(1).unwrap().to_bytes(), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((TraceId::new(0), SpanId::new(0)), (None, None));
    }

    #[test]
    fn times_outside_of_the_range_are_its_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(UnixNanos::of(UNIX_EPOCH + second).get(), 1_000_000_000);
        assert_eq!(UnixNanos::of(UNIX_EPOCH - second).get(), 0);
        assert_eq!(UnixNanos::of(UNIX_EPOCH).plus(Duration::MAX).get(), u64::MAX);
    }
}
