//! Requests see no state of other requests: neither of earlier ones on their thread nor of concurrent ones on another
//! thread.

use std::path::Path;

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const DIRTY: &str = include_str!("../../php/dirty.php");
const LOOK: &str = include_str!("../../php/look.php");
const CHILDREN: &str = include_str!("../../php/children.php");

fn start(workers: &str) -> Svc {
    let files = [("dirty.php", DIRTY), ("sub/look.php", LOOK), ("children.php", CHILDREN)];
    let svc = Svc::start_with(&files, &[("PHP_WORKERS", workers)], &["zend.assertions=1"]);
    // The first look loads its file, which is not part of the comparison.
    let _ = svc.get("/sub/look.php");
    svc
}

/// Starts a request that changes everything, and stays inside it until the file `leave` appears.
fn enter(svc: &Svc, name: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /dirty.php?stay={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("the dirty request is inside", || svc.root().join(format!("inside-{name}")).exists());
    client
}

fn leave(root: &Path, name: &str) {
    std::fs::write(root.join(format!("go-{name}")), "").unwrap();
}

fn look(svc: &Svc) -> String {
    let response = svc.get("/sub/look.php");
    assert_eq!(response.status, 200, "{}", response.text());
    response.text()
}

#[test]
fn nothing_stays_on_the_thread() {
    let svc = start("1");
    let clean = look(&svc);
    assert!(clean.contains("\"precision\":\"14\"") && clean.contains("\"SVC_TEST\":false"), "{clean}");
    for end in
        ["", "?end=exit", "?end=exception", "?end=fatal", "?end=memory", "?end=recursion", "?end=buffers"]
    {
        let response = svc.get(&format!("/dirty.php{end}"));
        assert_eq!(
            response.status,
            if ["", "?end=exit", "?end=buffers"].contains(&end) { 200 } else { 500 },
            "{end}"
        );
        assert_eq!(look(&svc), clean, "after {end:?}");
    }
}

#[test]
fn nothing_is_seen_on_another_thread() {
    let svc = start("2");
    let clean = look(&svc);
    let mut dirty = enter(&svc, "a");
    // One of two threads runs the dirty request: the other one answers these.
    for _ in 0..3 {
        assert_eq!(look(&svc), clean);
    }
    leave(svc.root(), "a");
    let response = dirty.response();
    assert_eq!(response.status, 200);
    assert_eq!(response.text(), "still dirty", "the other requests cleaned up behind the wrong one's back");
    for _ in 0..4 {
        assert_eq!(look(&svc), clean);
    }
}

#[test]
fn two_requests_keep_what_each_has_set() {
    let svc = start("2");
    let (mut first, mut second) = (enter(&svc, "a"), enter(&svc, "b"));
    leave(svc.root(), "b");
    assert_eq!(second.response().text(), "still dirty");
    leave(svc.root(), "a");
    assert_eq!(first.response().text(), "still dirty");
}

#[test]
fn programs_get_the_environment_of_their_request() {
    let svc = start("2");
    let plain = svc.get("/children.php").text();
    assert_eq!(plain, "shell_exec: proc_open: exec: popen: passthru: system: list: ");
    let set = svc.get("/children.php?set=it's").text();
    assert_eq!(
        set,
        "shell_exec:it's proc_open:it's exec:it's popen:it's passthru:it's system:it's list:it's "
    );
    let mut dirty = enter(&svc, "a");
    assert_eq!(svc.get("/children.php").text(), plain, "another thread's putenv() is seen");
    assert_eq!(svc.get("/children.php?set=b").text(), set.replace("it's", "b"));
    leave(svc.root(), "a");
    assert_eq!(dirty.response().text(), "still dirty");
}

#[test]
fn programs_can_be_ended_by_signals() {
    let svc = start("1");
    // The bits of SIGHUP, SIGINT, SIGQUIT and SIGTERM, which svc itself blocks.
    const CONTROL: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14;
    let mask = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let digits = line.unwrap_or_else(|| panic!("no {name} in {status}")).trim();
        u64::from_str_radix(digits, 16).unwrap() & CONTROL
    };
    // svc may have inherited ignored signals, as from a shell that starts it in the background.
    let inherited = mask(&std::fs::read_to_string("/proc/self/status").unwrap(), "SigIgn:");
    for how in ["proc_open", "proc_open_shell", "shell_exec", "popen"] {
        let status = svc.get(&format!("/children.php?status={how}")).text();
        assert_eq!(mask(&status, "SigBlk:"), 0, "{how}: blocked signals");
        assert_eq!(mask(&status, "SigIgn:"), inherited, "{how}: ignored signals");
    }
    assert_eq!(svc.get("/children.php?terminate").text(), "15", "proc_terminate() works");
}

#[test]
fn the_error_level_outlasts_a_function_that_a_fatal_error_has_left() {
    // highlight_string() lowers the level without its directive.
    let code = "<?php if (isset($_GET['fail'])) { ob_start(fn () => str_repeat('x', 1 << 40), 1); \
                highlight_string('<?php echo 1;'); } echo error_reporting();";
    let svc = Svc::start_with(&[("index.php", code)], &[("PHP_WORKERS", "1")], &["error_reporting=22527"]);
    assert_eq!(svc.get("/").text(), "22527");
    assert_eq!(svc.get("/?fail").status, 500);
    assert_eq!(svc.get("/").text(), "22527");
}
