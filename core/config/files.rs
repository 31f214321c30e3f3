//! Files that settings name.
//!
//! Promises: paths become absolute without following links. Refuses: it opens nothing.

use std::path::{Path, PathBuf};

use super::problem::Fault;

/// Makes the path of a readable file absolute.
pub(super) fn readable_file(path: &Path) -> Result<PathBuf, Fault> {
    let unusable = |error: std::io::Error| Fault::NotReadable(error.to_string());
    if !std::fs::metadata(path).map_err(unusable)?.is_file() {
        return Err(Fault::NotReadable("not a regular file".to_owned()));
    }
    rustix::fs::access(path, rustix::fs::Access::READ_OK).map_err(|error| unusable(error.into()))?;
    std::path::absolute(path).map_err(unusable)
}
