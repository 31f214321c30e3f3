//! Points in time in log records: RFC 3339 in UTC, to the microsecond.
//!
//! Always 27 bytes. No time zone, no leap second, no year beyond 9999.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of a time stamp, in bytes.
pub const TIMESTAMP_BYTES: usize = 27;

const DAY_SECONDS: u64 = 86_400;
/// The last second of the year 9999.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Writes `at` as `2026-01-31T23:59:59.000001Z`. A time outside of 1970 to 9999 becomes the nearest one inside.
pub fn timestamp(at: SystemTime) -> [u8; TIMESTAMP_BYTES] {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs().min(SECONDS_MAX);
    let (year, month, day) = civil_date(seconds / DAY_SECONDS);
    let second = seconds % DAY_SECONDS;
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    put(&mut text[0..4], year);
    put(&mut text[5..7], month);
    put(&mut text[8..10], day);
    put(&mut text[11..13], second / 3600);
    put(&mut text[14..16], second / 60 % 60);
    put(&mut text[17..19], second % 60);
    put(&mut text[20..26], u64::from(since.subsec_micros()));
    text
}

/// Returns the second of the day of a time stamp; `None` for any other text.
pub(super) fn seconds_of_day(timestamp: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| timestamp.get(range)?.parse::<i64>().ok();
    Some(number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?)
}

/// Writes `number` with leading zeros.
fn put(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789"[(number % 10) as usize];
        number /= 10;
    }
}

/// Returns the Gregorian date of a day after 1970-01-01. For the calculation, years begin in March, so that the leap
/// day is the last day of a year, and 400 years always have the same number of days.
fn civil_date(days: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097;
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seconds: u64, micros: u32) -> String {
        let at = UNIX_EPOCH + Duration::new(seconds, micros * 1000);
        String::from_utf8(timestamp(at).to_vec()).unwrap()
    }

    #[test]
    fn known_moments_read_as_they_should() {
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(951_782_400, 1), "2000-02-29T00:00:00.000001Z");
        assert_eq!(text(951_868_799, 999_999), "2000-02-29T23:59:59.999999Z");
        assert_eq!(text(951_868_800, 0), "2000-03-01T00:00:00.000000Z");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
        assert_eq!(text(1_798_761_599, 500), "2026-12-31T23:59:59.000500Z");
    }

    #[test]
    fn the_second_of_the_day_is_read_back() {
        assert_eq!(seconds_of_day(&text(951_868_799, 5)), Some(86_399));
        assert_eq!(seconds_of_day(&text(0, 0)), Some(0));
        assert_eq!(seconds_of_day("2000-02-29"), None);
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(civil_date(days), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length =
                [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn times_out_of_range_are_clamped() {
        assert_eq!(text(SECONDS_MAX + 1, 0), "9999-12-31T23:59:59.000000Z");
        let before = timestamp(UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(&before, b"1970-01-01T00:00:00.000000Z");
    }
}
