//! What calls answer with the runtime hook `net` is what they answer without it: each is made in both ways, and compared.
#![cfg(feature = "php")]

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::backend::{Backend, Unaccepting, Visit, head_of};
use crate::socket::Listener;
use crate::tasks::{Mode, TaskServer, TaskSvc};
use crate::waits::path_of;

const CODE: &str = r#"
/** What a call returns, what PHP says to it, and whether it took at least so many milliseconds. */
function seen(callable $call, int $ms = 0): array
{
    $notes = [];
    set_error_handler(function (int $level, string $text) use (&$notes) { $notes[] = $text; return true; });
    $before = hrtime(true);
    try {
        $result = $call();
    } catch (Throwable $thrown) {
        $result = $thrown::class . ': ' . $thrown->getMessage();
    } finally {
        restore_error_handler();
    }
    $took = (hrtime(true) - $before) / 1e6;
    return [$result, preg_replace('/PID=\d+/', '', $notes), $took >= $ms, $took < $ms + 30000];
}
function over_tcp(string $to, ?callable $prepare = null): Socket
{
    [$host, $port] = explode(':', $to);
    $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    if ($prepare) { $prepare($socket); }
    socket_connect($socket, $host, (int) $port);
    return $socket;
}
function question(string $n): string { return "GET /$n HTTP/1.1\r\n\r\n"; }
function asking(string $n): Socket
{
    $socket = over_tcp(PAGES);
    socket_write($socket, question($n));
    return $socket;
}
function limit(Socket $socket, int $option): void { socket_set_option($socket, SOL_SOCKET, $option, ['sec' => 0, 'usec' => 60000]); }
/** Results of recv() until it has nothing more, with the errors. */
function received(Socket $socket, int $size = 4096, int $flags = 0): array
{
    $results = [];
    $text = '';
    do {
        socket_clear_error($socket);
        $bytes = null;
        $count = @socket_recv($socket, $bytes, $size, $flags);
        $text .= $bytes;
        // How it comes in pieces is the network's affair.
        if ($count === false || $count === 0 || ($flags & MSG_WAITALL)) { $results[] = [$count, socket_last_error($socket)]; }
    } while ($count > 0);
    return [$text, $results];
}
const KINDS = ['answer', 'late', 'trickle', 'half', 'eof', 'short', 'reset', 'reset-mid', 'reset-after'];
function kinds(callable $call): array
{
    return array_combine(KINDS, array_map(fn (string $kind) => seen(fn () => $call($kind)), KINDS));
}
"#;

