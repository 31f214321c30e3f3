//! Buffered bodies: in memory within a budget of the whole process, beyond it in unlinked temporary files within
//! another.
//!
//! A temporary file has no name, so it never outlives the process. The bytes of all files together never exceed their
//! budget. A file releases its bytes when it is dropped, and so does a [`Share`] of the memory. The spool never waits
//! for space; the caller decides how to handle a full budget.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use crate::descriptor;
use crate::limits::{REPLIES_MEMORY_MAX, TROUBLE_RECORD_PAUSE};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicU64, Ordering};

mod share;

pub use share::Share;

/// The directory for temporary files and the budgets of bytes in files and in memory. Clones share the budgets.
#[derive(Clone, Debug)]
pub struct Spool(Arc<SpoolState>);

#[derive(Debug)]
struct SpoolState {
    dir: PathBuf,
    disk: Budget,
    memory: Budget,
    trouble: ShortLock<Trouble>,
}

/// A maximum number of bytes, and the number in use.
///
/// # Ordering
///
/// Relaxed throughout: a bounded statistic that orders nothing.
#[derive(Debug)]
struct Budget {
    bytes_max: u64,
    bytes: AtomicU64,
}

/// The last error of the disk, for the log.
#[derive(Debug, Default)]
struct Trouble {
    /// The last error that has not been logged.
    untold: Option<String>,
    reported_at: Option<Instant>,
}

/// Why bytes could not be spooled.
#[derive(Debug)]
pub enum SpoolError {
    /// The budget is used up; space becomes free when other bodies are finished.
    Full,
    /// The disk failed: full, read-only or broken.
    Disk(io::Error),
}

impl std::fmt::Display for SpoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => f.write_str("the spool space is used up; raise SPOOL_MAX_BYTES"),
            Self::Disk(error) => write!(f, "cannot write to the spool directory: {error}"),
        }
    }
}

impl Spool {
    /// Uses the directory `dir` with a budget of `bytes_max` bytes.
    pub fn new(dir: PathBuf, bytes_max: u64) -> Self {
        Self::with_memory(dir, bytes_max, REPLIES_MEMORY_MAX)
    }

    /// Uses the directory `dir` with a budget of `bytes_max` bytes, and `memory_max` bytes in memory.
    pub fn with_memory(dir: PathBuf, bytes_max: u64, memory_max: u64) -> Self {
        let (disk, memory) = (Budget::new(bytes_max), Budget::new(memory_max));
        Self(Arc::new(SpoolState { dir, disk, memory, trouble: ShortLock::default() }))
    }

    /// Creates an empty file. Accesses the disk.
    ///
    /// # Errors
    ///
    /// [`SpoolError::Disk`] if the directory is not writable.
    pub fn create(&self) -> Result<SpoolFile, SpoolError> {
        let file = tempfile::tempfile_in(&self.0.dir).map_err(|error| self.refused(error))?;
        let file = descriptor::move_up(file);
        Ok(SpoolFile { file, len: AtomicU64::new(0), spool: self.clone() })
    }

    /// Returns the number of bytes in temporary files.
    pub fn bytes(&self) -> u64 {
        self.0.disk.bytes()
    }

    /// Returns the approximate number of bytes that responses hold in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.0.memory.bytes()
    }

    /// Returns whether the budget of the files has this many bytes left.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.0.disk.has_room_for(bytes)
    }

    /// Returns whether the budget of the memory has this many bytes left.
    pub fn has_memory_for(&self, bytes: u64) -> bool {
        self.0.memory.has_room_for(bytes)
    }

    /// Returns whether the budget is used up.
    pub fn is_full(&self) -> bool {
        !self.0.disk.has_room_for(1)
    }

    /// Returns the last error of the disk since the previous call; `None` during a pause after each reported one, so
    /// that a full disk does not fill the log.
    pub fn trouble(&self, now: Instant) -> Option<String> {
        let mut trouble = self.0.trouble.lock();
        if trouble.reported_at.is_some_and(|reported_at| now < reported_at + TROUBLE_RECORD_PAUSE) {
            return None;
        }
        let error = trouble.untold.take()?;
        trouble.reported_at = Some(now);
        Some(error)
    }

    /// Records an error of the disk.
    fn refused(&self, error: io::Error) -> SpoolError {
        let error = SpoolError::Disk(error);
        self.0.trouble.lock().untold = Some(error.to_string());
        error
    }
}

