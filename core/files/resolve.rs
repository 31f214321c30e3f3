//! Finds the first existing candidate of a path on the disk, checked on the open object.
//!
//! Each candidate is opened as a mere handle (which does not block and has no effect on a pipe or a device). Then the
//! type and the real location of the handle are checked. Only a regular file in an allowed place is opened for reading,
//! through that same handle. Length and times are those of the handle. The root is looked up each time, so that the
//! next check sees a deployment that switches a link.
//!
//! Links are followed, also out of the root unless a setting forbids it, but never to a dot-file. The result contains
//! their target ([`RelativePath`]), to which the caller applies further rules.
//!
//! A file `a.css` may have precompressed files next to it: `a.css.br`, `a.css.zst` or `a.css.gz`. They must really be
//! in the directory of the file, and one that is older than the file is ignored.
//!
//! The system usually knows without the disk that nothing exists at a path
//! ([`leaves_all_to_the_entry`](DocumentRoot::leaves_all_to_the_entry)), so the many paths of a front controller or of a
//! single-page application need no file thread.
//!
//! Refused are links to dot-files, links that leave the root where this is not allowed, and everything that is neither
//! a file nor a directory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, Mode as Permissions, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::file_version::FileVersion;
use super::relative_path::RelativePath;
use super::route::{Candidate, route};
use super::routing::RoutingMode;
use crate::http::Coding;
use crate::http::uri::{encode_path, has_dot_segment_file};
use crate::limits::FILE_READ_TRIES;

/// The directory to serve, by name; the name may be a link.
#[derive(Clone, Debug)]
pub struct DocumentRoot {
    path: PathBuf,
    links_may_leave: bool,
}

/// The result of resolving a path on this disk, now.
#[derive(Debug)]
pub enum Resolved {
    /// A directory requested without its trailing slash; the status is 301.
    Directory,
    /// A file to send.
    File(StaticFile),
    /// A path that must not be looked up: a dot-file, or a file in a dot-directory. The status is 404.
    DotFile,
    /// A file that must not be served because of its location or its permissions; the status is 403.
    Forbidden,
    /// Nothing; the status is 404.
    Missing,
    /// A script to execute.
    Script(FoundScript),
}

/// A file to send, with its precompressed files.
#[derive(Debug)]
pub struct StaticFile {
    /// Its path below the document root, with the leading slash; its extension determines the content type.
    pub path: Vec<u8>,
    /// Its real location, if links led elsewhere than the path suggests.
    pub elsewhere: Option<RelativePath>,
    /// The file itself.
    pub plain: Opened,
    /// The precompressed files.
    pub coded: Vec<(Coding, Opened)>,
    /// When its document root was last modified: a reproducible build gives the root the time of its files.
    pub root_modified: Option<SystemTime>,
}

/// A regular file opened for reading.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor that was checked.
    pub file: File,
    /// Its state at that time.
    pub stamp: FileVersion,
}

/// A script and its CGI variables; all paths are raw bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundScript {
    /// `SCRIPT_FILENAME`: its path below the real path of the root. A link keeps its name, because applications that
    /// serve several sites with one script evaluate it.
    pub filename: Vec<u8>,
    /// The real path of the file.
    pub real_path: Vec<u8>,
    /// The real path of the directory of `filename` if that path contains links, otherwise empty.
    pub folder: Vec<u8>,
    /// Its real location, if links led elsewhere than its name suggests.
    pub elsewhere: Option<RelativePath>,
    /// `SCRIPT_NAME`: its URL path, decoded.
    pub script_name: Vec<u8>,
    /// `PATH_INFO`: the rest of the URL path, decoded; empty if there is none.
    pub path_info: Vec<u8>,
    /// `DOCUMENT_ROOT`: the real path of the root.
    pub document_root: Vec<u8>,
}

impl DocumentRoot {
    /// Sets the directory to serve, and whether links in it may point outside of it.
    pub const fn new(path: PathBuf, links_may_leave: bool) -> Self {
        Self { path, links_may_leave }
    }

