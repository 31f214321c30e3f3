//! Routing: from a normalized path to the ordered list of candidates on the disk.
//!
//! | mode | `/a` | `/a/` | `/a.php/b` | when nothing is found |
//! |---|---|---|---|---|
//! | files | file, else a directory redirects to `/a/` | `index.php`, `index.html` in it | script, rest as PATH_INFO | 404 |
//! | front controller | file, else a directory with an index redirects to `/a/` | `index.php`, `index.html` in it, but not in the root | script, rest as PATH_INFO | the script |
//! | single page | file | – | script, rest as PATH_INFO | the file |
//! | worker | file | – | – | the script |
//!
//! Pure; names are compared as decoded bytes. The name of a script ends in exactly `.php` at the end of a segment. The
//! first such segment that is a file on disk is the script, and the rest of the path is its PATH_INFO. A name that ends
//! in `.php` in any letter case is never a candidate for sending as a file. A dot-file, or a file in a dot-directory
//! other than `/.well-known`, is never a candidate. Dots in PATH_INFO, or in a path that the entry file handles, have
//! no special meaning. Existence is not checked.

use super::routing::{RoutingMode, SCRIPT_ENDING, is_or_is_below, is_source};
use crate::http::uri::has_dot_segment_file;

/// A candidate on the disk, and the action if it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A directory is redirected to the path with a trailing slash; a file is sent.
    FileOrDirectory {
        /// The path below the document root, with its leading slash.
        path: Vec<u8>,
    },
    /// An index of a directory requested without its trailing slash: if it exists, the response is the redirect to the
    /// path with the slash.
    IndexOfDirectory {
        /// The path of the index below the document root, with its leading slash.
        path: Vec<u8>,
    },
    /// A file is executed.
    Script {
        /// The script's path below the document root, with its leading slash: `SCRIPT_NAME`.
        name: Vec<u8>,
        /// The rest of the URL path: `PATH_INFO`.
        path_info: Vec<u8>,
    },
    /// A file is sent.
    Static {
        /// The path below the document root, with its leading slash.
        path: Vec<u8>,
    },
}

/// Iterates over the candidates of a path, in order. The first one that exists answers; 404 if none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates<'a> {
    mode: &'a RoutingMode,
    path: &'a [u8],
    has_dot_segment: bool,
    step: SearchStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchStep {
    /// Scripts in the path; the search continues after this position.
    Scripts(usize),
    /// The path itself.
    Itself,
    /// The index at this position in [`INDEXES`].
    Index(usize),
    /// The same index, for a path that may be a directory without its trailing slash.
    IndexBelow(usize),
    /// The fallback if nothing was found.
    Fallback,
    End,
}

/// Routes a normalized path.
pub fn route<'a>(mode: &'a RoutingMode, path: &'a [u8]) -> Candidates<'a> {
    debug_assert!(path.starts_with(b"/"), "a normalised path starts with a slash");
    let step = match mode {
        RoutingMode::FrontController { script, .. } if path == b"/" || is_or_is_below(path, script) => {
            SearchStep::Fallback
        }
        // Only the loaded script is executed.
        RoutingMode::Worker { .. } => SearchStep::Itself,
        _ => SearchStep::Scripts(0),
    };
    Candidates { mode, path, has_dot_segment: has_dot_segment_file(path), step }
}

