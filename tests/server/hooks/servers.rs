//! The runtime hook `net` when the peer goes away.

use serde_json::json;

use svc_testing::client::{Client, becomes};
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::hooked::{assert_serves, one_thread};
use svc_testing::proxy::Direction;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};
use svc_testing::turns::server_with;
use svc_testing::waits::Stores;

#[test]
fn a_server_that_dies_in_its_answer_ends_the_query() {
    let stores = Stores::new();
    let server = one_thread(stores.server(""), "net").start(Mode::Worker);
    for (way, proxy) in stores.drivers() {
        let (mut failed, mut count) = (0, 0);
        // Cut ever later in the conversation, until it completes.
        loop {
            proxy.cut_after(Direction::ToClient, count);
            let answer = server.send("tries", way).response().text();
            if answer == "\"whole\"" {
                break;
            }
            assert_eq!(answer, "\"failed\"", "{way} after {count} bytes");
            failed += 1;
            // TLS with its certificates takes many bytes.
            count += 1 + count / 7;
        }
        assert!(failed > 3, "{way} {failed}");
        proxy.cut_after(Direction::ToClient, usize::MAX);
        assert_serves(&server);
    }
}

/// Each request starts an operation that begins at once and never ends.
const KILLED: &str = r#"
class Held { public static $db, $redis; }
/** The result or the exception of a call, and its PHP messages. */
function seen(callable $call): array
{
    $notes = [];
    set_error_handler(function (int $level, string $text) use (&$notes) { $notes[] = $text; return true; });
    try { $result = $call(); } catch (Throwable $thrown) { $result = $thrown::class . ': ' . $thrown->getMessage(); }
    return [$result, preg_replace('/PID=\\d+/', '', $notes)];
}
function is_mysql(): bool { return str_starts_with(DSN, 'mysql:'); }
function endless(): string { return is_mysql() ? "SELECT REPEAT('x', 100000) UNION ALL SELECT SLEEP(600)" : "SELECT repeat('x', 100000) UNION ALL SELECT pg_sleep(600)::text"; }
function connect(): PDO { return new PDO(DSN, USER, PASSWORD); }
function by_pdo() { $db = connect(); return seen(fn () => $db->query(endless())->fetchAll()); }
function by_held() { return seen(fn () => Held::$db->query(endless())->fetchAll()); }
function by_mysqli() { $db = new mysqli('127.0.0.1', USER, PASSWORD, NAME, PORT); return seen(fn () => $db->query(endless())->fetch_all()); }
function by_pg()
{
    $db = pg_connect('host=127.0.0.1 port=' . PORT . ' dbname=' . NAME . ' user=' . USER . ' password=' . PASSWORD, PGSQL_CONNECT_FORCE_NEW);
    return seen(fn () => pg_query($db, endless()));
}
function connect_redis(): Redis { $store = new Redis; $store->connect('127.0.0.1', PORT); return $store; }
function block(Redis $store) { return $store->multi(Redis::PIPELINE)->echo('wombat')->blPop(['none'], 600)->exec(); }
function by_redis() { $store = connect_redis(); return seen(fn () => block($store)); }
function by_held_redis() { return seen(fn () => block(Held::$redis)); }
function works() { return connect()->query('SELECT 7')->fetchColumn() == 7; }
function redis_works() { return connect_redis()->echo('wombat') === 'wombat' && Held::$redis->echo('wombat') === 'wombat'; }
"#;

/// A server that belongs to the test.
struct Victim<'a> {
    /// Returns how many requests wait inside it.
    waiting: &'a dyn Fn() -> u64,
    kill: &'a dyn Fn(),
    start_again: &'a dyn Fn(),
}

/// Functions that query the server: each on a separate connection, all on one, and to check whether it is back.
struct Ways<'a> {
    own: &'a [&'a str],
    held: &'a str,
    works: &'a str,
}

/// The number of requests in each way.
const EACH: usize = 3;

/// Sends requests, waits until `waiting` of them wait inside the server, kills it, and returns their results.
fn kill_meanwhile(server: &TaskSvc, ways: &[&str], waiting: usize, victim: &Victim<'_>) -> Vec<String> {
    let mut clients: Vec<Client> =
        ways.iter().flat_map(|way| (0..EACH).map(|n| server.send(way, &n.to_string()))).collect();
    if !becomes(|| (victim.waiting)() == waiting as u64) {
        let said: Vec<_> = clients.iter_mut().map(|client| client.response().text()).collect();
        panic!("{} of {waiting} wait; they said {said:?}", (victim.waiting)());
    }
    assert_serves(server);
    (victim.kill)();
    clients.iter_mut().map(|client| client.response().text()).collect()
}

/// Kills a server without the hook and with it. Of the requests that share a connection, one queries and the others wait
/// for it.
fn kill_in_both_ways(server: &TaskServer, boot: &str, ways: &Ways<'_>, victim: &Victim<'_>) {
    let plain = server.clone().set("RUNTIME_HOOKS", "none").set("PHP_WORKERS", "12");
    let plain = plain.start_with(Mode::Worker, boot);
    let each = ways.own.len() * EACH;
    let expected = kill_meanwhile(&plain, ways.own, each, victim);
    (victim.start_again)();
    let hooked = server.start_with(Mode::Worker, boot);
    let all: Vec<&str> = ways.own.iter().copied().chain([ways.held]).collect();
    let seen = kill_meanwhile(&hooked, &all, each + 1, victim);
    assert_eq!(seen[..each], expected[..]);
    // The request that had the connection gets the same result; the others see that the connection is lost.
    assert!(seen[each..].contains(&expected[0]), "{seen:?} and {}", expected[0]);
    assert_serves(&hooked);
    (victim.start_again)();
    for _ in 0..2 {
        assert_eq!(hooked.tell(ways.works), "true");
    }
}

fn kill_database(database: &Database, own: &[&str]) {
    let constants = json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD,
        "NAME": database.name(), "PORT": database.address().port()});
    kill_in_both_ways(
        &server_with(KILLED, &constants),
        "Held::$db = connect();",
        &Ways { own, held: "by_held", works: "works" },
        &Victim {
            waiting: &|| database.sleeping(),
            kill: &|| database.kill(),
            start_again: &|| database.start_again(),
        },
    );
}

#[test]
fn requests_survive_the_death_of_mariadb() {
    let Some(database) = databases::own_mariadb() else { return };
    kill_database(&database, &["by_pdo", "by_mysqli"]);
}

#[test]
fn requests_survive_the_death_of_postgresql() {
    let Some(database) = databases::own_postgres() else { return };
    kill_database(&database, &["by_pdo", "by_pg"]);
}

#[test]
fn requests_survive_the_death_of_redis() {
    let Some((store, extensions)) = databases::redis().zip(fetched("php-extensions")) else { return };
    let server = server_with(KILLED, &json!({"PORT": store.address().port()}));
    kill_in_both_ways(
        &server.directive(&format!("extension={extensions}/redis.so")),
        "Held::$redis = connect_redis();",
        &Ways { own: &["by_redis"], held: "by_held_redis", works: "redis_works" },
        &Victim {
            waiting: &|| store.blocked_clients(),
            kill: &|| store.kill(),
            start_again: &|| store.start_again(),
        },
    );
}
