//! Persistent connections, which several objects share: they are lent like others, and what a request leaves in a session
//! stays its own, whichever object it uses.

use serde_json::json;

use svc_testing::client::Client;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc, assert_like};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $kept; }
function open()
{
    return match (DRIVER) {
        'mysql', 'pgsql' => new PDO(DRIVER . ':' . DSN, USER, PASSWORD, [PDO::ATTR_PERSISTENT => true, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]),
        'sqlite' => new PDO('sqlite:' . DIR . '/persistent', options: [PDO::ATTR_PERSISTENT => true, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]),
        'mysql connect' => PDO::connect('mysql:' . DSN, USER, PASSWORD, [PDO::ATTR_PERSISTENT => true]),
        'mysqli' => new mysqli('p:127.0.0.1', USER, PASSWORD, NAME, PORT),
        'mysqli_connect' => mysqli_connect('p:127.0.0.1', USER, PASSWORD, NAME, PORT),
        'pg_pconnect' => pg_pconnect(str_replace(';', ' ', DSN) . ' user=' . USER . ' password=' . PASSWORD),
    };
}
function one($db, string $sql)
{
    return match (true) {
        $db instanceof PDO => $db->query($sql)->fetchAll(PDO::FETCH_COLUMN)[0],
        $db instanceof mysqli => $db->query($sql)->fetch_row()[0],
        default => pg_fetch_all_columns(pg_query($db, $sql))[0],
    };
}
function execute($db, string $sql): void { $db instanceof PDO ? $db->exec($sql) : ($db instanceof mysqli ? $db->query($sql) : pg_query($db, $sql)); }
function ask($db): int { return (int) one($db, 'SELECT 7'); }
function make($db): int
{
    execute($db, "INSERT INTO visits (who) VALUES ('x')");
    return last_id($db);
}
function last_id($db): int
{
    return (int) match (true) {
        $db instanceof PDO => $db->lastInsertId(),
        $db instanceof mysqli => $db->insert_id,
        default => one($db, 'SELECT lastval()'),
    };
}
function create() { execute(open(), DRIVER === 'sqlite' ? 'CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, who TEXT)' : 'SELECT 1'); return 7; }
function is_mysql(): bool { return str_starts_with(DRIVER, 'mysql'); }
function session(): void { session_save_path(DIR); session_id('same'); session_start(['use_cookies' => false, 'cache_limiter' => '']); }
function lock() { $file = fopen(DIR . '/a.lock', 'c'); flock($file, LOCK_EX); return $file; }
function wait_for(string $what) { mark('first'); until('second'); return $what === 'lock' ? lock() : session(); }
function has(string $what) { $lock = $what === 'lock' ? lock() : session(); mark('second'); return $lock; }

function keep_and_wait($n) { $db = open(); ask($db); $lock = wait_for($n); return ask($db); }
function open_again_and_wait($n) { ask(open()); $lock = wait_for($n); return ask(open()); }
function two_and_wait($n) { $one = open(); $other = open(); ask($one); ask($other); $one = null; $lock = wait_for($n); return ask($other); }
function only_open_and_wait($n) { $db = open(); $lock = wait_for($n); return ask($db); }
function boot_and_wait($n) { ask(Held::$kept); $lock = wait_for($n); return ask(Held::$kept); }
function close_and_wait($n) { $db = open(); pg_query($db, 'BEGIN'); pg_close($db); $lock = wait_for($n); return ask(open()); }
/** The borrower opens the connection with other attributes. */
function be_silent($n) { $lock = has($n); $db = new PDO(DRIVER . ':' . DSN, USER, PASSWORD, [PDO::ATTR_PERSISTENT => true, PDO::ATTR_ERRMODE => PDO::ERRMODE_SILENT, PDO::ATTR_CASE => PDO::CASE_UPPER]); return [@$db->query('SELECT x FROM nothing'), array_keys($db->query('SELECT 7 AS n')->fetchAll(PDO::FETCH_ASSOC)[0])]; }
function fail_after_wait($n)
{
    $db = open();
    ask($db);
    $lock = wait_for($n);
    try { $db->query('SELECT x FROM nothing'); } catch (PDOException) { return [$db->getAttribute(PDO::ATTR_ERRMODE) === PDO::ERRMODE_EXCEPTION, array_keys($db->query('SELECT 7 AS n')->fetchAll(PDO::FETCH_ASSOC)[0])]; }
}
/** Leaves rows with the server, read through an object that is not the first one of the connection. */
function leave_rows()
{
    $db = open();
    $db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
    $statement = $db->query('SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3');
    $statement->fetch();
    $GLOBALS['left'] = [$db, $statement];
    return 7;
}
function ask_kept() { Held::$kept->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true); return ask(Held::$kept); }
function release_after_drop() { $db = open(); $db->beginTransaction(); $db = null; Svc\release_connections(); return ask(open()); }
function begin_and_wait($n) { $db = open(); execute($db, 'BEGIN'); ask($db); $lock = wait_for($n); execute($db, 'COMMIT'); return 7; }
function begin_and_drop($n) { execute(open(), 'BEGIN'); $lock = wait_for($n); return ask(open()); }
function query_inside($n) { $lock = has($n); return ask(open()); }

