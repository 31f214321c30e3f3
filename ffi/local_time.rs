//! The local time zone.

use std::mem::MaybeUninit;

/// Returns the present difference of the local time to UTC, in seconds; 0 if it is unknown. Call while no other thread
/// changes the environment, which may name the time zone.
pub fn utc_offset_seconds() -> i32 {
    // SAFETY: a null pointer is permitted: the time is returned only.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call.
    let filled = unsafe { libc::localtime_r(&raw const now, local.as_mut_ptr()) };
    if filled.is_null() {
        return 0;
    }
    // SAFETY: the call has filled it.
    let local = unsafe { local.assume_init() };
    i32::try_from(local.tm_gmtoff).unwrap_or(0)
}
