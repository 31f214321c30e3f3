//! Owners of connections, driver by driver: mysqli, libpq, Redis, Memcached, curl, and streams of the boot script.

use serde_json::{Value, json};

use svc_testing::backend::Backend;
use svc_testing::client::eventually;
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskSvc};
use svc_testing::turns::{answers, looks_in_vain, server_with};

/// The number of requests that have waited for a connection.
const WAITS: &str = "svc_connection_wait_us_count";

const CODE: &str = r#"
class Held { public static $db, $pdo, $redis, $store, $curl, $stream, $multi, $soap; }
function connect_mysqli(): mysqli { mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT); return mysqli_connect('127.0.0.1', USER, PASSWORD, NAME, PORT); }
function begin_mysqli() { Held::$db->query('START TRANSACTION'); mysqli_query(Held::$db, 'INSERT INTO money VALUES (1)'); mark('inside'); until('go'); return 1; }
function half_mysqli() { $rows = Held::$db->query('SELECT 1 UNION SELECT 2', MYSQLI_USE_RESULT); $GLOBALS['rows'] = $rows; Held::$stream = $rows; mark('inside'); until('go'); return (int) $rows->fetch_row()[0]; }
function look_mysqli() { mark('look'); return (int) Held::$db->query('SELECT count(*) FROM money')->fetch_row()[0]; }
function connect_pgsql() { return pg_connect('host=127.0.0.1 port=' . PORT . ' dbname=' . NAME . ' user=' . USER . ' password=' . PASSWORD); }
function begin_pgsql() { pg_query(Held::$db, 'BEGIN'); pg_query(Held::$db, 'INSERT INTO money VALUES (1)'); mark('inside'); until('go'); return 1; }
function half_pgsql() { pg_send_query(Held::$db, 'SELECT 1; SELECT 2'); mark('inside'); until('go'); return 1; }
function look_pgsql() { mark('look'); return (int) pg_fetch_result(pg_query(Held::$db, 'SELECT count(*) FROM money'), 0, 0); }
function begin_redis() { Held::$redis->multi(); Held::$redis->set('a', 1); mark('inside'); until('go'); return 1; }
function watch_redis() { Held::$redis->watch('a'); mark('inside'); until('go'); return 1; }
function look_redis() { mark('look'); return [Held::$redis->getMode(), Held::$redis->exists('a')]; }
function store() { Held::$store->set('a', 1); Held::$store->getDelayed(['a']); mark('inside'); until('go'); return Held::$store->fetchAll()[0]['value']; }
function look_store() { mark('look'); return Held::$store->get('a'); }
function fetch() { mark('look'); curl_setopt_array(Held::$curl, [CURLOPT_URL => URL, CURLOPT_RETURNTRANSFER => true]); $text = curl_exec(Held::$curl); mark('fetched'); until('go'); return $text; }
function fetch_multi()
{
    $one = curl_init(URL);
    curl_setopt($one, CURLOPT_RETURNTRANSFER, true);
    mark('look');
    curl_multi_add_handle(Held::$multi, $one);
    mark('added');
    do { curl_multi_exec(Held::$multi, $running); curl_multi_select(Held::$multi, 1); } while ($running > 0);
    return curl_multi_getcontent($one);
}
function ask_soap($n)
{
    mark('look');
    $text = Held::$soap->__soapCall('ask', [$n]);
    // Freed memory of a stream would be in use again.
    for ($size = 75; $size < 395; $size += 8) { for ($i = 0; $i < 120; $i++) { $GLOBALS['texts'][] = str_repeat('A', $size); } }
    return $text;
}
function ask_clone($n)
{
    mark('look');
    $clone = clone Held::$soap;
    return [$clone->__soapCall('ask', [$n]), $clone->__soapCall('ask', [$n])];
}
function move_soap($n) { mark('look'); Held::$soap->__setLocation(OTHER_URL); return Held::$soap->__soapCall('ask', [$n]); }
function ask_stream($n) { mark('look'); fwrite(Held::$stream, "PING $n\r\n"); mark('inside'); fgets(Held::$stream); until('go'); return trim(fgets(Held::$stream)); }
function pdo_then_redis() { Held::$pdo->query('SELECT 1')->fetchAll(); mark('pdo'); until('go'); return Held::$redis->set('a', 1); }
function redis_then_pdo() { mark('look'); Held::$redis->set('a', 2); return Held::$pdo->query('SELECT 1')->fetchColumn(); }
"#;

fn constants_of(database: &Database) -> Value {
    json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD, "NAME": database.name(),
        "PORT": database.address().port()})
}

/// Checks the result of `look` in another request while one is inside a transaction, and the result afterwards.
fn separates(server: &TaskSvc, inside: &str, left: &str, look: &str, seen: &str) {
    let waits = server.svc.metric(WAITS);
    let mut one = server.send(inside, "0");
    server.until("inside");
    let mut other = looks_in_vain(server, look, "0");
    server.mark("go");
    answers(&mut one, left);
    answers(&mut other, seen);
    assert_eq!(server.svc.metric(WAITS), waits + 1.0);
    server.unmark(&["inside", "go"]);
}

