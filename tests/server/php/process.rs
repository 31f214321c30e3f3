//! The effects of a request on the process and its thread: those that are refused, those that are undone, and the fate of
//! the processes that it has started.

use std::path::{Path, PathBuf};

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, PLACES, TaskServer, everywhere};
use svc_testing::{Svc, c};
use tempfile::TempDir;

const CODE: &str = r"
function attributes(string $n): array { return [test_priority(), test_processors()]; }
function change(string $n): array { return [test_priority(test_priority() + 3), test_processors(1), @proc_nice(2), test_priority()]; }
function change_and_wait(string $n): array
{
    $change = [test_priority(test_priority() + 3)];
    mark('changed');
    until('go');
    $change[] = test_priority();
    return $change;
}
function change_and_fail(string $n): void { change($n); nothing(); }
function leave(string $n): string
{
    $open = proc_open(['sh', '-c', 'read x; exit 3'], [['pipe', 'r']], $pipes);
    $left = proc_open(['sleep', '0.1'], [], $none);
    $ended = proc_open(['true'], [], $none);
    $piped = popen('sleep 0.1', 'r');
    if (test_fork() === 0) { exit(4); }
    $child = test_fork();
    if ($child === 0) { usleep(100000); exit(5); }
    exec('sleep 0.3 > /dev/null 2>&1 &');
    return 'left';
}
function leave_and_fail(string $n): void { leave($n); nothing(); }
function keep(string $n): string { static $kept; $kept = proc_open(['sh', '-c', 'exit 6'], [], $pipes); $GLOBALS['kept'] = $kept; return 'kept'; }
function close(string $n): int { return proc_close($GLOBALS['kept']); }
function ask(string $n): array { $seen = proc_get_status($GLOBALS['kept']); return [$seen['running'], $seen['exitcode']]; }
function starts(string $n): int
{
    $process = proc_open(['sh', '-c', 'read x; exit 7'], [['pipe', 'r']], $pipes);
    mark('started', (string) proc_get_status($process)['pid']);
    fclose($pipes[0]);
    until('go');
    return proc_close($process);
}
function any(string $n): array { return test_wait_any(0); }
function id(string $n): array { return test_wait_id(); }
function fine(string $n): string { return 'fine'; }
";

fn extension() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("processes.so");
    c::extension(include_str!("../../php/processes.c"), &library);
    (folder, library)
}

fn server(library: &Path) -> TaskServer {
    TaskServer::new(CODE)
        .directive(&format!("extension={}", library.display()))
        .set("PHP_WORKERS", "1")
        .set("ASYNC_WORKERS", "1")
}

