//! The cycle collector frees connections and their dependent objects while requests of the thread wait inside their
//! drivers.

use serde_json::json;

use svc_testing::client::Client;
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::hooked::forget;
use svc_testing::tasks::{Mode, TaskSvc};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $db, $mysqli, $knot; }
/** Garbage that only the collector finds. */
class Knot
{
    public $self;
    public function __construct(public $what) { $this->self = $this; }
}
class Rows extends PDOStatement { public $self; public function __destruct() { mark('destructed'); } }
class Statement extends mysqli_stmt { public $self; }
function connect(): PDO { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function connect_mysqli(): ?mysqli { return is_mysql() ? new mysqli('127.0.0.1', USER, PASSWORD, NAME, PORT) : null; }
function is_mysql(): bool { return str_starts_with(DSN, 'mysql:'); }
function waiting($n): string { return is_mysql() ? "SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 600) + $n - 1" : "SELECT $n FROM (SELECT pg_advisory_lock(1)) AS gate"; }
function open_gate(): string { return is_mysql() ? "SELECT RELEASE_LOCK(CONCAT(DATABASE(), '.gate'))" : 'SELECT pg_advisory_unlock(1)'; }
function hold_gate()
{
    $db = connect();
    $db->query(is_mysql() ? "SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 0)" : 'SELECT pg_advisory_lock(1)')->fetchAll();
    mark('held');
    until('go');
}
function asks($n, $db = null)
{
    $db ??= Held::$db;
    mark('inside');
    $answers = $db->query(waiting($n))->fetchAll(PDO::FETCH_COLUMN);
    $db->query(open_gate())->fetchAll();
    return $answers;
}
function asks_mysqli($n)
{
    mark('inside');
    $answers = Held::$mysqli->query(waiting($n))->fetch_all();
    Held::$mysqli->query(open_gate());
    return $answers[0];
}
/** The connection is also in the knot, and only this request has another reference to it. */
function asks_in_knot($n)
{
    $knot = new Knot(connect());
    $db = $knot->what;
    unset($knot);
    return asks($n, $db);
}
/** Not even this request has another reference. */
function asks_by_knot($n)
{
    mark('inside');
    return (new Knot(connect()))->what->query(waiting($n))->fetchAll(PDO::FETCH_COLUMN);
}
function tie_statement()
{
    $statement = Held::$db->prepare('SELECT 1', [PDO::ATTR_STATEMENT_CLASS => [Rows::class]]);
    $statement->execute();
    $statement->fetchAll();
    Held::$knot = $statement->self = $statement;
}
function tie_mysqli_statement()
{
    $statement = new Statement(Held::$mysqli, 'SELECT 1');
    $statement->execute();
    $statement->get_result()->fetch_all();
    Held::$knot = $statement->self = $statement;
}
/** Its destructor resurrects it, and is not called again. */
class Kept extends PDOStatement { public function __destruct() { Held::$knot = $this; } }
function keep_statement()
{
    $statement = Held::$db->prepare('SELECT 1', [PDO::ATTR_STATEMENT_CLASS => [Kept::class]]);
    $statement->execute();
    $statement->fetchAll();
}
function drops() { mark('look'); Held::$knot = null; return 'dropped'; }
function collects() { Held::$knot = null; return gc_collect_cycles() >= 0; }
"#;

fn with_each(test: impl Fn(&Database, &TaskSvc)) {
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        println!("{}", database.dsn());
        let constants = json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD,
            "NAME": database.name(), "PORT": database.address().port()});
        let server = server_with(CODE, &constants);
        test(
            &database,
            &server.start_with(Mode::Worker, "Held::$db = connect(); Held::$mysqli = connect_mysqli();"),
        );
    }
}

/// Has one request hold the gate and another one wait for it inside the database.
fn wait_inside(server: &TaskSvc, function: &str) -> (Client, Client) {
    forget(server, &["held", "inside", "go"]);
    let gate = server.send("hold_gate", "0");
    server.until("held");
    let inside = server.send(function, "7");
    server.until("inside");
    // Once its thread answers, the request waits.
    server.tell("strrev");
    (gate, inside)
}

/// Collects while a request waits, and checks that the request gets its answer.
fn collect_meanwhile(server: &TaskSvc, function: &str, answer: &str) {
    let (mut gate, mut inside) = wait_inside(server, function);
    assert_eq!(server.tell("collects"), "true");
    server.mark("go");
    answers(&mut inside, answer);
    answers(&mut gate, "null");
}

#[test]
fn objects_of_a_connection_in_use_are_freed_later() {
    with_each(|_, server| {
        server.tell("tie_statement");
        // The object is garbage again, and its connection is in use again.
        for _ in 0..3 {
            collect_meanwhile(server, "asks", "[7]");
        }
        assert_eq!(server.tell("collects"), "true");
        assert_eq!(server.lines("destructed").len(), 1);
        collect_meanwhile(server, "asks", "[7]");
    });
}

#[test]
fn a_statement_of_mysqli_is_freed_later() {
    with_each(|database, server| {
        if database.dsn().starts_with("mysql") {
            server.tell("tie_mysqli_statement");
            for _ in 0..3 {
                collect_meanwhile(server, "asks_mysqli", "[\"7\"]");
            }
        }
    });
}

#[test]
fn objects_freed_after_their_destructor_wait_for_the_connection() {
    with_each(|_, server| {
        server.tell("keep_statement");
        let (mut gate, mut inside) = wait_inside(server, "asks");
        let mut other = looks_in_vain(server, "drops", "0");
        server.mark("go");
        answers(&mut inside, "[7]");
        answers(&mut other, "\"dropped\"");
        answers(&mut gate, "null");
    });
}

#[test]
fn a_connection_in_a_cycle_outlives_its_call() {
    with_each(|_, server| {
        for function in ["asks_in_knot", "asks_by_knot"] {
            collect_meanwhile(server, function, "[7]");
        }
    });
}