/** Whether the ID is that of the request, however the request gets at its connection. */
function make_and_wait($n) { $db = open(); $made = make($db); $lock = wait_for($n); return last_id($db) === $made; }
function make_and_wait_for_another($n) { $db = open(); $made = make($db); $lock = wait_for($n); return last_id(open()) === $made; }
function make_and_drop($n) { $made = make(open()); $lock = wait_for($n); return last_id(open()) === $made; }
function make_and_drop_all($n) { $made = make(open()); $lock = wait_for($n); ask(open()); $db = open(); return (int) one($db, is_mysql() ? 'SELECT LAST_INSERT_ID()' : 'SELECT lastval()') === $made; }
function make_inside($n) { $lock = has($n); $db = open(); $made = make($db); return last_id($db) === $made; }

/** State of the session, set through an object that may be gone. */
function change($db, string $to): void
{
    execute($db, is_mysql() ? "SET @mine = '$to'" : "SET application_name = '$to'");
}
function look_at($db): string { return (string) one($db, is_mysql() ? 'SELECT @mine' : 'SHOW application_name'); }
function change_and_pause($n)
{
    $db = open();
    $other = $n === 'other' ? open() : null;
    change($db, 'own');
    if ($n === 'other') { $db = $other; }
    if ($n === 'dropped') { $db = null; }
    mark('first');
    until('second');
    return look_at($db ?? open());
}
function change_it() { mark('look'); change(open(), 'foreign'); return 7; }

function held_lock() { return is_mysql() ? "SELECT IS_USED_LOCK('own') = CONNECTION_ID()" : "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 5 AND pid = pg_backend_pid()"; }
function lock_and_wait($n)
{
    $db = $n === 'boot' ? Held::$kept : open();
    one($db, is_mysql() ? "SELECT GET_LOCK('own', 0)" : 'SELECT pg_try_advisory_lock(5)');
    $lock = wait_for('session');
    until('gone');
    return (int) one($db, held_lock());
}
function query_and_go($n) { has('session'); return ask($n === 'boot' ? Held::$kept : open()); }

/** Stores. */
function redis() { $redis = new Redis; $redis->pconnect('127.0.0.1', REDIS); return $redis; }
function memcached() { $store = new Memcached('id'); $store->getServerList() || $store->addServer('127.0.0.1', MEMCACHED); return $store; }
function cache_lock($redis): void { while (!$redis->set('lock', '1', ['nx', 'ex' => 60])) { usleep(10000); } }
function poll_in_redis() { $redis = redis(); $redis->get('a'); mark('first'); until('second'); cache_lock($redis); $redis->del('lock'); return 7; }
function lock_in_redis() { $redis = redis(); cache_lock($redis); mark('second'); $redis->set('a', 1); usleep(20000); $redis->del('lock'); return 7; }
function poll_in_memcached() { $store = memcached(); $store->get('a'); mark('first'); until('second'); while (!$store->add('lock', 1)) { usleep(10000); } $store->delete('lock'); return 7; }
function lock_in_memcached() { $store = memcached(); while (!$store->add('lock', 1)) { usleep(10000); } mark('second'); memcached()->set('a', 1); usleep(20000); $store->delete('lock'); return 7; }
function with_prefix() { $store = memcached(); $other = memcached(); $store->setOption(Memcached::OPT_PREFIX_KEY, 'own:'); $other->set('a', 33); mark('first'); until('go'); return [$store->get('a'), $other->getOption(Memcached::OPT_PREFIX_KEY)]; }
function without_prefix() { return memcached()->getOption(Memcached::OPT_PREFIX_KEY); }
"#;

