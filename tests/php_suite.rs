//! PHP's own tests through the real binary: the failures must be exactly those that the page on conformance lists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs suites of `scripts/phpt.sh` with these options against the tests' binary.
fn run(options: &[&str]) -> Output {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/phpt.sh"))
        .args(options)
        .env("SVC", env!("CARGO_BIN_EXE_svc"))
        .env("SKIP_PERF_SENSITIVE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn passes(options: &[&str]) {
    let output = run(options);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}

#[test]
fn the_tests_of_the_development_server_pass() {
    passes(&["--suite=server"]);
}

#[test]
fn the_tests_with_web_sections_pass() {
    passes(&["--suite=web"]);
}

#[test]
fn the_same_tests_pass_through_fastcgi() {
    passes(&["--suite=server,web", "--server=fastcgi"]);
}

#[test]
fn language_tests_in_random_order_do_not_disturb_each_other() {
    passes(&["--suite=scripts", "--seconds=20", "--seed=4711"]);
}

#[test]
fn a_suite_that_runs_no_test_does_not_pass() {
    for suite in ["server", "web", "scripts"] {
        let output = run(&[&format!("--suite={suite}"), "--filter=there-is-no-such-test"]);
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = format!("unexpected: failed: {suite} (not one of its tests was run)");
        assert!(!output.status.success() && said.contains(&expected), "{said}");
    }
}

/// Returns the sources of the PHP in the tests' binary.
fn sources() -> PathBuf {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/php-zts.sh"))
        .arg("--source")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

/// Adds the `.c` files below `folder` whose text `matches`, by their paths below `root`.
fn add_matching(root: &Path, folder: &Path, matches: &dyn Fn(&str) -> bool, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_matching(root, &path, matches, found);
        } else if path.extension().is_some_and(|extension| extension == "c")
            && matches(&String::from_utf8_lossy(&fs::read(&path).unwrap()))
        {
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn each_file_of_php_that_marks_values_is_known() {
    let marks = |text: &str| {
        ["PROTECT_RECURSION", "nApplyCount++", "SPL_HEAP_WRITE_LOCKED"].iter().any(|mark| text.contains(mark))
    };
    let root = sources();
    let mut found = BTreeSet::new();
    for folder in ["Zend", "ext", "main"] {
        add_matching(&root, &root.join(folder), &marks, &mut found);
    }
    let list = include_str!("../c/worker/engine/marking.c");
    let known: BTreeSet<String> = list
        .split(|it: char| it.is_whitespace() || "(,:)".contains(it))
        .filter(|word| (word.starts_with("Zend/") || word.starts_with("ext/")) && word.ends_with(".c"))
        .map(str::to_owned)
        .collect();
    assert_eq!(found, known);
}
