//! OPcache restarts while tasks come and go: the restart happens, threads boot again, and tasks are not affected.

use svc_core::sync::counter::{Counter, Flag};

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, TaskAccounting, TaskServer, TaskSvc, assert_laws};

const CODE: &str = r"
final class Keeper { public static array $kept = []; public static ?Closure $call = null; }
function reset_cache() { return opcache_reset(); }
function is_cached() { return opcache_get_status(false)['opcache_enabled']; }
function idle() { return 1; }
function statistics() { return opcache_get_status(false)['opcache_statistics']['manual_restarts']; }
/** Two awaited tasks, and one that outlives its request and still runs during the next requests. */
function load(string $n) {
    Svc\async(static function (string $n) { Svc\sleep(0.05); mark('left', $n); }, $n)->detach();
    return Svc\await_all([Svc\async(fn (int $a) => $a + 1, 1), Svc\async(fn (string $n) => [...['literal'], 'n'], $n)]);
}
";

/// The result of `load`.
const LOAD: &str = r#"[2,["literal","n"]]"#;

/// Returns a server with that code and this code.
fn server(threads: &str, code: &str) -> TaskServer {
    TaskServer::new(&(CODE.to_owned() + code))
        .set("ASYNC_WORKERS", threads)
        .set("PHP_WORKERS", "4")
        .directive("opcache.file_update_protection=0")
}

fn restarts(server: &TaskSvc) -> u64 {
    server.svc.metric("svc_opcache_restarts_total") as u64
}

/// Sends requests until the cache has restarted.
#[track_caller]
fn until_restarted(server: &TaskSvc, before: u64) {
    eventually("the cache restarts", || {
        server.tell("idle");
        restarts(server) > before
    });
}

#[test]
fn the_cache_restarts_under_a_steady_stream_of_tasks_and_no_task_is_lost() {
    let server = server("2", "").entry("mark('boots');");
    server.in_each_mode(|server| {
        let (done, ran) = (Flag::new(), Counter::new());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.is_set() {
                        assert_eq!(server.tell("load"), LOAD);
                        ran.incr();
                    }
                });
            }
            eventually("there is load", || ran.value() > 5);
            assert_eq!(server.tell("reset_cache"), "true");
            eventually("the cache restarts", || restarts(server) == 1);
            eventually("it serves requests and tasks again", || {
                server.tell("is_cached") == "true" && server.tell_in_task("is_cached") == "true"
            });
            let so_far = ran.value();
            eventually("there still is load", || ran.value() > so_far + 5);
            done.set();
        });
        assert_eq!(server.tell("statistics"), "1");
        assert!(server.lines("boots").len() >= 4, "threads have booted anew");
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!(books.completed, books.dispatched, "{books:?}");
        assert_eq!((books.rejected, books.failed, books.cancelled), (0.0, 0.0, 0.0), "{books:?}");
        assert_eq!(server.lines("left").len() as u64, ran.value());
        assert_eq!(server.svc.metric("svc_opcache_restart_delayed") as u64, 0);
    });
}

#[test]
fn after_a_restart_tasks_run_the_code_of_the_new_generation() {
    let code = |version: u32| {
        format!(
            "<?php final class Shared {{ public static function version() {{ return {version}; }} }} function closure() {{ return static fn () => {version}; }}"
        )
    };
    let boot = r"
        require_once DIR . '/shared.php';
        function versions() { return [Svc\async(Shared::version(...))->await(), Svc\async(closure())->await()]; }";
    // Only a restart makes OPcache check files again.
    let server = TaskServer::new(&format!("require_once __DIR__ . '/shared.php'; {CODE}"))
        .file("shared.php", &code(1))
        .directive("opcache.file_update_protection=0")
        .directive("opcache.validate_timestamps=0");
    for mode in MODES {
        let running = server.start_with(mode, boot);
        assert_eq!(running.tell("versions"), "[1,1]");
        std::fs::write(running.path("shared.new"), code(2)).unwrap();
        std::fs::rename(running.path("shared.new"), running.path("shared.php")).unwrap();
        assert_eq!(running.tell("versions"), "[1,1]", "{mode:?}");
        assert_eq!(running.tell("reset_cache"), "true");
        until_restarted(&running, 0);
        eventually("all threads have booted anew", || running.tell_in_task("is_cached") == "true");
        eventually("requests and tasks run the new code", || running.tell("versions") == "[2,2]");
        assert_laws(&running.svc);
    }
}

