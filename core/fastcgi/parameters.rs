//! The name-value pairs of a request, as records.
//!
//! PHP requires that a record holds whole pairs, although PARAMS is a stream. A record therefore ends before a pair that
//! would not fit. Only a pair that is too long for any record is split, which other responders can read.

use super::record::{RECORD_CONTENT_MAX, RecordType, put};

/// Appends all pairs and the end of the stream.
pub(super) fn put_parameters<'a>(
    request_id: u16,
    pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) {
    let mut content = Vec::new();
    let mut begin = 0;
    for (name, value) in pairs {
        let pair_at = content.len();
        put_len(name.len(), &mut content);
        put_len(value.len(), &mut content);
        content.extend_from_slice(name);
        content.extend_from_slice(value);
        if content.len() - begin > RECORD_CONTENT_MAX {
            put_split(request_id, &content[begin..pair_at], out);
            begin = pair_at;
        }
    }
    put_split(request_id, &content[begin..], out);
    put(RecordType::Params, request_id, b"", out);
}

/// Appends as many records as the content needs.
fn put_split(request_id: u16, content: &[u8], out: &mut Vec<u8>) {
    for part in content.chunks(RECORD_CONTENT_MAX) {
        put(RecordType::Params, request_id, part, out);
    }
}

/// Appends a length: one byte up to 127, else four.
fn put_len(len: usize, out: &mut Vec<u8>) {
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out.push(short),
        // Longer values are not possible: they come from a request's header, or from settings.
        _ => out.extend_from_slice(&(u32::try_from(len).unwrap_or(u32::MAX) | 0x8000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{RecordPiece, RecordReader};
    use super::*;

    /// Returns the content of each record.
    fn records(pairs: &[(&[u8], &[u8])]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        put_parameters(1, pairs.iter().copied(), &mut out);
        let (mut reader, mut rest, mut found) = (RecordReader::default(), &out[..], Vec::new());
        while let Some(piece) = reader.next(&mut rest).unwrap() {
            match piece {
                RecordPiece::Begin(_) => found.push(Vec::new()),
                RecordPiece::Content(bytes) => found.last_mut().unwrap().extend_from_slice(bytes),
                RecordPiece::End => {}
            }
        }
        found
    }

    #[test]
    fn short_lengths_take_one_byte_and_long_ones_four() {
        assert_eq!(records(&[(b"A", b"")]), [&b"\x01\x00A"[..], b""]);
        let long = [b'x'; 128];
        let expected = [&b"\x01\x80\x00\x00\x80A"[..], &long].concat();
        assert_eq!(records(&[(b"A", &long)])[0], expected);
        assert_eq!(records(&[(b"A", &long[..127])])[0].len(), 2 + 1 + 127);
    }

    #[test]
    fn no_pairs_are_an_empty_stream() {
        assert_eq!(records(&[]), [b""]);
    }

    #[test]
    fn a_pair_is_not_split_if_a_record_can_hold_it() {
        let value = vec![b'v'; 40_000];
        let found = records(&[(b"A", &value), (b"B", &value), (b"C", b"1")]);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [40_006, 40_006 + 4, 0]);
    }

    #[test]
    fn a_pair_that_fills_a_record_exactly_is_one_record() {
        let value = vec![b'v'; RECORD_CONTENT_MAX - 6];
        assert_eq!(
            records(&[(b"A", &value)]).iter().map(Vec::len).collect::<Vec<_>>(),
            [RECORD_CONTENT_MAX, 0]
        );
    }

    #[test]
    fn a_pair_that_no_record_can_hold_is_split() {
        let value = vec![b'v'; 2 * RECORD_CONTENT_MAX];
        let found = records(&[(b"A", b"1"), (b"B", &value), (b"C", b"2")]);
        let lengths: Vec<_> = found.iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, RECORD_CONTENT_MAX, RECORD_CONTENT_MAX, 6, 4, 0]);
    }
}
