//! Request bodies: fixed lengths and the chunked transfer coding, decoded as the bytes arrive.
//!
//! Exactly the bytes of the body are consumed, so that the next request starts right after them. The limit on the
//! decoded length is enforced before memory is used. Lenient chunk lines (bare LF, signs, spaces before a size, missing
//! line ends) are rejected. Chunk extensions and trailer fields are validated, limited and dropped. So are blanks after
//! a size: RFC 9112, section 7.1.1, allows them before an extension, and old clients pad sizes with them.

use std::fmt;

use super::framing::BodyFraming;
use super::token::{is_token_byte, is_value_byte};
use crate::limits::{CHUNK_EXTENSION_BYTES_MAX, TRAILER_BYTES_MAX};

/// Decodes the body of one request.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: DecoderState,
    body_bytes_left: u64,
    extension_bytes_left: usize,
    trailer_bytes_left: usize,
}

/// The result of one call of [`BodyDecoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyProgress {
    /// The number of input bytes that belonged to the body.
    pub consumed: usize,
    /// Whether the body has ended; the rest of the input is another request.
    pub done: bool,
}

/// Why a body was rejected. It is always the client's fault, and the connection always ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The chunked transfer coding is malformed.
    ChunkInvalid,
    /// The chunk extensions exceed the limit.
    ExtensionsTooLong,
    /// The body exceeds the limit.
    TooLarge,
    /// A trailer field is malformed.
    TrailerInvalid,
    /// The trailer section exceeds the limit.
    TrailerTooLong,
}

/// The state of the decoder; the chunked states are in the order in which they occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    Fixed { left: u64 },
    Framed,
    SizeFirst,
    Size { size: u64, digits: u8 },
    SizeBlank { size: u64 },
    Extension { size: u64 },
    SizeLineFeed { size: u64 },
    Data { left: u64 },
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

