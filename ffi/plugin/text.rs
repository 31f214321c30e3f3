//! Texts and codes passed between a plugin and Rust.
//!
//! An impossible length is rejected before the text is read. A panic is caught by `guarded`. Pointers are trusted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use super::bindings::{SVC_INVALID, SVC_TOO_LARGE, svc_text};

/// Returns the bytes of a plugin's text.
///
/// # Errors
///
/// `SVC_TOO_LARGE` if it is longer than `max`, `SVC_INVALID` if its pointer is NULL and its size is not 0.
///
/// # Safety
///
/// A text with a pointer has `size` readable bytes, valid for `'a`.
pub(super) unsafe fn bytes(text: &svc_text, max: usize) -> Result<&[u8], i32> {
    match text.size {
        0 => Ok(&[]),
        _ if text.data.is_null() => Err(code(SVC_INVALID)),
        // No object is larger than `isize::MAX`, so such a length is wrong.
        size if size > max || isize::try_from(size).is_err() => Err(code(SVC_TOO_LARGE)),
        // SAFETY: as the caller promises.
        size => Ok(unsafe { slice::from_raw_parts(text.data.cast(), size) }),
    }
}

/// Returns bytes as a text for a plugin.
pub(super) fn text_of(bytes: &[u8]) -> svc_text {
    svc_text { data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// Converts a constant of the header to the return type of functions.
pub(super) const fn code(constant: u32) -> i32 {
    constant.cast_signed()
}

/// Calls `act`; a panic is caught, and returns `fallback`.
pub(super) fn guarded<T>(fallback: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(fallback)
}
