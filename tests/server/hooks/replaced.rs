//! Connections that a request replaces, loses or drops while other requests of its thread use them.

use serde_json::json;

use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::proxy::{Direction, Proxy};
use svc_testing::tasks::{Mode, TaskSvc, assert_like};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $db, $redis, $easy; }
function session(): void { session_save_path(DIR); session_id('same'); session_start(['use_cookies' => false, 'cache_limiter' => '']); }
function outlast_patience() { Svc\sleep(1.2); return 7; }

/** Variables that all requests share. */
function mysqli(): mysqli { return mysqli_connect('127.0.0.1', USER, PASSWORD, NAME, PORT); }
function &shared() { static $db; $db ??= mysqli(); return $db; }
function &rows() { static $rows; $rows ??= shared()->query('SELECT 1 UNION ALL SELECT 2'); return $rows; }
function replace($n)
{
    shared()->query('SELECT 1');
    mark('first');
    until('second');
    $n === 'rows' ? $variable = &rows() : $variable = &shared();
    $variable = null;
    $filler = array_fill(0, 64, str_repeat('x', 500));
    return count($filler);
}
function read_property() { $db = &shared(); mark('look'); return $db->errno; }
function ask_for_property() { $db = &shared(); mark('look'); return isset($db->errno); }
function read_rows() { $rows = &rows(); mark('look'); $seen = []; foreach ($rows as $row) { $seen[] = (int) reset($row); } return $seen; }

/** The statement outlives the object of its connection. */
function execute_without_object()
{
    $statement = Held::$db->prepare('INSERT INTO visits (who) VALUES (1)');
    Held::$db->query('INSERT INTO visits (who) VALUES (2)');
    mark('first');
    until('second');
    session();
    Held::$db = null;
    try { return $statement->execute(); } catch (mysqli_sql_exception) { return 'lost'; }
}
function make_in_session() { session(); mark('second'); Held::$db->query('INSERT INTO visits (who) VALUES (3)'); return Held::$db->insert_id > 0; }

function connected(): Redis { $redis = new Redis; $redis->connect('127.0.0.1', REDIS, 60, null, 0, 4.0); return $redis; }
function boot_redis(): void
{
    Held::$redis = connected();
    Held::$redis->flushAll();
    foreach ([3 => 'three', 0 => 'home'] as $number => $who) { Held::$redis->select($number); Held::$redis->set('who', $who); }
}
function who() { return Held::$redis->get('who'); }
function who_in_three() { Held::$redis->select(3); mark('first'); until('second'); return who(); }
function overwrite() { return Held::$redis->set('who', 'foreign'); }
function select_three() { return Held::$redis->select(3); }
/** Connects lazily to a server that is not there: only a command fails. */
function make_lazily() { $redis = new Redis(['host' => '127.0.0.1', 'port' => 1, 'connectTimeout' => 0.1]); try { $redis->ping(); return 'answered'; } catch (RedisException) { return 'lazy'; } }
/** Both an option and a database of the request have to be applied again. */
function with_prefix_in_three()
{
    Held::$redis->select(3);
    Held::$redis->setOption(Redis::OPT_PREFIX, 'own:');
    Held::$redis->set('who', 'mine');
    mark('first');
    until('second');
    return [who(), prefix()];
}
function connect_again($n) { Held::$redis->connect('127.0.0.1', REDIS, 60, null, 0, 4.0); return who(); }
function block() { $block = Held::$redis->multi(); $block->echo('own'); mark('first'); until('second'); return $block->exec(); }
function connect_persistently() { mark('look'); Held::$redis->pconnect('127.0.0.1', REDIS); return who(); }
function prefix() { return Held::$redis->getOption(Redis::OPT_PREFIX); }
function keep_prefix($n)
{
    Held::$redis->setOption(Redis::OPT_PREFIX, "$n:");
    mark("set-$n");
    foreach ([1, 2] as $turn) { until("turn-$turn-$n"); mark("did-$turn-$n", prefix()); }
    return prefix();
}

/** The multi handle is freed while it has the easy handle. */
function boot_curl(): void { Held::$easy = curl_init('file://' . __FILE__); curl_setopt(Held::$easy, CURLOPT_RETURNTRANSFER, true); }
function drop_multi() { $multi = curl_multi_init(); curl_multi_add_handle($multi, Held::$easy); curl_multi_exec($multi, $running); $multi = null; return 7; }
function transfer() { return strlen(curl_exec(Held::$easy)) === filesize(__FILE__); }
function transfer_and_wait() { $is_whole = transfer(); mark('first'); until('second'); return $is_whole; }

