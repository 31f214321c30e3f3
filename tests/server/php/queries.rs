//! Scripts that end inside a callback of SQLite, in the middle of a statement, and pragmas that would affect all requests.

use svc_testing::client::eventually;
use svc_testing::counted_calls::CountedCalls;
use svc_testing::skip::skipped;
use svc_testing::tasks::{PLACES, TaskServer, TaskSvc};

/// The number of a call to `ends` names the connection, the callback, the call to SQLite, and the end.
const CODE: &str = r#"
const FILE = DIR . '/data';
function open(string $name): PDO|SQLite3
{
    if ($name === 'sqlite3') {
        $db = new SQLite3(FILE);
        $db->enableExceptions(true);
        return $db;
    }
    $dsn = $name === 'shared' ? 'sqlite:file:' . FILE . '?cache=shared' : 'sqlite:' . FILE;
    return new Pdo\Sqlite($dsn, options: [PDO::ATTR_TIMEOUT => 0]);
}
function creates(string $n): bool
{
    open('pdo')->exec("CREATE TABLE t (a); INSERT INTO t VALUES ('1'), ('2'), ('3')");
    return true;
}
/** Writes on a new connection, which fails at once if the database is locked. */
function writes(string $n): int
{
    foreach (['pdo', 'shared', 'sqlite3'] as $name) {
        $db = open($name);
        $db->exec("BEGIN IMMEDIATE; INSERT INTO t VALUES ('4')");
        $db->exec('ROLLBACK');
    }
    return open('sqlite3')->querySingle('SELECT count(*) FROM t');
}
function end_by(string $end): mixed
{
    switch ($end) {
        case 'memory': return str_repeat('x', PHP_INT_MAX >> 4);
        case 'fatal': return eval('class Twice { } class Twice { }');
        case 'limit': set_time_limit(1); while (true) { }
        case 'exit': exit;
        case 'exception': throw new Exception('thrown');
    }
}
function add_callback(PDO|SQLite3 $db, string $callback, Closure $end): string
{
    $is_pdo = $db instanceof PDO;
    $method = ['function' => 'createFunction', 'step' => 'createAggregate', 'final' => 'createAggregate', 'collation' => 'createCollation'];
    match ($callback) {
        'function', 'collation' => $db->{$method[$callback]}('ends', $end),
        'step' => $db->createAggregate('ends', $end, fn () => 1),
        'final' => $db->createAggregate('ends', fn () => 1, $end),
        'authorizer' => $db->setAuthorizer(fn (int $action) => $action === SQLite3::INSERT ? $end() : SQLite3::OK),
    };
    return match ($callback) {
        'collation' => 'INSERT INTO t SELECT a FROM t ORDER BY a COLLATE ends',
        'authorizer' => "INSERT INTO t VALUES ('4')",
        default => 'INSERT INTO t SELECT ends(a) FROM t',
    };
}
function ends(string $n): mixed
{
    [$name, $callback, $call, $end] = explode('.', $n);
    $db = open($name);
    $db->exec('BEGIN IMMEDIATE');
    $sql = add_callback($db, $callback, fn () => end_by($end));
    return match ($call) {
        'exec' => $db->exec($sql),
        'query' => $db->query($sql),
        'single' => $db instanceof PDO ? $db->query($sql)->fetchAll() : $db->querySingle($sql),
        'prepare' => $db->prepare($sql)->execute(),
    };
}
/** Ends in a query of a callback of another query. */
function ends_inside(string $n): mixed
{
    [$name, $end] = explode('.', $n);
    $outer = open($name);
    $outer->exec('BEGIN');
    $inner = open($name === 'sqlite3' ? 'pdo' : 'sqlite3');
    $inner->createFunction('ends', fn () => end_by($end));
    $outer->createFunction('asks', fn () => $inner->exec('SELECT ends()'));
    return $outer->exec('INSERT INTO t SELECT asks()');
}
/** Ends while a fiber is suspended in a callback. */
function ends_beside(string $n): mixed
{
    [$keeper, $name, $callback, $call, $end] = explode('.', $n);
    $db = open($name);
    $db->exec('BEGIN IMMEDIATE');
    $sql = add_callback($db, $callback, fn () => Fiber::suspend());
    $fiber = new Fiber(fn () => match ($call) {
        'exec' => $db->exec($sql),
        'query' => $db->query($sql),
        'prepare' => $db->prepare($sql)->execute(),
    });
    $fiber->start();
    if ($keeper === 'global') {
        // PHP frees it before the objects that the fiber uses.
        $GLOBALS['kept'] = $fiber;
        unset($fiber);
    }
    return end_by($end);
}
/** Uses the connection whose function ended the script, in a shutdown function. */
function uses_afterwards(string $n): mixed
{
    $db = open('sqlite3');
    $db->createFunction('ends', fn () => end_by('fatal'));
    register_shutdown_function(function () use ($db, $n) {
        mark("after-$n", $db->querySingle('SELECT count(*) FROM t'));
        $db->close();
    });
    return $db->query('INSERT INTO t SELECT ends(a) FROM t');
}
function sets(string $n): bool
{
    [$name, $pragma] = explode('.', $n, 2);
    open($name)->exec($pragma);
    return true;
}
/** Settings of the process, by a new connection of each kind. */
function settings(string $n): array
{
    $all = [];
    foreach (['hard_heap_limit', 'soft_heap_limit', 'temp_store_directory'] as $pragma) {
        $all[] = open('pdo')->query("PRAGMA $pragma")->fetchColumn();
        $all[] = open('sqlite3')->querySingle("PRAGMA $pragma");
    }
    return $all;
}
/** Settings of a connection can be changed. */
function sets_own(string $n): array
{
    [$pdo, $sqlite] = [open('pdo'), open('sqlite3')];
    $pdo->exec('PRAGMA cache_size = 123');
    $sqlite->exec('PRAGMA cache_size = 123');
    return [$pdo->query('PRAGMA cache_size')->fetchColumn(), $sqlite->querySingle('PRAGMA cache_size')];
}
/** Fetches rows of an aggregate that is not complete, and leaves the statement to the end of the request. */
function leaves_rows(string $n): mixed
{
    $db = open($n);
    $db->createAggregate('ends', fn () => 1, fn () => mark('finals'));
    $rows = $db->query('SELECT a, ends(a) FROM t GROUP BY a');
    $n === 'sqlite3' ? $rows->fetchArray() : $rows->fetch();
    end_by('fatal');
}
"#;

