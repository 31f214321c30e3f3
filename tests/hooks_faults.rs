//! The runtime hook `net` when things go wrong: limits, cancellations, closed descriptors, and the end of workers.
#![cfg(feature = "php")]

use std::time::Duration;

use rustix::process::Signal;

use crate::backend::{Backend, Unaccepting, Visit};
use crate::proxy::Direction;
use crate::socket::Listener;
use crate::support::Svc;
use crate::support::client::eventually;
use crate::tasks::{Mode, TaskServer, TaskSvc, assert_like};
use crate::waits::{Pages, Stores};

/// Each function waits for a server that never answers; `$limit` is called once it is about to.
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
/** Reads until somebody interrupts it. */
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
/** The name of one, by its number. */
function endless(int $n): ?string { return array_keys($GLOBALS['endless'])[$n] ?? null; }
function how_many() { return count($GLOBALS['endless']); }
function limited($n)
{
    set_time_limit(1);
    mark('begun', $n);
    register_shutdown_function(fn () => mark('shut', $n));
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
function forever() { file_get_contents('http://' . HANGS . '/'); mark('went on'); }
"#;

/// Servers that hang, each in its own way.
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

fn one_thread(server: TaskServer, hooks: &str) -> TaskServer {
    // Some write more than a request may have by default.
    server
        .directive("memory_limit=-1")
        .set("RUNTIME_HOOKS", hooks)
        .set("PHP_WORKERS", "1")
        .set("ASYNC_WORKERS", "1")
}

/// The processor time of the server so far.
fn cpu_time(svc: &Svc) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", svc.pid().as_raw_nonzero())).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

fn sorted(server: &TaskSvc, mark: &str) -> Vec<usize> {
    let mut numbers: Vec<_> = server.lines(mark).iter().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

fn assert_serves(server: &TaskSvc) {
    assert_like(&server.tell("strrev"), "\"*\"");
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
    // None of them has spun: one that does takes all of the second that it has.
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
        eventually("all have been told", || sorted(&server, "caught") == all);
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
/** What a query answers, or that it fails. */
function tries($n)
{
    try { return @$n()('wombat') === 'wombat' ? 'whole' : 'failed'; } catch (Throwable) { return 'failed'; }
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

fn forget(server: &TaskSvc, marks: &[&str]) {
    for mark in marks {
        let _ = std::fs::remove_file(server.path(mark));
    }
}

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

#[test]
fn a_server_that_dies_in_its_answer_ends_the_query() {
    let stores = Stores::new();
    let server = one_thread(stores.server(QUERIES), "net").start(Mode::Worker);
    for (way, proxy) in stores.drivers() {
        let (mut failed, mut count) = (0, 0);
        // Ever further into the conversation, until it is over.
        loop {
            proxy.cut_after(Direction::ToClient, count);
            let answer = server.send("tries", way).response().text();
            if answer == "\"whole\"" {
                break;
            }
            assert_eq!(answer, "\"failed\"", "{way} after {count} bytes");
            failed += 1;
            // TLS and its certificates are long.
            count += 1 + count / 7;
        }
        assert!(failed > 3, "{way} {failed}");
        proxy.cut_after(Direction::ToClient, usize::MAX);
        assert_serves(&server);
    }
}

const CLOSING: &str = r#"
class Held { public static array $of = []; }
function opens($n)
{
    [$host, $port] = explode(':', HTTP);
    Held::$of[$n] = $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    socket_connect($socket, $host, (int) $port);
    mark('in');
    $count = match ($n) {
        'read' => @socket_recv($socket, $bytes, 100, 0),
        'all' => @socket_recv($socket, $bytes, 100, MSG_WAITALL),
        'write' => @socket_write($socket, str_repeat('x', 1 << 25)),
    };
    return [is_int($count) ? 'part' : $count, socket_last_error()];
}
/** Closes it, and takes its number at once for a connection that has something to read. */
function closes($n)
{
    $number = fn () => count(glob('/proc/self/fd/*'));
    $before = $number();
    socket_close(Held::$of[$n]);
    $stream = stream_socket_client('tcp://' . TALKS);
    $reads = [$stream];
    $none = null;
    stream_select($reads, $none, $none, 60);
    return [$before === $number(), fgets($stream)];
}
function opens_stream()
{
    Held::$of[''] = $stream = stream_socket_client('tcp://' . HTTP);
    fwrite($stream, "GET /page HTTP/1.1\r\n\r\n");
    return explode("\r\n\r\n", stream_get_contents($stream))[1];
}
function closes_stream() { return [@fclose(Held::$of['']), error_get_last()['message']]; }
"#;

#[test]
fn a_call_never_reads_what_is_sent_to_the_next_owner_of_its_number() {
    let (silent, talks) = (
        Backend::tcp(Visit::hold),
        Backend::tcp(|visit| visit.send("not yours\n").and_then(|()| visit.hang())),
    );
    let constants = format!("const HTTP = '{}';\nconst TALKS = '{}';\n", silent.address(), talks.address());
    let server = one_thread(TaskServer::new(&format!("{constants}{CLOSING}")), "net").start(Mode::Worker);
    for (way, answer) in [("read", "[false,9]"), ("all", "[false,9]"), ("write", "[\"part\",0]")] {
        forget(&server, &["in"]);
        let mut client = server.send("opens", way);
        server.until("in");
        // The one who waits has come to its wait when its thread answers.
        assert_serves(&server);
        assert_eq!(server.send("closes", way).response().text(), r#"[true,"not yours\n"]"#, "{way}");
        assert_eq!(client.response().text(), answer, "{way}");
    }
}

#[test]
fn nobody_closes_a_stream_that_another_request_reads() {
    let pages = Pages::new();
    let server = one_thread(pages.server(CLOSING), "net").start(Mode::Worker);
    let mut client = server.send("opens_stream", "");
    pages.plain.gate().wait_until_held(1);
    assert_serves(&server);
    assert_eq!(
        server.tell("closes_stream"),
        r#"[false,"fclose(): cannot close the provided stream, as it is in use"]"#
    );
    pages.plain.gate().open();
    assert_eq!(client.response().text(), "\"page\"");
}

const TRANSFERS: &str = r#"
function ends_in_callback($n)
{
    $curl = curl_init('http://' . HTTP . '/page');
    curl_setopt($curl, CURLOPT_WRITEFUNCTION, function () { str_repeat('x', PHP_INT_MAX >> 4); });
    curl_exec($curl);
}
"#;

#[test]
fn a_bailout_out_of_a_transfer_stops_before_the_library_of_its_own_request() {
    let pages = Pages::new();
    let server = one_thread(pages.server(TRANSFERS), "net").start(Mode::Worker);
    let mut around = Vec::new();
    for round in 0..20 {
        let mut ends = server.send("ends_in_callback", "");
        pages.plain.gate().wait_until_held(1);
        // Another transfer begins and ends on the same thread, and a third one goes on.
        let mut other = server.send("by_curl_tls", "other");
        pages.tls.gate().wait_until_held(1);
        if round % 2 == 0 {
            pages.tls.gate().release(1);
            assert_eq!(other.response().text(), "\"other\"");
        }
        pages.plain.gate().release(1);
        assert_eq!(ends.response().status, 500);
        if round % 2 == 1 {
            pages.tls.gate().release(1);
            assert_eq!(other.response().text(), "\"other\"");
        }
        around.push(server.svc.metric("process_open_fds"));
    }
    eventually("all is closed", || server.svc.metric("process_open_fds") < around[0] + 10.0);
}

#[test]
fn many_wait_and_the_thread_goes_on() {
    let pages = Pages::new();
    let server = one_thread(pages.server(""), "net").start(Mode::Worker);
    let mut clients: Vec<_> = (0..256).map(|n| server.send("by_file", &n.to_string())).collect();
    pages.plain.gate().wait_until_held(200);
    pages.plain.gate().open();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("\"{n}\""));
    }
    assert_serves(&server);
}

#[test]
fn a_client_that_leaves_does_not_end_the_others() {
    let pages = Pages::new();
    let server = one_thread(pages.server(""), "net").start(Mode::Worker);
    let mut clients: Vec<_> = (0..8).map(|n| server.send("by_curl", &n.to_string())).collect();
    pages.plain.gate().wait_until_held(8);
    clients.drain(..4);
    server.svc.assert_metric(r#"svc_request_cancelled_total{reason="client_abort"}"#, 4.0);
    pages.plain.gate().open();
    for (client, n) in clients.iter_mut().zip(4..) {
        assert_eq!(client.response().text(), format!("\"{n}\""));
    }
    assert_serves(&server);
}

#[test]
fn workers_are_replaced_while_calls_wait() {
    let pages = Pages::new();
    let server = one_thread(pages.server(""), "net").start_with(Mode::Worker, "mark('boots');");
    let mut clients: Vec<_> = (0..8).map(|n| server.send("by_curl", &n.to_string())).collect();
    pages.plain.gate().wait_until_held(8);
    server.svc.signal(Signal::HUP);
    eventually("another one has booted", || server.lines("boots").len() == 2);
    pages.plain.gate().open();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("\"{n}\""));
    }
    assert_serves(&server);
}

#[test]
fn the_deadline_of_a_drain_ends_waits() {
    let endless = Endless::new();
    let mut server = endless.server("net").set("DRAIN_TIMEOUT_SECONDS", "1").start(Mode::Worker);
    let clients: Vec<_> = (0..8).map(|_| server.send("forever", "")).collect();
    eventually("all wait", || endless.hangs.connected() == clients.len());
    server.svc.signal(Signal::TERM);
    for mut client in clients {
        client.rest();
    }
    assert!(server.svc.wait().is_some());
    assert!(!server.marked("went on"));
}

const PLACES: &str = r#"
function in_output_handler()
{
    ob_start(function (string $output) { return by_file($output); });
    echo 'output';
    return ob_end_flush();
}
class Asking { public $self; function __destruct() { mark('destroyed', by_file('cycle')); } }
function in_collector()
{
    $cycle = new Asking;
    $cycle->self = $cycle;
    unset($cycle);
    return gc_collect_cycles();
}
function in_autoloader()
{
    spl_autoload_register(function (string $class) { eval('class ' . by_curl($class) . ' {}'); });
    return (new Loaded)::class;
}
"#;

#[test]
fn where_php_cannot_switch_the_thread_blocks_and_it_is_counted() {
    let pages = Pages::new();
    pages.plain.gate().open();
    let server = one_thread(pages.server(PLACES), "net").start(Mode::Worker);
    for (function, answer, reason) in [
        ("in_output_handler", "outputtrue", "output_handler"),
        ("in_collector", "1", "gc"),
        ("in_autoloader", "\"Loaded\"", "loading"),
    ] {
        assert_eq!(server.tell(function), answer);
        let blocked = format!(r#"svc_hook_blocked_total{{hook="net",reason="{reason}"}}"#);
        assert!(server.svc.metric(&blocked) >= 1.0, "{function}");
    }
    assert_eq!(server.lines("destroyed"), ["cycle"]);
}
