//! The end of the process.

/// Ends the process immediately, without exit handlers, while other threads may still be running.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: does not return, so no memory is used afterwards.
    unsafe { libc::_exit(status) }
}
