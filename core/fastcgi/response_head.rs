//! The header of a CGI response (RFC 3875, section 6).
//!
//! Lines end in CR LF or LF, and an empty line ends the header. The length is bounded; whether a field may be sent is up
//! to the caller.

use memchr::memchr;

use super::fault::Fault;
use crate::limits::FASTCGI_HEAD_BYTES_MAX;

/// The header of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// The status code: that of `Status`, else 302 with `Location`, else 200. Not checked further.
    pub status: i32,
    /// The line that sets the status, or empty.
    pub status_line: &'a [u8],
    /// The other lines, without their ends.
    pub lines: Vec<&'a [u8]>,
}

/// Collects the bytes of a header.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    bytes: Vec<u8>,
    /// Where the line begins that is not complete.
    line_at: usize,
    /// Where the next line break is searched for.
    searched: usize,
}

impl HeadReader {
    /// Takes bytes up to the end of the header off `bytes`; returns whether the header is complete.
    ///
    /// # Errors
    ///
    /// [`Fault::HeadTooLarge`].
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Result<bool, Fault> {
        let before = self.bytes.len();
        let room = FASTCGI_HEAD_BYTES_MAX - before;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        while let Some(found) = memchr(b'\n', &self.bytes[self.searched..]) {
            let line_end = self.searched + found;
            let is_empty = matches!(&self.bytes[self.line_at..line_end], [] | [b'\r']);
            (self.line_at, self.searched) = (line_end + 1, line_end + 1);
            if is_empty {
                *bytes = &bytes[line_end + 1 - before..];
                self.bytes.truncate(line_end + 1);
                return Ok(true);
            }
        }
        self.searched = self.bytes.len();
        if bytes.len() > room {
            return Err(Fault::HeadTooLarge);
        }
        *bytes = &[];
        Ok(false)
    }

    /// Returns the complete header.
    pub(super) fn head(&self) -> ResponseHead<'_> {
        let mut head = ResponseHead { status: 0, status_line: b"", lines: Vec::new() };
        let mut has_location = false;
        for line in self.bytes.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(value) = value_of(b"status", line) {
                let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).take(9);
                head.status = digits.fold(0, |number, digit| number * 10 + i32::from(digit - b'0'));
                head.status_line = line;
            } else if !line.is_empty() {
                has_location |= value_of(b"location", line).is_some();
                head.lines.push(line);
            }
        }
        if head.status_line.is_empty() {
            head.status = if has_location { 302 } else { 200 };
        }
        head
    }

    /// Forgets the header, and keeps the memory for the next one unless it is large.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        (self.line_at, self.searched) = (0, 0);
    }
}

/// Returns the value of a line if its field has this name.
fn value_of<'a>(name: &[u8], line: &'a [u8]) -> Option<&'a [u8]> {
    let (field, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":").filter(|_| field.eq_ignore_ascii_case(name))?;
    Some(value.trim_ascii())
}

/// The memory that an idle connection keeps for headers.
const KEPT_BYTES: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a header that arrives in pieces of `step` bytes; returns it with the bytes behind it.
    fn read(text: &[u8], step: usize) -> (i32, Vec<u8>, Vec<Vec<u8>>, Vec<u8>) {
        let mut reader = HeadReader::default();
        for at in (0..text.len()).step_by(step) {
            let mut bytes = &text[at..(at + step).min(text.len())];
            if reader.read(&mut bytes).unwrap() {
                let rest = [bytes, &text[(at + step).min(text.len())..]].concat();
                let head = reader.head();
                let lines = head.lines.iter().map(|line| line.to_vec()).collect();
                return (head.status, head.status_line.to_vec(), lines, rest);
            }
            assert!(bytes.is_empty(), "all bytes are taken");
        }
        panic!("{} is not complete", text.escape_ascii());
    }

    #[test]
    fn a_header_does_not_depend_on_how_bytes_arrive() {
        let text = b"Status: 404 Not Found\r\nContent-type: text/html\r\nX-A:b\r\n\r\nbody\r\n\r\n";
        for step in 1..=text.len() {
            let (status, line, lines, rest) = read(text, step);
            assert_eq!((status, &line[..]), (404, &b"Status: 404 Not Found"[..]), "{step}");
            assert_eq!(lines, [&b"Content-type: text/html"[..], b"X-A:b"], "{step}");
            assert_eq!(rest, b"body\r\n\r\n", "{step}");
        }
    }

    #[test]
    fn lines_may_end_in_lf_alone() {
        assert_eq!(read(b"A: 1\nB: 2\n\nx", 100).2, [&b"A: 1"[..], b"B: 2"]);
        assert_eq!(read(b"A: 1\r\nB: 2\n\r\nx", 100).3, b"x");
    }

    #[test]
    fn a_header_may_be_empty() {
        assert_eq!(read(b"\r\nbody", 100), (200, Vec::new(), Vec::new(), b"body".to_vec()));
        assert_eq!(read(b"\nbody", 1).3, b"body");
    }

    #[test]
    fn the_status_of_a_redirect_is_302_unless_it_is_given() {
        assert_eq!(read(b"Location: /a\r\n\r\n", 100).0, 302);
        assert_eq!(read(b"STATUS:301\r\nlocation: /a\r\n\r\n", 100).0, 301);
        assert_eq!(read(b"Status: none\r\n\r\n", 100).0, 0, "the caller makes it 500");
        assert_eq!(read(b"Status: 99999999999999\r\n\r\n", 100).0, 999_999_999);
        assert_eq!(read(b"X-Status: 404\r\n\r\n", 100).0, 200);
    }

    #[test]
    fn a_header_of_the_greatest_length_is_read_and_a_longer_one_is_a_fault() {
        let mut text = vec![b'a'; FASTCGI_HEAD_BYTES_MAX - 2];
        text.extend_from_slice(b"\n\n");
        let mut reader = HeadReader::default();
        let mut bytes = &text[..];
        assert_eq!((reader.read(&mut bytes), bytes.len()), (Ok(true), 0));
        text.insert(0, b'a');
        for step in [1000, text.len()] {
            let mut reader = HeadReader::default();
            let outcome = text.chunks(step).try_for_each(|mut part| reader.read(&mut part).map(drop));
            assert_eq!(outcome, Err(Fault::HeadTooLarge), "{step}");
        }
    }

    #[test]
    fn a_cleared_reader_begins_anew() {
        let mut reader = HeadReader::default();
        assert_eq!(reader.read(&mut &b"A: 1\r\n"[..]), Ok(false));
        reader.clear();
        assert!(reader.bytes.is_empty());
        assert_eq!(reader.read(&mut &b"\r\n"[..]), Ok(true));
        assert!(reader.head().lines.is_empty());
    }
}
