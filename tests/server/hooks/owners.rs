//! Owners of connections: other requests do not see one request's work on a shared connection, and unfinished work is
//! undone.
//!
//! The tests detect a wait without a clock: a request marks the step that it is about to take, and the only thread answers
//! the next request; by then the first one has got as far as it can.

use serde_json::json;

use svc_testing::client::{Client, eventually};
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};
use svc_testing::turns::{answers, looks_in_vain, server_with};

/// The connection of the boot script, and its uses in requests. `hold_gate` takes, on a separate connection, the lock that
/// `wait_at_gate` waits for inside the database. Names of locks are those of the whole server, which other tests use at the
/// same time.
const CODE: &str = r#"
class Held { public static $db, $other, $stmt, $kept; }
function connect(array $options = []): PDO
{
    return new PDO(DSN, USER, PASSWORD, $options + [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
}
function is_mysql(): bool { return str_starts_with(DSN, 'mysql:'); }
function count_rows(?PDO $db = null): int { return (int) ($db ?? Held::$db)->query('SELECT count(*) FROM money')->fetchColumn(); }
function insert(?PDO $db = null): void { ($db ?? Held::$db)->exec('INSERT INTO money VALUES (1)'); }
function wait_at_gate(): void { Held::$db->query(is_mysql() ? "SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 600)" : 'SELECT pg_advisory_lock(1)')->fetchAll(); }
function open_gate(): void { Held::$db->query(is_mysql() ? "SELECT RELEASE_LOCK(CONCAT(DATABASE(), '.gate'))" : 'SELECT pg_advisory_unlock(1)')->fetchAll(); }
function hold_gate()
{
    $db = connect();
    $db->query(is_mysql() ? "SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 0)" : 'SELECT pg_advisory_lock(1)')->fetchAll();
    mark('held');
    until('go');
}
function transfer()
{
    Held::$db->beginTransaction();
    insert();
    mark('inside');
    wait_at_gate();
    insert();
    Held::$db->commit();
    open_gate();
    return count_rows();
}
function look($n) { mark('look'); $count = count_rows(); mark('order', $n); return [$count, Held::$db->inTransaction()]; }
function pause_inside() { Held::$db->beginTransaction(); insert(); mark('inside'); until('go'); }
function end_by_return() { pause_inside(); return 1; }
function end_by_exit() { pause_inside(); echo 'left'; exit; }
function end_by_throwing() { pause_inside(); throw new Exception('thrown'); }
function end_by_fatal() { pause_inside(); str_repeat('x', PHP_INT_MAX >> 4); }
function end_by_limit() { pause_inside(); set_time_limit(1); while (true) { } }
function end_by_raw() { Held::$db->exec(is_mysql() ? 'START TRANSACTION' : 'BEGIN'); insert(); mark('inside'); until('go'); return 1; }
function end_in_call() { Held::$db->beginTransaction(); insert(); mark('inside'); until('armed'); set_time_limit(1); wait_at_gate(); }
function wait_one_second() { mark('look'); set_time_limit(1); return count_rows(); }
function leave_unread()
{
    Held::$stmt = Held::$db->prepare('SELECT 1 UNION SELECT 2 UNION SELECT 3');
    if (is_mysql()) { Held::$db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false); }
    Held::$stmt->execute();
    return Held::$stmt->fetchColumn();
}
function iterate($n)
{
    if (is_mysql()) { Held::$db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false); }
    $rows = [];
    $at = 0;
    foreach (Held::$db->query("SELECT $n UNION ALL SELECT $n UNION ALL SELECT $n", PDO::FETCH_COLUMN, 0) as $row) {
        $rows[] = $row;
        mark('inside');
        if (++$at === 2) { until('go'); }
    }
    return $rows;
}
function touch_and_release()
{
    Held::$db->query('SELECT 1')->fetchAll();
    mark('inside');
    until('release');
    Svc\release_connections();
    mark('released');
    until('go');
    return count_rows();
}
function release_in_transaction()
{
    Held::$db->beginTransaction();
    try { Svc\release_connections(); } finally { Held::$db->rollBack(); }
}
function open_a() { Held::$db = connect(); Held::$db->beginTransaction(); mark('a'); until('b'); mark('a-waits'); $n = count_rows(Held::$other); Held::$db = null; return $n; }
function open_b() { until('a'); Held::$other = connect(); Held::$other->beginTransaction(); mark('b'); until('a-waits'); Svc\sleep(0); try { return count_rows(Held::$db); } finally { Held::$other = null; } }
function open_c() { Held::$db = connect(); Held::$db->beginTransaction(); mark('c'); until('d-waits'); Svc\sleep(0); $n = count_rows(Held::$other); Held::$db = null; return $n; }
function open_d() { Held::$other = connect(); Held::$other->beginTransaction(); mark('d-waits'); try { return count_rows(Held::$db); } finally { Held::$other = null; } }
function keep_open() { Held::$kept = connect(); Held::$kept->beginTransaction(); insert(Held::$kept); mark('inside'); until('go'); return 1; }
function use_kept() { mark('look'); return [Held::$kept->inTransaction(), count_rows(Held::$kept)]; }
function look_in_callback() { ob_start(function () { try { return (string) count_rows(); } catch (Error $error) { return $error::class; } }); ob_end_flush(); }
function drop_statement() { mark('look'); Held::$stmt = null; gc_collect_cycles(); mark('dropped'); return count_rows(); }
function read_half()
{
    Held::$stmt = Held::$db->prepare('SELECT 7');
    Held::$db->beginTransaction();
    insert();
    mark('inside');
    wait_at_gate();
    Held::$db->rollBack();
    open_gate();
    return count_rows();
}
class Db extends PDO { public function __construct() { parent::__construct(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_STATEMENT_CLASS => [Rows::class]]); } }
class Rows extends PDOStatement { }
function look_as_closure() { mark('look'); return (int) array_map(Held::$db->query(...), ['SELECT count(*) FROM money'])[0]->fetchColumn(); }
function persistent_look() { mark('look'); return count_rows(connect([PDO::ATTR_PERSISTENT => true])); }
"#;

