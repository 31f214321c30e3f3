use bytes::BytesMut;
use h2::server::{self, SendResponse};
use http::Response;

use super::super::wire::Writer;
use super::*;
use crate::config::ExportEndpoint;

type Listening = server::Connection<PipeEnd, Bytes>;

/// A collector, polled by hand like the client.
struct Collector {
    pipe: Pipe,
    out: Vec<u8>,
    handshake: Option<server::Handshake<PipeEnd, Bytes>>,
    library: Option<Listening>,
    calls: Vec<(Request<RecvStream>, SendResponse<Bytes>)>,
}

impl Collector {
    fn new() -> Self {
        let pipe = Pipe::default();
        let handshake = server::Builder::new().handshake(pipe.end_of_library());
        Self { pipe, out: Vec::new(), handshake: Some(handshake), library: None, calls: Vec::new() }
    }

    fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if let Some(handshake) = &mut self.handshake
            && let Poll::Ready(library) = Pin::new(handshake).poll(&mut context)
        {
            self.handshake = None;
            self.library = Some(library.unwrap());
        }
        if let Some(library) = &mut self.library {
            while let Poll::Ready(Some(Ok(call))) = library.poll_accept(&mut context) {
                self.calls.push(call);
            }
        }
        self.pipe.drain_into(&mut self.out);
    }

    /// Carries bytes in both directions until neither side has any.
    fn meet(&mut self, client: &mut Grpc) {
        loop {
            let sent = std::mem::take(client.output());
            self.pipe.feed(&sent);
            self.poll();
            let answered = std::mem::take(&mut self.out);
            if sent.is_empty() && answered.is_empty() {
                return;
            }
            client.receive(&answered);
        }
    }

    fn body(&mut self) -> BytesMut {
        let mut context = Context::from_waker(Waker::noop());
        let mut body = BytesMut::new();
        let stream = self.calls.last_mut().unwrap().0.body_mut();
        while let Poll::Ready(Some(data)) = stream.poll_data(&mut context) {
            let data = data.unwrap();
            stream.flow_control().release_capacity(data.len()).unwrap();
            body.extend_from_slice(&data);
        }
        body
    }

    /// Responds to the last call, optionally with data and trailers.
    fn answer(&mut self, response: Response<()>, data: Option<&'static [u8]>, trailers: Option<HeaderMap>) {
        let respond = &mut self.calls.last_mut().unwrap().1;
        let is_over = data.is_none() && trailers.is_none();
        let mut stream = respond.send_response(response, is_over).unwrap();
        if let Some(data) = data {
            stream.send_data(Bytes::from_static(data), trailers.is_none()).unwrap();
        }
        if let Some(trailers) = trailers {
            stream.send_trailers(trailers).unwrap();
        }
    }
}

fn client() -> Grpc {
    let endpoint = ExportEndpoint { is_tls: false, host: "c".to_owned(), port: 4317, target: "/".to_owned() };
    Grpc::new(&ExportConfig {
        signal: ExportSignal::Traces,
        protocol: ExportProtocol::Grpc,
        endpoint,
        headers: vec![("X-Key".to_owned(), "hunter2".to_owned())],
        timeout: None,
        has_gzip: true,
        trusted: None,
        identity: None,
    })
}

fn payload() -> Payload {
    Payload(b"\x01\0\0\0\x02ab"[..].into())
}

/// Returns a client and a collector in the middle of a call.
fn called() -> (Grpc, Collector) {
    let (mut client, mut collector) = (client(), Collector::new());
    client.begin(&payload(), None);
    collector.meet(&mut client);
    assert_eq!(collector.calls.len(), 1);
    (client, collector)
}

fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

fn response(status: u16, pairs: &[(&'static str, &'static str)]) -> Response<()> {
    let mut response = Response::builder().status(status).body(()).unwrap();
    *response.headers_mut() = fields(pairs);
    response
}

/// Returns the result of a call with this response.
fn answered(
    response: Response<()>,
    data: Option<&'static [u8]>,
    trailers: Option<HeaderMap>,
) -> Option<Result<CollectorAnswer, ConnectionLost>> {
    let (mut client, mut collector) = called();
    collector.body();
    collector.answer(response, data, trailers);
    collector.meet(&mut client);
    client.take_answer()
}

/// Returns a rejection, which is temporary if its code is.
fn refused(reason: &str) -> Option<Result<CollectorAnswer, ConnectionLost>> {
    let is_temporary = ["UNAVAILABLE", "503"].iter().any(|word| reason.contains(word));
    let advice = if is_temporary { RetryAdvice::Later } else { RetryAdvice::Never };
    Some(Ok(CollectorAnswer::Refused { reason: reason.to_owned(), advice }))
}

