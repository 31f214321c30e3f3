//! Connections to SQLite have owners: objects of SQLite3, its statements, results and blobs, and those of PDO. Anything
//! that a request leaves open on a shared connection is undone, and holds no lock on the file.

use serde_json::json;

use svc_testing::tasks::{Mode, TaskServer, TaskSvc};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $db, $pdo, $other, $kept; }
class Db extends SQLite3 { }
/** A file per thread. */
define('FILE', DIR . '/data-' . bin2hex(random_bytes(8)));
function open(string $class = 'SQLite3'): SQLite3 { $db = new $class(FILE); $db->enableExceptions(true); $db->busyTimeout(1); return $db; }
function boot(): void
{
    Held::$db = open('Db');
    Held::$pdo = new PDO('sqlite:' . FILE, options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_TIMEOUT => 0]);
    Held::$db->exec('CREATE TABLE IF NOT EXISTS money (amount, bytes); DELETE FROM money');
    Held::$kept = null;
}
function insert(): void { Held::$db->exec("INSERT INTO money VALUES (1, 'some bytes')"); }
function count_rows(): int { return Held::$db->querySingle('SELECT count(*) FROM money'); }
/** Writes on another connection, which fails at once if the database is locked. */
function is_unlocked(): bool { $db = open(); $db->exec('BEGIN IMMEDIATE; INSERT INTO money VALUES (9, 9)'); $db->exec('ROLLBACK'); $db->close(); return true; }
function pause(): void { mark('inside'); until('go'); }
function in_transaction() { Held::$db->exec('BEGIN'); insert(); pause(); Held::$db->exec('ROLLBACK'); return 1; }
function by_statement() { Held::$kept = Held::$db->prepare('SELECT count(*) FROM money'); Held::$db->exec('BEGIN'); insert(); pause(); Held::$db->exec('ROLLBACK'); return 1; }
function look_by_statement() { mark('look'); return Held::$kept->execute()->fetchArray()[0]; }
function by_blob() { insert(); Held::$kept = Held::$db->openBlob('money', 'bytes', Held::$db->lastInsertRowID()); Held::$db->exec('BEGIN'); pause(); Held::$db->exec('ROLLBACK'); return 1; }
function look_by_blob() { mark('look'); return fread(Held::$kept, 4); }
function write_one() { mark('look'); insert(); return count_rows(); }
function pdo_in_transaction() { Held::$pdo->exec('BEGIN'); pause(); Held::$pdo->exec('ROLLBACK'); return 1; }
function look_by_pdo() { mark('look'); return [Held::$pdo->inTransaction(), (int) Held::$pdo->query('SELECT count(*) FROM money')->fetchColumn()]; }
function backs_up() { Held::$other = new SQLite3(':memory:'); Held::$other->exec('BEGIN; CREATE TABLE t (a)'); pause(); return 1; }
function look_by_backup() { mark('look'); Held::$db->backup(Held::$other) || throw new Exception('no backup'); return Held::$other->querySingle('SELECT count(*) FROM money'); }
/** Each request opens its own connection; SQLite waits for the lock of the database. */
function patient(): SQLite3 { $db = open(); $db->busyTimeout(120000); return $db; }
function locks_database() { $db = open(); $db->exec('BEGIN IMMEDIATE'); $db->exec('INSERT INTO money VALUES (2, 2)'); pause(); $db->exec('COMMIT'); return 1; }
function waits_for_database() { $db = patient(); mark('look'); $db->exec('DELETE FROM money'); return $db->changes(); }
function waits_for_database_by_pdo() { $db = new PDO('sqlite:' . FILE, options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); mark('look'); return $db->exec('DELETE FROM money'); }
function waits_too_long_for_database() { set_time_limit(1); waits_for_database(); }
function waits_where_it_cannot() { $db = open(); $db->busyTimeout(50); ob_start(fn () => tried(fn () => $db->exec('DELETE FROM money'))); echo '.'; $text = ''; ob_end_flush(); return $text; }
/** Fetches a row and then locks a file, while another request does so in reverse order. */
function row_then_lock($reads)
{
    $rows = Held::$pdo->query('SELECT 7');
    for ($row = 0; $row < $reads; $row++) { $rows->fetch(); }
    mark('first');
    until('second');
    flock($file = fopen(DIR . '/lock', 'c'), LOCK_EX);
    return 1;
}
function lock_then_row() { flock($file = fopen(DIR . '/lock', 'c'), LOCK_EX); mark('second'); return (int) Held::$pdo->query('SELECT 7')->fetchColumn(); }
function leave_return() { Held::$db->exec('BEGIN'); insert(); return 1; }
function leave_savepoint() { Held::$db->exec('SAVEPOINT one'); insert(); return 1; }
function leave_exit() { Held::$db->exec('BEGIN'); insert(); exit; }
function leave_throwing() { Held::$db->exec('BEGIN'); insert(); throw new Exception('thrown'); }
function leave_prepared() { Held::$db->prepare('BEGIN IMMEDIATE')->execute(); insert(); return 1; }
function three(): string { return 'SELECT 1 UNION SELECT 2 UNION SELECT 3'; }
function leave_result() { Held::$kept = Held::$db->query('SELECT * FROM money UNION ALL SELECT 1, 2 UNION ALL SELECT 3, 4'); Held::$kept->fetchArray(); return 1; }
function leave_returning() { Held::$kept = Held::$db->query('INSERT INTO money SELECT 1, 2 UNION ALL SELECT 3, 4 RETURNING amount'); Held::$kept->fetchArray(); Held::$db->exec('DELETE FROM money'); return 1; }
function leave_execution() { $statement = Held::$db->prepare('SELECT * FROM money UNION ALL SELECT 1, 2 UNION ALL SELECT 3, 4'); Held::$kept = [$statement, $statement->execute()]; Held::$kept[1]->fetchArray(); return 1; }
function leave_blob() { insert(); $row = Held::$db->lastInsertRowID(); Held::$kept = Held::$db->openBlob('money', 'bytes', $row, 'main', SQLITE3_OPEN_READWRITE); fwrite(Held::$kept, 'x'); return 1; }
function leave_pdo() { Held::$pdo->exec('BEGIN IMMEDIATE'); Held::$pdo->exec('INSERT INTO money VALUES (1, 1)'); return 1; }
function leave_pdo_rows() { Held::$kept = Held::$pdo->query('SELECT * FROM money UNION ALL SELECT 1, 2 UNION ALL SELECT 3, 4'); Held::$kept->fetch(); return 1; }
function leave_pdo_blob() { Held::$pdo->exec("INSERT INTO money VALUES (1, 'some bytes')"); $pdo = new Pdo\Sqlite('sqlite:' . FILE); Held::$other = $pdo; Held::$kept = $pdo->openBlob('money', 'bytes', (int) Held::$pdo->lastInsertId(), 'main', Pdo\Sqlite::OPEN_READWRITE); fwrite(Held::$kept, 'x'); return 1; }
/** Inside a function called by SQLite. */
function fatal_in_call() { Held::$db->createFunction('fails', fn () => str_repeat('x', PHP_INT_MAX >> 4)); Held::$db->exec('BEGIN'); insert(); Held::$db->exec('INSERT INTO money SELECT fails(), 1 FROM money'); }
function use_kept() { if (is_resource(Held::$kept)) { @fread(Held::$kept, 1); @fwrite(Held::$kept, 'y'); @fclose(Held::$kept); } Held::$kept = Held::$other = null; return true; }
/** A result that was read once is closed. */
function read_on() { return Held::$kept->fetchArray(); }
function next_request()
{
    $unlocked = is_unlocked();
    insert();
    $count = count_rows();
    Held::$db->exec('BEGIN');
    insert();
    Held::$db->exec('COMMIT');
    Held::$db->exec('DELETE FROM money');
    return [$unlocked, $count, count_rows()];
}
function release_in_transaction() { Held::$db->exec('BEGIN'); try { Svc\release_connections(); } finally { Held::$db->exec('ROLLBACK'); } }
function release() { count_rows(); Svc\release_connections(); return count_rows(); }
function closed() { $db = open(); $db->exec('BEGIN'); $db->close(); Held::$kept = $db; return tried(fn () => $db->exec('SELECT 1')); }
"#;