    /// Returns its real path. May wait for the disk.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn real_path(&self) -> io::Result<Vec<u8>> {
        Root::open(self).map(|root| root.real_path)
    }

    /// Resolves a normalized path. May wait for the disk.
    ///
    /// # Errors
    ///
    /// If the root cannot be opened, if the system is out of descriptors or memory, or if the disk fails.
    pub fn resolve(&self, mode: &RoutingMode, path: &[u8]) -> io::Result<Resolved> {
        match Root::open(self).and_then(|root| root.resolve(mode, path)) {
            Ok(Resolved::Missing) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        // A deployment may have switched a link and removed its old target during the lookup.
        Root::open(self)?.resolve(mode, path)
    }

    /// Returns whether a normalized path is left to the file that handles all remaining paths. `false` if something may
    /// exist there, or if the system cannot tell without the disk; an I/O thread may therefore call it.
    pub fn leaves_all_to_the_entry(&self, mode: &RoutingMode, path: &[u8]) -> bool {
        let Some(entry) = mode.entry() else { return false };
        let open = |at: BorrowedFd<'_>, path: &[u8], flags| {
            rustix::fs::openat2(at, path, flags, Permissions::empty(), ResolveFlags::CACHED)
        };
        let mut root = None;
        let mut missing: Option<Vec<u8>> = None;
        for candidate in route(mode, path) {
            let name = candidate.path();
            if missing.as_ref().is_some_and(|gone| name.starts_with(gone)) {
                continue;
            }
            match &candidate {
                Candidate::Script { name, path_info } if **name == *entry => return path_info.is_empty(),
                Candidate::Static { path } if **path == *entry => return true,
                _ => {}
            }
            if root.is_none() {
                root = open(CWD, self.path.as_os_str().as_bytes(), HANDLE | OFlags::DIRECTORY).ok();
            }
            let Some(root) = &root else { return false };
            match open(root.as_fd(), relative(name), HANDLE) {
                Err(Errno::NOENT) => missing = Some([name, b"/"].concat()),
                _ => return false,
            }
        }
        false
    }
}

/// Returns the target of the redirect that adds the trailing slash, with the query as received.
pub fn directory_location(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let mut location = encode_path(path).into_bytes();
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    location
}

/// The real directory of one check.
pub(super) struct Root {
    handle: OwnedFd,
    real_path: Vec<u8>,
    links_may_leave: bool,
    /// Whether the system refuses to leave it.
    is_closed: bool,
}

/// A file and its precompressed files.
pub(super) type OpenedFiles = (Opened, Vec<(Coding, Opened)>);

/// The result of one check.
#[derive(Debug)]
enum Probe {
    /// The result of the candidate, or a refusal.
    Found(Resolved),
    /// Nothing, so there is nothing below it either.
    Missing,
    /// A directory where a file was requested.
    PassedBy,
}

/// An object below the root, as a handle that cannot be read.
struct Handle {
    handle: OwnedFd,
    stat: Stat,
    real_path: Vec<u8>,
}

impl Root {
    fn open(root: &DocumentRoot) -> io::Result<Self> {
        Self::at(&root.path, root.links_may_leave, false)
    }

    /// Opens a directory that no link or `..` may lead out of.
    pub(super) fn beneath(path: &Path) -> io::Result<Self> {
        Self::at(path, false, true)
    }

    fn at(path: &Path, links_may_leave: bool, is_closed: bool) -> io::Result<Self> {
        let handle = rustix::fs::open(path, HANDLE | OFlags::DIRECTORY, Permissions::empty())?;
        let real_path = real_path(handle.as_fd())?;
        Ok(Self { handle, real_path, links_may_leave, is_closed })
    }

