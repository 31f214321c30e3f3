//! Exports over gRPC: one unary call at a time on a connection. h2 does the framing and is polled without a runtime.
//!
//! A gRPC status is the response of the collector, and so is an HTTP status other than 200. A stream or connection that
//! ends before either is lost. The length of a response is bounded. Concurrent calls, streams of messages and compressed
//! responses are not supported.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use percent_encoding::percent_decode;

use crate::config::{ExportConfig, ExportProtocol, ExportSignal};
use crate::limits::EXPORT_ANSWER_BYTES_MAX;
use crate::sync::counter::Flag;
use crate::sync::primitive::Arc;
use crate::time::as_millis;

use super::answer::{CollectorAnswer, PartialSuccess, RetryAdvice, short};
use super::connection_lost::ConnectionLost;
use super::payload::{GRPC_PREFIX_BYTES, Payload};
use super::pipe::{Pipe, PipeEnd};
use super::wire::{Field, Reader};

/// A connection to a collector.
pub(super) struct Grpc {
    /// The request of each call, without its timeout.
    request: Request<()>,
    pipe: Pipe,
    output: Vec<u8>,
    library: Library,
    call: GrpcCall,
    /// Set when the library needs another poll.
    called: Arc<Called>,
    answer: Option<Result<CollectorAnswer, ConnectionLost>>,
}

type Handshake =
    dyn Future<Output = Result<(SendRequest<Bytes>, Connection<PipeEnd, Bytes>), h2::Error>> + Send;

enum Library {
    Greeting(Pin<Box<Handshake>>),
    Open(SendRequest<Bytes>, Box<Connection<PipeEnd, Bytes>>),
    Over,
}

enum GrpcCall {
    /// No call is in progress.
    Idle,
    /// Waiting until the library accepts a request.
    Waiting(Box<Request<()>>, Bytes),
    /// Waiting for the response.
    Sent(ResponseFuture),
    /// Waiting for the body and the trailers; the message received so far.
    Receiving(RecvStream, Vec<u8>),
}

/// Whether the library needs another poll.
#[derive(Default)]
struct Called(Flag);

impl Wake for Called {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.set();
    }
}

impl Grpc {
    /// Creates the state of a new connection.
    pub(super) fn new(config: &ExportConfig) -> Self {
        let pipe = Pipe::default();
        let mut builder = Builder::new();
        builder.enable_push(false).max_header_list_size(HEAD_BYTES_MAX);
        let end = pipe.end_of_library();
        let handshake = async move { builder.handshake(end).await };
        Self {
            request: request(config),
            pipe,
            output: Vec::new(),
            library: Library::Greeting(Box::pin(handshake)),
            call: GrpcCall::Idle,
            called: Arc::default(),
            answer: None,
        }
    }

