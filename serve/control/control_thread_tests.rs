//! The control thread over real sockets on loopback.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use svc_core::config::{AccessLog, Config, Level, RawConfig};
use svc_core::observe::Log;
use svc_core::policy::Policy;

struct Running {
    control: Control,
    addr: SocketAddr,
    shared: Arc<Shared>,
    ticks: Receiver<()>,
}

fn shared(settings: &[(&str, &str)], log: impl Write + Send + 'static) -> Arc<Shared> {
    let settings = [("EXECUTOR", "stub"), ("DOCUMENT_ROOT", "/")].iter().chain(settings).copied();
    let config = Config::resolve(&RawConfig::new(settings)).unwrap();
    Shared::new(
        Arc::new(config),
        Policy::default(),
        None,
        Log::start(Level::Info, AccessLog::Off, log).unwrap(),
        None,
    )
}

/// A job that reports its runs.
struct Ticks(Sender<()>);

impl PeriodicJob for Ticks {
    fn run(&mut self, _now: Instant) {
        self.0.send(()).ok();
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

fn start() -> Running {
    let shared = shared(&[], io::sink());
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = listener.local_addr().unwrap();
    let (tick, ticks) = channel();
    let jobs: Vec<Box<dyn PeriodicJob>> = vec![Box::new(Ticks(tick))];
    let control = Control::start(Some(listener), &shared, time::now, jobs).unwrap();
    Running { control, addr, shared, ticks }
}

fn connect(addr: SocketAddr) -> std::net::TcpStream {
    std::net::TcpStream::connect(addr).unwrap()
}

/// Sends `request` and reads until the server closes.
fn exchange(mut socket: &std::net::TcpStream, request: &str) -> String {
    socket.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    response
}

/// Sends `request` on a connection that stays open, and reads up to `end`.
fn ask(mut socket: &std::net::TcpStream, request: &str, end: &str) {
    socket.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    while !response.ends_with(end.as_bytes()) {
        let mut byte = [0];
        assert_eq!(socket.read(&mut byte).unwrap(), 1, "closed early");
        response.push(byte[0]);
    }
}

const PROBE: &str = "GET /healthz HTTP/1.0\r\n\r\n";
const KEPT_PROBE: &str = "GET /healthz HTTP/1.1\r\n\r\n";

#[test]
fn probes_are_answered_before_the_server_serves() {
    let running = start();
    let live = exchange(&connect(running.addr), PROBE);
    assert!(live.starts_with("HTTP/1.1 200 ") && live.ends_with("\r\n\r\nliveness"), "{live}");
    let ready = exchange(&connect(running.addr), "GET /readyz HTTP/1.0\r\n\r\n");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    running.shared.lifecycle.enter(crate::lifecycle::Phase::Running);
    let ready = exchange(&connect(running.addr), "GET /readyz HTTP/1.0\r\n\r\n");
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    running.control.stop();
}

#[test]
fn metrics_come_from_the_server() {
    let running = start();
    running.shared.metrics.requests_by_method.incr(svc_core::http::MethodKind::Get);
    let response = exchange(&connect(running.addr), "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(response.contains("\nsvc_requests_total 1\n"), "{response}");
    assert!(!response.contains("svc_queue_depth"), "the stub has no queue");
    running.control.stop();
}

#[test]
fn a_client_with_every_connection_excludes_no_other() {
    let running = start();
    let holders: Vec<_> = (0..2 * OPS_CONNECTIONS_MAX).map(|_| connect(running.addr)).collect();
    for mut holder in &holders {
        // Connections that were already closed may refuse the byte.
        let _ = holder.write_all(b"G");
    }
    let response = exchange(&connect(running.addr), PROBE);
    assert!(response.ends_with("liveness"), "{response}");
    let mut given_up = &holders[0];
    let mut rest = Vec::new();
    assert!(matches!(given_up.read_to_end(&mut rest), Ok(0) | Err(_)), "the first was given up");
    running.control.stop();
}

#[test]
fn connections_are_kept_between_requests() {
    let running = start();
    let socket = connect(running.addr);
    for _ in 0..100 {
        ask(&socket, KEPT_PROBE, "liveness");
    }
    running.control.stop();
}

#[test]
fn more_requests_than_one_turn_takes_are_all_answered() {
    let running = start();
    let requests = KEPT_PROBE.repeat(500) + PROBE;
    let socket = connect(running.addr);
    let responses = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut responses, mut reader) = (String::new(), &socket);
            reader.read_to_string(&mut responses).unwrap();
            responses
        });
        (&socket).write_all(requests.as_bytes()).unwrap();
        reading.join().unwrap()
    });
    assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 501);
    running.control.stop();
}

#[test]
fn it_ticks_at_the_start_and_when_woken() {
    let running = start();
    running.ticks.recv().unwrap();
    running.control.wake();
    running.ticks.recv().unwrap();
    running.control.stop();
    while running.ticks.recv().is_ok() {}
}

#[test]
fn stopping_closes_the_port() {
    let running = start();
    let kept = connect(running.addr);
    ask(&kept, KEPT_PROBE, "liveness");
    running.control.stop();
    assert!(std::net::TcpStream::connect(running.addr).is_err());
}

#[test]
fn a_port_without_an_allow_list_causes_a_warning() {
    for (addr, settings, warns) in [
        ("0.0.0.0:9090", &[][..], true),
        ("[::]:9090", &[], true),
        ("0.0.0.0:9090", &[("INTERNAL_ALLOW_IPS", "10.0.0.0/8")], false),
        ("127.0.0.1:9090", &[], false),
    ] {
        let (mut reader, writer) = io::pipe().unwrap();
        let shared = shared(settings, writer);
        announce(addr.parse().unwrap(), &shared);
        assert!(shared.log.shutdown());
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(
            text.matches(r#""level":"WARN""#).count(),
            usize::from(warns),
            "{addr} {settings:?}: {text}"
        );
        assert!(text.contains("operations port is listening") && text.contains(addr));
    }
}
