//! Blocked paths: those that `.svcdeny` denies, and those at which PHP must not be executed.
//!
//! `.svcdeny` is a file in the document root with the syntax of `.gitignore`: the last matching rule decides, and
//! nothing below a denied directory can be allowed again. `PHP_DENY_PATHS` is a list of patterns for URL paths.
//!
//! A request is checked twice. First by its path, before the disk is accessed: the path may name a directory without a
//! trailing slash, or continue after a script name. Then by the file found: the index of a directory has a name that
//! the path does not contain.
//!
//! ASCII letters match in either case. Checking a path takes bounded time, and checking a file found is complete. Paths
//! must be normalized, and files that contain an invalid rule are rejected.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::GlobMatcher;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};

use super::never_public::{has_vendor, is_in_vendor, is_never_public};
use super::rules_file::{InvalidLines, RulesFile, RulesFileError};
use crate::config::glob::url_path_glob;
use crate::limits::{DENY_DEPTH_MAX, DENY_FILE_BYTES_MAX, FILE_PATH_BYTES_MAX};

/// The deny rules of the document root.
#[derive(Debug, Default)]
pub struct DenyRules {
    /// The rules in the file.
    rules: Option<Gitignore>,
    /// Whether the directory `vendor` belongs to Composer.
    has_vendor: bool,
}

/// The patterns of paths at which PHP is not executed.
#[derive(Debug, Default)]
pub struct PhpDenyPaths(Vec<GlobMatcher>);

/// The rule that denies a request. If several do, the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// `.svcdeny` denies the path.
    Path,
    /// `PHP_DENY_PATHS` denies the execution of PHP.
    Php,
    /// The file must never be public, and no rule allows it.
    Builtin,
    /// A dot-file or a file in a dot-directory, which no rule can allow.
    DotFile,
}

impl Denial {
    /// Returns its name in log records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "svcdeny",
            Self::Php => "php_deny_paths",
            Self::Builtin => "never_public",
            Self::DotFile => "dot_file",
        }
    }
}

impl DenyRules {
    /// Reads the rules of a document root. Without a file, there are no rules.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a line is invalid.
    pub fn read(root: &Path) -> Result<Self, RulesFileError> {
        Ok(Self { rules: DENY_FILE.read(root, parse)?, has_vendor: has_vendor(root) })
    }

    /// Returns whether there is a file of rules, even if it contains none.
    pub fn is_loaded(&self) -> bool {
        self.rules.is_some()
    }

    /// Returns whether the rules deny a normalized URL path or one of its parent directories.
    pub fn denies(&self, path: &[u8]) -> bool {
        let Some(rules) = &self.rules else { return false };
        // A longer or deeper path names no file, or is checked when the file is found.
        let above =
            parents(path).take(DENY_DEPTH_MAX).take_while(|parent| parent.len() <= FILE_PATH_BYTES_MAX);
        above.into_iter().any(|parent| is_denied(rules, parent, PathKind::Directory))
            || match path.strip_suffix(b"/") {
                Some(directory) => is_denied(rules, directory, PathKind::Directory),
                None => is_denied(rules, path, PathKind::File) || is_denied(rules, path, PathKind::Directory),
            }
    }

    /// Returns the denial of a file that was found at this path below the document root, or of the target of a link at
    /// this relative path (`../shared/a.sql`). It is denied by the rules (those anchored to the root do not match files
    /// outside of it), or because it must never be public and the rules do not allow it.
    pub fn judge_file(&self, path: &[u8]) -> Option<Denial> {
        let of_the_rules = |verdict: fn(&Gitignore, &[u8], PathKind) -> bool| {
            self.rules.as_ref().is_some_and(|rules| {
                parents(path).any(|parent| verdict(rules, parent, PathKind::Directory))
                    || verdict(rules, path, PathKind::File)
            })
        };
        let is_private = || is_never_public(path) || (self.has_vendor && is_in_vendor(path));
        if of_the_rules(is_denied) {
            return Some(Denial::Path);
        }
        (is_private() && !of_the_rules(is_allowed)).then_some(Denial::Builtin)
    }
}

fn parse(text: &[u8]) -> Result<Gitignore, InvalidLines> {
    let mut builder = GitignoreBuilder::new("");
    builder.allow_unclosed_class(false);
    let mut wrong = Vec::new();
    if let Err(error) = builder.case_insensitive(true) {
        wrong.push((0, String::new(), error.to_string()));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let fault = match std::str::from_utf8(line) {
            Ok(line) => builder.add_line(None, line).err().map(|error| reason(&error)),
            Err(_) => Some("it is not valid UTF-8".to_owned()),
        };
        if let Some(fault) = fault {
            wrong.push((index + 1, String::from_utf8_lossy(line).into_owned(), fault));
        }
    }
    if wrong.is_empty() {
        match builder.build() {
            Ok(rules) => return Ok(rules),
            Err(error) => wrong.push((0, String::new(), reason(&error))),
        }
    }
    Err(wrong)
}

