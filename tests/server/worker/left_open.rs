//! State that a request or a task leaves open on a connection that the next one finds again: it is closed in between, in
//! every loop of the worker, with runtime hooks and without.

use serde_json::{Value, json};

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::databases::{self, Database, PASSWORD, Store, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};

/// Connections of the boot script, and pairs of functions: one leaves something open, the other one checks.
const CODE: &str = r#"
class Held { public static $pdo, $my, $pg, $redis, $kept, $rows, $begun, $prepared; }
function pdo(string $dsn, array $options = []): PDO { return new PDO($dsn, USER, PASSWORD, $options); }
function my(string $host = '127.0.0.1'): mysqli { mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT); return mysqli_connect($host, USER, PASSWORD, MY_NAME, MY_PORT); }
const PG = 'host=127.0.0.1 port=' . PG_PORT . ' dbname=' . PG_NAME . ' user=' . USER . ' password=' . PASSWORD;
function redis(): Redis { $redis = new Redis; $redis->connect('127.0.0.1', REDIS); return $redis; }
function boot()
{
    Held::$pdo = ['my' => pdo(MY), 'pg' => pdo(PGSQL)];
    Held::$my = my();
    Held::$pg = pg_connect(PG);
    Held::$redis = redis();
    Held::$prepared = ['pdo' => Held::$pdo['my']->prepare("SELECT GET_LOCK('left', 0)"), 'mysqli' => Held::$my->prepare("SELECT GET_LOCK('left', 0)")];
    pg_prepare(Held::$pg, 'locks', 'SELECT pg_advisory_lock(7)');
}
const INSERT = 'INSERT INTO money VALUES (1)';
const COUNT = 'SELECT count(*) FROM money';
function look_pdo(PDO $pdo) { return [$pdo->inTransaction(), (int) $pdo->query(COUNT)->fetchColumn()]; }
function begin_pdo(PDO $pdo) { $pdo->beginTransaction(); $pdo->exec(INSERT); return look_pdo($pdo); }

function leave_pdo_my() { return begin_pdo(Held::$pdo['my']); }
function look_pdo_my() { return look_pdo(Held::$pdo['my']); }
function leave_pdo_pg() { return begin_pdo(Held::$pdo['pg']); }
function look_pdo_pg() { return look_pdo(Held::$pdo['pg']); }
function leave_raw_my() { Held::$pdo['my']->exec('START TRANSACTION'); Held::$pdo['my']->exec(INSERT); return look_pdo_my(); }
function look_raw_my() { return look_pdo_my(); }
function leave_raw_pg() { Held::$pdo['pg']->exec('BEGIN'); Held::$pdo['pg']->exec(INSERT); return look_pdo_pg(); }
function look_raw_pg() { return look_pdo_pg(); }
function leave_failed_pg() { Held::$pdo['pg']->beginTransaction(); try { Held::$pdo['pg']->exec('SELECT nothing'); } catch (PDOException) { } return [true, 1]; }
function look_failed_pg() { return look_pdo_pg(); }
function leave_copy_pdo() { try { Held::$pdo['pg']->exec('COPY money FROM STDIN'); } catch (PDOException) { } return [true, 1]; }
function look_copy_pdo() { return look_pdo_pg(); }
function leave_unread_pdo()
{
    Held::$pdo['my']->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
    Held::$rows = Held::$pdo['my']->query('SELECT 1 UNION SELECT 2 UNION SELECT 3');
    Held::$pdo['my']->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);
    return [true, (int) Held::$rows->fetchColumn()];
}
function look_unread_pdo() { return look_pdo_my(); }
const ROWS = 'SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 ORDER BY 1';
function begin_rows() { foreach (Held::$pdo as $name => $pdo) { Held::$begun[$name] = $pdo->query(ROWS); } return next_rows(); }
function next_rows() { return array_map(fn ($statement) => (int) $statement->fetchColumn(), Held::$begun); }
function go_on_with_rows() { $rows = []; foreach (Held::$begun as $statement) { foreach ($statement as $row) { $rows[] = (int) $row[0]; } } return $rows; }
function leave_unread_beside_rows() { $seen = next_rows(); leave_unread_pdo(); return $seen; }
function leave_own() { Held::$kept = pdo(MY); return begin_pdo(Held::$kept); }
function look_own() { return look_pdo(Held::$kept); }
function leave_persistent() { Held::$kept = pdo(PGSQL, [PDO::ATTR_PERSISTENT => true]); return begin_pdo(Held::$kept); }
function look_persistent() { return [Held::$kept->inTransaction(), look_pdo(pdo(PGSQL, [PDO::ATTR_PERSISTENT => true]))[1]]; }
function leave_dropped() { return begin_pdo(pdo(PGSQL, [PDO::ATTR_PERSISTENT => true])); }
function look_dropped() { return look_pdo(pdo(PGSQL, [PDO::ATTR_PERSISTENT => true])); }
function leave_subclass() { Held::$kept = new class(MY, USER, PASSWORD) extends PDO { }; return begin_pdo(Held::$kept); }
function look_subclass() { return look_pdo(Held::$kept); }
function leave_statement()
{
    Held::$pdo['my']->exec('START TRANSACTION');
    Held::$rows = Held::$pdo['my']->prepare(INSERT);
    Held::$rows->execute();
    return look_pdo_my();
}
function look_statement() { return look_pdo_my(); }

