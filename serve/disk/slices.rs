//! Reads slices of a body.
//!
//! [`slice_now`] never waits. [`slice()`] waits for the disk and belongs on a file thread.

use std::io;
use std::os::unix::fs::FileExt;

use svc_core::connection::Source;
use svc_core::files::slice::read_slice;

use super::page_cache::read_now;

/// Reads up to `len` bytes of a file if they are in memory.
pub(crate) fn slice_now(source: &Source, offset: u64, len: usize) -> Option<Vec<u8>> {
    match source {
        Source::File(file) => read_now(file, offset, len),
        Source::Spool(_) => None,
    }
}

/// Reads up to `len` bytes; fewer only at the end of the source.
///
/// # Errors
///
/// The error of the system.
pub(crate) fn slice(source: &Source, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    match source {
        Source::File(file) => read_slice(offset, len, |buf, at| file.read_at(buf, at)),
        Source::Spool(file) => read_slice(offset, len, |buf, at| file.read_at(buf, at)),
    }
}
