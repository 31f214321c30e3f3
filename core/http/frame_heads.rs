//! Finds HTTP/2 frame headers in a stream of bytes.
//!
//! Finds each frame header exactly once, however the bytes are split, in constant memory. Decodes no payload and
//! rejects nothing as malformed.

const HEAD_BYTES: usize = 9;

/// The parts of a frame header that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// The length of the payload, in bytes.
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const CONTINUATION: u8 = 9;

impl FrameHead {
    /// Returns whether the frame is, or ends, the header section of a message.
    pub(super) fn ends_headers(self) -> bool {
        const END_HEADERS: u8 = 4;
        matches!(self.kind, HEADERS | CONTINUATION) && self.flags & END_HEADERS != 0
    }

    /// Returns whether its sender sends nothing more on the stream after the header section that it may begin.
    pub(super) fn ends_stream(self) -> bool {
        const END_STREAM: u8 = 1;
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    fn of([a, b, c, kind, flags, d, e, f, g]: [u8; HEAD_BYTES]) -> Self {
        let length = u32::from_be_bytes([0, a, b, c]);
        Self { length, kind, flags, stream: u32::from_be_bytes([d & 0x7f, e, f, g]) }
    }
}

/// Iterates over a stream of bytes from frame to frame.
#[derive(Debug, Default)]
pub(super) struct FrameHeads {
    /// The next frame header, as far as it has been received.
    partial: [u8; HEAD_BYTES],
    have: usize,
    /// The number of bytes before the next frame header.
    left: usize,
    present: Option<FrameHead>,
}

/// An item found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameEvent {
    /// The first byte of a frame header.
    Beginning,
    /// The last byte of a frame header.
    Head(FrameHead),
}

impl FrameHeads {
    /// Starts with `bytes` bytes that are not frames.
    pub(super) fn behind(bytes: usize) -> Self {
        Self { left: bytes, ..Self::default() }
    }

    /// Continues in `bytes` and removes what it has processed; returns `None` at the end of the input.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<FrameEvent> {
        let skipped = self.left.min(bytes.len());
        self.left -= skipped;
        *bytes = &bytes[skipped..];
        let (first, rest) = bytes.split_first()?;
        if self.have == 0 {
            self.partial[0] = *first;
            (self.have, self.present, *bytes) = (1, None, rest);
            return Some(FrameEvent::Beginning);
        }
        let taken = (HEAD_BYTES - self.have).min(bytes.len());
        self.partial[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
        self.have += taken;
        *bytes = &bytes[taken..];
        if self.have < HEAD_BYTES {
            return None;
        }
        let head = FrameHead::of(self.partial);
        self.have = 0;
        self.left = usize::try_from(head.length).unwrap_or(usize::MAX);
        self.present = Some(head);
        Some(FrameEvent::Head(head))
    }

    /// Returns the prefix of `bytes`, which come next, that belongs to the payload being received.
    pub(super) fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[..self.left.min(bytes.len())]
    }

    /// Returns whether the input ended at the end of a frame, or of the bytes that are not frames.
    pub(super) fn is_between(&self) -> bool {
        self.left == 0 && self.have == 0
    }

    /// Returns the header of the frame whose payload is being received.
    pub(super) fn within(&self) -> Option<FrameHead> {
        self.present.filter(|_| self.left > 0)
    }
}