fn server(database: &Database) -> TaskServer {
    let constants = json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD});
    server_with(CODE, &constants)
}

/// Runs a test with each database server.
fn with_each(test: impl Fn(&Database, &TaskServer)) {
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        println!("{}", database.dsn());
        database.query("CREATE TABLE money (amount INTEGER)");
        test(&database, &server(&database));
    }
}

fn with_held(test: impl Fn(&Database, &TaskSvc)) {
    with_each(|database, server| {
        test(database, &server.start_with(Mode::Worker, "Held::$db = connect(); count_rows();"));
    });
}

/// Has one request hold the gate and another one wait for it inside the database.
fn hold(server: &TaskSvc, function: &str) -> (Client, Client) {
    let gate = server.send("hold_gate", "0");
    server.until("held");
    let inside = server.send(function, "0");
    server.until("inside");
    (gate, inside)
}

#[test]
fn other_requests_do_not_see_the_middle_of_a_transaction() {
    with_held(|_, server| {
        let (mut gate, mut inside) = hold(server, "transfer");
        let mut others: Vec<_> = (1..=5).map(|n| looks_in_vain(server, "look", &n.to_string())).collect();
        let mut closure = looks_in_vain(server, "look_as_closure", "0");
        assert_eq!(server.lines("order").len(), 0);
        server.mark("go");
        answers(&mut inside, "2");
        for other in &mut others {
            answers(other, "[2,false]");
        }
        answers(&mut closure, "2");
        answers(&mut gate, "null");
        assert_eq!(server.lines("order"), ["1", "2", "3", "4", "5"], "first come, first served");
        assert_eq!(server.svc.metric("svc_connection_wait_us_count"), 6.0);
    });
}

#[test]
fn subclasses_and_tasks_have_owners_too() {
    with_each(|_, server| {
        let server = server.clone().set("ASYNC_WORKERS", "1").entry("Held::$db = connect();");
        let server = server.start_with(Mode::Worker, "Held::$db = new Db; count_rows();");
        for task in ["", "&task"] {
            let (mut gate, mut inside) = hold(&server, &format!("transfer{task}"));
            let before = server.lines("look").len();
            let mut other = server.send(&format!("look{task}"), "1");
            eventually("it looks", || server.lines("look").len() > before);
            server.mark("go");
            let all = if task.is_empty() { 2 } else { 4 };
            answers(&mut inside, &all.to_string());
            answers(&mut other, &format!("[{all},false]"));
            answers(&mut gate, "null");
            server.unmark(&["held", "inside", "go"]);
        }
    });
}

#[test]
fn open_transactions_of_a_request_are_rolled_back() {
    let ends =
        [("return", 200), ("exit", 200), ("throwing", 200), ("raw", 200), ("fatal", 500), ("limit", 504)];
    for (end, status) in ends {
        with_held(|database, server| {
            println!("{end}");
            let mut inside = server.send(&format!("end_by_{end}"), "0");
            server.until("inside");
            let mut other = looks_in_vain(server, "look", "1");
            server.mark("go");
            assert_eq!(inside.response().status, status);
            answers(&mut other, "[0,false]");
            assert_eq!(database.query("SELECT count(*) FROM money"), json!([[0]]));
        });
    }
}

