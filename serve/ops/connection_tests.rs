//! Tests one connection against all kinds of clients, with a clock that the test controls.

use std::time::Duration;

use super::*;
use svc_core::limits::OPS_HEAD_BYTES_MAX;
use svc_core::observe::exposition::Format;
use svc_core::observe::{Health, ProbeFacts, WorkerHealth};
use svc_core::plugins::fixture::PluginScript;
use svc_core::plugins::{PluginAsked, PluginCall, PluginSet};
use svc_core::policy::client::AllowList;
use svc_core::time;

struct Facts(Arc<PluginSet>);

impl OpsSource for Facts {
    fn probe_facts(&self) -> ProbeFacts {
        ProbeFacts {
            serving: true,
            workers: WorkerHealth::NotNeeded,
            pool_stalled: false,
            plugin_failed: false,
        }
    }

    fn health(&self) -> Health {
        unreachable!("no test asks for it")
    }

    fn metrics(&self, _format: Format) -> Vec<u8> {
        vec![b'm'; 100_000]
    }

    fn status(&self, _now: Instant) -> Arc<str> {
        r#"{"phase":"running"}"#.repeat(100).into()
    }

    fn config_report(&self) -> Option<String> {
        None
    }

    fn has_pages(&self, plugin: &[u8]) -> bool {
        self.0.has_pages(plugin)
    }

    fn ask_plugin(&self, name: &[u8], path: &[u8], query: &[u8], now: Instant) -> PluginAsked {
        self.0.ask(name, path, query, now)
    }
}

/// A client that feeds a connection and collects its output.
struct Client {
    connection: OpsConnection,
    responder: OpsResponder<Facts>,
    now: Instant,
    /// The bytes that the client has sent and the connection has not read.
    sent: Vec<u8>,
    has_half_closed: bool,
    /// The number of pending bytes that a write accepts.
    room: usize,
    received: Vec<u8>,
    /// The end of the last turn.
    stands: OpsStep,
    was_shut: bool,
}

impl Client {
    fn connect() -> Self {
        Self::connect_to(&Arc::default())
    }

    fn connect_to(plugins: &Arc<PluginSet>) -> Self {
        let now = time::now();
        Self {
            connection: OpsConnection::new(&Arc::new(terms()), "127.0.0.1".parse().unwrap(), now),
            responder: OpsResponder::new(Facts(Arc::clone(plugins)), AllowList::default(), true),
            now,
            sent: Vec::new(),
            has_half_closed: false,
            room: usize::MAX,
            received: Vec::new(),
            stands: OpsStep::Wait,
            was_shut: false,
        }
    }

    /// Sends in pieces of `piece` bytes.
    fn send(&mut self, bytes: &[u8], piece: usize) {
        for piece in bytes.chunks(piece) {
            self.sent.extend_from_slice(piece);
            self.take_turn();
        }
    }

    fn half_close(&mut self) {
        self.has_half_closed = true;
        self.take_turn();
    }

    /// Acts like the control thread.
    fn take_turn(&mut self) {
        self.connection.handle(TURN, self.now);
        while self.stands != OpsStep::Close {
            let peer = Peer {
                is_readable: !self.sent.is_empty() || self.has_half_closed,
                is_closed: self.has_half_closed,
                is_broken: false,
                has_pending_tls_output: false,
            };
            let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
            self.stands = self.connection.poll(&self.responder, date, peer, self.now);
            match self.stands {
                OpsStep::Close | OpsStep::Wait => return,
                OpsStep::Read if !self.sent.is_empty() => {
                    self.connection.handle(Input::Bytes(&std::mem::take(&mut self.sent)), self.now);
                }
                OpsStep::Read if self.has_half_closed => self.connection.handle(Input::End, self.now),
                OpsStep::Read => self.connection.handle(Input::WouldBlock, self.now),
                OpsStep::ShutDown => self.was_shut = true,
                OpsStep::Transmit => self.read_answer(),
                OpsStep::Yield => self.connection.handle(TURN, self.now),
            }
        }
    }

    fn read_answer(&mut self) {
        let (room, received) = (&mut self.room, &mut self.received);
        let result = self.connection.transmit(self.now, |output| {
            let bytes = output.take(*room);
            *room -= bytes.len();
            received.extend_from_slice(&bytes);
            Ok::<_, ()>(Sent { is_all: output.is_empty(), bytes: bytes.len(), held_back: 0 })
        });
        assert_eq!(result, Ok(()));
    }

