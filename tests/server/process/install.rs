//! The result of `make install` works elsewhere: moved, and run by a user who can read no other files.
#![cfg(feature = "php")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use svc_testing::Svc;

/// Returns the script that installs the tests' binary below `prefix` of a scratch root.
fn installer(root: &Path, prefix: &str) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/install.sh"));
    command.env("SVC", env!("CARGO_BIN_EXE_svc")).env("DESTDIR", root).env("PREFIX", prefix);
    // Root installs a build of another user.
    command.env("HOME", "/nonexistent").env_remove("SVC_PHP_CONFIG").env_remove("XDG_CACHE_HOME");
    command
}

#[track_caller]
fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Installs the tests' binary below `/opt/site` of a scratch root, and moves that to another folder.
fn moved_tree() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    succeeds(&mut installer(&scratch.path().join("stage"), "/opt/site"));
    let tree = scratch.path().join("elsewhere");
    std::fs::rename(scratch.path().join("stage/opt/site"), &tree).unwrap();
    std::fs::remove_dir_all(scratch.path().join("stage")).unwrap();
    open_to_all(scratch.path());
    (scratch, tree)
}

pub(crate) fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the same command, run as the user `nobody` if this process may switch users.
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
fn a_moved_tree_serves_a_user_without_other_rights() {
    let (_scratch, tree) = moved_tree();
    let root = svc_testing::written(&[("index.php", PAGE)]);
    open_to_all(root.path());
    let plain = svc_testing::command(root.path(), &[("HOME", "/root")]);
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
    // Variables of the start do not reach scripts and their programs.
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
    // The pages name the folders of the build.
    search
        .args(["-raoE", "--exclude-dir=doc", "--"])
        .arg(format!(".{{0,40}}({}).{{0,40}}", strange.join("|")))
        .arg(&tree);
    let found = search.output().unwrap();
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    let output = Command::new("readelf").arg("-d").arg(tree.join("bin/svc")).output().unwrap();
    let dynamic = String::from_utf8(output.stdout).unwrap();
    assert!(dynamic.contains("Library runpath: [$ORIGIN/../lib/svc]"), "{dynamic}");
    assert!(tree.join("lib/svc/plugins").is_dir());
    let manual = std::fs::read_to_string(tree.join("share/man/man1/svc.1")).unwrap();
    assert!(manual.starts_with(".TH SVC 1 ") && manual.contains("MAX_CONNECTIONS"), "{manual}");
    for (name, part) in [
        ("svc/prometheus/alerts.yml", "SvcShedding"),
        ("svc/grafana/svc.json", "svc_requests_total"),
        ("svc/stubs/svc.php", "namespace Svc"),
        ("svc/plugin/lib.rs", "pub trait Plugin"),
        ("doc/svc/README.md", "docs/settings.md"),
        ("doc/svc/docs/settings.md", "MAX_CONNECTIONS"),
    ] {
        let text = std::fs::read_to_string(tree.join("share").join(name)).unwrap();
        assert!(text.contains(part), "{name}: {part}");
    }
    for completions in
        ["bash-completion/completions/svc", "zsh/site-functions/_svc", "fish/vendor_completions.d/svc.fish"]
    {
        let text = std::fs::read_to_string(tree.join("share").join(completions)).unwrap();
        assert!(text.contains("healthcheck"), "{text}");
    }
}

/// The pages link to each other and to pictures; links to files that are not installed lead to the sources.
#[test]
fn the_installed_pages_refer_to_installed_ones() {
    let (_scratch, tree) = moved_tree();
    let folder = tree.join("share/doc/svc");
    let pages: Vec<_> = files(&folder).into_iter().filter(|(name, _)| name.ends_with(".md")).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for (page, _) in pages {
        let text = std::fs::read_to_string(folder.join(&page)).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let name = Path::new(target).file_name().unwrap_or_default().to_str().unwrap();
            let is_page = target.starts_with("docs/") || !target.contains('/') && page.starts_with("docs/");
            if is_page && !name.is_empty() && !target.contains(':') {
                let path = folder.join(&page).parent().unwrap().join(target);
                assert!(path.exists(), "{page} refers to {target}");
            }
        }
    }
}

#[test]
fn the_installed_crate_is_separate() {
    let (_scratch, tree) = moved_tree();
    let manifest = tree.join("share/svc/plugin/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    assert!(!text.contains("workspace") && text.contains("edition = \"2024\""), "{text}");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path"])
        .arg(&manifest);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(metadata["packages"][0]["name"], "svc-plugin");
    assert_eq!(metadata["packages"][0]["version"], env!("CARGO_PKG_VERSION"));
}