function look_my(?mysqli $my = null)
{
    [$count, $is_inside] = ($my ?? Held::$my)->query('SELECT count(*), @@in_transaction FROM money')->fetch_row();
    return [(bool) $is_inside, (int) $count];
}
function begin_my(mysqli $my) { $my->begin_transaction(); mysqli_query($my, INSERT); return [true, look_my($my)[1]]; }
function look_my_begun() { return look_my(); }
function leave_my_begun() { return begin_my(Held::$my); }
function leave_my_rows() { Held::$rows = Held::$my->query('SELECT 1 UNION SELECT 2', MYSQLI_USE_RESULT); return [true, (int) Held::$rows->fetch_row()[0]]; }
function look_my_rows() { return look_my(); }
function leave_my_many() { Held::$my->multi_query('SELECT 1; SELECT 2; SELECT 3'); return [true, 1]; }
function look_my_many() { return look_my(); }
function leave_my_async() { Held::$my->query('SELECT 1', MYSQLI_ASYNC); return [true, 1]; }
function look_my_async() { return look_my(); }
function leave_my_statement() { Held::$rows = Held::$my->prepare('SELECT 1 UNION SELECT 2'); Held::$rows->execute(); Held::$rows->fetch(); return [true, 1]; }
function look_my_statement() { return look_my(); }
function leave_my_persistent() { Held::$kept = my('p:127.0.0.1'); return begin_my(Held::$kept); }
function look_my_persistent() { return look_my(Held::$kept); }
function leave_my_dropped() { return begin_my(my('p:127.0.0.1')); }
function look_my_dropped() { return look_my(my('p:127.0.0.1')); }

