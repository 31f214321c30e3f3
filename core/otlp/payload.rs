//! An encoded batch, optionally compressed.
//!
//! A batch above the size limit is not sent. Fields of the request belong to the exchange.

use std::fmt;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::config::{ExportConfig, ExportProtocol};
use crate::limits::EXPORT_BYTES_MAX;
use crate::trace::SpanFormat;

use super::log_record::{self, LogRecord};
use super::metric::{self, Metric};
use super::{Resource, json, protobuf};

/// Encodes batches.
#[derive(Debug)]
pub struct BatchEncoder {
    encoding: BatchEncoding,
    is_grpc: bool,
    has_gzip: bool,
}

/// The encoding of a batch.
#[derive(Debug)]
enum BatchEncoding {
    Protobuf(protobuf::BatchFrame),
    Json(json::BatchFrame),
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(pub(super) Bytes);

/// A batch is larger than a collector must accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The size of the batch.
    pub bytes: usize,
}

impl BatchEncoder {
    /// Creates an encoder for a collector; the items belong to `resource`.
    pub fn new(config: &ExportConfig, resource: Resource) -> Self {
        let encoding = match config.protocol {
            ExportProtocol::HttpJson => BatchEncoding::Json(json::BatchFrame::new(config.signal, resource)),
            ExportProtocol::Grpc | ExportProtocol::HttpProtobuf => {
                BatchEncoding::Protobuf(protobuf::BatchFrame::new(&resource))
            }
        };
        Self { encoding, is_grpc: config.protocol == ExportProtocol::Grpc, has_gzip: config.has_gzip }
    }

    /// Encodes a batch of items, each of them encoded for the same protocol: spans, metrics or log records.
    ///
    /// # Errors
    ///
    /// If the batch is too large.
    pub fn encode<B: AsRef<[u8]>>(&self, items: &[B]) -> Result<Payload, TooLarge> {
        // A gRPC message starts with the compression flag and its length.
        let room = if self.is_grpc { GRPC_PREFIX_BYTES } else { 0 };
        let plain = match &self.encoding {
            BatchEncoding::Json(frame) => frame.around(items),
            BatchEncoding::Protobuf(frame) => frame.around(items, vec![0; room]),
        };
        let bytes = plain.len() - room;
        if bytes > EXPORT_BYTES_MAX {
            return Err(TooLarge { bytes });
        }
        let mut body = if self.has_gzip { gzip(&plain[room..], room) } else { plain };
        if room > 0 {
            let length = (body.len() - room) as u32;
            body[0] = self.has_gzip.into();
            body[1..room].copy_from_slice(&length.to_be_bytes());
        }
        Ok(Payload(body.into()))
    }
}

/// Returns the function that encodes a span for this protocol.
pub fn span_format(protocol: ExportProtocol) -> SpanFormat {
    match protocol {
        ExportProtocol::HttpJson => json::encode_span,
        ExportProtocol::Grpc | ExportProtocol::HttpProtobuf => protobuf::encode_span,
    }
}

/// Returns the function that appends a metric to a buffer for this protocol.
pub fn metric_format(protocol: ExportProtocol) -> fn(&Metric, Vec<u8>) -> Vec<u8> {
    match protocol {
        ExportProtocol::HttpJson => metric::to_json,
        ExportProtocol::Grpc | ExportProtocol::HttpProtobuf => metric::to_protobuf,
    }
}

/// Returns the function that appends a log record to a buffer for this protocol.
pub fn log_format(protocol: ExportProtocol) -> fn(&LogRecord, Vec<u8>) -> Vec<u8> {
    match protocol {
        ExportProtocol::HttpJson => log_record::to_json,
        ExportProtocol::Grpc | ExportProtocol::HttpProtobuf => log_record::to_protobuf,
    }
}

/// Compresses `plain` after `room` bytes for a prefix.
fn gzip(plain: &[u8], room: usize) -> Vec<u8> {
    // Fast: compression costs the application CPU time and saves only network time.
    let mut encoder = GzEncoder::new(vec![0; room], Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(plain);
    encoder.finish().unwrap_or_default()
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a batch of {} bytes is too large to be sent", self.bytes)
    }
}

/// The compression flag (1 byte) and the length (4 bytes).
pub(super) const GRPC_PREFIX_BYTES: usize = 5;

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
