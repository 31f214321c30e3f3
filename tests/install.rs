//! What `make install` puts into place works where it was not built: moved, and run by a user who can read nothing else.
#![cfg(feature = "php")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support;
use crate::support::Svc;

/// Installs the binary of the tests below `/opt/site` of a scratch root, and moves that to another folder.
fn moved_tree() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/install.sh");
    let output = Command::new(script)
        .env("SVC", env!("CARGO_BIN_EXE_svc"))
        .env("DESTDIR", scratch.path().join("stage"))
        .env("PREFIX", "/opt/site")
        .env_remove("SVC_PHP_CONFIG")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = scratch.path().join("elsewhere");
    std::fs::rename(scratch.path().join("stage/opt/site"), &tree).unwrap();
    std::fs::remove_dir_all(scratch.path().join("stage")).unwrap();
    open_to_all(scratch.path());
    (scratch, tree)
}

pub(crate) fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The same command, run by a user without rights if this one may become another.
fn by_nobody(command: &Command) -> Command {
    let mut other = Command::new("/usr/bin/env");
    if rustix::process::geteuid().is_root() {
        other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    other.arg(command.get_program()).args(command.get_args()).env_clear();
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other
}

const PAGE: &str = "<?php echo json_encode([
    'ini' => php_ini_loaded_file(),
    'scanned' => php_ini_scanned_files(),
    'extensions' => ini_get('extension_dir'),
    'opcache' => extension_loaded('Zend OPcache'),
    'sum' => bcadd('1', '2'),
    'word' => mb_strtoupper('ä'),
    'lent' => [getenv('PHPRC'), getenv('PHP_INI_SCAN_DIR'), getenv('PHP_EXTENSION_DIR')],
]);";

#[test]
fn a_moved_tree_serves_a_user_who_can_read_nothing_else() {
    let (_scratch, tree) = moved_tree();
    let root = support::written(&[("index.php", PAGE)]);
    open_to_all(root.path());
    let plain = support::command(root.path(), &[("HOME", "/root")]);
    let mut command = Command::new(tree.join("bin/svc"));
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut svc = Svc::spawn(root, by_nobody(&command));
    let page: Value = serde_json::from_str(&svc.get("/").text()).unwrap();
    let home = tree.join("lib/svc");
    assert_eq!(page["ini"], home.join("etc/php.ini").to_str().unwrap());
    let scanned = page["scanned"].as_str().unwrap();
    assert!(scanned.contains(home.join("etc/conf.d/00-extension-dir.ini").to_str().unwrap()), "{scanned}");
    assert_eq!(page["extensions"], home.join("extensions").to_str().unwrap());
    assert_eq!((&page["opcache"], &page["sum"], &page["word"]), (&true.into(), &"3".into(), &"Ä".into()));
    // Variables of the start are nothing for scripts and their programs.
    assert_eq!(page["lent"], serde_json::json!([false, false, false]));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", svc.pid().as_raw_nonzero())).unwrap();
    let php: Vec<_> = maps.lines().filter(|line| line.ends_with("/libphp.so")).collect();
    assert!(!php.is_empty() && php.iter().all(|line| line.contains(home.to_str().unwrap())), "{php:#?}");
    svc.stop();
}

#[test]
fn the_php_of_the_command_line_finds_its_extensions_there() {
    let (_scratch, tree) = moved_tree();
    let home = tree.join("lib/svc");
    let mut command = Command::new(home.join("bin/php"));
    command
        .args(["-r", "echo PHP_BINARY, ' ', php_ini_loaded_file(), ' ', extension_loaded('Zend OPcache');"])
        .env("PHPRC", home.join("etc"))
        .env("PHP_INI_SCAN_DIR", home.join("etc/conf.d"))
        .env("PHP_EXTENSION_DIR", home.join("extensions"));
    let output = by_nobody(&command).output().unwrap();
    let expected = format!("{0}/bin/php {0}/etc/php.ini 1", home.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nothing_points_to_the_machine_that_built_it() {
    let (_scratch, tree) = moved_tree();
    let strange = ["/.cache/", "/.cargo/", env!("CARGO_MANIFEST_DIR")];
    let mut search = Command::new("grep");
    search.args(["-raoE", "--"]).arg(format!(".{{0,40}}({}).{{0,40}}", strange.join("|"))).arg(&tree);
    let found = search.output().unwrap();
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    let output = Command::new("readelf").arg("-d").arg(tree.join("bin/svc")).output().unwrap();
    let dynamic = String::from_utf8(output.stdout).unwrap();
    assert!(dynamic.contains("Library runpath: [$ORIGIN/../lib/svc]"), "{dynamic}");
    assert!(tree.join("lib/svc/plugins").is_dir());
}

#[test]
fn only_root_can_run_it_as_somebody_else() {
    let (_scratch, tree) = moved_tree();
    let mut command = Command::new(tree.join("bin/svc"));
    command.arg("serve").envs([("DOCUMENT_ROOT", "/"), ("RUN_AS", "nobody"), ("LISTEN_ADDR", "127.0.0.1:0")]);
    let output = by_nobody(&command).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("RUN_AS: \"nobody\" cannot be used (only root can become another user)"), "{said}");
}
