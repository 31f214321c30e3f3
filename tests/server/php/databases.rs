//! PHP as a client of real database servers and key-value stores, through all of its drivers.

use std::time::Duration;

use serde_json::{Value, json};

use svc_testing::Svc;
use svc_testing::answering::{answer, script};
use svc_testing::client::eventually;
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::proxy::{Direction, Proxy};
use svc_testing::socket::Address;

const PDO: &str = r#"
function answer(): array
{
    return array_map(function (string $dsn) {
        $db = new PDO($dsn, USER, PASSWORD);
        $statement = $db->prepare('SELECT text FROM animals WHERE id = ?');
        $statement->execute([2]);
        return $statement->fetchAll(PDO::FETCH_COLUMN);
    }, DSNS);
}
"#;

const MYSQLI: &str = r#"
function answer(): array
{
    $answers = [];
    foreach ([[SOCKET, 0, 0], ['', PORT, 0], ['', PORT, MYSQLI_CLIENT_SSL | MYSQLI_CLIENT_SSL_DONT_VERIFY_SERVER_CERT]] as [$socket, $port, $flags]) {
        $db = mysqli_init();
        $db->real_connect($socket === '' ? '127.0.0.1' : 'localhost', USER, PASSWORD, NAME, $port, $socket, $flags);
        $answers[] = [$db->query('SELECT text FROM animals WHERE id = 1')->fetch_all()[0][0],
            $db->query("SHOW STATUS LIKE 'Ssl_version'")->fetch_row()[1]];
    }
    return $answers;
}
"#;

const PG: &str = r#"
function answer(): array
{
    $answers = [];
    foreach ([dirname(SOCKET), '127.0.0.1'] as $host) {
        $db = pg_connect("host=$host port=" . PORT . ' dbname=' . NAME . ' user=' . USER . ' password=' . PASSWORD);
        pg_send_query($db, 'SELECT text FROM animals WHERE id = 1');
        $tls = pg_fetch_result(pg_get_result($db), 0, 0);
        while (pg_get_result($db)) { }
        $answers[] = [$tls, pg_fetch_result(pg_query_params($db, 'SELECT ssl FROM pg_stat_ssl WHERE pid = $1', [pg_get_pid($db)]), 0, 0)];
    }
    return $answers;
}
"#;

/// Notices of a connection of the request's own, and of a persistent one, which the next request uses, too.
const NOTICES: &str = r#"
function answer(): array
{
    if (!class_exists('Pdo\Pgsql')) { return ['heard', 'refused', true]; }
    $raise = fn (PDO $db) => $db->exec("DO $$ BEGIN RAISE NOTICE 'heard'; END $$");
    $heard = [];
    $own = new Pdo\Pgsql(DSNS[0], USER, PASSWORD);
    $own->setNoticeCallback(function (string $message) use (&$heard) { $heard[] = $message; });
    $raise($own);
    $persistent = new Pdo\Pgsql(DSNS[0], USER, PASSWORD, [PDO::ATTR_PERSISTENT => true]);
    $persistent->setNoticeCallback(null);
    try {
        $persistent->setNoticeCallback(function () { });
        $end = 'accepted';
    } catch (Error $error) {
        $end = str_contains($error->getMessage(), 'persistent') ? 'refused' : $error->getMessage();
    }
    $raise($persistent);
    return [implode(',', array_map(trim(...), $heard)), $end, $persistent->query('SELECT 1')->fetchColumn() === 1];
}
"#;

const REDIS: &str = r#"
function answer(): array
{
    $answers = [];
    foreach (PLACES as [$host, $port]) {
        $redis = new Redis();
        $redis->connect($host, $port);
        $redis->multi();
        $redis->set('animal', 'wombat');
        $redis->get('animal');
        $answers[] = $redis->exec();
    }
    return $answers;
}
"#;

const MEMCACHED: &str = r#"
function answer(): array
{
    $store = new Memcached();
    $store->addServer('127.0.0.1', PORT);
    return [$store->set('animal', 'wombat'), $store->get('animal'), $store->getMulti(['animal', 'plant'])];
}
"#;