impl Candidates<'_> {
    fn next_script(&mut self, from: usize) -> Option<Candidate> {
        match script_end(self.path, from) {
            Some(end) => {
                self.step = SearchStep::Scripts(end);
                Some(Candidate::Script { name: self.path[..end].into(), path_info: self.path[end..].into() })
            }
            None => {
                self.step = SearchStep::Itself;
                None
            }
        }
    }

    fn itself(&mut self) -> Option<Candidate> {
        let is_directory = self.path.ends_with(b"/");
        self.step = match self.mode {
            RoutingMode::Files | RoutingMode::FrontController { .. } if is_directory => SearchStep::Index(0),
            RoutingMode::Files => SearchStep::End,
            RoutingMode::FrontController { .. } => SearchStep::IndexBelow(0),
            RoutingMode::SinglePage { .. } | RoutingMode::Worker { .. } => SearchStep::Fallback,
        };
        match self.mode {
            _ if is_directory => None,
            // A directory may have such a name, but a file of that name must not be sent.
            _ if is_source(self.path) => None,
            RoutingMode::Files => Some(Candidate::FileOrDirectory { path: self.path.into() }),
            RoutingMode::FrontController { .. }
            | RoutingMode::SinglePage { .. }
            | RoutingMode::Worker { .. } => Some(Candidate::Static { path: self.path.into() }),
        }
    }

    fn index(&mut self, place: usize) -> Option<Candidate> {
        self.step =
            if place + 1 < INDEXES.len() { SearchStep::Index(place + 1) } else { SearchStep::Fallback };
        let name = [self.path, INDEXES[place]].concat();
        Some(if is_source(&name) {
            Candidate::Script { name, path_info: Vec::new() }
        } else {
            Candidate::Static { path: name }
        })
    }

    fn index_below(&mut self, place: usize) -> Candidate {
        self.step =
            if place + 1 < INDEXES.len() { SearchStep::IndexBelow(place + 1) } else { SearchStep::Fallback };
        Candidate::IndexOfDirectory { path: [self.path, b"/", INDEXES[place]].concat() }
    }

    fn fallback(&mut self) -> Option<Candidate> {
        self.step = SearchStep::End;
        match self.mode {
            RoutingMode::Files => None,
            RoutingMode::FrontController { script, .. } | RoutingMode::Worker { script } => {
                let path_info = self.mode.path_info(script, self.path);
                Some(Candidate::Script { name: script.clone(), path_info: path_info.into() })
            }
            RoutingMode::SinglePage { file } => Some(Candidate::Static { path: file.clone() }),
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        loop {
            let found = match self.step {
                SearchStep::Scripts(from) => self.next_script(from),
                SearchStep::Itself => self.itself(),
                SearchStep::Index(place) => self.index(place),
                SearchStep::IndexBelow(place) => Some(self.index_below(place)),
                // The fallback is a setting, not a part of the path.
                SearchStep::Fallback => return self.fallback(),
                SearchStep::End => return None,
            };
            let is_hidden = |found: &Candidate| self.has_dot_segment && has_dot_segment_file(found.path());
            if found.as_ref().is_some_and(|found| !is_hidden(found)) {
                return found;
            }
        }
    }
}

impl Candidate {
    /// Returns the path to look for below the document root.
    pub fn path(&self) -> &[u8] {
        match self {
            Self::FileOrDirectory { path } | Self::IndexOfDirectory { path } | Self::Static { path } => path,
            Self::Script { name, .. } => name,
        }
    }
}

/// The names of directory indexes, in the order in which they are tried.
const INDEXES: [&[u8]; 2] = [b"index.php", b"index.html"];

