//! Resolves a path that no other user can redirect.
//!
//! Every directory, link and link target on the path, and the file itself, is checked not to be writable by others, so
//! the file found is the file loaded. Others may write to a sticky directory, where they can replace only their own
//! files. Groups and owners are trusted, and contents are not checked.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::fault::PluginFault;

/// Follows the absolute `path` to a regular file; returns its real path.
pub(super) fn followed(path: &Path) -> Result<PathBuf, PluginFault> {
    let mut real = PathBuf::from("/");
    let mut file = entry(&real)?;
    let mut steps = steps_of(path);
    let mut links = 0;
    while let Some(step) = steps.pop_front() {
        let next = match step {
            Step::Root => PathBuf::from("/"),
            // All parent directories were checked on the way down.
            Step::Up if file.is_dir() => real.parent().unwrap_or(&real).to_owned(),
            Step::Up => return Err(PluginFault::NotFound("Not a directory".to_owned())),
            Step::Down(name) => real.join(name),
        };
        let found = entry(&next)?;
        if !found.is_symlink() {
            (real, file) = (next, found);
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(PluginFault::NotFound("there are too many links".to_owned()));
        }
        let target = fs::read_link(&next).map_err(|error| not_found(&error))?;
        let mut onward = steps_of(&target);
        onward.append(&mut steps);
        steps = onward;
    }
    if file.is_file() { Ok(real) } else { Err(PluginFault::NotFound("not a regular file".to_owned())) }
}

/// The maximum number of links, as in the kernel.
const LINKS_MAX: usize = 40;

/// A component of the path.
enum Step {
    Root,
    Up,
    Down(OsString),
}

fn steps_of(path: &Path) -> VecDeque<Step> {
    let step = |component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

/// Reads the metadata of one entry of a directory, and checks it.
fn entry(path: &Path) -> Result<Metadata, PluginFault> {
    let file = fs::symlink_metadata(path).map_err(|error| not_found(&error))?;
    // In a sticky directory, others cannot replace files that they do not own. The mode of a link has no effect.
    let is_guarded = file.is_symlink() || file.is_dir() && file.mode() & STICKY != 0;
    if file.mode() & OTHERS_WRITE != 0 && !is_guarded {
        return Err(PluginFault::WritableByOthers(path.to_owned()));
    }
    Ok(file)
}

const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

fn not_found(error: &io::Error) -> PluginFault {
    PluginFault::NotFound(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    /// Creates `dir/file`; returns its real path.
    fn made() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(real.join("dir/deep")).unwrap();
        fs::write(real.join("dir/file"), "").unwrap();
        (root, real)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_way_is_followed_as_the_system_does() {
        let (_root, real) = made();
        symlink("../dir/./file", real.join("dir/relative")).unwrap();
        symlink(real.join("dir"), real.join("absolute")).unwrap();
        symlink("absolute/relative", real.join("twice")).unwrap();
        for path in ["dir/file", "dir/deep/../file", "dir/relative", "absolute/file", "twice", "./dir//file"]
        {
            let path = real.join(path);
            assert_eq!(followed(&path), Ok(fs::canonicalize(&path).unwrap()), "{path:?}");
        }
        symlink("round", real.join("round")).unwrap();
        for (path, why) in [
            ("round", "too many links"),
            ("dir", "not a regular file"),
            ("none/file", "No such file"),
            ("dir/file/..", "Not a directory"),
            ("dir/file/x", "Not a directory"),
        ] {
            let fault = followed(&real.join(path)).unwrap_err().to_string();
            assert!(fault.contains(why), "{path}: {fault}");
        }
    }

    #[test]
    fn nothing_on_the_way_is_writable_by_others() {
        let (_root, real) = made();
        fs::create_dir(real.join("other")).unwrap();
        symlink(real.join("dir/file"), real.join("other/link")).unwrap();
        let ways = ["dir/file", "other/link"];
        for (opened, mode, refused) in [
            ("", 0o777, [true, true]),
            ("", 0o1777, [false, false]),
            ("dir", 0o702, [true, true]),
            ("dir/file", 0o1602, [true, true]),
            ("other", 0o777, [false, true]),
            ("other", 0o1777, [false, false]),
            ("dir", 0o770, [false, false]),
        ] {
            let opened = real.join(opened);
            let mode_before = fs::metadata(&opened).unwrap().mode();
            set_mode(&opened, mode);
            for (way, refused) in ways.into_iter().zip(refused) {
                let way = followed(&real.join(way));
                let fault = PluginFault::WritableByOthers(fs::canonicalize(&opened).unwrap());
                assert_eq!(way, if refused { Err(fault) } else { Ok(real.join("dir/file")) }, "{mode:o}");
            }
            set_mode(&opened, mode_before);
        }
    }
}
