//! DokuWiki as packaged by Debian, and the first steps of its administrator.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::browser::{Browser, input};
use crate::repository;

/// Creates a copy of DokuWiki before its installation.
pub fn fresh_copy() -> TempDir {
    let script = repository().join("scripts/dokuwiki.sh");
    let output = Command::new(&script).output().unwrap();
    assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    let source = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end());
    let root = tempfile::tempdir().unwrap();
    // Links are replaced by their targets, so that no link leaves the document root.
    let copied = Command::new("cp").arg("-rL").arg(source.join(".")).arg(root.path()).status().unwrap();
    assert!(copied.success());
    root
}

/// Completes the installer.
pub fn install(browser: &mut Browser) {
    let page = browser.get("/install.php");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("d[superuser]") || page.text().contains("d[acl]"), "{}", page.text());
    let done = browser.submit(
        "/install.php",
        &[
            ("l", "en"),
            ("d[title]", "A wiki of wombats"),
            ("d[acl]", "on"),
            ("d[superuser]", "ada"),
            ("d[fullname]", "Ada"),
            ("d[email]", "ada@example.org"),
            ("d[password]", "s3cret & l\u{f6}ng"),
            ("d[confirm]", "s3cret & l\u{f6}ng"),
            ("d[policy]", "1"),
            ("d[license]", "cc-by-sa"),
            ("submit", ""),
        ],
    );
    assert!(done.text().contains("configuration was finished successfully"), "{}", done.text());
}

/// Logs in as the administrator, after a wrong password.
pub fn log_in(browser: &mut Browser) {
    let page = browser.get("/doku.php?id=start&do=login");
    assert!(page.text().contains("A wiki of wombats"));
    let token = input(&page.text(), "sectok");
    let wrong = [("sectok", token.as_str()), ("do", "login"), ("u", "ada"), ("p", "wrong")];
    let refused = browser.submit("/doku.php?id=start", &wrong);
    assert!(refused.text().contains("Sorry, username or password was wrong."), "{}", refused.text());
    let token = input(&refused.text(), "sectok");
    let right =
        [("sectok", token.as_str()), ("do", "login"), ("u", "ada"), ("p", "s3cret & l\u{f6}ng"), ("r", "1")];
    let page = browser.submit("/doku.php?id=start", &right);
    assert!(page.text().contains("Logged in as"), "{}", page.text());
    assert_eq!(browser.cookies(), 2, "the session's, and the one that remembers");
}