function look_pg($pg = null) { $pg ??= Held::$pg; return [pg_transaction_status($pg) !== PGSQL_TRANSACTION_IDLE, (int) pg_fetch_result(pg_query($pg, COUNT), 0, 0)]; }
function begin_pg($pg) { pg_query($pg, 'BEGIN'); pg_query($pg, INSERT); return look_pg($pg); }
function look_pg_begun() { return look_pg(); }
function leave_pg_begun() { return begin_pg(Held::$pg); }
function leave_pg_copy_in() { pg_query(Held::$pg, 'COPY money FROM STDIN'); pg_put_line(Held::$pg, "1\n"); return [true, 1]; }
function look_pg_copy_in() { return look_pg(); }
function leave_pg_copy_in_transaction() { pg_query(Held::$pg, 'BEGIN'); pg_query(Held::$pg, INSERT); return leave_pg_copy_in(); }
function look_pg_copy_in_transaction() { return look_pg(); }
function leave_pg_copy_out() { pg_query(Held::$pg, "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 10000)) TO STDOUT"); return [true, 1]; }
function look_pg_copy_out() { return look_pg(); }
function leave_pg_sent() { pg_send_query(Held::$pg, 'BEGIN; ' . INSERT . '; SELECT 1'); return [true, 1]; }
function look_pg_sent() { return look_pg(); }
function leave_pg_sent_copy() { pg_send_query(Held::$pg, 'COPY money FROM STDIN'); pg_get_result(Held::$pg); return [true, 1]; }
function look_pg_sent_copy() { return look_pg(); }
function leave_pg_persistent() { Held::$kept = pg_pconnect(PG . ' '); return begin_pg(Held::$kept); }
function look_pg_persistent() { return look_pg(Held::$kept); }
function leave_pg_dropped() { return begin_pg(pg_pconnect(PG . '  ')); }
function look_pg_dropped() { return look_pg(pg_pconnect(PG . '  ')); }
function leave_pg_closed() { $pg = pg_pconnect(PG . '   '); $seen = begin_pg($pg); pg_close($pg); return $seen; }
function look_pg_closed() { return look_pg(pg_pconnect(PG . '   ')); }
function leave_pg_dropped_copy() { pg_query(pg_pconnect(PG . '    '), 'COPY money FROM STDIN'); return [true, 1]; }
function trace_pg($pg) { pg_trace(DIR . '/trace', 'w', $pg); pg_query($pg, 'SELECT 1'); return [true, 1]; }
function look_traced_pg($pg) { pg_query($pg, "SELECT 'marked'"); return [str_contains(file_get_contents(DIR . '/trace'), 'marked'), 0]; }
function leave_pg_traced() { return trace_pg(Held::$pg); }
function look_pg_traced() { return look_traced_pg(Held::$pg); }
function leave_pg_dropped_trace() { return trace_pg(pg_pconnect(PG . '     ')); }
function look_pg_dropped_trace() { return look_traced_pg(pg_pconnect(PG . '     ')); }
function look_pg_dropped_copy() { return look_pg(pg_pconnect(PG . '    ')); }

function look_redis() { return [Held::$redis->getMode() !== Redis::ATOMIC, (int) Held::$redis->exists('a')]; }
function leave_redis() { Held::$redis->multi(); Held::$redis->set('a', 1); return [true, 1]; }
function leave_redis_pipeline() { Held::$redis->pipeline(); Held::$redis->set('a', 1); return [true, 1]; }
function look_redis_pipeline() { return look_redis(); }
function leave_redis_watch() { Held::$redis->watch('b'); redis()->incr('b'); return [true, 1]; }
function look_redis_watch() { return [Held::$redis->multi()->get('a')->exec() === false, look_redis()[1]]; }
function leave_redis_raw() { Held::$redis->rawCommand('MULTI'); return [true, 1]; }
function look_redis_raw() { return look_redis(); }
function leave_redis_subscribed() { Held::$redis->rawCommand('SUBSCRIBE', 'c'); return [true, 1]; }
function look_redis_subscribed() { return look_redis(); }

