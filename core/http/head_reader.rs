//! Finds request headers in the bytes of a connection, however these arrive.
//!
//! The end of the header is searched once over each byte, so a client that sends one byte at a time costs no more than
//! one that sends everything at once. Errors that need no further input are reported immediately. The header is
//! interpreted by [`parse`](super::parse).

use memchr::memchr;

use super::head_error::HeadError;
use super::parse::{HeadLimits, Parsed, REQUEST_LINE_REST_BYTES, complete};
use super::token::is_token_byte;
use crate::limits::HEAD_EMPTY_LINES_MAX;

/// Finds and parses request headers one after another in a growing buffer.
///
/// Call [`read`](Self::read) whenever the buffer has grown. The buffer starts at the first byte that no earlier
/// complete header has consumed. After `Complete`, the reader is ready for the next header.
#[derive(Debug)]
pub struct HeadReader {
    limits: HeadLimits,
    start: usize,
    line_start: usize,
    scanned: usize,
}

/// Parses the header at the start of `buf`, without state from earlier attempts.
///
/// # Errors
///
/// If the header is rejected; see [`HeadError::status`].
pub fn parse(buf: &[u8], limits: HeadLimits) -> Result<Parsed, HeadError> {
    HeadReader::new(limits).read(buf)
}

impl Default for HeadReader {
    /// Creates a reader with the limits of the main port.
    fn default() -> Self {
        Self::new(HeadLimits::main_port())
    }
}

impl HeadReader {
    /// Creates a reader before the first header.
    pub const fn new(limits: HeadLimits) -> Self {
        Self { limits, start: 0, line_start: 0, scanned: 0 }
    }

    /// Returns whether a byte of a header (not only of empty lines before it) has been seen.
    pub const fn has_begun(&self) -> bool {
        self.scanned > self.start
    }

    /// Continues where the last call stopped.
    ///
    /// # Errors
    ///
    /// If the header is rejected; see [`HeadError::status`]. The reader cannot be used afterwards.
    pub fn read(&mut self, buf: &[u8]) -> Result<Parsed, HeadError> {
        if !self.has_begun() && !self.skip_empty_lines(buf)? {
            return Ok(Parsed::Partial);
        }
        let Some(end) = self.find_end(buf)? else {
            self.check_partial(buf.len())?;
            return Ok(Parsed::Partial);
        };
        if end - self.start > self.limits.bytes_max {
            return Err(HeadError::TooLarge);
        }
        let parsed = complete(&buf[self.start..end], end, self.limits)?;
        *self = Self::new(self.limits);
        Ok(parsed)
    }

    /// Skips empty lines before the request line. Returns whether the first byte of the header is present.
    fn skip_empty_lines(&mut self, buf: &[u8]) -> Result<bool, HeadError> {
        loop {
            match &buf[self.start..] {
                [] | [b'\r'] => return Ok(false),
                [b'\r', b'\n', ..] if self.start < 2 * HEAD_EMPTY_LINES_MAX => self.start += 2,
                [b'\r' | b'\n', ..] => return Err(HeadError::LineEndInvalid),
                // This also rejects a TLS client on a plain port immediately, instead of letting it time out.
                [first, ..] if !is_token_byte(*first) => return Err(HeadError::RequestLineInvalid),
                _ => {
                    self.line_start = self.start;
                    self.scanned = self.start;
                    return Ok(true);
                }
            }
        }
    }

    /// Searches for the empty line that ends the header and returns the position after it.
    fn find_end(&mut self, buf: &[u8]) -> Result<Option<usize>, HeadError> {
        while let Some(found) = memchr(b'\n', &buf[self.scanned..]) {
            let line_feed = self.scanned + found;
            let line = &buf[self.line_start..line_feed];
            if line.last() != Some(&b'\r') {
                return Err(HeadError::LineEndInvalid);
            }
            // Same error as for a line that has not ended, however the bytes arrive: a long method counts.
            let in_request_line = self.line_start == self.start;
            if in_request_line && line.len() > self.limits.target_bytes_max + REQUEST_LINE_REST_BYTES {
                return Err(HeadError::TargetTooLong);
            }
            self.scanned = line_feed + 1;
            self.line_start = self.scanned;
            if line.len() == 1 {
                return Ok(Some(self.scanned));
            }
        }
        self.scanned = buf.len();
        Ok(None)
    }

