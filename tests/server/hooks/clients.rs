//! The clients of applications with all runtime hooks: many at once in one worker thread, with byte for byte the same
//! answers as in classic mode.

use std::io;
use std::time::Duration;

use serde_json::json;

use svc_testing::backend::{Backend, Visit};
use svc_testing::client::eventually;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskServer};
use svc_testing::waits::path_of;

/// The number of concurrent requests of each client.
const OF_EACH: usize = 6;

const CODE: &str = r#"
// The packages are older than this PHP, which deprecates some of their code.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
require CLASSES . '/autoload.php';
/** The result of a call, or its exception. */
function what(callable $call): mixed
{
    try { return $call(); } catch (Throwable $thrown) { return [$thrown::class, preg_replace('/after \d+ m/', 'after m', $thrown->getMessage())]; }
}
function with_guzzle($n, $handler = null)
{
    $client = new GuzzleHttp\Client(['base_uri' => URL] + ($handler ? ['handler' => GuzzleHttp\HandlerStack::create($handler)] : []));
    $text = fn ($response) => [$response->getStatusCode(), $response->getHeaderLine('Content-Type'), (string) $response->getBody()];
    $held = $text($client->get("/held/$n"));
    $promises = array_map(fn (int $i) => $client->getAsync("/late/$n/$i"), range(1, 4));
    return [
        $held, array_map($text, GuzzleHttp\Promise\Utils::unwrap($promises)),
        $text($client->post("/echo/$n", ['json' => ['animal' => 'wombat', 'n' => $n]])),
        $client->get("/long/$n", ['stream' => true])->getBody()->read(10),
        what(fn () => $client->get("/missing/$n")), what(fn () => $client->get("/hangs/$n", ['timeout' => 0.2])), what(fn () => $client->get("/cut/$n")),
    ];
}
function with_guzzle_streams($n) { return with_guzzle($n, new GuzzleHttp\Handler\StreamHandler()); }
function with_symfony($n, $client)
{
    $text = fn ($response) => [$response->getStatusCode(), $response->getHeaders()['content-type'][0], $response->getContent()];
    $held = $text($client->request('GET', URL . "/held/$n"));
    $responses = array_map(fn (int $i) => $client->request('GET', URL . "/late/$n/$i"), range(1, 4));
    $streamed = [];
    foreach ($client->stream($responses) as $response => $chunk) {
        $url = $response->getInfo('url');
        $streamed[$url] = ($streamed[$url] ?? '') . $chunk->getContent();
    }
    ksort($streamed);
    return [
        $held, $streamed, $text($client->request('POST', URL . "/echo/$n", ['json' => ['animal' => 'wombat', 'n' => $n]])),
        strlen($client->request('GET', URL . "/long/$n")->getContent()),
        what(fn () => $client->request('GET', URL . "/missing/$n")->getContent()),
        what(fn () => $client->request('GET', URL . "/hangs/$n", ['timeout' => 0.2])->getContent())[0],
        what(fn () => $client->request('GET', URL . "/cut/$n")->getContent())[0],
    ];
}
function with_symfony_curl($n) { return with_symfony($n, new Symfony\Component\HttpClient\CurlHttpClient()); }
function with_symfony_native($n) { return with_symfony($n, new Symfony\Component\HttpClient\NativeHttpClient()); }
/** A committed transaction, one that is rolled back, and an error. */
function with_dbal($n, $database)
{
    file_get_contents(URL . "/held/$n");
    $db = Doctrine\DBAL\DriverManager::getConnection(DATABASES[$database]);
    $db->executeStatement('DELETE FROM animals WHERE owner = ?', [$n]);
    $db->transactional(function ($db) use ($n) {
        foreach (['wombat', 'quokka', 'numbat'] as $animal) { $db->insert('animals', ['owner' => $n, 'name' => $animal]); }
    });
    $lost = what(fn () => $db->transactional(function ($db) use ($n) {
        $db->insert('animals', ['owner' => $n, 'name' => 'dodo']);
        throw new Exception('lost');
    }));
    $rows = $db->createQueryBuilder()->select('owner', 'name')->from('animals')->where('owner = :n')->orderBy('name')->setParameter('n', $n);
    $iterated = [];
    foreach ($db->iterateAssociative('SELECT name FROM animals WHERE owner = ? ORDER BY name', [$n]) as $row) { $iterated[] = $row['name']; }
    return [$lost, $rows->executeQuery()->fetchAllAssociative(), $iterated, what(fn () => $db->executeQuery('SELECT nothing FROM nowhere'))[0]];
}
function with_dbal_pdo_mysql($n) { return with_dbal($n, 'pdo_mysql'); }
function with_dbal_mysqli($n) { return with_dbal($n, 'mysqli'); }
function with_dbal_pdo_pgsql($n) { return with_dbal($n, 'pdo_pgsql'); }
function with_predis($n)
{
    file_get_contents(URL . "/held/$n");
    $redis = new Predis\Client(REDIS);
    $key = "animal:$n";
    return [
        (string) $redis->set($key, 'wombat'), $redis->get($key), $redis->pipeline(fn ($pipe) => $pipe->incr("count:$n")->incr("count:$n")->del("count:$n")),
        $redis->transaction(fn ($all) => $all->get($key)->strlen($key)), $redis->rpush("list:$n", ['a', 'b']), $redis->lrange("list:$n", 0, -1), $redis->del("list:$n"),
        what(fn () => $redis->blpop(["none:$n"], 1)), what(fn () => $redis->lpush($key, ['x'])),
    ];
}
"#;