#[test]
fn a_connection_is_closed_in_the_middle_of_an_exchange() {
    with_held(|database, server| {
        let (mut gate, mut inside) = hold(server, "end_in_call");
        let mut other = looks_in_vain(server, "look", "1");
        server.mark("armed");
        assert_eq!(inside.response().status, 504);
        let told = other.response().text();
        assert!(told.starts_with("PDOException: "), "it does not get what was not meant for it: {told}");
        server.mark("go");
        answers(&mut gate, "null");
        eventually("the worker has booted again", || server.svc.get("/?do=look&n=2").text() == "[0,false]");
        assert_eq!(database.query("SELECT count(*) FROM money"), json!([[0]]));
    });
}

#[test]
fn a_wait_ends_at_its_limit() {
    with_held(|_, server| {
        let (mut gate, mut inside) = hold(server, "transfer");
        let mut other = looks_in_vain(server, "wait_one_second", "0");
        assert_eq!(other.response().status, 504);
        assert_eq!(server.lines("order").len(), 0);
        server.mark("go");
        answers(&mut inside, "2");
        answers(&mut gate, "null");
    });
}

#[test]
fn unread_rows_do_not_reach_the_next_request() {
    with_held(|_, server| {
        assert_eq!(server.tell("leave_unread"), "1");
        assert_eq!(server.tell("look"), "[0,false]");
    });
}

#[test]
fn loops_over_rows_have_their_own_rows() {
    with_held(|_, server| {
        let mut one = server.send("iterate", "1");
        server.until("inside");
        let mut other = server.send("iterate", "2");
        server.tell("strrev");
        server.mark("go");
        answers(&mut one, "[1,1,1]");
        answers(&mut other, "[2,2,2]");
    });
}

#[test]
fn connections_can_be_released_early() {
    with_held(|_, server| {
        let mut one = server.send("touch_and_release", "0");
        server.until("inside");
        let mut other = looks_in_vain(server, "look", "1");
        server.mark("release");
        answers(&mut other, "[0,false]");
        assert!(!server.marked("go"));
        server.mark("go");
        answers(&mut one, "0");
        assert!(server.tell("release_in_transaction").starts_with("LogicException: "));
        assert_eq!(server.tell("look"), "[0,false]");
    });
}

#[test]
fn the_younger_of_two_in_transactions_that_wait_for_each_other_is_refused() {
    with_each(|_, server| {
        let server = server.start(Mode::Worker);
        // The younger request closes the cycle, or is parked in it already.
        for [first, second, ready] in [["open_a", "open_b", "a"], ["open_c", "open_d", "c"]] {
            let mut older = server.send(first, "0");
            server.until(ready);
            let mut younger = server.send(second, "0");
            let told = younger.response().text();
            assert!(told.starts_with("Svc\\ConnectionBusyError: "), "{told}");
            answers(&mut older, "0");
        }
    });
}

#[test]
fn a_connection_belongs_to_the_request_that_opens_it_until_its_end() {
    with_each(|_, server| {
        let server = server.start_with(Mode::Worker, "Held::$db = connect(); count_rows();");
        let mut opener = server.send("keep_open", "0");
        server.until("inside");
        assert_eq!(server.tell("look"), "[0,false]", "other connections are free");
        let mut other = looks_in_vain(&server, "use_kept", "0");
        server.mark("go");
        answers(&mut opener, "1");
        answers(&mut other, "[false,0]");
    });
}

#[test]
fn persistent_connections_are_joint() {
    with_held(|_, server| {
        let (mut gate, mut inside) = hold(server, "transfer");
        let mut other = looks_in_vain(server, "persistent_look", "0");
        server.mark("go");
        answers(&mut inside, "2");
        answers(&mut other, "2");
        answers(&mut gate, "null");
        assert_eq!(server.tell("persistent_look"), "2");
    });
}

#[test]
fn a_request_that_cannot_wait_is_refused() {
    with_held(|_, server| {
        let (mut gate, mut inside) = hold(server, "transfer");
        let told = server.svc.get("/?do=look_in_callback&raw").text();
        assert_eq!(told, "Svc\\ConnectionBusyError");
        server.mark("go");
        answers(&mut inside, "2");
        answers(&mut gate, "null");
    });
}

#[test]
fn objects_dropped_by_another_request_are_freed_later() {
    with_held(|_, server| {
        let (mut gate, mut inside) = hold(server, "read_half");
        let mut other = looks_in_vain(server, "drop_statement", "0");
        assert!(server.marked("dropped"), "freeing does not wait");
        server.mark("go");
        answers(&mut inside, "0");
        answers(&mut other, "0");
        answers(&mut gate, "null");
    });
}