/// Finds the end of the first segment after `from` that is named like a script and is longer than the extension.
fn script_end(path: &[u8], from: usize) -> Option<usize> {
    let mut from = from;
    while let Some(found) = memchr::memmem::find(&path[from..], SCRIPT_ENDING) {
        let (start, end) = (from + found, from + found + SCRIPT_ENDING.len());
        let at_segment_end = matches!(path.get(end), None | Some(b'/'));
        if at_segment_end && start > 0 && path[start - 1] != b'/' {
            return Some(end);
        }
        from = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EntryFile;
    use crate::files::{Routing, SitePart};

    /// Shows the candidates as `run NAME|PATH_INFO`, `send PATH` and `send-or-redirect PATH`.
    fn tried(mode: &RoutingMode, path: &str) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        route(mode, path.as_bytes())
            .map(|candidate| match candidate {
                Candidate::FileOrDirectory { path } => format!("send-or-redirect {}", text(&path)),
                Candidate::IndexOfDirectory { path } => format!("redirect-if {}", text(&path)),
                Candidate::Script { name, path_info } => format!("run {}|{}", text(&name), text(&path_info)),
                Candidate::Static { path } => format!("send {}", text(&path)),
            })
            .collect()
    }

    fn front_controller() -> RoutingMode {
        RoutingMode::from_entry_file(Some("index.php"))
    }

    fn single_page() -> RoutingMode {
        RoutingMode::from_entry_file(Some("app.html"))
    }

    #[test]
    fn files_mode_tries_the_path_and_redirects_directories() {
        assert_eq!(tried(&RoutingMode::Files, "/a/b.css"), ["send-or-redirect /a/b.css"]);
        assert_eq!(tried(&RoutingMode::Files, "/a/"), ["run /a/index.php|", "send /a/index.html"]);
        assert_eq!(tried(&RoutingMode::Files, "/"), ["run /index.php|", "send /index.html"]);
    }

    #[test]
    fn scripts_are_tried_from_the_left_and_the_rest_is_path_info() {
        assert_eq!(tried(&RoutingMode::Files, "/a.php"), ["run /a.php|"]);
        assert_eq!(
            tried(&RoutingMode::Files, "/a.php/"),
            ["run /a.php|/", "run /a.php/index.php|", "send /a.php/index.html"]
        );
        assert_eq!(
            tried(&RoutingMode::Files, "/a.php/b.php/c"),
            ["run /a.php|/b.php/c", "run /a.php/b.php|/c", "send-or-redirect /a.php/b.php/c"]
        );
        assert_eq!(tried(&RoutingMode::Files, "/a.jpg/x.php"), ["run /a.jpg/x.php|"]);
    }

    #[test]
    fn the_ending_counts_at_a_segment_end_and_in_lower_case_only() {
        for path in ["/a.php.jpg", "/a.phpx", "/php", "/a.php5", "/a.php%"] {
            assert_eq!(tried(&RoutingMode::Files, path), [format!("send-or-redirect {path}")], "{path}");
        }
        for path in ["/a.PHP", "/a.Php", "/a.pHp"] {
            assert!(tried(&RoutingMode::Files, path).is_empty(), "{path}");
        }
        assert_eq!(tried(&RoutingMode::Files, "/a.PHP/b"), ["send-or-redirect /a.PHP/b"]);
    }

    #[test]
    fn a_source_file_is_never_offered_for_sending() {
        for mode in [RoutingMode::Files, front_controller(), single_page(), worker()] {
            for path in ["/a.php", "/a.PHP", "/x/a.pHP", "/a.php/b.PHP"] {
                assert!(
                    !tried(&mode, path).iter().any(|try_| try_.starts_with("send") && try_.ends_with(path))
                );
            }
        }
    }

    #[test]
    fn the_front_controller_answers_all_that_is_neither_file_nor_script() {
        let mode = front_controller();
        assert_eq!(tried(&mode, "/"), ["run /index.php|"]);
        assert_eq!(
            tried(&mode, "/a/b"),
            ["send /a/b", "redirect-if /a/b/index.php", "redirect-if /a/b/index.html", "run /index.php|"]
        );
        assert_eq!(tried(&mode, "/a/"), ["run /a/index.php|", "send /a/index.html", "run /index.php|"]);
        assert_eq!(tried(&mode, "/other.php")[0], "run /other.php|");
        assert_eq!(tried(&mode, "/other.php").last().unwrap(), "run /index.php|");
        assert_eq!(tried(&mode, "/index.php"), ["run /index.php|"]);
        assert_eq!(tried(&mode, "/index.php/a/b"), ["run /index.php|/a/b"]);
        assert_eq!(tried(&mode, "/index.phpx")[0], "send /index.phpx");
    }

    #[test]
    fn the_root_belongs_to_the_front_controller_whatever_index_is_there() {
        assert_eq!(tried(&RoutingMode::from_entry_file(Some("app.php")), "/"), ["run /app.php|"]);
    }

    #[test]
    fn the_single_page_answers_all_that_is_no_file_and_no_script() {
        let mode = single_page();
        assert_eq!(tried(&mode, "/"), ["send /app.html"]);
        assert_eq!(tried(&mode, "/a"), ["send /a", "send /app.html"]);
        assert_eq!(tried(&mode, "/api.php/x"), ["run /api.php|/x", "send /api.php/x", "send /app.html"]);
    }

    fn worker() -> RoutingMode {
        RoutingMode::Worker { script: b"/index.php".to_vec() }
    }

    #[test]
    fn the_worker_answers_all_that_is_no_file_and_every_name_of_a_script() {
        let mode = worker();
        for path in ["/", "/a/", "/index.php", "/other.php", "/a/b.PHP"] {
            assert_eq!(tried(&mode, path), ["run /index.php|"], "{path}");
        }
        assert_eq!(tried(&mode, "/a.css"), ["send /a.css", "run /index.php|"]);
        assert_eq!(tried(&mode, "/index.php/a"), ["send /index.php/a", "run /index.php|/a"]);
        assert_eq!(tried(&mode, "/other.php/a"), ["send /other.php/a", "run /index.php|"]);
    }

    fn entry(prefix: &str, file: &str, gets_rest: bool) -> EntryFile {
        EntryFile { prefix: prefix.into(), file: file.into(), gets_rest }
    }

    #[test]
    fn a_part_of_the_site_is_found_by_whole_segments() {
        let entries = [
            entry("/api/v2", "v2.php", false),
            entry("/admin", "admin.html", false),
            entry("/api", "api/index.php", false),
            entry("", "index.php", false),
        ];
        let routing = Routing::new(&entries, false);
        for (path, key, fallback) in [
            ("/api/v2/x", "api/v2", "run /v2.php|"),
            ("/api/v2", "api/v2", "run /v2.php|"),
            ("/api/v20", "api", "run /api/index.php|"),
            ("/api/index.php/v1/x", "api", "run /api/index.php|/v1/x"),
            ("/api", "api", "run /api/index.php|"),
            ("/apis", "", "run /index.php|"),
            ("/", "", "run /index.php|"),
            ("/admin/x", "admin", "send /admin.html"),
            ("/.well-known/x", "", "run /index.php|"),
        ] {
            let part = routing.part(path.as_bytes());
            assert_eq!(part.key, key.as_bytes(), "{path}");
            assert_eq!(tried(&part.mode, path).last().unwrap(), fallback, "{path}");
        }
        assert!(routing.has_entry(b"/api/index.php") && routing.has_entry(b"/admin.html"));
        assert!(!routing.has_entry(b"/api/other.php"));
        let alone = Routing::new(&entries[..3], false);
        assert_eq!(alone.part(b"/x").mode, RoutingMode::Files);
        let workers = Routing::new(&entries[3..], true);
        assert_eq!(workers.part(b"/x").mode, worker());
    }

    #[test]
    fn the_rest_of_a_path_is_path_info_where_the_setting_says_so() {
        let routing =
            Routing::new(&[entry("/api", "api/http.php", true), entry("", "index.php", true)], false);
        for (path, fallback) in [
            ("/api/tickets.json", "run /api/http.php|/tickets.json"),
            ("/api", "run /api/http.php|"),
            ("/api/", "run /api/http.php|/"),
            ("/api/http.php/tickets.json", "run /api/http.php|/tickets.json"),
            ("/a/b", "run /index.php|/a/b"),
            ("/", "run /index.php|"),
        ] {
            let part = routing.part(path.as_bytes());
            assert_eq!(tried(&part.mode, path).last().unwrap(), fallback, "{path}");
        }
    }

    #[test]
    fn paths_with_only_the_script_have_no_other_candidate() {
        let paths = [
            "/",
            "/a",
            "/a/",
            "/index.php",
            "/index.php/",
            "/index.php/a/",
            "/index.phpx/",
            "/.a/",
            "/a.php",
            "/a.php/",
        ];
        for mode in [RoutingMode::Files, front_controller(), single_page(), worker()] {
            let part = SitePart { key: Vec::new(), mode: mode.clone() };
            for path in paths {
                let is_alone = tried(&mode, path) == ["run /index.php|"];
                assert!(is_alone || !part.has_only_the_script(path.as_bytes()), "{mode:?} {path}");
            }
            let has_entry = mode.front_controller().is_some();
            assert_eq!(part.has_only_the_script(b"/"), has_entry, "{mode:?}");
        }
    }

    #[test]
    fn dot_files_are_no_candidates_in_any_mode() {
        for (mode, fallback) in [
            (RoutingMode::Files, &[][..]),
            (front_controller(), &["run /index.php|"]),
            (single_page(), &["send /app.html"]),
            (worker(), &["run /index.php|"]),
        ] {
            for path in ["/.env", "/.git/config", "/.git/", "/a/.b/c.php", "/.php", "/a/.php", "/wiki/.NET"] {
                assert_eq!(tried(&mode, path), fallback, "{path}");
            }
            let open = ["send-or-redirect /.well-known/x", "send /.well-known/x"];
            assert!(open.contains(&&*tried(&mode, "/.well-known/x")[0]));
        }
    }

    #[test]
    fn path_info_may_have_dot_segments() {
        assert_eq!(tried(&RoutingMode::Files, "/remote.php/dav/.file"), ["run /remote.php|/dav/.file"]);
        assert_eq!(tried(&front_controller(), "/index.php/.x/y"), ["run /index.php|/.x/y"]);
        assert_eq!(tried(&worker(), "/index.php/.x/y"), ["run /index.php|/.x/y"]);
        // The script itself is hidden.
        assert_eq!(tried(&RoutingMode::Files, "/.a/b.php/c"), [""; 0]);
    }
}
