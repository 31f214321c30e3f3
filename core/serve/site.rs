//! The site that is served: where a path leads, asked on a file thread.
//!
//! Promises: what comes back is open and checked; nothing has to be looked up again to answer. Refuses: it remembers
//! nothing (each io thread has its own cache of scripts).

use std::io;
use std::os::unix::fs::FileExt;

use crate::config::Config;
use crate::files::{DocumentRoot, FoundScript, Mode, Resolved, StaticFile};
use crate::limits::DISK_SLICE_BYTES;
use crate::pool::Script;
use crate::sync::primitive::Arc;

use super::file_job::{ReadAhead, slice};

/// The document root and how its paths are routed.
#[derive(Debug)]
pub(super) struct Site {
    root: DocumentRoot,
    mode: Mode,
}

/// What answers a path.
#[derive(Debug)]
pub(super) enum Found {
    /// A directory that was asked for without its slash.
    Directory,
    /// A file, and its beginning if it was asked for.
    File(FoundFile),
    /// Something that must not be served.
    Forbidden,
    /// Nothing.
    Missing,
    /// A script.
    Script(Arc<Script>),
}

/// A file that is ready to be sent.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// What representation needs to know; its descriptor is at the same time the source of the bytes.
    pub(super) file: StaticFile,
    /// The beginning of the file.
    pub(super) first: Vec<u8>,
}

impl Site {
    /// Reads the settings of the site.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            root: DocumentRoot::new(config.document_root.clone()),
            mode: Mode::from_entry_file(config.entry_file.as_deref()),
        }
    }

    /// Finds what answers the normalised `path`. Waits for the disk.
    pub(super) fn find(&self, path: &[u8], read_ahead: ReadAhead) -> io::Result<Found> {
        Ok(match self.root.resolve(&self.mode, path)? {
            Resolved::Directory => Found::Directory,
            Resolved::Forbidden => Found::Forbidden,
            Resolved::Missing => Found::Missing,
            Resolved::Script(script) => Found::Script(Arc::new(into_script(script))),
            Resolved::File(file) => {
                let wanted = usize::try_from(file.length).unwrap_or(usize::MAX).min(DISK_SLICE_BYTES);
                let first = match read_ahead {
                    ReadAhead::Yes if wanted > 0 => slice(0, wanted, |buf, at| file.file.read_at(buf, at))?,
                    ReadAhead::Yes | ReadAhead::No => Vec::new(),
                };
                Found::File(FoundFile { file, first })
            }
        })
    }
}

fn into_script(found: FoundScript) -> Script {
    Script {
        filename: found.filename,
        name: found.script_name,
        path_info: found.path_info,
        document_root: found.document_root,
    }
}
