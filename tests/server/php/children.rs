//! Requests that fork: from then on the child is a separate process, and its parent is not affected.

use std::cell::Cell;
use std::path::Path;

use svc_testing::client::eventually;
use svc_testing::{Svc, c};
use tempfile::TempDir;

const CLASSIC: &str = "<?php require 'children.inc.php'; handle();";
const WORKER: &str = "<?php require 'children.inc.php'; Svc\\Worker::serve(handle(...));";
const FRANKEN: &str =
    "<?php require 'children.inc.php'; while (frankenphp_handle_request(handle(...))) { note('loop'); }";

/// The modes of this build.
const MODES: &[(&str, &[(&str, &str)])] = &[
    ("/classic.php", &[("PHP_WORKERS", "1")]),
    #[cfg(feature = "worker")]
    ("/x", &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")]),
    #[cfg(feature = "worker")]
    ("/x", &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "franken.php")]),
];

struct Forker {
    svc: Svc,
    path: &'static str,
    /// How many bytes of the notes were read.
    noted: Cell<usize>,
    _extension: TempDir,
}

impl Forker {
    fn start(mode: usize) -> Self {
        Self::start_with(mode, &[])
    }

    fn start_with(mode: usize, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("processes.so");
        c::extension(include_str!("../../php/processes.c"), &library);
        let files = [
            ("children.inc.php", include_str!("../../php/children.inc.php")),
            ("classic.php", CLASSIC),
            ("worker.php", WORKER),
            ("franken.php", FRANKEN),
            ("broken.php", "<?php class A extends B { function"),
            ("included.php", "<?php abstract class C {} final class D extends C {} return D::class;"),
        ];
        let (path, settings) = MODES[mode];
        let extension = format!("extension={}", library.display());
        let svc = Svc::start_with(&[&files, more].concat(), settings, &[&extension, "output_buffering=4096"]);
        Self { svc, path, noted: Cell::new(0), _extension: folder }
    }

    /// Has a request fork such a child; returns the status that its parent has seen.
    fn fork(&self, how: &str) -> i32 {
        let mut client = self.svc.client();
        let response = client.get(&format!("{}?fork={how}", self.path));
        let text = response.text();
        assert_eq!(response.status, 200, "{how}: {text}");
        assert_eq!((response.field("x-parent"), response.field("x-child")), (Some("1"), None), "{how}");
        let reply = text.trim_end_matches('.');
        assert_eq!(text.len(), reply.len() + 100_000, "{how}");
        let status = reply.strip_prefix("before after ").unwrap_or_else(|| panic!("{how}: {reply}"));
        // On the same connection: the parent's response was complete.
        assert_eq!(client.get(self.path).text(), "plain", "{how}");
        status.parse().unwrap()
    }

    /// Returns the new notes since the last call, sorted.
    fn notes(&self) -> Vec<String> {
        // A line that is still being written has no end; the next call reads it.
        let all = std::fs::read_to_string(self.svc.root().join("notes")).unwrap_or_default();
        let end = all.rfind('\n').map_or(0, |at| at + 1);
        let new = &all[self.noted.replace(end)..end];
        let mut notes: Vec<_> =
            new.lines().filter(|note| !note.ends_with(" loop")).map(str::to_owned).collect();
        notes.sort();
        notes
    }
}

/// Returns the notes that both write at their end.
fn ends(more: &[&str]) -> Vec<String> {
    let ends = ["child destructor", "child shutdown", "parent destructor", "parent shutdown"];
    let mut all: Vec<_> = ends.iter().chain(more).map(|&note| note.to_owned()).collect();
    all.sort();
    all
}

#[test]
fn a_child_ends_as_a_separate_script() {
    for mode in 0..MODES.len() {
        let forker = Forker::start(mode);
        for (how, status) in [("return", 0), ("exit", 3), ("exception", 255), ("compiler", 255)] {
            assert_eq!(forker.fork(how), status, "{how} in mode {mode}");
            assert_eq!(forker.notes(), ends(&[]), "{how} in mode {mode}");
        }
        for (how, status) in [("fatal", 255), ("memory", 255), ("limit", 255)] {
            assert_eq!(forker.fork(how), status, "{how} in mode {mode}");
            // As in any PHP: nothing is destructed after a fatal error in classic mode.
            let notes = forker.notes();
            assert!(notes.contains(&"child shutdown".to_owned()), "{how} in mode {mode}: {notes:?}");
            assert!(notes.contains(&"parent destructor".to_owned()), "{how} in mode {mode}: {notes:?}");
        }
    }
}

#[test]
fn a_child_has_no_client_and_no_server() {
    for mode in 0..MODES.len() {
        let mut forker = Forker::start(mode);
        assert_eq!(forker.fork("finish"), 4);
        assert_eq!(forker.notes(), ends(&["child [true,false,0,true]"]), "mode {mode}");
        assert_eq!(forker.fork("include"), 5);
        assert_eq!(forker.notes(), ends(&["child D"]), "mode {mode}");
        assert_eq!(forker.fork("again"), 8);
        assert_eq!(forker.notes().len(), 6, "mode {mode}");
        assert_eq!(forker.fork("fiber"), 11);
        // The log's thread exists only in the parent.
        let log = forker.svc.whole_log();
        assert!(log.find("svc is ready").is_some());
        let php = log.of("php");
        assert!(php.iter().all(|record| !record.to_string().contains("of the child")), "{php:?}");
    }
}

#[test]
fn a_child_has_a_separate_environment() {
    for mode in 0..MODES.len() {
        let forker = Forker::start(mode);
        // A program replaces the child, so none of its PHP code runs.
        assert_eq!(forker.fork("environment"), 1);
        let expected = ["child before childbeforechild", "parent destructor", "parent shutdown"];
        assert_eq!(forker.notes(), expected, "mode {mode}");
    }
}

