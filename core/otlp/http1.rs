//! Exports over a persistent HTTP/1.1 connection, one at a time.
//!
//! The status is final once the header section is complete; errors in the body are ignored. Interim responses are skipped.
//! The connection is reused only if the response ended where its framing says. Redirects are not followed, and no optional
//! feature of HTTP is requested.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use crate::config::{ExportConfig, ExportProtocol};
use crate::http::{BodyDecoder, BodyFraming, parse_date};
use crate::limits::{EXPORT_ANSWER_BYTES_MAX, EXPORT_HEAD_BYTES_MAX};

use super::answer::{CollectorAnswer, PartialSuccess, RetryAdvice, refusal};
use super::connection_lost::ConnectionLost;
use super::payload::Payload;

/// A connection to a collector.
#[derive(Debug)]
pub(super) struct Http1Conversation {
    protocol: ExportProtocol,
    /// The head of each request up to the value of `Content-Length`.
    head: String,
    stage: Stage,
    output: Vec<u8>,
    /// Whether the collector allows us to reuse the connection.
    is_kept: bool,
}

#[derive(Debug)]
enum Stage {
    /// No export is in progress.
    Idle,
    /// Waiting for the head of the response; the part received so far.
    Head(Vec<u8>),
    /// Waiting for the body.
    Body { status: u16, advice: RetryAdvice, decoder: BodyDecoder, body: Vec<u8> },
    /// The result is available.
    Answered(Result<CollectorAnswer, ConnectionLost>),
}

/// The relevant parts of a response head.
struct AnswerHead {
    status: u16,
    advice: RetryAdvice,
    framing: BodyFraming,
    is_kept: bool,
    length: usize,
}