/** Each call makes an object for the connection of the thread, and drops it. */
function piece(string $sql)
{
    $connection = pg_pconnect(PG . ' user=' . USER . ' password=' . PASSWORD);
    $row = pg_fetch_row(pg_query($connection, $sql));
    pg_close($connection);
    return $row[0] ?? null;
}
function begin_in_pieces($n)
{
    piece('BEGIN');
    piece('INSERT INTO visits (who) VALUES (1)');
    mark('first');
    until('second');
    if ($n === 'session') { session(); }
    piece('ROLLBACK');
    return 7;
}
function insert_piece() { mark('look'); piece('INSERT INTO visits (who) VALUES (2)'); return 7; }
function insert_in_session() { session(); mark('second'); return insert_piece(); }
function count_pieces() { return (int) piece('SELECT count(*) FROM visits'); }
/** The object of the boot script is dropped inside a transaction. */
function drop_of_boot() { pg_query(Held::$db, 'BEGIN'); pg_query(Held::$db, 'INSERT INTO visits (who) VALUES (3)'); pg_close(Held::$db); Held::$db = null; return 7; }
function release_in_pieces()
{
    piece('BEGIN');
    try { Svc\release_connections(); } catch (LogicException) { return 'refused'; } finally { piece('ROLLBACK'); }
}
"#;

fn with_mariadb(boot: &str, test: impl Fn(&TaskSvc)) {
    let Some(my) = databases::mariadb() else { return };
    my.query("CREATE TABLE visits (id INT PRIMARY KEY AUTO_INCREMENT, who TEXT)");
    let constants =
        json!({"NAME": my.name(), "PORT": my.address().port(), "USER": USER, "PASSWORD": PASSWORD});
    test(&server_with(CODE, &constants).set("RUNTIME_HOOKS", "all").start_with(Mode::Worker, boot));
}

/// Runs a test with Redis behind a proxy.
fn with_redis(test: impl Fn(&TaskSvc, &Proxy)) {
    let Some((redis, extensions)) = databases::redis().zip(fetched("php-extensions")) else { return };
    let proxy = Proxy::tcp(redis.address());
    let server = server_with(CODE, &json!({"REDIS": proxy.address().port()})).set("RUNTIME_HOOKS", "all");
    let server = server.directive(&format!("extension={extensions}/redis.so"));
    test(&server.start_with(Mode::Worker, "boot_redis();"), &proxy);
}

/// The engine reads properties and begins loops without a reference to the object.
#[test]
fn an_object_that_is_replaced_during_a_wait_is_not_freed() {
    for (reader, replaced, expected) in [
        ("read_property", "connection", "0"),
        ("ask_for_property", "connection", "true"),
        ("read_rows", "rows", "[1,2]"),
        ("read_rows", "connection", "[1,2]"),
    ] {
        println!("{reader}, {replaced}");
        with_mariadb("rows();", |server| {
            let mut owner = server.send("replace", replaced);
            server.until("first");
            let mut other = looks_in_vain(server, reader, "0");
            server.mark("second");
            answers(&mut owner, "64");
            let response = other.response();
            assert_eq!(response.status, 200);
            assert_eq!(response.text(), expected);
        });
    }
}

#[test]
fn a_statement_without_the_object_of_its_connection_has_no_last_id() {
    with_mariadb("Held::$db = mysqli();", |server| {
        let mut one = server.send("execute_without_object", "0");
        server.until("first");
        answers(&mut server.send("make_in_session", "0"), "true");
        answers(&mut one, "\"lost\"");
        assert_like(&server.tell("strrev"), "\"*\"");
    });
}

/// Redis does not answer when the database of the next request is selected.
#[test]
fn a_selection_that_fails_changes_no_database() {
    with_redis(|server, proxy| {
        let mut one = server.send("who_in_three", "0");
        server.until("first");
        proxy.gate(Direction::ToClient).close();
        assert_like(&server.tell("overwrite"), "RedisException: *");
        proxy.gate(Direction::ToClient).open();
        assert_eq!(server.tell("who"), "\"home\"");
        server.mark("second");
        answers(&mut one, "\"three\"");
        assert_eq!(server.tell("who"), "\"home\"");
    });
}

/// The server of the selected database is gone, and the application connects to another one.
#[test]
fn a_connection_can_be_replaced_when_its_database_cannot_be_selected() {
    with_redis(|server, proxy| {
        assert_eq!(server.tell("select_three"), "true");
        proxy.gate(Direction::ToClient).close();
        assert_like(&server.tell("who"), "RedisException: *");
        proxy.gate(Direction::ToClient).open();
        assert_eq!(server.tell("connect_again"), "\"home\"");
        assert_eq!(server.tell("make_lazily"), "\"lazy\"");
    });
}