    fn statuses(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.received);
        text.match_indices("HTTP/1.1 ").map(|(at, _)| text[at + 9..at + 12].to_owned()).collect()
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_however_they_are_cut() {
    let requests = b"GET /healthz HTTP/1.1\r\n\r\nHEAD /readyz HTTP/1.1\r\n\r\n\r\nGET /x HTTP/1.1\r\n\r\n";
    for piece in 1..=requests.len() {
        let mut client = Client::connect();
        client.send(requests, piece);
        assert_eq!(client.statuses(), ["200", "200", "404"], "pieces of {piece}");
        assert_eq!(client.stands, OpsStep::Wait, "the connection is kept");
    }
}

#[test]
fn the_second_of_two_requests_waits_until_the_first_answer_is_sent() {
    let mut client = Client::connect();
    client.room = 1000;
    client.send(b"GET /metrics HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", 999);
    assert_eq!(client.statuses(), ["200"]);
    client.send(b"GET /healthz HTTP/1.1\r\n\r\n", 999);
    assert!(!client.sent.is_empty(), "a client that does not read is not read either");
    client.room = usize::MAX;
    client.take_turn();
    assert_eq!(client.statuses().len(), 3);
    assert!(client.received.ends_with(b"liveness"));
}

#[test]
fn http_1_0_is_answered_and_then_left() {
    let mut client = Client::connect();
    client.send(b"GET /healthz HTTP/1.0\r\n\r\n", 99);
    assert_eq!(client.statuses(), ["200"]);
    assert_eq!(client.stands, OpsStep::Close, "it has nothing more to say");
    let mut client = Client::connect();
    client.send(b"GET /healthz HTTP/1.0\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n", 99);
    assert_eq!(client.statuses(), ["200"]);
    assert!(client.was_shut && client.stands == OpsStep::Wait, "it may read before the end");
    client.half_close();
    assert_eq!(client.stands, OpsStep::Close);
}

#[test]
fn a_client_that_half_closes_is_answered_first() {
    let mut client = Client::connect();
    client.sent.extend_from_slice(b"GET /healthz HTTP/1.1\r\n\r\nGET /rea");
    client.half_close();
    assert_eq!(client.statuses(), ["200"]);
    assert_eq!(client.stands, OpsStep::Close);
}

#[test]
fn unreadable_requests_are_refused_and_closed() {
    let long_field = format!("GET /healthz HTTP/1.1\r\nX: {}", "x".repeat(OPS_HEAD_BYTES_MAX));
    let long_target = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(OPS_HEAD_BYTES_MAX / 2));
    let many_fields = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(100));
    for (request, status) in [
        ("garbage\r\n\r\n", "400"),
        ("\u{16}\u{3}\u{1}", "400"),
        ("GET /healthz HTTP/1.1\nHost: x\n\n", "400"),
        ("GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "400"),
        ("GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
        ("GET /healthz HTTP/2.0\r\n\r\n", "505"),
        (&long_field, "431"),
        (&many_fields, "431"),
        (&long_target, "414"),
    ] {
        let mut client = Client::connect();
        client.send(request.as_bytes(), 1000);
        assert_eq!(client.statuses(), [status], "{request:.60}");
        assert!(client.was_shut && client.stands == OpsStep::Wait);
        client.send(b"GET /healthz HTTP/1.1\r\n\r\n", 99);
        assert_eq!(client.statuses().len(), 1, "nothing is answered after a refusal");
    }
}

#[test]
fn a_body_is_never_read_as_a_request() {
    let mut client = Client::connect();
    client.send(b"GET /healthz HTTP/1.1\r\nContent-Length: 25\r\n\r\nGET /config HTTP/1.1\r\n\r\n", 999);
    assert_eq!(client.statuses(), ["413"]);
}

#[test]
fn a_slow_request_does_not_move_its_deadline() {
    let mut client = Client::connect();
    client.send(b"G", 1);
    let deadline = client.connection.deadline();
    for byte in b"ET /healthz HTTP/1.1\r\n" {
        client.now += Duration::from_millis(100);
        client.send(&[*byte], 1);
        assert_eq!(client.connection.deadline(), deadline);
    }
    assert_eq!(deadline, client.connection.waiting_since().map(|since| since + OPS_EXCHANGE_TIMEOUT));
}

#[test]
fn a_slow_reader_does_not_move_its_deadline() {
    let mut client = Client::connect();
    let started = client.now;
    client.room = 10;
    client.send(b"GET /metrics HTTP/1.1\r\n\r\n", 99);
    client.now += Duration::from_secs(1);
    client.room = 10;
    client.take_turn();
    assert_eq!(client.received.len(), 20);
    assert_eq!(client.connection.deadline(), Some(started + OPS_EXCHANGE_TIMEOUT));
}

#[test]
fn a_kept_connection_may_idle_and_a_new_one_may_not() {
    let mut client = Client::connect();
    assert_eq!(client.connection.deadline(), Some(client.now + OPS_EXCHANGE_TIMEOUT));
    client.now += Duration::from_secs(1);
    client.send(b"GET /healthz HTTP/1.1\r\n\r\n", 99);
    assert_eq!(client.connection.deadline(), Some(client.now + OPS_IDLE_TIMEOUT));
    client.now += Duration::from_secs(1);
    client.send(b"G", 99);
    assert_eq!(client.connection.deadline(), Some(client.now + OPS_EXCHANGE_TIMEOUT));
}

#[test]
fn a_refused_head_request_gets_no_body() {
    let mut client = Client::connect();
    client.send(b"HEAD / HTTP/9.9\r\n\r\n", 100);
    assert_eq!(client.statuses(), ["505"]);
    let text = String::from_utf8(client.received).unwrap();
    assert!(text.ends_with("\r\n\r\n") && text.contains("Content-Length: "), "{text}");
}

/// Gives the client turns until it has `count` answers.
fn until_answered(client: &mut Client, count: usize) {
    while client.statuses().len() < count {
        std::thread::yield_now();
        client.take_turn();
    }
}

#[test]
fn a_request_waits_for_its_plugin_and_the_next_one_for_both() {
    let script = PluginScript::new();
    script.hold(PluginCall::Serve);
    let mut client = Client::connect_to(&script.started("disk"));
    client.send(b"GET /plugins/disk/a HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", 999);
    script.wait_for(PluginCall::Serve, 1);
    client.take_turn();
    assert_eq!((client.statuses().len(), client.stands), (0, OpsStep::Wait));
    assert!(client.connection.deadline().unwrap() > client.now + OPS_EXCHANGE_TIMEOUT);
    script.release();
    until_answered(&mut client, 2);
    assert!(client.received.ends_with(b"liveness"));
}

#[test]
fn the_time_of_a_plugin_is_not_the_time_of_its_client() {
    let script = PluginScript::new();
    script.hold(PluginCall::Serve);
    let mut client = Client::connect_to(&script.started("disk"));
    client.send(b"GET /plugins/disk/a HTTP/1.1\r\n\r\n", 999);
    script.wait_for(PluginCall::Serve, 1);
    // The client reads nothing, so the answer stays on the connection.
    (client.now, client.room) = (client.now + Duration::from_secs(4), 0);
    script.release();
    while client.connection.is_asking() {
        std::thread::yield_now();
        client.take_turn();
    }
    let deadline = client.connection.deadline().unwrap();
    assert_eq!(deadline, client.now + OPS_EXCHANGE_TIMEOUT, "from the answer on");
    client.room = usize::MAX;
    client.take_turn();
    assert_eq!((client.statuses().len(), client.stands), (1, OpsStep::Wait));
    client.now += Duration::from_secs(1);
    client.send(b"G", 1);
    assert_eq!(client.connection.deadline(), Some(client.now + OPS_EXCHANGE_TIMEOUT), "for this one only");
}

#[test]
fn a_plugin_that_hangs_is_a_503_and_its_late_answer_is_dropped() {
    let script = PluginScript::new();
    script.hold(PluginCall::Serve);
    let plugins = script.started("disk");
    let mut client = Client::connect_to(&plugins);
    client.send(b"GET /plugins/disk/a HTTP/1.1\r\n\r\n", 999);
    script.wait_for(PluginCall::Serve, 1);
    client.now += Duration::from_secs(6);
    client.take_turn();
    assert_eq!(client.statuses(), ["503"]);
    client.send(b"GET /plugins/disk/b HTTP/1.1\r\n\r\n", 999);
    assert_eq!(client.statuses(), ["503", "503"], "at once");
    script.release();
    plugins.end(Duration::MAX);
    client.send(b"GET /healthz HTTP/1.1\r\n\r\n", 999);
    assert!(client.received.ends_with(b"liveness") && client.statuses().len() == 3);
}

#[test]
fn a_departed_client_cancels_the_page() {
    let script = PluginScript::new();
    script.hold(PluginCall::Health);
    let plugins = script.started("disk");
    let mut client = Client::connect_to(&plugins);
    script.wait_for(PluginCall::Health, 1);
    client.send(b"GET /plugins/disk/a HTTP/1.1\r\n\r\n", 999);
    assert!(client.connection.is_asking());
    drop(client);
    script.release();
    plugins.end(Duration::MAX);
    assert_eq!(script.count(PluginCall::Serve), 0, "its client had left");
}
