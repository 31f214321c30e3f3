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

/// Maps large blocks one by one from now on, so that each returns to the system when it is freed. By default, the threshold
/// follows the size of freed blocks up to 32 MiB; blocks below it share their pages, and gaps between them stay.
#[cfg(target_env = "gnu")]
pub fn map_large_blocks() {
    const LARGE_BYTES: libc::c_int = 256 * 1024;
    // SAFETY: `mallopt` is called with a parameter that it knows, and locks the allocator.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
}

/// Does nothing: see above.
#[cfg(not(target_env = "gnu"))]
pub fn map_large_blocks() {}
