//! Quality values: the weights of the members of `Accept` and similar fields (RFC 9110 section 12.4.2).
//!
//! A weight is parsed exactly, in thousandths; a malformed weight makes its member invalid. Members are not
//! interpreted, only the parameters after their semicolons.

use super::token::trim_ows;

/// The weight of a member without one.
pub(super) const FULL: u16 = 1000;

/// Splits a member into its value and its parameters.
pub(super) fn member(member: &[u8]) -> (&[u8], impl Iterator<Item = &[u8]> + Clone) {
    let mut parts = member.split(|&byte| byte == b';').map(trim_ows);
    (parts.next().unwrap_or_default(), parts)
}

/// Returns the value of a parameter `name=value`, without quotes.
pub(super) fn named<'a>(parameter: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let equals = parameter.iter().position(|&byte| byte == b'=')?;
    let value = trim_ows(&parameter[equals + 1..]);
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    trim_ows(&parameter[..equals]).eq_ignore_ascii_case(name).then_some(value)
}

/// Parses the quality in thousandths: [`FULL`] if there is none, `None` if it is malformed.
pub(super) fn quality<'a>(mut parameters: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    let found = parameters.find_map(|parameter| {
        // `q` without a value is malformed.
        if parameter.eq_ignore_ascii_case(b"q") { Some(&b""[..]) } else { named(parameter, b"q") }
    });
    found.map_or(Some(FULL), thousandths)
}

fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole] => (whole, &b""[..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut value = match whole {
        b'0' => 0,
        b'1' => FULL,
        _ => return None,
    };
    let mut weight = 100;
    for digit in fraction {
        if !digit.is_ascii_digit() {
            return None;
        }
        value += u16::from(digit - b'0') * weight;
        weight /= 10;
    }
    (value <= FULL).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<u16> {
        quality(member(text.as_bytes()).1)
    }

    #[test]
    fn weights_are_read_in_thousandths() {
        for (text, expected) in [
            ("a", FULL),
            ("a;q=1", FULL),
            ("a;q=1.", FULL),
            ("a;q=1.000", FULL),
            ("a;q=0", 0),
            ("a;q=0.", 0),
            ("a;q=0.5", 500),
            ("a;q=0.25", 250),
            ("a;q=0.001", 1),
            ("a ; Q = 0.999", 999),
            ("a;q=\"0.3\"", 300),
            ("a;level=9;q=0.1", 100),
            ("a;", FULL),
        ] {
            assert_eq!(of(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_weights_are_unreadable() {
        for text in
            ["a;q", "a;q=", "a;q=2", "a;q=1.001", "a;q=.5", "a;q=0.1234", "a;q=-1", "a;q=0,5", "a;q=x"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
