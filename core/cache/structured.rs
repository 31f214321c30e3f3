//! Dictionaries of structured fields, RFC 9651, as far as targeted cache control fields need them.
//!
//! The whole field is parsed and any error makes all of it invalid, as section 4.2 requires; only the values that a
//! cache evaluates (integers and booleans) are returned, and parameters are checked and dropped. Total: no input
//! causes a panic.

use crate::http::token::is_token_byte;

/// The value of a member of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberValue {
    /// `name`, `name=?1` or `name=?0`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A value of another type, or an inner list.
    Other,
}

/// Parses a dictionary (section 4.2.2) whose lines are joined with commas. Returns the members in order; of two with
/// the same name, the last one applies, at the position of the first.
pub fn dictionary(value: &[u8]) -> Option<Vec<(&[u8], MemberValue)>> {
    let mut input = Input { rest: trim_spaces(value) };
    let mut members: Vec<(&[u8], MemberValue)> = Vec::new();
    while !input.is_empty() {
        let name = input.key()?;
        let value = if input.take(b'=') { input.item_or_list()? } else { MemberValue::Boolean(true) };
        input.parameters()?;
        match members.iter_mut().find(|(known, _)| *known == name) {
            Some(member) => member.1 = value,
            None => members.push((name, value)),
        }
        input.skip_ows();
        if input.is_empty() {
            break;
        }
        if !input.take(b',') {
            return None;
        }
        input.skip_ows();
        if input.is_empty() {
            // A trailing comma.
            return None;
        }
    }
    Some(members)
}

/// The unread part of a field.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| !wanted(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_ows(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn skip_spaces(&mut self) {
        self.take_while(|byte| byte == b' ');
    }

    /// Section 4.2.3.3.
    fn key(&mut self) -> Option<&'a [u8]> {
        if !self.peek()?.is_ascii_lowercase() && self.peek()? != b'*' {
            return None;
        }
        Some(self.take_while(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
        }))
    }

    /// Section 4.2.3.2. The values are checked and dropped.
    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip_spaces();
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// Section 4.2.1.1.
    fn item_or_list(&mut self) -> Option<MemberValue> {
        if !self.take(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip_spaces();
            if self.take(b')') {
                return Some(MemberValue::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    /// Section 4.2.3.1.
    fn bare_item(&mut self) -> Option<MemberValue> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.take_while(|byte| is_token_byte(byte) || matches!(byte, b':' | b'/'));
                Some(MemberValue::Other)
            }
            b':' => self.byte_sequence(),
            b'?' => self.boolean(),
            b'@' => {
                self.next();
                matches!(self.number()?, MemberValue::Integer(_)).then_some(MemberValue::Other)
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// Section 4.2.4: an integer of up to 15 digits, or a decimal of up to 12 digits and 3 behind the point.
    fn number(&mut self) -> Option<MemberValue> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if whole.is_empty() {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let fits = whole.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(MemberValue::Other);
        }
        if whole.len() > 15 {
            return None;
        }
        let number = whole.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(MemberValue::Integer(sign * number))
    }

    /// Section 4.2.5.
    fn string(&mut self) -> Option<MemberValue> {
        self.next();
        loop {
            match self.next()? {
                b'"' => return Some(MemberValue::Other),
                b'\\' if !matches!(self.next()?, b'"' | b'\\') => return None,
                b'\\' | b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    /// Section 4.2.7. The content is not decoded.
    fn byte_sequence(&mut self) -> Option<MemberValue> {
        self.next();
        self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        self.take(b':').then_some(MemberValue::Other)
    }

    /// Section 4.2.8.
    fn boolean(&mut self) -> Option<MemberValue> {
        self.next();
        match self.next()? {
            b'0' => Some(MemberValue::Boolean(false)),
            b'1' => Some(MemberValue::Boolean(true)),
            _ => None,
        }
    }

    /// Section 4.2.10.
    fn display_string(&mut self) -> Option<MemberValue> {
        self.next();
        if !self.take(b'"') {
            return None;
        }
        let mut text = Vec::new();
        loop {
            match self.next()? {
                b'"' => return std::str::from_utf8(&text).is_ok().then_some(MemberValue::Other),
                b'%' => {
                    let digits = [self.next()?, self.next()?];
                    if digits.iter().any(u8::is_ascii_uppercase) {
                        return None;
                    }
                    let digits = std::str::from_utf8(&digits).ok()?;
                    text.push(u8::from_str_radix(digits, 16).ok()?);
                }
                byte @ b' '..=b'~' => text.push(byte),
                _ => return None,
            }
        }
    }
}

fn trim_spaces(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::MemberValue::{Boolean, Integer, Other};
    use super::*;

    fn parsed(text: &str) -> Option<Vec<(String, MemberValue)>> {
        let members = dictionary(text.as_bytes())?;
        Some(members.into_iter().map(|(name, value)| (String::from_utf8_lossy(name).into(), value)).collect())
    }

    fn one(text: &str) -> Option<MemberValue> {
        parsed(text).map(|members| members[0].1)
    }

    #[test]
    fn members_are_booleans_integers_and_others() {
        let members =
            parsed(" max-age=60, public,no-store=?0 ,\ta=(1 \"b\";c d);e=1.5, max-age=30 ").unwrap();
        let expected =
            [("max-age", Integer(30)), ("public", Boolean(true)), ("no-store", Boolean(false)), ("a", Other)];
        assert_eq!(members, expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(parsed("").unwrap(), []);
    }

    #[test]
    fn every_type_is_recognised() {
        for (text, value) in [
            ("a=-7", Integer(-7)),
            ("a=999999999999999", Integer(999_999_999_999_999)),
            ("a=1.5", Other),
            ("a=\"b\\\"\\\\\"", Other),
            ("a=tok:en/*", Other),
            ("a=*", Other),
            ("a=:YQ==:", Other),
            ("a=?1", Boolean(true)),
            ("a=@1700000000", Other),
            ("a=%\"f%c3%bc\"", Other),
            ("a=()", Other),
            ("a=( 1  2 )", Other),
        ] {
            assert_eq!(one(text), Some(value), "{text}");
        }
    }

    #[test]
    fn one_error_makes_the_field_invalid() {
        for text in [
            "max-age=60, ",
            "max-age=60,,a",
            "Max-Age=60",
            "max-age=",
            "max-age=!#$",
            "max-age=-",
            "max-age=1.",
            "max-age=1234567890123456",
            "a=1.2345",
            "a=\"b",
            "a=\"\\n\"",
            "a=\"\u{e4}\"",
            "a=:b",
            "a=?2",
            "a=@1.5",
            "a=(1",
            "a=(1,2)",
            "a=(1\"b\")",
            "a=%\"%C3\"",
            "a=%\"%c3\"",
            "a=%b",
            "1=a",
            "a b",
            "a;=1",
            "max-age=60;A",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
