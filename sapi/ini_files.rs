//! Detects changes of PHP's ini files since PHP read them.
//!
//! Changed, new and removed files are detected by their contents, regardless of modification times. All places where
//! PHP would look are covered: php.ini, files that would take precedence over it, and the scanned directories. Nothing
//! is applied: PHP reads directives only once.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use svc_ffi::Php;

use crate::installation::Installation;

/// The files and their contents when PHP started.
#[derive(Debug)]
pub(crate) struct IniFiles {
    /// The candidates for php.ini.
    first: Vec<PathBuf>,
    /// The directories that are scanned for further files.
    directories: Vec<PathBuf>,
    contents: Contents,
}

/// A hash of the contents of each existing file; `None` if it cannot be read.
type Contents = BTreeMap<PathBuf, Option<u64>>;

impl IniFiles {
    /// Reads the files of a PHP that has just started.
    pub(crate) fn of(php: &Php) -> Self {
        let installed = Installation::of_this_binary().map(|tree| tree.environment()).unwrap_or_default();
        let variable = |name: &str| {
            let of_tree = || installed.iter().find(|(known, _)| *known == name).map(|(_, path)| path.into());
            env::var_os(name).or_else(of_tree)
        };
        let [built_first, built_further] = php.ini_directories();
        let places = variable("PHPRC").map(PathBuf::from).into_iter().chain([built_first]);
        let first = places.filter(|place| !place.as_os_str().is_empty()).flat_map(in_place);
        let directories = match variable("PHP_INI_SCAN_DIR") {
            Some(list) => listed(&list, &built_further),
            None => vec![built_further],
        };
        let directories = directories.into_iter().filter(|directory| !directory.as_os_str().is_empty());
        Self::at(first.chain(php.ini_files().into_iter().map(PathBuf::from)).collect(), directories.collect())
    }

    fn at(first: Vec<PathBuf>, directories: Vec<PathBuf>) -> Self {
        let contents = read(&first, &directories);
        Self { first, directories, contents }
    }

    /// Returns the files that have changed.
    pub(crate) fn changed(&self) -> Vec<PathBuf> {
        let now = read(&self.first, &self.directories);
        let all = self.contents.keys().chain(now.keys().filter(|path| !self.contents.contains_key(*path)));
        all.filter(|path| self.contents.get(*path) != now.get(*path)).cloned().collect()
    }
}

/// Returns the names that PHP looks for in a directory, or the file itself.
fn in_place(place: PathBuf) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place];
    }
    vec![place.join("php-svc.ini"), place.join("php.ini")]
}

/// Returns the directories of `PHP_INI_SCAN_DIR`; an empty entry stands for the compiled-in directory.
fn listed(list: &OsString, built: &Path) -> Vec<PathBuf> {
    let parts = list.as_bytes().split(|byte| *byte == b':');
    parts
        .map(|part| if part.is_empty() { built.into() } else { OsString::from_vec(part.to_vec()).into() })
        .collect()
}

fn read(first: &[PathBuf], directories: &[PathBuf]) -> Contents {
    let entries = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let further = entries.map(|entry| entry.path());
    let further = further.filter(|path| path.extension().is_some_and(|extension| extension == "ini"));
    let files = first.iter().cloned().chain(further).filter(|path| path.is_file());
    files.map(|path| (path.clone(), hash(&path))).collect()
}

fn hash(path: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    fs::read(path).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn changed_added_and_removed_files_are_named() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| root.path().join(name);
        fs::create_dir(file("conf.d")).unwrap();
        for name in ["php.ini", "conf.d/a.ini", "conf.d/b.ini", "conf.d/notes.txt"] {
            fs::write(file(name), "one").unwrap();
        }
        let files = IniFiles::at(in_place(root.path().to_owned()), vec![file("conf.d"), file("none")]);
        assert_eq!(files.changed(), Vec::<PathBuf>::new());
        let kept = fs::metadata(file("php.ini")).unwrap().modified().unwrap();
        fs::write(file("php.ini"), "two").unwrap();
        File::options().write(true).open(file("php.ini")).unwrap().set_modified(kept).unwrap();
        assert_eq!(files.changed(), [file("php.ini")], "the time of change says nothing");
        fs::write(file("conf.d/c.ini"), "").unwrap();
        fs::remove_file(file("conf.d/a.ini")).unwrap();
        fs::write(file("php-svc.ini"), "").unwrap();
        fs::write(file("conf.d/notes.txt"), "two").unwrap();
        let names = ["conf.d/a.ini", "php.ini", "conf.d/c.ini", "php-svc.ini"];
        let mut changed = files.changed();
        changed.sort();
        let mut expected = names.map(file);
        expected.sort();
        assert_eq!(changed, expected);
        fs::write(file("php.ini"), "one").unwrap();
        fs::write(file("conf.d/a.ini"), "one").unwrap();
        fs::remove_file(file("conf.d/c.ini")).unwrap();
        fs::remove_file(file("php-svc.ini")).unwrap();
        assert_eq!(files.changed(), Vec::<PathBuf>::new(), "all is as it was");
    }

    #[test]
    fn a_list_of_directories_may_contain_that_of_the_build() {
        let listed = |list: &str| listed(&list.into(), Path::new("/built"));
        assert_eq!(listed("/a:/b"), [Path::new("/a"), Path::new("/b")]);
        assert_eq!(listed(":/b"), [Path::new("/built"), Path::new("/b")]);
    }
}
