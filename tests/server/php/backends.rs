//! PHP as a client of servers that answer late, in pieces, wrongly or not at all.

use std::time::Duration;

use serde_json::{Value, json};

use svc_testing::Svc;
use svc_testing::answering::{answer, script};
use svc_testing::backend::{Backend, Unaccepting, Visit, head_of};
use svc_testing::client::eventually;
use svc_testing::socket::{Address, Listener};
use svc_testing::tls::Certificates;

/// Fetches URL with curl, through a Unix socket if SOCKET names one.
const CURL: &str = r#"
function answer(): array
{
    $curl = curl_init(URL);
    $options = [CURLOPT_CAINFO => CA, CURLOPT_UNIX_SOCKET_PATH => SOCKET];
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true] + array_filter($options));
    $body = curl_exec($curl);
    return [$body, curl_errno($curl)];
}
"#;

/// Fetches URL with PHP's streams.
const STREAM: &str = r#"
function answer(): string|false
{
    $context = stream_context_create(['ssl' => array_filter(['cafile' => CA]), 'http' => ['timeout' => TIMEOUT]]);
    return @file_get_contents(URL, false, $context);
}
"#;

/// The bytes read from a connection up to its end, and whether that was a reset; false without a connection.
const SOCKET: &str = r#"
function answer(): array|false
{
    $socket = @stream_socket_client(REMOTE, $errno, $error, TIMEOUT);
    if (!$socket) {
        return false;
    }
    fwrite($socket, "hello\r\n\r\n");
    $plain = socket_import_stream($socket);
    for ($text = ''; ($count = @socket_recv($plain, $bytes, 100, 0)) > 0; $text .= $bytes);
    return [$text, $count === false && socket_last_error($plain) === SOCKET_ECONNRESET, @fwrite($socket, 'more')];
}
"#;

/// Starts a server with one script and its constants.
fn start(code: &str, constants: &Value) -> Svc {
    Svc::start(&[("index.php", &script(code, constants))], &[("PHP_WORKERS", "8")])
}

/// Returns the constants for an address; an HTTP client needs the URL as well.
fn facts(address: &Address, scheme: &str, ca: &str) -> Value {
    let (url, remote, socket) = match address {
        Address::Tcp(_) => (format!("{scheme}://{address}/"), format!("tcp://{address}"), String::new()),
        Address::Unix(_) => (format!("{scheme}://unix/"), format!("unix://{address}"), address.to_string()),
    };
    json!({"URL": url, "REMOTE": remote, "SOCKET": socket, "CA": ca, "TIMEOUT": 60})
}

/// Returns the data that a client reads from a server with this script.
fn read_from(backend: &Backend) -> Value {
    answer(&start(SOCKET, &facts(&backend.address(), "", "")), "/")
}

#[test]
fn a_backend_knows_how_many_it_holds_at_once() {
    let backend = Backend::tcp(|visit| {
        while visit.request()?.starts_with("GET / ") {
            visit.hold()?;
            visit.answer("wombat")?;
        }
        Ok(())
    });
    let svc = start(CURL, &facts(&backend.address(), "http", ""));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| answer(&svc, "/"))).collect();
        backend.gate().wait_until_held(8);
        assert_eq!((backend.accepted(), backend.connected(), backend.requests().len()), (8, 8, 8));
        backend.gate().release(3);
        eventually("three were let go", || backend.gate().held() == 5);
        backend.gate().open();
        for client in clients {
            assert_eq!(client.join().unwrap(), json!(["wombat", 0]));
        }
    });
    eventually("the clients have left", || backend.connected() == 0);
}

#[test]
fn a_backend_speaks_tls() {
    let certificates = Certificates::new(&[&["127.0.0.1"]]);
    let backend = Backend::tls(&certificates, |visit| {
        visit.request()?;
        visit.send(head_of(6))?;
        visit.pause(Duration::from_millis(5))?;
        visit.trickle("wombat", Duration::from_millis(1))
    });
    let facts = facts(&backend.address(), "https", certificates.cert(0).to_str().unwrap());
    assert_eq!(answer(&start(CURL, &facts), "/"), json!(["wombat", 0]));
    assert_eq!(answer(&start(STREAM, &facts), "/"), json!("wombat"));
}

#[test]
fn a_backend_hangs_in_the_handshake() {
    let backend = Backend::tcp(Visit::hang);
    let mut facts = facts(&backend.address(), "https", "");
    facts["TIMEOUT"] = json!(0.2);
    assert_eq!(answer(&start(STREAM, &facts), "/"), json!(false));
    eventually("it was accepted", || backend.accepted() == 1);
}

#[test]
fn a_backend_listens_on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Backend::unix(folder.path().join("socket"), |visit| {
        visit.request()?;
        visit.answer("wombat")
    });
    assert_eq!(answer(&start(CURL, &facts(&backend.address(), "http", "")), "/"), json!(["wombat", 0]));
}

#[test]
fn a_backend_resets() {
    let backend = Backend::tcp(|visit| {
        visit.request()?;
        visit.reset()
    });
    assert_eq!(read_from(&backend), json!(["", true, false]));
}

#[test]
fn a_backend_half_closes() {
    let backend = Backend::tcp(|visit| {
        visit.request()?;
        visit.send("wombat")?;
        visit.half_close();
        visit.rest()
    });
    assert_eq!(read_from(&backend), json!(["wombat", false, 4]));
    eventually("the rest has come", || backend.requests() == ["hello\r\n\r\n", "more"]);
}

#[test]
fn a_full_backlog_refuses_connections() {
    let folder = tempfile::tempdir().unwrap();
    for listener in [Listener::tcp(), Listener::unix(folder.path().join("socket"))] {
        let unaccepting = Unaccepting::new(listener);
        let mut facts = facts(&unaccepting.address(), "", "");
        facts["TIMEOUT"] = json!(0.2);
        assert_eq!(answer(&start(SOCKET, &facts), "/"), json!(false));
    }
}