#[test]
fn mysqli_has_owners() {
    let Some(database) = databases::mariadb() else { return };
    database.query("CREATE TABLE money (amount INTEGER)");
    let server = server_with(CODE, &constants_of(&database));
    let server = server.start_with(Mode::Worker, "Held::$db = connect_mysqli();");
    separates(&server, "begin_mysqli", "1", "look_mysqli", "0");
    separates(&server, "half_mysqli", "1", "look_mysqli", "0");
}

#[test]
fn libpq_has_owners() {
    let Some(database) = databases::postgres() else { return };
    database.query("CREATE TABLE money (amount INTEGER)");
    let server = server_with(CODE, &constants_of(&database));
    let server = server.start_with(Mode::Worker, "Held::$db = connect_pgsql();");
    separates(&server, "begin_pgsql", "1", "look_pgsql", "0");
    separates(&server, "half_pgsql", "1", "look_pgsql", "0");
}

#[test]
fn redis_has_owners() {
    let Some((store, extensions)) = databases::redis().zip(fetched("php-extensions")) else { return };
    let server = server_with(CODE, &json!({"PORT": store.address().port()}));
    let server = server.directive(&format!("extension={extensions}/redis.so"));
    let boot = "Held::$redis = new Redis; Held::$redis->connect('127.0.0.1', PORT);";
    let server = server.start_with(Mode::Worker, boot);
    separates(&server, "begin_redis", "1", "look_redis", "[0,0]");
    separates(&server, "watch_redis", "1", "look_redis", "[0,0]");
}

/// Objects that share a persistent connection have one owner, whichever way the connection is named: no request reads the
/// answer to another one's query.
#[test]
fn a_persistent_redis_has_one_owner() {
    let Some(extensions) = fetched("php-extensions") else { return };
    let code = r#"
        function name_of($n) { return ['', 'a', 'b', 'c', 'd'][(int) $n] ?? 'z'; }
        function by_options($n) { $redis = new Redis(['host' => '127.0.0.1', 'port' => PORT, 'persistent' => 'x']); mark('look'); return $redis->get(name_of($n)); }
        function by_number($n) { $redis = new Redis(['host' => '127.0.0.1', 'port' => PORT, 'persistent' => 1]); mark('look'); return $redis->get(name_of($n)); }
        function by_pconnect($n) { $redis = new Redis; $redis->pconnect('127.0.0.1', PORT, 0, 'x'); mark('look'); return $redis->get(name_of($n)); }
    "#;
    for (one, two) in [
        ("by_options", "by_options"),
        ("by_number", "by_number"),
        ("by_pconnect", "by_options"),
        ("by_options", "by_pconnect"),
    ] {
        println!("{one} {two}");
        let backend = Backend::tcp(|visit| {
            while let Ok(line) = visit.line() {
                let line = line.trim();
                if ["a", "b", "z"].contains(&line) {
                    visit.hold()?;
                    visit.send(format!("$1\r\n{line}\r\n"))?;
                }
            }
            Ok(())
        });
        let server = server_with(code, &json!({"PORT": backend.address().port()}));
        let server = server.directive(&format!("extension={extensions}/redis.so"));
        let server = server.directive("redis.pconnect.pooling_enabled=0").start_with(Mode::Worker, "");
        let mut first = server.send(one, "1");
        backend.gate().wait_until_held(1);
        let mut second = server.send(two, "2");
        server.tell("strrev");
        server.tell("strrev");
        backend.gate().open();
        answers(&mut first, "\"a\"");
        answers(&mut second, "\"b\"");
    }
}

#[test]
fn memcached_has_owners() {
    let Some((store, extensions)) = databases::memcached().zip(fetched("php-extensions")) else { return };
    let server = server_with(CODE, &json!({"PORT": store.address().port()}));
    let server = server.directive(&format!("extension={extensions}/memcached.so"));
    let boot = "Held::$store = new Memcached; Held::$store->addServer('127.0.0.1', PORT);";
    let server = server.start_with(Mode::Worker, boot);
    separates(&server, "store", "1", "look_store", "1");
}

#[test]
fn the_order_in_which_connections_are_touched_does_not_matter() {
    let Some(((store, extensions), database)) =
        databases::redis().zip(fetched("php-extensions")).zip(databases::mariadb())
    else {
        return;
    };
    let mut constants = constants_of(&database);
    constants["STORE"] = json!(store.address().port());
    let server = server_with(CODE, &constants).directive(&format!("extension={extensions}/redis.so"));
    let boot = "Held::$redis = new Redis; Held::$redis->connect('127.0.0.1', STORE); Held::$pdo = new PDO(DSN, USER, PASSWORD);";
    let server = server.start_with(Mode::Worker, boot);
    let mut one = server.send("pdo_then_redis", "0");
    server.until("pdo");
    let mut other = looks_in_vain(&server, "redis_then_pdo", "0");
    server.mark("go");
    answers(&mut one, "true");
    answers(&mut other, "1");
    assert_eq!(server.svc.metric(WAITS), 1.0);
}