/// The calls: a name is a function, and its number a server's life.
const CALLS: &[(&str, &str)] = &[
    (
        "curl",
        r#"
        return kinds(function (string $kind) {
            $curl = curl_init('http://' . PAGES . "/$kind");
            curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true]);
            return [curl_exec($curl), curl_errno($curl), preg_replace('/\d+ ms/', '', curl_error($curl)), curl_getinfo($curl, CURLINFO_HTTP_CODE)];
        });"#,
    ),
    (
        "curl_multi",
        r#"
        return kinds(function (string $kind) {
            $many = curl_multi_init();
            $curl = curl_init('http://' . PAGES . "/$kind");
            curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
            curl_multi_add_handle($many, $curl);
            do { $code = curl_multi_exec($many, $running); } while ($running && curl_multi_select($many, 10) >= 0);
            return [curl_multi_getcontent($curl), $code, curl_multi_info_read($many)['result'] ?? null];
        });"#,
    ),
    (
        "curl_limits",
        r#"
        $limited = function (string $to, int $option) {
            $curl = curl_init("http://$to/hang");
            curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, $option => 80]);
            return [curl_exec($curl), curl_errno($curl)];
        };
        return [
            seen(fn () => $limited(PAGES, CURLOPT_TIMEOUT_MS), 79), seen(fn () => $limited(FULL, CURLOPT_TIMEOUT_MS), 79),
            seen(fn () => $limited(FULL, CURLOPT_CONNECTTIMEOUT_MS), 79), seen(fn () => $limited(NOBODY, CURLOPT_TIMEOUT_MS)),
        ];"#,
    ),
    (
        "curl_select",
        r#"
        $many = curl_multi_init();
        return [seen(fn () => curl_multi_select($many, 0.05)), seen(fn () => curl_multi_select($many, 0)), seen(fn () => curl_multi_select($many, -1))];"#,
    ),
    (
        "pages",
        r#"
        return kinds(fn (string $kind) => file_get_contents('http://' . PAGES . "/$kind"));"#,
    ),
    (
        "page_limits",
        r#"
        ini_set('default_socket_timeout', '1');
        $limit = stream_context_create(['http' => ['timeout' => 0.08]]);
        return [
            seen(fn () => file_get_contents('http://' . PAGES . '/hang', false, $limit), 79),
            seen(fn () => file_get_contents('http://' . FULL . '/', false, $limit), 79),
            seen(fn () => file_get_contents('http://' . PAGES . '/hang'), 999),
            seen(fn () => file_get_contents('http://' . NOBODY . '/')),
            seen(fn () => file_get_contents('https://' . PAGES . '/hang', false, stream_context_create(['http' => ['timeout' => 0.2]]))),
        ];"#,
    ),
    (
        "streams",
        r#"
        return kinds(function (string $kind) {
            $stream = stream_socket_client('tcp://' . PAGES);
            $written = fwrite($stream, question($kind));
            for ($text = ''; ($piece = fread($stream, 1)) !== false && $piece !== ''; $text .= $piece);
            $facts = stream_get_meta_data($stream);
            return [$written, $text, $piece, feof($stream), $facts['timed_out'], $facts['blocked'], fclose($stream)];
        });"#,
    ),
    (
        "stream_limits",
        r#"
        $stream = stream_socket_client('tcp://' . PAGES);
        stream_set_timeout($stream, 0, 60000);
        fwrite($stream, question('hang'));
        $results = [seen(fn () => fread($stream, 10), 59), stream_get_meta_data($stream), seen(fn () => fgets($stream), 59)];
        stream_set_timeout($stream, 0, 0);
        $results[] = [seen(fn () => fread($stream, 10)), stream_get_meta_data($stream)['timed_out']];
        stream_set_blocking($stream, false);
        return [...$results, seen(fn () => fread($stream, 10)), stream_get_meta_data($stream),
            seen(fn () => @stream_socket_client('tcp://' . FULL, $errno, $error, 0.08) . "$errno $error", 79),
            seen(fn () => @stream_socket_client('tcp://' . NOBODY, $errno, $error, 0.08) . "$errno $error"),
            seen(fn () => @stream_socket_client('unix://' . FULL_PATH, $errno, $error, 0.08) . "$errno $error"),
            seen(fn () => @fsockopen('unix://' . FULL_PATH . '.not', -1, $errno, $error, 0.08) . "$errno $error"),
        ];"#,
    ),
    (
        "sockets",
        r#"
        return kinds(fn (string $kind) => received(asking($kind)));"#,
    ),
    (
        "whole_messages",
        r#"
        return [kinds(fn (string $kind) => received(asking($kind), 80, MSG_WAITALL)), kinds(fn (string $kind) => received(asking($kind), 1000, MSG_WAITALL))];"#,
    ),
    (
        "whole_messages_in_time",
        r#"
        $socket = asking('drip');
        socket_set_option($socket, SOL_SOCKET, SO_RCVTIMEO, ['sec' => 0, 'usec' => 500000]);
        return seen(fn () => is_int(socket_recv($socket, $bytes, 1000000, MSG_WAITALL)), 400);"#,
    ),
    (
        "peeks",
        r#"
        $socket = asking('trickle');
        $results = [@socket_recv($socket, $peeked, 3, MSG_PEEK | MSG_WAITALL), $peeked, socket_recv($socket, $bytes, 3, MSG_WAITALL), $bytes];
        $other = asking('half');
        $results[] = [@socket_recv($other, $peeked, 100, MSG_PEEK | MSG_WAITALL), $peeked];
        $third = asking('hang');
        limit($third, SO_RCVTIMEO);
        return [...$results, seen(fn () => @socket_recv($third, $bytes, 9, MSG_PEEK | MSG_WAITALL), 59), socket_last_error($third)];"#,
    ),
    (
        "socket_limits",
        r#"
        $socket = asking('hang');
        $results = [@socket_recv($socket, $bytes, 1, MSG_DONTWAIT), socket_last_error($socket)];
        limit($socket, SO_RCVTIMEO);
        $results[] = [seen(fn () => @socket_recv($socket, $bytes, 1, 0), 59), socket_last_error($socket), socket_last_error()];
        $results[] = [seen(fn () => @socket_recv($socket, $bytes, 1, MSG_WAITALL), 59), socket_last_error($socket)];
        $results[] = [seen(fn () => @socket_recvfrom($socket, $bytes, 9, 0, $name), 59), socket_last_error($socket)];
        socket_set_nonblock($socket);
        $results[] = [seen(fn () => @socket_recv($socket, $bytes, 1, 0)), socket_last_error($socket)];
        foreach ([NOBODY, FULL] as $to) {
            $results[] = [seen(function () use ($to, &$other) {
                return @over_tcp($to, function ($socket) use (&$other) { $other = $socket; limit($socket, SO_SNDTIMEO); }) && false;
            }), socket_last_error($other), socket_last_error()];
        }
        $unix = socket_create(AF_UNIX, SOCK_STREAM, 0);
        limit($unix, SO_SNDTIMEO);
        $results[] = [seen(fn () => @socket_connect($unix, FULL_PATH), 50), socket_last_error($unix)];
        $listening = socket_create_listen(0);
        limit($listening, SO_RCVTIMEO);
        $results[] = [seen(fn () => @socket_accept($listening), 59), socket_last_error($listening)];
        socket_set_nonblock($listening);
        $results[] = [seen(fn () => @socket_accept($listening)), socket_last_error($listening)];
        return $results;"#,
    ),
    (
        "full_sockets",
        r#"
        $results = [];
        foreach (['socket_write', 'socket_send'] as $function) {
            socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
            limit($pair[0], SO_SNDTIMEO);
            $text = str_repeat('x', 1 << 20);
            $send = fn () => $function === 'socket_write' ? socket_write($pair[0], $text) : socket_send($pair[0], $text, strlen($text), 0);
            $results[] = seen(fn () => $send() > 4096, 59);
            $results[] = [seen(fn () => @$send(), 59), socket_last_error($pair[0])];
            $results[] = [@socket_send($pair[0], $text, 100, MSG_DONTWAIT), socket_last_error($pair[0])];
            socket_close($pair[1]);
            $results[] = [@$send(), socket_last_error($pair[0])];
        }
        return $results;"#,
    ),
    (
        "much_to_a_slow_reader",
        r#"
        $text = str_repeat('wombat..', 1 << 21);
        $stream = stream_socket_client('tcp://' . SLOW);
        $results = [seen(fn () => fwrite($stream, "POST / HTTP/1.1\r\nContent-Length: " . strlen($text) . "\r\n\r\n$text")), stream_get_contents($stream)];
        $socket = over_tcp(SLOW);
        $rest = "POST / HTTP/1.1\r\nContent-Length: " . strlen($text) . "\r\n\r\n$text";
        return [...$results, socket_write($socket, $rest) === strlen($rest), received($socket)];"#,
    ),
    (
        "much_to_one_who_leaves",
        r#"
        $text = str_repeat('wombat..', 1 << 21);
        $stream = stream_socket_client('tcp://' . LEAVES);
        $first = seen(fn () => fwrite($stream, $text));
        $first[0] = $first[0] < strlen($text);
        $first[1] = array_map(fn (string $note) => preg_replace('/of \d+ bytes/', '', $note), $first[1]);
        $results = [$first];
        foreach (['socket_write', 'socket_send'] as $function) {
            $socket = over_tcp(LEAVES);
            $send = fn () => $function === 'socket_write' ? @socket_write($socket, $text) : @socket_send($socket, $text, strlen($text), 0);
            $results[] = [$send() < strlen($text), socket_last_error($socket), $send(), socket_last_error($socket), $send(), socket_last_error($socket)];
        }
        return $results;"#,
    ),
    (
        "datagrams",
        r#"
        $one = socket_create(AF_INET, SOCK_DGRAM, SOL_UDP);
        socket_bind($one, '127.0.0.1', 0);
        socket_getsockname($one, $host, $port);
        $other = socket_create(AF_INET, SOCK_DGRAM, SOL_UDP);
        $results = [];
        foreach (['wombat', '', str_repeat('x', 60000)] as $text) {
            $results[] = socket_sendto($other, $text, strlen($text), 0, $host, $port);
            $results[] = [socket_recvfrom($one, $bytes, 70000, 0, $from, $at), $bytes === $text, $from, $at > 0];
        }
        $results[] = [@socket_sendto($other, str_repeat('x', 70000), 70000, 0, $host, $port), socket_last_error($other)];
        socket_sendto($other, 'wombat', 6, 0, $host, $port);
        $results[] = [socket_recvfrom($one, $bytes, 3, MSG_WAITALL, $from, $at), $bytes];
        socket_connect($other, $host, $port);
        $results[] = [socket_write($other, 'quokka'), socket_read($one, 100)];
        limit($one, SO_RCVTIMEO);
        $results[] = [seen(fn () => @socket_recvfrom($one, $bytes, 10, 0, $from, $at), 59), socket_last_error($one)];
        socket_close($one);
        $results[] = [@socket_write($other, 'x'), @socket_write($other, 'x'), socket_last_error($other)];
        $stream = stream_socket_server('udp://127.0.0.1:0', $errno, $error, STREAM_SERVER_BIND);
        $client = stream_socket_client('udp://' . stream_socket_get_name($stream, false));
        $results[] = [fwrite($client, 'wombat'), stream_socket_recvfrom($stream, 100), stream_socket_sendto($client, 'again'), fread($stream, 100)];
        return $results;"#,
    ),
    (
        "stream_select",
        r#"
        $select = function (?array $reads, ?array $writes, ?array $excepts, ?int $s, ?int $us = null) {
            return [stream_select($reads, $writes, $excepts, $s, $us), array_map(fn ($set) => $set === null ? null : array_keys($set), [$reads, $writes, $excepts])];
        };
        [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $file = fopen(__FILE__, 'r');
        $null = fopen('/dev/null', 'r+');
        $closed = fopen(__FILE__, 'r');
        fclose($closed);
        $results = [
            seen(fn () => $select(['x' => $a], null, null, 0, 50000), 49), seen(fn () => $select(['x' => $a, 'y' => $file], ['z' => $b], [], 5)),
            seen(fn () => $select([$file], null, null, null)), seen(fn () => $select([], [], [], 0, 50000)), seen(fn () => $select(null, null, null, 0, 50000)),
            seen(fn () => $select([$closed], null, null, 0, 50000)), seen(fn () => $select([$a, $closed], null, null, 0, 50000)),
            seen(fn () => $select(null, null, [$null], 0, 50000), 49), seen(fn () => $select(null, null, [$file, $a], 0, 50000), 49),
            seen(fn () => $select([$null], null, [$a], 1)), seen(fn () => $select([$a], null, null, -1)), seen(fn () => $select([$a], null, null, 0, 0)),
            seen(fn () => $select([$a, $a], null, [$a], 0, 50000), 49), seen(fn () => $select([$a], null, null, null, 5)),
        ];
        fwrite($b, 'x');
        $results[] = seen(fn () => $select([$a, $a], [$a], [$a], null));
        fread($a, 1);
        stream_socket_shutdown($b, STREAM_SHUT_WR);
        return [...$results, seen(fn () => $select([$a], null, null, null)), fread($a, 10), feof($a), fclose($b), @fwrite($a, 'x'), seen(fn () => $select([$a], [$a], null, null))];"#,
    ),
    (
        "socket_select",
        r#"
        $select = function (?array $reads, ?array $writes, ?array $excepts, ?int $s, int $us = 0) {
            return [socket_select($reads, $writes, $excepts, $s, $us), array_map(fn ($set) => $set === null ? null : array_keys($set), [$reads, $writes, $excepts]), socket_last_error()];
        };
        socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
        [$a, $b] = $pair;
        $closed = socket_create_listen(0);
        socket_close($closed);
        return [
            seen(fn () => $select(['x' => $a], null, null, 0, 50000), 49), seen(fn () => $select([$a], [$b], [], null)),
            seen(fn () => $select([], null, null, 0, 50000)), seen(fn () => $select(null, null, null, 0, 50000)),
            seen(fn () => $select([$closed], null, null, 0, 50000)), socket_write($b, 'x'), seen(fn () => $select([$a, $b], null, [$a], null)),
            socket_shutdown($b), seen(fn () => $select([$a], [$b], null, 1)), socket_read($a, 9), socket_read($a, 9), @socket_write($a, 'x'), socket_last_error($a),
        ];"#,
    ),
    (
        "hosts_that_do_not_answer",
        r#"
        [$host, $port] = explode(':', HANGS);
        $full = explode(':', FULL)[1];
        $mysqli = function (int $port) use ($host) {
            mysqli_report(MYSQLI_REPORT_OFF);
            $db = mysqli_init();
            $db->options(MYSQLI_OPT_CONNECT_TIMEOUT, 1);
            $db->options(MYSQLI_OPT_READ_TIMEOUT, 1);
            return [@$db->real_connect($host, 'x', 'x', 'x', $port), mysqli_connect_errno(), mysqli_connect_error()];
        };
        return [
            seen(fn () => @new PDO("mysql:host=$host;port=$full", 'x', 'x', [PDO::ATTR_TIMEOUT => 1]), 999),
            seen(fn () => $mysqli((int) $port), 999), seen(fn () => $mysqli((int) $full), 999),
            seen(fn () => @pg_connect("host=$host port=$port connect_timeout=2"), 1900), seen(fn () => @pg_connect('host=127.0.0.1 port=' . explode(':', NOBODY)[1])),
            seen(fn () => new PDO("pgsql:host=$host;port=$port", options: [PDO::ATTR_TIMEOUT => 2]), 1900),
        ];"#,
    ),
    (
        "flags",
        r#"
        $flags = fn () => array_filter(array_map(fn ($file) => @readlink("/proc/self/fd/" . basename($file)) ? explode("\n", @file_get_contents($file))[1] ?? '' : '', glob('/proc/self/fdinfo/*')));
        $socket = asking('late');
        $before = count($flags());
        received($socket);
        $stream = stream_socket_client('tcp://' . PAGES);
        fwrite($stream, question('late'));
        $other = socket_import_stream($stream);
        stream_get_contents($stream);
        return [socket_get_option($socket, SOL_SOCKET, SO_ERROR), socket_get_option($socket, SOL_SOCKET, SO_RCVTIMEO), stream_get_meta_data($stream)['blocked'], $before > 0];"#,
    ),
];