impl Budget {
    fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: AtomicU64::new(0) }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.bytes_max
    }

    /// Takes this many bytes if there is space for them. Returns whether there was.
    fn try_take(&self, bytes: u64) -> bool {
        let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Takes this many bytes even if there is no space for them.
    fn take(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "gave back {bytes} of {before} bytes");
    }
}

/// One unlinked temporary file: one writer appends, any thread reads what has been appended.
///
/// # Ordering
///
/// The length is stored with Release after the bytes are written and loaded with Acquire: a thread that sees a length
/// can read that many bytes.
#[derive(Debug)]
pub struct SpoolFile {
    file: File,
    len: AtomicU64,
    spool: Spool,
}

impl SpoolFile {
    /// Appends `bytes`. Only one thread at a time may append. Accesses the disk.
    ///
    /// # Errors
    ///
    /// [`SpoolError::Full`] if the budget has no space for all of them, [`SpoolError::Disk`] if the write fails. In
    /// both cases the file is unchanged.
    pub fn append(&self, bytes: &[u8]) -> Result<(), SpoolError> {
        let count = bytes.len() as u64;
        if !self.spool.0.disk.try_take(count) {
            return Err(SpoolError::Full);
        }
        let end = self.len();
        if let Err(error) = self.file.write_all_at(bytes, end) {
            self.spool.0.disk.give_back(count);
            return Err(self.spool.refused(error));
        }
        // Release: pairs with the Acquire in `len`.
        self.len.store(end + count, Ordering::Release);
        Ok(())
    }

    /// Reads into `buf` from `offset` and returns the number of bytes read, 0 at the end. Accesses the disk.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let room = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        self.file.read_at(&mut buf[..room], offset)
    }

    /// Returns the spool that it belongs to.
    pub fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Returns the number of bytes in the file.
    pub fn len(&self) -> u64 {
        // Acquire: pairs with the Release in `append`.
        self.len.load(Ordering::Acquire)
    }

    /// Returns whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.spool.0.disk.give_back(self.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(bytes_max: u64) -> Spool {
        Spool::new(std::env::temp_dir(), bytes_max)
    }

    #[test]
    fn appended_bytes_are_read_back() {
        let file = spool(100).create().unwrap();
        file.append(b"hello ").unwrap();
        file.append(b"world").unwrap();
        let mut buf = [0; 64];
        assert_eq!(file.read_at(&mut buf, 6).unwrap(), 5);
        assert_eq!(&buf[..5], b"world");
        assert_eq!(file.read_at(&mut buf, 11).unwrap(), 0);
    }

    #[test]
    fn the_budget_is_shared_and_given_back() {
        let spool = spool(10);
        let first = spool.create().unwrap();
        first.append(b"12345678").unwrap();
        let second = spool.create().unwrap();
        assert!(matches!(second.append(b"123"), Err(SpoolError::Full)));
        assert_eq!(second.len(), 0);
        drop(first);
        second.append(b"123").unwrap();
        assert_eq!(spool.bytes(), 3);
    }

    #[test]
    fn a_missing_directory_is_a_disk_error() {
        let spool = Spool::new(PathBuf::from("/nonexistent/spool"), 10);
        assert!(matches!(spool.create(), Err(SpoolError::Disk(_))));
    }

    #[test]
    fn disk_trouble_is_logged_at_intervals() {
        let (spool, now) = (Spool::new(PathBuf::from("/nonexistent/spool"), 10), crate::time::now());
        assert_eq!(spool.trouble(now), None);
        let error = spool.create().unwrap_err().to_string();
        assert_eq!(spool.trouble(now), Some(error.clone()));
        spool.create().unwrap_err();
        assert_eq!(spool.trouble(now), None, "reported a moment ago");
        assert_eq!(spool.trouble(now + TROUBLE_RECORD_PAUSE), Some(error));
        assert_eq!(spool.trouble(now + 2 * TROUBLE_RECORD_PAUSE), None, "nothing new");
    }
}