function leave_lock_my() { Held::$pdo['my']->query("SELECT GET_LOCK('left', 0)")->fetchAll(); return [true, 1]; }
function look_lock_my() { return [pdo(MY)->query("SELECT IS_FREE_LOCK('left')")->fetchColumn() != 1, 0]; }
function leave_lock_prepared() { $statement = Held::$pdo['my']->prepare('select get_lock(?, 0)'); $statement->execute(['left']); return [true, 1]; }
function look_lock_prepared() { return look_lock_my(); }
function leave_lock_mysqli() { mysqli_query(Held::$my, "SELECT GET_LOCK('left', 0)")->fetch_all(); return [true, 1]; }
function look_lock_mysqli() { return look_lock_my(); }
function leave_lock_tables() { Held::$pdo['my']->exec('LOCK TABLES money WRITE'); return [true, 1]; }
function look_lock_tables() { $pdo = pdo(MY); $pdo->exec('SET lock_wait_timeout = 1'); return look_pdo($pdo); }
function leave_lock_reading() { Held::$my->query('FLUSH TABLES money WITH READ LOCK'); return [true, 1]; }
function look_lock_reading() { $pdo = pdo(MY); $pdo->exec('SET lock_wait_timeout = 1'); $pdo->exec('UPDATE money SET amount = 2'); return [false, 0]; }
function leave_lock_earlier_pdo() { Held::$prepared['pdo']->execute(); Held::$prepared['pdo']->fetchAll(); return [look_lock_my()[0], 1]; }
function look_lock_earlier_pdo() { return look_lock_my(); }
function leave_lock_earlier_mysqli() { Held::$prepared['mysqli']->execute(); Held::$prepared['mysqli']->get_result()->fetch_all(); return [look_lock_my()[0], 1]; }
function look_lock_earlier_mysqli() { return look_lock_my(); }
function leave_lock_earlier_libpq() { pg_execute(Held::$pg, 'locks', []); return [is_locked_pg(), 1]; }
function look_lock_earlier_libpq() { return look_lock_pg(); }
function is_locked_pg() { return !pdo(PGSQL)->query('SELECT pg_try_advisory_lock(7)')->fetchColumn(); }
function leave_lock_pg() { Held::$pdo['pg']->query('SELECT pg_try_advisory_lock(7)')->fetchAll(); return [is_locked_pg(), 1]; }
function look_lock_pg() { return [is_locked_pg(), 0]; }
function leave_lock_libpq() { pg_query_params(Held::$pg, 'SELECT pg_advisory_lock($1)', [7]); return [is_locked_pg(), 1]; }
function look_lock_libpq() { return [is_locked_pg(), 0]; }
function boot_locks() { return [pdo(MY)->query("SELECT IS_FREE_LOCK('boot')")->fetchColumn(), pdo(PGSQL)->query('SELECT pg_try_advisory_lock(8)')->fetchColumn()]; }

function persistent_redis() { $redis = new Redis; $redis->pconnect('127.0.0.1', REDIS); return $redis; }
function leave_redis_dropped() { $redis = persistent_redis(); $redis->multi(); $redis->set('a', 1); return [true, 1]; }
function look_redis_dropped() { $redis = persistent_redis(); return [$redis->getMode() !== Redis::ATOMIC, (int) $redis->exists('a')]; }
function leave_redis_dropped_watch() { persistent_redis()->watch('b'); redis()->incr('b'); return [true, 1]; }
function look_redis_dropped_watch() { return [persistent_redis()->multi()->get('a')->exec() === false, 0]; }
function leave_redis_dropped_subscription() { persistent_redis()->rawCommand('SUBSCRIBE', 'c'); return [true, 1]; }
function look_redis_dropped_subscription() { return [persistent_redis()->get('a') !== false, 0]; }
function leave_dropped_my() { return begin_pdo(pdo(MY, [PDO::ATTR_PERSISTENT => true])); }
function look_dropped_my() { return look_pdo(pdo(MY, [PDO::ATTR_PERSISTENT => true])); }
function die_after(string $case) { ("leave_$case")($case); str_repeat('x', PHP_INT_MAX >> 4); }

function stay_inside() { leave_pdo_my(); mark('inside'); until('go'); Held::$pdo['my']->exec(INSERT); return look_pdo_my(); }
function stay(string $case) { $seen = "leave_$case"(); mark('inside'); until('go'); return $seen; }
function look_later(string $case) { mark('looks'); return "look_$case"(); }
class Finish { public static $do; }
function finish() { if (Finish::$do) { (Finish::$do)(); Finish::$do = null; } }
function begin_and_finish() { Finish::$do = fn () => Held::$pdo['my']->commit(); return leave_pdo_my(); }
function begin_at_finish() { Finish::$do = leave_pdo_my(...); return 1; }
function fork_inside()
{
    leave_pdo_my();
    $child = test_fork();
    if ($child === 0) { return 0; }
    test_wait($child);
    return look_pdo_my();
}

