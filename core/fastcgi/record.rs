//! The header of a record, and the stream of records that a connection receives.
//!
//! A record is read in pieces: its header, its content as it arrives, its end. Padding is skipped. No content is kept, so
//! that the size of records does not matter.

use super::fault::Fault;

/// The length of a header.
pub(super) const HEADER_BYTES: usize = 8;

/// The longest content of a record that svc sends. PHP accepts no more than 65,528 bytes including padding.
pub const RECORD_CONTENT_MAX: usize = 65_528;

/// The version of the protocol.
const VERSION: u8 = 1;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordType {
    /// Begins a request.
    BeginRequest = 1,
    /// The client of the web server has disconnected.
    AbortRequest = 2,
    /// Ends a response.
    EndRequest = 3,
    /// Name-value pairs of a request.
    Params = 4,
    /// The body of a request.
    Stdin = 5,
    /// The response, header first.
    Stdout = 6,
    /// Messages for the log.
    Stderr = 7,
    /// The second body of a filter's request.
    Data = 8,
    /// Queries properties of the responder.
    GetValues = 9,
    /// The answer to [`GetValues`](Self::GetValues).
    GetValuesResult = 10,
    /// The responder does not know the type of a management record.
    UnknownType = 11,
}

impl RecordType {
    const ALL: [Self; 11] = [
        Self::BeginRequest,
        Self::AbortRequest,
        Self::EndRequest,
        Self::Params,
        Self::Stdin,
        Self::Stdout,
        Self::Stderr,
        Self::Data,
        Self::GetValues,
        Self::GetValuesResult,
        Self::UnknownType,
    ];

    /// Returns the type with this number, if the protocol defines one.
    pub fn of(number: u8) -> Option<Self> {
        usize::from(number).checked_sub(1).and_then(|at| Self::ALL.get(at)).copied()
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The number of the type, which the protocol need not define.
    pub kind: u8,
    /// The request that it belongs to; 0 for management.
    pub request_id: u16,
    /// The number of bytes of content.
    pub content_len: u16,
    /// The number of bytes to skip after the content.
    pub padding_len: u8,
}

impl RecordHeader {
    /// Makes the header of a record for `content`, padded to a multiple of eight bytes.
    ///
    /// # Panics
    ///
    /// In debug builds, if the content is longer than [`RECORD_CONTENT_MAX`].
    pub(super) fn of(kind: RecordType, request_id: u16, content: &[u8]) -> Self {
        debug_assert!(content.len() <= RECORD_CONTENT_MAX, "the content has to be split");
        let content_len = content.len().min(RECORD_CONTENT_MAX) as u16;
        Self {
            kind: kind as u8,
            request_id,
            content_len,
            padding_len: (content_len.wrapping_neg() % 8) as u8,
        }
    }

    /// Returns the bytes of the header.
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let [id_high, id_low] = self.request_id.to_be_bytes();
        let [len_high, len_low] = self.content_len.to_be_bytes();
        [VERSION, self.kind, id_high, id_low, len_high, len_low, self.padding_len, 0]
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// [`Fault::UnknownVersion`].
    pub(super) fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, Fault> {
        let [version, kind, id_high, id_low, len_high, len_low, padding_len, _] = bytes;
        if version != VERSION {
            return Err(Fault::UnknownVersion(version));
        }
        Ok(Self {
            kind,
            request_id: u16::from_be_bytes([id_high, id_low]),
            content_len: u16::from_be_bytes([len_high, len_low]),
            padding_len,
        })
    }
}

/// Appends a record.
pub(super) fn put(kind: RecordType, request_id: u16, content: &[u8], out: &mut Vec<u8>) {
    let header = RecordHeader::of(kind, request_id, content);
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; 8][..usize::from(header.padding_len)]);
}

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPiece<'b> {
    /// A record begins.
    Begin(RecordHeader),
    /// Content of the record that began last; never empty.
    Content(&'b [u8]),
    /// All of its content has arrived.
    End,
}

/// Splits a stream of bytes into records.
///
/// ```text
///   Header ──eight bytes──▶ Content ──all of it──▶ Padding ──all of it──▶ Header
/// ```
#[derive(Debug)]
pub struct RecordReader {
    state: ReaderState,
}

#[derive(Clone, Copy, Debug)]
enum ReaderState {
    Header { bytes: [u8; HEADER_BYTES], filled: usize },
    Content { left: u16, padding: u8 },
    Padding { left: u8 },
}

