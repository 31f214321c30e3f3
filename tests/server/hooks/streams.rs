//! PHP's own streams that several requests of a thread share, with TLS and without it: requests take turns, and none reads
//! the answer of another one, wherever it is on its way.

use serde_json::json;

use svc_testing::backend::{Backend, Visit};
use svc_testing::client::{Client, eventually};
use svc_testing::hooked::forget;
use svc_testing::tasks::{Mode, TaskSvc};
use svc_testing::tls::Certificates;
use svc_testing::turns::{answers, looks_in_vain, server_with};

/// The answer to each request is two lines, which arrive together.
const CODE: &str = r#"
class Held { public static $stream; }
function opened(int $flags = 0): mixed
{
    $context = stream_context_create(['ssl' => ['cafile' => CA, 'peer_name' => '127.0.0.1']]);
    return stream_socket_client(URL, $code, $message, 60, STREAM_CLIENT_CONNECT | $flags, $context);
}
function ask_persistent($n) { mark('look'); Held::$stream = opened(STREAM_CLIENT_PERSISTENT); return ask($n); }
/** Reads one of two lines. The other one stays in the stream's buffer meanwhile. */
function ask($n)
{
    mark('look');
    fwrite(Held::$stream, "PING $n\r\n");
    $first = fgets(Held::$stream);
    mark('inside');
    until('go');
    return trim($first) . trim(fgets(Held::$stream));
}
function ask_and_leave($n)
{
    $answer = ask($n);
    fwrite(Held::$stream, "PING left\r\n");
    return $answer;
}
/** Each function reads `+OK` in a different way. */
$reads = [
    'fgets' => fgets(...),
    'fread' => fn ($stream) => fread($stream, 5),
    'fgetc' => fn ($stream) => fgetc($stream) . fgetc($stream) . fgetc($stream),
    'fgetcsv' => fn ($stream) => fgetcsv($stream, null, ',', '"', '')[0],
    'fscanf' => fn ($stream) => fscanf($stream, '%s')[0],
    'fpassthru' => function ($stream) { stream_socket_shutdown($stream, STREAM_SHUT_WR); ob_start(); fpassthru($stream); return ob_get_clean(); },
    'stream_get_line' => fn ($stream) => stream_get_line($stream, 100, "\r\n"),
    'stream_get_contents' => fn ($stream) => stream_get_contents($stream, 5),
    'stream_copy_to_stream' => function ($stream) {
        $memory = fopen('php://memory', 'r+');
        stream_copy_to_stream($stream, $memory, 5);
        rewind($memory);
        return stream_get_contents($memory);
    },
    // With TLS, it would read encrypted bytes.
    'stream_socket_recvfrom' => fn ($stream) => str_starts_with(URL, 'tls:') ? fgets($stream) : stream_socket_recvfrom($stream, 5),
    // The server does not replace this function: it is stopped where streams are read.
    'hash_update_stream' => function ($stream) {
        $hash = hash_init('md5');
        hash_update_stream($hash, $stream, 5);
        return hash_final($hash) === md5("+OK\r\n") ? '+OK' : 'else';
    },
];
/** Sends nothing, and reads the rest of the previous request's answer. */
function reads($way)
{
    mark('look');
    $read = trim($GLOBALS['reads'][$way](Held::$stream));
    while (!str_contains($read, 'left') && !str_contains((string) fgets(Held::$stream), 'left'));
    return substr($read, 0, 3);
}
function ways() { return array_keys($GLOBALS['reads']); }
function in_callback($persistent)
{
    ob_start(function () use ($persistent) { try { if ($persistent) { Held::$stream = opened(STREAM_CLIENT_PERSISTENT); } return (string) fgets(Held::$stream); } catch (Error $error) { return $error::class; } });
    ob_end_flush();
}
function in_one_second($n) { set_time_limit(1); $answer = reads($n); mark('went on'); return $answer; }
function closes_inside() { mark('inside'); fwrite(Held::$stream, "PING x\r\n"); until('go'); return fclose(Held::$stream); }
function reads_only() { mark('look'); return fgets(Held::$stream); }
function encrypts($n)
{
    mark('look');
    $is_encrypted = stream_socket_enable_crypto(Held::$stream, true, STREAM_CRYPTO_METHOD_TLS_CLIENT);
    mark('encrypted');
    return $is_encrypted ? ask($n) : $is_encrypted;
}
function accepts()
{
    mark('look');
    stream_set_blocking(Held::$stream, true);
    $client = stream_socket_accept(Held::$stream, 60);
    return fgets($client);
}
function reaches() { return stream_socket_get_name(Held::$stream, false); }
"#;

/// Answers each line.
fn line_by_line(visit: &mut Visit) -> std::io::Result<()> {
    while let Ok(line) = visit.line() {
        visit.send(format!("+OK\r\n{line}\r\n"))?;
    }
    Ok(())
}

struct Peer {
    backend: Backend,
    certificates: Certificates,
    scheme: &'static str,
}