#[test]
fn a_task_that_runs_for_long_delays_the_restart_and_holds_no_other_task_back() {
    let code = r"
        function long(string $n) {
            Svc\async(function (string $n) { mark('began'); until('end'); mark('ended', json_encode(['still', $n])); }, 'here')->detach();
            until('began');
        }";
    for threads in ["1", "2"] {
        server(threads, code).in_each_mode(|server| {
            server.tell("long");
            assert_eq!(server.tell("reset_cache"), "true");
            eventually("threads do without the cache", || server.tell_in_task("is_cached") == "false");
            for _ in 0..20 {
                assert_eq!(server.tell("load"), LOAD);
            }
            eventually("it is shown", || server.svc.metric("svc_opcache_restart_delayed") == 1.0);
            assert_eq!((restarts(server), server.lines("ended").len()), (0, 0), "its code is in that memory");
            server.mark("end");
            until_restarted(server, 0);
            assert_eq!(server.lines("ended"), [r#"["still","here"]"#]);
            eventually("tasks use the cache", || server.tell_in_task("is_cached") == "true");
            let books = TaskAccounting::at_rest(&server.svc);
            assert_eq!((books.rejected, books.failed, books.cancelled), (0.0, 0.0, 0.0), "{books:?}");
        });
    }
}

/// Returns scripts that fill the cache after a restart.
fn fillers() -> impl Iterator<Item = (String, String)> {
    (0..40).map(|number| {
        let functions: String = (0..40)
            .map(|function| format!("function f{number}_{function}($a) {{ return ['other {number} {function}' => 'text {number}/{function}', 'x' => fn () => $a . 'more {function}']; }} "))
            .collect();
        (format!("filler{number}.php"), format!("<?php {functions}"))
    })
}

/// Tests a thread without the cache: it runs a task that a request dispatched from the cache, and survives a restart of the
/// cache. `late` is the request's code once such a thread exists; its file is in the cache until other files replace it.
fn outlive_the_cache(late: &str, check: impl Fn(&TaskSvc)) {
    let code = r"
        function request(string $n) { require DIR . '/late.php'; mark('in'); until('outsiders'); late(); mark('dispatched'); until('out'); }
        function fill() { return array_sum(array_map(fn ($i) => opcache_compile_file(DIR . '/filler' . $i . '.php'), range(0, 39))); }
        function reads(string $n) {
            Svc\async(static function () { mark('reading'); until('over'); mark('kept', json_encode([Keeper::$kept, (Keeper::$call)()])); })->detach();
            until('reading');
        }";
    let mut server = server("1", code).file("late.php", &format!("<?php {late}"));
    for (name, text) in fillers() {
        server = server.file(&name, &text);
    }
    server.in_each_mode(|server| {
        let mut request = server.send("request", "a");
        server.until("in");
        assert_eq!(server.tell("reset_cache"), "true");
        eventually("a thread does without the cache", || server.tell_in_task("is_cached") == "false");
        server.mark("outsiders");
        server.until("dispatched");
        check(server);
        // The cache cannot restart before this request ends.
        assert_eq!(restarts(server), 0);
        server.mark("out");
        request.response();
        until_restarted(server, 0);
        eventually("something else is in that memory", || server.tell("fill") == "40");
        server.mark("over");
        server.until("kept");
        assert_eq!(server.lines("kept"), [r#"[{"literal key":["literal","value"]},"inner literal"]"#]);
        eventually("tasks use the cache", || server.tell_in_task("is_cached") == "true");
    });
}

#[test]
fn a_task_from_the_old_cache_may_go_on_when_it_has_restarted() {
    let code = r"
        function late() {
            Svc\async(static function () {
                mark('waits');
                until('over');
                mark('kept', json_encode([['literal key' => ['literal', 'value']], (static fn () => 'inner literal')()]));
            })->detach();
            until('waits');
        }";
    outlive_the_cache(code, |_| {});
}

#[test]
fn state_of_a_task_from_the_old_cache_remains_in_its_thread_after_the_restart() {
    let code = r"
        function late() {
            Svc\async(static function () {
                Keeper::$kept = ['literal key' => ['literal', 'value']];
                Keeper::$call = static fn () => 'inner literal';
            })->await();
        }";
    outlive_the_cache(code, |server| {
        server.tell("reads");
    });
}