const SESSION_OR_LOCK: [&str; 2] = ["session", "lock"];

/// The drivers of which several objects share a session.
const SHARING: [&str; 2] = ["mysql", "pgsql"];

/// Runs a test with a server for each driver, whose boot script keeps an object of the connection.
fn with_each(drivers: &[&str], test: impl Fn(&str, &TaskSvc)) {
    with_each_booted_by("create(); Held::$kept = open();", drivers, test);
}

fn with_each_booted_by(boot: &str, drivers: &[&str], test: impl Fn(&str, &TaskSvc)) {
    let (Some(my), Some(pg)) = (databases::mariadb(), databases::postgres()) else { return };
    my.query("CREATE TABLE visits (id INT PRIMARY KEY AUTO_INCREMENT, who TEXT)");
    pg.query("CREATE TABLE visits (id SERIAL PRIMARY KEY, who TEXT)");
    for driver in drivers {
        println!("{driver}");
        let dsn = if driver.starts_with("my") { my.dsn() } else { pg.dsn() };
        let (_, dsn) = dsn.split_once(':').unwrap();
        let constants = json!({"DRIVER": driver, "DSN": dsn, "USER": USER, "PASSWORD": PASSWORD,
            "NAME": my.name(), "PORT": my.address().port()});
        let server = server_with(CODE, &constants).set("RUNTIME_HOOKS", "all");
        test(driver, &server.start_with(Mode::Worker, boot));
    }
}

/// Starts two requests: the first one has used the connection and waits for what the second one holds.
fn cross(server: &TaskSvc, first: &str, second: &str, n: &str) -> (Client, Client) {
    println!("{first} beside {second}, {n}");
    server.unmark(&["first", "second"]);
    let one = server.send(first, n);
    server.until("first");
    let other = server.send(second, n);
    (one, other)
}

/// Its objects may be closed without the connection.
#[test]
fn a_connection_of_pg_pconnect_is_not_lent() {
    with_each(&["pg_pconnect"], |_, server| {
        for first in ["keep_and_wait", "open_again_and_wait", "close_and_wait"] {
            for n in SESSION_OR_LOCK {
                let (mut one, mut other) = cross(server, first, "query_inside", n);
                assert_like(&other.response().text(), "Svc\\ConnectionBusyError: *");
                answers(&mut one, "7");
            }
        }
    });
}

#[test]
fn persistent_connections_are_lent_whichever_object_has_them() {
    let drivers = ["mysql", "pgsql", "sqlite", "mysqli", "mysqli_connect", "mysql connect"];
    with_each(&drivers, |_, server| {
        for first in
            ["keep_and_wait", "open_again_and_wait", "two_and_wait", "only_open_and_wait", "boot_and_wait"]
        {
            for n in SESSION_OR_LOCK {
                let (mut one, mut other) = cross(server, first, "query_inside", n);
                answers(&mut other, "7");
                answers(&mut one, "7");
            }
        }
    });
}

/// With mysqli, each object has a session of its own, so the second request does not need that of the first.
#[test]
fn a_transaction_on_a_persistent_connection_is_not_interrupted() {
    with_each(&["mysql", "pgsql", "sqlite", "pg_pconnect"], |_, server| {
        for n in SESSION_OR_LOCK {
            let (mut one, mut other) = cross(server, "begin_and_wait", "query_inside", n);
            assert_like(&other.response().text(), "Svc\\ConnectionBusyError: *");
            answers(&mut one, "7");
        }
    });
}

/// PostgreSQL cannot return to an earlier ID: the request that asks for it learns that.
fn id_of_lender(driver: &str) -> &'static str {
    let lost = "Svc\\ConnectionBusyError: The last ID of this connection*";
    if driver.starts_with('p') { lost } else { "true" }
}

