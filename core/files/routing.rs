//! The modes of a site: how each part of it maps paths to files and scripts.
//!
//! A part is a path prefix of `ENTRY_FILE`, with its own file for paths that nothing on the disk answers. The candidates
//! of a path in its mode are up to `route`. Pure.

use crate::config::EntryFile;

/// The modes of the parts of a site, determined by the settings `ENTRY_FILE` and `WORKER_MODE_ENABLED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The parts that have an entry file, the longest prefix first.
    parts: Vec<SitePart>,
    /// All other paths.
    rest: SitePart,
}

/// A part of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePart {
    /// Its path without slashes at its ends; empty for the whole site. Differs from every normalized path.
    pub key: Vec<u8>,
    /// How its paths are routed.
    pub mode: RoutingMode,
}

/// How paths map to files and scripts, determined by the settings `ENTRY_FILE` and `WORKER_MODE_ENABLED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutingMode {
    /// Files, scripts with PATH_INFO, and directory indexes.
    Files,
    /// Files, scripts and directory indexes. One script handles all other paths, and the root.
    FrontController {
        /// The URL path of the script, with its leading slash.
        script: Vec<u8>,
        /// The offset of `PATH_INFO` in a path that it handles; `None` if there is none.
        path_info_from: Option<usize>,
    },
    /// Files and scripts. One file is sent for all other paths.
    SinglePage {
        /// The URL path of the file, with its leading slash.
        file: Vec<u8>,
    },
    /// Files that are not scripts. One script, which is already loaded, handles all other paths.
    Worker {
        /// The URL path of the script, with its leading slash.
        script: Vec<u8>,
    },
}

impl RoutingMode {
    /// Selects the mode of an entry file, given by its path relative to the document root.
    pub fn from_entry_file(entry_file: Option<&str>) -> Self {
        let Some(entry) = entry_file else { return Self::Files };
        let path = [b"/", entry.trim_start_matches('/').as_bytes()].concat();
        if is_source(&path) {
            Self::FrontController { script: path, path_info_from: None }
        } else {
            Self::SinglePage { file: path }
        }
    }

    fn of(entry: &EntryFile, has_workers: bool) -> Self {
        match Self::from_entry_file(Some(&entry.file)) {
            // Workers have loaded the script.
            Self::FrontController { script, .. } if has_workers => Self::Worker { script },
            Self::FrontController { script, .. } => {
                let path_info_from = entry.gets_rest.then_some(entry.prefix.len());
                Self::FrontController { script, path_info_from }
            }
            other => other,
        }
    }

    /// Returns the file that handles all remaining paths, if there is one.
    pub fn entry(&self) -> Option<&[u8]> {
        match self {
            Self::FrontController { script: entry, .. }
            | Self::Worker { script: entry }
            | Self::SinglePage { file: entry } => Some(entry),
            Self::Files => None,
        }
    }

    /// Returns the page that handles all remaining paths, if there is one.
    pub fn page(&self) -> Option<&[u8]> {
        match self {
            Self::SinglePage { file } => Some(file),
            Self::FrontController { .. } | Self::Worker { .. } | Self::Files => None,
        }
    }

    /// Returns the script that handles all remaining paths, if there is one.
    pub fn front_controller(&self) -> Option<&[u8]> {
        match self {
            Self::FrontController { script, .. } | Self::Worker { script } => Some(script),
            Self::Files | Self::SinglePage { .. } => None,
        }
    }

    /// Returns the `PATH_INFO` of a path that the script handles.
    pub(super) fn path_info<'a>(&self, script: &[u8], path: &'a [u8]) -> &'a [u8] {
        match self {
            _ if is_or_is_below(path, script) => &path[script.len()..],
            Self::FrontController { path_info_from: Some(from), .. } if path != b"/" => &path[*from..],
            _ => b"",
        }
    }
}

impl Routing {
    /// Creates the routing of these entry files, longest prefix first. With `has_workers`, workers have loaded the scripts.
    pub fn new(entry_files: &[EntryFile], has_workers: bool) -> Self {
        let part = |entry: &EntryFile| SitePart {
            key: entry.prefix.trim_start_matches('/').into(),
            mode: RoutingMode::of(entry, has_workers),
        };
        let rest = SitePart { key: Vec::new(), mode: RoutingMode::Files };
        Self { parts: entry_files.iter().map(part).collect(), rest }
    }