const CALLBACKS: [(&str, &[&str]); 3] = [
    ("pdo", &["function", "step", "final", "collation"]),
    ("shared", &["function", "step", "final", "collation"]),
    ("sqlite3", &["function", "step", "final", "collation", "authorizer"]),
];

/// The number of scripts that end in each callback.
const ENDS: usize = 10;
/// More descriptors than stay open by themselves (a persistent connection, a spool), and fewer than the ends of one callback.
const MORE: f64 = 8.0;

/// Three workers, so that a request is served while a thread is replaced.
fn server() -> TaskServer {
    TaskServer::new(CODE).set("PHP_WORKERS", "3")
}

/// Has a request or a task end, and asserts that other requests can write afterwards.
#[track_caller]
fn ends(server: &TaskSvc, function: &str, n: &str) {
    let response = server.send(function, n).response();
    // exit() fails a task.
    let is_error = !n.ends_with("exception") && (!n.ends_with("exit") || function.ends_with("task"));
    assert_eq!(response.status >= 500, is_error, "{function} {n}: {}", response.text());
    eventually(&format!("{function} {n}: the database is unlocked"), || server.tell("writes") == "3");
}

#[test]
fn a_jump_out_of_a_statement_leaves_nothing_locked() {
    server().in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        for place in PLACES {
            for (name, callbacks) in CALLBACKS {
                for callback in callbacks {
                    for call in ["exec", "query", "single", "prepare"] {
                        for end in ["memory", "fatal", "exit", "exception"] {
                            ends(server, &format!("ends{place}"), &format!("{name}.{callback}.{call}.{end}"));
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn a_time_limit_ends_a_script_in_a_statement() {
    server().in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        for place in PLACES {
            for n in
                ["pdo.function.exec.limit", "shared.collation.query.limit", "sqlite3.authorizer.exec.limit"]
            {
                ends(server, &format!("ends{place}"), n);
            }
        }
    });
}

#[test]
fn a_jump_out_of_a_statement_inside_another_leaves_both() {
    server().in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        for place in PLACES {
            for n in ["pdo.fatal", "shared.memory", "sqlite3.fatal", "sqlite3.exit", "pdo.exception"] {
                ends(server, &format!("ends_inside{place}"), n);
            }
        }
    });
}

#[test]
fn a_fatal_error_beside_a_suspended_statement_leaves_nothing_locked() {
    server().in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        for place in PLACES {
            for (name, callbacks) in CALLBACKS {
                for callback in callbacks {
                    for call in ["exec", "query", "prepare"] {
                        for end in ["local.memory", "global.memory", "global.fatal", "local.exception"] {
                            let (keeper, end) = end.split_once('.').unwrap();
                            let n = format!("{keeper}.{name}.{callback}.{call}.{end}");
                            ends(server, &format!("ends_beside{place}"), &n);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn last_code_uses_the_connection_whose_function_has_ended_the_script() {
    server().in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        for (index, place) in PLACES.iter().enumerate() {
            ends(server, &format!("uses_afterwards{place}"), &index.to_string());
            // The last code of a task belongs to its thread.
            if place.is_empty() {
                assert_eq!(server.lines(&format!("after-{index}")), ["3"]);
            }
        }
    });
}

#[test]
fn connections_whose_function_has_ended_a_script_are_closed() {
    server().in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        let before = server.svc.metric("process_open_fds");
        for _ in 0..ENDS {
            for n in ["pdo.function.exec.fatal", "sqlite3.function.query.fatal", "sqlite3.step.single.memory"]
            {
                ends(server, "ends", n);
            }
            for n in ["pdo", "sqlite3"] {
                ends(server, "leaves_rows", n);
            }
        }
        eventually("all is closed", || server.svc.metric("process_open_fds") < before + MORE);
    });
}

#[test]
fn a_pragma_does_not_affect_other_requests() {
    server().in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        let before = server.tell("settings");
        for place in PLACES {
            for name in ["pdo", "shared", "sqlite3"] {
                for pragma in [
                    "PRAGMA%20hard_heap_limit=1000",
                    "PRAGMA%20main.Soft_Heap_Limit(1000)",
                    "PRAGMA%20temp_store_directory='/'",
                ] {
                    let response =
                        server.send(&format!("sets{place}"), &format!("{name}.{pragma}")).response();
                    assert_eq!((response.status, response.text().as_str()), (200, "true"), "{name} {pragma}");
                    assert_eq!(server.tell("settings"), before, "{name} {pragma}");
                }
            }
            assert_eq!(server.tell(&format!("sets_own{place}")), "[123,123]");
        }
        assert_eq!(server.tell("writes"), "3");
    });
}

/// SQLite registers functions of its own on each connection.
#[test]
fn a_connection_searches_no_library() {
    if std::env::var_os("SVC_SANITIZE").is_some() {
        skipped("a sanitizer wants to be the first library");
        return;
    }
    let counted = CountedCalls::of_dladdr();
    server().set("LD_PRELOAD", &counted.preload()).in_each_mode(|server| {
        assert_eq!(server.tell("creates"), "true");
        assert_eq!(server.tell("writes"), "3");
        let before = counted.count();
        assert!(before > 0, "the start searches libraries");
        for _ in 0..10 {
            assert_eq!(server.tell("writes"), "3");
        }
        assert_eq!(counted.count(), before);
    });
}
