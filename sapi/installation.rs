//! The tree that `make install` creates: the binary in `bin`, and PHP in `lib/svc` beside it.
//!
//! Promises: all paths follow the binary, so that the tree can be moved. Refuses: a binary in a build tree has no
//! installation; its PHP knows its own files.

use std::path::{Path, PathBuf};

/// The files of an installed server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    home: PathBuf,
}

impl Installation {
    /// The tree that the running binary is installed in, if it is.
    pub fn of_this_binary() -> Option<Self> {
        Self::of(&std::env::current_exe().ok()?)
    }

    fn of(binary: &Path) -> Option<Self> {
        let home = binary.parent()?.parent()?.join("lib/svc");
        home.join("libphp.so").is_file().then_some(Self { home })
    }

    /// The command-line PHP of the same build.
    pub fn php(&self) -> PathBuf {
        self.home.join("bin/php")
    }

    /// The directory with PHP's extensions.
    pub fn extensions(&self) -> PathBuf {
        self.home.join("extensions")
    }

    /// The variables by which both the server's PHP and the command-line PHP find their files. What the environment has
    /// already is the operator's, and stays.
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
