//! Requests that wait while others wait for their connections: a connection at rest is lent, so that programs that end
//! without hooks also end with them.

use serde_json::{Value, json};

use svc_testing::client::{Client, eventually};
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc, assert_like};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $db, $other, $redis, $store, $place, $pair; }
function connect(): PDO { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function is_mysql(): bool { return str_starts_with(DSN, 'mysql:'); }
function ask(?PDO $db = null): int { return (int) ($db ?? Held::$db)->query('SELECT 7')->fetchColumn(); }
function session(): void { session_save_path(DIR); session_id('same'); session_start(['use_cookies' => false, 'cache_limiter' => '']); }
function lock(string $name) { $file = fopen(DIR . "/$name.lock", 'c'); flock($file, LOCK_EX); return $file; }

/** Two requests that take two things in opposite order; the first one has its first thing when the second one begins. */
function query_then_session() { ask(); mark('first'); until('second'); session(); return ask(); }
function session_then_query() { session(); mark('second'); return ask(); }
function query_then_lock() { ask(); mark('first'); until('second'); $lock = lock('a'); return ask(); }
function lock_then_query() { $lock = lock('a'); mark('second'); return ask(); }
function rows_then_lock()
{
    $rows = [];
    foreach (Held::$db->query('SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3', PDO::FETCH_COLUMN, 0) as $row) {
        if (!$rows) { mark('first'); until('second'); $lock = lock('a'); }
        $rows[] = (int) $row;
    }
    return $rows;
}
function result_then_lock()
{
    $statement = Held::$db->prepare('SELECT 1 UNION ALL SELECT 2');
    $statement->execute();
    mark('first');
    until('second');
    $lock = lock('a');
    return array_map(intval(...), $statement->fetchAll(PDO::FETCH_COLUMN));
}
function begin_then_session() { Held::$db->beginTransaction(); mark('first'); until('second'); session(); Held::$db->commit(); return 7; }
function begin_then_lock() { until('second'); Held::$db->beginTransaction(); mark('first'); $lock = lock('a'); Held::$db->commit(); return 7; }
function leave_transaction() { Held::$db->beginTransaction(); return ask(); }
function hold_held() { ask(); mark('held'); until('go'); return 7; }
function cancel_a_waiter()
{
    $holder = Svc\async(hold_held(...));
    until('held');
    $waiter = Svc\async(look(...));
    until('look');
    $waiter->cancel();
    try { $seen = $waiter->await(); } catch (Svc\Async\Exception $exception) { $seen = $exception::class; }
    mark('go');
    return [$seen, $holder->await(), Svc\async(ask(...))->await()];
}
function lock_then_look() { $lock = lock('a'); mark('second'); until('first'); return ask(); }
function open_then_other() { Held::$db = connect(); ask(); mark('first'); until('second'); $n = ask(Held::$other); Held::$db = null; return $n; }
function open_other_then_first() { Held::$other = connect(); ask(Held::$other); mark('second'); try { return ask(Held::$db); } finally { Held::$other = null; } }
function place_then_session() { Held::$place->open(); mark('first'); until('second'); session(); return 7; }
function session_then_place() { session(); mark('second'); Held::$place->open(); return 7; }
class Place { function open() { return 1; } }

/** A task that has queried awaits a task that queries, on the same thread. */
function query_and_await() { ask(); return Svc\async(ask(...))->await(); }

/** Awaits inside a transaction. */
function inside(callable $awaits): array
{
    Held::$db->beginTransaction();
    ask();
    try { $seen = $awaits(); } catch (Svc\Async\TaskException $e) { $seen = $e->getTaskClass(); } catch (Throwable $e) { $seen = get_class($e); }
    Held::$db->commit();
    return [$seen, ask()];
}
function begin_and_await() { return inside(fn () => Svc\async(ask(...))->await()); }
function begin_and_await_all() { return inside(fn () => Svc\await_all([Svc\async(fn () => 5), Svc\async(ask(...)), Svc\async(fn () => 6)])); }
function begin_and_await_any() { return inside(fn () => Svc\await_any([Svc\async(ask(...)), Svc\async(function () { Svc\sleep(0.05); return 5; })])); }
function begin_and_await_both() { return inside(fn () => Svc\await_any([Svc\async(ask(...)), Svc\async(ask(...))])); }
function begin_and_await_deep() { return inside(fn () => Svc\async(fn () => tried(fn () => Svc\async(ask(...))->await()))->await()); }
/** Tasks of one thread share static properties, and so find each other. */
function await_itself() { Held::$pair = [Svc\async(fn () => tried(fn () => Held::$pair[0]->await()))]; return Held::$pair[0]->await(); }
function await_each_other()
{
    $awaits = fn ($other) => [tried(fn () => Held::$pair[$other]->await())];
    Held::$pair = [Svc\async($awaits, 1), Svc\async($awaits, 0)];
    return Svc\await_all(Held::$pair);
}

/** Two requests that wait for each other through external marks. */
function ask_and_poll() { ask(); mark('first'); until('asked'); return ask(); }
function ask_and_tell() { ask(); mark('asked'); return 7; }
function stateful_and_poll()
{
    Held::$db->exec(is_mysql() ? 'SET @mine = 1' : "SET application_name = 'mine'");
    ask(Held::$other);
    mark('first');
    until('go');
    return (string) Held::$db->query(is_mysql() ? 'SELECT @mine' : 'SHOW application_name')->fetchColumn();
}
function change_state() { mark('look'); Held::$db->exec(is_mysql() ? 'SET @mine = 2' : "SET application_name = 'other'"); mark('changed'); return 7; }
function ask_other() { return ask(Held::$other); }

/** More than sockets and the server can buffer. */
function print_all(): void { for ($i = 0; $i < 48; $i++) { echo str_repeat('x', 1 << 20); } }
function page() { ask(); mark('first'); print_all(); return ask(); }
function page_inside() { Held::$db->beginTransaction(); ask(); mark('first'); print_all(); Held::$db->commit(); return 7; }
function look() { mark('look'); return ask(); }

function release_in_loop()
{
    $rows = [];
    foreach (Held::$db->query('SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3', PDO::FETCH_COLUMN, 0) as $row) {
        $rows[] = (int) $row;
        try { Svc\release_connections(); } catch (LogicException $e) { mark('refused', $e->getMessage()); }
    }
    Svc\release_connections();
    return $rows;
}
function release_in_fetches()
{
    $rows = [];
    $statement = Held::$db->query('SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3');
    while (($row = $statement->fetch(PDO::FETCH_NUM)) !== false) {
        $rows[] = (int) $row[0];
        try { Svc\release_connections(); } catch (LogicException $e) { mark('refused', $e->getMessage()); }
    }
    Svc\release_connections();
    return $rows;
}
function release_in_callback()
{
    $rows = Held::$db->query('SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3')->fetchAll(PDO::FETCH_FUNC, function ($row) {
        try { Svc\release_connections(); } catch (LogicException $e) { mark('refused', $e->getMessage()); }
        return (int) $row;
    });
    Svc\release_connections();
    return $rows;
}
function release_before_fetching()
{
    $statement = Held::$db->query('SELECT 1 UNION ALL SELECT 2');
    Svc\release_connections();
    return array_map(intval(...), $statement->fetchAll(PDO::FETCH_COLUMN));
}
function pause_in_loop()
{
    $rows = [];
    foreach (Held::$db->query('SELECT 1 UNION ALL SELECT 2', PDO::FETCH_COLUMN, 0) as $row) {
        if (!$rows) { mark('first'); until('second'); }
        $rows[] = (int) $row;
    }
    return $rows;
}
/** Locks of the database session. */
function take_lock() { Held::$db->query(is_mysql() ? "SELECT GET_LOCK('mine', 0)" : 'SELECT pg_try_advisory_lock(5)')->fetchAll(); return 7; }
function is_lock_free() { return (bool) connect()->query(is_mysql() ? "SELECT IS_FREE_LOCK('mine')" : "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")->fetchColumn(); }
/** Polls for a lock that a connection of its own keeps from it, until another request has used the shared connection. */
function poll_for_lock(string $way)
{
    $other = connect();
    $other->query(is_mysql() ? "SELECT GET_LOCK('polled', 0)" : 'SELECT pg_try_advisory_lock(6)')->fetchAll();
    $try = is_mysql() ? "SELECT GET_LOCK('polled', 0)" : 'SELECT pg_try_advisory_lock(6)';
    $prepared = Held::$db->prepare($try);
    mark('first');
    for ($n = 0; ; $n++) {
        $statement = $prepared;
        str_starts_with($way, 'prepared') ? $prepared->execute() : $statement = Held::$db->query($try);
        $row = match (substr($way, -3)) {
            'umn' => $statement->fetchColumn(),
            'row' => $statement->fetch(PDO::FETCH_NUM)[0],
            'all' => $statement->fetchAll(PDO::FETCH_ASSOC)[0][is_mysql() ? "GET_LOCK('polled', 0)" : 'pg_try_advisory_lock'],
        };
        $statement->closeCursor();
        if ($row) { return 7; }
        usleep(5000);
        if (marked('second')) { $other = null; }
    }
}
/** Takes a lock, whose row does not say so, and keeps it while it pauses. */
function pause_with_statement($n)
{
    $try = is_mysql() ? "GET_LOCK('mine', 0)" : 'pg_try_advisory_lock(5)';
    $no = is_mysql() ? "$try = 0" : "NOT $try";
    match ((int) $n) {
        0 => take_lock(),
        1 => Held::$db->query("SELECT $try")->fetchColumn(),
        2 => Held::$db->query("SELECT $no AS busy")->fetchColumn(),
        3 => Held::$db->query("SELECT 0, $try")->fetch(PDO::FETCH_NUM),
        4 => Held::$db->query("SELECT $try FROM (SELECT 1 AS a) AS b WHERE $try AND a = 2 OR $no")->fetch(),
        5 => Held::$db->query("SELECT $try")->fetch(PDO::FETCH_OBJ),
    };
    mark('first');
    until('second');
    return 7;
}
function is_own_lock_free() { return (bool) connect()->query(is_mysql() ? "SELECT IS_FREE_LOCK('mine')" : "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 5 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")->fetchColumn(); }
function pause_after_lender() { ask(); mark('borrowed'); until('lender-gone'); take_lock(); return 7; }
function ask_and_release() { $n = ask(); Svc\release_connections(); return $n; }
function release_and_keep() { $s = Held::$db->query('SELECT 7'); $n = (int) $s->fetchColumn(); Svc\release_connections(); return $n; }

function leave_stranded()
{
    ask();
    $task = Svc\async(gate(...), 'stranded');
    until('at-stranded');
    try { Svc\await_any([$task], 0.01); } catch (Svc\Async\TimeoutException) { }
    return 7;
}

/** Like Laravel's Cache::lock(): polls for a key of Redis. */
function cache_lock(): void { while (!Held::$redis->set('lock', '1', ['nx', 'ex' => 60])) { usleep(10000); } }
function query_then_cache_lock() { ask(); mark('first'); until('second'); cache_lock(); $n = ask(); Held::$redis->del('lock'); return $n; }
function cache_lock_then_query() { cache_lock(); mark('second'); $n = ask(); Held::$redis->del('lock'); return $n; }
function use_redis() { Held::$redis->set('a', 1); mark('first'); until('go'); return (int) Held::$redis->get('a'); }
function use_redis_once() { Held::$redis->set('a', 1); return (int) Held::$redis->get('a'); }
function look_redis() { return (int) Held::$redis->get('a'); }
function watch_redis() { Held::$redis->watch('a'); mark('first'); until('go'); Held::$redis->unwatch(); return 7; }
function wait_redis() { mark('look'); return (int) Held::$redis->get('a'); }
/** `$n` is the prefix; the change stays or is undone. */
function change_options($n)
{
    $redis = Held::$redis;
    $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
    $redis->setOption(Redis::OPT_PREFIX, $n);
    $redis->set('with', [7]);
    mark("changed-$n");
    until('go');
    $seen = [$redis->get('with'), $redis->getOption(Redis::OPT_PREFIX), $redis->getOption(Redis::OPT_SERIALIZER)];
    $redis->setOption(Redis::OPT_PREFIX, '');
    return $seen;
}
function tenant($n)
{
    $redis = Held::$redis;
    $redis->setOption(Redis::OPT_PREFIX, "$n:");
    mark("set-$n");
    until("write-$n");
    $seen = [$redis->getOption(Redis::OPT_PREFIX)];
    $redis->set('secret', $n);
    mark("wrote-$n");
    until("read-$n");
    $seen[] = $redis->get('secret');
    $redis->setOption(Redis::OPT_PREFIX, '');
    return $seen;
}
function keep_options() { Held::$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_NONE); return 7; }
function look_at_options() { Held::$redis->set('without', 'plain'); return [Held::$redis->get('without'), Held::$redis->getOption(Redis::OPT_PREFIX), Held::$redis->getOption(Redis::OPT_SERIALIZER)]; }
function raw_value() { return Held::$redis->rawCommand('GET', 'without'); }
function change_prefix() { Held::$store->setOption(Memcached::OPT_PREFIX_KEY, 'mine:'); Held::$store->set('a', 33); mark('first'); until('go'); return [Held::$store->get('a'), Held::$store->getOption(Memcached::OPT_PREFIX_KEY)]; }
function memory_after_many_stores()
{
    $before = memory_get_usage();
    for ($n = 0; $n < 1000; $n++) { (new Memcached)->setOption(Memcached::OPT_PREFIX_KEY, str_repeat('x', 100)); }
    return memory_get_usage() - $before < 50000;
}
function look_at_prefix() { return [Held::$store->get('a'), Held::$store->getOption(Memcached::OPT_PREFIX_KEY)]; }
/** `$n` is phpredis' read timeout in seconds. */
function subscribe($n) { $redis = Held::$redis; set_time_limit(1); $redis->setOption(Redis::OPT_READ_TIMEOUT, (float) $n); $redis->subscribe(['x'], fn () => null); }
function select_redis()
{
    Held::$redis->select(3);
    Held::$redis->set('a', 33);
    mark('first');
    until('go');
    return [(int) Held::$redis->get('a'), Held::$redis->getDbNum()];
}
/** `$n` is the database. */
function keep_database($n)
{
    Held::$redis->select((int) $n);
    mark('kept', $n);
    until('go');
    Held::$redis->set('mine', $n);
    return (int) Held::$redis->get('mine');
}
function mine() { return Held::$redis->get('mine'); }
function set_memcached() { Held::$store->set('a', 1); mark('first'); until('go'); return Held::$store->get('a'); }
function look_memcached() { return Held::$store->get('a'); }
function delayed_memcached() { Held::$store->getDelayed(['a']); mark('first'); until('go'); return Held::$store->fetchAll()[0]['value']; }
function wait_memcached() { mark('look'); return Held::$store->get('b'); }
"#;

