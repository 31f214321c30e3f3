//! The loss of an async thread: its tasks fail, other threads' tasks continue, and the thread boots again.
//!
//! A thread is lost when the server's own code panics on it, which no request can provoke. Here a preloaded library
//! overrides the clock, which fails once, when the thread begins a task.

use std::path::Path;

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, Mode, TaskAccounting, TaskServer, TaskSvc, assert_laws};

/// On such a thread, only the beginning of a task reads the time of day, unless the thread logs.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    char name[16] = "";
    if (clock == CLOCK_REALTIME && pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
        strncmp(name, "svc-async-", 10) == 0 && unlink(getenv("CLOCK_FAILS")) == 0) {
        errno = EINVAL;
        return -1;
    }
    return real(clock, time);
}
"#;

const CODE: &str = r"
const BOOTED = 'booted';
mark('boots');
function waits(string $n): string { mark('in-' . $n); Svc\sleep(600); return 'came to its end'; }
function nests(string $n): string { return Svc\async(waits(...), $n)->await(); }
function held(string $n): string { gate($n); return 'held'; }
/** The clock fails for the next task that begins. */
function fail(): void { touch(getenv('CLOCK_FAILS')); }
/** One after another, so that the clock does not fail for these tasks. */
function parked(string $n): array
{
    $tasks = [Svc\async(waits(...), $n . 'a')];
    until('in-' . $n . 'a');
    $tasks[] = Svc\async(nests(...), $n . 'b');
    until('in-' . $n . 'b');
    return $tasks;
}
function loses(string $n): array
{
    $tasks = parked($n);
    fail();
    $tasks[] = Svc\async(fn () => 'began');
    return array_map(fn ($task) => tried(fn () => $task->await()), [...$tasks, $tasks[0]]);
}
function detaches(string $n): int { foreach ([...parked($n), [fail(), Svc\async(fn () => 'began')][1]] as $task) { $task->detach(); } return 1; }
function hold(string $n): string { return Svc\async(held(...), $n)->await(); }
function leave_something(): int { return Svc\async(fn () => $GLOBALS['left'] = 1)->await(); }
function looks(): array { return Svc\async(fn () => [isset($GLOBALS['left']), BOOTED, Svc\async(fn () => 'inner')->await()])->await(); }
";

const LOST: &str = r#""Svc\\Async\\TaskException: its thread was lost""#;

/// Starts a server whose clock can be made to fail by files in `place`.
fn start(place: &Path, threads: &str, mode: Mode) -> TaskSvc {
    let library = place.join("clock.so");
    c::library(CLOCK, &library);
    TaskServer::new("")
        .file("loss.php", &format!("<?php {CODE}"))
        .entry("require_once __DIR__ . '/loss.php';")
        .set("ASYNC_WORKERS", threads)
        .set("LD_PRELOAD", library.to_str().unwrap())
        .set("CLOCK_FAILS", place.join("fail").to_str().unwrap())
        .start_with(mode, "require_once DIR . '/loss.php';")
}

fn is_back(server: &TaskSvc) -> bool {
    // Until a thread has booted, tasks are refused.
    server.tell("looks") == r#"[false,"booted","inner"]"#
}

#[test]
fn tasks_of_a_lost_thread_fail_and_the_thread_boots_again() {
    for mode in MODES {
        let place = tempfile::tempdir().unwrap();
        let server = start(place.path(), "1", mode);
        assert_eq!(server.tell("leave_something"), "1");
        assert_eq!(server.tell("loses"), format!("[{LOST},{LOST},{LOST},{LOST}]"), "{mode:?}");
        eventually("the thread is back", || is_back(&server));
        eventually("it is logged", || {
            server.svc.log().of("svc").iter().any(|record| record.to_string().contains("the engine panicked"))
        });
        let books = TaskAccounting::at_rest(&server.svc);
        // The task that was beginning, the parked tasks, and a task that one of them had started.
        assert_eq!((books.failed, books.cancelled), (4.0, 0.0), "{books:?}");
        assert_laws(&server.svc);
        for _ in 0..3 {
            assert_eq!(server.tell("loses"), format!("[{LOST},{LOST},{LOST},{LOST}]"), "{mode:?}: again");
            eventually("the thread is back", || is_back(&server));
        }
        assert_laws(&server.svc);
    }
}

#[test]
fn tasks_on_other_threads_continue() {
    for mode in MODES {
        let place = tempfile::tempdir().unwrap();
        let server = start(place.path(), "2", mode);
        server.close_gate("a");
        let mut holds = server.send("hold", "a");
        // This task blocks its thread, so the other thread runs the next ones.
        server.until("at-a");
        assert_eq!(server.tell("loses"), format!("[{LOST},{LOST},{LOST},{LOST}]"), "{mode:?}");
        server.open_gate("a");
        assert_eq!(holds.response().text(), r#""held""#);
        assert_eq!(server.tell("looks"), r#"[false,"booted","inner"]"#, "the other thread takes tasks");
        eventually("both have booted, and one again", || server.lines("boots").len() >= 3);
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.failed, books.cancelled), (4.0, 0.0), "{books:?}");
        assert_laws(&server.svc);
    }
}

#[test]
fn a_lost_detached_task_is_logged() {
    let place = tempfile::tempdir().unwrap();
    let server = start(place.path(), "1", Mode::Worker);
    assert_eq!(server.tell("detaches"), "1");
    let told = || {
        let records = server.svc.log().of("svc");
        records.iter().filter(|record| record["fields"]["reason"] == "its thread was lost").count()
    };
    eventually("all of them are logged", || told() == 3);
    eventually("the thread is back", || is_back(&server));
    assert_laws(&server.svc);
}
