//! Cancelling tasks that are queued, parked, executing opcodes, inside a C call, or settled.

use svc_testing::client::eventually;
use svc_testing::tasks::{Mode, TaskAccounting, TaskServer, TaskSvc, assert_like, everywhere, in_requests};

#[test]
fn a_parked_task_wakes_with_an_exception_and_waits_no_more() {
    let cases = [
        (
            r"$task = Svc\async(function ($n) {
               mark($n . '-in');
               try { never(); } catch (Svc\Async\CancelledException $e) { mark($n, $e::class . json_encode(Svc\Task::isCancelled())); }
               try { Svc\sleep(60); } catch (Svc\Async\CancelledException) { mark($n, 'sleeps no more'); }
               try { Svc\async(never(...))->await(); } catch (Svc\Async\Exception) { mark($n, 'awaits no more'); }
               mark($n . '-end');
               return 'not heard';
           }, $n);
           until($n . '-in');
           return [$task->isSettled(), $task->cancel(), tried(fn () => $task->await()), until($n . '-end'), file(DIR . '/' . $n, FILE_IGNORE_NEW_LINES)];",
            r#"[false,true,"Svc\\Async\\CancelledException: *",null,["Svc\\Async\\CancelledExceptiontrue","sleeps no more","awaits no more"]]"#,
        ),
        // Awaiters need not wait for the end of a cancelled task.
        (
            r"$task = Svc\async(function ($n) { mark($n . '-in'); try { never(); } finally { spin($n . '-go'); mark($n . '-end'); } }, $n);
           until($n . '-in'); $task->cancel();
           return [tried(fn () => $task->await()), $task->isSettled(), marked($n . '-end'), mark($n . '-go')];",
            r#"["Svc\\Async\\CancelledException: *",true,false,null]"#,
        ),
        // A stream that the task waits for.
        (
            r"$task = Svc\async(function ($n) { $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); mark($n . '-in'); try { Svc\wait_readable($pair[0]); } finally { mark($n . '-end'); } }, $n);
           until($n . '-in'); $task->cancel(); until($n . '-end'); return tried(fn () => $task->await());",
            r#""Svc\\Async\\CancelledException: *""#,
        ),
        // A lock: a task without its lock must not continue, even if it ignores the result of flock().
        (
            r"$held = fopen(DIR . '/lock-' . $n, 'c'); flock($held, LOCK_EX);
           $task = Svc\async(function ($n) {
               $file = fopen(DIR . '/lock-' . $n, 'c');
               mark($n . '-in');
               foreach (['wakes', 'waits no more'] as $what) {
                   try { flock($file, LOCK_EX); mark($n, 'has no lock'); } catch (Svc\Async\CancelledException) { mark($n, $what); }
               }
               mark($n . '-end');
           }, $n);
           until($n . '-in'); $task->cancel(); until($n . '-end'); return file(DIR . '/' . $n, FILE_IGNORE_NEW_LINES);",
            r#"["wakes","waits no more"]"#,
        ),
        // A free lock is granted: a cancelled task may need it to clean up.
        (
            r"$task = Svc\async(function ($n) {
               mark($n . '-in');
               try { never(); } finally { mark($n, json_encode(flock(fopen(DIR . '/lock-' . $n, 'c'), LOCK_EX))); mark($n . '-end'); }
           }, $n);
           until($n . '-in'); $task->cancel(); until($n . '-end'); return file(DIR . '/' . $n, FILE_IGNORE_NEW_LINES);",
            r#"["true"]"#,
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn a_task_that_executes_opcodes_is_asked_and_then_unwound() {
    let cases = [
        // A cancelled task has a second to end by itself.
        (
            r"$task = Svc\async(function ($n) { mark($n . '-in'); while (!Svc\Task::isCancelled()) { } mark($n . '-saw'); }, $n);
           until($n . '-in'); $task->cancel(); until($n . '-saw'); return tried(fn () => $task->await());",
            r#""Svc\\Async\\CancelledException: *""#,
        ),
        // A task that never ends: its code cannot catch the unwinding, and `finally` blocks run.
        (
            r"$task = Svc\async(function ($n) {
               mark($n . '-in');
               for (;;) { try { for (;;) { } } catch (Throwable) { mark($n . '-caught'); } finally { mark($n . '-finally'); } }
           }, $n);
           until($n . '-in'); $cancelled = $task->cancel(); until($n . '-finally'); return [$cancelled, marked($n . '-caught'), tried(fn () => $task->await())];",
            r#"[true,false,"Svc\\Async\\CancelledException: *"]"#,
        ),
        // Through functions, callbacks of internal functions, and generators.
        (
            r"$task = Svc\async(function ($n) {
               $endless = function () use ($n) { try { mark($n . '-in'); for (;;) { yield 1; } } finally { mark($n . '-finally'); } };
               try { array_map(function () use ($endless) { foreach ($endless() as $x) { } }, [1]); } catch (Throwable) { mark($n . '-caught'); }
           }, $n);
           until($n . '-in'); $task->cancel(); until($n . '-finally'); return marked($n . '-caught');",
            "false",
        ),
    ];
    // A task that never parks would keep a requester on the same thread from cancelling it.
    in_requests(&TaskServer::new(""), &cases);
}

