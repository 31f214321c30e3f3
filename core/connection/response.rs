//! An outgoing response: turns the parts from a worker, or a file, into framed bytes.
//!
//! The body is framed exactly as its head announced: excess bytes of a script are dropped, and a response that is too
//! short is broken off. The response does no I/O and knows no worker; it returns the next step.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::files::BodyPiece;
use crate::http::{Fields, encode};
use crate::limits::{SEND_FILE_BYTES, TIGHT_SLICE_BYTES};
use crate::pool::{End, Part, ResponseHead, SpooledPart};
use crate::spool::{Share, Spool};
use crate::sync::primitive::Arc;

use super::output::Output;
use super::source::Source;

/// A response being sent.
#[derive(Debug, Default)]
pub struct Response {
    parts: VecDeque<Part>,
    /// The worker has parts that were not collected.
    has_more: bool,
    frame: Frame,
    /// The file range being read.
    run: Option<Run>,
    /// The last slice of it, until it is in the output.
    slice: Option<Vec<u8>>,
    /// Body pieces between the last part and the end.
    tail: VecDeque<BodyPiece>,
    /// The share of the response memory for bytes that are buffered or being read from disk.
    share: Share,
    /// The response memory, if the response sends files.
    memory: Option<Spool>,
    /// The number of bytes being read from disk, if any.
    reading: Option<usize>,
    ended: Option<End>,
    body_bytes: u64,
}

/// The framing of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frame {
    /// The head has not been sent.
    #[default]
    BeforeHead,
    /// No body is sent.
    Absent,
    /// Exactly `left` more bytes.
    Length {
        /// The bytes that have not been sent.
        left: u64,
    },
    /// Chunked.
    Chunked,
    /// Unframed; the end of the connection or stream delimits it.
    Bare,
}

/// A byte range that is read from disk, slice by slice.
#[derive(Debug)]
pub(super) struct Run {
    /// Where the bytes are stored.
    pub(super) source: Source,
    /// The offset of the next byte.
    pub(super) offset: u64,
    /// The end offset.
    pub(super) end: u64,
}

/// Bytes held by another owner, with their share of the response memory.
struct Lent {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The next step of a response.
#[derive(Debug)]
pub(super) enum ResponseStep {
    /// Wait for the disk.
    Disk,
    /// Replace the response by one that sends the file named in this head.
    File(ResponseHead),
    /// Nothing: the response has ended.
    End(End),
    /// Complete and encode the head, with the body's length if known; then call [`Response::begin_body`].
    Head(ResponseHead, Option<u64>),
    /// Encode an informational response.
    Interim(u16, Fields),
    /// Get more parts from the worker.
    Parts,
    /// Make room in the output.
    Room,
    /// Read this many bytes of this source at this offset.
    Slice(Source, u64, usize),
}

impl Response {
    /// Creates a complete response.
    pub fn whole(head: ResponseHead, body: Vec<u8>) -> Self {
        let parts = VecDeque::from([Part::Head(head), Part::Data(body), Part::End(End::Complete)]);
        Self { parts, ..Self::default() }
    }

    /// Creates a response with the body `body`; bytes read from files count in the response memory `memory`.
    pub fn pieces(head: ResponseHead, body: Vec<BodyPiece>, memory: &Spool) -> Self {
        let parts = VecDeque::from([Part::Head(head), Part::End(End::Complete)]);
        let is_from_disk = body.iter().any(|piece| matches!(piece, BodyPiece::File(..)));
        let memory = is_from_disk.then(|| memory.clone());
        Self { parts, tail: body.into(), memory, ..Self::default() }
    }

    /// Replaces the pending body; must be called before the head is sent.
    pub(super) fn replace_body(&mut self, body: Vec<u8>) {
        debug_assert!(!self.has_begun(), "a head that has been sent announced another body");
        self.parts.retain(|part| matches!(part, Part::End(_)));
        (self.run, self.tail) = (None, VecDeque::new());
        self.parts.push_front(Part::Data(body));
    }

    /// Records that the worker has parts to collect.
    pub(super) fn note_more(&mut self) {
        self.has_more = true;
    }

    /// Returns whether the worker has parts to collect; clears the flag.
    pub(super) fn takes_more(&mut self) -> bool {
        std::mem::take(&mut self.has_more)
    }

    /// Returns whether the head has been encoded.
    pub(super) fn has_begun(&self) -> bool {
        self.frame != Frame::BeforeHead
    }

