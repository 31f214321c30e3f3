//! Files that end up in document roots by accident and must never be public.
//!
//! Pure, except for a check of the root at startup. Only names are compared, with ASCII letters in either case. The
//! check applies to files found, never to requested paths: a path of an application may have any name. Dot-files are
//! blocked elsewhere; files that may well be meant for clients (archives, tables, `package.json`) are not in the lists.

use std::path::Path;

/// Returns whether a file, given by its path below or relative to the document root, must never be public.
pub(super) fn is_never_public(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
    let ends = |ending: &&str| {
        name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
    };
    NAMES.iter().any(is) || ENDINGS.iter().any(ends)
}

/// Returns the file or directory that indicates that a document root is the root of a project, if there is one.
/// Accesses the disk.
pub fn sign_of_project(root: &Path) -> Option<&'static str> {
    SIGNS.into_iter().find(|sign| root.join(sign).exists())
}

/// Returns whether `vendor` in a document root belongs to Composer. Accesses the disk.
pub(super) fn has_vendor(root: &Path) -> bool {
    root.join(VENDOR_SIGN).exists()
}

/// Returns whether a path below the document root leads into Composer's directory.
pub(super) fn is_in_vendor(path: &[u8]) -> bool {
    path.starts_with(b"/vendor/")
}

/// Files that occur in the root of a project, but not in a document root.
const SIGNS: [&str; 5] = [".env", "artisan", "composer.json", "composer.lock", VENDOR_SIGN];

/// Indicates that `vendor` belongs to Composer.
const VENDOR_SIGN: &str = "vendor/autoload.php";

/// Complete file names.
const NAMES: [&str; 9] = [
    "artisan",
    "auth.json",
    "compose.yaml",
    "compose.yml",
    "composer.json",
    "composer.lock",
    "composer.phar",
    "docker-compose.yaml",
    "docker-compose.yml",
];

/// Suffixes: databases and their journals, dumps, logs, editor backups, and PHP sources under names that this server
/// does not execute.
const ENDINGS: [&str; 25] = [
    ".sqlite",
    ".sqlite3",
    ".sqlite-journal",
    ".sqlite-shm",
    ".sqlite-wal",
    ".sqlite3-journal",
    ".sqlite3-shm",
    ".sqlite3-wal",
    ".sql",
    ".sql.bz2",
    ".sql.gz",
    ".sql.xz",
    ".sql.zip",
    ".sql.zst",
    ".log",
    ".bak",
    ".orig",
    ".swp",
    "~",
    ".inc",
    ".phar",
    ".phtml",
    ".php3",
    ".php5",
    ".php7",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_dumps_logs_backups_and_sources_are_never_public() {
        for path in [
            "/data/app.SQLite",
            "/app.sqlite-wal",
            "/dump.sql.gz",
            "../storage/laravel.log",
            "/index.php~",
            "/config.php.bak",
            "/Composer.JSON",
            "/lib/db.inc",
            "/page.phtml",
        ] {
            assert!(is_never_public(path.as_bytes()), "{path}");
        }
        for path in [
            "/a.php",
            "/log",
            "/.log",
            "/sql",
            "/package.json",
            "/a.json",
            "/catalog",
            "/x.sql/y.css",
            "/a.csv",
        ] {
            assert!(!is_never_public(path.as_bytes()), "{path}");
        }
    }
}
