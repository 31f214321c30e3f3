//! Why the framing library has given up a connection: the error code that RFC 9113 has for it.
//!
//! The library calls everything that ends a connection a protocol error. This tells frames of a wrong size, and header
//! blocks that cannot be decompressed, apart from the rest. Promises: it looks at frames only once the connection is lost,
//! and keeps no more of them than the library has not looked at. Refuses: it keeps no dynamic table. A block that refers to
//! one is taken to be at fault if nothing else is.

use super::frame_heads::{CONTINUATION, DATA, FrameHead, HEADERS};
use super::token::{is_token_byte, is_value_byte};

/// What is kept of the frames that the library may not have looked at.
#[derive(Debug, Default)]
pub(super) struct FrameFaults {
    entries: Vec<FrameEntry>,
    /// The payloads of frames with header blocks, one behind the other.
    payloads: Vec<u8>,
    /// There was more than is kept.
    is_cut: bool,
}

#[derive(Clone, Copy, Debug)]
enum FrameEntry {
    /// A frame of a header block; `is_new` if it may open a stream. Its payload begins at `start`.
    Block { head: FrameHead, is_new: bool, start: usize },
    /// A frame whose length is not that of its kind.
    WrongSize,
    /// A frame that may be at fault in other ways.
    Other,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// A header block cannot be decompressed.
    Compression,
    /// The length of a frame is not that of its kind.
    FrameSize,
    /// Anything else.
    Protocol,
}

/// What a header block turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockVerdict {
    /// Nothing is wrong with it, as far as can be told without the dynamic table.
    Sound { is_dynamic: bool },
    /// It can be decompressed, and has a field that is invalid.
    Malformed,
    /// It cannot be decompressed.
    Undecodable,
}

/// How many bytes of payloads are kept at most: more than a frame, which is more than a header.
const KEPT_BYTES_MAX: usize = 32 * 1024;

/// How many frames are kept at most.
const KEPT_FRAMES_MAX: usize = 256;

/// Empty buffers of up to this many bytes are kept.
const SPARE_BYTES: usize = 1024;

impl ConnectionFault {
    /// The error code of HTTP/2.
    pub const fn code(self) -> u32 {
        match self {
            Self::Protocol => 1,
            Self::FrameSize => 6,
            Self::Compression => 9,
        }
    }
}

impl FrameFaults {
    /// A frame has begun; `is_new` if it may open a stream.
    pub(super) fn begin(&mut self, head: FrameHead, is_new: bool) {
        let entry = match head.kind {
            _ if has_wrong_size(head) => FrameEntry::WrongSize,
            HEADERS | CONTINUATION => FrameEntry::Block { head, is_new, start: self.payloads.len() },
            DATA => return,
            _ if matches!(self.entries.last(), Some(FrameEntry::Other)) => return,
            _ => FrameEntry::Other,
        };
        if self.entries.len() < KEPT_FRAMES_MAX {
            self.entries.push(entry);
        } else {
            self.is_cut = true;
        }
    }

    /// Some of the payload of a frame with a header block.
    pub(super) fn add(&mut self, payload: &[u8]) {
        if self.payloads.len() + payload.len() <= KEPT_BYTES_MAX {
            self.payloads.extend_from_slice(payload);
        } else {
            self.is_cut = true;
        }
    }

    /// The library has looked at all frames, unless the last one `is_unfinished`, or its header block.
    pub(super) fn settle(&mut self, is_unfinished: bool) {
        let begins_block =
            |entry: &FrameEntry| matches!(entry, FrameEntry::Block { head, .. } if head.kind == HEADERS);
        match self.entries.iter().rposition(begins_block).filter(|_| is_unfinished) {
            Some(0) => {}
            Some(place) => {
                self.entries.drain(..place);
                let FrameEntry::Block { start: first, .. } = self.entries[0] else { return };
                self.payloads.drain(..first);
                for entry in &mut self.entries {
                    if let FrameEntry::Block { start, .. } = entry {
                        *start -= first;
                    }
                }
            }
            None => {
                // A frame of a wrong size is the last one that the library looks at.
                self.entries.retain(|entry| is_unfinished && matches!(entry, FrameEntry::WrongSize));
                self.payloads.clear();
                self.is_cut = false;
                if self.payloads.capacity() > SPARE_BYTES {
                    self.payloads = Vec::new();
                }
            }
        }
    }