    fn resolve(&self, mode: &RoutingMode, path: &[u8]) -> io::Result<Resolved> {
        let mut missing: Option<Vec<u8>> = None;
        for candidate in route(mode, path) {
            // Nothing exists below a missing directory, so a path of a thousand segments costs one check.
            if missing.as_ref().is_some_and(|gone| candidate.path().starts_with(gone)) {
                continue;
            }
            match self.probe(&candidate)? {
                Probe::Found(found) => return Ok(found),
                Probe::Missing => missing = Some([candidate.path(), b"/"].concat()),
                Probe::PassedBy => {}
            }
        }
        Ok(if has_dot_segment_file(path) { Resolved::DotFile } else { Resolved::Missing })
    }

    /// Returns when it was last modified.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        rustix::fs::fstat(&self.handle).ok().map(|stat| FileVersion::of(&stat).modified)
    }

    /// Returns its real path.
    pub(super) fn real_path(&self) -> &[u8] {
        &self.real_path
    }

    /// Opens a regular file, with its precompressed files, and also returns its real path; `None` if there is no
    /// readable one.
    pub(super) fn open_file(&self, path: &[u8]) -> io::Result<Option<(OpenedFiles, Vec<u8>)>> {
        let opened = self.find(path).and_then(|found| {
            let is_file = FileType::from_raw_mode(found.stat.st_mode) == FileType::RegularFile;
            if !is_file || found.stat.st_nlink == 0 {
                return Err(Errno::NOENT);
            }
            Ok((found.open()?, found))
        });
        match opened {
            Ok((file, found)) => {
                let plain = Opened { file, stamp: FileVersion::of(&found.stat) };
                let coded = self.coded_neighbours(path, &found.real_path, &plain.stamp);
                Ok(Some(((plain, coded), found.real_path)))
            }
            // A path out of the directory, or a path that keeps changing during the lookup.
            Err(Errno::XDEV | Errno::AGAIN) => Ok(None),
            Err(errno) => verdict(errno).map(|_| None),
        }
    }

    fn probe(&self, candidate: &Candidate) -> io::Result<Probe> {
        let found = match self.find(candidate.path()) {
            Ok(found) => found,
            Err(errno) => return verdict(errno),
        };
        let takes_directory = matches!(candidate, Candidate::FileOrDirectory { .. });
        match FileType::from_raw_mode(found.stat.st_mode) {
            FileType::Directory if !takes_directory => return Ok(Probe::PassedBy),
            FileType::Directory | FileType::RegularFile if found.stat.st_nlink > 0 => {}
            _ => return Ok(Probe::Missing),
        }
        let place = RelativePath::of(&self.real_path, &found.real_path);
        if place.is_hidden() || !(place.is_inside() || self.links_may_leave) {
            return Ok(Probe::Found(Resolved::Forbidden));
        }
        if FileType::from_raw_mode(found.stat.st_mode) == FileType::Directory {
            return Ok(Probe::Found(Resolved::Directory));
        }
        // Scripts are opened too, so that an unreadable one is rejected here and not by the interpreter.
        match found.open() {
            Ok(file) => Ok(Probe::Found(self.treat(candidate, found, place, file))),
            Err(errno) => verdict(errno),
        }
    }

    fn find(&self, path: &[u8]) -> Result<Handle, Errno> {
        let handle = if self.is_closed {
            self.open_beneath(relative(path))?
        } else {
            rustix::fs::openat(&self.handle, relative(path), HANDLE, Permissions::empty())?
        };
        let stat = rustix::fs::fstat(&handle)?;
        let real_path = real_path(handle.as_fd())?;
        // The suffix of the path of a removed file in /proc.
        if real_path.ends_with(b" (deleted)") && rustix::fs::fstat(&handle)?.st_nlink == 0 {
            return Err(Errno::NOENT);
        }
        Ok(Handle { handle, stat, real_path })
    }

    /// Opens a path beneath the root. The system may require another attempt if a directory is renamed during the
    /// lookup.
    fn open_beneath(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(&self.handle, path, HANDLE, Permissions::empty(), flags);
        let mut opened = open();
        for _ in 1..FILE_READ_TRIES {
            if !matches!(opened, Err(Errno::AGAIN)) {
                break;
            }
            opened = open();
        }
        opened
    }

    fn treat(&self, candidate: &Candidate, found: Handle, place: RelativePath, file: File) -> Resolved {
        let elsewhere = (place.way() != candidate.path()).then_some(place);
        match candidate {
            Candidate::Script { name, path_info } => Resolved::Script(FoundScript {
                filename: [self.real_path.strip_suffix(b"/").unwrap_or(&self.real_path), name].concat(),
                real_path: found.real_path,
                folder: if elsewhere.is_some() { self.folder_of(name) } else { Vec::new() },
                elsewhere,
                script_name: name.clone(),
                path_info: path_info.clone(),
                document_root: self.real_path.clone(),
            }),
            Candidate::IndexOfDirectory { .. } => Resolved::Directory,
            Candidate::FileOrDirectory { path } | Candidate::Static { path } => {
                let plain = Opened { file, stamp: FileVersion::of(&found.stat) };
                let coded = self.coded_neighbours(path, &found.real_path, &plain.stamp);
                let root_modified = self.modified();
                Resolved::File(StaticFile { path: path.clone(), elsewhere, plain, coded, root_modified })
            }
        }
    }

    /// Returns the real path of the directory of a file; empty if it no longer exists.
    fn folder_of(&self, path: &[u8]) -> Vec<u8> {
        let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        self.find(&path[..end]).map(|found| found.real_path).unwrap_or_default()
    }

    /// Looks for precompressed files. If one of them is unusable, the file itself can still be sent.
    fn coded_neighbours(&self, path: &[u8], real_path: &[u8], plain: &FileVersion) -> Vec<(Coding, Opened)> {
        if CODED_ENDINGS.iter().any(|(_, ending)| path.ends_with(ending)) {
            return Vec::new();
        }
        let look = |ending: &[u8]| {
            let found = self.find(&[path, ending].concat()).ok()?;
            let is_file = FileType::from_raw_mode(found.stat.st_mode) == FileType::RegularFile;
            let stamp = FileVersion::of(&found.stat);
            let lies_beside = found.real_path == [real_path, ending].concat();
            let is_good = is_file && stamp.length > 0 && stamp.is_as_new_as(plain) && lies_beside;
            is_good.then(|| found.open().ok().map(|file| Opened { file, stamp })).flatten()
        };
        CODED_ENDINGS.iter().filter_map(|&(coding, ending)| Some((coding, look(ending)?))).collect()
    }
}

