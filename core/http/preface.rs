//! The connection preface of HTTP/2.

/// What a client sends first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether a connection begins as HTTP/2 does.
pub fn is_preface(input: &[u8]) -> bool {
    input.starts_with(PREFACE)
}

/// Whether a connection begins as HTTP/2 does, or may yet.
pub fn is_preface_or_part(input: &[u8]) -> bool {
    is_preface(input) || PREFACE.starts_with(input)
}
