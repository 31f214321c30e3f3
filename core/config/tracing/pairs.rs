//! Lists of `key=value` pairs in OpenTelemetry's variables: percent-encoded, as in W3C Baggage.
//!
//! A list with a malformed pair is malformed. Properties after a semicolon are ignored.

use percent_encoding::percent_decode_str;

/// Parses a list; `None` if it is malformed. Of duplicate keys, the last one applies.
pub(in crate::config) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (key, value) = entry.split_once('=')?;
        let (key, value) = (decoded(key.trim())?, decoded(value.trim())?);
        if key.is_empty() {
            return None;
        }
        pairs.retain(|(other, _)| *other != key);
        pairs.push((key, value));
    }
    (!pairs.is_empty()).then_some(pairs)
}

/// Decodes percent-encoded text; `None` for an invalid escape, or if the result is not UTF-8.
pub(in crate::config) fn decoded(text: &str) -> Option<String> {
    let is_hex = |digit: Option<&u8>| digit.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let is_encoded = |at: usize| is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2));
    if memchr::memchr_iter(b'%', bytes).any(|at| !is_encoded(at)) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> Option<String> {
        let pairs = pairs(text)?;
        Some(pairs.iter().map(|(key, value)| format!("<{key}|{value}>")).collect())
    }

    #[test]
    fn pairs_are_trimmed_and_decoded() {
        assert_eq!(joined("a=1").as_deref(), Some("<a|1>"));
        assert_eq!(joined(" a = b c ,, k%20=%3D%2C%25%C3%A4 ,").as_deref(), Some("<a|b c><k |=,%ä>"));
        assert_eq!(
            joined("authorization=Bearer%20x==,empty=").as_deref(),
            Some("<authorization|Bearer x==><empty|>")
        );
        assert_eq!(joined("a=1;b=2").as_deref(), Some("<a|1;b=2>"));
    }

    #[test]
    fn of_equal_keys_the_last_stands() {
        assert_eq!(joined("a=1,b=2,a=3").as_deref(), Some("<b|2><a|3>"));
    }

    #[test]
    fn malformed_lists_are_refused_as_a_whole() {
        for text in ["a", "a=1,b", "=1", "%3", "a=%", "a=%2", "a=%zz", "a=%ff", " , ", ""] {
            assert_eq!(joined(text), None, "{text}");
        }
    }
}