/// Reads 40 rows in two queries, and returns mysqlnd's statistics of that time, for the connection and for the process.
const STATISTICS: &str = r#"
function answer(): array
{
    $db = mysqli_connect('127.0.0.1', USER, PASSWORD, NAME, PORT);
    $names = ['result_set_queries', 'buffered_sets', 'rows_fetched_from_server_normal', 'rows_fetched_from_client_normal_buffered',
        'explicit_free_result', 'com_query', 'proto_text_fetched_bigint'];
    $count = fn (array $all) => array_map(fn (string $name) => (int) $all[$name], $names);
    $difference = fn (array $after, array $before) => array_map(fn (int $one, int $other) => $one - $other, $after, $before);
    $connection = $count(mysqli_get_connection_stats($db));
    $client = $count(mysqli_get_client_stats());
    foreach (['seq_1_to_30', 'seq_1_to_10'] as $table) {
        $result = $db->query("SELECT seq FROM $table");
        while ($result->fetch_row()) { }
        $result->free();
    }
    return [$difference($count(mysqli_get_connection_stats($db)), $connection), $difference($count(mysqli_get_client_stats()), $client),
        (int) mysqli_get_client_stats()['connect_success']];
}
"#;

/// Returns the answer of a script that has the database's address.
fn asked(database: &Database, code: &str) -> Value {
    let constants = json!({
        "USER": USER,
        "PASSWORD": PASSWORD,
        "NAME": database.name(),
        "SOCKET": database.socket(),
        "PORT": database.address().port(),
        "DSNS": [database.dsn(), database.dsn_on(database.address().port())],
    });
    answer(&Svc::start(&[("index.php", &script(code, &constants))], &[]), "/")
}

fn with_animals(database: Database) -> Database {
    database.query("CREATE TABLE animals (id INTEGER PRIMARY KEY, text VARCHAR(20))");
    database.query("INSERT INTO animals VALUES (1, 'wombat'), (2, 'quokka')");
    database
}

#[test]
fn mariadb_answers_pdo_and_mysqli() {
    let Some(database) = databases::mariadb().map(with_animals) else { return };
    assert_eq!(asked(&database, PDO), json!([["quokka"], ["quokka"]]));
    let tls = ["wombat", "TLSv1.3"];
    assert_eq!(asked(&database, MYSQLI), json!([["wombat", ""], ["wombat", ""], tls]));
}

fn with_statistics(database: &Database, workers: &str) -> Svc {
    let constants = json!({"USER": USER, "PASSWORD": PASSWORD, "NAME": database.name(), "PORT": database.address().port()});
    Svc::start(&[("index.php", &*script(STATISTICS, &constants))], &[("PHP_WORKERS", workers)])
}

#[test]
fn mysqlnd_counts_for_each_connection_and_for_the_process() {
    let Some(database) = databases::mariadb() else { return };
    let svc = with_statistics(&database, "2");
    // For rows that the script fetches from memory, PHP updates only the statistics of the process.
    let connection = json!([2, 2, 40, 0, 2, 2, 40]);
    let client = json!([2, 2, 40, 40, 2, 2, 40]);
    for count in 1..=3 {
        assert_eq!(answer(&svc, "/"), json!([connection, client, count]));
    }
}

#[test]
fn threads_that_count_together_get_their_own_rows() {
    let Some(database) = databases::mariadb() else { return };
    let svc = with_statistics(&database, "4");
    let connection = json!([2, 2, 40, 0, 2, 2, 40]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(answer(&svc, "/")[0], connection);
                }
            });
        }
    });
}

#[test]
fn postgres_answers_pdo_and_libpq() {
    let Some(database) = databases::postgres().map(with_animals) else { return };
    assert_eq!(asked(&database, PDO), json!([["quokka"], ["quokka"]]));
    // Over TCP, libpq requests TLS by default.
    assert_eq!(asked(&database, PG), json!([["wombat", "f"], ["wombat", "t"]]));
}

#[test]
fn a_persistent_connection_to_postgres_takes_no_callback_for_notices() {
    let Some(database) = databases::postgres() else { return };
    let constants = json!({"USER": USER, "PASSWORD": PASSWORD, "DSNS": [database.dsn()]});
    let files = [("index.php", &*script(NOTICES, &constants))];
    let svc = Svc::start(&files, &[("PHP_WORKERS", "1")]);
    for _ in 0..4 {
        let [heard, end, lives] =
            <[Value; 3]>::try_from(answer(&svc, "/").as_array().unwrap().clone()).unwrap();
        assert!(heard.as_str().unwrap().ends_with("heard"), "{heard}");
        assert_eq!((end, lives), (json!("refused"), json!(true)));
    }
}