impl PhpDenyPaths {
    /// Compiles the patterns of the setting, which were validated when it was parsed.
    pub fn new(patterns: &[String]) -> Self {
        let compiled = patterns.iter().map(|pattern| url_path_glob(pattern));
        debug_assert!(compiled.clone().all(|pattern| pattern.is_ok()), "the setting's own check let it pass");
        Self(compiled.flatten().collect())
    }

    /// Returns whether PHP must not be executed at this normalized URL path.
    pub fn matches(&self, path: &[u8]) -> bool {
        let path = OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path));
        self.0.iter().any(|pattern| pattern.is_match(path))
    }

    /// Returns whether a normalized URL path names a script that must not be executed. Cases that this check misses are
    /// checked again when the script has been found.
    pub fn names_script(&self, path: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let mut scripts = script_ends(path).take(SCRIPTS_JUDGED).peekable();
        scripts.peek().is_some() && (self.matches(path) || scripts.any(|end| self.matches(&path[..end])))
    }
}

/// The name of the file of rules.
const DENY_FILE: RulesFile =
    RulesFile { name: ".svcdeny", bytes_max: DENY_FILE_BYTES_MAX, accepted: ".gitignore syntax" };

/// The maximum number of script names in a path that are checked before one of them is found.
const SCRIPTS_JUDGED: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PathKind {
    Directory,
    File,
}

fn is_denied(rules: &Gitignore, path: &[u8], kind: PathKind) -> bool {
    matched(rules, path, kind).is_ignore()
}

fn is_allowed(rules: &Gitignore, path: &[u8], kind: PathKind) -> bool {
    matched(rules, path, kind).is_whitelist()
}

fn matched<'a>(rules: &'a Gitignore, path: &[u8], kind: PathKind) -> Match<&'a Glob> {
    let path = Path::new(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
    if path.as_os_str().is_empty() { Match::None } else { rules.matched(path, kind == PathKind::Directory) }
}

/// Returns the parent directories of a path, from the top. A trailing slash adds no directory.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let named = path.strip_suffix(b"/").unwrap_or(path);
    memchr::memchr_iter(b'/', named)
        .map(|at| &named[..at])
        .filter(|above| !matches!(above.rsplit(|&byte| byte == b'/').next(), None | Some(b"" | b"..")))
}

/// Returns the positions after each segment that looks like a script name.
fn script_ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = memchr::memchr_iter(b'/', path).chain([path.len()]);
    slashes.filter(|&end| end >= 4 && path[end - 4..end].eq_ignore_ascii_case(b".php"))
}