function copy_then(string $way, string $rest)
{
    $pg = pg_connect(PG);
    pg_query($pg, $way === 'in' ? 'COPY money FROM STDIN' : 'COPY (SELECT generate_series(1, 1000)) TO STDOUT');
    if ($way === 'in') { pg_put_line($pg, "1\n"); }
    switch ($rest) {
        case 'nothing': return [false, 0];
        case 'query': break;
        case 'params': @pg_query_params($pg, 'SELECT $1', [1]); break;
        case 'prepare': @pg_prepare($pg, 'one', 'SELECT 1'); break;
        case 'send': @pg_send_query($pg, 'SELECT 1'); break;
        case 'copy': @pg_copy_to($pg, 'money'); break;
        case 'close': pg_close($pg); return look_pg(pg_connect(PG, PGSQL_CONNECT_FORCE_NEW));
        case 'result_twice': pg_get_result($pg); pg_get_result($pg); break;
    }
    return @look_pg_after($pg);
}
function look_pg_after($pg) { $count = (int) pg_fetch_result(pg_query($pg, COUNT), 0, 0); return [pg_transaction_status($pg) !== PGSQL_TRANSACTION_IDLE, $count]; }
foreach (['in', 'out'] as $way) {
    foreach (['nothing', 'query', 'params', 'prepare', 'send', 'copy', 'close', 'result_twice'] as $rest) {
        eval("function copy_{$way}_then_$rest() { return copy_then('$way', '$rest'); }");
    }
}
function wait_pdo_my() { mark('waits'); Held::$pdo['my']->query('SELECT SLEEP(600)'); }
function wait_pdo_pg() { mark('waits'); Held::$pdo['pg']->query('SELECT pg_sleep(600)'); }
function wait_my_begun() { mark('waits'); Held::$my->query('SELECT SLEEP(600)'); }
function wait_pg_begun() { mark('waits'); pg_query(Held::$pg, 'SELECT pg_sleep(600)'); }
function wait_redis() { mark('waits'); Held::$redis->blPop('nothing', 600); }
function cancelled(string $way)
{
    $task = Svc\async("wait_$way"(...));
    until('waits');
    Svc\sleep(0.1);
    $task->cancel();
    try { $task->await(); } catch (Svc\Async\CancelledException) { }
    unlink(DIR . '/waits');
    return 1;
}
function lose_my()
{
    leave_pdo_my();
    $id = Held::$pdo['my']->query('SELECT connection_id()')->fetchColumn();
    pdo(MY)->exec("KILL $id");
    return 1;
}
function lose_pg()
{
    leave_pdo_pg();
    $id = Held::$pdo['pg']->query('SELECT pg_backend_pid()')->fetchColumn();
    pdo(PGSQL)->exec("SELECT pg_terminate_backend($id, 5000)");
    return 1;
}
function wait_at_limit(string $way) { set_time_limit(1); "wait_$way"(); }

function answer_all() { while (frankenphp_handle_request(answer(...))) { } exit; }
"#;

const PDO: &[&str] = &[
    "pdo_my",
    "pdo_pg",
    "raw_my",
    "raw_pg",
    "failed_pg",
    "copy_pdo",
    "unread_pdo",
    "own",
    "persistent",
    "dropped",
    "dropped_my",
    "subclass",
    "statement",
];
const LOCKS: &[&str] = &[
    "lock_my",
    "lock_prepared",
    "lock_mysqli",
    "lock_tables",
    "lock_reading",
    "lock_pg",
    "lock_libpq",
    "lock_earlier_pdo",
    "lock_earlier_mysqli",
    "lock_earlier_libpq",
];
const MYSQLI: &[&str] =
    &["my_begun", "my_rows", "my_many", "my_async", "my_statement", "my_persistent", "my_dropped"];
const PGSQL: &[&str] = &[
    "pg_begun",
    "pg_copy_in",
    "pg_copy_in_transaction",
    "pg_copy_out",
    "pg_sent",
    "pg_sent_copy",
    "pg_persistent",
    "pg_dropped",
    "pg_closed",
    "pg_dropped_copy",
    "pg_traced",
    "pg_dropped_trace",
];
const REDIS: &[&str] = &[
    "redis",
    "redis_pipeline",
    "redis_watch",
    "redis_raw",
    "redis_subscribed",
    "redis_dropped",
    "redis_dropped_watch",
    "redis_dropped_subscription",
];