/// Returns the children of the server, each with its state.
fn children(svc: &Svc) -> Vec<(u32, char)> {
    let parent = svc.pid().as_raw_nonzero().to_string();
    let stat = |pid: u32| -> Option<(u32, char)> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        (fields.next()? == parent).then_some((pid, state))
    };
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.filter_map(|entry| stat(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

#[test]
fn a_request_cannot_change_the_process() {
    let (_folder, library) = extension();
    let everybody =
        "$seen = []; foreach ([0, 1, 2, 3] as $what) { $seen[] = test_change($what); } return $seen;";
    let limits = "$seen = []; foreach (array_keys(array_filter(get_defined_constants(), fn ($name) => str_starts_with($name, \
                  'POSIX_RLIMIT_') && $name !== 'POSIX_RLIMIT_INFINITY', ARRAY_FILTER_USE_KEY)) as $name) { \
                  if (posix_setrlimit(constant($name), 50, 50)) { $seen[] = $name; } } return $seen;";
    let cases = [
        (everybody, "[1,1,1,1]"),
        (limits, "[]"),
        (
            "return [posix_setuid(1), posix_seteuid(1), posix_setgid(1), posix_setegid(1), \
             posix_initgroups('root', 0), posix_strerror(posix_get_last_error())];",
            r#"[false,false,false,false,false,"Operation not permitted"]"#,
        ),
        (
            "return [posix_setsid(), posix_setpgid(0, 0), posix_setpgid(getmypid(), getmypid())];",
            "[-1,false,false]",
        ),
        ("return [posix_getuid() === posix_geteuid(), posix_getgid() === posix_getegid()];", "[true,true]"),
        // A child is a separate process.
        (
            "$child = test_fork(); if ($child === 0) { exit(posix_setrlimit(POSIX_RLIMIT_NOFILE, 50, 50) && \
             posix_setsid() > 0 && test_priority(19) === 19 ? 9 : 8); } return test_wait($child);",
            "9",
        ),
    ];
    everywhere(&server(&library), &cases);
}

#[test]
fn changes_of_a_thread_end_with_the_request() {
    let (_folder, library) = extension();
    server(&library).in_each_mode(|running| {
        for place in PLACES {
            let before = running.tell(&format!("attributes{place}"));
            let changed = running.tell(&format!("change{place}"));
            let base: i64 = before[1..].split(',').next().unwrap().parse().unwrap();
            let refused = 1001;
            let expected = [base + 3, base + 5].map(|priority| priority.min(19));
            let is_changed = changed == format!("[{},1,true,{}]", expected[0], expected[1]);
            // Without the privilege to undo it.
            let is_refused = changed == format!("[{refused},1,false,{base}]");
            assert!(is_changed || is_refused, "{place}: {changed} after {before}");
            assert_eq!(running.tell(&format!("attributes{place}")), before, "{place}");
        }
        let before = running.tell("attributes");
        assert_eq!(running.svc.get("/?do=change_and_fail&raw").status, 500);
        assert_eq!(running.tell("attributes"), before);
    });
}

#[cfg(feature = "worker")]
#[test]
fn the_priority_of_a_request_that_waits_is_not_that_of_others() {
    let (_folder, library) = extension();
    let running = server(&library).start(svc_testing::tasks::Mode::Worker);
    let before = running.tell("attributes");
    let mut waits = running.send("change_and_wait", "1");
    running.until("changed");
    assert_eq!(running.tell("attributes"), before);
    running.mark("go");
    let text = waits.response().text();
    let mut seen = text.trim_matches(['[', ']']).split(',');
    let (changed, after) = (seen.next().unwrap(), seen.next().unwrap());
    assert!(changed == after || changed == "1001", "{text}");
    assert_eq!(running.tell("attributes"), before);
}

#[test]
fn processes_that_outlive_their_request_are_collected() {
    let (_folder, library) = extension();
    server(&library).in_each_mode(|running| {
        for place in PLACES {
            assert_eq!(running.tell(&format!("leave{place}")), "\"left\"", "{place}");
        }
        assert_eq!(running.svc.get("/?do=leave_and_fail&raw").status, 500);
        eventually("no child is left", || children(&running.svc).is_empty());
        assert_eq!(running.tell("fine"), "\"fine\"");
    });
}

#[cfg(feature = "worker")]
#[test]
fn a_loop_for_other_servers_leaves_no_process_either() {
    let (_folder, library) = extension();
    let script = format!(
        "<?php function mark(string $n): void {{ }} {CODE} while (frankenphp_handle_request(function () {{ echo leave('1'); }})) {{ }}"
    );
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start_with(
        &[("worker.php", &script)],
        &settings,
        &[&format!("extension={}", library.display())],
    );
    for _ in 0..3 {
        assert_eq!(svc.get("/").text(), "left");
    }
    eventually("no child is left", || children(&svc).is_empty());
}

#[cfg(feature = "worker")]
#[test]
fn the_status_of_a_process_waits_for_its_owner() {
    let (_folder, library) = extension();
    for end in ["close", "ask"] {
        let running = server(&library).start(svc_testing::tasks::Mode::Worker);
        assert_eq!(running.tell("keep"), "\"kept\"");
        eventually("it was collected", || children(&running.svc).is_empty());
        assert_eq!(running.tell(end), if end == "close" { "6" } else { "[false,6]" });
    }
}

#[test]
fn a_request_that_waits_for_any_child_waits_for_its_own() {
    let (_folder, library) = extension();
    for mode in MODES {
        let running = server(&library).set("PHP_WORKERS", "2").start(mode);
        let mut starts = running.send("starts", "1");
        running.until("started");
        let started: u32 = running.lines("started")[0].parse().unwrap();
        eventually("it has ended", || children(&running.svc).contains(&(started, 'Z')));
        for (call, expected) in [("any", "[-10,0]"), ("id", "[-10,0]")] {
            let text = running.svc.get(&format!("/?do={call}&n=1")).text();
            assert_eq!(text, expected, "{mode:?} {call}");
        }
        running.mark("go");
        assert_eq!(starts.response().text(), "7", "{mode:?}");
    }
    let own = "$children = []; foreach ([3, 4, 5] as $status) { $child = test_fork(); if ($child === 0) { usleep($status * 10000); \
               exit($status); } $children[$child] = $status; } $seen = []; \
               while (($ended = $status % 2 ? test_wait_any(0) : test_wait_id())[0] > 0) { $seen[] = $children[$ended[0]] - $ended[1]; $status++; } \
               return [$seen, $ended[0]];";
    everywhere(&server(&library), &[(own, "[[0,0,0],-10]"), ("return test_wait_any(1);", "[-10,0]")]);
}
