//! The allocator of libc.

/// Returns free memory to the system, including that between allocated blocks. Takes a fraction of a millisecond per
/// mebibyte, during which other threads that allocate may wait.
#[cfg(target_env = "gnu")]
pub fn free_unused() {
    // SAFETY: `malloc_trim` is thread-safe and has no preconditions.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: the allocator of this libc returns memory without being asked.
#[cfg(not(target_env = "gnu"))]
pub fn free_unused() {}
