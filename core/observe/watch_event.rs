//! Log records about watching code for changes, during development.

use super::record::Record;
use crate::config::Level;

/// An event of the watched code.
#[derive(Clone, Copy, Debug)]
pub enum WatchEvent<'a> {
    /// Code has changed, and the workers that keep it loaded are being replaced.
    Changed {
        /// The first file of the burst.
        path: &'a str,
        /// The number of changes.
        changes: u64,
    },
    /// A directory cannot be watched.
    Incomplete {
        /// The directory.
        path: &'a str,
        /// The reason.
        error: &'a str,
    },
    /// No worker keeps code loaded: each request checks its scripts.
    Revalidated,
    /// Code is watched.
    Watching {
        /// The directory that contains all of it.
        path: &'a str,
        /// The number of directories in it.
        directories: u64,
    },
}

impl WatchEvent<'_> {
    /// Returns the level of the event.
    pub fn level(self) -> Level {
        if matches!(self, Self::Incomplete { .. }) { Level::Warn } else { Level::Info }
    }

    /// Creates its record.
    pub(super) fn record(self, svc: impl Fn(&str) -> Record) -> Record {
        match self {
            Self::Changed { path, changes } => {
                svc("code has changed and is being reloaded").text("path", path).number("changes", changes)
            }
            Self::Incomplete { path, error } => svc("not all code can be watched: changes may need a reload")
                .text("path", path)
                .text("error", error),
            Self::Revalidated => {
                svc("code need not be watched: each request checks whether its scripts have changed")
            }
            Self::Watching { path, directories } => {
                svc("code is watched for changes").text("path", path).number("directories", directories)
            }
        }
    }
}
