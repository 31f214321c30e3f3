//! Where the bytes of a body are stored outside memory.

use std::fs::File;

use crate::spool::SpoolFile;
use crate::sync::primitive::Arc;

/// The source of body slices.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file of the site.
    File(Arc<File>),
    /// A spooled response.
    Spool(Arc<SpoolFile>),
}