/// A page for each way in which an answer may come, and not come.
fn page(visit: &mut Visit) -> std::io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(30);
    let request = visit.request()?;
    let body = "x".repeat(100);
    match path_of(&request) {
        "answer" => visit.answer(&body),
        "late" => visit.pause(PAUSE).and_then(|()| visit.answer(&body)),
        "trickle" => visit.trickle(format!("{}{body}", head_of(100)), Duration::from_millis(1)),
        "drip" => {
            (0..).try_for_each(|_| visit.send("x").and_then(|()| visit.pause(Duration::from_millis(10))))
        }
        "half" => {
            visit.send(head_of(3))?;
            visit.pause(PAUSE)?;
            visit.send("abc")?;
            visit.half_close();
            visit.rest()
        }
        "eof" => visit.pause(PAUSE),
        "short" => visit.send(format!("{}abc", head_of(100))).and_then(|()| visit.pause(PAUSE)),
        "reset" => visit.pause(PAUSE).and_then(|()| visit.reset()),
        "reset-mid" => {
            visit.send(format!("{}abc", head_of(100)))?;
            visit.pause(PAUSE)?;
            visit.reset()
        }
        "reset-after" => {
            visit.answer(&body)?;
            visit.pause(PAUSE)?;
            visit.reset()
        }
        _ => visit.hang(),
    }
}

