//! The runtime hook `net` when a wait is aborted: time limits and cancellations.

use std::time::Duration;

use svc_testing::backend::{Backend, Unaccepting, Visit};
use svc_testing::client::eventually;
use svc_testing::hooked::{assert_serves, cpu_time, forget, one_thread, sorted};
use svc_testing::proxy::Direction;
use svc_testing::socket::Listener;
use svc_testing::tasks::{Mode, TaskServer, assert_like};
use svc_testing::waits::Stores;

/// Each function waits for a server that never answers; it calls `$limit` just before.
const ENDLESS: &str = r#"
function stream_to(string $to, string $text = ''): mixed
{
    $stream = stream_socket_client("tcp://$to");
    fwrite($stream, $text);
    return $stream;
}
function socket_to(string $to): Socket
{
    [$host, $port] = explode(':', $to);
    $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    socket_connect($socket, $host, (int) $port);
    return $socket;
}
function curl_to(string $url): CurlHandle
{
    $curl = curl_init($url);
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    return $curl;
}
function tls_stream(string $to): mixed { return file_get_contents("https://$to/", false, stream_context_create(['http' => ['timeout' => 3600]])); }
function multi(): mixed
{
    $many = curl_multi_init();
    curl_multi_add_handle($many, curl_to('http://' . HANGS));
    do { curl_multi_exec($many, $running); } while ($running && curl_multi_select($many, 3600) >= 0);
    return $running;
}
/** Reads until interrupted. */
function each_read(callable $read): void { while (true) { $read(); } }
const MUCH = 1 << 25;
ini_set('default_socket_timeout', '3600');
$endless = [
    'curl' => fn () => curl_exec(curl_to('http://' . HANGS)),
    'curl connects' => fn () => curl_exec(curl_to('http://' . FULL)),
    'curl in TLS' => fn () => curl_exec(curl_to('https://' . HANGS)),
    'curl multi' => fn () => multi(),
    'page' => fn () => file_get_contents('http://' . HANGS . '/'),
    'page connects' => fn () => file_get_contents('http://' . FULL . '/'),
    'page in TLS' => fn () => tls_stream(HANGS),
    'stream' => fn () => fread(stream_to(HANGS), 100),
    'line' => fn () => fgets(stream_to(HANGS)),
    'whole stream' => fn () => stream_get_contents(stream_to(HANGS)),
    'reads' => function () { $stream = stream_to(HANGS); each_read(fn () => fread($stream, 1)); },
    'stream writes' => fn () => fwrite(stream_to(DEAF), str_repeat('x', MUCH)),
    'stream selects' => function () { $reads = [stream_to(HANGS)]; $none = null; return stream_select($reads, $none, $none, null); },
    'selects again' => function () { $reads = [stream_to(HANGS)]; $none = null; while (true) { $set = $reads; stream_select($set, $none, $none, 3600); } },
    'socket' => fn () => socket_recv(socket_to(HANGS), $bytes, 100, 0),
    'whole message' => fn () => socket_recv(socket_to(HANGS), $bytes, 100, MSG_WAITALL),
    'peeks' => fn () => socket_recv(socket_to(DRIPS), $bytes, 100, MSG_WAITALL | MSG_PEEK),
    'socket reads' => function () { $socket = socket_to(HANGS); each_read(fn () => @socket_read($socket, 1)); },
    'socket connects' => fn () => socket_to(FULL),
    'socket connects by path' => fn () => socket_connect(socket_create(AF_UNIX, SOCK_STREAM, 0), FULL_PATH),
    'socket sends' => fn () => socket_send(socket_to(DEAF), str_repeat('x', MUCH), MUCH, 0),
    'socket writes' => fn () => socket_write(socket_to(DEAF), str_repeat('x', MUCH)),
    'socket selects' => function () { $reads = [socket_to(HANGS)]; $none = null; return socket_select($reads, $none, $none, null); },
    'socket accepts' => fn () => socket_accept(socket_create_listen(0)),
    'stream accepts' => fn () => stream_socket_accept(stream_socket_server('tcp://127.0.0.1:0'), 3600),
    'datagram' => function () { $socket = socket_create(AF_INET, SOCK_DGRAM, 0); socket_bind($socket, '127.0.0.1'); return socket_recvfrom($socket, $bytes, 9, 0, $from, $port); },
];
/** Returns the name of a function by its number. */
function endless(int $n): ?string { return array_keys($GLOBALS['endless'])[$n] ?? null; }
function how_many() { return count($GLOBALS['endless']); }
function limited($n)
{
    register_shutdown_function(fn () => mark('shut', $n));
    set_time_limit(1);
    mark('begun', $n);
    try { @$GLOBALS['endless'][endless((int) $n)](); } finally { mark('finally', $n); }
    mark('went on', endless((int) $n));
}
function cancelled($n)
{
    $task = Svc\async(function () use ($n) {
        mark('waits', $n);
        try {
            @$GLOBALS['endless'][endless((int) $n)]();
            mark('went on', endless((int) $n));
            Svc\sleep(0);
        } catch (Svc\Async\CancelledException) {
            mark('caught', $n);
        } finally {
            mark('finally', $n);
        }
    })->detach();
    until('go');
    return [$task->cancel(), settled($task)->isSettled()];
}
"#;