#[cfg(feature = "worker")]
#[test]
fn a_child_of_a_worker_never_serves() {
    for mode in 1..MODES.len() {
        let forker = Forker::start(mode);
        assert_eq!(forker.fork("sleep"), 9, "mode {mode}");
        assert_eq!(forker.notes(), ends(&[]));
        assert_eq!(forker.fork("serve"), 10, "mode {mode}");
        assert_eq!(forker.notes(), ends(&["child throws"]));
    }
}

#[cfg(feature = "worker")]
#[test]
fn a_child_leaves_requests_that_wait_to_its_parent() {
    let forker = Forker::start(1);
    let mut client = forker.svc.client();
    client.send("GET /x?park HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it waits", || forker.svc.root().join("parked").exists());
    for (how, status) in [("exit", 3), ("sleep", 9), ("fatal", 255)] {
        assert_eq!(forker.fork(how), status, "{how}");
    }
    std::fs::write(forker.svc.root().join("unparked"), "").unwrap();
    assert_eq!(client.response().text(), "plain");
}

#[cfg(feature = "worker")]
const BOOTS: &str = "<?php
require 'children.inc.php';
$child = test_fork();
$GLOBALS['role'] = $child === 0 ? 'child' : 'parent';
register_shutdown_function(fn () => note('shutdown'));
Svc\\Worker::serve(function () use ($child) {
    note('serves');
    echo test_wait($child);
});
note('goes on');";

#[cfg(feature = "worker")]
#[test]
fn a_child_of_the_boot_script_ends_where_its_parent_serves() {
    let forker = Forker::start_with(1, &[("worker.php", BOOTS)]);
    assert_eq!(forker.svc.get("/x").text(), "0");
    assert_eq!(forker.notes(), ["child shutdown", "parent serves"]);
}

#[cfg(feature = "worker")]
const BETWEEN: &str = "<?php
require 'children.inc.php';
$map = new WeakMap();
Svc\\Worker::serve(function () use ($map) {
    $map[Svc\\Request::current()] = new class {
        public function __destruct()
        {
            note('forks: ' . @test_fork());
        }
    };
    Svc\\Worker::current()->scheduleExit();
    echo 'done';
});";

#[cfg(feature = "worker")]
#[test]
fn a_child_from_the_end_of_a_request_does_not_serve_either() {
    let forker = Forker::start_with(1, &[("worker.php", BETWEEN)]);
    assert_eq!(forker.svc.get("/x").text(), "done");
    let mut notes = Vec::new();
    eventually("the fiber has ended", || {
        notes.extend(forker.notes());
        !notes.is_empty()
    });
    assert_eq!(forker.svc.get("/x").text(), "done");
    notes.extend(forker.notes());
    // Between requests it is refused; while a request is not over, its end runs in the child.
    for note in notes {
        let child: i32 = note.strip_prefix("alone forks: ").unwrap().parse().unwrap();
        eventually("it has ended", || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            child <= 0 || stat.is_empty() || stat.contains(") Z ")
        });
    }
}

#[test]
fn a_request_can_start_programs_and_not_become_one() {
    let script = r#"<?php
echo json_encode([test_exec('/bin/true', ''), array_map(test_popen(...), ['r', 'w', 're', 'ew', '', 'e', 'rw', 'x', 'r+', 'rb'])]);
"#;
    let forker = Forker::start_with(0, &[("exec.php", script)]);
    // EPERM; then the modes that libc accepts, and those that it refuses (EINVAL).
    assert_eq!(forker.svc.get("/exec.php").text(), "[1,[0,0,0,0,22,22,22,22,22,22]]");
    assert_eq!(forker.svc.get("/exec.php").status, 200);
}

/// Returns the descriptors of a process with their targets.
fn descriptors(pid: &str) -> Vec<(u32, String)> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let numbers = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let look = |number: String| {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok()?;
        Some((number.parse().unwrap(), target.display().to_string()))
    };
    numbers.filter_map(look).collect()
}

#[test]
fn a_child_that_stays_holds_nothing_of_the_server() {
    for mode in 0..MODES.len() {
        let mut forker = Forker::start(mode);
        let mut client = forker.svc.client();
        // A connection without a request.
        let mut idle = forker.svc.client();
        let path = format!("{}?fork=stay&flush", forker.path);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.text().trim_end_matches('.'), "before after ");
        client.expect_end();
        assert_eq!(idle.get(forker.path).text(), "plain");
        eventually("the child is inside", || forker.svc.root().join("inside").exists());
        let pid = std::fs::read_to_string(forker.svc.root().join("child")).unwrap();
        let held = descriptors(&pid);
        assert!(!held.is_empty() && held.iter().all(|(number, _)| *number < 1024), "{held:?}");
        let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let inodes: Vec<_> = connections.lines().filter_map(|line| line.split_whitespace().nth(9)).collect();
        let is_connection = |target: &str| inodes.iter().any(|inode| *target == format!("socket:[{inode}]"));
        assert!(!held.iter().any(|(_, target)| is_connection(target)), "{held:?}");
        // The port is free although the child lives.
        let addr = forker.svc.main();
        forker.svc.stop();
        drop(std::net::TcpListener::bind(addr).unwrap());
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        std::fs::write(forker.svc.root().join("go"), "").unwrap();
        eventually("the child ends", || !Path::new(&format!("/proc/{pid}")).exists());
        assert_eq!(forker.notes(), ends(&[]), "mode {mode}");
    }
}
