//! Bailouts in the middle of calls on connections: they leave no memory behind.

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::skip::skipped;
use svc_testing::tasks::{MODES, PLACES, TaskServer, TaskSvc};

const CODE: &str = r"
/** The calls in progress at a bailout. */
const DEPTH = 200;
function fail(string $end): void
{
    $end === 'exit' && exit;
    ini_set('memory_limit', '64M');
    str_repeat('x', PHP_INT_MAX >> 4);
}
/** Calls within each other: the innermost ends the script. */
function rows(PDO $base, string $end, int $depth): void
{
    $base->query('SELECT 1')->fetchAll(PDO::FETCH_FUNC, fn () => $depth > 1 ? rows($base, $end, $depth - 1) : fail($end));
}
function called(string $end, int $depth): int { $depth > 1 ? (Bases::$query)($depth - 1) : fail($end); return 1; }
final class Bases { public static Closure $query; }
function left_in_rows(string $end): void { rows(new PDO('sqlite::memory:'), $end, DEPTH); }
function left_in_function(string $end): void
{
    $base = new PDO('sqlite::memory:');
    $base->sqliteCreateFunction('called', fn ($depth) => called($end, $depth));
    Bases::$query = fn ($depth) => $base->query('SELECT called(' . $depth . ')')->fetchColumn();
    (Bases::$query)(DEPTH);
}
function left_in_sqlite3(string $end): void
{
    $base = new SQLite3(':memory:');
    $base->createFunction('called', fn ($depth) => called($end, $depth));
    Bases::$query = fn ($depth) => $base->querySingle('SELECT called(' . $depth . ')');
    (Bases::$query)(DEPTH);
}
function left_in_fiber(string $end): void { (new Fiber(fn () => left_in_rows($end)))->start(); }
function allocated(): int { return test_allocated(); }
";

/// The ways to leave calls, and why the script ends; `exit` unwinds the calls.
const WAYS: [&str; 5] = [
    "left_in_rows&n=fatal",
    "left_in_function&n=fatal",
    "left_in_sqlite3&n=fatal",
    "left_in_fiber&n=fatal",
    "left_in_rows&n=exit",
];

/// Requests of each way, after a quarter of them.
const REQUESTS: usize = 60;
/// Half of what the records of these calls would take, with 88 bytes each: a worker or task thread is replaced after each fatal
/// error, which takes some memory.
const GROWTH_MAX: i64 = 88 * 200 * REQUESTS as i64 / 2;

fn leave(server: &TaskSvc, way: &str, place: &str, count: usize) {
    let mut client = server.svc.client();
    for _ in 0..count {
        let response = client.get(&format!("/?do={way}{place}"));
        // Uncaught in the request, the TaskException of such a task is fatal, too.
        let is_exit = place.is_empty() && way.ends_with("exit");
        assert_eq!(response.status, if is_exit { 200 } else { 500 }, "{way}{place}: {}", response.text());
    }
}

/// Returns the allocated memory once threads that have been replaced, and their replacements, are at rest.
fn allocated(server: &TaskSvc) -> i64 {
    for place in PLACES {
        server.tell(&format!("allocated{place}"));
    }
    let folder = format!("/proc/{}/task", server.svc.pid().as_raw_nonzero());
    eventually("one thread of each pool is left", || threads_of_php(&folder) == PLACES.len());
    server.tell("allocated").parse().unwrap()
}

fn threads_of_php(folder: &str) -> usize {
    let names = std::fs::read_dir(folder).unwrap().filter_map(|thread| {
        // The thread may have ended.
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    });
    names.filter(|name| name.starts_with("svc-php-") || name.starts_with("svc-async-")).count()
}

#[test]
fn calls_that_bailouts_leave_take_no_memory() {
    if std::env::var_os("SVC_SANITIZE").is_some() {
        return skipped("a sanitizer has a heap without figures");
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("allocations.so");
    c::extension(include_str!("../../php/allocations.c"), &library);
    let server = TaskServer::new(CODE)
        .directive(&format!("extension={}", library.display()))
        .set("PHP_WORKERS", "1")
        .set("ASYNC_WORKERS", "1");
    std::thread::scope(|scope| {
        for hooks in ["none", "net"] {
            for mode in MODES {
                let server = server.clone().set("RUNTIME_HOOKS", hooks);
                scope.spawn(move || take_no_memory(&server.start(mode), &format!("{hooks}, {mode:?}")));
            }
        }
    });
}

fn take_no_memory(server: &TaskSvc, what: &str) {
    for place in PLACES {
        for way in WAYS {
            leave(server, way, place, REQUESTS / 4);
            let before = allocated(server);
            leave(server, way, place, REQUESTS);
            let growth = allocated(server) - before;
            println!("{what}: {way}{place}: {growth}");
            assert!(growth < GROWTH_MAX, "{what}: {way}{place}: {growth} bytes more");
        }
    }
}