struct Backends {
    mysql: Database,
    pgsql: Database,
    redis: Store,
    extensions: String,
}

fn backends() -> Option<Backends> {
    let (mysql, pgsql) = (databases::mariadb()?, databases::postgres()?);
    let (redis, extensions) = (databases::redis()?, fetched("php-extensions")?);
    for database in [&mysql, &pgsql] {
        database.query("CREATE TABLE money (amount INTEGER)");
    }
    Some(Backends { mysql, pgsql, redis, extensions })
}

impl Backends {
    fn server(&self, hooks: &str) -> TaskServer {
        let constants: Value = json!({"USER": USER, "PASSWORD": PASSWORD, "MY": self.mysql.dsn(),
            "MY_NAME": self.mysql.name(), "MY_PORT": self.mysql.address().port(), "PGSQL": self.pgsql.dsn(),
            "PG_NAME": self.pgsql.name(), "PG_PORT": self.pgsql.address().port(),
            "REDIS": self.redis.address().port()});
        let define =
            format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
        TaskServer::new(&format!("{define}\n{CODE}"))
            .directive(&format!("extension={}/redis.so", self.extensions))
            .set("RUNTIME_HOOKS", hooks)
            .set("PHP_WORKERS", "1")
            .set("ASYNC_WORKERS", "1")
            .entry("boot();")
    }
}

/// Where requests and tasks run.
const PLACES: [(&str, &str); 3] = [("serve", ""), ("frankenphp", ""), ("task", "&task")];

fn start(server: &TaskServer, place: &str) -> TaskSvc {
    server.start_with(Mode::Worker, if place == "frankenphp" { "boot(); answer_all();" } else { "boot();" })
}

/// Leaves each of these open, and checks the next request; each case leaves one transaction open, or something like it.
fn leaves_nothing(cases: &[&str]) {
    let Some(backends) = backends() else { return };
    for hooks in ["none", "net"] {
        for (place, suffix) in PLACES {
            let server = start(&backends.server(hooks), place);
            for case in cases {
                println!("{hooks} {place} {case}");
                assert_eq!(server.tell(&format!("leave_{case}{suffix}")), "[true,1]");
                let look = || server.tell(&format!("look_{case}{suffix}"));
                if case.starts_with("lock_") {
                    // Another connection checks this, and does not wait for the end of the request.
                    eventually("it is released", || look() == "[false,0]");
                } else {
                    assert_eq!(look(), "[false,0]");
                }
                assert_eq!(server.svc.metric("svc_worker_recycles_total"), 0.0);
            }
        }
    }
}

/// In classic mode, PHP itself cleans up persistent connections, also after a fatal error.
#[test]
fn persistent_connections_are_left_clean_in_classic_mode() {
    let Some(backends) = backends() else { return };
    let server = backends.server("none").set("ASYNC_WORKERS", "").set("ASYNC_ENTRY_FILE", "");
    let server = server.start_with(Mode::Classic, "");
    for case in [
        "dropped",
        "dropped_my",
        "my_dropped",
        "pg_dropped",
        "pg_closed",
        "pg_dropped_copy",
        "pg_dropped_trace",
        "redis_dropped",
        "redis_dropped_watch",
    ] {
        for is_fatal in [false, true] {
            println!("{case} {is_fatal}");
            if is_fatal {
                let response = server.svc.get(&format!("/?do=die_after&n={case}"));
                assert_eq!(response.status, 500, "{}", response.text());
            } else {
                assert_eq!(server.tell(&format!("leave_{case}")), "[true,1]");
            }
            assert_eq!(server.tell(&format!("look_{case}")), "[false,0]");
        }
    }
}

