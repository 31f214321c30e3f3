//! `--watch`: the server reloads code as soon as it changes.

use std::fs;
use std::path::PathBuf;

#[cfg(feature = "worker")]
use svc_testing::client::eventually;
use svc_testing::{Svc, command};

const WORKER: &str =
    "<?php require __DIR__ . '/../src/answer.php'; Svc\\Worker::serve(function () { echo answer(); });";

/// Starts a server on the public folder of a project, with these arguments.
fn start(words: &[&str]) -> (Svc, PathBuf) {
    start_with(words, &answer("one"))
}

fn start_with(words: &[&str], code: &str) -> (Svc, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let project = root.path().to_owned();
    for (name, text) in [("composer.json", "{}"), ("public/worker.php", WORKER), ("src/answer.php", code)] {
        fs::create_dir_all(project.join(name).parent().unwrap()).unwrap();
        fs::write(project.join(name), text).unwrap();
    }
    fs::write(project.join("public/page.php"), "<?php echo 'one';").unwrap();
    let public = project.join("public");
    let mut command = command(&public, &[]);
    command.args(["serve", "--watch"]).args(words);
    (Svc::spawn(root, command), project)
}

fn answer(text: &str) -> String {
    format!("<?php function answer() {{ return '{text}'; }}")
}

/// Writes a file the way editors do: a new file replaces it by name.
#[cfg(feature = "worker")]
fn save(path: &std::path::Path, text: &str) {
    let other = path.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(other, path).unwrap();
}

#[cfg(feature = "worker")]
#[test]
fn workers_boot_anew_when_code_changes() {
    let (svc, project) = start(&["--worker", "worker.php"]);
    assert_eq!(svc.log().expect("code is watched for changes")["fields"]["directories"], 3);
    assert_eq!(svc.get("/").text(), "one");
    fs::write(project.join("src/answer.php"), answer("two")).unwrap();
    eventually("the written code runs", || svc.get("/").text() == "two");
    save(&project.join("src/answer.php"), &answer("three"));
    eventually("the renamed code runs", || svc.get("/").text() == "three");
    // Code in a folder that did not exist before.
    fs::create_dir_all(project.join("lib/deep")).unwrap();
    fs::write(project.join("lib/deep/more.php"), answer("four")).unwrap();
    fs::write(project.join("src/answer.php"), "<?php require __DIR__ . '/../lib/deep/more.php';").unwrap();
    eventually("code of a new folder runs", || svc.get("/").text() == "four");
    save(&project.join("lib/deep/more.php"), &answer("five"));
    eventually("a new folder is watched", || svc.get("/").text() == "five");
}

#[cfg(feature = "worker")]
#[test]
fn code_that_does_not_boot_is_not_taken_over() {
    let (svc, project) = start(&["--worker", "worker.php", "--workers", "1"]);
    svc.log().expect("code is watched for changes");
    assert_eq!(svc.get("/").text(), "one");
    fs::write(project.join("src/answer.php"), "<?php broken(").unwrap();
    svc.log().expect("rolling restart of PHP workers stopped: a new worker failed to boot, and the remaining old workers keep running");
    assert_eq!(svc.get("/").text(), "one");
    fs::write(project.join("src/answer.php"), answer("two")).unwrap();
    eventually("the mended code runs", || svc.get("/").text() == "two");
}

#[cfg(feature = "worker")]
#[test]
fn code_that_did_not_boot_is_tried_again_once_it_is_mended() {
    let (svc, project) = start_with(&["--worker", "worker.php"], "<?php broken(");
    let pause = || {
        let failures = svc.log().of("svc");
        failures.iter().rev().find_map(|record| record["fields"]["retry_ms"].as_u64()).unwrap_or(0)
    };
    eventually("the pauses are long", || pause() >= 3_200);
    let due = pause();
    fs::write(project.join("src/answer.php"), answer("mended")).unwrap();
    eventually("the mended code runs", || svc.get("/").text() == "mended");
    assert_eq!(pause(), due, "without a wait for the next attempt");
}

#[test]
fn in_classic_mode_each_request_sees_the_code_as_it_is() {
    let (svc, project) = start(&[]);
    svc.log().expect("code need not be watched: each request checks whether its scripts have changed");
    assert_eq!(svc.get("/page.php").text(), "one");
    fs::write(project.join("public/page.php"), "<?php echo 'other';").unwrap();
    assert_eq!(svc.get("/page.php").text(), "other");
}
