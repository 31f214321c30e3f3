//! Tests the retry rules with a collector that follows a script.
//!
//! The collector controls the clock, and its next action wakes the client, so the speed of the machine does not matter.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType, getsockname};

use super::*;
use svc_core::config::{ExportEndpoint, ExportProtocol, ExportSignal};
use svc_core::otlp::span_format;
use svc_core::sync::lock::ShortLock;
use svc_core::time;
use svc_core::trace::{EncodedSpan, Span, SpanContext, SpanId, SpanKind, TraceId, UnixNanos};

/// The collector's behaviour on a connection.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Answers with these bytes after the request has arrived, and then waits for the next request.
    Answer(&'static [u8]),
    /// Closes the connection after the request has arrived.
    Close,
    /// Sends nothing until the time is over.
    Hang,
    /// Resets the connection before reading.
    ResetBefore,
    /// Resets the connection in the middle of the request.
    ResetDuring,
    /// Resets the connection after the request has arrived.
    ResetAfter,
    /// Waits for this long after the connection was accepted, and then acts.
    After(Duration, &'static Act),
}

const OK: Act = Act::Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
const MILLISECOND: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The clock of a test.
#[derive(Clone)]
struct Time {
    began: Instant,
    passed: Arc<ShortLock<Duration>>,
}

impl Time {
    fn new() -> Self {
        Self { began: time::now(), passed: Arc::default() }
    }

    fn now(&self) -> Instant {
        self.began + *self.passed.lock()
    }

    fn pass(&self, duration: Duration) {
        *self.passed.lock() += duration;
    }
}

/// A collector with one act for each expected connection.
struct Collector {
    addr: SocketAddr,
    /// Ends after all connections; returns the bytes received on each.
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Collector {
    fn start(acts: &[Act], protocol: ExportProtocol, time: &Time) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (acts, time) = (acts.to_vec(), time.clone());
        let play = move || {
            let connections = acts.iter().map(|act| act.play(listener.accept().unwrap().0, protocol, &time));
            connections.collect()
        };
        Self { addr, thread: thread::spawn(play) }
    }
}

impl Act {
    fn play(&self, mut socket: TcpStream, protocol: ExportProtocol, time: &Time) -> Vec<u8> {
        let mut received = Vec::new();
        if protocol == ExportProtocol::Grpc {
            // The server's SETTINGS, which the client waits for.
            socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        }
        let mut act = *self;
        while let Act::After(duration, then) = act {
            time.pass(duration);
            act = *then;
        }
        match act {
            Act::ResetBefore => reset(&socket),
            Act::ResetDuring => {
                received.resize(10, 0);
                socket.read_exact(&mut received).unwrap();
                reset(&socket);
            }
            Act::ResetAfter => {
                read_request(&mut socket, &mut received, protocol);
                reset(&socket);
            }
            Act::Close => {
                read_request(&mut socket, &mut received, protocol);
            }
            Act::Hang => {
                read_request(&mut socket, &mut received, protocol);
                time.pass(2 * TIMEOUT);
                // The beginning of an answer wakes the client, which may close the connection without reading it.
                let _ = socket.write_all(b"HTTP");
                let _ = socket.read_to_end(&mut Vec::new());
            }
            Act::Answer(answer) => {
                while read_request(&mut socket, &mut received, protocol) {
                    socket.write_all(answer).unwrap();
                }
            }
            Act::After(..) => unreachable!("it was unwrapped"),
        }
        received
    }
}

/// Makes closing the connection reset it.
fn reset(socket: &TcpStream) {
    set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
}

/// Reads until a request is complete; returns false at the end of the connection.
fn read_request(socket: &mut TcpStream, received: &mut Vec<u8>, protocol: ExportProtocol) -> bool {
    let mut request = Vec::new();
    let mut byte = [0; 1];
    while !is_complete(&request, protocol) {
        match socket.read(&mut byte) {
            Ok(1) => request.push(byte[0]),
            _ => return false,
        }
    }
    received.extend_from_slice(&request);
    true
}

fn is_complete(request: &[u8], protocol: ExportProtocol) -> bool {
    if protocol == ExportProtocol::Grpc {
        return has_end_of_stream(request);
    }
    let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    request.len() == end + 4 + length
}

/// Returns whether a DATA frame with the flag END_STREAM has arrived after the preface.
fn has_end_of_stream(mut bytes: &[u8]) -> bool {
    bytes = bytes.get(24..).unwrap_or_default();
    while let [high, mid, low, kind, flags, _, _, _, _, rest @ ..] = bytes {
        let length = usize::from(*high) << 16 | usize::from(*mid) << 8 | usize::from(*low);
        if rest.len() < length {
            return false;
        }
        if *kind == 0 && flags & 1 == 1 {
            return true;
        }
        bytes = &rest[length..];
    }
    false
}

fn config(protocol: ExportProtocol, addr: SocketAddr) -> ExportConfig {
    let endpoint = ExportEndpoint {
        is_tls: false,
        host: addr.ip().to_string(),
        port: addr.port(),
        target: "/v1/traces".to_owned(),
    };
    ExportConfig {
        signal: ExportSignal::Traces,
        protocol,
        endpoint,
        headers: Vec::new(),
        timeout: Some(TIMEOUT),
        has_gzip: false,
        trusted: None,
        identity: None,
    }
}

fn client(config: &ExportConfig, tls: Option<Arc<ClientConfig>>, time: &Time) -> OtlpClient {
    let clock = time.clone();
    client_by(RetryRules::Once, config, tls, move || clock.now())
}

fn client_by(
    rules: RetryRules,
    config: &ExportConfig,
    tls: Option<Arc<ClientConfig>>,
    clock: impl Fn() -> Instant + Send + 'static,
) -> OtlpClient {
    let terms = (Some(3 * TIMEOUT), rules);
    OtlpClient::new(config, terms, tls, Poll::new().unwrap(), Resource::default(), clock)
}

fn spans(protocol: ExportProtocol) -> Vec<EncodedSpan> {
    let context = SpanContext::new(TraceId::new(1).unwrap(), SpanId::new(2).unwrap(), SpanContext::SAMPLED);
    let span = Span::new(context, "GET", SpanKind::Server, UnixNanos::default());
    vec![EncodedSpan::of(&span, span_format(protocol))]
}

fn deliver(client: &mut OtlpClient) -> Delivery {
    client.deliver(&spans(client.config.protocol), &|| None)
}

/// Exports one batch to a collector with these acts.
fn export(acts: &[Act], protocol: ExportProtocol) -> Delivery {
    let time = Time::new();
    let collector = Collector::start(acts, protocol, &time);
    let mut client = client(&config(protocol, collector.addr), None, &time);
    let delivery = deliver(&mut client);
    drop(client);
    let received = collector.thread.join().unwrap();
    assert_eq!(received.len(), acts.len(), "each act was played");
    delivery
}

fn is_like(delivery: &Delivery, is_delivered: bool, is_retried: bool) -> bool {
    (delivery.result.is_ok(), delivery.is_retried) == (is_delivered, is_retried)
}

#[test]
fn http_exports_are_tried_again_exactly_by_the_rules() {
    const TOO_MANY: Act =
        Act::Answer(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
    const BAD: Act = Act::Answer(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    const UNAVAILABLE: Act =
        Act::Answer(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n");
    const EARLY: Duration = Duration::from_millis(900);
    const LATE: Duration = Duration::from_millis(1100);
    let table: &[(&[Act], bool, bool)] = &[
        (&[OK], true, false),
        (&[Act::ResetBefore, OK], true, true),
        (&[Act::ResetDuring, OK], true, true),
        (&[Act::ResetAfter, OK], true, true),
        (&[Act::Close, OK], true, true),
        (&[Act::Close, Act::Close], false, true),
        (&[Act::Close, UNAVAILABLE], false, true),
        (&[Act::Close, Act::Hang], false, true),
        (&[BAD], false, false),
        (&[TOO_MANY], false, false),
        (&[UNAVAILABLE], false, false),
        (&[Act::After(LATE, &OK)], true, false),
        (&[Act::After(LATE, &UNAVAILABLE)], false, false),
        (&[Act::Hang], false, false),
        (&[Act::After(EARLY, &Act::ResetAfter), OK], true, true),
        (&[Act::After(LATE, &Act::ResetAfter)], false, false),
        (&[Act::After(EARLY, &Act::Close), OK], true, true),
        (&[Act::After(LATE, &Act::Close)], false, false),
        (&[Act::After(EARLY, &Act::ResetBefore), Act::After(LATE, &OK)], true, true),
    ];
    for (acts, is_delivered, is_retried) in table {
        let delivery = export(acts, ExportProtocol::HttpProtobuf);
        assert!(is_like(&delivery, *is_delivered, *is_retried), "{acts:?}: {delivery:?}");
    }
}

#[test]
fn grpc_exports_are_tried_again_exactly_by_the_rules() {
    /// Headers with `:status: 200` and `grpc-status`, and the end of the stream.
    const ACCEPTED: Act = Act::Answer(b"\0\0\x10\x01\x05\0\0\0\x01\x88\x00\x0bgrpc-status\x010");
    const UNAVAILABLE: Act = Act::Answer(b"\0\0\x11\x01\x05\0\0\0\x01\x88\x00\x0bgrpc-status\x0214");
    /// The collector resets the stream with the code REFUSED_STREAM.
    const REFUSED_STREAM: Act = Act::Answer(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07");
    /// The collector sends GOAWAY: no stream was processed.
    const GOAWAY: Act = Act::Answer(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0");
    /// The collector sends response headers, and the stream ends without a status.
    const NO_STATUS: Act = Act::Answer(b"\0\0\x01\x01\x05\0\0\0\x01\x88");
    let table: &[(&[Act], bool, bool)] = &[
        (&[ACCEPTED], true, false),
        (&[UNAVAILABLE], false, false),
        (&[REFUSED_STREAM, ACCEPTED], true, true),
        (&[GOAWAY, ACCEPTED], true, true),
        (&[NO_STATUS, ACCEPTED], true, true),
        (&[Act::Close, ACCEPTED], true, true),
        (&[Act::Close, UNAVAILABLE], false, true),
        (&[Act::ResetBefore, ACCEPTED], true, true),
        (&[Act::ResetAfter, ACCEPTED], true, true),
        (&[Act::After(Duration::from_millis(1100), &Act::Close)], false, false),
        (&[Act::After(Duration::from_millis(1100), &ACCEPTED)], true, false),
    ];
    for (acts, is_delivered, is_retried) in table {
        let delivery = export(acts, ExportProtocol::Grpc);
        assert!(is_like(&delivery, *is_delivered, *is_retried), "{acts:?}: {delivery:?}");
    }
}

#[test]
fn a_refused_connection_is_tried_again_once() {
    // The port is bound, but not listened on.
    let held = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = SocketAddr::try_from(getsockname(&held).unwrap()).unwrap();
    let delivery = deliver(&mut client(&config(ExportProtocol::HttpJson, addr), None, &Time::new()));
    assert!(is_like(&delivery, false, true), "{delivery:?}");
    assert!(delivery.result.unwrap_err().contains("refused"));
    let mut nameless = config(ExportProtocol::HttpJson, addr);
    nameless.endpoint.host = "collector.invalid".to_owned();
    let delivery = deliver(&mut client(&nameless, None, &Time::new()));
    assert!(delivery.result.unwrap_err().contains("cannot resolve \"collector.invalid\""));
}

#[test]
fn messages_of_the_collector_are_logged() {
    let partial = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\x0a\x07\x08\x01\x12\x03old";
    let said = export(&[Act::Answer(partial)], ExportProtocol::HttpProtobuf).result.unwrap();
    assert_eq!(said, PartialSuccess { rejected: 1, message: "old".to_owned() });
    let refusal = b"HTTP/1.1 401 No\r\nContent-Length: 7\r\n\r\nbad key";
    let said = export(&[Act::Answer(refusal)], ExportProtocol::HttpProtobuf).result.unwrap_err();
    assert_eq!(said, "the collector answered HTTP 401: bad key");
}

#[test]
fn a_connection_is_kept_while_it_is_fresh() {
    let time = Time::new();
    let collector = Collector::start(&[OK, OK], ExportProtocol::HttpProtobuf, &time);
    let mut client = client(&config(ExportProtocol::HttpProtobuf, collector.addr), None, &time);
    for pause in [Duration::ZERO, EXPORT_IDLE_MAX, EXPORT_IDLE_MAX + MILLISECOND] {
        time.pass(pause);
        assert!(is_like(&deliver(&mut client), true, false));
    }
    drop(client);
    let received = collector.thread.join().unwrap();
    let requests = received.iter().map(|bytes| bytes.windows(5).filter(|bytes| bytes == b"POST ").count());
    assert_eq!(requests.collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn a_closed_idle_connection_does_not_count_as_an_attempt() {
    const ONCE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let time = Time::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let collector = thread::spawn(move || {
        for _ in 0..2 {
            let mut socket = listener.accept().unwrap().0;
            assert!(read_request(&mut socket, &mut Vec::new(), ExportProtocol::HttpProtobuf));
            socket.write_all(ONCE).unwrap();
        }
    });
    let mut client = client(&config(ExportProtocol::HttpProtobuf, addr), None, &time);
    assert!(is_like(&deliver(&mut client), true, false));
    // The collector closes the connection, which ends the sleep.
    while client.idle.is_some() {
        client.sleep(None);
    }
    assert!(is_like(&deliver(&mut client), true, false));
    collector.join().unwrap();
}

#[test]
fn the_stop_sets_the_deadline() {
    let time = Time::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client =
        client(&config(ExportProtocol::HttpProtobuf, listener.local_addr().unwrap()), None, &time);
    let now = time.now();
    let delivery = client.deliver(&spans(ExportProtocol::HttpProtobuf), &|| Some(now));
    assert_eq!(
        delivery,
        Delivery { result: Err("timed out".to_owned()), is_retried: false, not_before: None }
    );
}

/// Exports one batch by OTLP's rules, on the real clock.
fn export_with_pauses(acts: &[Act]) -> Delivery {
    let collector = Collector::start(acts, ExportProtocol::HttpProtobuf, &Time::new());
    let config = config(ExportProtocol::HttpProtobuf, collector.addr);
    let mut client = client_by(RetryRules::Backoff { seed: 1 }, &config, None, time::now);
    let delivery = deliver(&mut client);
    drop(client);
    collector.thread.join().unwrap();
    delivery
}

#[test]
fn by_the_rules_of_otlp_an_export_is_repeated_unless_it_is_pointless() {
    const MUCH_LATER: Act = Act::Answer(b"HTTP/1.1 429 X\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n");
    const NEVER: Act = Act::Answer(b"HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n");
    let delivery = export_with_pauses(&[Act::ResetAfter, OK]);
    assert!(is_like(&delivery, true, true), "{delivery:?}");
    let delivery = export_with_pauses(&[NEVER]);
    assert!(is_like(&delivery, false, false) && delivery.not_before.is_none(), "{delivery:?}");
    let delivery = export_with_pauses(&[MUCH_LATER]);
    assert!(is_like(&delivery, false, false) && delivery.not_before.is_some(), "{delivery:?}");
}

#[test]
fn the_end_cuts_a_pause_and_makes_one_more_attempt() {
    const LATER: Act =
        Act::Answer(b"HTTP/1.1 503 X\r\nRetry-After: 20\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let time = Time::new();
    let collector = Collector::start(&[LATER, OK], ExportProtocol::HttpProtobuf, &time);
    let config = config(ExportProtocol::HttpProtobuf, collector.addr);
    let clock = time.clone();
    let mut client = client_by(RetryRules::Backoff { seed: 1 }, &config, None, move || clock.now());
    let ends = time.now() + TIMEOUT;
    // The end begins during the first attempt or the pause after it.
    let asked = std::cell::Cell::new(0);
    let waker = OtlpClient::waker(&client.poll).unwrap();
    let stop = || {
        asked.set(asked.get() + 1);
        let _ = waker.wake();
        (asked.get() > 20).then_some(ends)
    };
    let delivery = client.deliver(&spans(ExportProtocol::HttpProtobuf), &stop);
    assert!(is_like(&delivery, true, true), "{delivery:?}");
    assert!(time.now() < ends);
    drop(client);
    collector.thread.join().unwrap();
}

#[test]
fn after_the_end_has_begun_there_is_one_attempt() {
    let time = Time::new();
    let collector = Collector::start(&[Act::Close], ExportProtocol::HttpProtobuf, &time);
    let config = config(ExportProtocol::HttpProtobuf, collector.addr);
    let clock = time.clone();
    let mut client = client_by(RetryRules::Backoff { seed: 1 }, &config, None, move || clock.now());
    let ends = time.now() + TIMEOUT;
    let delivery = client.deliver(&spans(ExportProtocol::HttpProtobuf), &|| Some(ends));
    assert!(is_like(&delivery, false, false), "{delivery:?}");
    collector.thread.join().unwrap();
}