/// Returns all files below a folder, and their modes.
fn files(folder: &Path) -> Vec<(String, u32)> {
    let mut find = Command::new("find");
    let output = find.arg(folder).args(["!", "-type", "d", "-printf", "%P %m\\n"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut files: Vec<_> = text
        .lines()
        .map(|line| {
            let (path, mode) = line.rsplit_once(' ').unwrap();
            (path.to_owned(), u32::from_str_radix(mode, 8).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn strange_circumstances_are_none() {
    let scratch = tempfile::tempdir().unwrap();
    let prefix = "/opt/our & their|sites/ä";
    let tree = scratch.path().join("stage").join(prefix.trim_start_matches('/'));
    let private = || {
        let mut shell = Command::new("/bin/sh");
        let plain = installer(Path::new("stage"), prefix);
        shell.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(plain.get_program());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.current_dir(scratch.path());
        shell
    };
    succeeds(&mut private());
    for (path, mode) in files(&tree) {
        assert_eq!(mode & 0o044, 0o044, "{path} is not readable by others");
    }
    open_to_all(scratch.path());
    let mut command = Command::new(tree.join("bin/svc"));
    let facts = "echo ini_get('extension_dir'), ' ', extension_loaded('Zend OPcache'), ' ', ini_get('session.save_path');";
    command.args(["php", "-r", facts]).env("PHP_SESSION_DIR", "/var/lib/site");
    let output = by_nobody(&command).output().unwrap();
    let expected = format!("{}/lib/svc/extensions 1 /var/lib/site", tree.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    // The next installation removes an extension that this build no longer has; foreign extensions stay.
    let home = tree.join("lib/svc");
    for name in ["dropped.so", "redis.so"] {
        std::fs::write(home.join("extensions").join(name), "").unwrap();
    }
    let list = home.join("installed-files");
    let installed = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, format!("lib/svc/extensions/dropped.so\n{installed}")).unwrap();
    std::fs::write(home.join("etc/php.ini"), "precision=5\n").unwrap();
    succeeds(&mut private());
    assert_eq!(std::fs::read_to_string(&list).unwrap(), installed);
    let left =
        |files: &[&str]| files.iter().map(|name| (format!("lib/svc/{name}"), 0o644)).collect::<Vec<_>>();
    succeeds(private().arg("--remove"));
    assert_eq!(files(&tree), left(&["etc/php.ini", "extensions/redis.so"]));
    let again = private().arg("--remove").output().unwrap();
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(said.starts_with("install: nothing was installed in "), "{said}");
}

#[test]
fn a_place_that_cannot_be_used_is_said_before_anything_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    for (root, prefix, why) in [
        (scratch.path(), "opt/site", "PREFIX=opt/site is not an absolute path"),
        (scratch.path(), "/opt/a:b", "PREFIX=/opt/a:b has a character that PHP's ini files cannot have"),
        (Path::new("/proc"), "/opt/site", "/proc/opt/site cannot be written by "),
    ] {
        let output = installer(root, prefix).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.starts_with(&format!("install: {why}")), "{said}");
    }
    assert_eq!(files(scratch.path()), []);
}

#[test]
fn a_php_in_lib64_is_installed_like_any_other() {
    let scratch = tempfile::tempdir().unwrap();
    let binary = std::fs::read(env!("CARGO_BIN_EXE_svc")).unwrap();
    let origin = b"$ORIGIN/../lib/svc:";
    let place = binary.windows(origin.len()).position(|bytes| bytes == origin).unwrap() + origin.len();
    let end = place + binary[place..].iter().position(|byte| *byte == 0).unwrap();
    let libraries = std::str::from_utf8(&binary[place..end]).unwrap();
    let php = Path::new(libraries).parent().unwrap();
    let other = tempfile::Builder::new().prefix("p").rand_bytes(3).tempdir().unwrap();
    let elsewhere = format!("{}/lib64", other.path().display());
    if elsewhere.len() > libraries.len() {
        return svc_testing::skip::skipped("the path of PHP is too short to be replaced");
    }
    std::os::unix::fs::symlink(libraries, &elsewhere).unwrap();
    std::os::unix::fs::symlink(php.join("bin"), other.path().join("bin")).unwrap();
    let mut changed = binary.clone();
    let slashes = "/".repeat(libraries.len() - elsewhere.len());
    let path = format!("{}{slashes}/lib64", other.path().display());
    changed[place..end].copy_from_slice(path.as_bytes());
    let svc = scratch.path().join("svc");
    std::fs::write(&svc, changed).unwrap();
    std::fs::set_permissions(&svc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let stage = scratch.path().join("stage");
    succeeds(installer(&stage, "/usr").env("SVC", &svc));
    let output = Command::new(stage.join("usr/bin/svc")).arg("version").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn only_root_can_run_it_as_another_user() {
    let (_scratch, tree) = moved_tree();
    let mut command = Command::new(tree.join("bin/svc"));
    command.arg("serve").envs([("DOCUMENT_ROOT", "/"), ("RUN_AS", "nobody"), ("LISTEN_ADDR", "127.0.0.1:0")]);
    let output = by_nobody(&command).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("RUN_AS: \"nobody\" cannot be used (only root can become another user)"), "{said}");
}

#[test]
fn directives_that_the_user_may_not_read_stop_the_start() {
    let (_scratch, tree) = moved_tree();
    let home = tree.join("lib/svc");
    let root = svc_testing::written(&[]);
    open_to_all(root.path());
    for (path, mode) in [("etc/php.ini", 0o644), ("etc/conf.d/10-opcache.ini", 0o644), ("etc/conf.d", 0o755)]
    {
        let path = home.join(path);
        let change = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        // It is part of some versions of PHP.
        if !path.exists() {
            continue;
        }
        change(0);
        for word in ["serve", "check"] {
            let mut command = Command::new(tree.join("bin/svc"));
            command.arg(word).envs([("LISTEN_ADDR", "127.0.0.1:0"), ("INTERNAL_ADDR", "127.0.0.1:0")]);
            let output = by_nobody(command.env("DOCUMENT_ROOT", root.path())).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(&format!("{path:?} cannot be read: Permission denied")), "{said}");
        }
        change(mode);
    }
}
