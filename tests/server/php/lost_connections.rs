//! Persistent connections that the server closes while objects have them: the script learns of it, and nothing else happens.

use serde_json::json;

use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::tasks::{Mode, TaskServer};

const CODE: &str = r#"
class Held { public static $db, $result; }
function open()
{
    return DRIVER === 'pg_pconnect'
        ? @pg_pconnect(str_replace(';', ' ', substr(DSN, 6)) . ' user=' . ROLE . ' password=' . PASSWORD)
        : new PDO(DSN, USER, PASSWORD, [PDO::ATTR_PERSISTENT => true, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
}
function one($db, string $sql) { return $db instanceof PDO ? $db->query($sql)->fetchAll(PDO::FETCH_COLUMN)[0] : pg_fetch_all_columns(pg_query($db, $sql))[0]; }
function session_id_of($db) { return (int) one($db, str_starts_with(DSN, 'mysql') ? 'SELECT CONNECTION_ID()' : 'SELECT pg_backend_pid()'); }
/** Ends the session of the connection, as a restart of the server does. */
function cut($db): void
{
    $id = session_id_of($db);
    $other = new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
    if (str_starts_with(DSN, 'mysql')) {
        $other->exec("KILL $id");
        while ($other->query("SELECT count(*) FROM information_schema.processlist WHERE id = $id")->fetchColumn()) { usleep(1000); }
    } else {
        $other->query("SELECT pg_terminate_backend($id)");
        while ($other->query("SELECT count(*) FROM pg_stat_activity WHERE pid = $id")->fetchColumn()) { usleep(1000); }
    }
}
/** Whether the object still reaches its session; any error is a no. */
function reaches($db): bool { try { return @one($db, 'SELECT 7') == 7; } catch (Throwable) { return false; } }

/** Two objects of one connection, and a statement; the connection is cut, and a third object gets a new one. */
function answer_of_three()
{
    $one = open();
    $other = open();
    $statement = $one instanceof PDO ? $one->prepare('SELECT 7') : null;
    cut($one);
    $third = open();
    $seen = [reaches($one), reaches($other), reaches($third)];
    $one = null;
    $seen[] = reaches($third);
    $statement = $other = null;
    $seen[] = reaches($third);
    $third = null;
    return [...$seen, reaches(open())];
}
function keep() { Held::$db = open(); return reaches(Held::$db); }
function cut_kept() { cut(open()); reaches(open()); return reaches(open()); }
function use_kept() { $before = reaches(Held::$db); Held::$db = null; return [$before, reaches(open())]; }
function keep_result() { Held::$db = open(); Held::$result = pg_query(Held::$db, 'SELECT relname FROM pg_class LIMIT 1'); return pg_field_table(Held::$result, 0) === 'pg_class'; }
/** Each reads what is left of a connection that PHP has freed. */
function use_result() { try { return [@pg_field_table(Held::$result, 0), @pg_field_type(Held::$result, 0)]; } catch (Throwable $error) { return $error::class; } finally { Held::$result = null; } }
/** A notice on a connection whose latest object is gone. */
/** The extension keeps the latest object, until there is another one. */
function drop_latest(): void { pg_connect(str_replace(';', ' ', substr(DSN, 6)) . ' user=' . USER . ' password=' . PASSWORD, PGSQL_CONNECT_FORCE_NEW); }
function notice() { $db = open(); pg_query($db, "DO 'BEGIN RAISE NOTICE ''own''; END'"); $notice = pg_last_notice($db); $db = null; drop_latest(); return str_contains($notice, 'own'); }
function notice_on_kept() { pg_query(Held::$db, "DO 'BEGIN RAISE NOTICE ''kept''; END'"); return str_contains(pg_last_notice(Held::$db), 'kept'); }
function two_and_notice() { $one = open(); $other = open(); $other = null; drop_latest(); pg_query($one, "DO 'BEGIN RAISE NOTICE ''one''; END'"); return str_contains(pg_last_notice($one), 'one'); }
function create() { open()->exec('CREATE TABLE IF NOT EXISTS made (n INT)'); open()->exec('DELETE FROM made'); return 7; }
/** After the loss, PDO opens the same connection for a new object. */
function transact() { try { Held::$db = null; $db = open(); $db->beginTransaction(); $db->exec('INSERT INTO made VALUES (1)'); $db->commit(); return 7; } finally { Held::$db = $db; } }
function leave_begun() { $db = open(); $db->beginTransaction(); $db->exec('INSERT INTO made VALUES (2)'); return 7; }
function insert_and_count() { open()->exec('INSERT INTO made VALUES (3)'); return (int) (new PDO(DSN, USER, PASSWORD))->query('SELECT count(*) FROM made')->fetchColumn(); }
function lose_kept() { Held::$db ??= open(); cut(Held::$db); return reaches(Held::$db); }
function construct_again()
{
    $seen = [];
    foreach ([[true, true], [true, false], [false, true]] as [$first, $second]) {
        $make = fn ($db, $persists) => $db->__construct(DSN, USER, PASSWORD, [PDO::ATTR_PERSISTENT => $persists, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
        foreach (['PDO', str_starts_with(DSN, 'mysql') ? 'Pdo\Mysql' : 'Pdo\Pgsql'] as $class) {
            if (!class_exists($class)) { continue; }
            $make($db = (new ReflectionClass($class))->newInstanceWithoutConstructor(), $first);
            $statement = $db->query('SELECT 7');
            try { $make($db, $second); $seen[$class][] = true; } catch (Error $error) { $seen[$class][] = $error::class; }
            if ($statement->fetchAll(PDO::FETCH_COLUMN)[0] != 7 || !reaches($db)) { $seen[$class][] = 'broken'; }
        }
    }
    return $seen['PDO'] === ($seen['Pdo\Mysql'] ?? $seen['Pdo\Pgsql'] ?? $seen['PDO']) ? $seen['PDO'] : $seen;
}
function construct_after_failure()
{
    $db = (new ReflectionClass('PDO'))->newInstanceWithoutConstructor();
    $make = fn (string $password, bool $persists) => $db->__construct(DSN, USER, $password, [PDO::ATTR_PERSISTENT => $persists]);
    $seen = [];
    foreach ([['wrong', true], [PASSWORD, true], [PASSWORD, false]] as $arguments) {
        try { $make(...$arguments); $seen[] = true; } catch (Throwable $thrown) { $seen[] = $thrown::class; }
    }
    return $seen;
}
function is_refused() { cut(Held::$db); mark('cut'); until('locked-out'); return open() === false; }
"#;

fn server(database: &Database, driver: &str, role: &str) -> TaskServer {
    let constants =
        json!({"DSN": database.dsn(), "DRIVER": driver, "USER": USER, "PASSWORD": PASSWORD, "ROLE": role})
            .to_string();
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
    TaskServer::new(&format!("{define}\n{CODE}"))
        .directive("pgsql.auto_reset_persistent=1")
        .set("PHP_WORKERS", "1")
}

/// A mode, and its hooks if it can have some.
type Setup = (Mode, Option<&'static str>);

const SETUPS: [Setup; 1 + 2 * cfg!(feature = "worker") as usize] = [
    (Mode::Classic, None),
    #[cfg(feature = "worker")]
    (Mode::Worker, Some("none")),
    #[cfg(feature = "worker")]
    (Mode::Worker, Some("all")),
];

fn each(setups: &[Setup], test: impl Fn(&str, &TaskServer, Mode)) {
    let (Some(my), Some(pg)) = (databases::mariadb(), databases::postgres()) else { return };
    for (database, driver) in [(&my, "mysql"), (&pg, "pgsql"), (&pg, "pg_pconnect")] {
        for (mode, hooks) in setups {
            println!("{driver}, {mode:?}, hooks {hooks:?}");
            let server = server(database, driver, USER);
            let server = hooks.iter().fold(server, |server, hooks| server.set("RUNTIME_HOOKS", hooks));
            test(driver, &server, *mode);
        }
    }
}

#[test]
fn a_lost_connection_is_lost_for_each_of_its_objects() {
    each(&SETUPS, |driver, server, mode| {
        // MySQL is asked whether it is there. libpq learns of the loss by a query, which PgSql makes here and PDO does not; it
        // then connects the same connection again.
        let expected = match driver {
            "mysql" => "[false,false,true,true,true,true]",
            "pgsql" => "[false,false,false,false,false,true]",
            _ => "[true,true,true,true,true,true]",
        };
        let server = server.start(mode);
        for _ in 0..3 {
            assert_eq!(server.tell("answer_of_three"), expected);
        }
    });
}

/// The driver of PostgreSQL reports a transaction on a lost connection, which svc corrects, but not for ever.
#[test]
fn transactions_work_after_a_loss() {
    each(&SETUPS, |driver, server, mode| {
        if driver == "pg_pconnect" {
            return;
        }
        let server = server.start(mode);
        server.tell("create");
        for round in 0..2 {
            assert_eq!(server.tell("lose_kept"), "false");
            assert_eq!(server.tell("transact"), "7");
            assert_eq!(server.tell("leave_begun"), "7");
            assert_eq!(server.tell("insert_and_count"), (2 + 2 * round).to_string());
        }
    });
}

/// PHP would free the first connection behind its statements, or in the wrong way.
#[test]
fn a_persistent_connection_is_not_replaced_by_its_object() {
    each(&SETUPS, |driver, server, mode| {
        if driver != "pg_pconnect" {
            let server = server.start(mode);
            for _ in 0..2 {
                assert_eq!(server.tell("construct_again"), r#"["Error","Error","Error"]"#);
                assert_eq!(server.tell("construct_after_failure"), r#"["PDOException","Error","Error"]"#);
            }
        }
    });
}

#[cfg(feature = "worker")]
#[test]
fn a_lost_connection_is_replaced_beside_an_object_that_is_kept() {
    each(&SETUPS[1..], |driver, server, mode| {
        let server = server.start(mode);
        for _ in 0..3 {
            assert_eq!(server.tell("keep"), "true");
            assert_eq!(server.tell("cut_kept"), "true");
            let is_same = driver != "mysql";
            assert_eq!(server.tell("use_kept"), format!("[{is_same},true]"));
        }
    });
}

/// pg_pconnect() gives a connection up that it cannot restore.
#[cfg(feature = "worker")]
#[test]
fn objects_of_a_connection_that_cannot_be_restored_are_closed() {
    let Some(pg) = databases::own_postgres() else { return };
    pg.query(&format!("CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'"));
    let server = server(&pg, "pg_pconnect", "guest").start(Mode::Worker);
    assert_eq!(server.tell("keep_result"), "true");
    let mut refused = server.send("is_refused", "0");
    server.until("cut");
    pg.query("ALTER ROLE guest NOLOGIN");
    server.mark("locked-out");
    assert_eq!(refused.response().text(), "true");
    pg.query("ALTER ROLE guest LOGIN");
    assert!(!server.tell("use_result").is_empty());
    assert_eq!(server.tell("use_kept"), "[false,true]");
}

/// PHP keeps the latest object of a persistent connection as the recipient of its notices, also when the object is gone.
#[test]
fn notices_reach_an_object_that_is_there() {
    let Some(pg) = databases::postgres() else { return };
    for (mode, hooks) in SETUPS {
        let server = server(&pg, "pg_pconnect", USER);
        let server =
            hooks.iter().fold(server, |server, hooks| server.set("RUNTIME_HOOKS", hooks)).start(mode);
        for _ in 0..3 {
            assert_eq!(server.tell("two_and_notice"), "true");
            if mode != Mode::Classic {
                assert_eq!(server.tell("keep"), "true");
                assert_eq!(server.tell("notice"), "true");
                assert_eq!(server.tell("notice_on_kept"), "true");
            }
        }
    }
}
