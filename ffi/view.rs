//! Views of bytes, in both directions between Rust and C.

use std::ffi::c_char;
use std::slice;

use crate::bindings::shim_view;

/// Returns a view for C, valid as long as the bytes.
pub(crate) fn view(bytes: &[u8]) -> shim_view {
    shim_view { bytes: bytes.as_ptr().cast::<c_char>(), length: bytes.len() }
}

/// Reads a view created by C.
///
/// # Safety
///
/// The bytes are valid for `'a`, or the length is 0.
pub(crate) unsafe fn bytes<'a>(view: shim_view) -> &'a [u8] {
    if view.length == 0 || view.bytes.is_null() {
        return &[];
    }
    // SAFETY: not null, and valid for 'a as the caller promises.
    unsafe { slice::from_raw_parts(view.bytes.cast::<u8>(), view.length) }
}
