//! The life of async threads: their entry file, a roll, the death of a thread, a failing boot, and the shutdown.

use std::process::Stdio;

use rustix::process::Signal;

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, Mode, TaskAccounting, TaskServer, TaskSvc, assert_laws, assert_like};
use svc_testing::{Svc, command};

const ENTRY: &str = r"
    mark('boots', tried(fn () => Svc\async(fn () => 1)));
    $config = ['a' => 1];
    $object = new ArrayObject(['b' => 2]);
    ini_set('precision', '9');
    const BOOTED = 'booted';
    echo 'goes nowhere';";

#[test]
fn the_entry_file_runs_once_in_each_thread_and_leaves_the_baseline_of_each_task() {
    let code = r"
        function changes() { return Svc\async(function () {
            $before = [$GLOBALS['config'], $GLOBALS['object']['b'], ini_get('precision'), BOOTED];
            $GLOBALS['config']['a']++; $GLOBALS['new'] = 1; ini_set('precision', '5');
            return $before;
        })->await(); }
        function looks() { return Svc\async(fn () => [$GLOBALS['config'], isset($GLOBALS['new']), ini_get('precision')])->await(); }
        function own() { return [isset($GLOBALS['config']), defined('BOOTED')]; }";
    TaskServer::new(code).entry(ENTRY).in_each_mode(|server| {
        for _ in 0..6 {
            assert_eq!(server.tell("changes"), r#"[{"a":1},2,"9","booted"]"#);
            assert_eq!(server.tell("looks"), r#"[{"a":1},false,"9"]"#);
            assert_eq!(server.tell("own"), "[false,false]");
        }
        eventually("both threads have booted", || server.lines("boots").len() == 2);
        for line in server.lines("boots") {
            assert_like(&line, r"Svc\Async\*Exception: *");
        }
    });
}

#[test]
fn threads_have_a_name() {
    let server = TaskServer::new("function runs() { return Svc\\async(fn () => 1)->await(); }")
        .set("ASYNC_WORKERS", "3")
        .start(Mode::Classic);
    assert_eq!(server.tell("runs"), "1");
    let tasks = format!("/proc/{}/task", server.svc.pid().as_raw_nonzero());
    eventually("each has its name", || {
        let threads = std::fs::read_dir(&tasks).unwrap().filter_map(Result::ok);
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("svc-async-")).collect();
        names.sort();
        names == ["svc-async-0\n", "svc-async-1\n", "svc-async-2\n"]
    });
}

#[test]
fn an_entry_file_below_the_document_root_is_hidden_and_warned_about() {
    for mode in MODES {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        write("tasks.php", "<?php function here() { return 'here'; } echo 'never sent';");
        write("other.php", "<?php echo 'other';");
        let index = r"function answer() { echo Svc\async(static fn () => here())->await(); }";
        let last = if mode == Mode::Worker { r"Svc\Worker::serve(answer(...));" } else { "answer();" };
        write("index.php", &format!("<?php {index} {last}"));
        let entry = root.path().join("tasks.php").to_str().unwrap().to_owned();
        let settings = [
            ("ASYNC_WORKERS", "1"),
            ("ASYNC_ENTRY_FILE", entry.as_str()),
            ("ENTRY_FILE", if mode == Mode::Worker { "index.php" } else { "" }),
            ("WORKER_MODE_ENABLED", if mode == Mode::Worker { "true" } else { "false" }),
        ];
        let svc = Svc::start_in(root, &settings);
        assert_eq!(svc.get("/").text(), "here");
        for path in ["/tasks.php", "/%74asks.php", "/tasks.php/more", "/tasks.php?x=1", "/./tasks.php"] {
            let response = svc.get(path);
            assert_eq!(response.status, 404, "{path}");
            assert!(!response.text().contains("never sent"), "{path}");
        }
        let warnings = svc.log().of("svc");
        let is_warned = warnings
            .iter()
            .any(|record| record["level"] == "WARN" && record.to_string().contains("ASYNC_ENTRY_FILE"));
        assert!(is_warned, "{warnings:#?}");
        assert_laws(&svc);
    }
}

#[test]
fn the_path_of_the_entry_file_can_be_relative_to_the_working_directory() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("public")).unwrap();
    std::fs::write(root.path().join("tasks.php"), "<?php function here() { return __DIR__; }").unwrap();
    let page = r"<?php echo Svc\async(static fn () => here())->await();";
    std::fs::write(root.path().join("public/index.php"), page).unwrap();
    // The server starts in the directory of this process.
    let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    let below = root.path().canonicalize().unwrap();
    let entry = format!("{up}{}/tasks.php", below.strip_prefix("/").unwrap().display());
    let public = below.join("public").to_str().unwrap().to_owned();
    let settings = [("DOCUMENT_ROOT", &*public), ("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", &*entry)];
    let svc = Svc::launch(root, &settings, &[]);
    assert_eq!(svc.get("/index.php").text(), below.to_str().unwrap());
    assert_laws(&svc);
}

