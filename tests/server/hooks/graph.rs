//! Compares the decisions about requests that wait for each other with a model that tries all possibilities.

use std::process::Command;

use svc_testing::c;

const WORLDS: u32 = 100_000;

#[test]
fn a_deadlock_is_resolved_by_lending_or_by_refusing_the_youngest() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("graph");
    let shim = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/c");
    let flags = ["-std=gnu11 -O1 -Wall -Wextra -Werror", shim];
    c::compiled(include_str!("../../php/owners_graph.c"), &program, &flags);
    let run = Command::new(&program).args(["1", &WORLDS.to_string()]).output().unwrap();
    let told = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", told.lines().last().unwrap_or_default());
    assert_eq!(told.lines().count(), WORLDS as usize);
}
