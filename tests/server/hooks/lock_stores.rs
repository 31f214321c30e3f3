//! Locks in Redis and PostgreSQL that requests poll for with `usleep()`, with runtime hooks: the lock excludes all others,
//! and every request gets its turn.

use serde_json::json;

use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::Mode;
use svc_testing::turns::server_with;

/// A counter in a file that only the lock protects. `shared_` functions use connections of the boot script.
const CODE: &str = r#"
class Held { public static $redis, $pdo, $released; }
function redis(): Redis { $redis = new Redis; $redis->connect('127.0.0.1', REDIS); return $redis; }
function pdo(): PDO { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function boot() { Held::$redis = redis(); Held::$pdo = pdo(); }
function count_one(): int
{
    $count = (int) file_get_contents(DIR . '/count');
    usleep(2000);
    file_put_contents(DIR . '/count', ++$count);
    return $count;
}
function with(LockStore $store): int
{
    $lock = new Lock($store, 'counter');
    $lock->acquire();
    try { return count_one(); } finally { $lock->release(); }
}
function shared_redis() { return with(new RedisStore(Held::$redis)); }
function own_redis() { return with(new RedisStore(redis())); }
function shared_pg() { return with(new PgStore(Held::$pdo)); }
function own_pg() { return with(new PgStore(pdo())); }
function both() { return Held::$pdo->query('SELECT 1')->fetchColumn() + with(new RedisStore(Held::$redis)); }
/** The lock is released with its object, at the end of the request. */
function left_to_destructor()
{
    $lock = new Lock(new PgStore(Held::$pdo), 'counter');
    $lock->acquire();
    register_shutdown_function(function () use ($lock) { });
    return count_one();
}
"#;

const CLIENTS: usize = 12;

/// Sends many requests and many tasks at once, to this many threads each.
fn all_come_through(threads: &str, ways: &[&str]) {
    let (Some(database), Some(store), Some(extensions)) =
        (databases::postgres(), databases::redis(), fetched("php-extensions"))
    else {
        return;
    };
    let constants = json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD,
        "REDIS": store.address().port()});
    let server = server_with(&format!("require __DIR__ . '/lock_stores.php';\n{CODE}"), &constants)
        .file("lock_stores.php", include_str!("../../php/lock_stores.php"))
        .directive(&format!("extension={extensions}/redis.so"))
        .set("RUNTIME_HOOKS", "all")
        .set("PHP_WORKERS", threads)
        .set("ASYNC_WORKERS", threads)
        .entry("boot();")
        .start_with(Mode::Worker, "boot();");
    for way in ways {
        for place in ["", "&task"] {
            println!("{way}{place}");
            std::fs::write(server.path("count"), "0").unwrap();
            let mut clients: Vec<_> =
                (0..CLIENTS).map(|n| server.send(&format!("{way}{place}"), &n.to_string())).collect();
            for client in &mut clients {
                let response = client.response();
                assert_eq!(response.status, 200, "{}", response.text());
                assert!(response.text().parse::<u32>().is_ok(), "{}", response.text());
            }
            assert_eq!(std::fs::read_to_string(server.path("count")).unwrap(), CLIENTS.to_string());
        }
    }
}

#[test]
fn all_requests_get_the_lock_one_at_a_time() {
    all_come_through("2", &["shared_redis", "own_redis", "own_pg", "both"]);
}

/// A PostgreSQL session may acquire its lock again, so a library also remembers the holder.
#[test]
fn a_session_that_requests_share_locks_for_one_of_them() {
    all_come_through("1", &["shared_pg", "left_to_destructor"]);
}