const FIBERS: &str = r#"svc_worker_request_fibers_active{worker="0"}"#;

const SHARED: &str = "Held::$db = connect(); Held::$other = connect(); ask(); ask(Held::$other);
    Held::$place = Svc\\per_request(Place::class, fn () => new Place, null, 1);";

fn constants_of(database: &Database) -> Value {
    json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD})
}

/// Runs a test with each database server: one thread for requests and one for tasks.
fn with_each(test: impl Fn(&TaskServer)) {
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        println!("{}", database.dsn());
        let server = server_with(CODE, &constants_of(&database));
        test(&server.set("RUNTIME_HOOKS", "all").set("ASYNC_WORKERS", "1"));
    }
}

fn with_held(test: impl Fn(&TaskSvc)) {
    with_each(|server| test(&server.start_with(Mode::Worker, SHARED)));
}

/// Starts two requests: the first one holds what the second one needs, and waits for what the second one holds.
fn cross(server: &TaskSvc, first: &str, second: &str) -> (Client, Client) {
    server.unmark(&["first", "second"]);
    let one = server.send(first, "0");
    server.until(if first == "begin_then_lock" { "second" } else { "first" });
    let other = server.send(second, "0");
    (one, other)
}

#[test]
fn connections_are_lent_where_requests_would_wait_for_each_other() {
    with_held(|server| {
        let crossed = [("query_then_session", "session_then_query"), ("query_then_lock", "lock_then_query")];
        for (first, second) in crossed {
            println!("{first} beside {second}");
            let (mut one, mut other) = cross(server, first, second);
            answers(&mut other, "7");
            answers(&mut one, "7");
        }
    });
}