impl BodyDecoder {
    /// Creates a decoder before the first byte of the body.
    ///
    /// # Errors
    ///
    /// `TooLarge` if the length is known and above `body_bytes_max`.
    pub fn new(framing: BodyFraming, body_bytes_max: u64) -> Result<Self, BodyError> {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => DecoderState::Done,
            BodyFraming::Length(length) if length > body_bytes_max => return Err(BodyError::TooLarge),
            BodyFraming::Length(left) => DecoderState::Fixed { left },
            BodyFraming::Chunked => DecoderState::SizeFirst,
            BodyFraming::Framed => DecoderState::Framed,
        };
        Ok(Self {
            state,
            body_bytes_left: body_bytes_max,
            extension_bytes_left: CHUNK_EXTENSION_BYTES_MAX,
            trailer_bytes_left: TRAILER_BYTES_MAX,
        })
    }

    /// Removes the length limit: from now on, the body is discarded.
    #[must_use]
    pub fn without_limit(self) -> Self {
        Self { body_bytes_left: u64::MAX, ..self }
    }

    /// Returns whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == DecoderState::Done
    }

    /// Returns the number of body bytes to come; `None` if the message does not state it.
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            DecoderState::Fixed { left } => Some(left),
            DecoderState::Done => Some(0),
            _ => None,
        }
    }

    /// Signals that the protocol below has ended the body. This has no effect on other framings.
    pub fn end(&mut self) {
        if self.state == DecoderState::Framed {
            self.state = DecoderState::Done;
        }
    }

    /// Appends the body bytes in `input` to `out` and stops at the end of the body.
    ///
    /// # Errors
    ///
    /// If the coding is malformed or a limit is exceeded. The decoder cannot be used afterwards.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<BodyProgress, BodyError> {
        let mut at = 0;
        while let (Some(&byte), false) = (input.get(at), self.is_done()) {
            if self.state == DecoderState::Framed {
                let data = &input[at..];
                self.body_bytes_left =
                    self.body_bytes_left.checked_sub(data.len() as u64).ok_or(BodyError::TooLarge)?;
                out.extend_from_slice(data);
                at = input.len();
            } else if let DecoderState::Fixed { left } | DecoderState::Data { left } = self.state {
                let data = &input[at..];
                let data = &data[..usize::try_from(left).map_or(data.len(), |left| left.min(data.len()))];
                out.extend_from_slice(data);
                at += data.len();
                self.state = self.after_data(left - data.len() as u64);
            } else {
                self.state = self.step(byte)?;
                at += 1;
            }
        }
        Ok(BodyProgress { consumed: at, done: self.is_done() })
    }

    fn after_data(&self, left: u64) -> DecoderState {
        match (self.state, left) {
            (DecoderState::Fixed { .. }, 0) => DecoderState::Done,
            (DecoderState::Fixed { .. }, left) => DecoderState::Fixed { left },
            (_, 0) => DecoderState::DataReturn,
            (_, left) => DecoderState::Data { left },
        }
    }

    fn step(&mut self, byte: u8) -> Result<DecoderState, BodyError> {
        match (self.state, byte) {
            (DecoderState::SizeFirst, _) => digit(0, 0, byte),
            (
                DecoderState::Size { size, .. }
                | DecoderState::SizeBlank { size }
                | DecoderState::Extension { size },
                b'\r',
            ) => Ok(DecoderState::SizeLineFeed { size }),
            (DecoderState::Size { size, .. } | DecoderState::SizeBlank { size }, b';') => {
                self.extension(size, byte)
            }
            (DecoderState::Size { size, .. } | DecoderState::SizeBlank { size }, b' ' | b'\t') => {
                self.extension(size, byte).map(|_| DecoderState::SizeBlank { size })
            }
            (DecoderState::Size { size, digits }, _) => digit(size, digits, byte),
            (DecoderState::SizeBlank { .. }, _) => Err(BodyError::ChunkInvalid),
            (DecoderState::Extension { size }, _) => self.extension(size, byte),
            (DecoderState::SizeLineFeed { size: 0 }, b'\n') => Ok(DecoderState::TrailerStart),
            (DecoderState::SizeLineFeed { size }, b'\n') => self.chunk(size),
            (DecoderState::DataReturn, b'\r') => Ok(DecoderState::DataLineFeed),
            (DecoderState::DataLineFeed, b'\n') => Ok(DecoderState::SizeFirst),
            (DecoderState::EndLineFeed, b'\n') => Ok(DecoderState::Done),
            (
                DecoderState::SizeLineFeed { .. }
                | DecoderState::DataReturn
                | DecoderState::DataLineFeed
                | DecoderState::EndLineFeed,
                _,
            ) => Err(BodyError::ChunkInvalid),
            _ => self.trailer(byte),
        }
    }

    fn extension(&mut self, size: u64, byte: u8) -> Result<DecoderState, BodyError> {
        if !is_value_byte(byte) {
            return Err(BodyError::ChunkInvalid);
        }
        self.extension_bytes_left =
            self.extension_bytes_left.checked_sub(1).ok_or(BodyError::ExtensionsTooLong)?;
        Ok(DecoderState::Extension { size })
    }

    fn chunk(&mut self, size: u64) -> Result<DecoderState, BodyError> {
        self.body_bytes_left = self.body_bytes_left.checked_sub(size).ok_or(BodyError::TooLarge)?;
        Ok(DecoderState::Data { left: size })
    }

    fn trailer(&mut self, byte: u8) -> Result<DecoderState, BodyError> {
        let next = match (self.state, byte) {
            (DecoderState::TrailerStart, b'\r') => return Ok(DecoderState::EndLineFeed),
            (DecoderState::TrailerName, b':') => DecoderState::TrailerValue,
            (DecoderState::TrailerStart | DecoderState::TrailerName, _) if is_token_byte(byte) => {
                DecoderState::TrailerName
            }
            (DecoderState::TrailerValue, b'\r') => DecoderState::TrailerLineFeed,
            (DecoderState::TrailerValue, _) if is_value_byte(byte) => DecoderState::TrailerValue,
            (DecoderState::TrailerLineFeed, b'\n') => DecoderState::TrailerStart,
            _ => return Err(BodyError::TrailerInvalid),
        };
        self.trailer_bytes_left = self.trailer_bytes_left.checked_sub(1).ok_or(BodyError::TrailerTooLong)?;
        Ok(next)
    }
}

