//! The file with the process ID of a running server, by which `svc reload` and `svc stop` find it.
//!
//! The server holds a lock on the file for its lifetime. Readers trust only a locked file, so a stale file, or another
//! process that has reused the ID, is never taken for the server. Signals go to the process that was checked, never to
//! a later one with the same ID. The file of a running server is not replaced.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, FlockOperation, OFlags, access, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// The file of this process; removed on drop.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

/// A running server.
#[derive(Debug)]
pub struct RunningServer(OwnedFd);

/// Why a file cannot be used.
#[derive(Debug)]
pub enum PidFileError {
    /// No setting names a file.
    Unset,
    /// It cannot be opened, locked, read or written.
    Unusable(PathBuf, io::Error),
    /// Another server is running; with the contents of the file.
    Taken(PathBuf, String),
    /// It contains no process ID.
    Malformed(PathBuf),
    /// No server is running, and there is no process with that ID.
    Stale(PathBuf, Pid),
    /// No server is running, and another process has that ID; with its name.
    OtherProcess(PathBuf, Pid, String),
    /// The file does not exist.
    Absent(PathBuf),
    /// The server cannot be signalled.
    Signal(Pid, io::Error),
}

impl PidFile {
    /// Writes the file of this process.
    ///
    /// # Errors
    ///
    /// If another server holds it, or it cannot be written.
    pub fn create(path: &Path) -> Result<Self, PidFileError> {
        let unusable = |error: io::Error| PidFileError::Unusable(path.to_owned(), error);
        // The working directory may change before the file is removed.
        let path = &std::path::absolute(path).map_err(unusable)?;
        loop {
            let mut file =
                open(OpenOptions::new().read(true).write(true).create(true), path).map_err(unusable)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let text = contents(&file).unwrap_or_default();
                    return Err(PidFileError::Taken(path.clone(), text.trim().to_owned()));
                }
                Err(error) => return Err(unusable(error.into())),
            }
            // A stopping server may have removed the file between the two calls above.
            if !is_at(&file, path) {
                continue;
            }
            file.set_len(0).map_err(unusable)?;
            writeln!(file, "{}", getpid().as_raw_pid()).map_err(unusable)?;
            return Ok(Self { path: path.clone(), _file: file });
        }
    }
}

/// Opens the file without blocking, as a FIFO would; fails if it is not a regular file.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Checks whether a server could create this file, without creating it.
///
/// # Errors
///
/// As [`PidFile::create`].
pub fn try_out(path: &Path) -> Result<(), PidFileError> {
    let unusable = |error: io::Error| PidFileError::Unusable(path.to_owned(), error);
    match open(OpenOptions::new().read(true).write(true), path) {
        Ok(file) => match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => {
                let text = contents(&file).unwrap_or_default();
                Err(PidFileError::Taken(path.to_owned(), text.trim().to_owned()))
            }
            Err(error) => Err(unusable(error.into())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = std::path::absolute(path).map_err(unusable)?;
            let folder = path.parent().unwrap_or(Path::new("/"));
            access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| unusable(error.into()))
        }
        Err(error) => Err(unusable(error)),
    }
}

impl PidFile {
    /// Removes the file, for a process that ends without dropping it.
    pub fn remove(&self) {
        // If that fails, the file stays without a lock.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        self.remove();
    }
}

