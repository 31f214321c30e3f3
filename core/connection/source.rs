//! Where the bytes of a body are, if they are not here.

use std::fs::File;

use crate::spool::SpoolFile;
use crate::sync::primitive::Arc;

/// Where slices of a body come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file of the site.
    File(Arc<File>),
    /// A reply that waited on disk.
    Spool(Arc<SpoolFile>),
}