/// Serves an API with a few pages.
fn pages(visit: &mut Visit) -> io::Result<()> {
    loop {
        let request = visit.request()?;
        let path = path_of(&request);
        let body = request.split("\r\n\r\n").nth(1).unwrap_or_default();
        match path.split('/').next().unwrap() {
            "held" => visit.hold().and_then(|()| visit.answer(path))?,
            "late" => visit.pause(Duration::from_millis(10)).and_then(|()| visit.answer(path))?,
            "echo" => visit.answer(&format!("{path} {body}"))?,
            "long" => visit.answer(&path.repeat(10_000))?,
            "missing" => visit.send("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")?,
            "cut" => return visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nwom"),
            _ => return visit.hang(),
        }
        if request.to_ascii_lowercase().contains("connection: close") {
            return Ok(());
        }
    }
}

#[test]
fn clients_of_applications_answer_as_in_classic_mode() {
    let Some(classes) = fetched("clients") else { return };
    let (Some(mysql), Some(postgres), Some(redis)) =
        (databases::mariadb(), databases::postgres(), databases::redis())
    else {
        return;
    };
    for database in [&mysql, &postgres] {
        database.query("CREATE TABLE animals (owner VARCHAR(20), name VARCHAR(20))");
    }
    let backend = Backend::tcp(pages);
    let connection = |driver: &str, port: u16, name: &str| json!({"driver": driver, "host": "127.0.0.1", "port": port, "user": USER, "password": PASSWORD, "dbname": name});
    let constants = json!({
        "CLASSES": classes,
        "URL": format!("http://{}", backend.address()),
        "REDIS": format!("tcp://{}", redis.address()),
        "DATABASES": {
            "pdo_mysql": connection("pdo_mysql", mysql.address().port(), mysql.name()),
            "mysqli": connection("mysqli", mysql.address().port(), mysql.name()),
            "pdo_pgsql": connection("pdo_pgsql", postgres.address().port(), postgres.name()),
        },
    });
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);\n");
    let server = TaskServer::new(&format!("{define}{CODE}"))
        .set("RUNTIME_HOOKS", "all")
        .set("PHP_WORKERS", "1")
        .set("ASYNC_WORKERS", "1");
    let ways = [
        "with_guzzle",
        "with_guzzle_streams",
        "with_symfony_curl",
        "with_symfony_native",
        "with_dbal_pdo_mysql",
        "with_dbal_mysqli",
        "with_dbal_pdo_pgsql",
        "with_predis",
    ];
    let calls: Vec<_> =
        (1..=OF_EACH).flat_map(|n| ways.iter().map(move |way| (*way, format!("{way}-{n}")))).collect();
    backend.gate().open();
    let classic = server.start(Mode::Classic);
    let expected: Vec<_> = calls.iter().map(|(way, n)| classic.send(way, n).response().text()).collect();
    for place in ["", "&task"] {
        backend.gate().close();
        let worker = server.start(Mode::Worker);
        let mut clients: Vec<_> =
            calls.iter().map(|(way, n)| worker.send(way, &format!("{n}{place}"))).collect();
        backend.gate().wait_until_held(calls.len());
        backend.gate().open();
        for ((client, (way, _)), expected) in clients.iter_mut().zip(&calls).zip(&expected) {
            assert_eq!(client.response().text(), *expected, "{way}{place}");
        }
        eventually("nothing is left", || backend.gate().held() == 0);
    }
    println!("{expected:#?}");
}
