//! The response of a collector.
//!
//! A response that cannot be decoded counts by its status alone, and texts of a collector are truncated. Whether its advice
//! about another attempt is followed is decided elsewhere.

use std::time::Duration;

use serde_json::Value;

use crate::config::ExportProtocol;

use super::wire::{Field, Reader};

/// The response of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectorAnswer {
    /// It accepted the batch, at least partially.
    Accepted(PartialSuccess),
    /// It rejected the batch.
    Refused {
        /// The reason.
        reason: String,
        /// Whether to try again.
        advice: RetryAdvice,
    },
}

/// The collector's advice about another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// After this time.
    After(Duration),
    /// At a later time.
    Later,
    /// The same batch will be rejected again.
    Never,
}

/// The collector's remarks about an accepted batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialSuccess {
    /// The number of rejected spans, data points or log records.
    pub rejected: u64,
    /// The reason, or a warning; may be empty.
    pub message: String,
}

impl CollectorAnswer {
    /// Returns a permanent rejection.
    pub(super) fn refused(reason: String) -> Self {
        Self::Refused { reason, advice: RetryAdvice::Never }
    }
}

impl PartialSuccess {
    /// Decodes the response, whose fields have the same numbers for all signals.
    pub(super) fn read(body: &[u8], protocol: ExportProtocol) -> Self {
        match protocol {
            ExportProtocol::HttpJson => Self::from_json(body).unwrap_or_default(),
            ExportProtocol::Grpc | ExportProtocol::HttpProtobuf => Self::from_protobuf(body),
        }
    }

    fn from_protobuf(body: &[u8]) -> Self {
        let mut success = Self::default();
        for field in Reader::new(body) {
            let (1, Field::Bytes(message)) = field else { continue };
            for field in Reader::new(message) {
                match field {
                    (1, Field::Varint(rejected)) => success.rejected = rejected,
                    (2, Field::Bytes(text)) => success.message = short(&String::from_utf8_lossy(text)),
                    _ => {}
                }
            }
        }
        success
    }

    fn from_json(body: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(body).ok()?;
        let partial = answer.get("partialSuccess")?;
        let names = ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"];
        let rejected = names.iter().find_map(|name| partial.get(name));
        // The mapping encodes 64-bit integers as strings, but numbers are valid, too.
        let rejected = rejected.and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
        let message = partial.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
        Some(Self { rejected: rejected.unwrap_or_default(), message: short(message) })
    }

    /// Returns whether there is anything to log.
    pub fn is_remarkable(&self) -> bool {
        *self != Self::default()
    }
}

/// Decodes the reason of a rejected request: the message `Status`, or plain text.
pub(super) fn refusal(body: &[u8], protocol: ExportProtocol) -> Option<String> {
    let message = match protocol {
        ExportProtocol::HttpJson => {
            let status: Option<Value> = serde_json::from_slice(body).ok();
            status.and_then(|status| Some(status.get("message")?.as_str()?.to_owned()))
        }
        ExportProtocol::Grpc | ExportProtocol::HttpProtobuf => {
            Reader::new(body).find_map(|field| match field {
                (2, Field::Bytes(text)) => str::from_utf8(text).ok().map(str::to_owned),
                _ => None,
            })
        }
    };
    let text =
        || str::from_utf8(body).ok().filter(|text| !text.contains(['<', '{', '\0'])).map(str::to_owned);
    let message = message.or_else(text)?;
    let line = message.lines().next().map(str::trim).filter(|line| !line.is_empty())?;
    Some(short(line))
}

/// Truncates a text of a collector.
pub(super) fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

const TEXT_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::super::wire::Writer;
    use super::*;

    fn partial(rejected: u64, message: &str) -> PartialSuccess {
        PartialSuccess { rejected, message: message.to_owned() }
    }

    #[test]
    fn a_partial_success_is_read_in_both_encodings() {
        let mut writer = Writer::default();
        writer.message(1, |message| {
            message.varint(1, 3);
            message.text(2, "too old");
        });
        let read = PartialSuccess::read(&writer.into_bytes(), ExportProtocol::Grpc);
        assert_eq!((read.is_remarkable(), read), (true, partial(3, "too old")));
        for rejected in [
            r#""rejectedSpans":3"#,
            r#""rejectedSpans":"3""#,
            r#""rejectedDataPoints":"3""#,
            r#""rejectedLogRecords":"3""#,
        ] {
            let body = format!(r#"{{"partialSuccess":{{{rejected},"errorMessage":"too old"}}}}"#);
            assert_eq!(
                PartialSuccess::read(body.as_bytes(), ExportProtocol::HttpJson),
                partial(3, "too old")
            );
        }
    }

    #[test]
    fn an_unreadable_answer_has_no_message() {
        for protocol in [ExportProtocol::Grpc, ExportProtocol::HttpProtobuf, ExportProtocol::HttpJson] {
            for body in [&b""[..], b"{}", b"\xff\xff", b"<html>", br#"{"partialSuccess":3}"#, b"\x0a\x05ab"] {
                assert!(!PartialSuccess::read(body, protocol).is_remarkable(), "{body:?} {protocol:?}");
            }
        }
    }

    #[test]
    fn a_refusal_has_a_reason_if_one_can_be_found() {
        let mut writer = Writer::default();
        writer.varint(1, 16);
        writer.text(2, "who are you?");
        let status = writer.into_bytes();
        assert_eq!(refusal(&status, ExportProtocol::HttpProtobuf).as_deref(), Some("who are you?"));
        let json = br#"{"code":16,"message":"who are you?"}"#;
        assert_eq!(refusal(json, ExportProtocol::HttpJson).as_deref(), Some("who are you?"));
        assert_eq!(refusal(b"slow down\nplease", ExportProtocol::HttpProtobuf).as_deref(), Some("slow down"));
        assert_eq!(refusal(b"<html>", ExportProtocol::HttpProtobuf), None);
        assert_eq!(refusal(b"", ExportProtocol::HttpJson), None);
        let long = "x".repeat(1000);
        assert_eq!(refusal(long.as_bytes(), ExportProtocol::HttpJson).map(|text| text.len()), Some(200));
    }
}