fn server() -> TaskServer {
    server_with(CODE, &json!({})).set("ASYNC_WORKERS", "1").entry("boot();")
}

/// Checks the result in another request after one has been inside an operation.
#[track_caller]
fn separates(server: &TaskSvc, inside: &str, look: &str, seen: &str) {
    let mut one = server.send(inside, "0");
    server.until("inside");
    let mut other = looks_in_vain(server, look, "0");
    server.mark("go");
    answers(&mut one, "1");
    answers(&mut other, seen);
    server.unmark(&["inside", "go"]);
}

#[test]
fn a_request_waits_for_the_transaction_of_another() {
    let server = server().start_with(Mode::Worker, "boot();");
    separates(&server, "in_transaction", "write_one", "1");
    separates(&server, "by_statement", "look_by_statement", "1");
    // The blob is closed with the request that has used its connection.
    separates(&server, "by_blob", "look_by_blob", "false");
    separates(&server, "pdo_in_transaction", "look_by_pdo", "[false,2]");
    separates(&server, "backs_up", "look_by_backup", "2");
}

#[test]
fn open_transactions_of_sqlite_are_undone() {
    let server = server().start_with(Mode::Worker, "boot();");
    for place in ["", "&task"] {
        for end in [
            "return",
            "savepoint",
            "exit",
            "throwing",
            "prepared",
            "result",
            "returning",
            "execution",
            "blob",
            "pdo",
            "pdo_rows",
            "pdo_blob",
        ] {
            println!("{end}{place}");
            if end == "exit" && place == "&task" {
                // A task that exits fails.
                continue;
            }
            server.tell(&format!("leave_{end}{place}"));
            let count = if ["blob", "pdo_blob"].contains(&end) { 2 } else { 1 };
            assert_eq!(
                server.tell(&format!("next_request{place}")),
                format!("[true,{count},0]"),
                "{end}{place}"
            );
            assert_eq!(server.tell(&format!("use_kept{place}")), "true");
            assert_eq!(server.tell(&format!("next_request{place}")), "[true,1,0]", "{end}{place}");
        }
    }
}

