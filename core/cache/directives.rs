//! The cache directives of a response: the field that applies, and its content.
//!
//! A targeted field (RFC 9213) that is valid and not empty takes the place of `Cache-Control` and `Expires`: first
//! `SVC-Cache-Control`, then `CDN-Cache-Control`. Directives that contradict each other or cannot be read have the
//! effect of the stricter reading. Pure.

use std::time::Duration;

use super::structured::{MemberValue, dictionary};
use crate::http::Fields;
use crate::http::token::trim_ows;

/// The field for this server alone; it is not passed on.
pub(super) const OWN_FIELD: &[u8] = b"svc-cache-control";

/// The targeted fields in the order of their precedence (RFC 9213, section 2.2).
const TARGETED: [&[u8]; 2] = [OWN_FIELD, b"cdn-cache-control"];

/// The longest time that a directive can state: RFC 9111, section 1.2.2, requires 2^31 seconds.
const DELTA_SECONDS_MAX: u64 = 1 << 31;

/// The directives of a response (RFC 9111, section 5.2.2; RFC 5861; RFC 8246).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Whether they come from a targeted field, so that `Expires` is ignored.
    pub is_targeted: bool,
    /// `max-age`.
    pub max_age: Option<Duration>,
    /// `s-maxage`.
    pub s_maxage: Option<Duration>,
    /// `stale-while-revalidate`.
    pub stale_while_revalidate: Option<Duration>,
    /// `stale-if-error`.
    pub stale_if_error: Option<Duration>,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `no-cache`, with or without field names.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `private`, with or without field names.
    pub private: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `public`.
    pub public: bool,
}

impl Directives {
    /// Reads the directives of a response with these fields.
    pub fn of(fields: &Fields) -> Self {
        TARGETED.iter().find_map(|name| Self::targeted(&joined(fields, name)?)).unwrap_or_else(|| {
            joined(fields, b"cache-control").map_or_else(Self::default, |value| Self::plain(&value))
        })
    }

    /// Parses a targeted field; `None` if it is invalid or empty, and thus ignored.
    pub fn targeted(value: &[u8]) -> Option<Self> {
        let members = dictionary(value)?;
        if members.is_empty() {
            return None;
        }
        let mut directives = Self { is_targeted: true, ..Self::default() };
        for (name, value) in members {
            match value {
                MemberValue::Boolean(true) => directives.note(name, None),
                MemberValue::Integer(seconds) => directives.note(name, Some(u64::try_from(seconds).ok())),
                // RFC 9213, section 2.1: a value of another type makes no statement. One about time then counts as 0.
                MemberValue::Other => directives.note(name, Some(None)),
                MemberValue::Boolean(false) => {}
            }
        }
        Some(directives)
    }

    /// Parses `Cache-Control`.
    pub fn plain(value: &[u8]) -> Self {
        let mut directives = Self::default();
        for directive in split_list(value) {
            let equals = memchr::memchr(b'=', directive);
            let (name, argument) = match equals {
                Some(at) => (&directive[..at], Some(&directive[at + 1..])),
                None => (directive, None),
            };
            directives.note(trim_ows(name), argument.map(delta_seconds));
        }
        directives
    }

    /// Notes a directive. `argument` is a number of seconds, `Some(None)` if it is not one, `None` if there is none.
    fn note(&mut self, name: &[u8], argument: Option<Option<u64>>) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        // RFC 9111, section 4.2.1: an invalid time makes the response stale; of two, the first one counts.
        let time = || Duration::from_secs(argument.flatten().unwrap_or(0).min(DELTA_SECONDS_MAX));
        if is("max-age") {
            self.max_age.get_or_insert_with(time);
        } else if is("s-maxage") {
            self.s_maxage.get_or_insert_with(time);
        } else if is("stale-while-revalidate") {
            self.stale_while_revalidate.get_or_insert_with(time);
        } else if is("stale-if-error") {
            self.stale_if_error.get_or_insert_with(time);
        } else if let Some(flag) = self.flag(name) {
            *flag = true;
        }
    }

    fn flag(&mut self, name: &[u8]) -> Option<&mut bool> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        Some(match name.len() {
            6 if is("public") => &mut self.public,
            7 if is("private") => &mut self.private,
            8 if is("no-cache") => &mut self.no_cache,
            8 if is("no-store") => &mut self.no_store,
            15 if is("must-revalidate") => &mut self.must_revalidate,
            15 if is("must-understand") => &mut self.must_understand,
            16 if is("proxy-revalidate") => &mut self.proxy_revalidate,
            _ => return None,
        })
    }

    /// Returns whether a stale response may not be used without validation (RFC 9111, section 4.2.4). In a shared
    /// cache, `s-maxage` implies `proxy-revalidate` (section 5.2.2.10).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.no_cache || self.s_maxage.is_some()
    }
}