#[test]
fn a_settled_task_is_not_changed() {
    let cases = [
        (
            r"$task = settled(Svc\async(fn () => 5)); return [$task->cancel(), $task->await(), $task->cancel()];",
            "[false,5,false]",
        ),
        (
            r"$task = settled(Svc\async(fn () => throw new Exception('own'))); return [$task->cancel(), tried(fn () => $task->await())];",
            r#"[false,"Svc\\Async\\TaskException: own"]"#,
        ),
        // Either just before its end or just after; the result is right for both.
        (
            r"for ($i = 0; $i < 200; $i++) {
               $task = Svc\async(fn () => 5);
               if ($i % 3) { usleep($i); }
               $fits = $task->cancel() ? str_contains(tried(fn () => $task->await()), 'CancelledException') : $task->await() === 5;
               if (!$fits) { return $i; }
           }
           return 'fits';",
            r#""fits""#,
        ),
        (
            r"$task = Svc\async(never(...)); $first = $task->cancel(); return [$first, is_bool($task->cancel()), tried(fn () => $task->await()), tried(fn () => $task->await())];",
            r#"[true,true,"Svc\\Async\\CancelledException: *","Svc\\Async\\CancelledException: *"]"#,
        ),
        (
            r"$task = Svc\async(never(...)); $task->cancel(); return array_map(fn ($await) => tried(fn () => $await([$task])), ['Svc\await_all', 'Svc\await_race']);",
            r#"["Svc\\Async\\CancelledException: *","Svc\\Async\\CancelledException: *"]"#,
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

const GATES: &str = r"
/** Keeps the only thread inside a C call. */
function blocks(string $n): Svc\Task { $task = Svc\async(gate(...), $n); until('at-' . $n); return $task; }
function queued(string $n) {
    blocks($n);
    $queued = Svc\async(fn ($n) => mark('ran-' . $n), $n);
    $cancelled = $queued->cancel();
    return [$cancelled, $queued->isSettled(), tried(fn () => $queued->await())];
}
function inside(string $n) {
    $task = Svc\async(function ($n) { try { gate($n); for (;;) { } } catch (Throwable) { mark('caught-' . $n); } finally { mark('finally-' . $n); } }, $n)->detach();
    until('at-' . $n);
    return [$task->cancel(), $task->isSettled()];
}
function next_one(string $n) { return Svc\async(fn () => 'next')->await(); }
function twice(string $n) { $task = Svc\async(never(...)); $task->cancel(); $task->cancel(); tried(fn () => $task->await(0.01)); return 1; }
function nested(string $n) {
    $outer = Svc\async(function ($n) {
        $inner = Svc\async(function ($n) { mark('inner-' . $n); try { never(); } finally { mark('log-' . $n, 'inner'); } }, $n);
        try { $inner->await(); } catch (Svc\Async\CancelledException) { mark('log-' . $n, 'outer ' . json_encode($inner->isSettled())); }
        finally { mark('outer-end-' . $n); }
    }, $n);
    until('inner-' . $n);
    $outer->cancel();
    until('outer-end-' . $n);
    return $outer->await();
}
/** `cancel()` by another request than the one that awaits. */
function awaits(string $n) { $GLOBALS['awaited'] = Svc\async(never(...)); mark('awaits'); return $GLOBALS['awaited']->await(); }
function cancels(string $n) { return $GLOBALS['awaited']->cancel(); }
";

fn one_thread() -> TaskServer {
    TaskServer::new(GATES).set("ASYNC_WORKERS", "1")
}

fn blocked(server: &TaskSvc, function: &str) -> (String, String) {
    let n = server.another().to_string();
    server.close_gate(&n);
    let text = server.send(function, &n).response().text();
    (n, text)
}

#[test]
fn a_queued_task_never_starts() {
    one_thread().in_each_mode(|server| {
        let (n, text) = blocked(server, "queued");
        assert_like(&text, r#"[true,true,"Svc\\Async\\CancelledException: *"]"#);
        server.open_gate(&n);
        assert_eq!(server.tell("next_one"), r#""next""#);
        assert!(!server.marked(&format!("ran-{n}")));
        let books = TaskAccounting::at_rest(&server.svc);
        // The blocking task has completed, or was cancelled at the end of its request, which follows the response.
        assert_eq!((books.dispatched, books.failed), (3.0, 0.0), "{books:?}");
        assert!(books.cancelled >= 1.0, "{books:?}");
    });
}

#[test]
fn a_task_in_a_c_call_continues_until_it_returns() {
    one_thread().in_each_mode(|server| {
        let (n, text) = blocked(server, "inside");
        assert_eq!(text, "[true,true]", "its requester need not wait");
        let books = TaskAccounting::read(&server.svc);
        assert_eq!(
            (books.in_flight, books.cancelled),
            (1.0, 0.0),
            "it is counted once it has left its thread"
        );
        server.open_gate(&n);
        server.until(&format!("finally-{n}"));
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.cancelled), (1.0, 1.0), "{books:?}");
        assert!(!server.marked(&format!("caught-{n}")), "nothing catches what unwinds it");
        assert_eq!(server.tell("next_one"), r#""next""#);
    });
}

#[test]
fn a_task_is_cancelled_once_however_often_it_is_asked() {
    one_thread().in_each_mode(|server| {
        server.tell("twice");
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.cancelled), (1.0, 1.0), "{books:?}");
    });
}

#[test]
fn a_wait_inside_of_a_cancelled_task_ends() {
    one_thread().in_each_mode(|server| {
        let n = server.another().to_string();
        assert_like(&server.send("nested", &n).response().text(), r"Svc\Async\CancelledException: *");
        eventually("both have ended", || server.lines(&format!("log-{n}")).len() == 2);
        assert_eq!(server.lines(&format!("log-{n}")), ["outer false", "inner"]);
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.cancelled), (2.0, 2.0), "{books:?}");
    });
}

#[test]
fn a_task_that_another_request_cancels_wakes_its_awaiter() {
    let server = one_thread().set("PHP_WORKERS", "1").start(Mode::Worker);
    let mut awaits = server.send("awaits", "1");
    server.until("awaits");
    assert_eq!(server.tell("cancels"), "true");
    assert_like(&awaits.response().text(), r"Svc\Async\CancelledException: *");
    svc_testing::tasks::assert_laws(&server.svc);
}