/// Servers that hang, each in a different way.
struct Endless {
    hangs: Backend,
    drips: Backend,
    deaf: Backend,
    full: [Unaccepting; 2],
    _folder: tempfile::TempDir,
}

impl Endless {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let full = [Listener::tcp(), Listener::unix(folder.path().join("socket"))].map(Unaccepting::new);
        Self {
            hangs: Backend::tcp(Visit::hang),
            drips: Backend::tcp(|visit| visit.send("drop").and_then(|()| visit.hang())),
            deaf: Backend::tcp(Visit::hold),
            full,
            _folder: folder,
        }
    }

    fn server(&self, hooks: &str) -> TaskServer {
        let constants: String = [
            ("HANGS", self.hangs.address()),
            ("DRIPS", self.drips.address()),
            ("DEAF", self.deaf.address()),
            ("FULL", self.full[0].address()),
            ("FULL_PATH", self.full[1].address()),
        ]
        .map(|(name, address)| format!("const {name} = '{address}';\n"))
        .concat();
        one_thread(TaskServer::new(&format!("{constants}{ENDLESS}")), hooks)
    }
}

#[test]
fn a_time_limit_ends_each_wait() {
    let endless = Endless::new();
    let server = endless.server("net").start(Mode::Worker);
    let count: usize = server.tell("how_many").parse().unwrap();
    let before = cpu_time(&server.svc);
    let mut clients: Vec<_> = (0..count).map(|n| server.send("limited", &n.to_string())).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().status, 504, "{n}");
    }
    assert_eq!(server.lines("went on"), [""; 0]);
    eventually("all have ended", || sorted(&server, "shut") == (0..count).collect::<Vec<_>>());
    assert_eq!(server.lines("finally"), [""; 0], "a time limit runs no finally block");
    // None of them has spun: a spinning loop uses a whole second of processor time.
    let taken = cpu_time(&server.svc) - before;
    assert!(taken < Duration::from_millis(900), "{taken:?}");
    assert_serves(&server);
}

#[test]
fn a_cancelled_task_leaves_each_wait() {
    let endless = Endless::new();
    for mode in [Mode::Worker, Mode::Classic] {
        let server = endless.server("net").set("PHP_WORKERS", "32").start(mode);
        let count: usize = server.tell("how_many").parse().unwrap();
        let mut clients: Vec<_> = (0..count).map(|n| server.send("cancelled", &n.to_string())).collect();
        eventually("all wait", || server.lines("waits").len() == count);
        server.mark("go");
        for (n, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.response().text(), "[true,true]", "{n}");
        }
        let all: Vec<_> = (0..count).collect();
        eventually("all are cancelled", || sorted(&server, "caught") == all);
        eventually("all have ended", || sorted(&server, "finally") == all);
        assert_eq!(server.lines("went on"), [""; 0], "{mode:?}");
        assert_like(&server.tell_in_task("strrev"), "\"*\"");
    }
}

const QUERIES: &str = r#"
function query($n)
{
    [$way, $when] = explode(':', $n);
    if ($when === 'connects') { set_time_limit(1); mark('asks'); }
    $ask = $way();
    if ($when === 'asks') { mark('connected'); until('go'); set_time_limit(1); }
    @$ask('x');
    mark('went on', $n);
}
function cancelled($way)
{
    $task = Svc\async(function () use ($way) {
        $ask = $way();
        mark('connected');
        until('go');
        mark('asks');
        try {
            @$ask('x');
            mark('went on');
        } catch (Svc\Async\CancelledException $cancelled) {
            mark('caught');
        } catch (Throwable $other) {
            mark('other', $other);
        } finally {
            mark('finally');
        }
    })->detach();
    until('cancel');
    return [$task->cancel(), settled($task)->isSettled()];
}
"#;

