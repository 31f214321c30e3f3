//! The grammar that all fields share: tokens, optional white space, comma-separated lists.
//!
//! The functions work on bytes and are total. Quoted strings are not unquoted here, because no list that the server
//! reads may contain them where it matters.

/// Returns whether `byte` may appear in a token (a method or a field name).
pub const fn is_token_byte(byte: u8) -> bool {
    TOKEN_BYTES[byte as usize]
}

/// Returns whether `bytes` is a token: one or more token bytes.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Returns whether `byte` may appear in a field value: visible, space, tab or above ASCII.
pub const fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Removes spaces and tabs from both ends.
pub const fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Iterates over the members of a comma-separated value, trimmed and without empty ones.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim_ows).filter(|member| !member.is_empty())
}

/// Returns whether a list spread over several fields contains `token` (case-insensitive).
pub fn list_contains<'a>(values: impl IntoIterator<Item = &'a [u8]>, token: &[u8]) -> bool {
    values.into_iter().flat_map(list).any(|member| member.eq_ignore_ascii_case(token))
}

/// Parses a decimal number that consists of digits only.
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0_u64, |number, &byte| {
        if !byte.is_ascii_digit() {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

const TOKEN_BYTES: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// Returns a table of the ASCII letters, the digits and `marks`, by byte.
pub(super) const fn alphanumeric_and(marks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut mark = 0;
    while mark < marks.len() {
        table[marks[mark] as usize] = true;
        mark += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bytes_are_the_registered_ones() {
        let count = (0..=255).filter(|&byte| is_token_byte(byte)).count();
        assert_eq!(count, 26 + 26 + 10 + 15);
        for byte in *b" \t\r\n\0:;,/()<>@[]{}?=\\\"\x7f\x80\xff" {
            assert!(!is_token_byte(byte), "{byte:#x}");
        }
        assert!(!is_token(b""));
    }

    #[test]
    fn trims_spaces_and_tabs_only() {
        assert_eq!(trim_ows(b" \t a b\t "), b"a b");
        assert_eq!(trim_ows(b"\r a"), b"\r a");
        assert_eq!(trim_ows(b"  "), b"");
    }

    #[test]
    fn lists_span_fields_and_skip_empty_members() {
        let values: [&[u8]; 2] = [b"a,, B ", b" c"];
        assert!(list_contains(values, b"b"));
        assert!(list_contains(values, b"C"));
        assert!(!list_contains(values, b""));
        assert!(!list_contains(values, b"a,"));
    }

    #[test]
    fn decimal_takes_digits_only_and_no_overflow() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "+1", "-1", " 1", "1 ", "1,1", "0x1", "18446744073709551616"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