/// Reads a request late, and answers how long it was.
fn read_late(visit: &mut Visit) -> std::io::Result<()> {
    visit.pause(Duration::from_millis(200))?;
    let request = visit.request()?;
    visit.answer(&format!("{} {}", request.len(), request.ends_with("wombat..")))
}

/// Each call as a function, with the addresses of those that it calls.
fn server(hooks: &str, workers: &str, constants: &str) -> TaskServer {
    let calls: String =
        CALLS.iter().map(|(name, body)| format!("function call_{name}($n) {{ {body} }}\n")).collect();
    TaskServer::new(&format!("{constants}{CODE}{calls}"))
        .set("RUNTIME_HOOKS", hooks)
        .set("PHP_WORKERS", workers)
        .set("ASYNC_WORKERS", "1")
}

fn answers(server: &TaskSvc, tell: fn(&TaskSvc, &str) -> String) -> Vec<String> {
    std::thread::scope(|scope| {
        let calls: Vec<_> = CALLS
            .iter()
            .map(|(name, _)| scope.spawn(move || tell(server, &format!("call_{name}"))))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

#[test]
fn calls_answer_as_without_the_hook() {
    let folder = tempfile::tempdir().unwrap();
    let (pages, slow, hangs) = (Backend::tcp(page), Backend::tcp(read_late), Backend::tcp(Visit::hang));
    let leaves = Backend::tcp(|visit| visit.pause(Duration::from_millis(100)).and_then(|()| visit.reset()));
    let full = [Listener::tcp(), Listener::unix(folder.path().join("socket"))].map(Unaccepting::new);
    // Bound, so that it is nobody else's, and not listening.
    let nobody =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&nobody, &std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let nobody_at = std::net::SocketAddr::try_from(rustix::net::getsockname(&nobody).unwrap()).unwrap();
    let constants: String = [
        ("PAGES", pages.address().to_string()),
        ("SLOW", slow.address().to_string()),
        ("HANGS", hangs.address().to_string()),
        ("LEAVES", leaves.address().to_string()),
        ("NOBODY", nobody_at.to_string()),
        ("FULL", full[0].address().to_string()),
        ("FULL_PATH", full[1].address().to_string()),
    ]
    .map(|(name, value)| format!("const {name} = '{value}';\n"))
    .concat();
    let plain = server("none", "8", &constants).start(Mode::Worker);
    let expected = answers(&plain, TaskSvc::tell);
    for mode in [Mode::Worker, Mode::Classic] {
        // Classic mode has a thread for each request that waits for its task.
        let workers = if mode == Mode::Worker { "1" } else { "24" };
        let hooked = server("net", workers, &constants).start(mode);
        if mode == Mode::Worker {
            compare(&answers(&hooked, TaskSvc::tell), &expected);
        }
        compare(&answers(&hooked, TaskSvc::tell_in_task), &expected);
    }
}

#[track_caller]
fn compare(answers: &[String], expected: &[String]) {
    let mut wrong = Vec::new();
    for (((name, _), answer), expected) in CALLS.iter().zip(answers).zip(expected) {
        println!("{name}: {expected}");
        if answer != expected {
            wrong.push(format!("{name}:\n{answer}\nand without the hook\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