impl RunningServer {
    /// Finds the server that has written the file.
    ///
    /// # Errors
    ///
    /// If no server is running, or the file cannot be used.
    pub fn find(path: Option<PathBuf>) -> Result<(Self, Pid), PidFileError> {
        let path = path.ok_or(PidFileError::Unset)?;
        let file = open(OpenOptions::new().read(true), &path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PidFileError::Absent(path.clone()),
            _ => PidFileError::Unusable(path.clone(), error),
        })?;
        let text = contents(&file).map_err(|error| PidFileError::Unusable(path.clone(), error))?;
        let number = text.trim().parse().ok().filter(|number: &i32| *number > 0);
        let pid = number.and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| PidFileError::Malformed(path.clone()))?;
        // Open the process before testing the lock: if the lock is still held, this is its holder.
        let process = pidfd_open(pid, PidfdFlags::empty());
        match (process, flock(&file, FlockOperation::NonBlockingLockShared)) {
            (Ok(process), Err(Errno::WOULDBLOCK)) => Ok((Self(process), pid)),
            (Err(_), _) => Err(PidFileError::Stale(path, pid)),
            (Ok(_), Ok(())) => {
                let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid()));
                Err(PidFileError::OtherProcess(path, pid, name.unwrap_or_default().trim().to_owned()))
            }
            (Ok(_), Err(error)) => Err(PidFileError::Unusable(path, error.into())),
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Waits up to `time` for the end of the process; returns whether it has ended.
    ///
    /// # Errors
    ///
    /// If the system call fails.
    pub fn wait_up_to(&self, time: Duration) -> io::Result<bool> {
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    ///
    /// If the system call fails.
    pub fn wait(&self) -> io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl std::error::Error for PidFileError {}

impl fmt::Display for PidFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str(
                "PID_FILE: is not set; accepted: the file of a running server, also as --pid-file FILE",
            ),
            Self::Unusable(path, error) => write!(
                f,
                "PID_FILE: {path:?} cannot be used ({error}); accepted: a file in an existing directory that this user \
                 may write to"
            ),
            Self::Taken(path, pid) => {
                write!(f, "PID_FILE: {path:?} belongs to a server that is running (process {pid})")
            }
            Self::Malformed(path) => write!(f, "PID_FILE: {path:?} contains no process ID"),
            Self::Stale(path, pid) => write!(
                f,
                "PID_FILE: {path:?} is stale: the server is not running (there is no process {})",
                pid.as_raw_pid()
            ),
            Self::OtherProcess(path, pid, name) => write!(
                f,
                "PID_FILE: {path:?} is stale: the server is not running (process {} is another one, {name:?})",
                pid.as_raw_pid()
            ),
            Self::Absent(path) => write!(
                f,
                "PID_FILE: {path:?} does not exist: the server is not running, or was started with another PID_FILE"
            ),
            Self::Signal(pid, error) => {
                write!(f, "cannot send a signal to the server (process {}): {error}", pid.as_raw_pid())
            }
        }
    }
}

fn contents(mut file: &File) -> io::Result<String> {
    let mut text = String::new();
    Read::by_ref(&mut file).take(PID_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity =
        |metadata: io::Result<fs::Metadata>| metadata.map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(file.metadata()).is_some_and(|own| identity(fs::metadata(path)) == Some(own))
}

/// Longer than any process ID.
const PID_BYTES_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &Path) -> String {
        RunningServer::find(Some(path.to_owned())).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_of_one_server_and_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.pid");
        let own = PidFile::create(&path).unwrap();
        let pid = getpid().as_raw_pid();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{pid}\n"));
        assert_eq!(RunningServer::find(Some(path.clone())).unwrap().1.as_raw_pid(), pid);
        let taken = PidFile::create(&path).unwrap_err().to_string();
        assert!(taken.contains(&format!("a server that is running (process {pid})")), "{taken}");
        drop(own);
        assert!(find(&path).contains("does not exist"));
        drop(PidFile::create(&path).unwrap());
    }

    #[test]
    fn a_file_is_tried_out_without_creating_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.pid");
        try_out(&path).unwrap();
        assert!(!path.exists());
        let own = PidFile::create(&path).unwrap();
        assert!(matches!(try_out(&path), Err(PidFileError::Taken(..))));
        drop(own);
        fs::write(&path, "").unwrap();
        try_out(&path).unwrap();
        for path in [folder.path().to_owned(), folder.path().join("nowhere/svc.pid")] {
            assert!(matches!(try_out(&path), Err(PidFileError::Unusable(..))), "{path:?}");
            assert!(PidFile::create(&path).is_err());
        }
    }

    #[test]
    fn a_stale_file_is_not_taken_for_a_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.pid");
        fs::write(&path, getpid().as_raw_pid().to_string()).unwrap();
        assert!(find(&path).contains("is another one, "), "{}", find(&path));
        // Beyond any process ID of the system.
        fs::write(&path, i32::MAX.to_string()).unwrap();
        assert!(find(&path).contains("there is no process 2147483647"), "{}", find(&path));
        // In a container, a server may be process 1.
        fs::write(&path, "1").unwrap();
        assert!(find(&path).contains("process 1 is another one, "), "{}", find(&path));
        for text in ["", "x", "-1", "0"] {
            fs::write(&path, text).unwrap();
            assert!(find(&path).contains("contains no process ID"), "{text:?}: {}", find(&path));
        }
        drop(PidFile::create(&path).unwrap());
    }
}
