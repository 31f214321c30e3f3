//! The state of a worker's thread that all its requests share: encoders for responses, and the paths of the release.

use std::cell::RefCell;
#[cfg(feature = "php")]
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use svc_core::compress::{EncoderPool, Levels};
use svc_serve::Shared;

/// The state of a thread that runs PHP.
#[derive(Debug)]
pub(crate) struct ThreadContext {
    /// The encoders of this thread. Borrowed only while one piece is compressed, during which no script runs.
    pub(crate) encoders: RefCell<EncoderPool>,
    pub(crate) shared: Arc<Shared>,
    /// The slot of its worker in the pool.
    pub(crate) slot: usize,
    /// The real path of the document root when the thread started: a worker stays with the release that it boots.
    #[cfg(feature = "php")]
    document_root: PathBuf,
}

impl ThreadContext {
    /// Creates the context of the calling thread.
    pub(crate) fn new(shared: &Arc<Shared>, slot: usize) -> Rc<Self> {
        let encoders = RefCell::new(EncoderPool::new(Levels::new(&shared.config.files)));
        Rc::new(Self {
            encoders,
            shared: Arc::clone(shared),
            slot,
            #[cfg(feature = "php")]
            document_root: real_path(&shared.config.serving.document_root),
        })
    }

    /// Returns `DOCUMENT_ROOT` of code that runs without a request.
    #[cfg(feature = "php")]
    pub(crate) fn document_root(&self) -> &[u8] {
        self.document_root.as_os_str().as_encoded_bytes()
    }

    /// Returns the path of a script of the settings without the links that lead to its release. Links below the document
    /// root keep their names, as for requests.
    #[cfg(feature = "php")]
    pub(crate) fn script_path(&self, file: &Path) -> PathBuf {
        if let Ok(below) = file.strip_prefix(&self.shared.config.serving.document_root) {
            return self.document_root.join(below);
        }
        let (folder, name) = (file.parent(), file.file_name());
        folder.zip(name).map_or_else(|| file.to_owned(), |(folder, name)| real_path(folder).join(name))
    }
}

/// Returns the real path of a folder; its own path if it is missing, so that messages name that.
#[cfg(feature = "php")]
fn real_path(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}