/// ext/pgsql asks for results until there is none, and an open copy always has one: in C, which no time limit interrupts.
#[test]
fn a_copy_that_is_left_open_holds_up_no_thread() {
    let Some(backends) = backends() else { return };
    for (mode, suffix) in [(Mode::Classic, ""), (Mode::Worker, ""), (Mode::Classic, "&task")] {
        for hooks in ["none", "net"] {
            let server =
                backends.server(hooks).start_with(mode, if mode == Mode::Classic { "" } else { "boot();" });
            for way in ["in", "out"] {
                for rest in ["nothing", "query", "params", "prepare", "send", "copy", "close", "result_twice"]
                {
                    println!("{mode:?}{suffix} {hooks} {way} {rest}");
                    let seen = server.tell(&format!("copy_{way}_then_{rest}{suffix}"));
                    assert_eq!(seen, "[false,0]", "{way} {rest}");
                }
            }
        }
    }
}

#[test]
fn pdo_is_left_clean() {
    leaves_nothing(PDO);
}

/// A library has read all rows of a buffered result: they are the script's, as an array would be, and the connection is free.
#[test]
fn buffered_rows_stay_with_their_statement() {
    let Some(backends) = backends() else { return };
    for hooks in ["none", "net"] {
        for (place, suffix) in PLACES {
            println!("{hooks} {place}");
            let server = start(&backends.server(hooks), place);
            server.tell(&format!("begin_rows{suffix}"));
            // The connection of MySQL also has a result whose rows are with the server: only that one is closed.
            for rows in ["{\"my\":2,\"pg\":2}", "{\"my\":3,\"pg\":3}"] {
                let seen = server.tell(&format!("leave_unread_beside_rows{suffix}"));
                assert_eq!(seen, rows);
                assert_eq!(server.tell(&format!("look_pdo_my{suffix}")), "[false,0]");
            }
            assert_eq!(server.tell(&format!("go_on_with_rows{suffix}")), "[4,4]");
        }
    }
}

#[test]
fn mysqli_is_left_clean() {
    leaves_nothing(MYSQLI);
}

#[test]
fn libpq_is_left_clean() {
    leaves_nothing(PGSQL);
}

#[test]
fn redis_is_left_clean() {
    leaves_nothing(REDIS);
}

#[test]
fn no_lock_of_a_session_is_left() {
    leaves_nothing(LOCKS);
}

#[test]
fn locks_of_the_boot_script_are_kept() {
    let Some(backends) = backends() else { return };
    let boot = "boot(); Held::$pdo['my']->query(\"SELECT GET_LOCK('boot', 0)\")->fetchAll(); \
        Held::$pdo['pg']->query('SELECT pg_advisory_lock(8)')->fetchAll();";
    let server = backends.server("none").start_with(Mode::Worker, boot);
    for _ in 0..2 {
        assert_eq!(server.tell("leave_lock_my"), "[true,1]");
        assert_eq!(server.tell("leave_lock_pg"), "[true,1]");
        assert_eq!(server.tell("boot_locks"), "[0,false]");
    }
}

/// Without owners, waiting requests may share one open transaction.
#[test]
fn the_last_of_those_that_use_a_connection_cleans_up() {
    let Some(backends) = backends() else { return };
    for (place, suffix) in [("serve", ""), ("task", "&task")] {
        let server = start(&backends.server("none"), place);
        let mut first = server.send(&format!("stay_inside{suffix}"), "0");
        server.until("inside");
        if place == "serve" {
            assert_eq!(server.tell("look_pdo_my"), "[true,1]", "it shares the connection");
            assert_eq!(server.tell("look_pdo_my"), "[true,1]", "its end has not rolled back");
        } else {
            // The task waits on the only async thread, which is free meanwhile.
            assert_eq!(server.tell("look_pdo_my&task"), "[true,1]");
        }
        server.mark("go");
        assert_eq!(first.response().text(), "[true,2]");
        assert_eq!(server.tell(&format!("look_pdo_my{suffix}")), "[false,0]");
    }
}

/// With owners, a request that waits for another request's persistent connection is not one of its users yet.
#[test]
fn a_persistent_connection_is_clean_for_the_next_waiter() {
    let Some(backends) = backends() else { return };
    let server = start(&backends.server("net"), "serve");
    for name in ["pg_dropped", "dropped", "my_dropped"] {
        println!("{name}");
        let mut inside = server.send("stay", name);
        server.until("inside");
        let mut other = server.send("look_later", name);
        server.until("looks");
        server.tell("strrev");
        server.mark("go");
        assert_eq!(inside.response().text(), "[true,1]");
        assert_eq!(other.response().text(), "[false,0]");
        svc_testing::hooked::forget(&server, &["inside", "looks", "go"]);
    }
}

