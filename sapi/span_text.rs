//! The texts of spans, and the sizes of their parts in bytes.
//!
//! A text is truncated between two characters, and its conversion to UTF-8 does not exceed the limit. The caller keeps
//! the account of a span.

use svc_core::limits::SPAN_TEXT_BYTES_MAX;
use svc_core::trace::AttributeValue;

/// The size of an attribute without its texts.
pub(crate) const ATTRIBUTE_BYTES: usize = 48;

/// The size of a text in a list without its bytes.
pub(crate) const LISTED_TEXT_BYTES: usize = size_of::<String>();

/// Returns the size of an attribute.
pub(crate) fn attribute_bytes(name: &str, value: &AttributeValue) -> usize {
    let value_bytes = match value {
        AttributeValue::Bool(_) | AttributeValue::Double(_) | AttributeValue::Int(_) => 0,
        AttributeValue::Bools(list) => size_of_val(&list[..]),
        AttributeValue::Doubles(list) => size_of_val(&list[..]),
        AttributeValue::Ints(list) => size_of_val(&list[..]),
        AttributeValue::Text(text) => text.len(),
        AttributeValue::Texts(list) => list.iter().map(|text| text.len() + LISTED_TEXT_BYTES).sum(),
    };
    ATTRIBUTE_BYTES + name.len() + value_bytes
}

/// Converts bytes to text: truncates it, and replaces invalid UTF-8.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(cut(bytes)).into_owned();
    text.truncate(cut(text.as_bytes()).len());
    text
}

/// Truncates bytes to the limit, between two characters.
pub(crate) fn cut(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= SPAN_TEXT_BYTES_MAX {
        return bytes;
    }
    let is_continuation = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    let end = (SPAN_TEXT_BYTES_MAX - 3..=SPAN_TEXT_BYTES_MAX).rev().find(|&at| !is_continuation(bytes[at]));
    &bytes[..end.unwrap_or(SPAN_TEXT_BYTES_MAX)]
}
