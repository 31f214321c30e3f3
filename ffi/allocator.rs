//! The allocator of libc.

/// Returns free memory to the system, including pages between allocated blocks. Takes a fraction of a millisecond per
/// mebibyte, during which allocations of other threads may block.
#[cfg(target_env = "gnu")]
pub fn free_unused() {
    // SAFETY: `malloc_trim` is thread-safe and has no preconditions.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: the allocator of this libc returns memory on its own.
#[cfg(not(target_env = "gnu"))]
pub fn free_unused() {}
