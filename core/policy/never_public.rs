//! Files that lie in document roots by accident, and are for nobody who asks over the network.
//!
//! Promises: pure, but for a look at the root when the server starts; names alone are looked at, ASCII letters in any case. It judges what was found, never what was asked
//! for: a path of an application may end in anything. Refuses: dot-files are denied elsewhere; a file that may well be
//! meant for clients (an archive, a table, `package.json`) is not in the lists.

use std::path::Path;

/// Whether a file, by its path below the document root or by the way to it, is never meant to be public.
pub(super) fn is_never_public(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
    let ends = |ending: &&str| {
        name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
    };
    NAMES.iter().any(is) || ENDINGS.iter().any(ends)
}

/// What of a project's own directory is in a document root, if anything is. Waits for the disk.
pub fn sign_of_project(root: &Path) -> Option<&'static str> {
    SIGNS.into_iter().find(|sign| root.join(sign).exists())
}

/// Whether `vendor` in a document root is Composer's. Waits for the disk.
pub(super) fn has_vendor(root: &Path) -> bool {
    root.join(VENDOR_SIGN).exists()
}

/// Whether a path below the document root leads into Composer's directory there.
pub(super) fn is_in_vendor(path: &[u8]) -> bool {
    path.starts_with(b"/vendor/")
}

/// What a project's own directory has and a document root has not, below the root.
const SIGNS: [&str; 5] = [".env", "artisan", "composer.json", "composer.lock", VENDOR_SIGN];

/// That `vendor` is Composer's.
const VENDOR_SIGN: &str = "vendor/autoload.php";

/// Whole names.
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

/// How names end: databases and their journals, dumps, logs, what editors leave, and sources of PHP under names that
/// this server does not run.
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
