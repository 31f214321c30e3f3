//! The maximum number of requests on one thread, parked in calls of all kinds, while clients leave, workers are replaced,
//! and the server shuts down.

use std::net::Ipv4Addr;

use rustix::process::Signal;
use svc_core::limits::{HELPER_THREADS_MAX, REQUEST_FIBERS_MAX};

use svc_testing::Svc;
use svc_testing::backend::{Backend, Unaccepting, Visit};
use svc_testing::client::{Client, eventually};
use svc_testing::dns::{DnsServer, Manner, Record};
use svc_testing::socket::Listener;
use svc_testing::tls::Certificates;
use svc_testing::waits::{OVER_HTTP, held_path, path_of};

/// Each way waits in a different call: poll, recv, connect, on a helper thread, for a program, in the TLS handshake.
const WAYS: [&str; 6] = ["by_file", "by_socket", "by_connect", "by_name", "by_program", "by_file_tls"];
/// The number of requests that wait in each way.
const EACH: usize = REQUEST_FIBERS_MAX / WAYS.len();

const CODE: &str = r#"
function mark(string $name): void { file_put_contents(__DIR__ . "/$name", "\n", FILE_APPEND); }
function by_connect($n)
{
    mark('connects');
    return socket_connect(socket_create(AF_UNIX, SOCK_STREAM, 0), FULL) ? $n : 'refused';
}
function by_name($n) { return gethostbyname('held.example') === '192.0.2.1' ? $n : 'unknown'; }
function by_program($n)
{
    // The folder is deleted with the server.
    $wait = "echo >> started; while test -e started && ! test -e go; do sleep 0.1; done; echo $n";
    return exec('cd ' . escapeshellarg(__DIR__) . "; $wait");
}
Svc\Worker::serve(function () { set_time_limit(300); echo $_GET['do']($_GET['n']); });
"#;

/// Servers that hold their clients.
struct Holding {
    plain: Backend,
    tls: Backend,
    full: Unaccepting,
    dns: DnsServer,
    certificates: Certificates,
    _folder: tempfile::TempDir,
}

impl Holding {
    /// Starts the servers; `None` if names cannot be held.
    fn new() -> Option<Self> {
        let dns = DnsServer::start(&[("held.example", &[Record::A(Ipv4Addr::new(192, 0, 2, 1))])])?;
        dns.answer("held.example", Manner::Hold);
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::new(&[&["127.0.0.1"]]);
        // The handshake begins when the client's bytes are read.
        let late = |visit: &mut Visit| {
            visit.hold()?;
            let request = visit.request()?;
            visit.answer(path_of(&request))
        };
        Some(Self {
            plain: Backend::tcp(held_path),
            tls: Backend::tls(&certificates, late),
            full: Unaccepting::new(Listener::unix(folder.path().join("socket"))),
            dns,
            certificates,
            _folder: folder,
        })
    }

    /// Returns a server with one worker.
    fn svc(&self, settings: &[(&str, &str)]) -> Svc {
        let constants = [
            ("HTTP", self.plain.address().to_string()),
            ("TLS", self.tls.address().to_string()),
            ("CA", self.certificates.cert(0).display().to_string()),
            ("FULL", self.full.address().to_string()),
        ];
        let constants = constants.map(|(name, value)| format!("const {name} = '{value}';\n")).concat();
        let code = format!("<?php\n{OVER_HTTP}{constants}{CODE}");
        let own = [
            ("WORKER_MODE_ENABLED", "true"),
            ("ENTRY_FILE", "worker.php"),
            ("PHP_WORKERS", "1"),
            ("RUNTIME_HOOKS", "all"),
        ];
        self.dns.svc("timeout:60", &[("worker.php", &code)], &[&own, settings].concat())
    }

