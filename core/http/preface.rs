//! The HTTP/2 connection preface.

/// The first bytes that a client sends.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns whether a connection starts with the preface.
pub fn is_preface(input: &[u8]) -> bool {
    input.starts_with(PREFACE)
}

/// Returns whether a connection starts with the preface, or may still do so.
pub fn is_preface_or_part(input: &[u8]) -> bool {
    is_preface(input) || PREFACE.starts_with(input)
}