impl Handle {
    /// Opens exactly the object that was checked, for reading.
    fn open(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        rustix::fs::open(descriptor_name(self.handle.as_fd()), flags, Permissions::empty()).map(File::from)
    }
}

/// Returns the name relative to the root for a path.
fn relative(path: &[u8]) -> &[u8] {
    match path.strip_prefix(b"/").unwrap_or(path) {
        b"" => b".",
        relative => relative,
    }
}

/// The file name suffix of a content coding.
const CODED_ENDINGS: [(Coding, &[u8]); 3] =
    [(Coding::Brotli, b".br"), (Coding::Zstd, b".zst"), (Coding::Gzip, b".gz")];

/// Opens a handle: it follows links, does not block and cannot be read.
const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Maps errors of the system to "not found", "not allowed" and real errors.
fn verdict(errno: Errno) -> io::Result<Probe> {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::INVAL | Errno::NXIO => {
            Ok(Probe::Missing)
        }
        Errno::ACCESS | Errno::PERM => Ok(Probe::Found(Resolved::Forbidden)),
        other => Err(other.into()),
    }
}

/// Asks the system for the current location of an open object.
fn real_path(handle: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlink(descriptor_name(handle), Vec::new()).map(std::ffi::CString::into_bytes)
}

fn descriptor_name(handle: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