    /// What was wrong with the first frame that was wrong.
    pub(super) fn fault(&self) -> ConnectionFault {
        // The stream whose block goes on in the next frame.
        let (mut block, mut open) = (Vec::new(), None);
        let (mut is_dynamic, mut is_doubtful) = (false, self.is_cut);
        for (place, entry) in self.entries.iter().enumerate() {
            let FrameEntry::Block { head, is_new, start } = *entry else {
                if let FrameEntry::WrongSize = entry {
                    return ConnectionFault::FrameSize;
                }
                is_doubtful = true;
                continue;
            };
            let next = self.entries[place + 1..].iter().find_map(|entry| match entry {
                FrameEntry::Block { start, .. } => Some(*start),
                _ => None,
            });
            let payload = &self.payloads[start..next.unwrap_or(self.payloads.len())];
            let continues = (head.kind == CONTINUATION).then_some(head.stream);
            if open != continues {
                return ConnectionFault::Protocol;
            }
            open = (!head.ends_headers()).then_some(head.stream);
            if head.kind == HEADERS {
                block.clear();
                is_doubtful |= !is_new;
                match fragment(head, payload) {
                    Ok(fragment) => block.extend_from_slice(fragment),
                    Err(fault) => return fault,
                }
            } else {
                block.extend_from_slice(payload);
            }
            match verdict(&block, head.ends_headers()) {
                BlockVerdict::Undecodable => return ConnectionFault::Compression,
                BlockVerdict::Malformed => return ConnectionFault::Protocol,
                BlockVerdict::Sound { is_dynamic: refers } => is_dynamic |= refers,
            }
        }
        if is_dynamic && !is_doubtful { ConnectionFault::Compression } else { ConnectionFault::Protocol }
    }
}

/// Whether the length of a frame is not one that its kind has.
fn has_wrong_size(head: FrameHead) -> bool {
    const ACK: u8 = 1;
    let FrameHead { kind, length, flags, .. } = head;
    match kind {
        // PRIORITY, RST_STREAM, PING, WINDOW_UPDATE
        2 => length != 5,
        3 | 8 => length != 4,
        6 => length != 8,
        // SETTINGS
        4 if flags & ACK != 0 => length != 0,
        4 => length % 6 != 0,
        // GOAWAY
        7 => length < 8,
        _ => false,
    }
}

/// The fragment of a header block in the payload of a HEADERS frame.
fn fragment(head: FrameHead, payload: &[u8]) -> Result<&[u8], ConnectionFault> {
    const PADDED: u8 = 0x8;
    const PRIORITY: u8 = 0x20;
    let is_whole = u64::from(head.length) == payload.len() as u64;
    let (mut rest, mut padding) = (payload, 0);
    if head.flags & PADDED != 0 {
        let (length, behind) = rest.split_first().ok_or(ConnectionFault::FrameSize)?;
        (padding, rest) = (usize::from(*length), behind);
    }
    if head.flags & PRIORITY != 0 {
        rest = rest.get(5..).ok_or(ConnectionFault::FrameSize)?;
    }
    let end = if is_whole { rest.len().checked_sub(padding) } else { Some(rest.len()) };
    end.map(|end| &rest[..end]).ok_or(ConnectionFault::Protocol)
}

/// Why a block was not read to its end.
enum Stop {
    /// It ends within a field.
    Short,
    Bad,
}

/// Looks at a header block, of which more may follow unless it `is_whole`.
fn verdict(block: &[u8], is_whole: bool) -> BlockVerdict {
    let (mut rest, mut is_dynamic, mut may_resize) = (block, false, true);
    while !rest.is_empty() {
        match field(&mut rest, &mut may_resize) {
            Ok(FieldFound::Sound { refers }) => is_dynamic |= refers,
            Ok(FieldFound::Malformed) => return BlockVerdict::Malformed,
            Err(Stop::Short) if !is_whole => break,
            Err(_) => return BlockVerdict::Undecodable,
        }
    }
    BlockVerdict::Sound { is_dynamic }
}

enum FieldFound {
    /// With `refers`, to the dynamic table.
    Sound {
        refers: bool,
    },
    Malformed,
}

