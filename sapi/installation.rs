//! The tree that `make install` creates: the binary in `bin`, and PHP in `lib/svc` beside it.
//!
//! All paths are relative to the binary, so the tree can be moved. A binary in a build tree has no installation; its
//! PHP uses compiled-in paths.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The files of an installed server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    home: PathBuf,
}

impl Installation {
    /// Returns the tree that contains the running binary, if it is installed.
    pub fn of_this_binary() -> Option<Self> {
        Self::of(&std::env::current_exe().ok()?)
    }

    fn of(binary: &Path) -> Option<Self> {
        let home = binary.parent()?.parent()?.join("lib/svc");
        home.join("libphp.so").is_file().then_some(Self { home })
    }

    /// Returns the command-line PHP of the same build.
    pub fn php(&self) -> PathBuf {
        self.home.join("bin/php")
    }

    /// Returns the directory with PHP's extensions.
    pub fn extensions(&self) -> PathBuf {
        self.home.join("extensions")
    }

    /// Returns why a file of directives cannot be read. PHP silently ignores such a file, and would start without the
    /// restrictions that an administrator has set in it.
    pub fn fault(&self) -> Option<String> {
        let unset = |name: &str| std::env::var_os(name).is_none();
        let etc = self.home.join("etc");
        let mut files = Vec::new();
        if unset("PHPRC") {
            files.push(etc.join("php.ini"));
        }
        if unset("PHP_INI_SCAN_DIR") {
            let folder = etc.join("conf.d");
            match fs::read_dir(&folder) {
                Ok(entries) => files.extend(entries.flatten().map(|entry| entry.path())),
                Err(error) => return unreadable(&folder, &error),
            }
        }
        let found = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "ini"));
        found.map(PathBuf::as_path).find_map(|file| unreadable(file, &fs::File::open(file).err()?))
    }

    /// Returns the variables by which both the server's PHP and the command-line PHP find their files. The caller keeps
    /// those that the operator has set in the environment.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let etc = self.home.join("etc");
        vec![
            ("PHP_INI_SCAN_DIR", etc.join("conf.d")),
            ("PHPRC", etc),
            // Read by etc/conf.d/00-extension-dir.ini.
            ("PHP_EXTENSION_DIR", self.extensions()),
        ]
    }
}

/// Describes an existing file that cannot be read.
fn unreadable(path: &Path, error: &io::Error) -> Option<String> {
    (error.kind() != io::ErrorKind::NotFound).then(|| format!("{path:?} cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_known_by_its_library() {
        let root = tempfile::tempdir().unwrap();
        let binary = root.path().join("bin/svc");
        assert_eq!(Installation::of(&binary), None);
        let home = root.path().join("lib/svc");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("libphp.so"), "").unwrap();
        let tree = Installation::of(&binary).unwrap();
        assert_eq!(tree.php(), home.join("bin/php"));
        assert!(tree.environment().iter().all(|(_, path)| path.starts_with(&home)));
    }
}