impl Http1Conversation {
    /// Creates the state of a new connection.
    pub(super) fn new(config: &ExportConfig) -> Self {
        let content_type = match config.protocol {
            ExportProtocol::HttpJson => "application/json",
            _ => "application/x-protobuf",
        };
        let endpoint = &config.endpoint;
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: {content_type}\r\n",
            endpoint.target,
            endpoint.authority()
        );
        if config.has_gzip {
            head.push_str("Content-Encoding: gzip\r\n");
        }
        for (name, value) in super::request_fields::fields(config) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        Self { protocol: config.protocol, head, stage: Stage::Idle, output: Vec::new(), is_kept: true }
    }

    pub(super) fn begin(&mut self, payload: &Payload) {
        debug_assert!(self.is_reusable(), "an export on a connection that is in use");
        let body = &payload.0;
        self.output.extend_from_slice(self.head.as_bytes());
        self.output.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        self.output.extend_from_slice(body);
        self.stage = Stage::Head(Vec::new());
    }

    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) {
        match &mut self.stage {
            Stage::Idle | Stage::Answered(_) => self.is_kept = false,
            Stage::Head(head) => {
                head.extend_from_slice(bytes);
                self.read_head();
            }
            Stage::Body { .. } => self.read_body(bytes),
        }
    }

    pub(super) fn end(&mut self) {
        self.is_kept = false;
        match &mut self.stage {
            Stage::Idle | Stage::Answered(_) => {}
            Stage::Head(_) => self.stage = Stage::Answered(Err(ConnectionLost::closed())),
            // The status is known, so the end of the stream may replace the rest of the body.
            Stage::Body { .. } => self.finish(),
        }
    }

    pub(super) fn take_answer(&mut self) -> Option<Result<CollectorAnswer, ConnectionLost>> {
        if !matches!(self.stage, Stage::Answered(_)) {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// Returns whether another export may follow. It must not if the collector responded before it read the whole
    /// request.
    pub(super) fn is_reusable(&self) -> bool {
        self.is_kept && self.output.is_empty() && matches!(self.stage, Stage::Idle)
    }

    fn read_head(&mut self) {
        let Stage::Head(head) = &mut self.stage else { return };
        loop {
            match parse(head) {
                Ok(Some(response)) if response.status < 200 => {
                    head.drain(..response.length);
                }
                Ok(Some(response)) => {
                    let rest = head.split_off(response.length);
                    return self.begin_body(&response, &rest);
                }
                Ok(None) if head.len() <= EXPORT_HEAD_BYTES_MAX => return,
                Ok(None) | Err(()) => return self.refuse("with something other than HTTP".to_owned()),
            }
        }
    }

    fn begin_body(&mut self, response: &AnswerHead, rest: &[u8]) {
        self.is_kept &= response.is_kept;
        match BodyDecoder::new(response.framing, EXPORT_ANSWER_BYTES_MAX) {
            Ok(decoder) => {
                let AnswerHead { status, advice, .. } = *response;
                self.stage = Stage::Body { status, advice, decoder, body: Vec::new() };
                self.read_body(rest);
            }
            Err(_) => self.refuse(TOO_LONG.to_owned()),
        }
    }

    fn read_body(&mut self, bytes: &[u8]) {
        let Stage::Body { decoder, body, .. } = &mut self.stage else { return };
        match decoder.decode(bytes, body) {
            Ok(progress) if progress.done => {
                self.is_kept &= progress.consumed == bytes.len();
                self.finish();
            }
            Ok(_) => {}
            Err(_) => self.refuse(TOO_LONG.to_owned()),
        }
    }

    fn finish(&mut self) {
        let Stage::Body { status, advice, body, .. } = &self.stage else { return };
        let answer = if (200..300).contains(status) {
            CollectorAnswer::Accepted(PartialSuccess::read(body, self.protocol))
        } else {
            let reason = refusal(body, self.protocol).map_or(String::new(), |reason| format!(": {reason}"));
            CollectorAnswer::Refused { reason: format!("HTTP {status}{reason}"), advice: *advice }
        };
        self.stage = Stage::Answered(Ok(answer));
    }

    fn refuse(&mut self, reason: String) {
        self.is_kept = false;
        self.stage = Stage::Answered(Ok(CollectorAnswer::refused(reason)));
    }
}

const TOO_LONG: &str = "with a malformed or too long response";

/// Parses a response head; returns `Ok(None)` if it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<AnswerHead>, ()> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(()),
    };
    let status = response.code.ok_or(())?;
    let values = |name: &'static str| {
        let named = response.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named
            .filter_map(|field| str::from_utf8(field.value).ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
    };
    let says = |name, word: &str| values(name).any(|value| value.eq_ignore_ascii_case(word));
    let is_chunked = values("transfer-encoding").next().is_some();
    let framing = match values("content-length").next() {
        _ if status < 200 || matches!(status, 204 | 304) => BodyFraming::None,
        _ if is_chunked => BodyFraming::Chunked,
        Some(digits) => BodyFraming::Length(digits.parse().map_err(|_| ())?),
        // The body extends to the end of the connection.
        None => BodyFraming::Framed,
    };
    let is_kept = match response.version {
        Some(1) => !says("connection", "close"),
        _ => says("connection", "keep-alive"),
    };
    let advice = match status {
        429 | 502..=504 => {
            let date = || single(&response, "date").and_then(|date| parse_date(date.as_bytes()));
            single(&response, "retry-after")
                .and_then(|value| pause(value, date))
                .map_or(RetryAdvice::Later, RetryAdvice::After)
        }
        _ => RetryAdvice::Never,
    };
    let is_kept = is_kept && framing != BodyFraming::Framed;
    Ok(Some(AnswerHead { status, advice, framing, is_kept, length }))
}

/// Returns the value of a field.
fn single<'a>(response: &httparse::Response<'_, 'a>, name: &str) -> Option<&'a str> {
    let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
    str::from_utf8(field.value).ok().map(str::trim)
}

/// Returns the pause that the value of `Retry-After` asks for: seconds, or a time relative to that of the response.
fn pause(value: &str, date: impl FnOnce() -> Option<SystemTime>) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = parse_date(value.as_bytes())?;
    Some(until.duration_since(date()?).unwrap_or_default())
}

const FIELDS_MAX: usize = 100;

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
