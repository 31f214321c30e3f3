//! The allocator of the process, libc's.

/// Gives free memory back to the system, that between blocks in use as well. Takes a fraction of a millisecond for each
/// mebibyte; threads that allocate meanwhile may wait for it.
#[cfg(target_env = "gnu")]
pub fn free_unused() {
    // SAFETY: it may be called at any time, on any thread.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: the allocator of this libc gives memory back by itself.
#[cfg(not(target_env = "gnu"))]
pub fn free_unused() {}