/// The entries of the static table, and the most that a dynamic table of 4096 bytes behind it has.
const STATIC_ENTRIES: u32 = 61;
const DYNAMIC_ENTRIES_MAX: u32 = 4096 / 32;

/// Reads a field, or a change of the table's size (RFC 7541, section 6).
fn field(rest: &mut &[u8], may_resize: &mut bool) -> Result<FieldFound, Stop> {
    let first = *rest.first().ok_or(Stop::Short)?;
    let (prefix, is_indexed) = match first {
        0x80.. => (7, true),
        0x40.. => (6, false),
        0x20.. => {
            let size = integer(rest, 5)?;
            let is_allowed = *may_resize && size <= 4096;
            return if is_allowed { Ok(FieldFound::Sound { refers: false }) } else { Err(Stop::Bad) };
        }
        _ => (4, false),
    };
    *may_resize = false;
    let index = integer(rest, prefix)?;
    if index > STATIC_ENTRIES + DYNAMIC_ENTRIES_MAX || (is_indexed && index == 0) {
        return Err(Stop::Bad);
    }
    let refers = index > STATIC_ENTRIES;
    if is_indexed {
        return Ok(FieldFound::Sound { refers });
    }
    let name = if index == 0 { Some(string(rest)?) } else { None };
    let value = string(rest)?;
    let is_sound = name.is_none_or(|name| is_name(&name)) && value.iter().all(|&byte| is_value_byte(byte));
    Ok(if is_sound { FieldFound::Sound { refers } } else { FieldFound::Malformed })
}

fn is_name(name: &[u8]) -> bool {
    const PSEUDO: [&[u8]; 6] = [b"authority", b"method", b"path", b"protocol", b"scheme", b"status"];
    match name {
        [] => false,
        [b':', name @ ..] => PSEUDO.contains(&name),
        name => name.iter().all(|&byte| is_token_byte(byte) && !byte.is_ascii_uppercase()),
    }
}

/// Reads an integer with a prefix of so many bits (RFC 7541, section 5.1), of five bytes at most, as the library does.
fn integer(rest: &mut &[u8], prefix: u32) -> Result<u32, Stop> {
    let mask = (1u32 << prefix) - 1;
    let (first, behind) = rest.split_first().ok_or(Stop::Short)?;
    *rest = behind;
    let mut value = u32::from(*first) & mask;
    if value < mask {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let (byte, behind) = rest.split_first().ok_or(Stop::Short)?;
        *rest = behind;
        value += u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Stop::Bad)
}

/// Reads a string (RFC 7541, section 5.2).
fn string(rest: &mut &[u8]) -> Result<Vec<u8>, Stop> {
    let is_coded = *rest.first().ok_or(Stop::Short)? & 0x80 != 0;
    let length = integer(rest, 7)? as usize;
    if length > rest.len() {
        return Err(Stop::Short);
    }
    let (bytes, behind) = rest.split_at(length);
    *rest = behind;
    if is_coded { decoded(bytes).ok_or(Stop::Bad) } else { Ok(bytes.to_vec()) }
}

/// Decodes a string in the Huffman code of RFC 7541. The code is canonical: codes of one length are consecutive numbers, in
/// the order of what they stand for, and begin behind those that are shorter.
fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut code, mut length) = (0u32, 0u8);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |place| byte >> place & 1)) {
        (code, length) = (code << 1 | u32::from(bit), length + 1);
        if length > 30 {
            return None;
        }
        if let Some(symbol) = symbol(code, length) {
            out.push(symbol);
            (code, length) = (0, 0);
        }
    }
    // What is left is the beginning of the end's code, which is ones, and less than a byte.
    (length < 8 && code == (1 << length) - 1).then_some(out)
}

/// What a code of so many bits stands for.
fn symbol(code: u32, length: u8) -> Option<u8> {
    let mut first = 0u32;
    for shorter in 1..length {
        first = (first + count(shorter)) << 1;
    }
    let place = code.checked_sub(first)? as usize;
    let of_length = |symbol: &u8| CODE_LENGTHS[usize::from(*symbol)] == length;
    (0..=u8::MAX).filter(of_length).nth(place)
}

fn count(length: u8) -> u32 {
    CODE_LENGTHS.iter().map(|&other| u32::from(other == length)).sum()
}

/// The lengths of the codes, in bits (RFC 7541, appendix B).
#[rustfmt::skip]
const CODE_LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];
