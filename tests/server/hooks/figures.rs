//! A request reads the results of its last statement (the generated ID, counts, errors) even if another request has
//! borrowed its connection since; and a connection that svc has closed is reported as lost.

use serde_json::json;

use svc_testing::client::eventually;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskSvc, assert_like};
use svc_testing::turns::{answers, server_with};

/// For each kind of connection: inserts rows with generated IDs, and reads the last ID in every possible way.
const CODE: &str = r#"
class Held { public static $my, $pg, $mysqli, $lite, $lite3, $redis; }
function pdo(string $dsn): PDO { return new PDO($dsn, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function boot(): void
{
    Held::$my = pdo(MY);
    Held::$pg = pdo(PG);
    Held::$mysqli = mysqli_connect('127.0.0.1', USER, PASSWORD, MY_NAME, MY_PORT);
    Held::$lite = new PDO('sqlite:' . DIR . '/data');
    Held::$lite3 = new SQLite3(DIR . '/data3');
    Held::$redis = new Redis;
    Held::$redis->connect('127.0.0.1', REDIS);
    Held::$my->exec('CREATE TABLE IF NOT EXISTS visits (id INT PRIMARY KEY AUTO_INCREMENT, who TEXT)');
    Held::$pg->exec('CREATE TABLE IF NOT EXISTS visits (id SERIAL PRIMARY KEY, who TEXT)');
    foreach ([Held::$lite, Held::$lite3] as $lite) { $lite->exec('CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, who TEXT)'); }
}
function make(string $kind, string $who): void
{
    $sql = "INSERT INTO visits (who) VALUES ('$who'), ('$who')";
    match ($kind) {
        'mysqli' => Held::$mysqli->query($sql),
        'mysqli_prepared' => Held::$mysqli->prepare($sql)->execute(),
        'my_prepared' => Held::$my->prepare($sql)->execute(),
        default => Held::$$kind->exec($sql),
    };
}
function number_of(PDO $db, string $sql): int { return (int) $db->query($sql)->fetchColumn(); }
/** Reads the last ID in each way; `$id` is the expected one. */
function told(string $kind, string $who): string
{
    $told = match ($kind) {
        'my', 'my_prepared' => [(int) Held::$my->lastInsertId(), number_of(Held::$my, 'SELECT LAST_INSERT_ID()'), (int) Held::$my->lastInsertId() >= 0],
        'pg' => [(int) Held::$pg->lastInsertId()],
        'mysqli', 'mysqli_prepared' => [Held::$mysqli->insert_id, mysqli_insert_id(Held::$mysqli), (int) Held::$mysqli->query('SELECT LAST_INSERT_ID()')->fetch_row()[0]],
        'lite' => [(int) Held::$lite->lastInsertId(), number_of(Held::$lite, 'SELECT last_insert_rowid()')],
        'lite3' => [Held::$lite3->lastInsertRowID(), Held::$lite3->querySingle('SELECT last_insert_rowid()')],
    };
    $sql = "SELECT id FROM visits WHERE who = '$who' ORDER BY id " . (str_starts_with($kind, 'my') ? 'ASC' : 'DESC') . ' LIMIT 1';
    $id = match ($kind) {
        'mysqli', 'mysqli_prepared' => (int) Held::$mysqli->query($sql)->fetch_row()[0],
        'lite3' => Held::$lite3->querySingle($sql),
        'my_prepared' => number_of(Held::$my, $sql),
        default => number_of(Held::$$kind, $sql),
    };
    foreach ($told as $one) {
        if ($one !== $id && $one !== true) { return "$who: " . json_encode($told) . " and not $id"; }
    }
    return 'its own';
}
function lock(): void { while (!Held::$redis->set('lock', '1', ['nx', 'ex' => 60])) { usleep(5000); } }
function unlock(): void { Held::$redis->del('lock'); }
/** One request owns the connection and polls for the lock; the others hold the lock and wait for the connection. */
function waits($kind)
{
    make($kind, $who = bin2hex(random_bytes(4)));
    mark('first');
    until('second');
    lock();
    try { return told($kind, $who); } finally { unlock(); }
}
function makes($kind)
{
    lock();
    mark('second');
    $told = makes_once($kind, 0);
    make($kind, 'third');
    unlock();
    return $told;
}
/** Borrows the connection twice before the lender continues. */
function makes_twice($kind) { return [makes_once($kind), makes_once($kind)]; }
function makes_once($kind, $pause = 0.01) { $who = bin2hex(random_bytes(4)); make($kind, $who); Svc\sleep($pause); return told($kind, $who); }
function waits_long($kind) { make($kind, $who = bin2hex(random_bytes(4))); mark('first'); until('go'); return told($kind, $who); }
function reads($kind) { lock(); mark('second'); Held::$pg->query('SELECT 1')->fetchAll(); unlock(); return 7; }
function makes_again($kind) { make($kind, 'first'); mark('first'); until('go'); return makes_once($kind, 0); }

function counts()
{
    make('mysqli', 'first');
    @Held::$mysqli->query('UPDATE visits SET who = who');
    $before = figures();
    mark('first');
    until('go');
    return $before == figures() ? 'its own' : [$before, figures()];
}
function figures() { return [Held::$mysqli->affected_rows, Held::$mysqli->insert_id, Held::$mysqli->errno, Held::$mysqli->error, Held::$mysqli->sqlstate, Held::$mysqli->warning_count, Held::$mysqli->field_count]; }
function fails()
{
    mysqli_report(MYSQLI_REPORT_OFF);
    Held::$mysqli->query('SELECT nothing');
    $before = figures();
    mark('first');
    until('go');
    return $before == figures() && $before[2] === 1054 ? 'its own' : [$before, figures()];
}
/** Leaves an ID and an error behind. */
function leaves($kind)
{
    make($kind, 'first');
    if ($kind === 'mysqli') { mysqli_report(MYSQLI_REPORT_OFF); Held::$mysqli->query('SELECT nothing'); }
    return 7;
}
/** The results that a request reads before its first statement. */
function finds($kind)
{
    return match ($kind) {
        'mysqli' => [...figures(), Held::$mysqli->error_list],
        'lite3' => [Held::$lite3->lastInsertRowID(), Held::$lite3->querySingle('SELECT last_insert_rowid()')],
        default => [Held::$$kind->errorCode(), (int) Held::$$kind->lastInsertId()],
    };
}
function asks_mysqli() { return (int) Held::$mysqli->query('SELECT 7')->fetch_row()[0]; }

/** A connection that is closed in the middle of a transaction. */
function too_long($kind)
{
    $kind === 'mysqli' ? Held::$mysqli->begin_transaction() : Held::$$kind->beginTransaction();
    mark('first');
    until('second');
    set_time_limit(1);
    Held::$$kind->query($kind === 'pg' ? 'SELECT pg_sleep(60)' : 'SELECT sleep(60)');
}
function begins($kind)
{
    mark('look');
    $kind === 'mysqli' ? Held::$mysqli->begin_transaction() : Held::$$kind->beginTransaction();
    return 'begun';
}
/** Keeps the thread's worker busy. */
function stays() { mark('stays'); until('leave'); return 7; }
"#;

fn with_all(test: impl Fn(&TaskSvc)) {
    let (Some(my), Some(pg), Some(store), Some(extensions)) =
        (databases::mariadb(), databases::postgres(), databases::redis(), fetched("php-extensions"))
    else {
        return;
    };
    let constants = json!({"MY": my.dsn(), "MY_NAME": my.name(), "MY_PORT": my.address().port(), "PG": pg.dsn(),
        "USER": USER, "PASSWORD": PASSWORD, "REDIS": store.address().port()});
    let server = server_with(CODE, &constants).directive(&format!("extension={extensions}/redis.so"));
    test(&server.set("RUNTIME_HOOKS", "all").start_with(Mode::Worker, "boot();"));
}

fn forget_marks(server: &TaskSvc) {
    server.unmark(&["first", "second", "go", "look"]);
}

#[test]
fn an_id_is_that_of_the_request_that_has_made_it() {
    with_all(|server| {
        for kind in ["my", "my_prepared", "mysqli", "mysqli_prepared", "lite", "lite3"] {
            println!("{kind}");
            forget_marks(server);
            let mut one = server.send("waits", kind);
            server.until("first");
            let mut other = server.send("makes", kind);
            answers(&mut other, "\"its own\"");
            answers(&mut one, "\"its own\"");
            // The lender waits for something unrelated to its other requests.
            forget_marks(server);
            let mut one = server.send("waits_long", kind);
            server.until("first");
            let mut others = [server.send("makes_twice", kind), server.send("makes_twice", kind)];
            for other in &mut others {
                answers(other, "[\"its own\",\"its own\"]");
            }
            server.mark("go");
            answers(&mut one, "\"its own\"");
        }
    });
}

#[test]
fn a_request_finds_no_figures_of_an_earlier_one() {
    with_all(|server| {
        for (kind, expected) in [
            ("my", "[null,0]"),
            ("mysqli", r#"[0,0,0,"","00000",0,0,[]]"#),
            ("lite", "[null,0]"),
            ("lite3", "[0,0]"),
        ] {
            println!("{kind}");
            assert_eq!(server.send("leaves", kind).response().text(), "7");
            answers(&mut server.send("finds", kind), expected);
        }
    });
}

/// PostgreSQL cannot restore an earlier ID.
#[test]
fn an_id_of_postgresql_that_is_lost_is_refused() {
    with_all(|server| {
        let mut one = server.send("waits", "pg");
        server.until("first");
        let mut other = server.send("makes", "pg");
        answers(&mut other, "\"its own\"");
        assert_like(&one.response().text(), "Svc\\ConnectionBusyError: The last ID of this connection*");
        // A borrower that only reads replaces no ID, and the next ID is the request's own again.
        for (first, second, expected) in
            [("waits", "reads", "\"its own\""), ("makes_again", "makes_twice", "\"its own\"")]
        {
            forget_marks(server);
            let mut one = server.send(first, "pg");
            server.until("first");
            let other = server.send(second, "pg").response();
            assert_eq!(other.status, 200, "{}", other.text());
            server.mark("go");
            answers(&mut one, expected);
        }
    });
}

#[test]
fn counts_and_errors_of_mysqli_are_those_of_the_requests_own_statement() {
    with_all(|server| {
        for function in ["counts", "fails"] {
            forget_marks(server);
            let mut one = server.send(function, "0");
            server.until("first");
            assert_eq!(server.tell("asks_mysqli"), "7");
            server.mark("go");
            answers(&mut one, "\"its own\"");
        }
    });
}

#[test]
fn a_connection_closed_in_a_transaction_is_reported_as_lost() {
    with_all(|server| {
        for (kind, expected) in [
            ("my", "PDOException: *MySQL server has gone away"),
            ("mysqli", "mysqli_sql_exception: MySQL server has gone away"),
            ("pg", "PDOException: *no connection to the server*"),
        ] {
            println!("{kind}");
            forget_marks(server);
            server.unmark(&["stays", "leave"]);
            let mut staying = server.send("stays", "0");
            server.until("stays");
            let mut one = server.send("too_long", kind);
            server.until("first");
            let mut others: Vec<_> = (0..3).map(|_| server.send("begins", kind)).collect();
            eventually("all want it", || server.lines("look").len() == others.len());
            server.mark("second");
            assert_eq!(one.response().status, 504);
            for other in &mut others {
                assert_like(&other.response().text(), expected);
            }
            server.mark("leave");
            answers(&mut staying, "7");
            eventually("another worker has a new one", || {
                server.send("begins", kind).response().text() == "\"begun\""
            });
        }
    });
}
