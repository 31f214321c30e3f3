//! Files and directories named by settings.
//!
//! Paths become absolute without following links. No file is kept open.

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

/// Returns the default document root.
pub(super) fn default_root(base: &Path) -> PathBuf {
    let public = base.join("public");
    if public.is_dir() { public } else { base.to_owned() }
}

/// Makes the path absolute without following links, so that a root selected by a link can still be switched.
pub(super) fn directory(path: &Path) -> Result<PathBuf, Fault> {
    let unusable = |error: std::io::Error| Fault::NotADirectory(error.to_string());
    if !std::fs::metadata(path).map_err(unusable)?.is_dir() {
        return Err(Fault::NotADirectory("not a directory".to_owned()));
    }
    let absolute = std::path::absolute(path).map_err(unusable)?;
    // Via the components, to remove a trailing slash.
    Ok(absolute.components().collect())
}