fn reason(error: &ignore::Error) -> String {
    match error {
        ignore::Error::Glob { err, .. } => err.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> DenyRules {
        let rules = parse(text.as_bytes()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        DenyRules { rules: Some(rules), has_vendor: false }
    }

    fn denied<'a>(text: &str, paths: &[&'a str]) -> Vec<&'a str> {
        let rules = rules(text);
        paths.iter().copied().filter(|path| rules.denies(path.as_bytes())).collect()
    }

    #[test]
    fn without_a_file_nothing_is_denied() {
        let root = tempfile::tempdir().unwrap();
        let none = DenyRules::read(root.path()).unwrap();
        assert!(!none.is_loaded() && !none.denies(b"/a") && none.judge_file(b"/a").is_none());
        std::fs::write(root.path().join(".svcdeny"), "").unwrap();
        let empty = DenyRules::read(root.path()).unwrap();
        assert!(empty.is_loaded() && !empty.denies(b"/a"));
    }

    #[test]
    fn a_rule_denies_its_path_and_all_below() {
        let paths = [
            "/private",
            "/private/",
            "/private/a/b",
            "/a/private/x",
            "/PRIVATE/x",
            "/privates",
            "/x/private.txt",
        ];
        assert_eq!(
            denied("private/", &paths),
            ["/private", "/private/", "/private/a/b", "/a/private/x", "/PRIVATE/x"]
        );
        assert_eq!(denied("/private", &paths), ["/private", "/private/", "/private/a/b", "/PRIVATE/x"]);
        let scripts = ["/x.php", "/x.php/", "/x.php/a", "/a/X.PHP", "/x.phps", "/"];
        assert_eq!(denied("*.php", &scripts), ["/x.php", "/x.php/", "/x.php/a", "/a/X.PHP"]);
        assert_eq!(
            denied("a/*.sql\n**/b/**", &["/a/x.sql", "/z/a/x.sql", "/b", "/z/b/c"]),
            ["/a/x.sql", "/z/b/c"]
        );
    }

    #[test]
    fn the_last_matching_rule_decides_except_below_denied_paths() {
        let paths = ["/a.sql", "/public.sql", "/dump/a.sql", "/img", "/img/a.css", "/img/a.php"];
        assert_eq!(denied("*.sql\n!public.sql\n", &paths), ["/a.sql", "/dump/a.sql"]);
        assert_eq!(denied("dump/\n!/dump/a.sql\n", &paths), ["/dump/a.sql"]);
        // Everything except style sheets; a directory is denied by its bare name, because it might be a file.
        assert_eq!(
            denied("*\n!*/\n!*.css\n", &["/img/", "/img/a.css", "/img/a.php", "/img"]),
            ["/img/a.php", "/img"]
        );
    }

    #[test]
    fn comments_blanks_and_escapes_are_those_of_gitignore() {
        let text = "\u{feff}# no rule\r\n\r\n\\#hash\r\n\\!bang  \r\nspace\\ \n";
        assert_eq!(
            denied(text, &["/#hash", "/!bang", "/space ", "/space", "/# no rule"]),
            ["/#hash", "/!bang", "/space "]
        );
    }

    #[test]
    fn names_that_are_not_text_are_judged_too() {
        let rules = rules("*.sql\nsecret?");
        assert!(rules.denies(b"/\xff\xfe.sql") && rules.denies(b"/secret\xff") && rules.denies(b"/a\nb.sql"));
        assert!(!rules.denies(b"/\xc0\xaesql"));
    }

    #[test]
    fn a_file_is_judged_at_any_depth() {
        let deep = format!("{}/private/x", "/a".repeat(3 * DENY_DEPTH_MAX));
        let rules = rules("private/\n/f/index.php");
        assert!(!rules.denies(deep.as_bytes()));
        for path in [deep.as_bytes(), b"/f/index.php", b"/F/Index.php"] {
            assert_eq!(rules.judge_file(path), Some(Denial::Path));
        }
        assert_eq!(rules.judge_file(b"/f/index.html"), None);
    }

    #[test]
    fn targets_of_links_are_judged_by_unanchored_rules() {
        let denied = |text: &str, way: &str| rules(text).judge_file(way.as_bytes()) == Some(Denial::Path);
        assert!(denied("*.csv", "../../shared/a.csv") && denied("private/", "../private/a/b"));
        for bound in ["/shared", "/*\n!/storage", "/a.csv", "shared/a.csv/"] {
            assert!(!denied(bound, "../../shared/a.csv"), "{bound}");
        }
    }

    #[test]
    fn private_files_are_denied_when_found_unless_a_rule_allows_them() {
        let builtin = Some(Denial::Builtin);
        let none = DenyRules::default();
        assert_eq!([none.judge_file(b"/app.sqlite"), none.judge_file(b"../a/dump.sql")], [builtin; 2]);
        assert!(!none.denies(b"/app.sqlite"), "an application may have such a path");
        assert_eq!(none.judge_file(b"/vendor/a.css"), None);
        let vendor = DenyRules { has_vendor: true, ..DenyRules::default() };
        assert_eq!(vendor.judge_file(b"/vendor/a.css"), builtin);
        assert_eq!(vendor.judge_file(b"/build/vendor/a.css"), None);
        let allowed = DenyRules { has_vendor: true, ..rules("!*.sql\n!/vendor/\n/vendor/x/\n*.bak") };
        for (path, denial) in [
            ("/a.sql", None),
            ("/a.log", builtin),
            ("/a.bak", Some(Denial::Path)),
            ("/vendor/a/b.css", None),
            ("/vendor/x/b.css", Some(Denial::Path)),
        ] {
            assert_eq!(allowed.judge_file(path.as_bytes()), denial, "{path}");
        }
    }

    #[test]
    fn lines_that_are_no_rules_are_reported_with_their_numbers() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(".svcdeny"), b"ok\na[\n\xff\n{x\n").unwrap();
        let text = DenyRules::read(root.path()).expect_err("three lines are wrong").to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[0].contains("/.svcdeny:2: \"a[\" is not a valid rule (unclosed character class"),
            "{text}"
        );
        assert!(lines[1].contains("/.svcdeny:3: ") && lines[1].contains("not valid UTF-8"), "{text}");
        assert!(lines[2].contains("/.svcdeny:4: \"{x\""), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_missing_one() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(".svcdeny")).unwrap();
        assert!(matches!(DenyRules::read(root.path()), Err(RulesFileError::Unreadable(..))));
        std::fs::remove_dir(root.path().join(".svcdeny")).unwrap();
        std::fs::write(root.path().join(".svcdeny"), vec![b'\n'; DENY_FILE_BYTES_MAX + 1]).unwrap();
        assert!(matches!(DenyRules::read(root.path()), Err(RulesFileError::TooLong { .. })));
    }

    #[test]
    fn php_does_not_run_at_denied_patterns() {
        let php = PhpDenyPaths::new(&["/uploads/**".into(), "tmp/*.php".into()]);
        for (path, matches, names_script) in [
            ("/uploads/x.php", true, true),
            ("/Uploads/x.PHP", true, true),
            ("/uploads/x.php/a.jpg", true, true),
            ("/uploads/x.jpg", true, false),
            ("/uploads/", true, false),
            ("/uploads", false, false),
            ("/tmp/x.php", true, true),
            ("/tmp/x.php/a/b", false, true),
            ("/tmp/a/x.php", false, false),
            ("/index.php/uploads/x", false, false),
            ("/x.php", false, false),
        ] {
            assert_eq!(php.matches(path.as_bytes()), matches, "{path}");
            assert_eq!(php.names_script(path.as_bytes()), names_script, "{path}");
        }
        assert!(!PhpDenyPaths::default().names_script(b"/x.php"));
    }
}
