//! The jobs of the file threads, and their results.
//!
//! A job owns everything that it needs, and its result returns everything that the requester needs again. A job does
//! not refer to a connection.

use std::fs::File;
use std::io;

use svc_core::connection::Source;
use svc_core::files::Asset;
use svc_core::http::{Coding, NamedFile};
use svc_core::spool::{Spool, SpoolError, SpoolFile};
use svc_core::sync::primitive::Arc;

use super::page_cache::read_ahead;
use super::site::{Found, Named, Site};
use super::slices::slice;

/// A job that may wait for the disk.
#[derive(Debug)]
pub(crate) enum FileJob {
    /// Append these bytes to this file, or to a new one.
    Append(Spool, Option<SpoolFile>, Vec<u8>),
    /// Find the resource at this normalized path.
    Find(Arc<Site>, Vec<u8>),
    /// Find the file that a script named.
    Name(Arc<Site>, NamedFile),
    /// Read this many bytes of the source, from this offset.
    Slice(Source, u64, usize),
    /// Read this many bytes of the file into the page cache, from this offset.
    ReadAhead(Arc<File>, u64, usize),
}

/// Work without a result.
#[derive(Debug)]
pub(crate) enum BackgroundJob {
    /// Encode a copy of a file in a content coding.
    Code(Arc<Asset>, Coding),
    /// Check whether the cached resource at this normalized path is still current.
    Look(Arc<Site>, Vec<u8>),
    /// Return free memory to the system.
    FreeUnused(fn()),
    /// Evict files that were not requested recently.
    Sweep(Arc<Site>),
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Done {
    /// The bytes are in the file; the buffer is returned.
    Appended(SpoolFile, Vec<u8>),
    /// The job could not be done.
    Failed,
    /// The resource at this path.
    Found(Vec<u8>, io::Result<Found>),
    /// The file that a script named.
    Named(io::Result<Named>),
    /// The bytes were not accepted, for this reason.
    Refused(Option<SpoolFile>, Vec<u8>, SpoolError),
    /// The bytes that were read; none at the end of the source.
    Slice(io::Result<Vec<u8>>),
    /// The bytes have been read into the page cache.
    ReadAhead,
}

impl FileJob {
    /// Does the job. Waits for disks.
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Append(spool, file, bytes) => append(&spool, file, bytes),
            Self::Find(site, path) => {
                let found = site.find(&path);
                Done::Found(path, found)
            }
            Self::Name(site, named) => Done::Named(site.find_named(&named)),
            Self::Slice(source, offset, len) => Done::Slice(slice(&source, offset, len)),
            Self::ReadAhead(file, offset, len) => {
                read_ahead(&file, offset, len);
                Done::ReadAhead
            }
        }
    }
}

impl BackgroundJob {
    /// Returns whether it may take so long that other jobs must not wait for it.
    pub(crate) fn takes_long(&self) -> bool {
        matches!(self, Self::Code(..) | Self::FreeUnused(_))
    }

    /// Does the job. Waits for disks.
    pub(crate) fn run(self) {
        match self {
            Self::Code(asset, coding) => Site::code(&asset, coding),
            // The first request that has to wait for a check reports the error.
            Self::Look(site, path) => drop(site.look(&path)),
            Self::FreeUnused(free_unused) => free_unused(),
            Self::Sweep(site) => site.sweep(),
        }
    }
}

fn append(spool: &Spool, file: Option<SpoolFile>, bytes: Vec<u8>) -> Done {
    let file = match file.map_or_else(|| spool.create(), Ok) {
        Ok(file) => file,
        Err(error) => return Done::Refused(None, bytes, error),
    };
    match file.append(&bytes) {
        Ok(()) => Done::Appended(file, bytes),
        Err(error) => Done::Refused(Some(file), bytes, error),
    }
}
