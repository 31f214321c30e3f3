//! The archives in which `scripts/php-zts.sh` looks for PHP's sources: those of the machine's own package lists.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/php-zts.sh");

/// Returns the archives that a machine with these lists (path below apt's folder, text) has.
fn archives(lists: &[(&str, &str)]) -> String {
    let etc = tempfile::tempdir().unwrap();
    for (name, text) in lists {
        let path = etc.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("ETC", etc.path().to_str().unwrap())).unwrap();
    }
    asked(etc.path())
}

fn asked(etc: &Path) -> String {
    let output = Command::new(SCRIPT).arg("--archives").env("SVC_APT_ETC", etc).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn both_formats_of_lists_are_read() {
    let found = archives(&[
        (
            "sources.list",
            "# deb http://old.test/debian bookworm main\ndeb [arch=amd64 signed-by=/k] http://a.test/debian/ bookworm main\n",
        ),
        (
            "sources.list.d/more.list",
            "deb http://b.test/debian-security bookworm-security main\ndeb-src http://c.test/debian x main\n",
        ),
        (
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: http://a.test/debian http://d.test/ubuntu\nSuites: x\n",
        ),
        ("sources.list.d/other.sources", "Types: deb\nURIs: https://node.test/node_20.x\nSuites: x\n"),
    ]);
    let mut found: Vec<_> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["http://a.test/debian", "http://b.test/debian-security", "http://d.test/ubuntu"]);
}

#[test]
fn the_archive_of_ubuntu_s_other_architectures_is_one() {
    let list = "Types: deb\nURIs: http://ports.test/ubuntu-ports/\nSuites: noble noble-updates\n";
    assert_eq!(archives(&[("sources.list.d/ubuntu.sources", list)]), "http://ports.test/ubuntu-ports\n");
}

#[test]
fn lists_of_mirrors_are_followed() {
    let found = archives(&[
        (
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: mirror+file:ETC/mirrors/debian.list\nSuites: bookworm\n",
        ),
        (
            "sources.list.d/security.list",
            "deb mirror+file:ETC/mirrors/debian-security.list bookworm-security main\n",
        ),
        ("mirrors/debian.list", "https://near.test/debian\tpriority:1\nhttps://far.test/debian priority:2\n"),
        ("mirrors/debian-security.list", "https://near.test/debian-security\n"),
    ]);
    let mut found: Vec<_> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(
        found,
        ["https://far.test/debian", "https://near.test/debian", "https://near.test/debian-security"]
    );
}

#[test]
fn a_machine_without_lists_has_none() {
    assert_eq!(archives(&[]), "");
}

/// Replacements of apt's commands, for an archive that lists a version which it does not have.
const TOOLS: [(&str, &str); 2] = [
    ("apt-cache", r#"printf 'Package: php8.4\nVersion: 8.4.99-2\n\nPackage: php8.4\nVersion: 8.4.98-1\n'"#),
    ("apt-get", r#"case "$*" in update*) ;; *php8.4=8.4.98-1) cp "$POOL"/* . ;; *) exit 100 ;; esac"#),
];

/// Creates a minimal source package of PHP 8.4.98 in the folder `pool`.
const PACK: &str = r#"mkdir -p php/debian/source php/main pool
printf '#define PHP_VERSION "8.4.98"\n' >php/main/php_version.h
file=php8.4_8.4.98-1.tar.gz
tar -czf "pool/$file" php
printf 'Format: 3.0 (native)\nSource: php8.4\nVersion: 8.4.98-1\nFiles:\n %s %s %s\n' \
    "$(md5sum "pool/$file" | cut -d ' ' -f 1)" "$(stat -c %s "pool/$file")" "$file" >pool/php8.4_8.4.98-1.dsc"#;

#[test]
fn an_older_version_than_the_archive_lists_is_taken_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert!(Command::new("/bin/sh").args(["-ec", PACK]).current_dir(&dir).status().unwrap().success());
    fs::create_dir(at("bin")).unwrap();
    for (name, code) in TOOLS {
        let path = at("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{code}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(at("sources.list"), "deb http://mirror.test/debian trixie main\n").unwrap();
    let output = Command::new(SCRIPT)
        .arg("--source")
        .env_clear()
        .env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", at("bin").display()))
        .env("POOL", at("pool"))
        .env("SVC_APT_ETC", dir.path())
        .env("XDG_CACHE_HOME", at("cache"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().trim(),
        at("cache/svc/php-src-8.4.98").to_str().unwrap()
    );
    let warning = "warning: the archive lists php8.4 8.4.99-2 and does not have it";
    assert!(said.contains(warning), "{said}");
}