#[test]
fn an_entry_file_that_cannot_be_read_stops_the_start() {
    let root = tempfile::tempdir().unwrap();
    for entry in ["/nowhere/tasks.php", root.path().to_str().unwrap()] {
        let settings = [("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", entry)];
        let output = command(root.path(), &settings).stdout(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(&format!("ASYNC_ENTRY_FILE: {entry:?}")), "{said}");
    }
}

const VERSIONS: &str = r"
    function version_of_tasks() { return Svc\async(fn () => VERSION)->await(); }
    function waits(string $n) { return Svc\async(fn ($n) => [mark('in-' . $n), until('go-' . $n), VERSION][2], $n)->await(); }
    function detaches(string $n) { Svc\async(fn ($n) => [mark('in-' . $n), until('go-' . $n), mark('done-' . $n, VERSION)], $n)->detach(); return 1; }
    function fatal() { return Svc\async(fn () => str_repeat('x', PHP_INT_MAX >> 4))->await(); }";

fn replace_entry(server: &TaskSvc, code: &str) {
    let text = format!("<?php require_once __DIR__ . '/tasks.php'; {code}");
    std::fs::write(server.path("entry.new"), text).unwrap();
    std::fs::rename(server.path("entry.new"), server.path("entry.php")).unwrap();
}

fn versions() -> TaskServer {
    TaskServer::new(VERSIONS)
        .entry("const VERSION = 1; mark('boots');")
        .set("ASYNC_WORKERS", "1")
        .directive("opcache.revalidate_freq=0")
}

#[test]
fn a_hang_up_replaces_the_threads_and_running_tasks_end_normally() {
    // Detached: in worker mode the roll also replaces the requests' own worker.
    versions().in_each_mode(|server| {
        assert_eq!(server.tell("version_of_tasks"), "1");
        server.send("detaches", "a").response();
        server.until("in-a");
        replace_entry(server, "const VERSION = 2; mark('boots');");
        server.svc.signal(Signal::HUP);
        eventually("new tasks run on a new thread", || server.tell("version_of_tasks") == "2");
        assert!(!server.marked("done-a"));
        server.mark("go-a");
        server.until("done-a");
        eventually("the line is written", || server.lines("done-a") == ["1"]);
    });
}

#[test]
fn a_fatal_error_ends_its_thread_once_its_other_tasks_have_ended() {
    versions().in_each_mode(|server| {
        let mut waits = server.send("waits", "a");
        server.until("in-a");
        assert_like(&server.tell("fatal"), r"Svc\Async\TaskException: *Allowed memory size*");
        server.mark("go-a");
        assert_eq!(waits.response().text(), "1", "it was not the one that failed");
        assert_eq!(server.tell("version_of_tasks"), "1");
        eventually("a new boot", || server.lines("boots").len() == 2);
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.completed, books.failed), (2.0, 1.0), "{books:?}");
    });
}

fn async_warnings(svc: &Svc) -> Vec<serde_json::Value> {
    let records = svc.log().of("svc").into_iter();
    records.filter(|record| record["level"] == "WARN" && record.to_string().contains("async")).collect()
}