    /// Returns whether a head is waiting to be encoded.
    pub(super) fn has_head(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Head(_)))
    }

    /// Returns whether parts are waiting to be processed.
    pub(super) fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Returns the number of body bytes passed to the output.
    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Sets the framing of the body, after the head was encoded.
    pub(super) fn begin_body(&mut self, frame: Frame) {
        self.frame = frame;
    }

    /// Lets `take` append parts; `take` returns their share of the response memory.
    pub(super) fn collect(&mut self, take: impl FnOnce(&mut VecDeque<Part>) -> Share) {
        let share = take(&mut self.parts);
        self.share.absorb(share);
    }

    /// Releases the memory of what was sent; the output has `output_bytes` left.
    pub(super) fn note_unsent(&mut self, output_bytes: usize) {
        if self.share.bytes() > 0 {
            let parts: usize = self.parts.iter().map(Part::memory_bytes).sum();
            let slice = self.reading.or(self.slice.as_ref().map(Vec::len)).unwrap_or(0);
            self.share.keep((parts + slice + output_bytes) as u64);
        }
    }

    /// Passes the share of `bytes` on with them, for a recipient that keeps them for a while.
    pub(super) fn lend(&mut self, bytes: Bytes) -> Bytes {
        let share = self.share.split(bytes.len() as u64);
        if share.is_counted() { Bytes::from_owner(Lent { bytes, _share: share }) } else { bytes }
    }

    /// Moves the available bytes into `out`; returns the next step.
    pub(super) fn pump(&mut self, out: &mut Output) -> ResponseStep {
        let want = self.advance(out);
        self.note_unsent(out.len());
        want
    }

    fn advance(&mut self, out: &mut Output) -> ResponseStep {
        loop {
            if let Some(end) = self.ended {
                return ResponseStep::End(end);
            }
            if let Some(bytes) = self.slice.take() {
                self.put(bytes, out);
            }
            if self.reading.is_some() {
                return ResponseStep::Disk;
            }
            if out.is_full() {
                return ResponseStep::Room;
            }
            if self.sends_file(out) {
                continue;
            }
            if let Some(want) = self.next_slice(out) {
                return want;
            }
            match self.parts.pop_front() {
                Some(Part::Interim(status, fields)) => return ResponseStep::Interim(status, fields),
                Some(Part::Head(head)) if head.file.is_some() => {
                    // No byte of the file is being read yet, and later parts are not the body.
                    self.reading = Some(0);
                    return ResponseStep::File(head);
                }
                Some(Part::Head(head)) => {
                    let known_length = || if head.is_streamed { None } else { self.known_length() };
                    let length = head.content_length.or_else(known_length);
                    return ResponseStep::Head(head, length);
                }
                Some(Part::Data(bytes)) => self.put(bytes, out),
                Some(Part::Spooled(SpooledPart { file, offset, len })) => {
                    self.run = Some(Run { source: Source::Spool(file), offset, end: offset + len });
                }
                Some(Part::End(end)) => match self.tail.pop_front() {
                    None => self.end(end, out),
                    Some(piece) => {
                        self.parts.push_front(Part::End(end));
                        self.begin_piece(piece, out);
                    }
                },
                None => return ResponseStep::Parts,
            }
        }
    }

    /// Takes a slice; an empty one means that the source ended early.
    pub(super) fn sliced(&mut self, bytes: Vec<u8>) {
        self.reading = None;
        let Some(run) = &mut self.run else { return };
        if bytes.is_empty() {
            self.fail();
            return;
        }
        run.offset += bytes.len() as u64;
        if run.offset >= run.end {
            self.run = None;
        }
        self.slice = Some(bytes);
    }

    /// Returns whether bytes of it are being read from a disk.
    pub(super) fn awaits_disk(&self) -> bool {
        self.reading.is_some()
    }

    /// Breaks the response off because its rest is not available.
    pub(super) fn fail(&mut self) {
        self.reading = None;
        (self.run, self.slice) = (None, None);
        self.tail.clear();
        self.parts.clear();
        self.ended = Some(End::Broken);
    }

    fn begin_piece(&mut self, piece: BodyPiece, out: &mut Output) {
        match piece {
            BodyPiece::Bytes(bytes) => self.put_shared(bytes, out),
            BodyPiece::File(file, range) => {
                self.run = Some(Run { source: Source::File(file), offset: range.start, end: range.end });
            }
        }
    }

    /// Moves the next file range into `out`, if there is one and `out` accepts files.
    fn sends_file(&mut self, out: &mut Output) -> bool {
        let is_framed_bytes = matches!(self.frame, Frame::Bare | Frame::Length { left: 1.. });
        let Some(Run { source: Source::File(file), offset, end }) = &self.run else { return false };
        if !out.sends_files() || !is_framed_bytes || offset >= end {
            return false;
        }
        let (file, offset, end) = (Arc::clone(file), *offset, *end);
        let len = self.admit(as_index(end - offset).min(SEND_FILE_BYTES));
        out.push_file(file, offset, len);
        if let Some(run) = &mut self.run {
            run.offset += len as u64;
        }
        true
    }

    /// Requests the next slice of the run.
    fn next_slice(&mut self, out: &Output) -> Option<ResponseStep> {
        let run = self.run.as_ref()?;
        let skipped = self.frame == Frame::Absent || self.frame == Frame::Length { left: 0 };
        if skipped || run.offset >= run.end {
            self.run = None;
            return None;
        }
        // Nothing is read for a client that does not read.
        let mut len = as_index(run.end - run.offset).min(out.slice_room());
        if len == 0 {
            return Some(ResponseStep::Room);
        }
        let memory = match &run.source {
            Source::Spool(file) => Some(file.spool()),
            Source::File(_) => self.memory.as_ref(),
        };
        if let Some(memory) = memory
            && !self.share.try_take(memory, len as u64)
        {
            // Without memory, little is read ahead of what can be sent.
            if !out.is_empty() {
                return Some(ResponseStep::Room);
            }
            len = len.min(TIGHT_SLICE_BYTES);
            self.share.take(memory, len as u64);
        }
        self.reading = Some(len);
        Some(ResponseStep::Slice(run.source.clone(), run.offset, len))
    }

    fn put(&mut self, mut bytes: Vec<u8>, out: &mut Output) {
        bytes.truncate(self.admit(bytes.len()));
        self.framed(bytes.len(), out, |out| out.push(bytes));
    }

    fn put_shared(&mut self, mut bytes: Bytes, out: &mut Output) {
        bytes.truncate(self.admit(bytes.len()));
        self.framed(bytes.len(), out, |out| out.push_shared(bytes));
    }

    /// Returns how many of `len` bytes the framing admits, and counts them.
    fn admit(&mut self, len: usize) -> usize {
        let admitted = match &mut self.frame {
            Frame::BeforeHead | Frame::Absent => 0,
            Frame::Length { left } => {
                let admitted = as_index(*left).min(len);
                *left -= admitted as u64;
                admitted
            }
            Frame::Bare | Frame::Chunked => len,
        };
        self.body_bytes += admitted as u64;
        admitted
    }

    /// Lets `put` add `len` admitted bytes.
    fn framed(&self, len: usize, out: &mut Output, put: impl FnOnce(&mut Output)) {
        match self.frame {
            // An empty chunk would end the body.
            _ if len == 0 => {}
            Frame::Chunked => {
                out.append(|out| encode::chunk_start(out, len));
                put(out);
                out.append(|out| out.extend_from_slice(encode::CHUNK_END));
            }
            _ => put(out),
        }
    }

    fn end(&mut self, end: End, out: &mut Output) {
        let short = matches!(self.frame, Frame::Length { left } if left > 0) || !self.has_begun();
        if end == End::Complete && self.frame == Frame::Chunked {
            out.append(|out| out.extend_from_slice(encode::LAST_CHUNK));
        }
        self.ended = Some(if short { End::Broken } else { end });
    }

    /// Returns the length of a body that has fully arrived, after its head was taken.
    fn known_length(&self) -> Option<u64> {
        if !matches!(self.parts.back(), Some(Part::End(End::Complete))) {
            return None;
        }
        let tail = self.tail.iter().map(|piece| Some(piece.len()));
        let parts = self.parts.iter().map(|part| match part {
            Part::Data(bytes) => Some(bytes.len() as u64),
            Part::Spooled(run) => Some(run.len),
            Part::End(_) => Some(0),
            Part::Head(_) | Part::Interim(..) => None,
        });
        parts.chain(tail).sum()
    }
}

/// Converts to an index; saturates beyond the address space.
fn as_index(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
