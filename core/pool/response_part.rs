//! The parts of a response, from its head to its end, and the batches in which a worker sends them.

use crate::http::{Fields, NamedFile};
use crate::spool::SpoolFile;
use crate::sync::primitive::Arc;

/// One step of a response, in order: interim heads, the head, data, the end.
#[derive(Debug)]
pub enum Part {
    /// An informational response (103), sent immediately.
    Interim(u16, Fields),
    /// Status and fields of the final response.
    Head(ResponseHead),
    /// Bytes of the body.
    Data(Vec<u8>),
    /// Bytes of the body that are on disk.
    Spooled(SpooledPart),
    /// The last part.
    End(End),
}

impl Part {
    /// Returns the number of body bytes that it holds in memory.
    pub fn memory_bytes(&self) -> usize {
        if let Self::Data(bytes) = self { bytes.len() } else { 0 }
    }
}

/// A run of response bytes in a spool file. The disk space is freed when all runs of the file are dropped.
#[derive(Clone, Debug)]
pub struct SpooledPart {
    /// The file. Only threads that may wait for a disk read it.
    pub file: Arc<SpoolFile>,
    /// Where the run starts.
    pub offset: u64,
    /// The number of bytes in the run.
    pub len: u64,
}

impl SpooledPart {
    /// Returns whether `next` is the next run of the same file.
    pub(super) fn is_followed_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.file, &next.file) && self.offset + self.len == next.offset
    }
}

/// Status and fields of a final response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status code, 200 to 999.
    pub status: u16,
    /// The reason phrase, if the script sets one.
    pub reason: Option<Vec<u8>>,
    /// The fields, without hop-by-hop fields and `Content-Length`.
    pub fields: Fields,
    /// The length that the script announced, or that is known because the response is complete.
    pub content_length: Option<u64>,
    /// The script has flushed, or has written more than is buffered: the length counts as unknown, even if the response ends
    /// before its head is sent.
    pub is_streamed: bool,
    /// The origin of the response.
    pub origin: Origin,
    /// The file to send as the body, instead of the body that follows; only a complete response names one.
    pub file: Option<NamedFile>,
}

impl ResponseHead {
    /// Starts a head with status 200 and no fields.
    pub const fn bare(origin: Origin) -> Self {
        Self {
            status: 200,
            reason: None,
            fields: Fields::new(),
            content_length: None,
            is_streamed: false,
            origin,
            file: None,
        }
    }

    /// Makes the head of a response that the recorder has [replaced](super::recorder::Recording::Replaced).
    pub fn replaced() -> Self {
        Self { file: Some(NamedFile::Stored), ..Self::bare(Origin::Server) }
    }
}

/// The origin of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The script, by running to its end or by sending output.
    Script,
    /// The server, without running a script.
    Server,
    /// The server, because the script reached its time limit before it sent anything.
    TimeLimit,
    /// The server, because the script ended in a fatal error before it sent anything.
    Fatal,
    /// The server, because a fatal error ended the worker, or the worker was lost before it answered.
    WorkerLost,
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response is complete.
    Complete,
    /// The response broke off after its head was sent; the client must be able to detect that.
    Broken,
}

/// Parts that a worker sends together, in this order. All are optional.
#[derive(Debug, Default)]
pub struct ResponseBatch {
    pub(super) head: Option<ResponseHead>,
    bytes: Vec<u8>,
    /// The number of bytes that were delivered.
    delivered: usize,
    pub(super) end: Option<End>,
}

impl ResponseBatch {
    /// Makes a batch of body bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Adds the head before the bytes.
    #[must_use]
    pub fn after(self, head: ResponseHead) -> Self {
        Self { head: Some(head), ..self }
    }

    /// Adds the end after the bytes.
    #[must_use]
    pub fn before(self, end: End) -> Self {
        Self { end: Some(end), ..self }
    }

    /// Returns whether everything was delivered.
    pub fn is_done(&self) -> bool {
        self.rest().is_empty() && self.head.is_none() && self.end.is_none()
    }

    /// Returns the bytes that were not delivered.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.delivered..]
    }

    /// Delivers all bytes that were not delivered.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.drain(..std::mem::take(&mut self.delivered));
        bytes
    }

    /// Delivers at most `len_max` of the bytes that were not delivered.
    pub(super) fn take_slice(&mut self, len_max: usize) -> Vec<u8> {
        let rest = self.rest();
        if rest.len() <= len_max {
            return self.take_rest();
        }
        let slice = rest[..len_max].to_vec();
        self.delivered += len_max;
        slice
    }
}