#[test]
fn a_time_limit_ends_each_query() {
    let stores = Stores::new();
    let server = one_thread(stores.server(QUERIES), "net").start(Mode::Worker);
    let before = cpu_time(&server.svc);
    let mut clients = Vec::new();
    for (_, proxy) in stores.drivers() {
        proxy.gate(Direction::ToClient).close();
    }
    for (way, _) in stores.drivers() {
        clients.push((way, server.send("query", &format!("{way}:connects"))));
    }
    for (way, client) in &mut clients {
        assert_eq!(client.response().status, 504, "{way} connects");
    }
    for (_, proxy) in stores.drivers() {
        proxy.gate(Direction::ToClient).open();
    }
    let mut clients: Vec<_> =
        stores.drivers().map(|(way, _)| (way, server.send("query", &format!("{way}:asks")))).collect();
    eventually("all are connected", || server.lines("connected").len() == clients.len());
    for (_, proxy) in stores.drivers() {
        proxy.gate(Direction::ToClient).close();
    }
    server.mark("go");
    for (way, client) in &mut clients {
        assert_eq!(client.response().status, 504, "{way} asks");
    }
    assert_eq!(server.lines("went on"), [""; 0]);
    let taken = cpu_time(&server.svc) - before;
    assert!(taken < Duration::from_millis(1500), "{taken:?}");
    for (way, proxy) in stores.drivers() {
        proxy.gate(Direction::ToClient).open();
        assert_eq!(server.send("tries", way).response().text(), "\"whole\"", "{way}");
    }
}

#[test]
fn a_cancelled_task_leaves_each_query() {
    let stores = Stores::new();
    let server = one_thread(stores.server(QUERIES), "net").start(Mode::Worker);
    for (way, proxy) in stores.drivers() {
        println!("{way}");
        forget(&server, &["connected", "go", "asks", "cancel", "caught", "finally"]);
        let mut client = server.send("cancelled", way);
        server.until("connected");
        proxy.gate(Direction::ToClient).close();
        server.mark("go");
        proxy.gate(Direction::ToClient).wait_until_held(1);
        server.mark("cancel");
        assert_eq!(client.response().text(), "[true,true]");
        server.until("finally");
        assert_eq!((server.lines("went on"), server.lines("other")), (vec![], vec![]));
        assert_eq!(server.lines("caught").len(), 1);
        proxy.gate(Direction::ToClient).open();
    }
}

const RESET: &str = r#"
/** A connection that the peer has reset. */
function reset_connection()
{
    $server = stream_socket_server('tcp://127.0.0.1:0');
    $client = stream_socket_client('tcp://' . stream_socket_get_name($server, false));
    $other = stream_socket_accept($server);
    socket_set_option(socket_import_stream($other), SOL_SOCKET, SO_LINGER, ['l_onoff' => 1, 'l_linger' => 0]);
    fclose($other);
    Svc\wait_readable($client, 20);
    return $client;
}
function selects(array $excepts, float $timeout): int
{
    $read = $write = null;
    return stream_select($read, $write, $excepts, 0, (int) ($timeout * 1e6));
}
function one() { return selects([reset_connection()], 0.05); }
function two() { [$pair] = $both = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); return selects([reset_connection(), $pair], 0.05); }
function for_ever() { set_time_limit(1); $r = $w = null; $e = [reset_connection()]; return stream_select($r, $w, $e, null); }
"#;

#[test]
fn exceptions_of_a_connection_that_was_reset_are_waited_for_until_the_timeout() {
    let server = one_thread(TaskServer::new(RESET), "net").start(Mode::Worker);
    assert_eq!(server.tell("one"), "0");
    assert_eq!(server.tell("two"), "0");
    let before = cpu_time(&server.svc);
    assert_eq!(server.send("for_ever", "").response().status, 504);
    assert!(cpu_time(&server.svc) - before < Duration::from_millis(500), "it does not spin");
    assert_serves(&server);
}

const CLEANED: &str = r#"
class Held { public static $db; }
function ask() { return Held::$db->query('SELECT 7')->fetchAll(PDO::FETCH_COLUMN)[0]; }
function ask_without_limit() { set_time_limit(0); return ask(); }
/** Waits for longer than the cleaning of a connection may take. */
function outlast() { mark('waits'); Svc\sleep(5.5); return 7; }
function outlast_without_limit() { set_time_limit(0); return outlast(); }
"#;

/// PHP's functions neither set nor disarm the timer where there is no limit.
#[test]
fn the_limit_of_cleaning_ends_with_it() {
    const OPEN: &str = "Held::$db = new PDO('sqlite::memory:');";
    let server = one_thread(TaskServer::new(CLEANED), "all").entry(OPEN);
    let unlimited = server.clone().directive("max_execution_time=0").start_with(Mode::Worker, OPEN);
    let limited = server.start_with(Mode::Worker, OPEN);
    assert_eq!(unlimited.tell("ask"), "7");
    assert_eq!(unlimited.tell_in_task("ask"), "7");
    // The second one was suspended when the limit of another request's cleaning was set.
    let parked = limited.send("outlast_without_limit", "0");
    limited.until("waits");
    assert_eq!(limited.tell("ask_without_limit"), "7");
    let later = unlimited.send("outlast", "0");
    let in_task = unlimited.send("outlast&task", "0");
    for mut client in [parked, later, in_task] {
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (200, "7"));
    }
}