    /// Returns the part of the site that a normalized path belongs to.
    pub fn part(&self, path: &[u8]) -> &SitePart {
        let below = path.strip_prefix(b"/").unwrap_or(path);
        let holds = |part: &&SitePart| part.key.is_empty() || is_or_is_below(below, &part.key);
        self.parts.iter().find(holds).unwrap_or(&self.rest)
    }

    /// Returns whether the file at this path below the document root is an entry file.
    pub fn has_entry(&self, path: &[u8]) -> bool {
        self.parts.iter().any(|part| part.mode.entry() == Some(path))
    }
}

impl SitePart {
    /// Returns whether no file can handle a normalized path, so that the script handles it without `PATH_INFO`,
    /// whatever is on the disk.
    pub fn has_only_the_script(&self, path: &[u8]) -> bool {
        match &self.mode {
            RoutingMode::FrontController { script, .. } => path == b"/" || path == &**script,
            RoutingMode::Worker { script } => path.ends_with(b"/") && !is_or_is_below(path, script),
            RoutingMode::Files | RoutingMode::SinglePage { .. } => false,
        }
    }

    /// Returns whether workers that have loaded the script handle a normalized path, without `PATH_INFO`, unless a file
    /// does.
    pub fn leaves_to_workers(&self, path: &[u8]) -> bool {
        matches!(&self.mode, RoutingMode::Worker { script } if path == &**script || !is_or_is_below(path, script))
    }

    /// Returns the key under which to cache that a script handles a normalized path; `None` if it must not be cached:
    /// the script may create a file of that name, which handles the next request.
    pub fn route_key<'a>(&'a self, path: &'a [u8], script: &[u8], path_info: &[u8]) -> Option<&'a [u8]> {
        if self.mode.front_controller() != Some(script) {
            return Some(path);
        }
        match path_info {
            // The same key for all paths.
            [] => Some(&self.key),
            _ if is_or_is_below(path, script) => Some(path),
            _ => None,
        }
    }
}

/// The extension of scripts.
pub(super) const SCRIPT_ENDING: &[u8] = b".php";

/// Returns whether a file of this name contains source code that must not be sent.
pub(super) fn is_source(path: &[u8]) -> bool {
    path.len() >= SCRIPT_ENDING.len()
        && path[path.len() - SCRIPT_ENDING.len()..].eq_ignore_ascii_case(SCRIPT_ENDING)
}

/// Returns whether a path is that of the script, or continues it after a slash.
pub(super) fn is_or_is_below(path: &[u8], script: &[u8]) -> bool {
    path.strip_prefix(script).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_file_decides_the_mode() {
        assert_eq!(RoutingMode::from_entry_file(None), RoutingMode::Files);
        assert_eq!(
            RoutingMode::from_entry_file(Some("index.php")),
            RoutingMode::FrontController { script: b"/index.php".to_vec(), path_info_from: None }
        );
        assert_eq!(
            RoutingMode::from_entry_file(Some("/public/index.php")),
            RoutingMode::FrontController { script: b"/public/index.php".to_vec(), path_info_from: None }
        );
        assert_eq!(
            RoutingMode::from_entry_file(Some("app.html")),
            RoutingMode::SinglePage { file: b"/app.html".to_vec() }
        );
        // The mode must never send the source.
        assert_eq!(
            RoutingMode::from_entry_file(Some("INDEX.PHP")),
            RoutingMode::FrontController { script: b"/INDEX.PHP".to_vec(), path_info_from: None }
        );
    }

    #[test]
    fn requests_of_a_front_controller_are_not_cached_under_possible_paths_of_files() {
        let entry = |prefix: &str, file: &str, gets_rest| EntryFile {
            prefix: prefix.into(),
            file: file.into(),
            gets_rest,
        };
        let routing = Routing::new(&[entry("/api", "api.php", true), entry("", "index.php", false)], false);
        let key = |path: &str, script: &str, path_info: &str| {
            let (path, script, path_info) = (path.as_bytes(), script.as_bytes(), path_info.as_bytes());
            routing
                .part(path)
                .route_key(path, script, path_info)
                .map(|key| String::from_utf8_lossy(key).into_owned())
        };
        assert_eq!(key("/a", "/index.php", ""), Some(String::new()));
        assert_eq!(key("/index.php/a", "/index.php", "/a"), Some("/index.php/a".into()));
        assert_eq!(key("/other.php", "/other.php", ""), Some("/other.php".into()));
        assert_eq!(key("/api", "/api.php", ""), Some("api".into()));
        assert_eq!(key("/api/a", "/api.php", "/a"), None);
    }
}
