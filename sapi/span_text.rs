//! What spans hold, in bytes.
//!
//! Promises: a text is cut between two characters. Refuses: it keeps no account of a span.

use svc_core::limits::SPAN_TEXT_BYTES_MAX;

/// What an attribute takes in addition to its texts.
pub(crate) const ATTRIBUTE_BYTES: usize = 48;

/// Cuts bytes off that are too many, between two characters.
pub(crate) fn cut(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= SPAN_TEXT_BYTES_MAX {
        return bytes;
    }
    let is_continuation = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    let end = (SPAN_TEXT_BYTES_MAX - 3..=SPAN_TEXT_BYTES_MAX).rev().find(|&at| !is_continuation(bytes[at]));
    &bytes[..end.unwrap_or(SPAN_TEXT_BYTES_MAX)]
}