/// The lender keeps the rows that its client library has buffered.
#[test]
fn a_lender_keeps_the_rows_of_its_results() {
    with_held(|server| {
        for (first, rows) in [("rows_then_lock", "[1,2,3]"), ("result_then_lock", "[1,2]")] {
            let (mut one, mut other) = cross(server, first, "lock_then_query");
            answers(&mut other, "7");
            answers(&mut one, rows);
        }
    });
}

#[test]
fn connections_that_requests_have_opened_are_lent_too() {
    with_each(|server| {
        let server = server.start(Mode::Worker);
        let (mut one, mut other) = cross(&server, "open_then_other", "open_other_then_first");
        answers(&mut other, "7");
        answers(&mut one, "7");
    });
}

#[test]
fn where_a_transaction_is_open_the_younger_is_refused() {
    with_held(|server| {
        let (mut older, mut younger) = cross(server, "begin_then_session", "session_then_query");
        assert_like(&younger.response().text(), "Svc\\ConnectionBusyError: *");
        answers(&mut older, "7");
        // The older request has the lock, and the younger one the transaction.
        server.unmark(&["first", "second"]);
        let mut older = server.send("lock_then_look", "0");
        server.until("second");
        let mut younger = server.send("begin_then_lock", "0");
        assert_like(&younger.response().text(), "Svc\\ConnectionBusyError: *");
        answers(&mut older, "7");
    });
}