#[test]
fn each_test_has_a_database() {
    let [Some(one), Some(other)] =
        [databases::mariadb(), databases::mariadb()].map(|it| it.map(with_animals))
    else {
        return;
    };
    one.query("DELETE FROM animals");
    let count = |database: &Database| database.query("SELECT count(*) FROM animals");
    assert_eq!((count(&one), count(&other)), (json!([[0]]), json!([[2]])));
}

/// Returns the answer of a script that needs this extension.
fn asked_with(extension: &str, code: &str, constants: &Value) -> Option<Value> {
    let extension = format!("extension={}/{extension}.so", fetched("php-extensions")?);
    let files = [("index.php", &*script(code, constants))];
    Some(answer(&Svc::start_with(&files, &[], &[&extension]), "/"))
}

#[test]
fn redis_answers_phpredis() {
    let Some(store) = databases::redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::unix(folder.path().join("socket"), Address::Unix(store.socket()));
    let constants = json!({"PLACES": [[store.socket(), 0], ["127.0.0.1", store.address().port()], [folder.path().join("socket"), 0]]});
    let Some(answer) = asked_with("redis", REDIS, &constants) else { return };
    assert_eq!(answer, json!([[true, "wombat"], [true, "wombat"], [true, "wombat"]]));
    eventually("the proxy's connection has ended", || proxy.connected() == 0);
}

#[test]
fn memcached_answers_its_extension() {
    let Some(store) = databases::memcached() else { return };
    let Some(answer) = asked_with("memcached", MEMCACHED, &json!({"PORT": store.address().port()})) else {
        return;
    };
    assert_eq!(answer, json!([true, "wombat", {"animal": "wombat"}]));
}

/// A query with a longer answer than the proxy lets pass.
const LONG_ANSWER: &str = r#"
function answer(): string
{
    $db = new PDO(DSNS[0], USER, PASSWORD);
    return md5($db->query("SELECT repeat('wombat', 100000)")->fetchColumn());
}
"#;

/// Runs a test with each database server behind a proxy.
fn behind_a_proxy(test: impl Fn(&Svc, &Proxy)) {
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        let database = with_animals(database);
        let proxy = Proxy::tcp(database.address());
        let dsn = database.dsn_on(proxy.address().port());
        let constants = json!({"DSNS": [dsn], "USER": USER, "PASSWORD": PASSWORD});
        let files =
            [("long.php", &*script(LONG_ANSWER, &constants)), ("short.php", &*script(PDO, &constants))];
        let svc = Svc::start(&files, &[]);
        test(&svc, &proxy);
        eventually("its connections have ended", || proxy.connected() == 0);
    }
}

#[test]
fn a_proxy_holds_answers_and_lets_them_go() {
    behind_a_proxy(|svc, proxy| {
        proxy.gate(Direction::ToClient).close();
        std::thread::scope(|scope| {
            let request = scope.spawn(|| answer(svc, "/long.php"));
            proxy.gate(Direction::ToClient).wait_until_held(1);
            assert_eq!((proxy.gate(Direction::ToClient).held(), proxy.connected()), (1, 1));
            proxy.gate(Direction::ToClient).open();
            assert_eq!(request.join().unwrap(), json!("79d4751fcb8b4546b14150a5691313bf"));
        });
    });
}

#[test]
fn a_proxy_cuts_an_answer_in_the_middle() {
    behind_a_proxy(|svc, proxy| {
        proxy.cut_after(Direction::ToClient, 100_000);
        let text = answer(svc, "/long.php");
        assert!(text.as_str().unwrap().starts_with("PDOException: "), "{text}");
    });
}

#[test]
fn a_proxy_cuts_connections_that_wait() {
    behind_a_proxy(|svc, proxy| {
        proxy.gate(Direction::ToServer).close();
        std::thread::scope(|scope| {
            let request = scope.spawn(|| answer(svc, "/long.php"));
            proxy.gate(Direction::ToServer).wait_until_held(1);
            proxy.cut();
            let text = request.join().unwrap();
            assert!(text.as_str().unwrap().starts_with("PDOException: "), "{text}");
        });
    });
}

#[test]
fn a_proxy_lets_bytes_trickle() {
    behind_a_proxy(|svc, proxy| {
        for direction in [Direction::ToClient, Direction::ToServer] {
            proxy.trickle(direction, Some(Duration::ZERO));
        }
        assert_eq!(answer(svc, "/short.php"), json!([["quokka"]]));
        proxy.trickle(Direction::ToClient, None);
        assert_eq!(answer(svc, "/short.php"), json!([["quokka"]]));
    });
}
