//! Rows and results that arrive later: lazy rows of PDO, and asynchronous queries of mysqli.

use serde_json::json;

use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::hooked::forget;
use svc_testing::tasks::{Mode, TaskServer};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $db, $row, $mysqli; }
function connect(): PDO { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function is_mysql(): bool { return str_starts_with(DSN, 'mysql:'); }
function connect_mysqli(): ?mysqli { return is_mysql() ? new mysqli('127.0.0.1', USER, PASSWORD, NAME, PORT) : null; }
const THREE = "SELECT 1 AS id, 'one' AS name UNION ALL SELECT 2, 'two' UNION ALL SELECT 3, NULL";
function lazy_rows()
{
    $results = [];
    foreach ([true, false] as $buffered) {
        $db = connect();
        if (is_mysql()) { $db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, $buffered); }
        $rows = $db->query(THREE);
        while ($row = $rows->fetch(PDO::FETCH_LAZY)) {
            $results[] = [$row->id, $row->name, $row['name'], $row[0], isset($row->name), isset($row->other), isset($row[1]), empty($row[7]), $row->queryString === THREE, get_object_vars($row), (fn (PDORow $row) => $row->id)($row), tried(fn () => $row->id = 7), tried(fn () => clone $row)];
        }
        foreach ($db->query(THREE, PDO::FETCH_LAZY) as $row) { $results[] = [$row->id, $row->name]; }
        $results[] = $row->name ?? null;
    }
    return $results;
}
function async_queries()
{
    if (!is_mysql()) { return null; }
    mysqli_report(MYSQLI_REPORT_OFF);
    $links = $open = array_map(fn () => connect_mysqli(), range(0, 4));
    foreach ($links as $n => $link) { $link->query($n === 3 ? 'no SQL' : "SELECT $n, SLEEP(0.0$n)", MYSQLI_ASYNC); }
    $results = ['times out' => 0];
    while ($open) {
        $read = $error = $reject = $open;
        $count = mysqli_poll($read, $error, $reject, 30);
        foreach ($read as $link) {
            $n = array_search($link, $links, true);
            $rows = $link->reap_async_query();
            $results["query $n"] = $rows instanceof mysqli_result ? $rows->fetch_all() : [$rows, $link->error];
            unset($open[$n]);
        }
        $results['wrong'] = [count($error), $count === count($read), $count > 0];
    }
    $links[0]->query('SELECT SLEEP(30)', MYSQLI_ASYNC);
    $read = $error = $reject = [$links[0], $links[1]];
    $results['in time'] = [mysqli_poll($read, $error, $reject, 0, 20000), count($read), count($reject)];
    ksort($results);
    return $results;
}
function waits_for_query()
{
    Held::$mysqli->query("SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 600), 'mine'", MYSQLI_ASYNC);
    mark('inside');
    do { $read = $error = $reject = [Held::$mysqli]; } while (!mysqli_poll($read, $error, $reject, 600));
    $row = Held::$mysqli->reap_async_query()->fetch_row();
    Held::$mysqli->query("SELECT RELEASE_LOCK(CONCAT(DATABASE(), '.gate'))");
    return $row[1];
}
function leaves_query() { Held::$mysqli->query("SELECT 'left'", MYSQLI_ASYNC); mark('inside'); until('go'); return 'gone'; }
function asks_mysqli() { mark('look'); return Held::$mysqli->query("SELECT 'other'")->fetch_row()[0]; }
function waits_too_long() { set_time_limit(4); mark('inside'); Held::$mysqli->query("SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 600)"); }
function reaps() { mark('look'); return Held::$mysqli->reap_async_query()->fetch_row()[0]; }
function hold_gate() { $db = connect_mysqli(); $db->query("SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 0)"); mark('held'); until('go'); }
function keeps_row()
{
    if (is_mysql()) { Held::$db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false); }
    $rows = Held::$db->query(THREE);
    Held::$row = $rows->fetch(PDO::FETCH_LAZY);
    mark('inside');
    until('go');
    $rows->fetch(PDO::FETCH_LAZY);
    return Held::$row->name;
}
function looks_at_row() { mark('look'); return [Held::$row->name ?? null, Held::$db->query("SELECT 'other'")->fetchColumn()]; }
function asks_for_row() { mark('look'); return [isset(Held::$row->name), Held::$db->query("SELECT 'other'")->fetchColumn()]; }
"#;

fn each(test: impl Fn(&Database, TaskServer)) {
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        println!("{}", database.dsn());
        let constants = json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD,
            "NAME": database.name(), "PORT": database.address().port()});
        test(&database, server_with(CODE, &constants));
    }
}

const BOOT: &str = "Held::$db = connect(); Held::$mysqli = connect_mysqli();";

#[test]
fn rows_and_results_are_the_same_without_the_hook() {
    each(|_, server| {
        let plain = server.clone().set("RUNTIME_HOOKS", "none").start(Mode::Worker);
        let hooked = server.start(Mode::Worker);
        for function in ["lazy_rows", "async_queries"] {
            let expected = plain.tell(function);
            println!("{expected}");
            assert_eq!(hooked.tell(function), expected, "{function}");
            assert_eq!(hooked.tell_in_task(function), expected, "{function} in a task");
        }
    });
}

#[test]
fn a_lazy_row_has_the_owner_of_its_connection() {
    each(|_, server| {
        let server = server.start_with(Mode::Worker, BOOT);
        for look in ["looks_at_row", "asks_for_row"] {
            forget(&server, &["inside", "go"]);
            let mut one = server.send("keeps_row", "0");
            server.until("inside");
            let mut other = looks_in_vain(&server, look, "0");
            server.mark("go");
            answers(&mut one, "\"two\"");
            let text = other.response().text();
            assert!(text.ends_with(",\"other\"]"), "{text}");
        }
    });
}

#[test]
fn an_asynchronous_query_keeps_its_connection() {
    each(|database, server| {
        if !database.dsn().starts_with("mysql") {
            return;
        }
        let server = server.start_with(Mode::Worker, BOOT);
        let mut gate = server.send("hold_gate", "0");
        server.until("held");
        let mut one = server.send("waits_for_query", "0");
        server.until("inside");
        let mut others =
            [looks_in_vain(&server, "asks_mysqli", "0"), looks_in_vain(&server, "asks_mysqli", "1")];
        server.mark("go");
        answers(&mut one, "\"mine\"");
        for other in &mut others {
            answers(other, "\"other\"");
        }
        answers(&mut gate, "null");

        // The next request does not see unread results.
        for (look, expected) in [("asks_mysqli", "\"other\""), ("reaps", "*")] {
            forget(&server, &["inside", "go"]);
            let mut one = server.send("leaves_query", "0");
            server.until("inside");
            let mut other = looks_in_vain(&server, look, "0");
            server.mark("go");
            answers(&mut one, "\"gone\"");
            let text = other.response().text();
            assert!(!text.contains("left"), "{text}");
            svc_testing::tasks::assert_like(&text, expected);
        }
    });
}

#[test]
fn a_query_in_whose_middle_its_request_ends_has_lost_its_connection() {
    each(|database, server| {
        if !database.dsn().starts_with("mysql") {
            return;
        }
        let server = server.start_with(Mode::Worker, BOOT);
        let mut gate = server.send("hold_gate", "0");
        server.until("held");
        let mut one = server.send("waits_too_long", "0");
        server.until("inside");
        let mut other = looks_in_vain(&server, "asks_mysqli", "0");
        assert_eq!(one.response().status, 504);
        answers(&mut other, "mysqli_sql_exception: MySQL server has gone away");
        server.mark("go");
        answers(&mut gate, "null");
    });
}