#[test]
fn the_last_id_is_the_requests_own_through_each_object() {
    with_each(&["mysql", "sqlite", "mysqli", "pgsql"], |driver, server| {
        let ways = ["make_and_wait", "make_and_wait_for_another"];
        // Another object of mysqli is another connection, and another one of SQLite has the same.
        for first in if driver == "mysqli" { &ways[..1] } else { &ways[..] } {
            for n in SESSION_OR_LOCK {
                let (mut one, mut other) = cross(server, first, "make_inside", n);
                answers(&mut other, "true");
                assert_like(&one.response().text(), id_of_lender(driver));
            }
        }
    });
}

/// The session outlives its last object, whose transaction PDO rolls back.
#[test]
fn what_a_dropped_object_leaves_in_the_session_is_kept() {
    with_each_booted_by("create();", &SHARING, |driver, server| {
        for first in ["make_and_drop", "make_and_drop_all"] {
            for n in SESSION_OR_LOCK {
                let (mut one, mut other) = cross(server, first, "make_inside", n);
                answers(&mut other, "true");
                assert_like(&one.response().text(), id_of_lender(driver));
            }
        }
        let (mut one, mut other) = cross(server, "begin_and_drop", "query_inside", "lock");
        answers(&mut other, "7");
        answers(&mut one, "7");
        assert_eq!(server.tell("release_after_drop"), "7");
    });
}

#[test]
fn session_state_is_not_lent_whichever_object_has_changed_it() {
    with_each(&SHARING, |_, server| {
        for n in ["same", "other", "dropped"] {
            println!("{n}");
            server.unmark(&["first", "second"]);
            let mut one = server.send("change_and_pause", n);
            server.until("first");
            let mut other = looks_in_vain(server, "change_it", "0");
            server.mark("second");
            answers(&mut one, "\"own\"");
            answers(&mut other, "7");
        }
    });
}

#[test]
fn attributes_of_the_lender_are_its_own() {
    with_each(&SHARING, |_, server| {
        for n in SESSION_OR_LOCK {
            let (mut one, mut other) = cross(server, "fail_after_wait", "be_silent", n);
            answers(&mut other, r#"[false,["N"]]"#);
            answers(&mut one, r#"[true,["n"]]"#);
        }
    });
}

#[test]
fn unread_rows_of_each_object_end_with_their_request() {
    with_each(&["mysql"], |_, server| {
        for _ in 0..2 {
            assert_eq!(server.tell("leave_rows"), "7");
            assert_eq!(server.tell("ask_kept"), "7");
        }
    });
}

/// The end of a borrower releases its own locks, and not those of the lender.
#[test]
fn a_lender_keeps_its_session_locks() {
    with_each(&SHARING, |_, server| {
        for n in ["boot", "own"] {
            println!("{n}");
            server.unmark(&["first", "second", "gone"]);
            let mut one = server.send("lock_and_wait", n);
            server.until("first");
            answers(&mut server.send("query_and_go", n), "7");
            server.mark("gone");
            answers(&mut one, "1");
        }
    });
}

fn with_stores(test: impl Fn(&TaskServer)) {
    let (Some(redis), Some(memcached), Some(extensions)) =
        (databases::redis(), databases::memcached(), fetched("php-extensions"))
    else {
        return;
    };
    let constants = json!({"REDIS": redis.address().port(), "MEMCACHED": memcached.address().port()});
    let server = server_with(CODE, &constants)
        .set("RUNTIME_HOOKS", "all")
        .directive(&format!("extension={extensions}/redis.so"))
        .directive(&format!("extension={extensions}/memcached.so"));
    test(&server);
}

#[test]
fn a_persistent_store_does_not_keep_the_holder_of_a_lock_waiting() {
    with_stores(|server| {
        let server = server.start(Mode::Worker);
        for (first, second) in
            [("poll_in_redis", "lock_in_redis"), ("poll_in_memcached", "lock_in_memcached")]
        {
            let (mut one, mut other) = cross(&server, first, second, "0");
            answers(&mut other, "7");
            answers(&mut one, "7");
        }
    });
}

#[test]
fn options_of_a_persistent_store_are_the_requests_own_through_each_object() {
    with_stores(|server| {
        let server = server.start(Mode::Worker);
        let mut one = server.send("with_prefix", "0");
        server.until("first");
        assert_eq!(server.tell("without_prefix"), "\"\"");
        server.mark("go");
        answers(&mut one, r#"[33,"own:"]"#);
    });
}
