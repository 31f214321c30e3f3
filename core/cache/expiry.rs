//! Dates that limit how long a response is fresh.
//!
//! Dates are valid in the three forms of RFC 9110, section 5.6.7, in any case; anything else is invalid, and an invalid
//! `Expires` is in the past. Reads no clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::http::Fields;
use crate::http::token::trim_ows;

/// `Expires` of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// There is none.
    Absent,
    /// A date.
    At(SystemTime),
    /// It is invalid, or there are several: the response is stale (RFC 9111, sections 4.2.1 and 5.3).
    Past,
}

impl Expiry {
    /// Reads the field.
    pub(super) fn of(fields: &Fields) -> Self {
        let mut values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"expires"));
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some((_, value)), None) => date(value).map_or(Self::Past, Self::At),
            (Some(_), Some(_)) => Self::Past,
        }
    }
}

/// Parses a date in any case. The day of the week is not checked: the other fields determine the date.
pub(super) fn date(value: &[u8]) -> Option<SystemTime> {
    let text = trim_ows(value);
    let outline: Vec<u8> = text.iter().map(|&byte| outline_of(byte)).collect();
    let comma = memchr::memchr(b',', &outline);
    let (day, month, year, time) = match (comma, &outline[..]) {
        (Some(3), b"aaa, 00 aaa 0000 00:00:00 aaa") => {
            (&text[5..7], &text[8..11], &text[12..16], &text[17..])
        }
        (None, b"aaa aaa 00 00:00:00 0000" | b"aaa aaa  0 00:00:00 0000") => {
            (text[8..10].trim_ascii(), &text[4..7], &text[20..], &text[11..19])
        }
        (Some(comma), _) if &outline[comma..] == b", 00-aaa-00 00:00:00 aaa" => {
            let rest = &text[comma + 2..];
            (&rest[..2], &rest[3..6], &rest[7..9], &rest[10..])
        }
        _ => return None,
    };
    if comma.is_some() && !time[8..].trim_ascii().eq_ignore_ascii_case(b"GMT") {
        return None;
    }
    let month = MONTHS.iter().position(|name| month.eq_ignore_ascii_case(*name))? as u64 + 1;
    let year = match year.len() {
        // RFC 9110, section 5.6.7: not more than 50 years ahead.
        2 if number(year) < 70 => 2000 + number(year),
        2 => 1900 + number(year),
        _ => number(year),
    };
    let [hour, minute, second] = [&time[..2], &time[3..5], &time[6..8]].map(number);
    let day = number(day);
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

const MONTHS: [&[u8; 3]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March, so that the
/// day that some years lack is the last one.
fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// Replaces digits by `0` and letters by `a`.
fn outline_of(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => b'0',
        b'A'..=b'Z' | b'a'..=b'z' => b'a',
        other => other,
    }
}

/// Returns the value of a few digits.
fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{imf_fixdate, parse_date};

    #[test]
    fn three_forms_in_any_case() {
        let expected = Some(UNIX_EPOCH + Duration::from_secs(784_111_777));
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "SUN, 06 nov 1994 08:49:37 gmt",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Mon Nov  6 08:49:37 1994",
            " Sun, 06 Nov 1994 08:49:37 GMT\t",
        ] {
            assert_eq!(date(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for day in (0..80 * 365).step_by(13) {
            let time = UNIX_EPOCH + Duration::from_secs(day * 86_400 + 86_399);
            assert_eq!(date(&imf_fixdate(time)), Some(time));
        }
        let last = b"Fri, 31 Dec 9999 23:59:59 GMT";
        assert_eq!(date(last), parse_date(last));
    }

    #[test]
    fn other_forms_are_invalid() {
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 AEST",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_invalid_or_repeated_field_is_in_the_past() {
        let mut fields = Fields::new();
        assert_eq!(Expiry::of(&fields), Expiry::Absent);
        fields.push(b"Expires", b"Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert!(matches!(Expiry::of(&fields), Expiry::At(_)));
        fields.push(b"expires", b"Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(Expiry::of(&fields), Expiry::Past);
        fields.set(b"Expires", b"0").unwrap();
        assert_eq!(Expiry::of(&fields), Expiry::Past);
    }
}