#[test]
fn a_call_follows_grpc() {
    let (mut client, mut collector) = (client(), Collector::new());
    client.begin(&payload(), Some(Duration::from_millis(1500)));
    collector.meet(&mut client);
    assert_eq!(collector.body(), payload().0);
    let request = &collector.calls[0].0;
    assert_eq!(request.method(), Method::POST);
    assert_eq!(request.uri(), "http://c:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-encoding", "gzip"),
        ("grpc-timeout", "1500m"),
        ("x-key", "hunter2"),
    ] {
        assert_eq!(request.headers()[name], value);
    }
    assert!(request.headers()["user-agent"].to_str().unwrap().starts_with("svc/"));
}

#[test]
fn a_status_is_an_answer_in_trailers_and_without_a_body() {
    let ok = fields(&[("grpc-status", "0")]);
    let grpc = || response(200, &[("content-type", "application/grpc")]);
    let accepted = |rejected, message: &str| {
        Some(Ok(CollectorAnswer::Accepted(PartialSuccess { rejected, message: message.to_owned() })))
    };
    assert_eq!(answered(grpc(), Some(b"\0\0\0\0\0"), Some(ok.clone())), accepted(0, ""));
    assert_eq!(
        answered(grpc(), Some(b"\0\0\0\0\x09\x0a\x07\x08\x03\x12\x03old"), Some(ok)),
        accepted(3, "old")
    );
    let unavailable = fields(&[("grpc-status", "14"), ("grpc-message", "try%20later")]);
    assert_eq!(answered(grpc(), None, Some(unavailable)), refused("gRPC UNAVAILABLE: try later"));
    let alone = response(200, &[("grpc-status", "16")]);
    assert_eq!(answered(alone, None, None), refused("gRPC UNAUTHENTICATED"));
    assert_eq!(answered(response(200, &[("grpc-status", "99")]), None, None), refused("gRPC 99"));
    assert_eq!(answered(response(503, &[]), None, None), refused("HTTP 503"));
}

#[test]
fn a_stream_that_ends_without_a_status_is_lost() {
    let grpc = || response(200, &[("content-type", "application/grpc")]);
    assert_eq!(answered(grpc(), Some(b"\0\0\0\0\0"), None), Some(Err(ConnectionLost::closed())));
    assert_eq!(answered(grpc(), None, None), Some(Err(ConnectionLost::closed())));
    let (mut client, mut collector) = called();
    collector.calls[0].1.send_reset(h2::Reason::REFUSED_STREAM);
    collector.meet(&mut client);
    assert!(matches!(client.take_answer(), Some(Err(ConnectionLost { .. }))));
}

#[test]
fn a_connection_that_ends_is_lost_at_any_time() {
    let (mut greeting, mut called) = (client(), called().0);
    greeting.begin(&payload(), None);
    for client in [&mut greeting, &mut called] {
        client.end();
        assert!(matches!(client.take_answer(), Some(Err(ConnectionLost { .. }))));
        assert!(!client.is_reusable());
    }
    let mut odd = client();
    odd.begin(&payload(), None);
    odd.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(matches!(odd.take_answer(), Some(Err(ConnectionLost { .. }))));
}

#[test]
fn an_answer_that_came_before_the_end_counts() {
    let (mut client, mut collector) = called();
    collector.answer(response(200, &[("grpc-status", "14")]), None, None);
    collector.poll();
    let answer = std::mem::take(&mut collector.out);
    client.receive(&answer);
    client.end();
    assert_eq!(client.take_answer(), refused("gRPC UNAVAILABLE"));
}

#[test]
fn an_answer_counts_despite_a_goaway() {
    let grpc = || response(200, &[("content-type", "application/grpc")]);
    let trailers = |code| Some(fields(&[("grpc-status", code)]));
    let accepted = Some(Ok(CollectorAnswer::Accepted(PartialSuccess::default())));
    // The last stream ID is that of the answered stream; no error.
    let goaway = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0";
    for (data, code, expected) in
        [(Some(&b"\0\0\0\0\0"[..]), "0", accepted), (None, "14", refused("gRPC UNAVAILABLE"))]
    {
        for order in [
            "answer, goaway",
            "goaway, answer",
            "goaway; answer",
            "goaway; answer; end",
            "answer, goaway; end",
        ] {
            let (mut client, mut collector) = called();
            collector.body();
            collector.poll();
            client.receive(&std::mem::take(&mut collector.out));
            client.output().clear();
            collector.answer(grpc(), data, trailers(code));
            collector.poll();
            let answer = std::mem::take(&mut collector.out);
            for segment in order.split("; ") {
                let parts = segment.split(", ").map(|part| match part {
                    "answer" => &answer[..],
                    "goaway" => goaway,
                    _ => b"",
                });
                match parts.collect::<Vec<_>>().concat() {
                    bytes if bytes.is_empty() => client.end(),
                    bytes => client.receive(&bytes),
                }
            }
            assert_eq!(client.take_answer(), expected, "{order}");
            assert!(!client.is_reusable());
        }
    }
}

