//! Texts and codes on their way between a plugin and Rust.
//!
//! Promises: a length that cannot be true is refused before anything is read; a panic ends where it is guarded. Refuses: a
//! pointer is believed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use super::bindings::{SVC_INVALID, SVC_TOO_LARGE, svc_text};

/// The bytes of a text of a plugin, unless it is longer than `max` or has no pointer.
///
/// # Safety
///
/// A text with a pointer has as many readable bytes as it says, for `'a`.
pub(super) unsafe fn bytes(text: &svc_text, max: usize) -> Result<&[u8], i32> {
    match text.size {
        0 => Ok(&[]),
        _ if text.data.is_null() => Err(code(SVC_INVALID)),
        // No object is larger than this; the length is a lie.
        size if size > max || isize::try_from(size).is_err() => Err(code(SVC_TOO_LARGE)),
        // SAFETY: the caller's.
        size => Ok(unsafe { slice::from_raw_parts(text.data.cast(), size) }),
    }
}

/// Bytes as a text for a plugin.
pub(super) fn text_of(bytes: &[u8]) -> svc_text {
    svc_text { data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// A constant of the header as what functions return.
pub(super) const fn code(constant: u32) -> i32 {
    constant.cast_signed()
}

/// Calls `act`; a panic ends here, and the answer is `fallback`.
pub(super) fn guarded<T>(fallback: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(fallback)
}
