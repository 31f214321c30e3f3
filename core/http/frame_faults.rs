//! The error code of RFC 9113 for a connection that the framing library has ended.
//!
//! The library reports every connection error as PROTOCOL_ERROR. This distinguishes FRAME_SIZE_ERROR, COMPRESSION_ERROR, the
//! FLOW_CONTROL_ERROR of a setting, and STREAM_CLOSED for DATA after the end of a request. Frames are examined only after
//! the library has reported an error, and only those that it had not processed are kept. There is no dynamic table: a block
//! that refers to the table is at fault if no other frame is.

use crate::limits::HTTP2_STREAMS_MAX;

use super::frame_heads::{CONTINUATION, DATA, FrameHead, HEADERS, RST_STREAM};
use super::token::{is_token_byte, is_value_byte};

/// The frames that the library may not have processed yet.
#[derive(Debug, Default)]
pub(super) struct FrameFaults {
    entries: Vec<FrameEntry>,
    /// The concatenated payloads of frames that are kept with them.
    payloads: Vec<u8>,
    /// Whether frames were dropped because a limit was reached.
    is_cut: bool,
    /// The streams on which the client may send DATA, the latest last.
    open: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum FrameEntry {
    /// A frame that is kept with its payload, which begins at `start`; `is_new` if its stream is idle.
    Whole { head: FrameHead, is_new: bool, start: usize },
    /// DATA on a stream that the client has ended or reset.
    LateData,
    /// A frame whose length is invalid for its type.
    WrongSize,
    /// A frame that may be at fault in other ways.
    Other,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// A header block cannot be decompressed.
    Compression,
    /// The initial size of flow-control windows exceeds the maximum.
    FlowControl,
    /// The length of a frame is invalid for its type.
    FrameSize,
    /// Anything else.
    Protocol,
    /// The client has ended or reset the stream of a DATA frame.
    StreamClosed,
}

/// The result of parsing a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockVerdict {
    /// It is valid, unless a reference to the dynamic table is not.
    Sound { is_dynamic: bool },
    /// It can be decompressed, and contains an invalid field.
    Malformed,
    /// It cannot be decompressed.
    Undecodable,
}

/// The maximum number of payload bytes kept: two frames of the maximum size.
const KEPT_BYTES_MAX: usize = 32 * 1024;

/// The maximum number of frames kept.
const KEPT_FRAMES_MAX: usize = 256;

/// The maximum number of streams that are known to be open. If the client opens more, which the server refuses, DATA on the
/// first ones counts as late if the connection ends at that time.
const OPEN_STREAMS_MAX: usize = 2 * HTTP2_STREAMS_MAX as usize;

/// An empty buffer of up to this capacity is kept.
const SPARE_BYTES: usize = 1024;

impl ConnectionFault {
    /// Returns the error code of HTTP/2.
    pub const fn code(self) -> u32 {
        match self {
            Self::Protocol => 1,
            Self::FlowControl => 3,
            Self::StreamClosed => 5,
            Self::FrameSize => 6,
            Self::Compression => 9,
        }
    }
}

impl FrameFaults {
    /// Returns whether the payloads of frames of this type are kept.
    pub(super) fn keeps_payload(kind: u8) -> bool {
        matches!(kind, HEADERS | CONTINUATION | SETTINGS | PING | WINDOW_UPDATE)
    }

