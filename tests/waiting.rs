//! The foundation of the other tests: they leave the processor to the server while they wait, and report skipped checks.

use std::process::Command;

use crate::support::client::eventually;
use crate::support::descriptors::limited_to;
use crate::support::skip::skipped;

/// Returns how often this thread has given up the processor because it was idle.
fn rests() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn who_waits_rests_between_looks() {
    const LOOKS: u64 = 50;
    let (before, mut looks) = (rests(), 0);
    eventually("enough looks", || {
        looks += 1;
        looks == LOOKS
    });
    let rested = rests() - before;
    // A thread that oversleeps does not rest.
    assert!(rested >= LOOKS / 2, "{rested} rests in {LOOKS} looks");
}

#[test]
fn nothing_is_skipped_where_nothing_may_be() {
    let this = std::env::current_exe().unwrap();
    let below = module_path!().split_once("::").map_or(String::new(), |(_, path)| format!("{path}::"));
    let name = below + "something_is_skipped";
    let outcome = |value: &str| {
        let mut command = Command::new(&this);
        command.args(["--exact", "--ignored", "--nocapture", &name]).env("SVC_NO_SKIP", value);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("running 1 test"), "{said}");
        output.status.success()
    };
    assert!(outcome(""), "said aloud, and no fault");
    assert!(!outcome("1"));
}

#[test]
#[ignore = "nothing_is_skipped_where_nothing_may_be runs it"]
fn something_is_skipped() {
    skipped("this is a test");
}

#[test]
fn a_limit_of_descriptors_is_what_a_test_asks_for() {
    let output =
        limited_to(77, Command::new("/bin/sh").args(["-c", "ulimit -n; ulimit -Hn"])).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "77\n77\n");
}