/// In a loop of `frankenphp_handle_request()`, the code after the response belongs to the request.
#[test]
fn a_transaction_may_end_after_the_response() {
    let Some(backends) = backends() else { return };
    let boot = "boot(); while (frankenphp_handle_request(answer(...))) { finish(); } exit;";
    let server = backends.server("none").start_with(Mode::Worker, boot);
    assert_eq!(server.tell("leave_pdo_my"), "[true,1]");
    assert_eq!(server.tell("look_pdo_my"), "[false,0]");
    assert_eq!(server.tell("begin_and_finish"), "[true,1]");
    assert_eq!(server.tell("look_pdo_my"), "[false,1]");
    // A transaction opened there does not reach the next request either.
    assert_eq!(server.tell("begin_at_finish"), "1");
    assert_eq!(server.tell("look_pdo_my"), "[false,1]");
}

/// A child inherits its parent's sockets, and does not use them.
#[test]
fn the_end_of_a_forked_child_ends_nothing() {
    let Some(backends) = backends() else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("processes.so");
    c::extension(include_str!("../../php/processes.c"), &library);
    for hooks in ["none", "net"] {
        let server = backends.server(hooks).directive(&format!("extension={}", library.display()));
        let server = start(&server, "serve");
        assert_eq!(server.tell("fork_inside"), "[true,1]");
        assert_eq!(server.tell("look_pdo_my"), "[false,0]");
    }
}

#[test]
fn open_transactions_of_the_boot_script_reach_no_request() {
    let Some(backends) = backends() else { return };
    for hooks in ["none", "net"] {
        let boot = "boot(); leave_pdo_my(); leave_my_rows(); leave_pg_copy_in(); leave_redis();";
        let server = backends.server(hooks).start_with(Mode::Worker, boot);
        for look in ["pdo_my", "my_rows", "pg_copy_in", "redis"] {
            assert_eq!(server.tell(&format!("look_{look}")), "[false,0]", "{hooks} {look}");
        }
    }
}

/// The progress of an aborted call is unknown: its connection is closed, and later requests do not get the dead connection.
#[test]
fn a_cancelled_task_leaves_no_dead_connection() {
    let Some(backends) = backends() else { return };
    let server = start(&backends.server("net"), "task");
    for way in ["pdo_my", "pdo_pg", "my_begun", "pg_begun", "redis"] {
        println!("{way}");
        let mut one = server.send("cancelled", way);
        assert_eq!(one.response().text(), "1");
        for _ in 0..5 {
            assert_eq!(server.tell(&format!("look_{way}&task")), "[false,0]");
        }
    }
}

#[test]
fn a_request_at_its_limit_leaves_no_dead_connection() {
    let Some(backends) = backends() else { return };
    let server = start(&backends.server("net"), "serve");
    for way in ["pdo_my", "pdo_pg", "my_begun", "pg_begun", "redis"] {
        println!("{way}");
        assert_eq!(server.send("wait_at_limit", way).response().status, 504);
        for _ in 0..5 {
            assert_eq!(server.tell(&format!("look_{way}")), "[false,0]");
        }
    }
}

/// While the server is down, a worker that boots again could not connect either.
#[test]
fn a_connection_closed_by_its_server_ends_no_worker() {
    let Some(backends) = backends() else { return };
    for hooks in ["none", "net"] {
        for (place, suffix) in PLACES {
            let server = start(&backends.server(hooks), place);
            for way in ["my", "pg"] {
                println!("{hooks} {place} {way}");
                assert_eq!(server.tell(&format!("lose_{way}{suffix}")), "1");
                svc_testing::tasks::assert_like(
                    &server.tell(&format!("look_pdo_{way}{suffix}")),
                    "PDOException: *",
                );
            }
            assert_eq!(server.svc.metric("svc_worker_recycles_total"), 0.0);
        }
    }
}
