//! The ID of a request, in logs and for scripts. A generated one takes no allocation.

use std::fmt;
use std::ops::Deref;

use crate::sync::primitive::Arc;

/// The ID of a request.
#[derive(Clone)]
pub struct RequestId(IdText);

#[derive(Clone)]
enum IdText {
    /// Hexadecimal digits.
    Generated([u8; 32]),
    Requested(Arc<str>),
}

impl RequestId {
    /// Makes an ID of 32 hexadecimal digits from two numbers.
    pub fn of_numbers(high: u64, low: u64) -> Self {
        let mut digits = [0; 32];
        digits[..16].copy_from_slice(&hex_digits(high));
        digits[16..].copy_from_slice(&hex_digits(low));
        Self(IdText::Generated(digits))
    }

    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IdText::Generated(digits) => digits,
            IdText::Requested(text) => text.as_bytes(),
        }
    }
}

impl From<&str> for RequestId {
    fn from(requested: &str) -> Self {
        Self(IdText::Requested(requested.into()))
    }
}

impl Deref for RequestId {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            // Digits are always UTF-8.
            IdText::Generated(digits) => str::from_utf8(digits).unwrap_or_default(),
            IdText::Requested(text) => text,
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// Formats all digits of a number, leading zeros included.
fn hex_digits(number: u64) -> [u8; 16] {
    std::array::from_fn(|place| b"0123456789abcdef"[(number >> (60 - 4 * place)) as usize & 0xf])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_all_their_digits() {
        let id = RequestId::of_numbers(0x1f, u64::MAX);
        assert_eq!(&*id, "000000000000001fffffffffffffffff");
        assert_eq!(id.as_bytes(), (*id).as_bytes());
    }

    #[test]
    fn a_requested_one_is_kept() {
        let id = RequestId::from("a-name");
        assert_eq!((&*id, id.as_bytes()), ("a-name", &b"a-name"[..]));
    }
}