#[test]
fn one_connection_carries_many_calls_until_the_collector_leaves() {
    let (mut client, mut collector) = called();
    for call in 2..5 {
        collector.answer(response(200, &[("grpc-status", "0")]), None, None);
        collector.meet(&mut client);
        assert!(client.take_answer().unwrap().is_ok() && client.is_reusable());
        client.begin(&payload(), None);
        collector.meet(&mut client);
        assert_eq!(collector.calls.len(), call);
    }
    collector.answer(response(200, &[("grpc-status", "0")]), None, None);
    collector.library.as_mut().unwrap().graceful_shutdown();
    collector.meet(&mut client);
    assert!(client.take_answer().unwrap().is_ok());
    assert!(!client.is_reusable(), "the collector has sent GOAWAY");
}

#[test]
fn a_long_request_follows_the_windows_of_the_collector() {
    let (mut client, mut collector) = (client(), Collector::new());
    let long = Payload(vec![7; 1_000_000].into());
    client.begin(&long, None);
    let mut received = 0;
    while received < long.0.len() {
        collector.meet(&mut client);
        let more = collector.body().len();
        assert!(more > 0, "nothing moves after {received} bytes");
        received += more;
    }
    collector.answer(response(200, &[("grpc-status", "0")]), None, None);
    collector.meet(&mut client);
    assert!(client.take_answer().unwrap().is_ok());
}

#[test]
fn some_codes_are_for_now_and_may_name_a_pause() {
    // A `Status` with a detail of another type, and `RetryInfo` with 7.5 seconds.
    let mut delay = Writer::default();
    delay.varint(1, 7);
    delay.varint(2, 500_000_000);
    let mut status = Writer::default();
    status.varint(1, 14);
    for (url, detail) in [
        ("type.googleapis.com/other", vec![0xff]),
        ("x/google.rpc.RetryInfo", {
            let mut info = Writer::default();
            info.bytes(1, &delay.into_bytes());
            info.into_bytes()
        }),
    ] {
        status.message(3, |any| {
            any.text(1, url);
            any.bytes(2, &detail);
        });
    }
    let details = in_base64(&status.into_bytes());
    let after = RetryAdvice::After(Duration::from_millis(7500));
    for (code, details, expected) in [
        ("14", None, RetryAdvice::Later),
        ("1", None, RetryAdvice::Later),
        ("4", None, RetryAdvice::Later),
        ("10", None, RetryAdvice::Later),
        ("11", None, RetryAdvice::Later),
        ("15", None, RetryAdvice::Later),
        ("14", Some(details.as_str()), after),
        ("14", Some("!"), RetryAdvice::Later),
        ("14", Some(""), RetryAdvice::Later),
        ("8", None, RetryAdvice::Never),
        ("8", Some(&details), after),
        ("3", Some(&details), RetryAdvice::Never),
        ("16", None, RetryAdvice::Never),
        ("99", None, RetryAdvice::Never),
    ] {
        let mut fields = HeaderMap::new();
        fields.insert("grpc-status", code.parse().unwrap());
        if let Some(details) = details {
            fields.insert("grpc-status-details-bin", details.parse().unwrap());
        }
        let Some(CollectorAnswer::Refused { advice, .. }) = super::status(&fields, &[]) else {
            panic!("{code}")
        };
        assert_eq!(advice, expected, "{code}, {details:?}");
    }
}

/// Encodes without padding.
fn in_base64(bytes: &[u8]) -> String {
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let digit = |at: usize| (at..at + 6).fold(0, |digit, at| digit << 1 | bit(at));
    let digits = (0..bytes.len() * 8).step_by(6).map(digit);
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    digits.map(|digit| char::from(alphabet[digit])).collect()
}

#[test]
fn details_of_any_bytes_are_harmless() {
    for seed in 0..5000 {
        let mut dice = svc_testing::dice::Dice::new(seed);
        let length = dice.below(64);
        // Mostly small bytes: tags and lengths that lead on.
        let mut byte = || {
            let end = if dice.one_in(4) { 256 } else { 32 };
            dice.below(end) as u8
        };
        let bytes: Vec<_> = (0..length).map(|_| byte()).collect();
        let _ = super::retry_info(&bytes);
        let _ = super::retry_info(in_base64(&bytes).as_bytes());
    }
}