/// The end of the first request rolls its transaction back.
#[test]
fn a_connection_on_which_a_transaction_was_left_open_is_lent_again() {
    with_held(|server| {
        assert_eq!(server.tell("leave_transaction"), "7");
        let (mut one, mut other) = cross(server, "query_then_lock", "lock_then_query");
        answers(&mut other, "7");
        answers(&mut one, "7");
    });
}

#[test]
fn a_task_that_waits_for_a_connection_can_be_cancelled() {
    with_each(|server| {
        let server = server.clone().entry("Held::$db = connect();").start_with(Mode::Worker, SHARED);
        assert_eq!(server.tell("cancel_a_waiter"), r#"["Svc\\Async\\CancelledException",7,7]"#);
    });
}

#[test]
fn a_place_is_given_back_alone() {
    with_held(|server| {
        let (mut older, mut younger) = cross(server, "place_then_session", "session_then_place");
        assert_like(&younger.response().text(), "Svc\\ConnectionBusyError: *");
        answers(&mut older, "7");
    });
}

#[test]
fn an_awaiting_task_lends_to_the_awaited_one() {
    with_each(|server| {
        let server = server.clone().entry("Held::$db = connect();").start_with(Mode::Worker, SHARED);
        assert_eq!(server.tell_in_task("query_and_await"), "7");
    });
}

/// An await is an edge of the graph: two tasks that await each other do not wait for a time limit.
#[test]
fn a_task_awaited_in_a_transaction_is_refused_at_once() {
    with_each(|server| {
        let server = server.clone().entry("Held::$db = connect();").start_with(Mode::Worker, SHARED);
        let cases = [
            ("begin_and_await", r#"["Svc\\ConnectionBusyError",7]"#),
            ("begin_and_await_all", r#"["Svc\\ConnectionBusyError",7]"#),
            ("begin_and_await_any", "[5,7]"),
            ("begin_and_await_both", r#"["Svc\\Async\\AggregateException",7]"#),
            ("begin_and_await_deep", r#"["Svc\\Async\\TaskException: Connection is used by a request *",7]"#),
            ("await_itself", r#""Svc\\Async\\Exception: Tasks cannot be awaited here: *""#),
            (
                "await_each_other",
                r#"[["[\"Svc\\\\Async\\\\Exception: Tasks cannot*"],["Svc\\Async\\Exception: Tasks cannot*"]]"#,
            ),
        ];
        for (function, expected) in cases {
            println!("{function}");
            assert_like(&server.tell_in_task(function), expected);
        }
        assert_eq!(server.tell_in_task("query_and_await"), "7");
    });
}

#[test]
fn requests_that_wait_for_each_other_through_others_come_to_an_end() {
    with_held(|server| {
        let (mut one, mut other) = cross(server, "ask_and_poll", "ask_and_tell");
        answers(&mut other, "7");
        answers(&mut one, "7");
    });
}

/// Without the rule, the request that polls keeps the connection until its time limit.
#[test]
fn a_lock_of_the_session_that_was_not_taken_is_no_state() {
    with_held(|server| {
        for way in ["column", "row", "all", "prepared column", "prepared row", "prepared all"] {
            server.unmark(&["first", "second"]);
            let mut polls = server.send("poll_for_lock", &way.replace(' ', "%20"));
            server.until("first");
            assert_eq!(server.tell("look"), "7", "{way}");
            // A borrower's lock ends with its request, although another one has tried to take a lock.
            assert_eq!(server.tell("take_lock"), "7", "{way}");
            eventually("it is free", || server.tell("is_own_lock_free") == "true");
            server.mark("second");
            answers(&mut polls, "7");
        }
        // A lock that was taken is, and so is one of which nothing is known.
        for statement in 0..6 {
            server.unmark(&["first", "second"]);
            let mut holds = server.send("pause_with_statement", &statement.to_string());
            server.until("first");
            let mut waits = looks_in_vain(server, "look", "1");
            server.mark("second");
            answers(&mut holds, "7");
            answers(&mut waits, "7");
        }
    });
}

#[test]
fn session_state_of_a_request_is_not_visible_to_others() {
    with_held(|server| {
        let (mut one, mut changing) = cross(server, "stateful_and_poll", "change_state");
        server.until("look");
        // The later request borrowed the other connection meanwhile: the first one has waited for just as long.
        assert_eq!(server.tell("ask_other"), "7");
        assert!(!server.marked("changed"));
        server.mark("go");
        assert_like(&one.response().text(), "\"*\"");
        answers(&mut changing, "7");
    });
}

#[test]
fn a_client_that_does_not_read_blocks_no_other_request() {
    with_each(|server| {
        let server = server.clone().set("SPOOL_MAX_BYTES", "0").directive("output_buffering=0");
        let server = server.start_with(Mode::Worker, SHARED);
        let mut slow = server.send("page", "0");
        server.until("first");
        assert_eq!(server.tell("look"), "7");
        assert_like(&slow.response().text(), "xxx*7");
        std::fs::remove_file(server.path("first")).unwrap();
        let mut slow = server.send("page_inside", "0");
        server.until("first");
        let mut other = looks_in_vain(&server, "look", "1");
        assert_like(&slow.response().text(), "xxx*7");
        answers(&mut other, "7");
    });
}

#[test]
fn connections_are_not_released_in_the_middle_of_a_result() {
    with_held(|server| {
        for (function, refusals) in
            [("release_in_loop", 2), ("release_in_fetches", 2), ("release_in_callback", 3)]
        {
            let _ = std::fs::remove_file(server.path("refused"));
            assert_eq!(server.tell(function), "[1,2,3]", "{function}");
            assert!(server.lines("refused").len() >= refusals, "{function}: {:?}", server.lines("refused"));
        }
        assert_eq!(server.tell("release_before_fetching"), "[1,2]");
        assert_eq!(server.tell("release_and_keep"), "7");
    });
}

#[test]
fn a_borrower_leaves_no_lock() {
    with_held(|server| {
        let mut one = server.send("pause_in_loop", "0");
        server.until("first");
        assert_eq!(server.tell("take_lock"), "7");
        // Its request ends after its response.
        eventually("it is free", || server.tell("is_lock_free") == "true");
        // A borrower whose lender has ended leaves no lock either.
        let mut other = server.send("pause_after_lender", "0");
        server.until("borrowed");
        server.mark("second");
        answers(&mut one, "[1,2]");
        server.mark("lender-gone");
        answers(&mut other, "7");
        eventually("it is free again", || server.tell("is_lock_free") == "true");
    });
}

/// The borrower may release the connection although the lender has unread rows.
#[test]
fn connections_are_released_in_the_middle_of_anothers_result() {
    with_held(|server| {
        let mut one = server.send("pause_in_loop", "0");
        server.until("first");
        assert_eq!(server.tell("ask_and_release"), "7");
        server.mark("second");
        answers(&mut one, "[1,2]");
    });
}

#[test]
fn a_wait_for_a_stranded_task_owns_no_connection() {
    with_held(|server| {
        server.close_gate("stranded");
        let mut leaving = server.send("leave_stranded", "0");
        answers(&mut leaving, "7");
        assert_eq!(server.tell("look"), "7");
        eventually("the one that has looked has ended, the other one waits", || {
            server.svc.metric(FIBERS) == 1.0
        });
        server.open_gate("stranded");
        eventually("it has ended", || server.svc.metric(FIBERS) == 0.0);
    });
}

fn with_redis(test: impl Fn(&TaskSvc)) {
    let Some(((store, extensions), database)) =
        databases::redis().zip(fetched("php-extensions")).zip(databases::mariadb())
    else {
        return;
    };
    let mut constants = constants_of(&database);
    constants["STORE"] = json!(store.address().port());
    let server = server_with(CODE, &constants).set("RUNTIME_HOOKS", "all");
    let server = server.directive(&format!("extension={extensions}/redis.so"));
    let connect = "Held::$redis = new Redis; Held::$redis->connect('127.0.0.1', STORE);";
    test(&server.start_with(Mode::Worker, &format!("{SHARED} {connect}")));
}

#[test]
fn a_lock_in_redis_that_is_polled_for_does_not_keep_its_holder_waiting() {
    with_redis(|server| {
        let (mut one, mut other) = cross(server, "query_then_cache_lock", "cache_lock_then_query");
        answers(&mut other, "7");
        answers(&mut one, "7");
    });
}

#[test]
fn redis_is_owned_for_a_call() {
    with_redis(|server| {
        let mut one = server.send("use_redis", "0");
        server.until("first");
        assert_eq!(server.tell("look_redis"), "1");
        server.mark("go");
        answers(&mut one, "1");
        server.unmark(&["first", "go"]);
        let mut one = server.send("watch_redis", "0");
        server.until("first");
        let mut other = looks_in_vain(server, "wait_redis", "0");
        server.mark("go");
        answers(&mut one, "7");
        answers(&mut other, "1");
    });
}

#[test]
fn the_database_of_redis_that_a_request_selects_is_its_own() {
    with_redis(|server| {
        assert_eq!(server.tell("look_redis"), "0");
        let mut one = server.send("select_redis", "0");
        server.until("first");
        assert_eq!(server.tell("look_redis"), "0", "it is another database");
        let mut many: Vec<_> = (1..=14).map(|n| server.send("keep_database", &n.to_string())).collect();
        eventually("all have one", || server.lines("kept").len() == many.len());
        server.mark("go");
        answers(&mut one, "[33,3]");
        for (n, client) in many.iter_mut().enumerate() {
            answers(client, &(n + 1).to_string());
        }
        assert_eq!(server.tell("look_redis"), "0");
        assert_eq!(server.tell("mine"), "false");
    });
}

#[test]
fn options_of_redis_that_a_request_sets_are_its_own_as_long_as_it_runs() {
    with_redis(|server| {
        let mut several: Vec<_> = ["x", "y"].map(|prefix| server.send("change_options", prefix)).into();
        eventually("all have changed them", || {
            ["x", "y"].iter().all(|n| server.marked(&format!("changed-{n}")))
        });
        assert_eq!(server.tell("look_at_options"), "[\"plain\",null,0]");
        assert_eq!(server.tell("raw_value"), "\"plain\"");
        server.mark("go");
        for (client, prefix) in several.iter_mut().zip(["x", "y"]) {
            answers(client, &format!("[[7],\"{prefix}\",1]"));
        }
        // Afterwards they apply to all requests, as if the requests had run one after the other.
        assert_eq!(server.tell("look_at_options"), "[\"plain\",null,1]");
        assert_eq!(server.tell("raw_value"), "\"s:5:\\\"plain\\\";\"");
        server.tell("keep_options");
        assert_eq!(server.tell("look_at_options"), "[\"plain\",null,0]");
    });
}

#[test]
fn options_of_redis_are_each_tenants_own_in_any_order() {
    for order in [["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]] {
        with_redis(|server| {
            let mut clients: Vec<_> = ["a", "b", "c"]
                .into_iter()
                .map(|tenant| {
                    let client = server.send("tenant", tenant);
                    server.until(&format!("set-{tenant}"));
                    (tenant, client)
                })
                .collect();
            for tenant in order {
                server.mark(&format!("write-{tenant}"));
                server.until(&format!("wrote-{tenant}"));
            }
            for tenant in order {
                server.mark(&format!("read-{tenant}"));
                let (_, client) = clients.iter_mut().find(|(name, _)| *name == tenant).unwrap();
                answers(client, &format!("[\"{tenant}:\",\"{tenant}\"]"));
            }
        });
    }
}

#[test]
fn a_subscription_ends_at_the_time_limit() {
    with_redis(|server| {
        for timeout in ["-1", "120"] {
            assert_eq!(server.send("subscribe", timeout).response().status, 504);
            assert_eq!(server.tell("use_redis_once"), "1");
        }
    });
}

#[test]
fn memcached_is_owned_for_a_call() {
    let Some((store, extensions)) = databases::memcached().zip(fetched("php-extensions")) else { return };
    let server = server_with(CODE, &json!({"STORE": store.address().port()}));
    let server = server.directive(&format!("extension={extensions}/memcached.so"));
    let boot = "Held::$store = new Memcached; Held::$store->addServer('127.0.0.1', STORE); Held::$store->set('b', 2);";
    let server = server.start_with(Mode::Worker, boot);
    let mut one = server.send("set_memcached", "0");
    server.until("first");
    assert_eq!(server.tell("look_memcached"), "1");
    server.mark("go");
    answers(&mut one, "1");
    server.unmark(&["first", "go"]);
    let mut one = server.send("delayed_memcached", "0");
    server.until("first");
    let mut other = looks_in_vain(&server, "wait_memcached", "0");
    server.mark("go");
    answers(&mut one, "1");
    answers(&mut other, "2");
    server.unmark(&["first", "go"]);
    let mut one = server.send("change_prefix", "0");
    server.until("first");
    assert_eq!(server.tell("look_at_prefix"), "[1,\"\"]");
    server.mark("go");
    answers(&mut one, "[33,\"mine:\"]");
    assert_eq!(server.tell("look_at_prefix"), "[33,\"mine:\"]");
}

#[test]
fn options_of_a_store_are_freed_with_it() {
    let Some(extensions) = fetched("php-extensions") else { return };
    let server = server_with(CODE, &json!({})).directive(&format!("extension={extensions}/memcached.so"));
    let server = server.start_with(Mode::Worker, "");
    assert_eq!(server.tell("memory_after_many_stores"), "true");
}