#[test]
fn a_curl_handle_is_leased_for_a_call() {
    let backend = Backend::tcp(|visit| {
        while visit.request().is_ok() {
            visit.hold()?;
            visit.answer("page")?;
        }
        Ok(())
    });
    let url = format!("http://{}/", backend.address());
    let server = server_with(CODE, &json!({ "URL": url }));
    let server =
        server.start_with(Mode::Worker, "Held::$curl = curl_init(); Held::$multi = curl_multi_init();");
    let mut one = server.send("fetch", "0");
    backend.gate().wait_until_held(1);
    let mut other = looks_in_vain(&server, "fetch", "0");
    assert_eq!(backend.gate().held(), 1);
    backend.gate().release(1);
    server.until("fetched");
    backend.gate().wait_until_held(1);
    assert_eq!(server.lines("fetched").len(), 1, "the first request goes on, without the handle");
    backend.gate().release(1);
    eventually("both have fetched", || server.lines("fetched").len() == 2);
    server.mark("go");
    answers(&mut one, "\"page\"");
    answers(&mut other, "\"page\"");
    let mut one = server.send("fetch_multi", "0");
    backend.gate().wait_until_held(1);
    let mut other = looks_in_vain(&server, "fetch_multi", "0");
    assert_eq!(server.lines("added").len(), 1, "the handle holds one of the other request");
    backend.gate().open();
    answers(&mut one, "\"page\"");
    answers(&mut other, "\"page\"");
}

/// A SOAP server that answers with the argument. `is_last` closes the connection after each response.
fn soap_server(is_last: bool) -> Backend {
    Backend::tcp(move |visit| {
        while let Ok(request) = visit.request() {
            visit.hold()?;
            let argument = request.split_once("xsd:string\">").and_then(|(_, rest)| rest.split('<').next());
            let body = format!(
                "<?xml version=\"1.0\"?><e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
                 <r><v>{}</v></r></e:Body></e:Envelope>",
                argument.unwrap_or("none")
            );
            let close = if is_last { "Connection: close\r\n" } else { "" };
            visit.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n{close}Content-Length: {}\r\n\r\n{body}",
                body.len()
            ))?;
            if is_last {
                return Ok(());
            }
        }
        Ok(())
    })
}

#[test]
fn a_soap_client_is_leased_for_a_call() {
    for (is_last, second) in
        [(true, "ask_soap"), (false, "ask_soap"), (true, "move_soap"), (false, "move_soap")]
    {
        let (backend, other_backend) = (soap_server(is_last), soap_server(is_last));
        let url = |backend: &Backend| format!("http://{}/", backend.address());
        let constants = json!({"URL": url(&backend), "OTHER_URL": url(&other_backend)});
        let boot = "Held::$soap = new SoapClient(null, ['location' => URL, 'uri' => 'urn:x']);";
        let server = server_with(CODE, &constants).start_with(Mode::Worker, boot);
        let mut one = server.send("ask_soap", "1");
        backend.gate().wait_until_held(1);
        let mut other = looks_in_vain(&server, second, "2");
        assert_eq!((backend.gate().held(), other_backend.gate().held()), (1, 0));
        backend.gate().open();
        other_backend.gate().open();
        answers(&mut one, "\"1\"");
        answers(&mut other, "\"2\"");
    }
}

#[test]
fn a_clone_of_a_soap_client_has_its_own_connection() {
    for class in ["SoapClient", "Derived"] {
        let backend = soap_server(false);
        let constants = json!({"URL": format!("http://{}/", backend.address()), "OTHER_URL": ""});
        let boot = format!(
            "class Derived extends SoapClient {{}} Held::$soap = new {class}(null, ['location' => URL, 'uri' => 'urn:x']);"
        );
        let server = server_with(CODE, &constants).start_with(Mode::Worker, &boot);
        let mut first = server.send("ask_soap", "0");
        backend.gate().wait_until_held(1);
        backend.gate().release(1);
        answers(&mut first, "\"0\"");
        let mut one = server.send("ask_soap", "1");
        backend.gate().wait_until_held(1);
        let mut other = server.send("ask_clone", "2");
        backend.gate().wait_until_held(2);
        backend.gate().open();
        answers(&mut one, "\"1\"");
        answers(&mut other, "[\"2\",\"2\"]");
    }
}

#[test]
fn a_stream_of_the_boot_script_is_covered_by_its_socket() {
    let backend = Backend::tcp(|visit| {
        while let Ok(line) = visit.line() {
            visit.send(format!("+OK\r\n{line}\r\n"))?;
        }
        Ok(())
    });
    let server = server_with(CODE, &json!({"URL": format!("tcp://{}", backend.address())}));
    let server = server.start_with(Mode::Worker, "Held::$stream = stream_socket_client(URL);");
    let mut one = server.send("ask_stream", "1");
    server.until("inside");
    let mut other = looks_in_vain(&server, "ask_stream", "2");
    assert_eq!(server.lines("inside").len(), 1);
    server.mark("go");
    answers(&mut one, "\"PING 1\"");
    answers(&mut other, "\"PING 2\"");
}
