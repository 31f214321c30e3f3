//! The descriptors that a program inherits: 0 to 2, those that `proc_open()` passes, and none of any request, not even
//! of its own.

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const PROGRAMS: &str = include_str!("../../php/programs.php");
const SCRIPT: &str = include_str!("../../php/inherited_descriptors.php");

/// Acts on a server in each mode of this build, with two threads.
fn in_each_mode(act: impl Fn(&Svc, &str)) {
    let worker = ("WORKER_MODE_ENABLED", "true");
    let entry = ("ENTRY_FILE", "script.php");
    let modes: &[(&str, &[_])] = if cfg!(feature = "worker") {
        &[
            ("classic", &[]),
            ("worker", &[worker, entry]),
            ("hooks", &[worker, entry, ("RUNTIME_HOOKS", "all")]),
        ]
    } else {
        &[("classic", &[])]
    };
    for (mode, settings) in modes {
        let settings = [*settings, &[("PHP_WORKERS", "2")]].concat();
        let files = [("programs.php", PROGRAMS), ("script.php", SCRIPT)];
        act(&Svc::start_with(&files, &settings, &["sendmail_path=sh"]), mode);
    }
}

/// Returns a client whose request holds a descriptor of each kind until the file `go` exists.
fn holder(svc: &Svc) -> Client {
    let mut client = svc.client();
    client.send("GET /script.php?act=hold HTTP/1.1\r\nHost: test\r\n\r\n");
    eventually("its descriptors are open", || svc.root().join("inside").exists());
    client
}

/// Returns the numbers in the output of `ls -l /proc/self/fd`, without the directory that `ls` itself reads.
fn numbers(listing: &str) -> Vec<u32> {
    let rows = listing.lines().filter_map(|line| line.split_once(" -> "));
    let rows = rows.filter(|(_, target)| !(target.starts_with("/proc/") && target.ends_with("/fd")));
    rows.map(|(row, _)| row.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn no_descriptor_of_a_request_is_inherited() {
    in_each_mode(|svc, mode| {
        let mut holds = holder(svc);
        let listings: serde_json::Value =
            serde_json::from_str(&svc.get("/script.php?act=look").text()).unwrap();
        let listings = listings.as_object().unwrap();
        assert_eq!(listings.len(), 8, "{mode}");
        for (way, listing) in listings {
            let listing = listing.as_str().unwrap();
            assert_eq!(numbers(listing), [0, 1, 2], "{mode}, {way}: {listing}");
            // mail() writes the message to its program.
            assert_eq!(listing.contains(" 0 -> /dev/null"), way != "mail", "{mode}, {way}: {listing}");
        }
        std::fs::write(svc.root().join("go"), "").unwrap();
        let kinds = holds.response().text();
        assert!(kinds.parse::<usize>().unwrap() >= 12, "{mode}: {kinds}");
    });
}

#[test]
fn a_child_that_becomes_a_program_keeps_no_descriptor() {
    in_each_mode(|svc, mode| {
        let mut holds = holder(svc);
        let listing = svc.get("/script.php?act=replace").text();
        assert_eq!(numbers(&listing), [0, 1, 2], "{mode}: {listing}");
        std::fs::write(svc.root().join("go"), "").unwrap();
        assert_eq!(holds.response().status, 200);
    });
}

#[test]
fn numbers_that_no_descriptor_can_have_are_refused() {
    in_each_mode(|svc, mode| {
        assert_eq!(svc.get("/script.php?act=far").text(), "[true,false,false]", "{mode}");
    });
}

#[test]
fn a_program_does_not_keep_the_lock_of_a_request() {
    in_each_mode(|svc, mode| {
        let mut holds = holder(svc);
        assert_eq!(svc.get("/script.php?act=lock").text(), "held", "{mode}");
        assert_eq!(svc.get("/script.php?act=start").text(), "started", "{mode}");
        std::fs::write(svc.root().join("go"), "").unwrap();
        assert_eq!(holds.response().status, 200);
        // The response may be here before the request has closed its files.
        eventually("the lock is free", || svc.get("/script.php?act=lock").text() == "free");
        assert!(!svc.root().join("ended").exists(), "{mode}: the program runs");
        std::fs::write(svc.root().join("end"), "").unwrap();
        eventually("the program ends", || svc.root().join("ended").exists());
    });
}

#[test]
fn proc_open_passes_what_it_names() {
    in_each_mode(|svc, mode| {
        for kind in ["pipe", "socket", "file", "stream", "redirect", "null", "terminal", "same"] {
            let text = svc.get(&format!("/script.php?act=pass&kind={kind}")).text();
            let (said, listing) = text.split_once('|').unwrap_or_else(|| panic!("{mode}, {kind}: {text}"));
            let expected = if ["null", "terminal"].contains(&kind) { "" } else { "passed" };
            assert_eq!(said, expected, "{mode}, {kind}");
            let numbers = numbers(listing);
            assert_eq!(numbers.len(), 5, "{mode}, {kind}: {listing}");
            assert_eq!(numbers[..3], [0, 1, 2], "{mode}, {kind}: {listing}");
        }
    });
}