impl Default for RecordReader {
    fn default() -> Self {
        Self { state: ReaderState::Header { bytes: [0; HEADER_BYTES], filled: 0 } }
    }
}

impl RecordReader {
    /// Takes the next piece off `bytes`; `None` if more bytes are needed, after taking all.
    ///
    /// # Errors
    ///
    /// [`Fault::UnknownVersion`]; the reader must not be used again.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<RecordPiece<'b>>, Fault> {
        loop {
            match &mut self.state {
                ReaderState::Header { bytes: header, filled } => {
                    let taken = take(bytes, HEADER_BYTES - *filled);
                    header[*filled..*filled + taken.len()].copy_from_slice(taken);
                    *filled += taken.len();
                    if *filled < HEADER_BYTES {
                        return Ok(None);
                    }
                    let header = RecordHeader::decode(*header)?;
                    self.state =
                        ReaderState::Content { left: header.content_len, padding: header.padding_len };
                    return Ok(Some(RecordPiece::Begin(header)));
                }
                ReaderState::Content { left: 0, padding } => {
                    self.state = ReaderState::Padding { left: *padding };
                    return Ok(Some(RecordPiece::End));
                }
                ReaderState::Content { left, .. } => {
                    let taken = take(bytes, usize::from(*left));
                    *left -= taken.len() as u16;
                    return Ok((!taken.is_empty()).then_some(RecordPiece::Content(taken)));
                }
                ReaderState::Padding { left } => {
                    *left -= take(bytes, usize::from(*left)).len() as u8;
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.state = Self::default().state;
                }
            }
        }
    }

    /// Takes back the last `count` bytes of the content that was returned last, which the caller will pass in again.
    pub(super) fn put_back(&mut self, count: usize) {
        if let ReaderState::Content { left, .. } = &mut self.state {
            *left += count as u16;
        }
    }

    /// Returns whether a part of a header has arrived.
    pub(super) fn is_within_header(&self) -> bool {
        matches!(self.state, ReaderState::Header { filled: 1.., .. })
    }
}

/// Takes up to `max` bytes off the front of `bytes`.
fn take<'b>(bytes: &mut &'b [u8], max: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(max.min(bytes.len()));
    *bytes = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut bytes: &[u8]) -> Vec<RecordPiece<'_>> {
        let mut reader = RecordReader::default();
        let mut found = Vec::new();
        while let Some(piece) = reader.next(&mut bytes).unwrap() {
            found.push(piece);
        }
        assert!(bytes.is_empty(), "the reader takes all bytes");
        found
    }

    #[test]
    fn a_record_is_padded_to_eight_bytes() {
        for len in [0, 1, 7, 8, 9, RECORD_CONTENT_MAX] {
            let mut out = Vec::new();
            put(RecordType::Stdin, 1, &vec![b'x'; len], &mut out);
            assert_eq!(out.len() % 8, 0, "{len}");
            assert_eq!(pieces(&out).len(), if len == 0 { 2 } else { 3 }, "{len}");
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = RecordHeader { kind: 200, request_id: 0x1234, content_len: 0xfedc, padding_len: 255 };
        assert_eq!(RecordHeader::decode(header.encode()), Ok(header));
    }

    #[test]
    fn another_version_is_a_fault() {
        let mut bytes = &[2, 6, 0, 1, 0, 0, 0, 0][..];
        assert_eq!(RecordReader::default().next(&mut bytes), Err(Fault::UnknownVersion(2)));
    }

    #[test]
    fn pieces_do_not_depend_on_how_bytes_arrive() {
        let mut out = Vec::new();
        put(RecordType::Stdout, 1, b"0123456789", &mut out);
        put(RecordType::Stderr, 1, b"", &mut out);
        let mut reader = RecordReader::default();
        let (mut content, mut ends) = (Vec::new(), 0);
        for at in 0..out.len() {
            let mut byte = &out[at..=at];
            while let Some(piece) = reader.next(&mut byte).unwrap() {
                match piece {
                    RecordPiece::Content(bytes) => content.extend_from_slice(bytes),
                    RecordPiece::End => ends += 1,
                    RecordPiece::Begin(_) => {}
                }
            }
        }
        assert_eq!((&content[..], ends), (&b"0123456789"[..], 2));
        assert!(!reader.is_within_header());
    }

    #[test]
    fn every_defined_type_has_its_number() {
        for number in 0..=255 {
            assert_eq!(
                RecordType::of(number).map(|kind| kind as u8),
                (1..=11).contains(&number).then_some(number)
            );
        }
    }
}
