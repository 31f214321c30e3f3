//! The directories from which scripts may send files, and the lookup of a file in them.
//!
//! A file is opened beneath one of the directories, and the system itself refuses to leave it, by `..` or by a link;
//! every file sent was checked as an open object. The directories are looked up each time, so that a deployment that
//! switches a link takes effect at once. Refused are dot-files, the source code of scripts, and everything other than
//! regular files. Rules for paths are up to the caller, which applies them to both locations of the file.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::relative_path::RelativePath;
use super::resolve::{Root, StaticFile};
use super::routing::is_source;
use crate::http::NamedFile;
use crate::http::uri::has_dot_segment_file;

/// The directories, by name; the names may be links.
#[derive(Clone, Debug, Default)]
pub struct SendfileRoots {
    roots: Vec<PathBuf>,
}

/// A file named by a script.
#[derive(Debug)]
pub struct FoundFile {
    /// The file; its path is distinct from all files of the site, and ends in the file's name.
    pub file: StaticFile,
    /// The path below the directory by which it was found, with its leading slash.
    pub below: Vec<u8>,
    /// Its real path.
    pub real_path: Vec<u8>,
}

impl SendfileRoots {
    /// Sets the directories.
    pub const fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots }
    }

    /// Finds the file. May wait for the disk.
    ///
    /// # Errors
    ///
    /// If a directory cannot be opened, if the system is out of descriptors or memory, or if the disk fails.
    pub fn find(&self, named: &NamedFile) -> io::Result<Option<FoundFile>> {
        let Some(path) = named.path().filter(|path| !path.ends_with(b"/")) else { return Ok(None) };
        for configured in &self.roots {
            let root = Root::beneath(configured)?;
            let spellings = [configured.as_os_str().as_bytes(), root.real_path()];
            let inside = spellings.into_iter().find_map(|spelling| below(spelling, &path));
            let relative = named.may_be_relative().then_some(&path[..]);
            for below in inside.into_iter().chain(relative) {
                if let Some(found) = find_below(&root, below)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}

fn find_below(root: &Root, below: &[u8]) -> io::Result<Option<FoundFile>> {
    if has_dot_segment_file(below) || is_source(below) {
        return Ok(None);
    }
    let Some((file, real_path)) = root.open_file(below)? else { return Ok(None) };
    let place = RelativePath::of(root.real_path(), &real_path);
    if place.is_hidden() || is_source(&real_path) {
        return Ok(None);
    }
    // No path from a client begins with NUL.
    let path = [b"\0", root.real_path(), below].concat();
    let elsewhere = (place.way() != below).then_some(place);
    let root_modified = root.modified();
    let file = StaticFile { path, elsewhere, plain: file.0, coded: file.1, root_modified };
    Ok(Some(FoundFile { file, below: below.to_vec(), real_path }))
}

/// Returns the rest of `path` below a directory, with its leading slash.
fn below<'a>(directory: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).filter(|rest| rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn roots() -> (TempDir, SendfileRoots) {
        let top = tempfile::tempdir().unwrap();
        for folder in ["one/sub/.git", "two", "outside"] {
            fs::create_dir_all(top.path().join(folder)).unwrap();
        }
        let files = [
            "one/a.txt",
            "one/sub/b.txt",
            "one/.env",
            "one/sub/.git/config",
            "one/x.PHP",
            "two/c.txt",
            "two/a.txt",
            "outside/s.txt",
        ];
        for name in files {
            fs::write(top.path().join(name), name).unwrap();
        }
        for (target, link) in [
            ("a.txt", "one/link.txt"),
            ("../outside/s.txt", "one/up.txt"),
            ("../outside", "one/way"),
            ("sub/../a.txt", "one/round.txt"),
            (".env", "one/env.txt"),
            ("x.PHP", "one/source.txt"),
            ("one", "current"),
        ] {
            symlink(target, top.path().join(link)).unwrap();
        }
        symlink(top.path().join("one/a.txt"), top.path().join("one/absolute.txt")).unwrap();
        let roots = SendfileRoots::new(vec![top.path().join("current"), top.path().join("two")]);
        (top, roots)
    }

    fn found(roots: &SendfileRoots, named: &NamedFile) -> Option<String> {
        let found = roots.find(named).unwrap()?;
        Some(String::from_utf8(found.below).unwrap())
    }

    #[test]
    fn a_uri_is_looked_for_below_each_directory() {
        let (_top, roots) = roots();
        let uri = |text: &str| found(&roots, &NamedFile::Uri(text.as_bytes().into()));
        for path in ["/a.txt", "/sub/b.txt", "/c.txt", "/link.txt", "/round.txt"] {
            assert_eq!(uri(path).as_deref(), Some(path));
        }
        for path in [
            "/none.txt",
            "/sub",
            "/sub/",
            "/",
            "/../outside/s.txt",
            "/up.txt",
            "/way/s.txt",
            "/absolute.txt",
            "/.env",
            "/env.txt",
            "/sub/.git/config",
            "/x.PHP",
            "/source.txt",
            "/a.txt/",
            "/a.txt/b",
            "",
        ] {
            assert_eq!(uri(path), None, "{path}");
        }
    }

    #[test]
    fn a_path_is_below_a_directory_by_its_name_or_its_real_name() {
        let (top, roots) = roots();
        let path = |text: String| found(&roots, &NamedFile::Path(text.into_bytes().into()));
        let top = top.path().canonicalize().unwrap();
        let top = top.display();
        for (name, below) in [
            (format!("{top}/current/a.txt"), "/a.txt"),
            (format!("{top}/one//sub/./b.txt"), "/sub/b.txt"),
            (format!("{top}/two/c.txt"), "/c.txt"),
            ("sub/b.txt".to_owned(), "/sub/b.txt"),
        ] {
            assert_eq!(path(name.clone()).as_deref(), Some(below), "{name}");
        }
        for name in [
            format!("{top}/outside/s.txt"),
            format!("{top}/two/../outside/s.txt"),
            format!("{top}/twofold/c.txt"),
            format!("{top}/two"),
            "/a.txt".to_owned(),
            "../outside/s.txt".to_owned(),
        ] {
            assert_eq!(path(name.clone()), None, "{name}");
        }
    }

    #[test]
    fn the_real_path_is_returned() {
        let (top, roots) = roots();
        let found = roots.find(&NamedFile::Uri(b"/link.txt"[..].into())).unwrap().unwrap();
        let real = top.path().canonicalize().unwrap().join("one/a.txt");
        assert_eq!(found.real_path, real.as_os_str().as_bytes());
        assert!(found.file.path.ends_with(b"/link.txt") && found.file.path.starts_with(b"\0"));
    }

    #[test]
    fn a_directory_that_is_gone_is_an_error() {
        let gone = SendfileRoots::new(vec!["/nonexistent".into()]);
        assert!(gone.find(&NamedFile::Uri(b"/a"[..].into())).is_err());
    }
}