impl BodyError {
    /// Returns the status code of the response.
    pub const fn status(self) -> u16 {
        match self {
            Self::ChunkInvalid | Self::ExtensionsTooLong | Self::TrailerInvalid => 400,
            Self::TooLarge => 413,
            Self::TrailerTooLong => 431,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChunkInvalid => "the chunked transfer coding is malformed",
            Self::ExtensionsTooLong => "the chunk extensions are too long",
            Self::TooLarge => "the body is too large",
            Self::TrailerInvalid => "a trailer field is malformed",
            Self::TrailerTooLong => "the trailer section is too long",
        })
    }
}

impl std::error::Error for BodyError {}

/// The maximum number of digits of a chunk size, which is that of 64 bits, including leading zeros.
const SIZE_DIGITS_MAX: u8 = 16;

fn digit(size: u64, digits: u8, byte: u8) -> Result<DecoderState, BodyError> {
    let value = char::from(byte).to_digit(16).ok_or(BodyError::ChunkInvalid)?;
    if digits == SIZE_DIGITS_MAX {
        return Err(BodyError::ChunkInvalid);
    }
    Ok(DecoderState::Size { size: size << 4 | u64::from(value), digits: digits + 1 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: u64 = 1 << 20;

    /// Decodes in pieces that end at `cuts`; returns the body and the remaining input.
    fn decode(
        framing: BodyFraming,
        input: &[u8],
        cuts: &[usize],
    ) -> Result<(Vec<u8>, usize, bool), BodyError> {
        let mut decoder = BodyDecoder::new(framing, LIMIT)?;
        let (mut body, mut consumed) = (Vec::new(), 0);
        for end in cuts.iter().copied().chain([input.len()]) {
            consumed += decoder.decode(&input[consumed..end.max(consumed)], &mut body)?.consumed;
        }
        Ok((body, consumed, decoder.is_done()))
    }

    fn chunked(input: &[u8]) -> Result<(Vec<u8>, usize, bool), BodyError> {
        decode(BodyFraming::Chunked, input, &[])
    }

    #[test]
    fn a_fixed_body_stops_at_its_length() {
        assert_eq!(decode(BodyFraming::Length(3), b"abcGET", &[]), Ok((b"abc".to_vec(), 3, true)));
        assert_eq!(decode(BodyFraming::Length(3), b"ab", &[]), Ok((b"ab".to_vec(), 2, false)));
        assert_eq!(decode(BodyFraming::Length(0), b"GET", &[]), Ok((vec![], 0, true)));
        assert_eq!(decode(BodyFraming::None, b"GET", &[]), Ok((vec![], 0, true)));
    }

    #[test]
    fn chunks_join_and_the_next_request_is_left() {
        let input = b"3\r\nabc\r\n000A;x=\"y\"\r\n0123456789\r\n0\r\n\r\nGET";
        assert_eq!(chunked(input), Ok((b"abc0123456789".to_vec(), input.len() - 3, true)));
    }

    #[test]
    fn blanks_behind_a_size_are_dropped_within_the_limit_of_extensions() {
        for blanks in [" ", "\t", "  \t ", " ;a=b", "\t ; a = b", " ; a"] {
            let input = format!("3{blanks}\r\nabc\r\n0{blanks}\r\n\r\nGET");
            assert_eq!(chunked(input.as_bytes()), Ok((b"abc".to_vec(), input.len() - 3, true)), "{blanks:?}");
        }
        let padded = format!("1{}\r\na\r\n", " ".repeat(CHUNK_EXTENSION_BYTES_MAX + 1));
        assert_eq!(chunked(padded.as_bytes()), Err(BodyError::ExtensionsTooLong));
    }

    #[test]
    fn trailer_fields_are_read_and_dropped() {
        let input = b"1\r\na\r\n0;last\r\nX-Sum: 1\r\nEmpty:\r\n\r\n";
        assert_eq!(chunked(input), Ok((b"a".to_vec(), input.len(), true)));
    }

    #[test]
    fn lenient_chunk_lines_are_refused() {
        for input in [
            "\r\n",
            "3\nabc\r\n",
            "3\r\nabc\n",
            "3\r\nabcd",
            " 3\r\n",
            "\t3\r\n",
            "3 \nabc\r\n",
            "3 3\r\nabc\r\n",
            "3 \x0b\r\nabc\r\n",
            "3 \0\r\nabc\r\n",
            "+3\r\n",
            "-1\r\n",
            "0x3\r\n",
            "3\r\rabc",
            "g\r\n",
            ";\r\n",
            "3;a\nb\r\n",
            "3;\0\r\n",
            "0\n",
            "0\r\n\r\r",
            "3\r\nabc\rX",
            "00000000000000001\r\n",
        ] {
            assert_eq!(chunked(input.as_bytes()), Err(BodyError::ChunkInvalid), "{input:?}");
        }
    }

    #[test]
    fn malformed_trailers_are_refused() {
        for trailer in
            ["\n", "X\r\n", ": a\r\n", "X : a\r\n", " X: a\r\n", "X: a\n", "X: \0\r\n", "X: a\rb\r\n"]
        {
            let input = format!("0\r\n{trailer}\r\n");
            assert_eq!(chunked(input.as_bytes()), Err(BodyError::TrailerInvalid), "{trailer:?}");
        }
    }

    #[test]
    fn limits_hold_for_lengths_extensions_and_trailers() {
        assert_eq!(BodyDecoder::new(BodyFraming::Length(LIMIT + 1), LIMIT).err(), Some(BodyError::TooLarge));
        assert!(BodyDecoder::new(BodyFraming::Length(LIMIT), LIMIT).is_ok());
        assert_eq!(chunked(b"100001\r\n"), Err(BodyError::TooLarge));
        assert_eq!(chunked(b"1\r\na\r\n100000\r\n"), Err(BodyError::TooLarge));
        assert_eq!(chunked(b"ffffffffffffffff\r\n"), Err(BodyError::TooLarge));
        let extended = format!("1;{}\r\na\r\n", "e".repeat(CHUNK_EXTENSION_BYTES_MAX));
        assert_eq!(chunked(extended.as_bytes()), Err(BodyError::ExtensionsTooLong));
        let trailer = format!("0\r\nX: {}\r\n\r\n", "t".repeat(TRAILER_BYTES_MAX));
        assert_eq!(chunked(trailer.as_bytes()), Err(BodyError::TrailerTooLong));
    }

    #[test]
    fn the_extension_limit_is_for_the_whole_body() {
        let mut body = Vec::new();
        for _ in 0..=CHUNK_EXTENSION_BYTES_MAX / 16 {
            body.extend_from_slice(b"1;aaaaaaaaaaaaaaa\r\nx\r\n");
        }
        assert_eq!(chunked(&body), Err(BodyError::ExtensionsTooLong));
    }

    #[test]
    fn each_error_has_its_status() {
        assert_eq!(BodyError::TooLarge.status(), 413);
        assert_eq!(BodyError::ChunkInvalid.status(), 400);
        assert_eq!(BodyError::TrailerTooLong.status(), 431);
    }

    proptest! {
        #[test]
        fn any_split_decodes_alike(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in prop::collection::vec(0_usize..400, 0..8),
        ) {
            let mut input = Vec::new();
            for chunk in &chunks {
                crate::http::encode::chunk(&mut input, chunk);
            }
            input.extend_from_slice(crate::http::encode::LAST_CHUNK);
            let end = input.len();
            input.extend_from_slice(b"GET / HTTP/1.1\r\n");
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.sort_unstable();
            prop_assert_eq!(decode(BodyFraming::Chunked, &input, &cuts), Ok((chunks.concat(), end, true)));
        }

        #[test]
        fn any_bytes_in_any_split_agree(
            input in prop::collection::vec(prop::sample::select(&b"0123af;\r\n:X \0"[..]), 0..60),
            cuts in prop::collection::vec(0_usize..60, 0..8),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.sort_unstable();
            prop_assert_eq!(decode(BodyFraming::Chunked, &input, &cuts), decode(BodyFraming::Chunked, &input, &[]));
        }
    }

    #[test]
    fn a_framed_body_ends_on_demand_and_keeps_its_limit() {
        let mut decoder = BodyDecoder::new(BodyFraming::Framed, 5).unwrap();
        let mut out = Vec::new();
        assert_eq!(decoder.decode(b"abc", &mut out), Ok(BodyProgress { consumed: 3, done: false }));
        assert_eq!(decoder.decode(b"", &mut out), Ok(BodyProgress { consumed: 0, done: false }));
        assert_eq!(decoder.decode(b"def", &mut out), Err(BodyError::TooLarge));
        let mut decoder = BodyDecoder::new(BodyFraming::Framed, 5).unwrap();
        decoder.end();
        assert!(decoder.is_done());
    }
}