/// Joins all lines of a field (RFC 9110, section 5.3); `None` if there is none.
pub(super) fn joined(fields: &Fields, name: &[u8]) -> Option<Vec<u8>> {
    let mut value: Option<Vec<u8>> = None;
    for (_, line) in fields.iter().filter(|(candidate, _)| candidate.eq_ignore_ascii_case(name)) {
        match &mut value {
            None => value = Some(line.to_vec()),
            Some(value) => {
                value.extend_from_slice(b", ");
                value.extend_from_slice(line);
            }
        }
    }
    value
}

/// Splits a list at its commas, but not inside quoted strings.
fn split_list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    value
        .split(move |&byte| {
            if is_escaped {
                is_escaped = false;
            } else if is_quoted && byte == b'\\' {
                is_escaped = true;
            } else if byte == b'"' {
                is_quoted = !is_quoted;
            }
            byte == b',' && !is_quoted
        })
        .map(trim_ows)
        .filter(|directive| !directive.is_empty())
}

/// Parses a number of seconds, as a token or quoted (RFC 9111, section 5.2); larger numbers than can be stored are the
/// largest one.
pub(super) fn delta_seconds(argument: &[u8]) -> Option<u64> {
    let digits = match argument {
        [b'"', digits @ .., b'"'] => digits,
        digits => digits,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits
        .iter()
        .try_fold(0_u64, |number, &digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    Some(number.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    fn plain(value: &str) -> Directives {
        Directives::plain(value.as_bytes())
    }

    const fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn times_are_numbers_plain_or_quoted() {
        for (value, expected) in [
            ("max-age=60", seconds(60)),
            ("MaX-AgE=60", seconds(60)),
            ("max-age=003600", seconds(3600)),
            ("max-age=\"60\"", seconds(60)),
            ("max-age='60'", seconds(0)),
            ("max-age=-60", seconds(0)),
            ("max-age=60.0", seconds(0)),
            ("max-age", seconds(0)),
            ("max-age=", seconds(0)),
            ("max-age= 60", seconds(0)),
            ("max-age=99999999999", seconds(DELTA_SECONDS_MAX)),
            ("max-age=99999999999999999999999", seconds(DELTA_SECONDS_MAX)),
            ("max-age=1, max-age=60", seconds(1)),
            ("a=\"max-age=60\", max-age=1", seconds(1)),
            ("a=\"\\\", max-age=60\", public", None),
            ("", None),
        ] {
            assert_eq!(plain(value).max_age, expected, "{value}");
        }
    }

    #[test]
    fn flags_are_found_with_and_without_arguments() {
        let directives = plain("No-Cache=\"set-cookie, a\", private=b, no-STORE, unknown=1, must-understand");
        assert!(
            directives.no_cache && directives.private && directives.no_store && directives.must_understand
        );
        assert!(!directives.public && directives.max_age.is_none());
    }

    #[test]
    fn lines_are_joined() {
        let both = fields(&[("Cache-Control", "max-age=60"), ("cache-control", "no-store")]);
        let directives = Directives::of(&both);
        assert!(directives.no_store && directives.max_age == seconds(60));
    }

    #[test]
    fn the_most_specific_valid_field_counts_alone() {
        let own = fields(&[
            ("Cache-Control", "no-store"),
            ("CDN-Cache-Control", "max-age=20"),
            ("SVC-Cache-Control", "max-age=10"),
        ]);
        assert_eq!(Directives::of(&own).max_age, seconds(10));
        for ignored in ["", "max-age=\u{e4}", "Max-Age=1", "max-age=!"] {
            let fields = fields(&[
                ("Cache-Control", "no-store"),
                ("CDN-Cache-Control", "max-age=20"),
                ("SVC-Cache-Control", ignored),
            ]);
            let directives = Directives::of(&fields);
            assert!(directives.is_targeted && directives.max_age == seconds(20), "{ignored}");
            assert!(!directives.no_store, "{ignored}");
        }
    }

    #[test]
    fn a_targeted_time_of_another_type_is_none() {
        assert_eq!(Directives::targeted(b"max-age=\"60\"").unwrap().max_age, seconds(0));
        assert_eq!(Directives::targeted(b"max-age=-1").unwrap().max_age, seconds(0));
        assert!(!Directives::targeted(b"no-store=?0, a").unwrap().no_store);
    }

    #[test]
    fn what_forbids_stale_responses() {
        for value in ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=1"] {
            assert!(plain(value).forbids_stale(), "{value}");
        }
        assert!(!plain("max-age=1, public, stale-if-error=5").forbids_stale());
    }
}
