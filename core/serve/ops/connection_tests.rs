//! One connection against every kind of client, with time moved by hand.

use super::*;
use crate::observe::exposition::Format;
use crate::observe::{Health, ProbeFacts, WorkerFacts};
use crate::policy::client::AllowList;
use crate::time;

struct Facts;

impl OpsSource for Facts {
    fn probe_facts(&self) -> ProbeFacts {
        ProbeFacts { serving: true, workers: WorkerFacts::NotNeeded, pool_stalled: false }
    }

    fn health(&self) -> Health {
        unreachable!("no test asks for it")
    }

    fn metrics(&self, _format: Format) -> Vec<u8> {
        vec![b'm'; 100_000]
    }

    fn config_report(&self) -> Option<String> {
        None
    }
}

/// A client that feeds a connection and collects what it says.
struct Client {
    connection: OpsConnection,
    responder: OpsResponder<Facts>,
    now: Instant,
    received: Vec<u8>,
}

impl Client {
    fn connect() -> Self {
        let now = time::now();
        let connection = OpsConnection::new("127.0.0.1".parse().unwrap(), now);
        Self {
            connection,
            responder: OpsResponder::new(Facts, AllowList::default()),
            now,
            received: Vec::new(),
        }
    }

    /// Sends in pieces of `piece` bytes, reading answers in between as the control thread does.
    fn send(&mut self, mut bytes: &[u8], piece: usize) {
        while !bytes.is_empty() && self.connection.stage() != Stage::Done {
            let count = piece.min(bytes.len()).min(self.connection.room());
            self.connection.take(&bytes[..count], self.now);
            bytes = &bytes[count..];
            self.settle();
        }
    }

    fn settle(&mut self) {
        while self.connection.advance(&self.responder, b"date") {
            let pending = self.connection.pending().to_vec();
            self.received.extend_from_slice(&pending);
            if self.connection.stage() == Stage::Answering {
                self.connection.sent(pending.len(), self.now);
            }
        }
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
        assert_eq!(client.connection.stage(), Stage::Reading);
    }
}

#[test]
fn the_second_of_two_requests_waits_until_the_first_answer_is_sent() {
    let mut client = Client::connect();
    client.connection.take(b"GET /metrics HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", client.now);
    assert!(client.connection.advance(&client.responder, b"date"));
    assert!(!client.connection.advance(&client.responder, b"date"));
    assert_eq!(client.connection.room(), 0, "a client that does not read is not read either");
    let held = client.connection.pending().len();
    client.connection.sent(held - 1, client.now);
    assert_eq!(client.connection.stage(), Stage::Answering);
    client.connection.sent(1, client.now);
    assert!(client.connection.advance(&client.responder, b"date"));
    assert!(client.connection.pending().ends_with(b"liveness"));
}

#[test]
fn http_1_0_is_answered_and_then_left() {
    let mut client = Client::connect();
    client.send(b"GET /healthz HTTP/1.0\r\n\r\n", 99);
    assert_eq!(client.statuses(), ["200"]);
    assert_eq!(client.connection.stage(), Stage::Leaving);
    client.connection.input_ended();
    assert_eq!(client.connection.stage(), Stage::Done);
}

#[test]
fn a_client_that_half_closes_is_answered_first() {
    let mut client = Client::connect();
    client.connection.take(b"GET /healthz HTTP/1.1\r\n\r\nGET /rea", client.now);
    client.connection.input_ended();
    client.settle();
    assert_eq!(client.statuses(), ["200"]);
    assert_eq!(client.connection.stage(), Stage::Done);
}

#[test]
fn what_cannot_be_read_is_refused_and_left() {
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
        assert_eq!(client.connection.stage(), Stage::Leaving);
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
    assert_eq!(deadline, client.connection.waiting_since() + OPS_EXCHANGE_TIMEOUT);
}

#[test]
fn a_slow_reader_does_not_move_its_deadline() {
    let mut client = Client::connect();
    client.connection.take(b"GET /metrics HTTP/1.1\r\n\r\n", client.now);
    client.connection.advance(&client.responder, b"date");
    let deadline = client.connection.deadline();
    client.connection.sent(10, client.now + Duration::from_secs(1));
    assert_eq!(client.connection.deadline(), deadline);
}

#[test]
fn a_kept_connection_may_idle_and_a_new_one_may_not() {
    let mut client = Client::connect();
    assert_eq!(client.connection.deadline(), client.now + OPS_EXCHANGE_TIMEOUT);
    client.now += Duration::from_secs(1);
    client.send(b"GET /healthz HTTP/1.1\r\n\r\n", 99);
    assert_eq!(client.connection.deadline(), client.now + OPS_IDLE_TIMEOUT);
    client.now += Duration::from_secs(1);
    client.send(b"G", 99);
    assert_eq!(client.connection.deadline(), client.now + OPS_EXCHANGE_TIMEOUT);
}

#[test]
fn a_refused_head_request_gets_no_body() {
    let mut client = Client::connect();
    client.send(b"HEAD / HTTP/9.9\r\n\r\n", 100);
    assert_eq!(client.statuses(), ["505"]);
    let text = String::from_utf8(client.received).unwrap();
    assert!(text.ends_with("\r\n\r\n") && text.contains("Content-Length: "), "{text}");
}
