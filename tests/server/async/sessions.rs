//! Tasks that wait for the lock of a session when they are cancelled, or when they reach their time limit.

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::tasks::{TaskAccounting, TaskServer, TaskSvc, assert_like};

const CODE: &str = r"
function open(): void { if (session_status() === PHP_SESSION_ACTIVE) { return; } session_id('same'); session_save_path(DIR); session_start(); }
function counts(): int { open(); return $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; }
/** Holds the session while the test watches how the task ends. */
function held(string $n, Svc\Task $task, callable $ends): array
{
    until('in');
    $answer = [$ends($task), tried(fn () => $task->await())];
    mark('ended');
    until('go');
    return [...$answer, counts()];
}
/** Starts a task on the thread that the caller and its task share. */
function neighbour(): void { Svc\async(function () { mark('beside'); until('go'); mark('neighbour'); })->detach(); until('beside'); }
function waits(): void { mark('in'); open(); mark('late'); }
function waits_for_a_second(): void { set_time_limit(1); waits(); }
function cleans_up(): void
{
    mark('in');
    try {
        never();
    } catch (Svc\Async\CancelledException) {
        // As an application's handler would do, to log the cancelled user.
        open();
    }
    mark('late');
}
function cancelled(string $n) { open(); neighbour(); return held($n, Svc\async(waits(...)), fn ($task) => $task->cancel()); }
function late(string $n) { open(); neighbour(); return held($n, Svc\async(waits(...)), fn ($task) => tried(fn () => $task->await(0.05))); }
function over(string $n) { open(); neighbour(); return held($n, Svc\async(waits_for_a_second(...)), fn () => true); }
function cleaning(string $n) { open(); neighbour(); return held($n, Svc\async(cleans_up(...)), fn ($task) => $task->cancel()); }
";

/// Has a request that holds the session call `function`, and passes its answer to `check`: in each mode, with a session
/// handler that waits in the kernel and with one that polls for its lock. The task ends while the session is held.
fn each(function: &str, check: impl Fn(&TaskSvc, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("asking.so");
    c::extension(include_str!("../../php/asking_session.c"), &library);
    for handler in ["files", "asking"] {
        let server = TaskServer::new(CODE)
            .entry("mark('boots');")
            .set("ASYNC_WORKERS", "1")
            .directive(&format!("extension={}", library.display()))
            .directive(&format!("session.save_handler={handler}"));
        server.in_each_mode(|server| {
            assert_eq!(server.tell("counts"), "1");
            let mut request = server.send(function, "a");
            server.until("ended");
            eventually("the task has left, and its neighbour has not", || {
                TaskAccounting::read(&server.svc).in_flight == 1.0
            });
            assert!(!server.marked("late"), "{handler}: it went on without the session");
            assert!(!server.marked("neighbour"));
            server.mark("go");
            check(server, &request.response().text());
            server.until("neighbour");
            assert_eq!(server.tell("counts"), "3", "{handler}: nothing else was written");
            eventually("a thread has booted in the place of its own", || server.lines("boots").len() == 2);
            assert_eq!(server.tell_in_task("counts"), "4");
            assert!(!server.marked("late"));
        });
    }
}

#[test]
fn a_task_that_waits_for_a_session_ends_when_it_is_cancelled() {
    each("cancelled", |server, text| {
        assert_like(text, r#"[true,"Svc\\Async\\CancelledException: *",2]"#);
        assert_eq!(TaskAccounting::read(&server.svc).cancelled as u64, 1);
    });
}

#[test]
fn a_task_that_waits_for_a_session_ends_when_its_awaiter_has_waited_long_enough() {
    each("late", |server, text| {
        assert_like(text, r#"["Svc\\Async\\TimeoutException: *","Svc\\Async\\CancelledException: *",2]"#);
        assert_eq!(TaskAccounting::read(&server.svc).cancelled as u64, 1);
    });
}

#[test]
fn a_task_that_waits_for_a_session_ends_at_its_time_limit() {
    each("over", |server, text| {
        assert_like(
            text,
            r#"[true,"Svc\\Async\\TaskException: *Maximum execution time of 1 second exceeded*",2]"#,
        );
        assert_eq!(TaskAccounting::read(&server.svc).failed as u64, 1);
    });
}

#[test]
fn a_task_that_was_cancelled_does_not_begin_to_wait_for_a_session() {
    each("cleaning", |server, text| {
        assert_like(text, r#"[true,"Svc\\Async\\CancelledException: *",2]"#);
        assert_eq!(TaskAccounting::read(&server.svc).cancelled as u64, 1);
    });
}