#[test]
fn a_result_that_was_not_read_is_closed() {
    let server = server().start_with(Mode::Worker, "boot();");
    server.tell("leave_result");
    assert_eq!(
        server.tell("read_on"),
        "Error: The SQLite3Result object has not been correctly initialised or is already closed"
    );
}

#[test]
fn a_fatal_error_inside_a_function_of_sqlite_leaves_nothing() {
    let server = server().start_with(Mode::Worker, "boot();");
    let mut other = server.send("in_transaction", "0");
    server.until("inside");
    let mut failing = server.send("fatal_in_call", "0");
    server.tell("strrev");
    server.mark("go");
    answers(&mut other, "1");
    assert_eq!(failing.response().status, 500);
    assert_eq!(server.tell("next_request"), "[true,1,0]");
}

/// A request of the same thread may hold the lock.
#[test]
fn a_request_that_waits_for_the_lock_of_a_database_gives_up_its_thread() {
    let server = server().start_with(Mode::Worker, "boot();");
    for function in ["waits_for_database", "waits_for_database_by_pdo"] {
        separates(&server, "locks_database", function, "1");
    }
    let mut one = server.send("locks_database", "0");
    server.until("inside");
    let refused = server.svc.get("/?do=waits_where_it_cannot&raw");
    assert_eq!(refused.text(), "SQLite3Exception: database is locked");
    let too_long = server.send("waits_too_long_for_database", "0").response();
    assert_eq!(too_long.status, 504);
    server.mark("go");
    answers(&mut one, "1");
}

/// SQLite detects the end of a result only when it fetches beyond the last row.
#[test]
fn a_result_that_was_not_read_to_its_end_is_open() {
    let server = server().start_with(Mode::Worker, "boot();");
    for (reads, expected) in [("2", "7"), ("1", "Svc\\ConnectionBusyError: *transaction or a result*")] {
        let mut one = server.send("row_then_lock", reads);
        server.until("first");
        let mut other = server.send("lock_then_row", "0");
        svc_testing::tasks::assert_like(&other.response().text(), expected);
        answers(&mut one, "1");
        server.unmark(&["first", "second"]);
    }
}

#[test]
fn connections_are_released_early() {
    let server = server().start_with(Mode::Worker, "boot();");
    assert_eq!(server.tell("release"), "0");
    let refused = "LogicException: Connections cannot be released while a transaction is open; commit it or roll it back";
    assert_eq!(server.tell("release_in_transaction"), refused);
    assert!(server.tell("closed").contains("Error: "), "a closed one says so");
    assert_eq!(server.tell("release"), "0");
}