#[test]
fn while_no_thread_boots_tasks_are_refused_and_requests_are_served() {
    let code = VERSIONS.to_owned() + "function plain() { return 'plain'; }";
    let server = TaskServer::new(&code)
        .entry("throw new Exception('no database');")
        .set("ASYNC_WORKERS", "1")
        .directive("opcache.revalidate_freq=0");
    for mode in MODES {
        let running = server.start(mode);
        eventually("it is logged", || !async_warnings(&running.svc).is_empty());
        assert_like(&running.tell("version_of_tasks"), r"Svc\Async\RejectedException: *");
        assert_eq!(running.tell("plain"), r#""plain""#);
        assert_eq!(running.svc.ask("/readyz").status, 200, "requests are served");
        let health = running.svc.ask("/health");
        assert!(!health.text().is_empty());
        let books = TaskAccounting::read(&running.svc);
        assert_eq!((books.in_flight, books.rejected), (0.0, 0.0), "no bound was the reason: {books:?}");
        // The boot is retried at growing intervals.
        eventually("it is logged again", || async_warnings(&running.svc).len() >= 3);
        let pauses: Vec<_> = async_warnings(&running.svc)
            .iter()
            .filter_map(|record| record["fields"]["retry_ms"].as_u64())
            .collect();
        assert!(pauses.is_sorted() && pauses.first() < pauses.last(), "{pauses:?}");
        replace_entry(&running, "const VERSION = 3;");
        eventually("it boots at last", || running.tell("version_of_tasks") == "3");
        assert_laws(&running.svc);
    }
}

#[test]
fn queued_tasks_fail_when_no_thread_can_boot() {
    let code = VERSIONS.to_owned()
        + r"
        function queues(string $n) {
            $fatal = Svc\async(fn ($n) => [gate($n), str_repeat('x', PHP_INT_MAX >> 4)], $n);
            until('at-' . $n);
            $queued = array_map(fn () => Svc\async(fn () => 'ran'), range(1, 3));
            mark('queued-' . $n);
            return array_map(fn ($task) => strtok(tried(fn () => $task->await()), ' '), [$fatal, ...$queued]);
        }";
    let server = TaskServer::new(&code)
        .entry("const VERSION = 1;")
        .set("ASYNC_WORKERS", "1")
        .directive("opcache.revalidate_freq=0");
    server.in_each_mode(|server| {
        let n = server.another().to_string();
        server.close_gate(&n);
        let mut queues = server.send("queues", &n);
        server.until(&format!("queued-{n}"));
        replace_entry(server, "throw new Exception('no database');");
        server.open_gate(&n);
        let text = queues.response().text();
        assert_like(
            &text,
            r#"["Svc\\Async\\TaskException:","Svc\\Async\\*","Svc\\Async\\*","Svc\\Async\\*"]"#,
        );
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.completed), (4.0, 0.0), "{books:?}");
    });
}

#[test]
fn the_way_down_lets_tasks_end() {
    for mode in MODES {
        let mut server = versions().start(mode);
        let mut waits = server.send("waits", "a");
        server.send("detaches", "b").response();
        server.until("in-a");
        server.until("in-b");
        server.svc.signal(Signal::TERM);
        eventually("it drains", || server.svc.ask("/readyz").status == 503);
        server.mark("go-a");
        assert_eq!(waits.response().text(), "1");
        server.mark("go-b");
        assert_eq!(server.svc.wait(), Some(0));
        assert_eq!(server.lines("done-b"), ["1"], "{mode:?}: a detached task has until the deadline");
    }
}

#[test]
fn the_deadline_of_the_way_down_cancels_tasks() {
    let code = r"function stays(string $n) { Svc\async(function ($n) { mark('in-' . $n); try { never(); } finally { mark('ended-' . $n); } }, $n)->detach(); return 1; }";
    for mode in MODES {
        let mut server = TaskServer::new(code).set("DRAIN_TIMEOUT_SECONDS", "1").start(mode);
        server.send("stays", "a").response();
        server.until("in-a");
        server.svc.signal(Signal::TERM);
        assert_eq!(server.svc.wait(), Some(0), "{mode:?}");
        assert!(server.marked("ended-a"), "{mode:?}: it was unwound");
    }
}

#[test]
fn a_task_inside_of_a_c_call_does_not_keep_the_server_from_ending() {
    let code =
        r"function stays(string $n) { Svc\async(gate(...), $n)->detach(); until('at-' . $n); return 1; }";
    let mut server = TaskServer::new(code).set("DRAIN_TIMEOUT_SECONDS", "1").start(Mode::Classic);
    server.close_gate("a");
    server.send("stays", "a").response();
    server.svc.signal(Signal::TERM);
    assert!(server.svc.wait().is_some(), "the gate is never opened");
}
