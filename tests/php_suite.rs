//! PHP's own tests through the real binary: what fails has to be exactly what the page on conformance lists.
#![cfg(feature = "php")]

use std::process::{Command, Output, Stdio};

/// Runs suites of `scripts/phpt.sh` with these options against the binary under test.
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