    fn check_partial(&self, buf_len: usize) -> Result<(), HeadError> {
        let in_request_line = self.line_start == self.start;
        let length = buf_len - self.start;
        if in_request_line && length > self.limits.target_bytes_max + REQUEST_LINE_REST_BYTES {
            return Err(HeadError::TargetTooLong);
        }
        if length > self.limits.bytes_max {
            return Err(HeadError::TooLarge);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits::main_port();

    #[test]
    fn a_few_empty_lines_before_the_request_are_skipped() {
        let after = |lines: usize| {
            let text = format!("{}GET / HTTP/1.0\r\n\r\n", "\r\n".repeat(lines));
            parse(text.as_bytes(), LIMITS).map(|parsed| match parsed {
                Parsed::Complete { length, head, .. } => (length == text.len(), head.target().to_vec()),
                Parsed::Partial => panic!("partial"),
            })
        };
        assert_eq!(after(HEAD_EMPTY_LINES_MAX), Ok((true, b"/".to_vec())));
        assert_eq!(after(HEAD_EMPTY_LINES_MAX + 1).err(), Some(HeadError::LineEndInvalid));
    }

    #[test]
    fn the_reader_is_ready_for_the_next_head() {
        let stream = b"GET /1 HTTP/1.0\r\n\r\n\r\nGET /2 HTTP/1.0\r\n\r\n";
        let mut reader = HeadReader::new(LIMITS);
        let mut at = 0;
        for expected in [b"/1", b"/2"] {
            let Ok(Parsed::Complete { head, length, .. }) = reader.read(&stream[at..]) else {
                panic!("refused")
            };
            assert_eq!(head.target(), expected);
            at += length;
        }
        assert_eq!(at, stream.len());
        assert!(!reader.has_begun());
    }

    #[test]
    fn a_head_begins_with_its_first_byte_and_not_with_empty_lines() {
        let mut reader = HeadReader::new(LIMITS);
        for (text, begun) in [("", false), ("\r", false), ("\r\n", false), ("\r\nG", true)] {
            assert!(matches!(reader.read(text.as_bytes()), Ok(Parsed::Partial)));
            assert_eq!(reader.has_begun(), begun, "{text:?}");
        }
    }

    /// Feeds `text` in growing pieces and returns the first result as text.
    fn dripped(text: &[u8], cuts: &[usize]) -> String {
        let mut reader = HeadReader::new(LIMITS);
        for end in cuts.iter().copied().chain([text.len()]) {
            match reader.read(&text[..end]) {
                Ok(Parsed::Partial) => {}
                other => return format!("{other:?}"),
            }
        }
        "partial".into()
    }

    proptest! {
        #[test]
        fn any_split_reads_alike(
            pieces in prop::collection::vec(prop::sample::select(&[
                "GET / HTTP/1.1", "GET http://a/b?c HTTP/1.0", "\r\n", "\r\n", "\r\n", "\n", "\r", "Host: h", "A: b",
                "Content-Length: 3", "Transfer-Encoding: chunked", " ", "\0",
            ][..]), 0..12),
            cuts in prop::collection::vec(0_usize..120, 0..6),
        ) {
            let text = pieces.concat().into_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let whole = dripped(&text, &[]);
            let split = dripped(&text, &cuts);
            // A rejection may come earlier and name another reason; an accepted header is the same.
            if whole.starts_with("Err") || split.starts_with("Err") {
                prop_assert_eq!(whole.starts_with("Err"), split.starts_with("Err"));
            } else {
                prop_assert_eq!(whole, split);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, LIMITS);
            let _ = parse(&[b"GET / HTTP/1.1\r\n", &bytes[..], b"\r\n\r\n"].concat(), LIMITS);
        }
    }
}