    pub(super) fn begin(&mut self, payload: &Payload, time: Option<Duration>) {
        debug_assert!(matches!(self.call, GrpcCall::Idle), "a second call");
        let mut request = Box::new(self.request.clone());
        if let Some(time) = time
            && let Ok(value) = HeaderValue::try_from(format!("{}m", as_millis(time).min(TIMEOUT_MAX)))
        {
            request.headers_mut().insert("grpc-timeout", value);
        }
        self.call = GrpcCall::Waiting(request, payload.0.clone());
        self.turn();
    }

    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.pipe.feed(bytes);
        self.turn();
    }

    pub(super) fn end(&mut self) {
        self.pipe.end();
        self.turn();
        self.library = Library::Over;
        if !matches!(self.call, GrpcCall::Idle) {
            self.conclude(Err(ConnectionLost::closed()));
        }
    }

    pub(super) fn take_answer(&mut self) -> Option<Result<CollectorAnswer, ConnectionLost>> {
        self.answer.take()
    }

    pub(super) fn is_reusable(&mut self) -> bool {
        self.turn();
        let Library::Open(requests, _) = &mut self.library else { return false };
        let mut context = Context::from_waker(Waker::noop());
        matches!(self.call, GrpcCall::Idle)
            && !matches!(requests.poll_ready(&mut context), Poll::Ready(Err(_)))
    }

    /// Polls the library and the call until both wait for the collector.
    fn turn(&mut self) {
        let waker = Waker::from(Arc::clone(&self.called));
        let mut context = Context::from_waker(&waker);
        loop {
            self.called.0.clear();
            let library = self.poll_library(&mut context);
            let has_moved = self.poll_call(&mut context);
            let has_said = self.pipe.drain_into(&mut self.output);
            if let Err(lost) = library {
                // Data received before the end may be a complete response; the call takes its parts one by one.
                while self.poll_call(&mut context) {}
                self.library = Library::Over;
                if !matches!(self.call, GrpcCall::Idle) {
                    self.conclude(Err(lost));
                }
                return;
            }
            if !has_moved && !has_said && !self.called.0.is_set() {
                return;
            }
        }
    }

    fn poll_library(&mut self, context: &mut Context<'_>) -> Result<(), ConnectionLost> {
        if let Library::Greeting(handshake) = &mut self.library {
            match handshake.as_mut().poll(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok((requests, connection))) => {
                    self.library = Library::Open(requests, Box::new(connection));
                }
                Poll::Ready(Err(error)) => return Err(lost(&error)),
            }
        }
        let Library::Open(_, connection) = &mut self.library else { return Ok(()) };
        match Pin::new(connection).poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) => Err(ConnectionLost::closed()),
            Poll::Ready(Err(error)) => Err(lost(&error)),
        }
    }

    /// Advances the call; returns whether it made progress.
    fn poll_call(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.call {
            GrpcCall::Idle => false,
            GrpcCall::Waiting(..) => self.send(context),
            GrpcCall::Sent(response) => match Pin::new(response).poll(context) {
                Poll::Pending => false,
                Poll::Ready(Ok(response)) => {
                    self.read_head(response);
                    true
                }
                Poll::Ready(Err(error)) => self.conclude(Err(lost(&error))),
            },
            GrpcCall::Receiving(body, message) => match body.poll_data(context) {
                Poll::Pending => false,
                Poll::Ready(Some(Ok(data))) => {
                    let _ = body.flow_control().release_capacity(data.len());
                    message.extend_from_slice(&data);
                    if message.len() as u64 <= EXPORT_ANSWER_BYTES_MAX {
                        return true;
                    }
                    self.conclude(Ok(CollectorAnswer::refused("with a response that is too long".to_owned())))
                }
                Poll::Ready(Some(Err(error))) => self.conclude(Err(lost(&error))),
                Poll::Ready(None) => match body.poll_trailers(context) {
                    Poll::Pending => false,
                    Poll::Ready(Ok(Some(trailers))) => {
                        let answer = status(&trailers, message).ok_or_else(ConnectionLost::closed);
                        self.conclude(answer)
                    }
                    // A stream that ends without a status was cut off, even if it ended in order.
                    Poll::Ready(Ok(None)) => self.conclude(Err(ConnectionLost::closed())),
                    Poll::Ready(Err(error)) => self.conclude(Err(lost(&error))),
                },
            },
        }
    }

    fn send(&mut self, context: &mut Context<'_>) -> bool {
        let Library::Open(requests, _) = &mut self.library else { return false };
        match requests.poll_ready(context) {
            Poll::Pending => return false,
            Poll::Ready(Err(error)) => return self.conclude(Err(lost(&error))),
            Poll::Ready(Ok(())) => {}
        }
        let GrpcCall::Waiting(request, body) = std::mem::replace(&mut self.call, GrpcCall::Idle) else {
            return false;
        };
        let sent = requests.send_request(*request, false).and_then(|(response, mut stream)| {
            // The library buffers whatever the collector's windows do not allow yet.
            stream.send_data(body, true).map(|()| response)
        });
        match sent {
            Ok(response) => self.call = GrpcCall::Sent(response),
            Err(error) => {
                self.conclude(Err(lost(&error)));
            }
        }
        true
    }

    fn read_head(&mut self, response: http::Response<RecvStream>) {
        let (head, body) = response.into_parts();
        // The response may consist of trailers only.
        if let Some(answer) = status(&head.headers, &[]) {
            self.conclude(Ok(answer));
        } else if head.status != http::StatusCode::OK {
            // The mapping of gRPC: these statuses mean UNAVAILABLE.
            let is_temporary = matches!(head.status.as_u16(), 429 | 502..=504);
            let advice = if is_temporary { RetryAdvice::Later } else { RetryAdvice::Never };
            let reason = format!("HTTP {}", head.status.as_u16());
            self.conclude(Ok(CollectorAnswer::Refused { reason, advice }));
        } else {
            self.call = GrpcCall::Receiving(body, Vec::new());
        }
    }

    /// Ends the call.
    fn conclude(&mut self, answer: Result<CollectorAnswer, ConnectionLost>) -> bool {
        self.call = GrpcCall::Idle;
        self.answer = Some(answer);
        true
    }
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc").field("answer", &self.answer).finish_non_exhaustive()
    }
}