    /// Records the head of a frame; `is_new` if its stream is idle.
    pub(super) fn begin(&mut self, head: FrameHead, is_new: bool) {
        // The library does not consider the stream of DATA whose padding is invalid.
        let is_late = head.kind == DATA && head.flags & PADDED == 0 && self.has_closed(head.stream, is_new);
        self.note_stream(head, is_new);
        let entry = match head.kind {
            _ if has_wrong_size(head) => FrameEntry::WrongSize,
            _ if is_late => FrameEntry::LateData,
            kind if Self::keeps_payload(kind) => {
                FrameEntry::Whole { head, is_new, start: self.payloads.len() }
            }
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

    /// Returns whether the client has ended or reset this stream.
    fn has_closed(&self, stream: u32, is_new: bool) -> bool {
        stream % 2 == 1 && !is_new && !self.open.contains(&stream)
    }

    /// Records that a frame opens or closes its stream.
    fn note_stream(&mut self, head: FrameHead, is_new: bool) {
        if head.ends_stream() || head.kind == RST_STREAM {
            self.open.retain(|stream| *stream != head.stream);
        } else if head.kind == HEADERS && is_new {
            if self.open.len() == OPEN_STREAMS_MAX {
                self.open.remove(0);
            }
            self.open.push(head.stream);
        }
    }

    /// Records a part of the payload of the frame that began last.
    pub(super) fn add(&mut self, payload: &[u8]) {
        if self.payloads.len() + payload.len() <= KEPT_BYTES_MAX {
            self.payloads.extend_from_slice(payload);
        } else {
            self.is_cut = true;
        }
    }

    /// Drops the frames that the library has processed: all, unless the last one or its header block `is_unfinished`.
    pub(super) fn settle(&mut self, is_unfinished: bool) {
        let begins_block =
            |entry: &FrameEntry| matches!(entry, FrameEntry::Whole { head, .. } if head.kind == HEADERS);
        let is_whole = |entry: &FrameEntry| matches!(entry, FrameEntry::Whole { .. });
        let block = self.entries.iter().rposition(begins_block);
        let first_kept = block.or_else(|| self.entries.iter().rposition(is_whole));
        match first_kept.filter(|_| is_unfinished) {
            Some(0) => {}
            Some(place) => {
                self.entries.drain(..place);
                let FrameEntry::Whole { start: first, .. } = self.entries[0] else { return };
                self.payloads.drain(..first);
                for entry in &mut self.entries {
                    if let FrameEntry::Whole { start, .. } = entry {
                        *start -= first;
                    }
                }
            }
            None => {
                // The library processes no frame after one of these.
                let is_last =
                    |entry: &FrameEntry| matches!(entry, FrameEntry::LateData | FrameEntry::WrongSize);
                self.entries.retain(|entry| is_unfinished && is_last(entry));
                self.payloads.clear();
                self.is_cut = false;
                if self.payloads.capacity() > SPARE_BYTES {
                    self.payloads = Vec::new();
                }
            }
        }
    }

    /// Returns the fault of the first frame that has one.
    pub(super) fn fault(&self) -> ConnectionFault {
        // The stream whose block continues in the next frame.
        let (mut block, mut open) = (Vec::new(), None);
        let (mut is_dynamic, mut is_doubtful) = (false, self.is_cut);
        for (place, entry) in self.entries.iter().enumerate() {
            let (head, is_new, start) = match *entry {
                FrameEntry::Whole { head, is_new, start } => (head, is_new, start),
                FrameEntry::WrongSize => return ConnectionFault::FrameSize,
                FrameEntry::LateData if open.is_none() => return ConnectionFault::StreamClosed,
                FrameEntry::LateData => return ConnectionFault::Protocol,
                FrameEntry::Other => {
                    is_doubtful = true;
                    continue;
                }
            };
            let next = self.entries[place + 1..].iter().find_map(|entry| match entry {
                FrameEntry::Whole { start, .. } => Some(*start),
                _ => None,
            });
            let payload = &self.payloads[start..next.unwrap_or(self.payloads.len())];
            // The payload of a frame without an entry may follow.
            let payload = &payload[..payload.len().min(head.length as usize)];
            let continues = (head.kind == CONTINUATION).then_some(head.stream);
            if open != continues {
                return ConnectionFault::Protocol;
            }
            if !matches!(head.kind, HEADERS | CONTINUATION) {
                if let Some(fault) = control_fault(head, is_new, payload) {
                    return fault;
                }
                continue;
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

/// Frame types (RFC 9113, section 6).
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// A flag of DATA and HEADERS: the payload begins with the length of its padding.
const PADDED: u8 = 0x8;

/// Returns whether the length of a frame is invalid for its type.
fn has_wrong_size(head: FrameHead) -> bool {
    const ACK: u8 = 1;
    let FrameHead { kind, length, flags, .. } = head;
    match kind {
        DATA => flags & PADDED != 0 && length == 0,
        // PRIORITY, RST_STREAM
        2 => length != 5,
        3 | WINDOW_UPDATE => length != 4,
        PING => length != 8,
        SETTINGS if flags & ACK != 0 => length != 0,
        SETTINGS => length % 6 != 0,
        // GOAWAY
        7 => length < 8,
        _ => false,
    }
}

/// Returns the fault of SETTINGS, PING or WINDOW_UPDATE, of a valid length; `None` if it is valid.
fn control_fault(head: FrameHead, is_new: bool, payload: &[u8]) -> Option<ConnectionFault> {
    const RESERVED: u8 = 0x80;
    if head.kind != WINDOW_UPDATE {
        if head.stream != 0 {
            return Some(ConnectionFault::Protocol);
        }
        let mut settings = payload.chunks_exact(6).filter(|_| head.kind == SETTINGS);
        let wrong = settings.find(|setting| !is_sound_setting(setting))?;
        let is_window = wrong.starts_with(&INITIAL_WINDOW_SIZE.to_be_bytes());
        return Some(if is_window { ConnectionFault::FlowControl } else { ConnectionFault::Protocol });
    }
    // The library has not processed an incomplete frame.
    let is_increment = payload.first_chunk().is_none_or(|&[first, rest @ ..]: &[u8; 4]| {
        u32::from_be_bytes([first & !RESERVED, rest[0], rest[1], rest[2]]) != 0
    });
    let is_idle = head.stream != 0 && (is_new || head.stream.is_multiple_of(2));
    (!is_increment || is_idle).then_some(ConnectionFault::Protocol)
}

/// The setting whose invalid values are an error of flow control.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// Returns whether a setting has a valid value (RFC 9113, section 6.5.2).
fn is_sound_setting(setting: &[u8]) -> bool {
    let [a, b, value @ ..] = setting else { return false };
    let value = value.iter().fold(0, |value, &byte| value << 8 | u32::from(byte));
    match u16::from_be_bytes([*a, *b]) {
        // ENABLE_PUSH, MAX_FRAME_SIZE, ENABLE_CONNECT_PROTOCOL
        2 | 8 => value <= 1,
        INITIAL_WINDOW_SIZE => value < 1 << 31,
        5 => (1 << 14..1 << 24).contains(&value),
        _ => true,
    }
}

/// Returns the fragment of a header block in the payload of a HEADERS frame.
fn fragment(head: FrameHead, payload: &[u8]) -> Result<&[u8], ConnectionFault> {
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

/// The reason why a block could not be parsed to its end.
enum Stop {
    /// It ends within a field.
    Short,
    Bad,
}

/// Parses a header block, of which more may follow unless it `is_whole`.
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
    /// A valid field; `refers` if it refers to the dynamic table.
    Sound {
        refers: bool,
    },
    Malformed,
}

/// The entries of the static table, and the maximum of a dynamic table of 4096 bytes.
const STATIC_ENTRIES: u32 = 61;
const DYNAMIC_ENTRIES_MAX: u32 = 4096 / 32;

/// Parses a field, or a dynamic table size update (RFC 7541, section 6).
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

/// Parses an integer with a prefix of this many bits (RFC 7541, section 5.1), of at most five bytes, as the library does.
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

/// Parses a string (RFC 7541, section 5.2).
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

/// Decodes a string in the Huffman code of RFC 7541. The code is canonical: codes of one length are consecutive numbers in
/// the order of their symbols, and follow those that are shorter.
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
    // Padding is the most significant bits of EOS, which are ones, and less than a byte.
    (length < 8 && code == (1 << length) - 1).then_some(out)
}

/// Returns the symbol of a code of this many bits.
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
