//! Where the slices of a body come from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::files::slice::read_slice;
use crate::spool::SpoolFile;
use crate::sync::primitive::Arc;

use super::warmth::read_now;

/// Where slices come from.
#[derive(Clone, Debug)]
pub(in crate::serve) enum Source {
    /// A file of the site.
    File(Arc<File>),
    /// A reply that waited on disk.
    Spool(Arc<SpoolFile>),
}

impl Source {
    /// Reads up to `len` bytes of a file if that waits for nothing.
    pub(in crate::serve) fn slice_now(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        match self {
            Self::File(file) => read_now(file, offset, len),
            Self::Spool(_) => None,
        }
    }

    /// Reads up to `len` bytes; fewer only at the end of the source.
    pub(in crate::serve) fn slice(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::File(file) => read_slice(offset, len, |buf, at| file.read_at(buf, at)),
            Self::Spool(file) => read_slice(offset, len, |buf, at| file.read_at(buf, at)),
        }
    }
}
