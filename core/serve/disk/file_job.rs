//! What the file threads do, and what comes back.
//!
//! Promises: a job owns what it needs, and its result gives back what the asker will need again. Refuses: it knows no
//! connection.

use std::fs::File;
use std::io;

use crate::connection::Source;
use crate::files::Asset;
use crate::http::Coding;
use crate::spool::{Spool, SpoolError, SpoolFile};
use crate::sync::primitive::Arc;

use super::page_cache::read_ahead;
use super::site::{Found, Site};
use super::slices::slice;

/// Something that may wait for a disk.
#[derive(Debug)]
pub(in crate::serve) enum Job {
    /// Append these bytes to this file, or to a new one.
    Append(Spool, Option<SpoolFile>, Vec<u8>),
    /// Find out what answers this normalised path.
    Find(Arc<Site>, Vec<u8>),
    /// Read this many bytes of the source, from this offset.
    Slice(Source, u64, usize),
    /// Have the system read this many bytes of the file, from this offset.
    ReadAhead(Arc<File>, u64, usize),
}

/// Something that nobody waits for.
#[derive(Debug)]
pub(in crate::serve) enum Chore {
    /// Make a copy of a file in a content coding.
    Code(Arc<Asset>, Coding),
    /// Look whether what is known about this normalised path is still so.
    Look(Arc<Site>, Vec<u8>),
    /// Give up what nobody has asked for lately.
    Sweep(Arc<Site>),
}

/// The result of a job.
#[derive(Debug)]
pub(in crate::serve) enum Done {
    /// The bytes are in the file; their buffer comes back.
    Appended(SpoolFile, Vec<u8>),
    /// The job could not be done at all.
    Failed,
    /// What answers this path.
    Found(Vec<u8>, io::Result<Found>),
    /// The bytes were not taken, for this reason.
    Refused(Option<SpoolFile>, Vec<u8>, SpoolError),
    /// The bytes that were read; none at the end of the source.
    Slice(io::Result<Vec<u8>>),
    /// The system has read what was asked for.
    ReadAhead,
}

impl Job {
    /// Does the job. Waits for disks.
    pub(in crate::serve) fn run(self) -> Done {
        match self {
            Self::Append(spool, file, bytes) => append(&spool, file, bytes),
            Self::Find(site, path) => {
                let found = site.find(&path);
                Done::Found(path, found)
            }
            Self::Slice(source, offset, len) => Done::Slice(slice(&source, offset, len)),
            Self::ReadAhead(file, offset, len) => {
                read_ahead(&file, offset, len);
                Done::ReadAhead
            }
        }
    }
}

impl Chore {
    /// Whether it may take so long that others must not wait behind it.
    pub(in crate::serve) fn takes_long(&self) -> bool {
        matches!(self, Self::Code(..))
    }

    /// Does the chore. Waits for disks.
    pub(in crate::serve) fn run(self) {
        match self {
            Self::Code(asset, coding) => Site::code(&asset, coding),
            // What goes wrong is told to the first request that has to wait for a look.
            Self::Look(site, path) => drop(site.look(&path)),
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