impl Peer {
    fn new(scheme: &'static str, script: fn(&mut Visit) -> std::io::Result<()>) -> Self {
        let certificates = Certificates::new(&[&["127.0.0.1"]]);
        let backend =
            if scheme == "tls" { Backend::tls(&certificates, script) } else { Backend::tcp(script) };
        Self { backend, certificates, scheme }
    }

    /// Returns a server whose boot script has opened the stream.
    fn server(&self) -> TaskSvc {
        self.server_with("Held::$stream = opened();")
    }

    fn server_with(&self, boot: &str) -> TaskSvc {
        let url = format!("{}://{}", self.scheme, self.backend.address());
        let constants = json!({"URL": url, "CA": self.certificates.cert(0).to_str().unwrap()});
        server_with(CODE, &constants).start_with(Mode::Worker, boot)
    }
}

/// Runs a test without and with TLS.
fn with_each(test: impl Fn(&TaskSvc)) {
    for scheme in ["tcp", "tls"] {
        println!("{scheme}");
        let peer = Peer::new(scheme, line_by_line);
        test(&peer.server());
    }
}

fn inside(server: &TaskSvc, function: &str, n: &str) -> Client {
    forget(server, &["inside", "go"]);
    let client = server.send(function, n);
    server.until("inside");
    client
}

#[test]
fn requests_ask_in_turns() {
    with_each(|server| {
        let mut one = inside(server, "ask", "1");
        let mut other = looks_in_vain(server, "ask", "2");
        server.mark("go");
        answers(&mut one, "\"+OKPING 1\"");
        answers(&mut other, "\"+OKPING 2\"");
        assert_eq!(server.svc.metric("svc_connection_wait_us_count"), 1.0);
    });
}

#[test]
fn a_persistent_stream_is_used_in_turns() {
    for scheme in ["tcp", "tls"] {
        let peer = Peer::new(scheme, line_by_line);
        let server = peer.server_with("");
        let mut one = inside(&server, "ask_persistent", "1");
        let mut other = looks_in_vain(&server, "ask_persistent", "2");
        assert_eq!(server.svc.get("/?do=in_callback&n=1&raw").text(), "Svc\\ConnectionBusyError");
        server.mark("go");
        answers(&mut one, "\"+OKPING 1\"");
        answers(&mut other, "\"+OKPING 2\"");
        assert_eq!(peer.backend.accepted(), 1, "{scheme}");
    }
}

#[test]
fn a_response_is_not_read_by_another_request() {
    with_each(|server| {
        let ways: Vec<String> = serde_json::from_str(&server.tell("ways")).unwrap();
        // The last one ends the conversation.
        let last = |way: &&String| *way == "fpassthru";
        for way in ways.iter().filter(|way| !last(way)).chain(ways.iter().filter(last)) {
            println!("{way}");
            let mut one = inside(server, "ask_and_leave", "1");
            let mut other = looks_in_vain(server, "reads", way);
            server.mark("go");
            answers(&mut one, "\"+OKPING 1\"");
            answers(&mut other, "\"+OK\"");
        }
    });
}

#[test]
fn a_handshake_is_not_interrupted() {
    let mut peer = Peer::new("tls", |visit| visit.hold().and_then(|()| line_by_line(visit)));
    peer.scheme = "tcp";
    let server = peer.server();
    let mut one = server.send("encrypts", "1");
    eventually("it begins", || server.lines("look").len() == 1);
    let mut other = looks_in_vain(&server, "ask", "2");
    server.mark("go");
    assert!(!server.marked("encrypted"));
    peer.backend.gate().open();
    answers(&mut one, "\"+OKPING 1\"");
    answers(&mut other, "\"+OKPING 2\"");
}

#[test]
fn a_request_that_cannot_wait_for_a_stream_is_refused() {
    with_each(|server| {
        let mut one = inside(server, "ask", "1");
        assert_eq!(server.svc.get("/?do=in_callback&n=&raw").text(), "Svc\\ConnectionBusyError");
        let mut late = looks_in_vain(server, "in_one_second", "fgets");
        assert_eq!(late.response().status, 504);
        assert!(!server.marked("went on"));
        server.mark("go");
        answers(&mut one, "\"+OKPING 1\"");
    });
}

#[test]
fn a_wait_for_a_closed_stream_fails() {
    with_each(|server| {
        let mut one = inside(server, "closes_inside", "1");
        let mut other = looks_in_vain(server, "reads_only", "1");
        server.mark("go");
        answers(&mut one, "true");
        answers(&mut other, "TypeError: fgets(): supplied resource is not a valid stream resource");
    });
}

#[test]
fn a_stream_that_listens_is_for_all() {
    let server = server_with(CODE, &json!({}));
    let server =
        server.start_with(Mode::Worker, "Held::$stream = stream_socket_server('tcp://127.0.0.1:0');");
    let mut accepting = [looks_in_vain(&server, "accepts", "1"), looks_in_vain(&server, "accepts", "2")];
    let address: String = serde_json::from_str(&server.tell("reaches")).unwrap();
    for _ in 0..2 {
        Client::connect(address.parse().unwrap()).send("hello\n");
    }
    for client in &mut accepting {
        answers(client, "\"hello\\n\"");
    }
}