    /// Has requests wait in each way; returns their clients with the expected answers.
    fn park(&self, svc: &Svc) -> Vec<(Client, String)> {
        let mut clients = Vec::new();
        for way in WAYS {
            for n in 0..EACH {
                let (mut client, answer) = (svc.client(), format!("{way}{n}"));
                client.send(format!("GET /?do={way}&n={answer} HTTP/1.1\r\nHost: x\r\n\r\n"));
                clients.push((client, answer));
            }
        }
        self.plain.gate().wait_until_held(2 * EACH);
        self.tls.gate().wait_until_held(EACH);
        eventually("names are asked for", || {
            self.dns.asked("held.example", false) >= HELPER_THREADS_MAX.min(EACH)
        });
        for mark in ["started", "connects"] {
            eventually("all wait", || {
                std::fs::read_to_string(svc.root().join(mark)).is_ok_and(|text| text.lines().count() == EACH)
            });
        }
        svc.assert_metric(ACTIVE, clients.len() as f64);
        clients
    }

    fn let_go(&self, svc: &Svc) {
        self.plain.gate().open();
        self.tls.gate().open();
        self.dns.gate().open();
        std::fs::write(svc.root().join("go"), "").unwrap();
        self.full.accept(EACH);
    }
}

const ACTIVE: &str = r#"svc_worker_request_fibers_active{worker="0"}"#;

fn assert_serves(svc: &Svc) {
    assert_eq!(svc.get("/?do=strrev&n=abc").text(), "cba");
}

fn assert_answered(clients: Vec<(Client, String)>) {
    for (mut client, answer) in clients {
        assert_eq!(client.response().text(), answer);
    }
}

#[test]
fn one_thread_waits_in_all_of_its_fibers() {
    let Some(holding) = Holding::new() else { return };
    let svc = holding.svc(&[]);
    let clients = holding.park(&svc);
    assert_serves(&svc);
    let metrics = svc.ask("/metrics").text();
    assert!(!metrics.contains("svc_hook_blocked_total{"), "{metrics}");
    holding.let_go(&svc);
    assert_answered(clients);
    svc.assert_metric(ACTIVE, 0.0);
    assert_serves(&svc);
}

#[test]
fn a_worker_is_replaced_while_its_calls_wait() {
    let Some(holding) = Holding::new() else { return };
    let svc = holding.svc(&[]);
    let clients = holding.park(&svc);
    svc.signal(Signal::HUP);
    eventually("another one has its place", || svc.metric("svc_workers_lingering") == 1.0);
    assert_serves(&svc);
    holding.let_go(&svc);
    assert_answered(clients);
    eventually("the old one has ended", || svc.metric("svc_workers_lingering") == 0.0);
    assert_serves(&svc);
}

#[test]
fn clients_that_leave_do_not_end_the_calls_of_others() {
    let Some(holding) = Holding::new() else { return };
    let svc = holding.svc(&[]);
    let clients = holding.park(&svc);
    let (stay, leave): (Vec<_>, Vec<_>) = clients.into_iter().enumerate().partition(|(n, _)| n % EACH < 3);
    let left = leave.len() as f64;
    drop(leave);
    svc.assert_metric(r#"svc_request_cancelled_total{reason="client_abort"}"#, left);
    assert_serves(&svc);
    holding.let_go(&svc);
    assert_answered(stay.into_iter().map(|(_, client)| client).collect());
    svc.assert_metric(ACTIVE, 0.0);
    assert_serves(&svc);
}

#[test]
fn a_drain_waits_for_calls() {
    let Some(holding) = Holding::new() else { return };
    let mut svc = holding.svc(&[]);
    let clients = holding.park(&svc);
    svc.signal(Signal::TERM);
    eventually("it drains", || svc.ask("/readyz").status == 503);
    holding.let_go(&svc);
    assert_answered(clients);
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn the_deadline_of_a_drain_ends_calls() {
    let Some(holding) = Holding::new() else { return };
    let mut svc = holding.svc(&[("DRAIN_TIMEOUT_SECONDS", "1")]);
    let clients = holding.park(&svc);
    svc.signal(Signal::TERM);
    for (mut client, answer) in clients {
        let rest = String::from_utf8(client.rest()).unwrap();
        assert!(!rest.contains(&answer), "{rest}");
    }
    assert_eq!(svc.wait(), Some(0));
}
