//! HTTP dates: `Sun, 06 Nov 1994 08:49:37 GMT`.
//!
//! Any time can be formatted (times outside the range of the format become its nearest end), and the cached text is
//! created once per second. Reads no clock.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of an IMF-fixdate, in bytes.
pub(super) const DATE_BYTES: usize = 29;

/// Caches the text of the current second.
#[derive(Debug)]
pub struct DateCache {
    second: Option<u64>,
    text: [u8; DATE_BYTES],
}

impl DateCache {
    /// Creates an empty cache.
    pub const fn new() -> Self {
        Self { second: None, text: [b' '; DATE_BYTES] }
    }

    /// Returns the date at `now`.
    pub fn at(&mut self, now: SystemTime) -> &[u8; DATE_BYTES] {
        let second = seconds(now);
        if self.second != Some(second) {
            self.text = imf_fixdate(now);
            self.second = Some(second);
        }
        &self.text
    }
}

impl Default for DateCache {
    fn default() -> Self {
        Self::new()
    }
}

/// Formats a date. Times before 1970 and after 9999 become the first and the last valid date.
pub fn imf_fixdate(time: SystemTime) -> [u8; DATE_BYTES] {
    let mut text = [b' '; DATE_BYTES];
    let time = UNIX_EPOCH + Duration::from_secs(seconds(time));
    // Every date within the range has this length, so the text always fits.
    let written = write!(&mut text[..], "{}", httpdate::HttpDate::from(time));
    debug_assert!(written.is_ok(), "a date of 29 bytes fits");
    text
}

/// Parses a date in any of the three forms that clients may send.
pub fn parse_date(text: &[u8]) -> Option<SystemTime> {
    std::str::from_utf8(text).ok().and_then(|text| httpdate::parse_http_date(text).ok())
}

/// The last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().min(LAST_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn writes_the_preferred_form() {
        assert_eq!(&imf_fixdate(at(784_111_777)), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn times_out_of_range_move_to_its_ends() {
        assert_eq!(&imf_fixdate(UNIX_EPOCH - Duration::from_secs(9)), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&imf_fixdate(at(LAST_SECOND + 9)), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn the_cache_changes_with_the_second_in_either_direction() {
        let mut cache = DateCache::new();
        assert_eq!(cache.at(at(0)), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(cache.at(at(0) + Duration::from_millis(999)), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(cache.at(at(1)), b"Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(cache.at(at(0)), b"Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn reads_all_three_forms() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(text.as_bytes()), Some(at(784_111_777)), "{text}");
        }
        assert_eq!(parse_date(b"yesterday"), None);
        assert_eq!(parse_date(b"\xff"), None);
    }
}
