//! The values of attributes of spans, events and links.

use std::borrow::Cow;

/// The value of an attribute, with texts of type `T`.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue<T = Cow<'static, str>> {
    /// True or false.
    Bool(bool),
    /// A list of booleans.
    Bools(Vec<bool>),
    /// A floating-point number.
    Double(f64),
    /// A list of floating-point numbers.
    Doubles(Vec<f64>),
    /// An integer.
    Int(i64),
    /// A list of integers.
    Ints(Vec<i64>),
    /// Text.
    Text(T),
    /// A list of texts.
    Texts(Vec<T>),
}

impl AttributeValue {
    /// Converts bytes to text; replaces invalid UTF-8.
    pub fn lossy(bytes: &[u8]) -> Self {
        Self::Text(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Truncates texts to `chars_max` characters, if there is a limit.
    #[must_use]
    pub fn truncated(mut self, chars_max: Option<usize>) -> Self {
        if let Some(chars_max) = chars_max {
            match &mut self {
                Self::Text(text) => truncate(text, chars_max),
                Self::Texts(texts) => texts.iter_mut().for_each(|text| truncate(text, chars_max)),
                _ => {}
            }
        }
        self
    }
}

/// Truncates to `chars_max` characters, so that no character is split.
fn truncate(text: &mut Cow<'static, str>, chars_max: usize) {
    // The number of bytes is an upper bound for the number of characters.
    if text.len() <= chars_max {
        return;
    }
    if let Some((end, _)) = text.char_indices().nth(chars_max) {
        match text {
            Cow::Borrowed(text) => *text = &text[..end],
            Cow::Owned(text) => text.truncate(end),
        }
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $make:expr;)*) => {
        $(impl From<$type> for AttributeValue {
            fn from($value: $type) -> Self {
                $make
            }
        })*
    };
}

from! {
    bool => |value| Self::Bool(value);
    i64 => |value| Self::Int(value);
    u16 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    // Saturates: the server's own numbers are sizes and times.
    u64 => |value| Self::Int(i64::try_from(value).unwrap_or(i64::MAX));
    usize => |value| Self::Int(i64::try_from(value).unwrap_or(i64::MAX));
    f64 => |value| Self::Double(value);
    &'static str => |value| Self::Text(Cow::Borrowed(value));
    String => |value| Self::Text(Cow::Owned(value));
    Cow<'static, str> => |value| Self::Text(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_nothing_else_is_cut() {
        let long = |value: AttributeValue| value.truncated(Some(3));
        assert_eq!(long("äöüß".into()), "äöü".into());
        assert_eq!(long("äöü".into()), "äöü".into());
        assert_eq!(long(String::from("abcd").into()), "abc".into());
        let texts = AttributeValue::Texts(vec!["abcd".into(), String::from("xyz€").into(), "".into()]);
        assert_eq!(long(texts), AttributeValue::Texts(vec!["abc".into(), "xyz".into(), "".into()]));
        assert_eq!(long(12_345_i64.into()), AttributeValue::Int(12_345));
        assert_eq!(AttributeValue::from("a").truncated(Some(0)), "".into());
    }

    #[test]
    fn numbers_that_do_not_fit_become_the_maximum() {
        assert_eq!(AttributeValue::from(u64::MAX), AttributeValue::Int(i64::MAX));
        assert_eq!(AttributeValue::from(7_u64), AttributeValue::Int(7));
    }

    #[test]
    fn bytes_become_text() {
        assert_eq!(AttributeValue::lossy(b"/a\xff"), AttributeValue::Text("/a\u{fffd}".into()));
    }
}
