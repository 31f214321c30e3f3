//! Compares calls with and without the runtime hook `net`.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::backend::{Backend, Unaccepting, Visit, head_of};
use crate::socket::Listener;
use crate::tasks::{Mode, TaskServer, TaskSvc};
use crate::waits::path_of;

/// The name and the function body of a call whose result is compared.
pub type Call = (&'static str, &'static str);

const CODE: &str = r#"
/** The result of a call, its PHP messages, and whether it took at least this many milliseconds. */
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
/** Results of recv() until no data is left, with the errors. */
function received(Socket $socket, int $size = 4096, int $flags = 0): array
{
    $results = [];
    $text = '';
    do {
        socket_clear_error($socket);
        $bytes = null;
        $count = @socket_recv($socket, $bytes, $size, $flags);
        $text .= $bytes;
        // The network decides how the data is split.
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

/// Serves a page for each way in which an answer can arrive, fail or stay away.
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

/// Delays reading a request, and answers with its length.
fn read_late(visit: &mut Visit) -> std::io::Result<()> {
    visit.pause(Duration::from_millis(200))?;
    let request = visit.request()?;
    visit.answer(&format!("{} {}", request.len(), request.ends_with("wombat..")))
}

/// Returns a server with a function for each call, and the addresses of the servers that the calls use.
fn server(calls: &[Call], hooks: &str, workers: &str, constants: &str) -> TaskServer {
    let functions: String =
        calls.iter().map(|(name, body)| format!("function call_{name}($n) {{ {body} }}\n")).collect();
    TaskServer::new(&format!("{constants}{CODE}{functions}"))
        .set("RUNTIME_HOOKS", hooks)
        .set("PHP_WORKERS", workers)
        .set("ASYNC_WORKERS", "1")
}

fn answers(calls: &[Call], server: &TaskSvc, tell: fn(&TaskSvc, &str) -> String) -> Vec<String> {
    std::thread::scope(|scope| {
        let calls: Vec<_> = calls
            .iter()
            .map(|(name, _)| scope.spawn(move || tell(server, &format!("call_{name}"))))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

/// Makes each call without the hook, and with the hook in requests and in tasks.
#[track_caller]
pub fn assert_same_with_hook(calls: &[Call]) {
    let folder = tempfile::tempdir().unwrap();
    let (pages, slow, hangs) = (Backend::tcp(page), Backend::tcp(read_late), Backend::tcp(Visit::hang));
    let leaves = Backend::tcp(|visit| {
        visit.bytes(1)?;
        visit.pause(Duration::from_millis(100))?;
        visit.reset()
    });
    let full = [Listener::tcp(), Listener::unix(folder.path().join("socket"))].map(Unaccepting::new);
    // Bound, so that no other process takes the port, but not listening.
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
    let plain = server(calls, "none", "8", &constants).start(Mode::Worker);
    let expected = answers(calls, &plain, TaskSvc::tell);
    for mode in [Mode::Worker, Mode::Classic] {
        // In classic mode, each request that waits for its task occupies a thread.
        let workers = if mode == Mode::Worker { "1" } else { "24" };
        let hooked = server(calls, "net", workers, &constants).start(mode);
        if mode == Mode::Worker {
            compare(calls, &answers(calls, &hooked, TaskSvc::tell), &expected);
        }
        compare(calls, &answers(calls, &hooked, TaskSvc::tell_in_task), &expected);
    }
}

#[track_caller]
fn compare(calls: &[Call], answers: &[String], expected: &[String]) {
    let mut wrong = Vec::new();
    for (((name, _), answer), expected) in calls.iter().zip(answers).zip(expected) {
        println!("{name}: {expected}");
        if answer != expected {
            wrong.push(format!("{name}:\n{answer}\nand without the hook\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