#[test]
fn a_failed_selection_leaves_the_options_of_each_request() {
    with_redis(|server, proxy| {
        let mut one = server.send("with_prefix_in_three", "0");
        server.until("first");
        proxy.gate(Direction::ToClient).close();
        assert_like(&server.tell("overwrite"), "RedisException: *");
        proxy.gate(Direction::ToClient).open();
        assert_eq!(server.tell("who"), "\"home\"");
        assert_eq!(server.tell("prefix"), "null");
        server.mark("second");
        answers(&mut one, "[\"mine\",\"own:\"]");
    });
}

#[test]
fn a_request_keeps_its_database_when_another_one_connects_again() {
    with_redis(|server, _| {
        let mut one = server.send("who_in_three", "0");
        server.until("first");
        assert_eq!(server.tell("connect_again"), "\"home\"");
        server.mark("second");
        answers(&mut one, "\"three\"");
        assert_eq!(server.tell("who"), "\"home\"");
    });
}

#[test]
fn a_store_becomes_persistent_when_its_owner_has_ended() {
    with_redis(|server, _| {
        let mut one = server.send("block", "0");
        server.until("first");
        let mut persistent = looks_in_vain(server, "connect_persistently", "0");
        let mut other = server.send("who", "0");
        server.mark("second");
        answers(&mut one, "[\"own\"]");
        answers(&mut persistent, "\"home\"");
        answers(&mut other, "\"home\"");
    });
}

/// An option becomes that of all requests when the request that has set it ends, except of those that have set it, too.
#[test]
fn the_end_of_another_request_leaves_a_request_its_option() {
    with_redis(|server, _| {
        let turn = |turn: u8, n: &str| {
            server.mark(&format!("turn-{turn}-{n}"));
            server.until(&format!("did-{turn}-{n}"));
        };
        let mut clients = ["a", "b", "c"].map(|n| {
            let client = server.send("keep_prefix", n);
            server.until(&format!("set-{n}"));
            client
        });
        turn(1, "a");
        turn(1, "b");
        turn(2, "b");
        answers(&mut clients[1], "\"b:\"");
        assert_eq!(server.tell("prefix"), "\"b:\"");
        turn(1, "c");
        turn(2, "c");
        answers(&mut clients[2], "\"c:\"");
        turn(2, "a");
        answers(&mut clients[0], "\"a:\"");
        assert_eq!(server.lines("did-2-a"), ["a:"]);
        assert_eq!(server.tell("prefix"), "\"a:\"");
    });
}

#[test]
fn an_easy_handle_leaves_its_multi_handle_when_that_is_freed() {
    let server = server_with(CODE, &json!({})).set("RUNTIME_HOOKS", "all");
    let server = server.start_with(Mode::Worker, "boot_curl();");
    assert_eq!(server.tell("drop_multi"), "7");
    let mut one = server.send("transfer_and_wait", "0");
    server.until("first");
    // The handle is leased for a call.
    assert_eq!(server.tell("transfer"), "true");
    server.mark("second");
    answers(&mut one, "true");
}

/// The transaction of a connection is found although no object has it.
#[test]
fn a_transaction_of_pg_pconnect_is_kept_without_an_object() {
    let Some(pg) = databases::postgres() else { return };
    pg.query("CREATE TABLE visits (id SERIAL PRIMARY KEY, who TEXT)");
    let dsn = pg.dsn().replace("pgsql:", "").replace(';', " ");
    let constants = json!({"PG": dsn, "USER": USER, "PASSWORD": PASSWORD});
    let server = server_with(CODE, &constants).set("RUNTIME_HOOKS", "all");
    let boot = "Held::$db = pg_pconnect(PG . ' user=' . USER . ' password=' . PASSWORD);";
    let server = server.start_with(Mode::Worker, boot);
    assert_eq!(server.tell("drop_of_boot"), "7");
    assert_eq!(server.tell("count_pieces"), "0", "the transaction was rolled back");
    let mut one = server.send("begin_in_pieces", "session");
    server.until("first");
    assert_like(&server.send("insert_in_session", "0").response().text(), "Svc\\ConnectionBusyError: *");
    answers(&mut one, "7");
    server.unmark(&["first", "second"]);
    let mut one = server.send("begin_in_pieces", "pause");
    server.until("first");
    let mut other = looks_in_vain(&server, "insert_piece", "0");
    assert_eq!(server.tell("outlast_patience"), "7");
    server.mark("second");
    answers(&mut one, "7");
    answers(&mut other, "7");
    assert_eq!(server.tell("count_pieces"), "1");
    assert_eq!(server.tell("release_in_pieces"), "\"refused\"");
}