/// Builds the request that all calls share.
fn request(config: &ExportConfig) -> Request<()> {
    let endpoint = &config.endpoint;
    let scheme = if endpoint.is_tls { "https" } else { "http" };
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = http::Version::HTTP_2;
    // The settings are already checked; an invalid host fails when it is resolved.
    *request.uri_mut() = format!("{scheme}://{}{}", endpoint.authority(), method_path(config.signal))
        .parse()
        .unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("te", HeaderValue::from_static("trailers"));
    if config.has_gzip {
        headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
    }
    for (name, value) in super::request_fields::fields(config) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    request
}

/// Returns the status of a call; `None` if there is none.
fn status(fields: &HeaderMap, message: &[u8]) -> Option<CollectorAnswer> {
    let code = fields.get("grpc-status")?.to_str().ok()?;
    if code == "0" {
        // It starts with the compression flag and its length.
        let message = message.get(GRPC_PREFIX_BYTES..).unwrap_or_default();
        return Some(CollectorAnswer::Accepted(PartialSuccess::read(message, ExportProtocol::Grpc)));
    }
    let name = code.parse().ok().and_then(|code: usize| CODES.get(code)).copied().unwrap_or(code);
    let advice = advice(name, fields);
    let reason = fields.get("grpc-message").map(|text| percent_decode(text.as_bytes()).decode_utf8_lossy());
    let reason = match reason.filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("gRPC {name}: {}", short(&reason)),
        None => format!("gRPC {name}"),
    };
    Some(CollectorAnswer::Refused { reason, advice })
}

/// Returns the advice of a status: OTLP lists the codes that may be retried. Exhausted resources may be those of the
/// sender, so that only a collector that names a pause expects another attempt.
fn advice(name: &str, fields: &HeaderMap) -> RetryAdvice {
    let is_temporary = matches!(
        name,
        "CANCELLED" | "DEADLINE_EXCEEDED" | "ABORTED" | "OUT_OF_RANGE" | "UNAVAILABLE" | "DATA_LOSS"
    );
    if !is_temporary && name != "RESOURCE_EXHAUSTED" {
        return RetryAdvice::Never;
    }
    match fields.get("grpc-status-details-bin").and_then(|details| retry_info(details.as_bytes())) {
        Some(pause) => RetryAdvice::After(pause),
        None if is_temporary => RetryAdvice::Later,
        None => RetryAdvice::Never,
    }
}

/// Returns the pause in the `RetryInfo` of a `google.rpc.Status`, which is in base64.
fn retry_info(details: &[u8]) -> Option<Duration> {
    let status = base64(details)?;
    let is_retry_info = |any: &&[u8]| messages(any, 1).any(|url| url.ends_with(b"/google.rpc.RetryInfo"));
    let any = messages(&status, 3).find(is_retry_info)?;
    let delay = messages(messages(any, 2).next()?, 1).next()?;
    let number = |wanted| {
        Reader::new(delay).find_map(|field| match field {
            (number, Field::Varint(value)) if number == wanted => Some(value),
            _ => None,
        })
    };
    let (seconds, nanos) = (number(1).unwrap_or(0), number(2).unwrap_or(0));
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos)))
}

/// Returns the contents of the fields with this number that are messages or texts.
fn messages(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    Reader::new(message).filter_map(move |field| match field {
        (number, Field::Bytes(bytes)) if number == wanted => Some(bytes),
        _ => None,
    })
}

/// Decodes base64, with or without padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for character in text.iter().take_while(|character| **character != b'=') {
        let digit = DIGITS.iter().position(|digit| digit == character)?;
        (bits, count) = (bits << 6 | digit as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn lost(error: &h2::Error) -> ConnectionLost {
    ConnectionLost { reason: error.to_string().into() }
}

fn method_path(signal: ExportSignal) -> &'static str {
    match signal {
        ExportSignal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        ExportSignal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        ExportSignal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }
}

/// The maximum timeout value: gRPC allows eight digits.
const TIMEOUT_MAX: u64 = 99_999_999;

const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// The names of gRPC's status codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;
